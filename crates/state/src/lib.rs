//! Keyed state: how keys are spread over key groups, how their state is kept, snapshotted and restored.
//!
//! State is **sorted runs**: immutable files of entries in key order, read newest first. A [`RunStore`]
//! is a list of such runs and of batches not yet written; a snapshot of it is the list
//! ([`RunSetDescriptor`]), so that a checkpoint writes only what changed, restoring opens files, and
//! rescaling opens them for other key groups.
//!
//! ```text
//! write(batch) ──> sealed batches ──flush job──> runs, newest first ──merge jobs──> fewer, larger runs
//!                        │                        │  (each key range, a shard, on its own)
//!                        └────── get, scan ───────┘
//! ```
//!
//! The crate knows bytes only: no Arrow, no SQL, no threads, no clock. Work is handed out as jobs, time
//! comes as a parameter, files are behind [`RunDir`].
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_state::*;
//!
//! # fn main() -> Result<()> {
//! let (dir, cache) = (Arc::new(MemoryDir::default()), Arc::new(PageCache::new(1 << 20)));
//! let groups = KeyGroupRange::new(0, 128);
//! let mut store = RunStore::new(dir.clone(), StoreOptions::default(), cache.clone(), groups);
//!
//! let mut batch = WriteBatch::new();
//! batch.push(b"\x00\x07alice", Entry::put(b"12"))?;
//! batch.push(b"\x00\x09bob", Entry::put(b"3").expiring_at(1_000))?;
//! store.write(Namespace::GLOBAL, batch)?;
//! let snapshot = store.snapshot(1, 0)?;
//!
//! // Another subtask takes over key groups 0 to 8.
//! let options = StoreOptions { file_prefix: "second".into(), ..StoreOptions::default() };
//! let groups = KeyGroupRange::new(0, 9);
//! let (mut store, _) = RunStore::restore(dir, options, cache, &[snapshot], groups)?;
//! let mut found = Vec::new();
//! store.get(Namespace::GLOBAL, &[b"\x00\x07alice", b"\x00\x09bob"], 0, &mut |_, value| {
//!     found.push(value.map(|value| value.bytes.to_vec()));
//! })?;
//! assert_eq!(found, [Some(b"12".to_vec()), None]);
//! # Ok(())
//! # }
//! ```

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
