//! Record batches, version 2: the unit in which records are sent, stored and fetched.
//!
//! The broker works on whole batches. It reads the 61 bytes at the head, gives the batch its offset (which the
//! checksum does not cover, for this very reason) and passes the rest on untouched; records are looked into only
//! where an answer depends on one of them: keys of compacted topics, lookups by time.
//!
//! ```text
//! 0 base offset i64 | 8 length i32 | 12 leader epoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
//! 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64
//! 51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records, maybe compressed
//! ```
//! The checksum covers everything from byte 21. Source: Kafka's `DefaultRecordBatch`.

mod compress;
mod records;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::records::Compression;

pub(crate) use compress::{compress, decompress};
pub(crate) use records::{RecordView, Records, put_record};

/// Bytes of a batch before its records.
pub const HEADER_SIZE: usize = 61;
/// Bytes before the part that the length field counts.
pub const PREFIX_SIZE: usize = 12;
/// Most bytes a batch's records may take when decompressed; more is refused as corrupt.
pub const DECOMPRESSED_MAX: usize = 256 << 20;

const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const RECORD_COUNT_AT: usize = 57;

const COMPRESSION_BITS: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// Why bytes are not a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than a head, or than the batch says it has.
    #[error("a record batch of {needed} bytes was cut at {had}")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        had: usize,
    },
    /// The length field cannot be right.
    #[error("a record batch says its length is {0} bytes")]
    Length(i32),
    /// A format before or after version 2.
    #[error("record batches of format {0} are not supported, only of format 2")]
    Magic(i8),
    /// The checksum is not that of the bytes.
    #[error("a record batch has the checksum {found:#010x} but says {stated:#010x}")]
    Checksum {
        /// What the batch says.
        stated: u32,
        /// What its bytes give.
        found: u32,
    },
    /// Records inside do not parse.
    #[error("a record batch at offset {offset} holds damaged records: {what}")]
    Records {
        /// Base offset of the batch.
        offset: i64,
        /// What was wrong.
        what: &'static str,
    },
}

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record the batch was made with.
    pub base_offset: i64,
    /// Bytes of the whole batch.
    pub size: usize,
    /// Epoch of the leader that wrote it; this broker is always in epoch 0.
    pub leader_epoch: i32,
    /// Format, always 2.
    pub magic: i8,
    /// Castagnoli checksum of everything from the attributes on.
    pub crc: u32,
    /// Compression, kind of timestamp, transactional, control, delete horizon.
    pub attributes: i16,
    /// Last offset less the base offset; stays when compaction takes records out.
    pub last_offset_delta: i32,
    /// What records' timestamp deltas are added to, in epoch milliseconds; with
    /// [`BatchHeader::delete_horizon_ms`] also the time until which tombstones stay.
    pub base_timestamp: i64,
    /// Largest timestamp of a record, or the time of appending, in epoch milliseconds.
    pub max_timestamp: i64,
    /// Idempotent producer, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Records inside.
    pub record_count: i32,
}

impl BatchHeader {
    /// Offset of the last record the batch was made with.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Sequence number of the last record; sequences wrap from `i32::MAX` to 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        (last % (1 << 31)) as i32
    }

    /// How the records are compressed; `None` for a number that means nothing.
    pub fn compression(&self) -> Option<Compression> {
        Some(match self.attributes & COMPRESSION_BITS {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            3 => Compression::Lz4,
            4 => Compression::Zstd,
            _ => return None,
        })
    }

    /// Whether the records belong to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch is a transaction's end marker.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether every record's time is [`BatchHeader::max_timestamp`], the time of appending.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Until when compaction keeps tombstones and markers of this batch (KIP-534).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// Whether the batch names an idempotent producer.
    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }
}

/// Reads the head of the batch at the start of `bytes`; the records need not be there.
pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    if bytes.len() < HEADER_SIZE {
        return Err(BatchError::Truncated { needed: HEADER_SIZE, had: bytes.len() });
    }
    let magic = bytes[16] as i8;
    if magic != 2 {
        return Err(BatchError::Magic(magic));
    }
    let length = i32_at(bytes, 8);
    if length < (HEADER_SIZE - PREFIX_SIZE) as i32 {
        return Err(BatchError::Length(length));
    }
    Ok(BatchHeader {
        base_offset: i64_at(bytes, 0),
        size: PREFIX_SIZE + length as usize,
        leader_epoch: i32_at(bytes, 12),
        magic,
        crc: i32_at(bytes, CRC_AT) as u32,
        attributes: i16_at(bytes, ATTRIBUTES_AT),
        last_offset_delta: i32_at(bytes, 23),
        base_timestamp: i64_at(bytes, BASE_TIMESTAMP_AT),
        max_timestamp: i64_at(bytes, MAX_TIMESTAMP_AT),
        producer_id: i64_at(bytes, 43),
        producer_epoch: i16_at(bytes, 51),
        base_sequence: i32_at(bytes, 53),
        record_count: i32_at(bytes, RECORD_COUNT_AT),
    })
}

/// Checks that `bytes` starts with a whole batch whose checksum is right.
pub fn verify(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = parse(bytes)?;
    if bytes.len() < header.size {
        return Err(BatchError::Truncated { needed: header.size, had: bytes.len() });
    }
    let found = crc32c::crc32c(&bytes[ATTRIBUTES_AT..header.size]);
    if found != header.crc {
        return Err(BatchError::Checksum { stated: header.crc, found });
    }
    Ok(header)
}

