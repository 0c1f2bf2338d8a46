//! The store of sorted runs: sealed batches in memory, runs in files, nothing else.
//!
//! The store has no threads: [`RunStore::flush_job`] and [`RunStore::merge_job`] hand out work that the
//! caller runs where it likes, one flush and any number of merges at a time, and gives back. Until then
//! everything stays readable as it was.
//!
//! Files are owned by count: the table of files, the runs in use and each retained snapshot hold a file;
//! one that only the table holds is removed.

use super::descriptor::{RangeDelete, RunSetDescriptor};
use super::job::{FlushJob, FlushResult, Job, JobResult, MergeJob, MergeResult, Output, Task, TaskSource};
use super::pick::pick_sizes;
use super::run_set::{ReadBuffers, RunSet, Shard};
use super::{KeyedStore, Namespace, check_lookup};
use crate::batch::WriteBatch;
use crate::cache::{CacheUse, PageCache};
use crate::entry::Value;
use crate::error::{Result, StateError};
use crate::io::RunDir;
use crate::range::{KeyGroupRange, KeyRange};
use crate::run::{Compression, Run, RunFacts, RunFile};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
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
    /// Size at which a run is cut and a pack is full.
    pub file_bytes: u64,
    /// Sealed batches in memory from which on a flush is wanted.
    pub flush_bytes: usize,
    /// Sealed batches in memory from which on writers should wait.
    pub sealed_limit_bytes: usize,
    /// Runs to read for one key from which on writers should wait.
    pub longest_chain: usize,
    /// Whether files survive a power failure before a job is done.
    pub sync: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            file_prefix: "state".into(),
            compression: Compression::Lz4,
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
    /// Most runs that are read for one key.
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
    next_job: u64,
    pub(super) files: HashMap<String, Arc<RunFile>>,
    pub(super) retained: BTreeMap<u64, Vec<Arc<RunFile>>>,
    /// Snapshots begun and not yet complete, oldest first: id and sequence.
    pub(super) open_snapshots: Vec<(u64, u64)>,
    pub(super) complete_snapshots: Vec<RunSetDescriptor>,
    flushing: Option<u64>,
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

    fn find_set(&mut self, output: &Output) -> Option<&mut RunSet> {
        let graves = self.graves.iter_mut().map(|grave| (grave.namespace, &mut grave.set));
        let sets = self.sets.iter_mut().map(|(namespace, set)| (*namespace, set));
        let mut all = sets.chain(graves);
        all.find(|(namespace, set)| *namespace == output.namespace && set.created == output.created).map(|(_, set)| set)
    }

    fn new_job(&mut self, now_ms: i64) -> Job {
        self.next_job += 1;
        self.next_file += 1;
        Job {
            id: self.next_job,
            dir: Arc::clone(&self.dir),
            name_stem: format!("{}-{:08}", self.options.file_prefix, self.next_file),
            compression: self.options.compression,
            file_bytes: self.options.file_bytes,
            sync: self.options.sync,
            now_ms,
            bytes: 0,
            tasks: Vec::new(),
        }
    }

    /// Work that writes the sealed batches to files: up to the oldest snapshot that waits for it, else
    /// all. `None` when there is nothing to write or a flush is under way.
    pub fn flush_job(&mut self, now_ms: i64) -> Option<FlushJob> {
        if self.flushing.is_some() {
            return None;
        }
        let through = self.open_snapshots.first().map_or(self.sequence, |(_, sequence)| *sequence);
        let mut job = self.new_job(now_ms);
        for (namespace, set) in self.all_sets() {
            let batches: Vec<_> = set.batches.iter().take_while(|(sequence, _)| *sequence <= through).collect();
            let (Some((oldest, _)), Some((newest, _))) = (batches.first(), batches.last()) else {
                continue;
            };
            job.bytes += batches.iter().map(|(_, batch)| batch.data_bytes() as u64).sum::<u64>();
            let source = |(sequence, batch): &&(u64, Arc<WriteBatch>)| {
                let hidden = set.hidden_from(*sequence, &KeyRange::all(), through);
                (TaskSource::Batch(Arc::clone(batch)), hidden)
            };
            job.tasks.push(Task {
                namespace,
                created: set.created,
                range: KeyRange::all(),
                sources: batches.iter().rev().map(source).collect(),
                is_bottom: set.shards.iter().all(|shard| shard.runs.is_empty()),
                sequences: (*oldest, *newest),
                deleted_through: set.deleted_through(&KeyRange::all(), through),
            });
        }
        if job.tasks.is_empty() {
            return None;
        }
        self.flushing = Some(job.id);
        Some(FlushJob(job))
    }

    /// Takes in what a flush wrote. An error is one of removing files that are not needed any more, or
    /// of reading a footer; the flush itself has been taken in.
    pub fn apply_flush(&mut self, result: FlushResult) -> Result<()> {
        let FlushResult(mut result) = result;
        if self.flushing == Some(result.id) {
            self.flushing = None;
        }
        let files = self.take_files(&mut result);
        let file_bytes = self.options.file_bytes;
        let mut split = Ok(());
        for output in result.outputs {
            let runs = self.runs_of(&output, &files);
            let Some(set) = self.find_set(&output) else { continue };
            let (oldest, newest) = output.sequences;
            set.batches.retain(|(sequence, _)| !(oldest..=newest).contains(sequence));
            for shard in &mut set.shards {
                let touching = runs.iter().filter(|run| run.touches(&shard.range)).cloned();
                shard.runs.splice(0..0, touching);
            }
            set.trim_range_deletes();
            split = split.and(set.split_large_shards(file_bytes));
        }
        self.end_snapshots();
        drop(files);
        split.and(self.remove_unused())
    }

    fn take_files(&mut self, result: &mut JobResult) -> Vec<Arc<RunFile>> {
        let files: Vec<_> = result.files.drain(..).map(Arc::new).collect();
        self.files.extend(files.iter().map(|file| (file.name.clone(), Arc::clone(file))));
        files
    }

    fn runs_of(&self, output: &Output, files: &[Arc<RunFile>]) -> Vec<Arc<Run>> {
        let run = |run: &super::job::OutputRun| {
            let facts = RunFacts {
                footer_offset: run.run.footer_offset,
                footer_bytes: run.run.footer_bytes,
                first_key: run.run.first_key.clone(),
                last_key: run.run.last_key.clone(),
                data_bytes: run.run.counts.data_bytes,
                entries: run.run.counts.entries,
                // What was deleted by range before is not in the run: such deletes need not be asked again.
                sequences: (output.sequences.0, output.sequences.1.max(output.deleted_through)),
                expiry: run.run.expiry,
            };
            Arc::new(Run::new(self.cache.new_uid(), Arc::clone(&files[run.file]), facts))
        };
        output.runs.iter().map(run).collect()
    }

    /// Work that makes the longest chain of runs shorter; `None` when no merge is worth while. Small
    /// merges are done together, up to the size of a file.
    pub fn merge_job(&mut self, now_ms: i64) -> Result<Option<MergeJob>> {
        let horizon = self.open_snapshots.first().map_or(u64::MAX, |(_, sequence)| *sequence);
        let mut candidates = Vec::new();
        for (namespace, set) in &self.sets {
            for (at, shard) in set.shards.iter().enumerate() {
                if let Some(picked) = self.pick_in(set, shard, now_ms, horizon)? {
                    let sizes = shard.runs[picked.clone()].iter().map(|run| run.bytes_in(&shard.range));
                    let bytes = sizes.sum::<Result<u64>>()?;
                    candidates.push((shard.runs.len(), bytes, *namespace, at, picked));
                }
            }
        }
        candidates.sort_by_key(|(chain, bytes, ..)| (std::cmp::Reverse(*chain), *bytes));
        if candidates.is_empty() {
            return Ok(None);
        }
        let mut job = self.new_job(now_ms);
        for (_, bytes, namespace, at, picked) in candidates {
            if job.bytes > 0 && job.bytes + bytes > self.options.file_bytes {
                continue;
            }
            let Some(set) = self.sets.get_mut(&namespace) else { continue };
            job.bytes += bytes;
            job.tasks.push(merge_task(set, namespace, at, picked, horizon));
            set.shards[at].merging = Some(job.id);
        }
        Ok(Some(MergeJob(job)))
    }

    /// The runs of a shard to merge: by size, or because most of the oldest one has expired, or because
    /// range deletes pile up.
    fn pick_in(&self, set: &RunSet, shard: &Shard, now_ms: i64, horizon: u64) -> Result<Option<Range<usize>>> {
        if shard.merging.is_some() || shard.runs.is_empty() {
            return Ok(None);
        }
        let is_mostly_dead = |run: &Run| {
            let middle = |first: i64, last: i64| first.midpoint(last);
            run.facts.expiry.is_some_and(|span| {
                span.entries * 2 >= run.facts.entries && middle(span.first_ms, span.last_ms) <= now_ms
            })
        };
        if shard.runs.last().is_some_and(|run| is_mostly_dead(run)) {
            return Ok(Some(shard.runs.len() - 1..shard.runs.len()));
        }
        if set.range_deletes.len() > MOST_RANGE_DELETES {
            let oldest = &set.range_deletes[0];
            let range = oldest.range.intersect(&shard.range);
            let is_needed = |run: &Arc<Run>| run.facts.sequences.1 < oldest.sequence && run.touches(&range);
            if oldest.sequence <= horizon && shard.runs.iter().any(is_needed) {
                return Ok(Some(0..shard.runs.len()));
            }
        }
        let sizes: Vec<u64> = shard.runs.iter().map(|run| run.bytes_in(&shard.range)).collect::<Result<_>>()?;
        Ok(pick_sizes(&sizes, self.options.longest_chain / 2))
    }

    /// Takes in what a merge wrote. What was dropped meanwhile stays dropped.
    pub fn apply_merge(&mut self, result: MergeResult) -> Result<()> {
        let MergeResult(mut result) = result;
        let files = self.take_files(&mut result);
        let mut gone = Vec::new();
        for output in result.outputs {
            let runs = self.runs_of(&output, &files);
            let Some(set) = self.find_set(&output) else { continue };
            let found = set.shards.iter().position(|s| s.merging == Some(result.id) && s.range == output.range);
            let Some(at) = found else { continue };
            let shard = &mut set.shards[at];
            shard.merging = None;
            let Some(first) = shard.runs.iter().position(|run| output.inputs.contains(&run.uid)) else { continue };
            let inputs = shard.runs.splice(first..first + output.inputs.len(), runs);
            let inputs: Vec<_> = inputs.collect();
            let cuts = output.runs.iter().filter_map(|run| run.cut.as_ref());
            for (after, cut) in cuts.enumerate() {
                set.split(at + after, cut);
            }
            set.trim_range_deletes();
            let used = |uid: u64| set.shards.iter().flat_map(|shard| &shard.runs).any(|run| run.uid == uid);
            gone.extend(inputs.iter().filter(|run| !used(run.uid)).map(|run| (run.uid, run.pages_known())));
        }
        gone.iter().for_each(|(uid, pages)| self.cache.forget(*uid, *pages));
        drop(files);
        self.remove_unused()
    }

    /// Says that a job will not be applied: it failed, or was not run.
    pub fn abandon(&mut self, job: u64) {
        if self.flushing == Some(job) {
            self.flushing = None;
        }
        let graves = self.graves.iter_mut().map(|grave| &mut grave.set);
        for shard in self.sets.values_mut().chain(graves).flat_map(|set| &mut set.shards) {
            if shard.merging == Some(job) {
                shard.merging = None;
            }
        }
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

    /// Flushes all sealed batches, here and now.
    pub fn flush(&mut self, now_ms: i64) -> Result<()> {
        while let Some(job) = self.flush_job(now_ms) {
            let id = job.id();
            match job.run() {
                Ok(result) => self.apply_flush(result)?,
                Err(error) => {
                    self.abandon(id);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Does all merges that are worth while, here and now.
    pub fn merge(&mut self, now_ms: i64) -> Result<()> {
        while let Some(job) = self.merge_job(now_ms)? {
            let id = job.id();
            match job.run() {
                Ok(result) => self.apply_merge(result)?,
                Err(error) => {
                    self.abandon(id);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn sealed_bytes(&self) -> usize {
        self.all_sets().flat_map(|(_, set)| &set.batches).map(|(_, batch)| batch.memory_bytes()).sum()
    }

    /// Whether flushes and merges keep up with writes.
    pub fn pressure(&self) -> Pressure {
        let sealed_bytes = self.sealed_bytes();
        let chains = self.sets.values().flat_map(|set| set.shards.iter().map(|s| set.batches.len() + s.runs.len()));
        let longest_chain = chains.max().unwrap_or(0);
        Pressure {
            sealed_bytes,
            longest_chain,
            wants_flush: sealed_bytes >= self.options.flush_bytes,
            wait_for_flush: sealed_bytes >= self.options.sealed_limit_bytes,
            wait_for_merge: longest_chain >= self.options.longest_chain,
        }
    }

    /// What the store uses of memory and disk.
    pub fn usage(&self) -> StoreUse {
        let mut runs: HashMap<u64, usize> = HashMap::new();
        let mut shards = 0;
        for shard in self.all_sets().flat_map(|(_, set)| &set.shards) {
            shards += 1;
            runs.extend(shard.runs.iter().map(|run| (run.uid, run.memory_bytes())));
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

/// Range deletes of a namespace from which on the oldest is worked off by merges.
const MOST_RANGE_DELETES: usize = 64;

fn merge_task(set: &RunSet, namespace: Namespace, at: usize, picked: Range<usize>, horizon: u64) -> Task {
    let shard = &set.shards[at];
    let runs = &shard.runs[picked.clone()];
    let source = |run: &Arc<Run>| {
        (TaskSource::Run(Arc::clone(run)), set.hidden_from(run.facts.sequences.1, &shard.range, horizon))
    };
    let oldest = runs.iter().map(|run| run.facts.sequences.0).min().unwrap_or_default();
    let newest = runs.iter().map(|run| run.facts.sequences.1).max().unwrap_or_default();
    Task {
        namespace,
        created: set.created,
        range: shard.range.clone(),
        sources: runs.iter().map(source).collect(),
        is_bottom: picked.end == shard.runs.len(),
        sequences: (oldest, newest),
        deleted_through: set.deleted_through(&shard.range, horizon),
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

    fn write(&mut self, namespace: Namespace, batch: WriteBatch) -> Result<()> {
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
            set.shards.iter().flat_map(|s| &s.runs).map(|run| (run.uid, run.pages_known())).collect();
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
