//! Compaction: of each key the latest record stays, under its old offset.
//!
//! A pass has two halves. The first reads what is new since the last pass and notes the latest offset of each
//! key. The second rewrites the segments before the growing one and leaves out records that a later one of the
//! same key replaces, records of aborted transactions, and tombstones whose time is up. Small neighbours become
//! one segment.
//!
//! Tombstones and the markers of emptied transactions stay for `delete.retention.ms` after the pass that met
//! them first, so that a reader on its way does not miss them; the batch carries that time (KIP-534). Source of
//! the rules: Kafka's `LogCleaner`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};

use super::aborted::Aborted;
use super::segment::{Batches, Segment, absent_is_fine, index_name, log_name};
use super::state::{Checkpoint, LogState};
use super::{Cleaned, PartitionLog};
use crate::batch::{self, BatchHeader, RecordView, Records};
use crate::topics::TopicConfig;

/// Keys that one pass holds; what they do not cover is left to the next pass.
const KEYS_MAX: usize = 2_000_000;

/// A pass, as decided under the lock; the segments it names change only by cleaning.
struct Pass {
    config: Arc<TopicConfig>,
    sources: Vec<Source>,
    /// Where the last pass has ended.
    from: i64,
    aborted: HashMap<i64, Vec<Aborted>>,
    now_ms: i64,
}

/// A segment to rewrite.
#[derive(Clone)]
struct Source {
    base: i64,
    /// Base of the segment after it.
    next: i64,
    size: u64,
    path: PathBuf,
}

/// The latest offset of each key, keys as digests, over everything before `until`.
struct Latest {
    offsets: HashMap<[u8; 16], i64>,
    until: i64,
}

impl PartitionLog {
    /// Runs a pass if the topic is compacted and there is enough to do.
    pub(super) fn compact(&self, now_ms: i64, cleaned: &mut Cleaned) -> io::Result<()> {
        let Some(pass) = self.state().compaction(now_ms) else { return Ok(()) };
        let latest = pass.latest()?;
        let mut transactions = Transactions::default();
        for group in pass.groups(latest.until) {
            let rewritten = pass.rewrite(&self.folder, group, &latest, &mut transactions)?;
            cleaned.freed_bytes += rewritten.freed;
            cleaned.compacted_records += rewritten.dropped;
            self.state().swap(&self.folder, group, rewritten)?;
        }
        let mut state = self.state();
        let checkpoint = Checkpoint { log_start: state.log_start, compacted_until: latest.until };
        state.write_checkpoint(&self.folder, checkpoint)
    }
}

impl LogState {
    /// What a pass would do now; `None` if it is not worth it.
    fn compaction(&self, now_ms: i64) -> Option<Pass> {
        let config = &self.config;
        if !config.compact {
            return None;
        }
        let stable = self.last_stable();
        let settled = |segment: &Segment| {
            let young = now_ms.saturating_sub(segment.max_timestamp) < config.min_compaction_lag_ms;
            segment.end <= stable && !(young && config.min_compaction_lag_ms > 0 && segment.size > 0)
        };
        let mut sources = Vec::new();
        let (mut clean, mut dirty, mut overdue) = (0, 0, false);
        for pair in self.segments.windows(2).take_while(|pair| settled(&pair[0])) {
            let segment = &pair[0];
            sources.push(Source {
                base: segment.base,
                next: pair[1].base,
                size: segment.size,
                path: segment.path().into(),
            });
            if pair[1].base <= self.compacted_until {
                clean += segment.size;
                continue;
            }
            dirty += segment.size;
            let waited = segment.first_timestamp.map_or(0, |first| now_ms.saturating_sub(first));
            overdue |= waited > config.max_compaction_lag_ms;
        }
        let share = dirty as f64 / (clean + dirty) as f64;
        if dirty == 0 || !(share > config.min_cleanable_dirty_ratio || overdue) {
            return None;
        }
        let mut aborted: HashMap<i64, Vec<Aborted>> = HashMap::new();
        for entry in self.aborted.overlapping(0, self.end()) {
            aborted.entry(entry.producer_id).or_default().push(entry);
        }
        Some(Pass { config: Arc::clone(config), sources, from: self.compacted_until, aborted, now_ms })
    }

    /// Puts a rewritten segment in the place of those it was made from.
    fn swap(&mut self, folder: &Path, group: &[Source], rewritten: Rewritten) -> io::Result<()> {
        let (base, next) = (group[0].base, group[group.len() - 1].next);
        self.forget_aborted(|aborted| rewritten.markers.contains(&aborted.marker));
        let aborted = self.aborted.ended_within(base, next);
        rewritten.segment.write_summary(&folder.join(cleaned_name(&index_name(base))), aborted)?;
        fs::rename(folder.join(cleaned_name(&log_name(base))), folder.join(swap_name(base, next)))?;
        let start = self.segments.partition_point(|segment| segment.base < base);
        let end = self.segments.partition_point(|segment| segment.base < next);
        self.segments.splice(start..end, [rewritten.segment]);
        finish_swap(folder, base, next)
    }
}

