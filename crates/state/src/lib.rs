//! Keyed state: how keys are spread over key groups, how their state is kept, snapshotted and restored.
//!
//! State is **sorted runs**: immutable files of entries in key order, read newest
//! first. A [`RunStore`] is a list of such runs and of batches not yet written; a snapshot of it is the
//! list ([`RunSetDescriptor`]), so that a checkpoint writes only what changed, restoring opens files, and
//! rescaling opens them for other key groups.
//!
//! The crate knows bytes only: no Arrow, no SQL, no threads, no clock. Work is handed out as jobs, time
//! comes as a parameter, files are behind [`RunDir`].

mod batch;
mod cache;
pub mod encoding;
mod entry;
mod error;
mod fold;
pub mod io;
mod key_group;
mod range;
mod run;
mod store;
mod timers;
mod varint;

pub use batch::WriteBatch;
pub use cache::{CacheUse, PageCache};
pub use entry::{Entry, EntryKind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Value, is_expired};
pub use error::{Result, StateError};
pub use io::{LocalDir, MemoryDir, RunDir};
pub use key_group::{DEFAULT_MAX_PARALLELISM, KeyBytes, key_group, operator_index};
pub use range::{KeyGroupRange, KeyRange};
pub use run::{Compression, FORMAT_VERSION, FileReport, GroupShare, MAGIC, RunCounts, verify_file};
pub use store::{
    ExpirySpan, FileDescriptor, FlushJob, FlushResult, JobCost, KeyedStore, MemoryStore, MergeJob, MergeResult,
    Namespace, NamespaceDescriptor, Pressure, RangeDelete, RestoreReport, RunDescriptor, RunSetDescriptor, RunStore,
    ShardDescriptor, StoreOptions, StoreUse, remove_orphans,
};
pub use timers::{Timer, TimerDomain, TimerQueue};
