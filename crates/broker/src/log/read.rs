//! Reading a range of whole batches.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;

use super::segment::read_at;
use super::state::LogState;
use super::{Isolation, Offsets, PartitionLog};
use crate::batch::{self, BatchHeader};

/// What a read found.
#[derive(Clone, Debug)]
pub struct Read {
    /// Whole batches, the first of which ends at or after the offset that was asked for; maybe empty.
    pub records: Bytes,
    /// The log's bounds at the time of the read.
    pub offsets: Offsets,
    /// Aborted transactions with records among these batches: producer and first offset. Only for
    /// [`Isolation::ReadCommitted`].
    pub aborted: Vec<(i64, i64)>,
}

/// A stretch of a file in which the wanted batches are.
struct Stretch {
    file: Arc<File>,
    /// Where a batch begins, at or before the one that is wanted.
    position: u64,
    /// Where the segment's batches end.
    end: u64,
    /// Base offset of the next segment.
    next: Option<i64>,
    /// The state's `forgotten` at the time.
    forgotten: u64,
}

/// Bytes read past what was asked for, to reach the wanted batch from the index entry before it.
const SLACK: u64 = 8 << 10;

impl PartitionLog {
    /// Reads batches from offset `from` on, at most `max_bytes`; with `at_least_one` the first batch comes
    /// whole however large it is. A read ends with its segment.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE` before the start or after the end, `KAFKA_STORAGE_ERROR`.
    pub fn read(
        &self,
        from: i64,
        max_bytes: usize,
        at_least_one: bool,
        isolation: Isolation,
    ) -> Result<Read, ResponseError> {
        let mut search = from;
        loop {
            let (offsets, limit, stretch) = self.stretch(from, search, isolation)?;
            let nothing = Read { records: Bytes::new(), offsets, aborted: Vec::new() };
            let Some(stretch) = stretch else { return Ok(nothing) };
            let found = stretch.batches(from, limit, max_bytes, at_least_one);
            match (found.map_err(|error| self.storage(error))?, stretch.next) {
                (Found::Batches { records, until }, _) => match self.aborted(from, until, &stretch, isolation) {
                    Some(aborted) => return Ok(Read { records, aborted, ..nothing }),
                    // Compaction has dropped aborted records that have just been read: read what it has left.
                    None => search = from,
                },
                // Compaction may have left nothing of a segment from this offset on.
                (Found::Nothing, Some(next)) if next < limit => search = next,
                _ => return Ok(nothing),
            }
        }
    }

    fn stretch(
        &self,
        from: i64,
        search: i64,
        isolation: Isolation,
    ) -> Result<(Offsets, i64, Option<Stretch>), ResponseError> {
        let state = self.state();
        if state.deleted {
            return Err(ResponseError::UnknownTopicOrPartition);
        }
        let offsets = state.offsets();
        if from < offsets.log_start || from > offsets.high_watermark {
            return Err(ResponseError::OffsetOutOfRange);
        }
        let limit = match isolation {
            Isolation::ReadUncommitted => offsets.high_watermark,
            Isolation::ReadCommitted => offsets.last_stable,
        };
        let stretch = if search < limit { state.stretch(search) } else { Ok(None) };
        Ok((offsets, limit, stretch.map_err(|error| self.storage(error))?))
    }

    /// The aborted transactions among what was read; `None` if some may have been forgotten since.
    fn aborted(&self, from: i64, until: i64, stretch: &Stretch, isolation: Isolation) -> Option<Vec<(i64, i64)>> {
        if isolation == Isolation::ReadUncommitted {
            return Some(Vec::new());
        }
        let state = self.state();
        if state.forgotten != stretch.forgotten {
            return None;
        }
        let aborted = state.aborted.overlapping(from, until);
        Some(aborted.iter().map(|aborted| (aborted.producer_id, aborted.first)).collect())
    }
}

impl LogState {
    /// The stretch in which the batch with offset `search` is, or the first one after it.
    fn stretch(&self, search: i64) -> io::Result<Option<Stretch>> {
        let first = self.segments.partition_point(|segment| segment.base <= search).saturating_sub(1);
        let mut candidates = self.segments[first..].iter().enumerate().filter(|(_, segment)| segment.size > 0);
        let Some((ahead, segment)) = candidates.next() else { return Ok(None) };
        Ok(Some(Stretch {
            file: segment.readable()?,
            position: segment.position_of(search),
            end: segment.size,
            next: self.segments.get(first + ahead + 1).map(|segment| segment.base),
            forgotten: self.forgotten,
        }))
    }
}

enum Found {
    /// Batches, and the offset after the last of them.
    Batches { records: Bytes, until: i64 },
    /// The first batch is too large, or behind the last stable offset.
    NotYet,
    /// No batch from the offset on.
    Nothing,
}

impl Stretch {
    fn batches(&self, from: i64, limit: i64, max_bytes: usize, at_least_one: bool) -> io::Result<Found> {
        let mut position = self.position;
        while position < self.end {
            let count = (self.end - position).min((max_bytes as u64).saturating_add(SLACK)) as usize;
            let ahead = read_at(&self.file, position, count)?;
            let (skipped, first) = skip_to(from, &ahead)?;
            let Some(first) = first else {
                position += skipped as u64;
                continue;
            };
            let fits = first.size <= max_bytes;
            return if first.base_offset >= limit || !(fits || at_least_one) {
                Ok(Found::NotYet)
            } else if fits && skipped + first.size <= ahead.len() {
                Ok(cut(ahead.slice(skipped..), limit, max_bytes))
            } else {
                let records = read_at(&self.file, position + skipped as u64, first.size)?;
                Ok(Found::Batches { records, until: first.last_offset() + 1 })
            };
        }
        Ok(Found::Nothing)
    }
}

/// The head of the first batch in `bytes` that ends at or after `from`, and the bytes before it; without a head,
/// the batches that are sure to be before it.
fn skip_to(from: i64, bytes: &[u8]) -> io::Result<(usize, Option<BatchHeader>)> {
    let mut skipped = 0;
    while let Some(rest) = bytes.get(skipped..).filter(|rest| !rest.is_empty()) {
        match batch::parse(rest) {
            Ok(header) if header.last_offset() >= from => return Ok((skipped, Some(header))),
            Ok(header) => skipped += header.size,
            Err(batch::BatchError::Truncated { .. }) if skipped > 0 => break,
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
    Ok((skipped, None))
}

/// The whole batches at the start of `bytes` that begin before `limit` and fit into `max_bytes`.
fn cut(bytes: Bytes, limit: i64, max_bytes: usize) -> Found {
    let mut size = 0;
    let mut until = 0;
    while let Ok(header) = batch::parse(&bytes[size..]) {
        if header.base_offset >= limit || size + header.size > max_bytes.min(bytes.len()) {
            break;
        }
        size += header.size;
        until = header.last_offset() + 1;
    }
    Found::Batches { records: bytes.slice(..size), until }
}
