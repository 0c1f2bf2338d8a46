//! The store's work: flushes and merges, handed out as jobs and taken in when they are done.

use super::Namespace;
use super::job::{FlushJob, FlushResult, Job, JobResult, MergeJob, MergeResult, Output, Task, TaskSource};
use super::pick::pick_sizes;
use super::run_set::RunSet;
use super::run_store::RunStore;
use super::shard::{Level, Shard};
use crate::batch::WriteBatch;
use crate::error::Result;
use crate::range::KeyRange;
use crate::run::{Run, RunFacts, RunFile};
use std::ops::Range;
use std::sync::Arc;

impl RunStore {
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
            block_bytes: self.options.block_bytes,
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
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for (namespace, set) in self.all_sets() {
            let batches: Vec<_> = set.batches.iter().take_while(|(sequence, _)| *sequence <= through).collect();
            let (Some((oldest, _)), Some((newest, _))) = (batches.first(), batches.last()) else {
                continue;
            };
            bytes += batches.iter().map(|(_, batch)| batch.data_bytes() as u64).sum::<u64>();
            let source = |(sequence, batch): &&(u64, Arc<WriteBatch>)| {
                let hidden = set.hidden_from(*sequence, &KeyRange::all(), through);
                (TaskSource::Batch(Arc::clone(batch)), hidden)
            };
            tasks.push(Task {
                namespace,
                created: set.created,
                range: KeyRange::all(),
                sources: batches.iter().rev().map(source).collect(),
                is_bottom: set.shards.iter().all(|shard| shard.levels.is_empty()),
                sequences: (*oldest, *newest),
                deleted_through: set.deleted_through(&KeyRange::all(), through),
            });
        }
        if tasks.is_empty() {
            return None;
        }
        let job = Job { bytes, tasks, ..self.new_job(now_ms) };
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
                shard.levels.splice(0..0, touching.map(Level::of));
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
        self.sets.values_mut().for_each(adopt_for_deletes);
        let mut candidates = Vec::new();
        for (namespace, set) in &self.sets {
            for (at, shard) in set.shards.iter().enumerate() {
                if let Some(picked) = self.pick_in(set, shard, now_ms, horizon)? {
                    let sizes = shard.levels[picked.clone()].iter().map(|level| level.run.bytes_in(&shard.range));
                    let bytes = sizes.sum::<Result<u64>>()?;
                    candidates.push((shard.levels.len(), bytes, *namespace, at, picked));
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
        if shard.merging.is_some() || shard.levels.is_empty() {
            return Ok(None);
        }
        let is_mostly_dead = |run: &Run| {
            let middle = |first: i64, last: i64| first.midpoint(last);
            run.facts.expiry.is_some_and(|span| {
                span.entries * 2 >= run.facts.entries && middle(span.first_ms, span.last_ms) <= now_ms
            })
        };
        let bottom = shard.levels.len() - 1;
        if is_mostly_dead(&shard.levels[bottom].run) {
            return Ok(Some(bottom..bottom + 1));
        }
        if set.range_deletes.len() > MOST_RANGE_DELETES {
            let oldest = &set.range_deletes[0];
            let range = oldest.range.intersect(&shard.range);
            let is_needed = |run: &Arc<Run>| run.facts.sequences.1 < oldest.sequence && run.touches(&range);
            if oldest.sequence <= horizon && shard.runs().any(is_needed) {
                return Ok(Some(0..shard.levels.len()));
            }
        }
        let groups = shard.groups()?;
        let sizes: Vec<u64> = groups.iter().map(|(_, bytes)| *bytes).collect();
        let picked = pick_sizes(&sizes, self.options.longest_chain / 2);
        Ok(picked.map(|picked| groups[picked.start].0.start..groups[picked.end - 1].0.end))
    }

    /// Takes in what a merge wrote. What was dropped meanwhile stays dropped.
    pub fn apply_merge(&mut self, result: MergeResult) -> Result<()> {
        let MergeResult(mut result) = result;
        let files = self.take_files(&mut result);
        let longest = self.options.longest_chain;
        let mut adopted = Ok(());
        let mut gone = Vec::new();
        for output in result.outputs {
            let runs = self.runs_of(&output, &files);
            let Some(set) = self.find_set(&output) else { continue };
            let found = set.shards.iter().position(|s| s.merging == Some(result.id) && s.range == output.range);
            let Some(at) = found else { continue };
            let shard = &mut set.shards[at];
            shard.merging = None;
            let Some(first) = shard.runs().position(|run| output.inputs.contains(&run.uid)) else { continue };
            let inputs: Vec<Level> = shard.levels.drain(first..first + output.inputs.len()).collect();
            let durable: Vec<_> = inputs.iter().flat_map(|level| level.durable.iter().cloned()).collect();
            let merged = runs.into_iter().map(|run| Level { run, durable: durable.clone() });
            shard.levels.splice(first..first, merged);
            let cuts: Vec<_> = output.runs.iter().filter_map(|run| run.cut.as_ref()).collect();
            cuts.iter().enumerate().for_each(|(after, cut)| set.split(at + after, cut));
            for shard in &mut set.shards[at..=at + cuts.len()] {
                adopted = adopted.and(shard.adopt_merged(longest));
            }
            set.trim_range_deletes();
            let used = |uid: u64| set.shards.iter().flat_map(Shard::runs).any(|run| run.uid == uid);
            gone.extend(
                inputs
                    .iter()
                    .map(|level| &level.run)
                    .filter(|run| !used(run.uid))
                    .map(|run| (run.uid, run.pages_known())),
            );
        }
        gone.iter().for_each(|(uid, pages)| self.cache.forget(*uid, *pages));
        drop(files);
        adopted.and(self.remove_unused())
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
}

/// Range deletes of a namespace from which on the oldest is worked off by merges.
const MOST_RANGE_DELETES: usize = 64;

/// When range deletes pile up that only the runs named by snapshots need, snapshots name the merged runs.
fn adopt_for_deletes(set: &mut RunSet) {
    if set.range_deletes.len() <= MOST_RANGE_DELETES {
        return;
    }
    let oldest = set.range_deletes[0].range.clone();
    let shards = set.shards.iter_mut().filter(|shard| shard.range.overlaps(&oldest));
    shards.flat_map(|shard| &mut shard.levels).for_each(Level::adopt);
    set.trim_range_deletes();
}

fn merge_task(set: &RunSet, namespace: Namespace, at: usize, picked: Range<usize>, horizon: u64) -> Task {
    let shard = &set.shards[at];
    let runs: Vec<_> = shard.levels[picked.clone()].iter().map(|level| &level.run).collect();
    let source = |run: &&Arc<Run>| {
        (TaskSource::Run(Arc::clone(*run)), set.hidden_from(run.facts.sequences.1, &shard.range, horizon))
    };
    let oldest = runs.iter().map(|run| run.facts.sequences.0).min().unwrap_or_default();
    let newest = runs.iter().map(|run| run.facts.sequences.1).max().unwrap_or_default();
    Task {
        namespace,
        created: set.created,
        range: shard.range.clone(),
        sources: runs.iter().map(source).collect(),
        is_bottom: picked.end == shard.levels.len(),
        sequences: (oldest, newest),
        deleted_through: set.deleted_through(&shard.range, horizon),
    }
}
