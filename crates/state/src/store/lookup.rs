//! How a set of runs is asked for many keys at once.

use super::answers::{Answer, Answers};
use super::descriptor::RangeDelete;
use super::run_set::{ReadBuffers, RunSet};
use super::shard::Shard;
use crate::batch::WriteBatch;
use crate::cache::PageCache;
use crate::entry::Value;
use crate::error::{Result, StateError};
use crate::run::{Lookup, Scratch};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Keys to be looked for in runs from which on two threads share them: they take milliseconds, a thread to start
/// some ten microseconds.
const SHARED_KEYS: usize = 2048;
/// Keys that a thread takes at a time.
const TAKEN_KEYS: usize = 512;

static HAS_CORES: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1));

impl RunSet {
    /// See [`KeyedStore::get`](super::KeyedStore::get).
    pub(crate) fn get(
        &self,
        keys: &[&[u8]],
        now_ms: i64,
        cache: &PageCache,
        buffers: &mut ReadBuffers,
        answer: Answer<'_>,
    ) -> Result<()> {
        let ReadBuffers { hashes, todo, shard_todo, scratch, other, .. } = buffers;
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
        let runs = InRuns { shards: &self.shards, deletes, lookup: &lookup, cache };
        if todo.len() >= SHARED_KEYS && *HAS_CORES && !answers.any_waits() {
            runs.get_shared(todo, now_ms, (scratch, shard_todo), other, &mut answers)?;
        } else {
            runs.get(todo, scratch, shard_todo, &mut answers)?;
        }
        answers.finish();
        Ok(())
    }
}

/// What is looked for in runs, after the batches in memory.
struct InRuns<'a> {
    shards: &'a [Shard],
    deletes: &'a [RangeDelete],
    lookup: &'a Lookup<'a>,
    cache: &'a PageCache,
}

impl InRuns<'_> {
    /// Looks for the keys whose indices are in `todo`, ascending.
    fn get(
        &self,
        todo: &[u32],
        scratch: &mut Scratch,
        shard_todo: &mut Vec<u32>,
        answers: &mut Answers<'_>,
    ) -> Result<()> {
        let mut next = 0;
        for shard in self.shards {
            let is_inside = |&t: &u32| shard.range.is_before_end(self.lookup.keys[t as usize]);
            let in_shard = todo[next..].partition_point(is_inside);
            shard_todo.clear();
            shard_todo.extend_from_slice(&todo[next..next + in_shard]);
            next += in_shard;
            let mut deletes = self.deletes;
            for run in shard.runs() {
                if shard_todo.is_empty() {
                    break;
                }
                deletes = hide(deletes, run.facts.sequences.1, self.lookup, shard_todo, answers);
                run.get(self.lookup, shard_todo, self.cache, scratch, &mut |key, entry| {
                    answers.add(key, entry).map_err(|_| run.bad_block(run.facts.footer_offset))
                })?;
            }
            shard_todo.iter().for_each(|&key| answers.end_of(key));
        }
        Ok(())
    }

    /// The same by two threads, for reading blocks is most of a lookup. Each takes the next keys when it is done with
    /// its last: the other one starts later, and may have to share its core with a merge.
    fn get_shared(
        &self,
        todo: &[u32],
        now_ms: i64,
        (scratch, shard_todo): (&mut Scratch, &mut Vec<u32>),
        other: &mut OtherBuffers,
        answers: &mut Answers<'_>,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let take = || todo.chunks(TAKEN_KEYS).nth(next.fetch_add(1, Ordering::Relaxed));
        let work = |scratch: &mut Scratch, shard_todo: &mut Vec<u32>, answers: &mut Answers<'_>| {
            std::iter::from_fn(take).try_for_each(|keys| self.get(keys, scratch, shard_todo, answers))
        };
        let OtherBuffers { scratch: other_scratch, shard_todo: other_todo, collected } = other;
        collected.clear();
        let (got, other_got) = std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || {
                let mut collect = |key, value: Option<Value<'_>>| collected.add(key, value);
                let mut answers = Answers::new(now_ms, &mut collect);
                let got = work(other_scratch, other_todo, &mut answers);
                answers.finish();
                got
            });
            let got = work(scratch, shard_todo, answers);
            let other_got = match other {
                Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // The system gives no more threads: then this one has done it all.
                Err(_) => Ok(()),
            };
            (got, other_got)
        });
        got.and(other_got)?;
        collected.give(answers);
        Ok(())
    }
}

/// What the other thread works with, kept from call to call.
#[derive(Default)]
pub(super) struct OtherBuffers {
    scratch: Scratch,
    shard_todo: Vec<u32>,
    collected: Collected,
}

/// Answers of another thread.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    values: Vec<CollectedValue>,
}

struct CollectedValue {
    key: usize,
    /// Place in `bytes`, count and expiry; `None` if the key has no value.
    value: Option<(Range<usize>, u32, Option<i64>)>,
}

impl Collected {
    fn clear(&mut self) {
        self.bytes.clear();
        self.values.clear();
    }

    fn add(&mut self, key: usize, value: Option<Value<'_>>) {
        let value = value.map(|value| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(value.bytes);
            (start..self.bytes.len(), value.count, value.expires_ms)
        });
        self.values.push(CollectedValue { key, value });
    }

    fn give(&self, answers: &mut Answers<'_>) {
        for CollectedValue { key, value } in &self.values {
            let value = value.as_ref().map(|(place, count, expires_ms)| Value {
                bytes: &self.bytes[place.clone()],
                count: *count,
                expires_ms: *expires_ms,
            });
            answers.give(*key, value);
        }
    }
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
        if !batch.may_have(lookup.hashes[t as usize]) {
            return true;
        }
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
