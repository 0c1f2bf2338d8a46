//! The store of sorted runs: sealed batches in memory, runs in files, nothing else.
//!
//! The store has no threads: [`RunStore::flush_job`] and [`RunStore::merge_job`] hand out work that the
//! caller runs where it likes, one flush and any number of merges at a time, and gives back. Until then
//! everything stays readable as it was.
//!
//! Files are owned by count: the table of files, the runs in use and each retained snapshot hold a file;
//! one that only the table holds is removed.

use super::descriptor::{RangeDelete, RunSetDescriptor};
use super::run_set::{ReadBuffers, RunSet};
use super::shard::Shard;
use super::{KeyedStore, Namespace, check_lookup};
use crate::batch::WriteBatch;
use crate::cache::{CacheUse, PageCache};
use crate::entry::Value;
use crate::error::{Result, StateError};
use crate::io::RunDir;
use crate::range::{KeyGroupRange, KeyRange};
use crate::run::{Compression, RunFile};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Ending of the names of state files.
pub(crate) const FILE_ENDING: &str = "run";

/// How a store works. `Default` is right but for the prefix.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Names of files begin with this. It must be another one for each subtask and each attempt, because
    /// names are never used twice for different content.
    pub file_prefix: String,
    /// How data blocks are kept.
    pub compression: Compression,
    /// Raw size at which a data block is closed. A lookup at random reads a block for one entry.
    pub block_bytes: usize,
    /// Size at which a run is cut and a pack is full.
    pub file_bytes: u64,
    /// Sealed batches in memory from which on a flush is wanted.
    pub flush_bytes: usize,
    /// Sealed batches in memory from which on writers should wait.
    pub sealed_limit_bytes: usize,
    /// Runs to read for one key from which on writers should wait; also sealed batches, and the runs that
    /// a snapshot names for one key.
    pub longest_chain: usize,
    /// Whether files survive a power failure before a job is done.
    pub sync: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            file_prefix: "state".into(),
            compression: Compression::Lz4,
            block_bytes: 4096,
            file_bytes: 64 << 20,
            flush_bytes: 32 << 20,
            sealed_limit_bytes: 96 << 20,
            longest_chain: 24,
            sync: true,
        }
    }
}

/// Whether the store keeps up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Memory of sealed batches.
    pub sealed_bytes: usize,
    /// About the most batches and runs that are read for one key.
    pub longest_chain: usize,
    /// A flush is due.
    pub wants_flush: bool,
    /// Writers should wait until a flush has been applied.
    pub wait_for_flush: bool,
    /// Writers should wait until a merge has been applied.
    pub wait_for_merge: bool,
}

/// What a store uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreUse {
    /// Memory of sealed batches.
    pub sealed_bytes: usize,
    /// Memory of footers and of the descriptions of runs.
    pub footer_bytes: usize,
    /// The page cache, which other stores may share.
    pub cache: CacheUse,
    /// Runs in use.
    pub runs: usize,
    /// Parts of the key space, over all namespaces.
    pub shards: usize,
    /// Files on disk, retained snapshots' included.
    pub files: usize,
    /// Their bytes.
    pub file_bytes: u64,
}

/// A run set that was dropped while a snapshot from before was still being written.
pub(super) struct Grave {
    pub(super) namespace: Namespace,
    pub(super) set: RunSet,
    pub(super) dropped: u64,
}

/// Keyed state in sorted runs.
pub struct RunStore {
    pub(super) dir: Arc<dyn RunDir>,
    pub(super) options: StoreOptions,
    pub(super) cache: Arc<PageCache>,
    pub(super) key_groups: KeyGroupRange,
    pub(super) sets: BTreeMap<Namespace, RunSet>,
    pub(super) graves: Vec<Grave>,
    /// Of the last batch, range delete, creation or drop.
    pub(super) sequence: u64,
    pub(super) next_file: u64,
    pub(super) next_job: u64,
    pub(super) files: HashMap<String, Arc<RunFile>>,
    pub(super) retained: BTreeMap<u64, Vec<Arc<RunFile>>>,
    /// Snapshots begun and not yet complete, oldest first: id and sequence.
    pub(super) open_snapshots: Vec<(u64, u64)>,
    pub(super) complete_snapshots: Vec<RunSetDescriptor>,
    /// The flush job under way.
    pub(super) flushing: Option<u64>,
    buffers: ReadBuffers,
}

impl RunStore {
    /// An empty store for `key_groups` that writes its files to `dir`.
    pub fn new(
        dir: Arc<dyn RunDir>,
        options: StoreOptions,
        cache: Arc<PageCache>,
        key_groups: KeyGroupRange,
    ) -> RunStore {
        RunStore {
            dir,
            options,
            cache,
            key_groups,
            sets: BTreeMap::new(),
            graves: Vec::new(),
            sequence: 0,
            next_file: 0,
            next_job: 0,
            files: HashMap::new(),
            retained: BTreeMap::new(),
            open_snapshots: Vec::new(),
            complete_snapshots: Vec::new(),
            flushing: None,
            buffers: ReadBuffers::default(),
        }
    }

