//! A partition's log: batches in files, found by offset and by time.
//!
//! The log is a row of segments; batches are appended to the last one. What is needed to decide an append or to
//! find a batch is in memory (sparse indexes, the producers, the aborted transactions), the batches are not:
//! reading takes one contiguous range out of one file, and what was written lately is in the page cache anyway.
//!
//! One lock guards a partition's state. It is held while a batch is written, never while a file is read: readers
//! take the file and a range out of the state and read on their own, even when retention or compaction have
//! removed the file meanwhile.
//!
//! Files of a partition, each named by the offset it begins at: `.log` batches; `.index` summary of a segment
//! that no longer grows; `.snapshot` the producers before the last segment's first batch; and `checkpoint`, the
//! offset at which the log starts and up to which it is compacted.

mod aborted;
mod clean;
mod compact;
mod lookup;
mod producers;
mod read;
mod recover;
mod segment;
mod state;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::records::Compression;
use tokio::sync::watch;

use crate::batch::{self, BatchHeader, Records};
use crate::topics::TopicConfig;

pub use clean::Cleaned;
pub use lookup::OffsetQuery;
pub use producers::ProducerView;
pub use read::Read;

use producers::Verdict;
use state::LogState;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All.
    ReadUncommitted,
    /// Those before the first open transaction; the reader leaves aborted ones out itself.
    ReadCommitted,
}

impl Isolation {
    /// From a request's `isolation_level`: 1 is read committed.
    pub fn from_level(level: i8) -> Isolation {
        if level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted }
    }
}

/// A log's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// First offset that may be read.
    pub log_start: i64,
    /// First offset of the first open transaction, or the end.
    pub last_stable: i64,
    /// The end: the offset that the next record gets.
    pub high_watermark: i64,
}

/// What the caller of [`PartitionLog::append`] has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnCheck {
    /// A transactional batch is of an open transaction that has this partition.
    Verified,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: i64,
    /// The time of appending if the topic stamps records with it, in epoch milliseconds, or -1.
    pub log_append_time_ms: i64,
    /// First offset that may be read.
    pub log_start: i64,
    /// Whether it was there already.
    pub duplicate: bool,
}

/// One partition on disk.
#[derive(Debug)]
pub struct PartitionLog {
    folder: PathBuf,
    state: Mutex<LogState>,
    /// Held by retention and compaction; there is one of them at a time.
    cleaning: Mutex<()>,
    grown: watch::Sender<(i64, i64)>,
    /// What the disk said, when a client was told only that there was trouble.
    trouble: Mutex<Option<String>>,
}

impl PartitionLog {
    /// Opens the log in `folder`, or makes one. What a killed process left half-written is cut; the producers
    /// and transactions are as they were.
    ///
    /// # Errors
    /// Trouble of the disk, and `InvalidData` for damage that is not the mark of a killed process.
    pub fn open(folder: &Path, config: Arc<TopicConfig>, now_ms: i64) -> io::Result<PartitionLog> {
        let state = recover::recover(folder, config, now_ms)?;
        let (grown, _) = watch::channel((state.end(), state.last_stable()));
        Ok(PartitionLog {
            folder: folder.into(),
            state: Mutex::new(state),
            cleaning: Mutex::new(()),
            grown,
            trouble: Mutex::new(None),
        })
    }

