//! The runs of one namespace, and how they are read.
//!
//! Newest first: sealed batches, then runs. The key space is cut into **shards**; each lists the runs
//! that are read for its keys. A flushed run is listed by every shard it touches; a merge works inside
//! one shard, so its size is bounded by the shard's, whatever the size of the state. A part of a run
//! that no shard lists is dead; a run that no shard lists is gone.

use super::answers::{Answer, Answers};
use super::descriptor::RangeDelete;
use super::merge_cursor::{BatchCursor, Cursor, MergeCursor, MergeSource};
use super::shard::Shard;
use crate::batch::WriteBatch;
use crate::cache::PageCache;
use crate::entry::Value;
use crate::error::{Result, StateError};
use crate::fold::Fold;
use crate::range::KeyRange;
use crate::run::{Lookup, RunCursor, Scratch};
use std::ops::ControlFlow;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug)]
pub(crate) struct RunSet {
    /// Sequence number of its creation: tells it from a later set of the same namespace.
    pub(crate) created: u64,
    /// Oldest first.
    pub(crate) batches: Vec<(u64, Arc<WriteBatch>)>,
    /// Ascending; together they cover all keys.
    pub(crate) shards: Vec<Shard>,
    /// Ascending by sequence number.
    pub(crate) range_deletes: Vec<RangeDelete>,
}

/// Buffers that live from call to call.
#[derive(Default)]
pub(crate) struct ReadBuffers {
    hashes: Vec<u64>,
    todo: Vec<u32>,
    shard_todo: Vec<u32>,
    scratch: Scratch,
    fold: Fold,
}

impl RunSet {
    pub(crate) fn new(created: u64) -> RunSet {
        RunSet { created, batches: Vec::new(), shards: vec![Shard::new(KeyRange::all())], range_deletes: Vec::new() }
    }

    /// Deletes of `range` that are newer than `sequence`, up to `horizon`.
    pub(crate) fn hidden_from(&self, sequence: u64, range: &KeyRange, horizon: u64) -> Vec<KeyRange> {
        let deletes = self.range_deletes.iter().filter(|d| d.sequence > sequence && d.sequence <= horizon);
        deletes.filter(|delete| delete.range.overlaps(range)).map(|delete| delete.range.clone()).collect()
    }

    /// The last range delete up to `horizon` that concerns `range`; 0 for none.
    pub(crate) fn deleted_through(&self, range: &KeyRange, horizon: u64) -> u64 {
        let deletes = self.range_deletes.iter().filter(|d| d.sequence <= horizon && d.range.overlaps(range));
        deletes.map(|delete| delete.sequence).max().unwrap_or(0)
    }

    /// See [`KeyedStore::get`](super::KeyedStore::get).
    pub(crate) fn get(
        &self,
        keys: &[&[u8]],
        now_ms: i64,
        cache: &PageCache,
        buffers: &mut ReadBuffers,
        answer: Answer<'_>,
    ) -> Result<()> {
        let ReadBuffers { hashes, todo, shard_todo, scratch, .. } = buffers;
        hashes.clear();
        hashes.extend(keys.iter().map(|key| xxh3_64(key)));
        todo.clear();
        todo.extend(0..keys.len() as u32);
        let lookup = Lookup { keys, hashes };
        let mut answers = Answers::new(now_ms, answer);
        let mut deletes = self.range_deletes.as_slice();
        for (sequence, batch) in self.batches.iter().rev() {
            deletes = hide(deletes, *sequence, &lookup, todo, &mut answers);
            get_in_batch(batch, &lookup, todo, &mut answers)?;
        }
        let mut next = 0;
        for shard in &self.shards {
            let in_shard = todo[next..].partition_point(|&t| shard.range.is_before_end(keys[t as usize]));
            shard_todo.clear();
            shard_todo.extend_from_slice(&todo[next..next + in_shard]);
            next += in_shard;
            let mut deletes = deletes;
            for run in shard.runs() {
                if shard_todo.is_empty() {
                    break;
                }
                deletes = hide(deletes, run.facts.sequences.1, &lookup, shard_todo, &mut answers);
                run.get(&lookup, shard_todo, cache, scratch, &mut |key, entry| {
                    answers.add(key, entry).map_err(|_| run.bad_block(run.facts.footer_offset))
                })?;
            }
            shard_todo.iter().for_each(|&key| answers.end_of(key));
        }
        answers.finish();
        Ok(())
    }

