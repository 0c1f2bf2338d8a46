//! A stretch of a partition's log: a file of batches and a sparse index over it.
//!
//! One index serves offsets and times. Each entry says where in the file a batch begins, its offset, and the
//! largest timestamp of everything before it in the segment. Both columns only grow, so both lookups are binary
//! searches that end at most one interval before the batch that is wanted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::aborted::Aborted;
use crate::batch::{self, BatchHeader};
use crate::journal;

/// Where a batch begins.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Its base offset, less the segment's.
    relative: u32,
    /// Its place in the file.
    position: u32,
    /// Largest timestamp of the batches before it, `i64::MIN` without any.
    max_before: i64,
}

/// A segment; only the last one of a log grows.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Offset that its name says; no batch in it begins earlier.
    pub base: i64,
    /// The offset after its last record.
    pub end: i64,
    /// Bytes in the file.
    pub size: u64,
    /// Largest timestamp, `i64::MIN` while empty.
    pub max_timestamp: i64,
    /// Largest timestamp of the first batch, from which `segment.ms` counts.
    pub first_timestamp: Option<i64>,
    path: PathBuf,
    index: Vec<IndexEntry>,
    unindexed: u64,
    /// Open while this is the segment that grows.
    file: Option<Arc<File>>,
}

/// What is kept beside a segment that no longer grows, so that a start need not read the segment.
#[derive(Deserialize, Serialize)]
pub(super) struct Summary {
    end: i64,
    size: u64,
    max_timestamp: i64,
    first_timestamp: Option<i64>,
    index: Vec<IndexEntry>,
    /// Aborted transactions whose markers are in the segment.
    pub aborted: Vec<Aborted>,
}

impl Segment {
    /// A segment without batches; the file is made by the first append.
    pub(super) fn new(folder: &Path, base: i64) -> Segment {
        Segment {
            base,
            end: base,
            size: 0,
            max_timestamp: i64::MIN,
            first_timestamp: None,
            path: folder.join(log_name(base)),
            index: Vec::new(),
            unindexed: 0,
            file: None,
        }
    }

    /// A segment without batches, and its file.
    pub(super) fn create(folder: &Path, base: i64) -> io::Result<Segment> {
        let mut segment = Segment::new(folder, base);
        segment.writable()?;
        Ok(segment)
    }

    /// The segment's file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes note of a batch at the end of the file.
    pub(super) fn admit(&mut self, header: &BatchHeader, index_interval: u64) {
        if self.index.is_empty() || self.unindexed > index_interval {
            self.index.push(IndexEntry {
                relative: (header.base_offset - self.base) as u32,
                position: self.size as u32,
                max_before: self.max_timestamp,
            });
            self.unindexed = 0;
        }
        self.unindexed += header.size as u64;
        self.size += header.size as u64;
        self.end = header.last_offset() + 1;
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        self.first_timestamp.get_or_insert(header.max_timestamp);
    }

    /// Appends a batch under the offset in `header`, in one write and without copying it.
    pub(super) fn append(&mut self, header: &BatchHeader, batch: &[u8], index_interval: u64) -> io::Result<()> {
        let size = self.size;
        let file = self.writable()?;
        let mut head = [0u8; 16];
        head[..8].copy_from_slice(&header.base_offset.to_be_bytes());
        head[8..12].copy_from_slice(&batch[8..12]);
        if let Err(error) = write_both(&file, &head, &batch[head.len()..]) {
            // What was written in part must not stay before the next batch.
            file.set_len(size)?;
            return Err(error);
        }
        self.admit(header, index_interval);
        Ok(())
    }

    /// Forces what was written to the disk.
    pub(super) fn flush(&self) -> io::Result<()> {
        match &self.file {
            Some(file) => file.sync_data(),
            None => Ok(()),
        }
    }

