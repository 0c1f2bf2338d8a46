//! State of operators, between their typed tables and the files that outlive them.
//!
//! An operator works on typed tables in memory. After a barrier, and when groups have to leave memory, it writes what
//! has changed since the last time into its [`KeyedState`]s, which encode rows and hand them to a store of sorted
//! runs; the store's snapshot is what the checkpoint names. A barrier only notes what has changed: it is written in
//! slices between elements, and what changes before its turn is written as it was. A restored operator reads its
//! states back into its tables, all at once or when they are met again.

mod asked;
mod changes;
mod codec;
mod files;
mod in_flight;
mod keyed;
mod origin;
mod stores;
mod upkeep;

pub(crate) use changes::{Changes, Tracking};
pub(crate) use files::{SnapshotFiles, StoredRuns, write_store};
pub(crate) use in_flight::{decode_elements, encode_element};
pub(crate) use keyed::{KeyedLayout, KeyedState};
pub(crate) use origin::{Origin, unreadable};
pub use stores::OperatorStates;
pub(crate) use stores::{OpenStore, OpenedStore, StoreFactory};
pub(crate) use upkeep::NowMs;