    /// See [`KeyedStore::scan`](super::KeyedStore::scan).
    pub(crate) fn scan(
        &self,
        range: &KeyRange,
        now_ms: i64,
        cache: &Arc<PageCache>,
        buffers: &mut ReadBuffers,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut out = Vec::new();
        let first = self.shards.partition_point(|shard| !is_after_start(&shard.range, &range.start));
        for shard in &self.shards[first..] {
            let range = range.intersect(&shard.range);
            if range.is_empty() {
                break;
            }
            let mut merged = MergeCursor::new(self.sources(shard, &range, cache)?);
            while merged.next()? {
                let flow = if let Some(entry) = merged.sole(now_ms)? {
                    let value = Value { bytes: entry.value, count: entry.count, expires_ms: entry.expires_ms };
                    visit(merged.key(), value)
                } else {
                    merged.fold(&mut buffers.fold, now_ms)?;
                    match buffers.fold.value(&mut out) {
                        Some(value) => visit(merged.key(), value),
                        None => ControlFlow::Continue(()),
                    }
                };
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn sources(&self, shard: &Shard, range: &KeyRange, cache: &Arc<PageCache>) -> Result<Vec<MergeSource>> {
        let mut sources = Vec::new();
        for (sequence, batch) in self.batches.iter().rev() {
            let cursor = Cursor::Batch(BatchCursor::new(batch, range));
            sources.push(MergeSource { cursor, hidden: self.hidden_from(*sequence, range, u64::MAX) });
        }
        for run in shard.runs().filter(|run| run.touches(range)) {
            let cursor = Cursor::Run(Box::new(RunCursor::new(run, range, Some(cache))?));
            sources.push(MergeSource { cursor, hidden: self.hidden_from(run.facts.sequences.1, range, u64::MAX) });
        }
        Ok(sources)
    }

    /// Forgets range deletes that no older batch or run is left for.
    pub(crate) fn trim_range_deletes(&mut self) {
        let (batches, shards) = (&self.batches, &self.shards);
        self.range_deletes.retain(|delete| {
            let in_batches =
                batches.iter().any(|(sequence, batch)| *sequence < delete.sequence && batch.touches(&delete.range));
            in_batches
                || shards.iter().filter(|shard| shard.range.overlaps(&delete.range)).any(|shard| {
                    let range = shard.range.intersect(&delete.range);
                    shard.durable().any(|run| run.facts.sequences.1 < delete.sequence && run.touches(&range))
                })
        });
    }

    /// Cuts shards that have become larger than twice `target_bytes`, so that merges stay bounded. Only
    /// lists change, no data.
    pub(crate) fn split_large_shards(&mut self, target_bytes: u64) -> Result<()> {
        let mut at = 0;
        while at < self.shards.len() {
            let shard = &self.shards[at];
            let cut =
                if shard.merging.is_some() || shard.bytes()? <= 2 * target_bytes { None } else { shard.middle()? };
            match cut {
                Some(cut) => self.split(at, &cut),
                None => at += 1,
            }
        }
        Ok(())
    }

    /// Cuts the shard at `at` at key `cut`, which lies inside.
    pub(crate) fn split(&mut self, at: usize, cut: &[u8]) {
        let (left, right) = self.shards[at].cut(cut);
        self.shards.splice(at..=at, [left, right]);
    }
}

/// Whether keys from `start` on can lie in `range`.
fn is_after_start(range: &KeyRange, start: &[u8]) -> bool {
    range.is_before_end(start)
}

/// Takes the range deletes that are newer than `sequence` from the end of `deletes`: the keys they cover
/// are gone from everything as old as `sequence`. Returns the deletes that are left.
fn hide<'d>(
    deletes: &'d [RangeDelete],
    sequence: u64,
    lookup: &Lookup<'_>,
    todo: &mut Vec<u32>,
    answers: &mut Answers<'_>,
) -> &'d [RangeDelete] {
    let left = deletes.partition_point(|delete| delete.sequence <= sequence);
    for delete in &deletes[left..] {
        todo.retain(|&key| {
            let is_gone = delete.range.contains(lookup.keys[key as usize]);
            if is_gone {
                answers.end_of(key);
            }
            !is_gone
        });
    }
    &deletes[..left]
}

fn get_in_batch(batch: &WriteBatch, lookup: &Lookup<'_>, todo: &mut Vec<u32>, answers: &mut Answers<'_>) -> Result<()> {
    let mut from = 0;
    let mut failed = false;
    todo.retain(|&t| {
        let key = lookup.keys[t as usize];
        from = batch.lower_bound(key, from);
        match batch.get(from) {
            Some((found, entry)) if found == key => answers.add(t, &entry).unwrap_or_else(|_| {
                failed = true;
                false
            }),
            _ => true,
        }
    });
    if failed { Err(StateError::Misuse("segments of a sealed batch make no sense".into())) } else { Ok(()) }
}