    /// Appends one batch of a producer; it gets the next offsets.
    ///
    /// # Errors
    /// What Kafka answers: `CORRUPT_MESSAGE`, `INVALID_RECORD` (also for more or fewer than one batch, and for
    /// records without a key in a compacted topic), `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE` (larger than a
    /// segment), `INVALID_TIMESTAMP`, `OUT_OF_ORDER_SEQUENCE_NUMBER`, `INVALID_PRODUCER_EPOCH`,
    /// `INVALID_TXN_STATE`, `KAFKA_STORAGE_ERROR`.
    pub fn append(&self, records: Bytes, _checked: TxnCheck, now_ms: i64) -> Result<Appended, ResponseError> {
        let config = Arc::clone(&self.state().config);
        let (header, batch) = admissible(records, &config, now_ms)?;
        let log_append_time_ms = if config.log_append_time { now_ms } else { -1 };

        let mut state = self.state();
        if state.deleted {
            return Err(ResponseError::UnknownTopicOrPartition);
        }
        let log_start = state.log_start;
        if let Verdict::Duplicate { base_offset, timestamp } = state.producers.judge(&header)? {
            let log_append_time_ms = if config.log_append_time { timestamp } else { -1 };
            return Ok(Appended { base_offset, log_append_time_ms, log_start, duplicate: true });
        }
        let base_offset = state.append(&self.folder, &header, &batch, now_ms).map_err(|error| self.storage(error))?;
        state.producers.appended(&header, base_offset, now_ms);
        self.announce(&state);
        Ok(Appended { base_offset, log_append_time_ms, log_start, duplicate: false })
    }

    /// Ends the producer's transaction in this partition; returns the marker's offset. When that has been done
    /// already nothing is written and the end is returned: a coordinator repeats itself after a restart.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_EPOCH` when the producer is in a newer epoch here, `KAFKA_STORAGE_ERROR`.
    pub fn append_end_marker(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        commit: bool,
        now_ms: i64,
    ) -> Result<i64, ResponseError> {
        let mut state = self.state();
        if state.deleted {
            return Err(ResponseError::UnknownTopicOrPartition);
        }
        if !state.producers.needs_marker(producer_id, producer_epoch)? {
            return Ok(state.end());
        }
        let batch = batch::end_marker(producer_id, producer_epoch, COORDINATOR_EPOCH, commit, state.end(), now_ms);
        let header = batch::parse(&batch).map_err(|_| ResponseError::UnknownServerError)?;
        let offset = state.append(&self.folder, &header, &batch, now_ms).map_err(|error| self.storage(error))?;
        state.ended(producer_id, producer_epoch, commit, offset, now_ms);
        self.announce(&state);
        Ok(offset)
    }

    /// The log's bounds.
    pub fn offsets(&self) -> Offsets {
        self.state().offsets()
    }

    /// Makes records before `offset` (-1 for the end) unreadable; their files go with the next cleaning. Returns
    /// where the log starts now.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE` after the end, `POLICY_VIOLATION` when the topic is only compacted,
    /// `KAFKA_STORAGE_ERROR`.
    pub fn delete_before(&self, offset: i64) -> Result<i64, ResponseError> {
        let mut state = self.state();
        if !state.config.delete {
            return Err(ResponseError::PolicyViolation);
        }
        let end = state.end();
        let offset = if offset == -1 { end } else { offset };
        if !(0..=end).contains(&offset) {
            return Err(ResponseError::OffsetOutOfRange);
        }
        if offset > state.log_start {
            state.start_at(&self.folder, offset).map_err(|error| self.storage(error))?;
        }
        Ok(state.log_start)
    }

    /// Tells of each growth: the end and the last stable offset.
    pub fn grown(&self) -> watch::Receiver<(i64, i64)> {
        self.grown.subscribe()
    }

    /// The producers that are remembered.
    pub fn producers(&self) -> Vec<ProducerView> {
        self.state().producers.views()
    }

    /// Bytes of batches on disk.
    pub fn size_bytes(&self) -> u64 {
        self.state().segments.iter().map(|segment| segment.size).sum()
    }

    /// Removes the log from the disk. Later calls answer that there is no such partition.
    pub fn delete(&self) -> io::Result<()> {
        let _nobody_cleans = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        state.deleted = true;
        state.close();
        self.announce(&state);
        segment::absent_is_fine(fs::remove_dir_all(&self.folder))
    }

    /// Puts another configuration in force, from the next append or cleaning on.
    pub fn reconfigure(&self, config: Arc<TopicConfig>) {
        self.state().config = config;
    }