impl Pass {
    /// The first half: the latest offset of every key that is new since the last pass.
    fn latest(&self) -> io::Result<Latest> {
        let mut latest = Latest { offsets: HashMap::new(), until: self.from };
        for source in self.sources.iter().filter(|source| source.next > self.from && source.size > 0) {
            let mut batches = source.batches()?;
            while let Some((header, batch)) = batches.next()? {
                if latest.offsets.len() >= KEYS_MAX {
                    return Ok(latest);
                }
                if !header.is_control() && !self.is_aborted(&header) && header.last_offset() >= self.from {
                    let plain = batch::decompress(&header, &batch).map_err(invalid)?;
                    for record in Records::new(&plain, header.record_count) {
                        let record = record.map_err(|what| damaged(&header, what))?;
                        if let Some(key) = record.key {
                            latest.offsets.insert(digest(key), offset_of(&header, &record));
                        }
                    }
                }
                latest.until = latest.until.max(header.last_offset() + 1);
            }
        }
        latest.until = self.sources.last().map_or(latest.until, |source| source.next.max(latest.until));
        Ok(latest)
    }

    /// Neighbouring sources that together fit into one segment, as far as the keys reach.
    fn groups(&self, until: i64) -> Vec<&[Source]> {
        let reached = self.sources.partition_point(|source| source.base < until);
        let mut groups = Vec::new();
        let mut rest = &self.sources[..reached];
        while let Some(first) = rest.first() {
            let mut size = 0;
            let fitting = rest.iter().take_while(|source| {
                size += source.size;
                size <= self.config.segment_bytes && source.next - first.base <= i64::from(i32::MAX)
            });
            let (group, tail) = rest.split_at(fitting.count().max(1));
            groups.push(group);
            rest = tail;
        }
        groups
    }

