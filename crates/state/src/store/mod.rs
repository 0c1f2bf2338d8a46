//! Keyed-state stores: bytes in, bytes out, a batch at a time.
//!
//! A store holds **namespaces** (window slices, or one for everything else), each with keys of its own
//! that begin with their key group. Operators keep hot state in typed tables above and come here with
//! sorted batches: keys they miss, entries they evict, what a barrier found dirty.

mod answers;
mod descriptor;
mod job;
mod lookup;
mod memory;
mod merge_cursor;
mod pick;
mod restore;
mod run_set;
mod run_store;
mod shard;
mod snapshot;
mod work;

pub use descriptor::{
    ExpirySpan, FileDescriptor, NamespaceDescriptor, RangeDelete, RunDescriptor, RunSetDescriptor, ShardDescriptor,
};
pub use job::{FlushJob, FlushResult, JobCost, MergeJob, MergeResult};
pub use memory::MemoryStore;
pub use restore::{RestoreReport, remove_orphans};
pub use run_store::{Pressure, RunStore, StoreOptions, StoreUse};

use crate::batch::WriteBatch;
use crate::entry::Value;
use crate::error::{Result, StateError};
use crate::range::{KeyRange, check_key};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// A part of the state that is dropped as one: usually a window slice, named by its end in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Namespace(pub i64);

impl Namespace {
    /// State that belongs to no window.
    pub const GLOBAL: Namespace = Namespace(i64::MIN);
}

/// State by key, as operators use it.
///
/// Expiry: an entry written with `expires_ms` is dead once `now_ms >= expires_ms`; no call returns it
/// from then on. Whether a read prolongs it is the caller's decision: it writes the entry again.
pub trait KeyedStore {
    /// Looks up distinct keys in ascending order. `answer` is called once for each, with its index, in
    /// no particular order.
    fn get(
        &mut self,
        namespace: Namespace,
        keys: &[&[u8]],
        now_ms: i64,
        answer: &mut dyn FnMut(usize, Option<Value<'_>>),
    ) -> Result<()>;

    /// Writes a batch; it is seen by every later call.
    fn write(&mut self, namespace: Namespace, batch: WriteBatch) -> Result<()>;

    /// Visits the keys of `range` in ascending order until `visit` breaks.
    fn scan(
        &mut self,
        namespace: Namespace,
        range: &KeyRange,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Deletes the keys of `range`, in time that does not depend on their number.
    fn delete_range(&mut self, namespace: Namespace, range: &KeyRange) -> Result<()>;

    /// Forgets a whole namespace. One that does not exist is no error.
    fn drop_namespace(&mut self, namespace: Namespace) -> Result<()>;

    /// The namespaces that have been written to and not dropped, ascending.
    fn namespaces(&self) -> Vec<Namespace>;
}

/// Holds the keys of a lookup to the rule.
pub(crate) fn check_lookup(keys: &[&[u8]]) -> Result<()> {
    keys.first().map_or(Ok(()), |key| check_key(key))?;
    if keys.is_sorted_by(|a, b| a < b) {
        Ok(())
    } else {
        Err(StateError::Misuse("keys of a lookup must be distinct and ascend".into()))
    }
}