    /// The key groups it is for.
    pub fn key_groups(&self) -> KeyGroupRange {
        self.key_groups
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn set_of(&mut self, namespace: Namespace) -> &mut RunSet {
        if !self.sets.contains_key(&namespace) {
            let created = self.next_sequence();
            self.sets.insert(namespace, RunSet::new(created));
        }
        self.sets.entry(namespace).or_insert_with(|| RunSet::new(0))
    }

    /// Live run sets, and those that only an open snapshot still needs.
    pub(super) fn all_sets(&self) -> impl Iterator<Item = (Namespace, &RunSet)> {
        let graves = self.graves.iter().map(|grave| (grave.namespace, &grave.set));
        self.sets.iter().map(|(namespace, set)| (*namespace, set)).chain(graves)
    }

    /// Removes files that neither the live sets nor a retained snapshot names.
    pub(super) fn remove_unused(&mut self) -> Result<()> {
        let mut failed = Ok(());
        let dir = &self.dir;
        self.files.retain(|name, file| {
            if Arc::strong_count(file) > 1 {
                return true;
            }
            match dir.remove(name) {
                Ok(()) => false,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(source) => {
                    failed = Err(StateError::Io { file: name.clone(), action: "remove", source });
                    true
                }
            }
        });
        failed
    }

    fn sealed_bytes(&self) -> usize {
        self.all_sets().flat_map(|(_, set)| &set.batches).map(|(_, batch)| batch.memory_bytes()).sum()
    }

    /// Whether flushes and merges keep up with writes.
    pub fn pressure(&self) -> Pressure {
        let sealed_bytes = self.sealed_bytes();
        let batches = self.sets.values().map(|set| set.batches.len()).max().unwrap_or(0);
        let runs = self.sets.values().flat_map(|set| &set.shards).map(|shard| shard.levels.len()).max().unwrap_or(0);
        let longest = self.options.longest_chain;
        Pressure {
            sealed_bytes,
            longest_chain: batches + runs,
            wants_flush: sealed_bytes >= self.options.flush_bytes || batches >= longest / 2,
            wait_for_flush: sealed_bytes >= self.options.sealed_limit_bytes || batches >= longest,
            wait_for_merge: runs >= longest,
        }
    }

    /// What the store uses of memory and disk.
    pub fn usage(&self) -> StoreUse {
        let mut runs: HashMap<u64, usize> = HashMap::new();
        let mut shards = 0;
        for shard in self.all_sets().flat_map(|(_, set)| &set.shards) {
            shards += 1;
            runs.extend(shard.runs().map(|run| (run.uid, run.memory_bytes())));
        }
        StoreUse {
            sealed_bytes: self.sealed_bytes(),
            footer_bytes: runs.values().sum(),
            cache: self.cache.usage(),
            runs: runs.len(),
            shards,
            files: self.files.len(),
            file_bytes: self.files.values().map(|file| file.written.bytes).sum(),
        }
    }
}

impl KeyedStore for RunStore {
    fn get(
        &mut self,
        namespace: Namespace,
        keys: &[&[u8]],
        now_ms: i64,
        answer: &mut dyn FnMut(usize, Option<Value<'_>>),
    ) -> Result<()> {
        check_lookup(keys)?;
        match self.sets.get(&namespace) {
            Some(set) => set.get(keys, now_ms, &self.cache, &mut self.buffers, answer),
            None => {
                (0..keys.len()).for_each(|index| answer(index, None));
                Ok(())
            }
        }
    }

    fn write(&mut self, namespace: Namespace, mut batch: WriteBatch) -> Result<()> {
        let Some((first, last)) = batch.ends() else {
            return Ok(());
        };
        let range = self.key_groups.keys();
        if !range.contains(first) || !range.contains(last) {
            return Err(StateError::Misuse(format!(
                "a batch has keys outside of the store's key groups {}..{}",
                self.key_groups.first, self.key_groups.end
            )));
        }
        batch.seal();
        self.set_of(namespace);
        let sequence = self.next_sequence();
        self.set_of(namespace).batches.push((sequence, Arc::new(batch)));
        Ok(())
    }

    fn scan(
        &mut self,
        namespace: Namespace,
        range: &KeyRange,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.sets.get(&namespace).filter(|_| !range.is_empty()) {
            Some(set) => set.scan(range, now_ms, &self.cache, &mut self.buffers, visit),
            None => Ok(()),
        }
    }

    fn delete_range(&mut self, namespace: Namespace, range: &KeyRange) -> Result<()> {
        if range.is_empty() || !self.sets.contains_key(&namespace) {
            return Ok(());
        }
        let sequence = self.next_sequence();
        let set = self.set_of(namespace);
        set.range_deletes.push(RangeDelete { sequence, range: range.clone() });
        Ok(())
    }

    fn drop_namespace(&mut self, namespace: Namespace) -> Result<()> {
        let Some(set) = self.sets.remove(&namespace) else {
            return Ok(());
        };
        let dropped = self.next_sequence();
        let mut runs: Vec<_> =
            set.shards.iter().flat_map(Shard::runs).map(|run| (run.uid, run.pages_known())).collect();
        runs.dedup();
        runs.iter().for_each(|(uid, pages)| self.cache.forget(*uid, *pages));
        if self.open_snapshots.iter().any(|(_, sequence)| *sequence >= set.created) {
            self.graves.push(Grave { namespace, set, dropped });
            return Ok(());
        }
        drop(set);
        self.remove_unused()
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.sets.keys().copied().collect()
    }
}
