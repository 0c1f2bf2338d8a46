//! The state of a log, as its lock guards it, and the steps that change it together with the files.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::aborted::{Aborted, AbortedIndex};
use super::producers::Producers;
use super::segment::{Segment, absent_is_fine, index_name};
use super::{COORDINATOR_EPOCH, Offsets};
use crate::batch::BatchHeader;
use crate::journal;
use crate::topics::TopicConfig;

/// Name of the file with the [`Checkpoint`].
pub(super) const CHECKPOINT: &str = "checkpoint";

/// What is true of a log and cannot be seen in its batches.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// First offset that may be read.
    pub log_start: i64,
    /// Everything before it has been compacted.
    pub compacted_until: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LogState {
    pub config: Arc<TopicConfig>,
    /// By offset; never empty, the last one grows.
    pub segments: Vec<Segment>,
    pub log_start: i64,
    pub compacted_until: i64,
    pub producers: Producers,
    pub aborted: AbortedIndex,
    /// Rises whenever `aborted` loses entries, so that a reader knows whether what it has read still fits.
    pub forgotten: u64,
    /// Records since the file was last forced to the disk.
    pub unflushed: i64,
    pub flushed_ms: i64,
    pub deleted: bool,
}

impl LogState {
    pub(super) fn active(&self) -> &Segment {
        self.segments.last().expect("a log has at least one segment")
    }

    fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log has at least one segment")
    }

    pub(super) fn end(&self) -> i64 {
        self.active().end
    }

    /// Where the first open transaction begins, or the end. Records before the start are of no concern.
    pub(super) fn last_stable(&self) -> i64 {
        self.producers.first_unstable().unwrap_or(self.end()).max(self.log_start)
    }

    pub(super) fn offsets(&self) -> Offsets {
        Offsets { log_start: self.log_start, last_stable: self.last_stable(), high_watermark: self.end() }
    }

    /// Writes a batch under the next offsets; returns the first of them.
    pub(super) fn append(&mut self, folder: &Path, header: &BatchHeader, batch: &[u8], now_ms: i64) -> io::Result<i64> {
        let base_offset = self.end();
        if self.must_roll(header) {
            self.roll(folder)?;
        }
        let index_interval = self.config.index_interval_bytes;
        let placed = BatchHeader { base_offset, ..*header };
        self.active_mut().append(&placed, batch, index_interval)?;
        self.unflushed = self.unflushed.saturating_add(i64::from(header.last_offset_delta) + 1);
        if self.unflushed >= self.config.flush_messages || self.flush_is_due(now_ms) {
            self.flush(now_ms)?;
        }
        Ok(base_offset)
    }

    fn must_roll(&self, header: &BatchHeader) -> bool {
        let active = self.active();
        let Some(first_timestamp) = active.first_timestamp else { return false };
        let config = &self.config;
        let mut span_max_ms = config.segment_ms;
        if config.compact {
            span_max_ms = span_max_ms.min(config.max_compaction_lag_ms);
        }
        let full = active.size + header.size as u64 > config.segment_bytes;
        let old = first_timestamp >= 0 && header.max_timestamp.saturating_sub(first_timestamp) > span_max_ms;
        let last_offset = self.end() + i64::from(header.last_offset_delta);
        full || old || last_offset - active.base > i64::from(i32::MAX)
    }

    /// Begins a new segment. The files come in an order that lets a start after each step find what it needs:
    /// the snapshot for the new segment, the old one's summary, and only then the new segment itself.
    pub(super) fn roll(&mut self, folder: &Path) -> io::Result<()> {
        let base = self.end();
        journal::write_value(&folder.join(snapshot_name(base)), &self.producers.snapshot())?;
        let active = self.active();
        let aborted = self.aborted.ended_within(active.base, active.end);
        active.write_summary(&folder.join(index_name(active.base)), aborted)?;
        if self.config.flush_messages < i64::MAX {
            active.flush()?;
        }
        let old_snapshot = folder.join(snapshot_name(active.base));
        let next = Segment::create(folder, base)?;
        self.active_mut().close();
        self.segments.push(next);
        absent_is_fine(fs::remove_file(old_snapshot))
    }

    /// Takes note that a transaction has ended with the marker at `marker`, which is the last batch.
    pub(super) fn ended(&mut self, producer_id: i64, epoch: i16, commit: bool, marker: i64, now_ms: i64) {
        let first = self.producers.ended(producer_id, epoch, COORDINATOR_EPOCH, now_ms);
        if let (Some(first), false) = (first, commit) {
            let stable = self.producers.first_unstable().unwrap_or(marker + 1);
            self.aborted.push(Aborted { producer_id, first, marker, stable });
        }
    }

    /// Lets the log start at `offset`, also after a restart.
    pub(super) fn start_at(&mut self, folder: &Path, offset: i64) -> io::Result<()> {
        self.write_checkpoint(folder, Checkpoint { log_start: offset, compacted_until: self.compacted_until })
    }

    pub(super) fn write_checkpoint(&mut self, folder: &Path, checkpoint: Checkpoint) -> io::Result<()> {
        journal::write_value(&folder.join(CHECKPOINT), &checkpoint)?;
        self.log_start = checkpoint.log_start;
        self.compacted_until = checkpoint.compacted_until;
        self.forget_aborted(|aborted| aborted.marker < checkpoint.log_start);
        Ok(())
    }

    /// Drops aborted transactions whose records and markers can no longer be read.
    pub(super) fn forget_aborted(&mut self, gone: impl Fn(&Aborted) -> bool) {
        self.aborted.retain(|aborted| !gone(aborted));
        self.forgotten += 1;
    }

    pub(super) fn flush_is_due(&self, now_ms: i64) -> bool {
        self.unflushed > 0 && now_ms.saturating_sub(self.flushed_ms) >= self.config.flush_ms
    }

    pub(super) fn flush(&mut self, now_ms: i64) -> io::Result<()> {
        self.active().flush()?;
        self.unflushed = 0;
        self.flushed_ms = now_ms;
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.active_mut().close();
    }
}

/// Name of the file with the producers as they were before offset `base`.
pub(super) fn snapshot_name(base: i64) -> String {
    format!("{base:020}.snapshot")
}