    /// Closes the file that was open for appending.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    fn writable(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(OpenOptions::new().create(true).append(true).read(true).open(&self.path)?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// The file to read from, which is there once the segment is not empty. A reader that has it may go on when the segment is replaced or deleted.
    pub(super) fn readable(&self) -> io::Result<Arc<File>> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(Arc::new(File::open(&self.path)?)),
        }
    }

    /// A place in the file from which the first batch that ends at or after `offset` is found going forward.
    pub(super) fn position_of(&self, offset: i64) -> u64 {
        let after = self.index.partition_point(|entry| self.base + i64::from(entry.relative) <= offset);
        self.entry_position(after)
    }

    /// A place in the file before which every timestamp is smaller than `timestamp`.
    pub(super) fn position_of_time(&self, timestamp: i64) -> u64 {
        let after = self.index.partition_point(|entry| entry.max_before < timestamp);
        self.entry_position(after)
    }

    fn entry_position(&self, after: usize) -> u64 {
        after.checked_sub(1).map_or(0, |at| u64::from(self.index[at].position))
    }

    /// Writes the summary beside the segment.
    pub(super) fn write_summary(&self, path: &Path, aborted: &[Aborted]) -> io::Result<()> {
        let summary = Summary {
            end: self.end,
            size: self.size,
            max_timestamp: self.max_timestamp,
            first_timestamp: self.first_timestamp,
            index: self.index.clone(),
            aborted: aborted.to_vec(),
        };
        journal::write_value(path, &summary)
    }

    /// The segment as its summary has it, with the aborted transactions that end in it; `None` when the summary
    /// is absent, damaged or of another file.
    pub(super) fn from_summary(folder: &Path, base: i64) -> io::Result<Option<(Segment, Vec<Aborted>)>> {
        let mut segment = Segment::new(folder, base);
        let Some(summary) = journal::read_value::<Summary>(&folder.join(index_name(base)))? else {
            return Ok(None);
        };
        if fs::metadata(&segment.path)?.len() != summary.size || summary.end < base {
            return Ok(None);
        }
        segment.end = summary.end;
        segment.size = summary.size;
        segment.max_timestamp = summary.max_timestamp;
        segment.first_timestamp = summary.first_timestamp;
        segment.index = summary.index;
        Ok(Some((segment, summary.aborted)))
    }

    /// Removes the files of the segment.
    pub(super) fn remove(&self) -> io::Result<()> {
        absent_is_fine(fs::remove_file(&self.path))?;
        absent_is_fine(fs::remove_file(self.path.with_extension("index")))
    }
}

/// Name of the file of batches.
pub(super) fn log_name(base: i64) -> String {
    format!("{base:020}.log")
}

/// Name of the summary beside it.
pub(super) fn index_name(base: i64) -> String {
    format!("{base:020}.index")
}

/// Removing what is not there is done.
pub(super) fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn write_both(mut file: &File, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < head.len() {
        match file.write_vectored(&[IoSlice::new(&head[written..]), IoSlice::new(body)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.write_all(&body[written - head.len()..])
}

/// Reads batches one after the other from a stretch of a file.
pub(super) struct Batches {
    file: Arc<File>,
    /// Where the next batch begins.
    position: u64,
    end: u64,
    /// Bytes of the file from `position` on.
    ahead: Bytes,
}

/// Bytes read at a time when batches are read one by one.
const READ_AHEAD: usize = 256 << 10;

impl Batches {
    /// Batches from `position`, where one begins, to `end`.
    pub(super) fn new(file: Arc<File>, position: u64, end: u64) -> Batches {
        Batches { file, position, end, ahead: Bytes::new() }
    }

    /// The next batch, checked.
    ///
    /// # Errors
    /// `InvalidData` when what follows is not a whole batch; other kinds are the disk's.
    pub(super) fn next(&mut self) -> io::Result<Option<(BatchHeader, Bytes)>> {
        if self.position >= self.end {
            return Ok(None);
        }
        self.ensure(batch::HEADER_SIZE)?;
        let size = batch::parse(&self.ahead).map_err(invalid)?.size;
        if size as u64 > self.end - self.position {
            return Err(invalid(batch::BatchError::Truncated { needed: size, had: self.ahead.len() }));
        }
        self.ensure(size)?;
        let header = batch::verify(&self.ahead).map_err(invalid)?;
        self.position += size as u64;
        Ok(Some((header, self.ahead.split_to(size))))
    }

    fn ensure(&mut self, needed: usize) -> io::Result<()> {
        let left = self.end - self.position;
        if self.ahead.len() >= needed || self.ahead.len() as u64 >= left {
            return Ok(());
        }
        let count = left.min(needed.max(READ_AHEAD) as u64) as usize;
        self.ahead = read_at(&self.file, self.position, count)?;
        Ok(())
    }
}

/// `count` bytes at `position`.
pub(super) fn read_at(file: &File, position: u64, count: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; count];
    file.read_exact_at(&mut buffer, position)?;
    Ok(buffer.into())
}

fn invalid(error: batch::BatchError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