    /// The second half, for one group: a file with what stays of it.
    fn rewrite(
        &self,
        folder: &Path,
        group: &[Source],
        latest: &Latest,
        transactions: &mut Transactions,
    ) -> io::Result<Rewritten> {
        let base = group[0].base;
        let mut rewritten =
            Rewritten { segment: Segment::new(folder, base), markers: HashSet::new(), freed: 0, dropped: 0 };
        let mut file = BufWriter::new(File::create(folder.join(cleaned_name(&log_name(base))))?);
        for source in group.iter().filter(|source| source.size > 0) {
            let mut batches = source.batches()?;
            while let Some((header, batch)) = batches.next()? {
                let kept = match self.judge(&header, &batch, latest, transactions)? {
                    Fate::Stay => Some((header, batch)),
                    Fate::Go => None,
                    Fate::Become(batch) => Some((batch::parse(&batch).map_err(invalid)?, batch)),
                };
                let left = kept.as_ref().map_or(0, |(header, _)| header.record_count);
                rewritten.dropped += u64::from((header.record_count - left).unsigned_abs());
                match kept {
                    Some((header, batch)) => {
                        file.write_all(&batch)?;
                        rewritten.segment.admit(&header, self.config.index_interval_bytes);
                    }
                    None if header.is_control() => {
                        rewritten.markers.insert(header.base_offset);
                    }
                    None => {}
                }
            }
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        rewritten.segment.end = group[group.len() - 1].next;
        let before: u64 = group.iter().map(|source| source.size).sum();
        rewritten.freed = before.saturating_sub(rewritten.segment.size);
        Ok(rewritten)
    }

    fn judge(
        &self,
        header: &BatchHeader,
        batch: &[u8],
        latest: &Latest,
        transactions: &mut Transactions,
    ) -> io::Result<Fate> {
        if header.is_control() {
            return Ok(self.judge_marker(header, batch, latest, transactions));
        }
        if header.is_transactional() {
            transactions.with_records.insert(header.producer_id);
        }
        if header.base_offset >= latest.until {
            return Ok(Fate::Stay);
        }
        if self.is_aborted(header) {
            return Ok(Fate::Go);
        }
        self.judge_records(header, batch, latest)
    }

    /// A marker is needed as long as records of its transaction are in the log, and then until the horizon.
    fn judge_marker(
        &self,
        header: &BatchHeader,
        batch: &[u8],
        latest: &Latest,
        transactions: &mut Transactions,
    ) -> Fate {
        let ends_records = transactions.with_records.remove(&header.producer_id);
        if ends_records || header.base_offset >= latest.until {
            return Fate::Stay;
        }
        match header.delete_horizon_ms() {
            Some(horizon_ms) if self.now_ms >= horizon_ms => Fate::Go,
            Some(_) => Fate::Stay,
            None => match Records::new(&batch[batch::HEADER_SIZE..], header.record_count).next() {
                Some(Ok(record)) => Fate::Become(self.with_horizon(header, &[record])),
                _ => Fate::Stay,
            },
        }
    }

    fn judge_records(&self, header: &BatchHeader, batch: &[u8], latest: &Latest) -> io::Result<Fate> {
        let plain = batch::decompress(header, batch).map_err(invalid)?;
        let past_horizon = header.delete_horizon_ms().is_some_and(|horizon_ms| self.now_ms >= horizon_ms);
        let mut kept = Vec::new();
        let mut tombstones = false;
        for record in Records::new(&plain, header.record_count) {
            let record = record.map_err(|what| damaged(header, what))?;
            let Some(key) = record.key else { continue };
            let offset = offset_of(header, &record);
            let replaced = latest.offsets.get(&digest(key)).is_some_and(|&later| offset < later);
            let tombstone = record.value.is_none() && offset < latest.until;
            if replaced || (tombstone && past_horizon) {
                continue;
            }
            tombstones |= tombstone;
            kept.push(record);
        }
        if tombstones && header.delete_horizon_ms().is_none() {
            return Ok(Fate::Become(self.with_horizon(header, &kept)));
        }
        Ok(match kept.len() {
            0 => Fate::Go,
            all if all as i64 == i64::from(header.record_count) => Fate::Stay,
            _ => Fate::Become(encode(header, &kept, None)),
        })
    }

    fn with_horizon(&self, header: &BatchHeader, kept: &[RecordView<'_>]) -> Bytes {
        encode(header, kept, Some(self.now_ms.saturating_add(self.config.delete_retention_ms)))
    }

    fn is_aborted(&self, header: &BatchHeader) -> bool {
        header.is_transactional()
            && self.aborted.get(&header.producer_id).is_some_and(|aborted| {
                aborted.iter().any(|entry| (entry.first..entry.marker).contains(&header.base_offset))
            })
    }
}

impl Source {
    fn batches(&self) -> io::Result<Batches> {
        Ok(Batches::new(Arc::new(File::open(&self.path)?), 0, self.size))
    }
}

/// What becomes of a batch.
enum Fate {
    Stay,
    Go,
    Become(Bytes),
}

/// Producers with records in the log since their last marker, as the pass has met them so far.
#[derive(Default)]
struct Transactions {
    with_records: HashSet<i64>,
}

/// The result of the second half for a group.
struct Rewritten {
    segment: Segment,
    /// Offsets of markers that are gone.
    markers: HashSet<i64>,
    freed: u64,
    dropped: u64,
}

/// The batch with only these records. With a horizon, record times count from it.
fn encode(header: &BatchHeader, kept: &[RecordView<'_>], horizon_ms: Option<i64>) -> Bytes {
    let shift_ms = horizon_ms.map_or(0, |horizon_ms| header.base_timestamp.wrapping_sub(horizon_ms));
    let mut plain = BytesMut::new();
    for record in kept {
        batch::put_record(&mut plain, record, shift_ms);
    }
    let times = kept.iter().map(|record| header.base_timestamp.wrapping_add(record.timestamp_delta));
    let max_timestamp = match times.max() {
        Some(latest) if !header.is_log_append_time() => latest,
        _ => header.max_timestamp,
    };
    let head = batch::cleaned_header(header, kept.len() as i32, max_timestamp, horizon_ms);
    match head.compression() {
        Some(codec) => batch::encode(&head, &batch::compress(&plain, codec, None)),
        None => batch::encode(&head, &plain),
    }
}

fn offset_of(header: &BatchHeader, record: &RecordView<'_>) -> i64 {
    header.base_offset + i64::from(record.offset_delta)
}

fn digest(key: &[u8]) -> [u8; 16] {
    Md5::digest(key).into()
}

fn cleaned_name(name: &str) -> String {
    format!("{name}.cleaned")
}

fn swap_name(base: i64, next: i64) -> String {
    format!("{base:020}-{next:020}.swap")
}

/// Ends what a pass has begun when its process died: a swap is complete once its file has its name, everything
/// before that never happened.
pub(super) fn finish(folder: &Path) -> io::Result<()> {
    let mut half_done = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((base, next)) = name.strip_suffix(".swap").and_then(|name| name.split_once('-'))
            && let (Ok(base), Ok(next)) = (base.parse(), next.parse())
        {
            finish_swap(folder, base, next)?;
        } else if name.ends_with(".cleaned") {
            half_done.push(entry.path());
        }
    }
    half_done.into_iter().try_for_each(|path| absent_is_fine(fs::remove_file(path)))
}

/// The steps after the commit; each may be repeated.
fn finish_swap(folder: &Path, base: i64, next: i64) -> io::Result<()> {
    let summary = folder.join(cleaned_name(&index_name(base)));
    let summary_there = summary.exists();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((stem, suffix)) = name.split_once('.') else { continue };
        let replaced = stem.parse().is_ok_and(|offset: i64| (base..next).contains(&offset));
        if replaced && (suffix == "log" || (suffix == "index" && summary_there)) {
            fs::remove_file(entry.path())?;
        }
    }
    if summary_there {
        fs::rename(summary, folder.join(index_name(base)))?;
    }
    fs::rename(folder.join(swap_name(base, next)), folder.join(log_name(base)))
}

fn damaged(header: &BatchHeader, what: &'static str) -> io::Error {
    invalid(batch::BatchError::Records { offset: header.base_offset, what })
}

fn invalid(error: batch::BatchError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
