//! From a point in time to the offset of the first record at or after it.

use std::io;

use kafka_protocol::ResponseError;

use super::segment::Batches;
use super::{Isolation, PartitionLog};
use crate::batch::{self, BatchHeader, Records};

/// What `ListOffsets` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The first offset that may be read (-2).
    Earliest,
    /// The offset after the last one that may be read (-1).
    Latest(Isolation),
    /// The first record with the largest timestamp (-3).
    MaxTimestamp(Isolation),
    /// The first record at or after a time, in epoch milliseconds.
    Timestamp(i64, Isolation),
}

impl PartitionLog {
    /// Answers with offset and timestamp, which is -1 where no record is meant; `None` if there is no such
    /// record. As in Kafka, markers count as records, an answer at or after what the isolation shows is none, and
    /// the largest timestamp may be that of a record before the start whose file is still there.
    ///
    /// # Errors
    /// `KAFKA_STORAGE_ERROR`.
    pub fn offset_for(&self, query: OffsetQuery) -> Result<Option<(i64, i64)>, ResponseError> {
        let (offsets, latest) = {
            let state = self.state();
            (state.offsets(), state.segments.iter().map(|segment| segment.max_timestamp).max())
        };
        let (timestamp, start, isolation) = match query {
            OffsetQuery::Earliest => return Ok(Some((offsets.log_start, -1))),
            OffsetQuery::Latest(Isolation::ReadUncommitted) => return Ok(Some((offsets.high_watermark, -1))),
            OffsetQuery::Latest(Isolation::ReadCommitted) => return Ok(Some((offsets.last_stable, -1))),
            OffsetQuery::MaxTimestamp(isolation) => (latest.unwrap_or(i64::MIN), 0, isolation),
            OffsetQuery::Timestamp(timestamp, isolation) => (timestamp, offsets.log_start, isolation),
        };
        let end = match isolation {
            Isolation::ReadUncommitted => offsets.high_watermark,
            Isolation::ReadCommitted => offsets.last_stable,
        };
        let found = self.first_at(timestamp, start).map_err(|error| self.storage(error))?;
        Ok(found.filter(|(offset, _)| *offset < end))
    }

    fn first_at(&self, timestamp: i64, start: i64) -> io::Result<Option<(i64, i64)>> {
        let mut from = i64::MIN;
        loop {
            let mut batches = {
                let state = self.state();
                let mut candidates = state.segments.iter().filter(|segment| segment.base > from && segment.size > 0);
                let Some(segment) = candidates.find(|segment| segment.max_timestamp >= timestamp) else {
                    return Ok(None);
                };
                from = segment.base;
                let position = segment.position_of_time(timestamp);
                Batches::new(segment.readable()?, position, segment.size)
            };
            while let Some((header, batch)) = batches.next()? {
                if header.max_timestamp >= timestamp
                    && header.last_offset() >= start
                    && let Some(found) = first_in_batch(&header, &batch, timestamp, start)?
                {
                    return Ok(Some(found));
                }
            }
        }
    }
}

fn first_in_batch(header: &BatchHeader, batch: &[u8], timestamp: i64, start: i64) -> io::Result<Option<(i64, i64)>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let plain = batch::decompress(header, batch).map_err(|error| invalid(error.to_string()))?;
    for record in Records::new(&plain, header.record_count) {
        let record = record.map_err(|what| invalid(format!("batch at offset {}: {what}", header.base_offset)))?;
        let offset = header.base_offset + i64::from(record.offset_delta);
        let time = if header.is_log_append_time() {
            header.max_timestamp
        } else {
            header.base_timestamp.saturating_add(record.timestamp_delta)
        };
        if time >= timestamp && offset >= start {
            return Ok(Some((offset, time)));
        }
    }
    Ok(None)
}
