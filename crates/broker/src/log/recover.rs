//! Opening a log: what is there, what a killed process left unfinished, and what was known.
//!
//! Segments that no longer grow are taken as their summaries have them. The last one is read from end to end,
//! cut after its last whole batch, and replayed on top of the producers' snapshot. Without the snapshot
//! everything is replayed.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::aborted::{Aborted, AbortedIndex};
use super::clean;
use super::compact;
use super::producers::{Producers, Snapshot};
use super::segment::{Batches, Segment, absent_is_fine, index_name, log_name};
use super::state::{CHECKPOINT, Checkpoint, LogState, snapshot_name};
use crate::batch;
use crate::journal;
use crate::topics::TopicConfig;

/// The state of the log in `folder`.
pub(super) fn recover(folder: &Path, config: Arc<TopicConfig>, now_ms: i64) -> io::Result<LogState> {
    fs::create_dir_all(folder)?;
    compact::finish(folder)?;
    let checkpoint: Checkpoint = journal::read_value(&folder.join(CHECKPOINT))?.unwrap_or_default();
    let bases = bases(folder)?;
    let mut state = LogState {
        config,
        segments: Vec::new(),
        log_start: checkpoint.log_start,
        compacted_until: checkpoint.compacted_until,
        producers: Producers::default(),
        aborted: AbortedIndex::default(),
        forgotten: 0,
        unflushed: 0,
        flushed_ms: now_ms,
        deleted: false,
    };
    let Some((&last, closed)) = bases.split_last() else {
        state.segments.push(Segment::new(folder, checkpoint.log_start));
        return Ok(state);
    };
    if !state.restore(folder, closed, last)? {
        for &base in closed {
            state.replay(folder, base, now_ms)?;
        }
    }
    state.reopen_last(folder, last, now_ms)?;
    state.settle(folder)?;
    Ok(state)
}

/// Base offsets of the segments in `folder`, in order.
fn bases(folder: &Path) -> io::Result<Vec<i64>> {
    let mut bases = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(base) = name.to_str().and_then(|name| name.strip_suffix(".log")) else { continue };
        match base.parse::<i64>() {
            Ok(offset) if offset >= 0 && log_name(offset).as_str() == name => bases.push(offset),
            _ => return Err(damaged(folder, 0, format!("{} is no segment of a log", name.display()))),
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

impl LogState {
    /// Takes the closed segments and the producers from what was written at the last roll; false, and nothing
    /// is taken, if any of it is missing.
    fn restore(&mut self, folder: &Path, closed: &[i64], last: i64) -> io::Result<bool> {
        let Some(snapshot) = journal::read_value::<Snapshot>(&folder.join(snapshot_name(last)))? else {
            // Nothing was rolled yet.
            return Ok(closed.is_empty());
        };
        let mut segments = Vec::new();
        let mut aborted = AbortedIndex::default();
        for &base in closed {
            let Some((segment, ended)) = Segment::from_summary(folder, base)? else { return Ok(false) };
            segments.push(segment);
            ended.into_iter().for_each(|entry| aborted.push(entry));
        }
        self.segments = segments;
        self.aborted = aborted;
        self.producers = snapshot.into();
        Ok(true)
    }

    /// Takes a closed segment from its batches.
    fn replay(&mut self, folder: &Path, base: i64, now_ms: i64) -> io::Result<()> {
        let (segment, torn) = self.scan(folder, base, now_ms)?;
        if let Some(error) = torn {
            return Err(damaged(folder, segment.size, format!("in the middle, in {}: {error}", log_name(base))));
        }
        let aborted = self.aborted.ended_within(segment.base, segment.end);
        segment.write_summary(&folder.join(index_name(base)), aborted)?;
        self.segments.push(segment);
        Ok(())
    }

    /// The segment that grows: its torn tail is cut.
    fn reopen_last(&mut self, folder: &Path, base: i64, now_ms: i64) -> io::Result<()> {
        let (segment, torn) = self.scan(folder, base, now_ms)?;
        if torn.is_some() {
            OpenOptions::new().write(true).open(segment.path())?.set_len(segment.size)?;
        }
        absent_is_fine(fs::remove_file(folder.join(index_name(base))))?;
        self.segments.push(segment);
        Ok(())
    }

    /// Reads a segment's batches and lets producers and transactions follow; returns what is whole, and why it
    /// ends before the file does.
    fn scan(&mut self, folder: &Path, base: i64, now_ms: i64) -> io::Result<(Segment, Option<io::Error>)> {
        let mut segment = Segment::new(folder, base);
        let file = Arc::new(std::fs::File::open(segment.path())?);
        let size = file.metadata()?.len();
        let mut batches = Batches::new(file, 0, size);
        loop {
            let (header, batch) = match batches.next() {
                Ok(Some(next)) => next,
                Ok(None) => return Ok((segment, None)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok((segment, Some(error))),
                Err(error) => return Err(error),
            };
            if header.base_offset < segment.end || header.last_offset_delta < 0 {
                let text = format!("offset {} follows offset {}", header.base_offset, segment.end - 1);
                return Ok((segment, Some(io::Error::new(io::ErrorKind::InvalidData, text))));
            }
            segment.admit(&header, self.config.index_interval_bytes);
            if !header.is_control() {
                self.producers.appended(&header, header.base_offset, now_ms);
            } else if let Some(commit) = batch::marker_commits(&batch) {
                let marker = header.base_offset;
                let first = self.producers.ended(header.producer_id, header.producer_epoch, 0, now_ms);
                if let (Some(first), false) = (first, commit) {
                    let stable = self.producers.first_unstable().unwrap_or(marker + 1);
                    self.aborted.push(Aborted { producer_id: header.producer_id, first, marker, stable });
                }
            }
        }
    }

    /// The end of the log was lost, up to before its start: nothing can be read, and offsets must not be given
    /// twice. Kafka does the same.
    fn start_anew(&mut self, folder: &Path) -> io::Result<()> {
        self.producers = Producers::default();
        self.aborted = AbortedIndex::default();
        let next = Segment::create(folder, self.log_start)?;
        for lost in std::mem::replace(&mut self.segments, vec![next]) {
            lost.remove()?;
        }
        Ok(())
    }

    /// Puts right what a process may have died before doing.
    fn settle(&mut self, folder: &Path) -> io::Result<()> {
        for pair in self.segments.windows(2) {
            if pair[0].end > pair[1].base {
                let text = format!("segments {} and {} overlap", pair[0].base, pair[1].base);
                return Err(damaged(folder, 0, text));
            }
        }
        self.log_start = self.log_start.max(self.segments[0].base);
        if self.log_start > self.end() {
            self.start_anew(folder)?;
        }
        let log_start = self.log_start;
        self.forget_aborted(|aborted| aborted.marker < log_start);
        clean::remove_stray_files(folder, &self.segments)
    }
}

fn damaged(folder: &Path, at: u64, why: String) -> io::Error {
    let text = format!(
        "the log {} is damaged at byte {at}: {why}; restore it, or remove the folder to start this partition anew",
        folder.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}
