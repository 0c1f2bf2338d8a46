//! The runs of one namespace, and how they are read.
//!
//! Newest first: sealed batches, then runs. The key space is cut into **shards**; each lists the runs
//! that are read for its keys. A flushed run is listed by every shard it touches; a merge works inside
//! one shard, so its size is bounded by the shard's, whatever the size of the state. A part of a run
//! that no shard lists is dead; a run that no shard lists is gone.

use super::descriptor::RangeDelete;
use super::lookup::OtherBuffers;
use super::merge_cursor::{BatchCursor, Cursor, MergeCursor, MergeSource};
use super::shard::Shard;
use crate::batch::WriteBatch;
use crate::cache::PageCache;
use crate::entry::Value;
use crate::error::Result;
use crate::fold::Fold;
use crate::range::KeyRange;
use crate::run::{RunCursor, Scratch};
use std::ops::ControlFlow;
use std::sync::Arc;

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
    pub(super) hashes: Vec<u64>,
    pub(super) todo: Vec<u32>,
    pub(super) shard_todo: Vec<u32>,
    pub(super) scratch: Scratch,
    pub(super) other: OtherBuffers,
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