/// Cuts what a producer sent into its batches and checks each as Kafka's `LogValidator` does, without looking
/// at the records.
///
/// # Errors
/// `CORRUPT_MESSAGE` for lengths and checksums that do not hold, `INVALID_RECORD` for other formats, control
/// batches, counts that do not fit the offsets and producers without sequence numbers,
/// `UNSUPPORTED_COMPRESSION_TYPE` for a codec nobody knows.
pub fn split(mut records: Bytes) -> Result<Vec<(BatchHeader, Bytes)>, ResponseError> {
    let mut batches = Vec::new();
    while !records.is_empty() {
        let header = verify(&records).map_err(|error| match error {
            BatchError::Magic(_) => ResponseError::InvalidRecord,
            _ => ResponseError::CorruptMessage,
        })?;
        validate_produced(&header)?;
        batches.push((header, records.split_to(header.size)));
    }
    Ok(batches)
}

fn validate_produced(header: &BatchHeader) -> Result<(), ResponseError> {
    if header.compression().is_none() {
        return Err(ResponseError::UnsupportedCompressionType);
    }
    let counted = i64::from(header.last_offset_delta) + 1 == i64::from(header.record_count);
    let sequenced = !header.has_producer() || (header.base_sequence >= 0 && header.producer_epoch >= 0);
    let owned = header.has_producer() || !header.is_transactional();
    let plain = !header.is_control() && header.delete_horizon_ms().is_none();
    if header.record_count > 0 && counted && sequenced && owned && plain {
        Ok(())
    } else {
        Err(ResponseError::InvalidRecord)
    }
}

/// The batch that ends a transaction: one control record that says commit or abort.
pub fn end_marker(
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
    commit: bool,
    offset: i64,
    now_ms: i64,
) -> Bytes {
    let mut record = BytesMut::with_capacity(24);
    let mut key = [0u8; 4];
    key[2..4].copy_from_slice(&i16::from(commit).to_be_bytes());
    let mut value = [0u8; 6];
    value[2..6].copy_from_slice(&coordinator_epoch.to_be_bytes());
    records::put_fields(&mut record, 0, 0, Some(&key), Some(&value));
    let header = BatchHeader {
        base_offset: offset,
        size: 0,
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: TRANSACTIONAL | CONTROL,
        last_offset_delta: 0,
        base_timestamp: now_ms,
        max_timestamp: now_ms,
        producer_id,
        producer_epoch,
        base_sequence: -1,
        record_count: 1,
    };
    encode(&header, &record)
}

/// Whether a control batch commits; `None` when it is no end marker or is damaged.
pub fn marker_commits(batch: &[u8]) -> Option<bool> {
    let record = Records::new(batch.get(HEADER_SIZE..)?, 1).next()?.ok()?;
    let key = record.key?;
    if key.len() < 4 {
        return None;
    }
    match i16::from_be_bytes([key[2], key[3]]) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// A batch with this head and these (already compressed) records; size and checksum are computed.
pub fn encode(header: &BatchHeader, records: &[u8]) -> Bytes {
    let mut batch = BytesMut::with_capacity(HEADER_SIZE + records.len());
    batch.put_i64(header.base_offset);
    batch.put_i32((HEADER_SIZE - PREFIX_SIZE + records.len()) as i32);
    batch.put_i32(header.leader_epoch);
    batch.put_i8(header.magic);
    batch.put_u32(0);
    batch.put_i16(header.attributes);
    batch.put_i32(header.last_offset_delta);
    batch.put_i64(header.base_timestamp);
    batch.put_i64(header.max_timestamp);
    batch.put_i64(header.producer_id);
    batch.put_i16(header.producer_epoch);
    batch.put_i32(header.base_sequence);
    batch.put_i32(header.record_count);
    batch.put_slice(records);
    let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    batch.freeze()
}

/// The same batch, its records stamped with the time of appending (`message.timestamp.type=LogAppendTime`).
pub fn stamp(header: &BatchHeader, batch: &[u8], now_ms: i64) -> Bytes {
    let header = BatchHeader { attributes: header.attributes | LOG_APPEND_TIME, max_timestamp: now_ms, ..*header };
    encode(&header, &batch[HEADER_SIZE..])
}

/// The same batch, its records compressed in another way (`compression.type` other than `producer`).
pub fn recompress(
    header: &BatchHeader,
    batch: &[u8],
    target: Compression,
    level: Option<i32>,
) -> Result<Bytes, BatchError> {
    let plain = decompress(header, batch)?;
    let attributes = (header.attributes & !COMPRESSION_BITS) | target as i16;
    Ok(encode(&BatchHeader { attributes, ..*header }, &compress(&plain, target, level)))
}

/// A batch's head after compaction took records out or set until when its tombstones stay.
pub(crate) fn cleaned_header(
    header: &BatchHeader,
    record_count: i32,
    max_timestamp: i64,
    horizon_ms: Option<i64>,
) -> BatchHeader {
    let (attributes, base_timestamp) = match horizon_ms {
        Some(horizon_ms) => (header.attributes | DELETE_HORIZON, horizon_ms),
        None => (header.attributes, header.base_timestamp),
    };
    BatchHeader { record_count, max_timestamp, attributes, base_timestamp, ..*header }
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut raw = [0u8; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(raw)
}