    /// What the disk said when `KAFKA_STORAGE_ERROR` was answered, once.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A poisoned lock is taken all the same: every change of the state is complete before anything can panic.
    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, state: &LogState) {
        self.grown.send_replace((state.end(), state.last_stable()));
    }

    fn storage(&self, error: io::Error) -> ResponseError {
        let text = format!("{}: {error}", self.folder.display());
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        ResponseError::KafkaStorageError
    }
}

/// There is one coordinator and it never moves.
const COORDINATOR_EPOCH: i32 = 0;

/// The one batch of a produce request, checked against the topic's configuration and in the form it is stored.
fn admissible(records: Bytes, config: &TopicConfig, now_ms: i64) -> Result<(BatchHeader, Bytes), ResponseError> {
    let [(header, mut batch)]: [(BatchHeader, Bytes); 1] =
        batch::split(records)?.try_into().map_err(|_| ResponseError::InvalidRecord)?;
    check_size(&header, config)?;
    // Looking through plain records costs little; compressed ones are opened only where the answer depends on it.
    let plain = header.compression() == Some(Compression::None);
    let mut max_timestamp = header.max_timestamp;
    if plain || config.compact || bounds_timestamps_below(config) {
        max_timestamp = check_records(&header, &batch, config, now_ms)?;
    }
    if config.log_append_time {
        batch = batch::stamp(&header, &batch, now_ms);
    } else if max_timestamp.saturating_sub(now_ms) > config.timestamp_after_max_ms {
        return Err(ResponseError::InvalidTimestamp);
    } else if max_timestamp != header.max_timestamp {
        // Lookups and retention go by it, so it must be true whatever the client wrote.
        batch = batch::encode(&BatchHeader { max_timestamp, ..header }, &batch[batch::HEADER_SIZE..]);
    }
    if let Some(codec) = config.compression
        && header.compression() != Some(codec)
    {
        let stored = batch::parse(&batch).map_err(|_| ResponseError::CorruptMessage)?;
        batch = batch::recompress(&stored, &batch, codec, config.compression_level())
            .map_err(|_| ResponseError::CorruptMessage)?;
    }
    let header = batch::parse(&batch).map_err(|_| ResponseError::CorruptMessage)?;
    check_size(&header, config)?;
    Ok((header, batch))
}

fn check_size(header: &BatchHeader, config: &TopicConfig) -> Result<(), ResponseError> {
    if header.size > config.max_message_bytes {
        return Err(ResponseError::MessageTooLarge);
    }
    if header.size as u64 > config.segment_bytes {
        return Err(ResponseError::RecordListTooLarge);
    }
    Ok(())
}

fn bounds_timestamps_below(config: &TopicConfig) -> bool {
    !config.log_append_time && config.timestamp_before_max_ms < i64::MAX
}

/// What only the records themselves tell: whether they are whole, whether they have keys, and how old the oldest
/// is. Returns the largest of their times.
fn check_records(header: &BatchHeader, batch: &[u8], config: &TopicConfig, now_ms: i64) -> Result<i64, ResponseError> {
    let plain = batch::decompress(header, batch).map_err(|_| ResponseError::CorruptMessage)?;
    let bounded = bounds_timestamps_below(config);
    let mut max_timestamp = -1;
    let mut records = Records::new(&plain, header.record_count);
    for (number, record) in (0..).zip(records.by_ref()) {
        let record = record.map_err(|_| ResponseError::InvalidRecord)?;
        if record.offset_delta != number || (config.compact && record.key.is_none()) {
            return Err(ResponseError::InvalidRecord);
        }
        let timestamp = header.base_timestamp.saturating_add(record.timestamp_delta);
        if bounded && timestamp >= 0 && now_ms.saturating_sub(timestamp) > config.timestamp_before_max_ms {
            return Err(ResponseError::InvalidTimestamp);
        }
        max_timestamp = max_timestamp.max(timestamp);
    }
    if records.is_exhausted() { Ok(max_timestamp) } else { Err(ResponseError::InvalidRecord) }
}
