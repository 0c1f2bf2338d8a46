//! Retention: what is too old, too much or deleted goes, a whole segment at a time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::UNIX_EPOCH;

use super::PartitionLog;
use super::segment::{Segment, absent_is_fine, index_name, log_name};
use super::state::{Checkpoint, LogState, snapshot_name};

/// What a cleaning has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Segments that retention deleted.
    pub deleted_segments: usize,
    /// Bytes that retention and compaction freed.
    pub freed_bytes: u64,
    /// Records that compaction took out.
    pub compacted_records: u64,
}

impl Cleaned {
    /// Adds what was done elsewhere.
    pub fn add(&mut self, other: Cleaned) {
        self.deleted_segments += other.deleted_segments;
        self.freed_bytes += other.freed_bytes;
        self.compacted_records += other.compacted_records;
    }
}

impl PartitionLog {
    /// Deletes segments that are past `retention.ms` (by their largest record time, as Kafka), past
    /// `retention.bytes` or before the start of the log, compacts if the topic says so and it is worth it, and
    /// forgets producers that are long idle.
    ///
    /// # Errors
    /// Trouble of the disk; the log stays as it was or is cleaned in part.
    pub fn clean(&self, now_ms: i64) -> io::Result<Cleaned> {
        let _one_at_a_time = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cleaned = Cleaned::default();
        {
            let mut state = self.state();
            if state.deleted {
                return Ok(cleaned);
            }
            state.producers.expire(now_ms);
            if state.flush_is_due(now_ms) {
                state.flush(now_ms)?;
            }
            let expired = state.expired(now_ms)?;
            for segment in state.drop_first(&self.folder, expired)? {
                segment.remove()?;
                cleaned.deleted_segments += 1;
                cleaned.freed_bytes += segment.size;
            }
        }
        self.compact(now_ms, &mut cleaned)?;
        Ok(cleaned)
    }
}

impl LogState {
    /// How many segments at the front are no longer kept.
    fn expired(&self, now_ms: i64) -> io::Result<usize> {
        let config = &self.config;
        let mut excess = match config.retention_bytes {
            limit if config.delete && limit >= 0 => {
                let size: u64 = self.segments.iter().map(|segment| segment.size).sum();
                size.saturating_sub(limit.unsigned_abs())
            }
            _ => 0,
        };
        let stable = self.last_stable();
        let mut expired = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(at + 1);
            if segment.end > stable || (next.is_none() && segment.size == 0) {
                break;
            }
            let deleted = next.is_some_and(|next| next.base <= self.log_start);
            let old = config.delete
                && config.retention_ms >= 0
                && now_ms.saturating_sub(segment.age_timestamp()?) > config.retention_ms;
            let surplus = excess > 0 && excess >= segment.size;
            if !(deleted || old || surplus) {
                break;
            }
            excess = excess.saturating_sub(segment.size);
            expired += 1;
        }
        Ok(expired)
    }

    /// Takes the first `count` segments out of the log; if that is all, a new one is begun.
    fn drop_first(&mut self, folder: &Path, count: usize) -> io::Result<Vec<Segment>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if count == self.segments.len() {
            self.roll(folder)?;
        }
        let log_start = self.log_start.max(self.segments[count].base);
        let compacted_until = self.compacted_until.max(log_start);
        self.write_checkpoint(folder, Checkpoint { log_start, compacted_until })?;
        Ok(self.segments.drain(..count).collect())
    }
}

impl Segment {
    /// The time that retention goes by: the largest record time, or when the file was written last if no record
    /// has a time.
    fn age_timestamp(&self) -> io::Result<i64> {
        if self.max_timestamp >= 0 {
            return Ok(self.max_timestamp);
        }
        if self.size == 0 {
            return Ok(i64::MAX);
        }
        let modified = fs::metadata(self.path())?.modified()?;
        Ok(modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
    }
}

/// Removes what a process that died left beside the segments: half-written files, summaries and snapshots that
/// belong to no segment.
pub(super) fn remove_stray_files(folder: &Path, segments: &[Segment]) -> io::Result<()> {
    let mut wanted = BTreeSet::new();
    for segment in segments {
        wanted.insert(log_name(segment.base));
        wanted.insert(index_name(segment.base));
        wanted.insert(snapshot_name(segments.last().map_or(0, |last| last.base)));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = [".log", ".index", ".snapshot", ".tmp"].iter().any(|suffix| name.ends_with(suffix));
        if ours && !wanted.contains(&name) {
            absent_is_fine(fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}
