//! Batches for tests, made by the client side of `kafka-protocol`, so that tests do not judge this crate's
//! encoder by itself.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use super::BatchHeader;

/// Who sends a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub id: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub transactional: bool,
}

/// Nobody that the log remembers.
pub(crate) const PLAIN: Sender = Sender { id: -1, epoch: -1, sequence: -1, transactional: false };

/// A record: time, key, value.
pub(crate) type Sample<'a> = (i64, Option<&'a str>, Option<&'a str>);

/// A batch as a producer sends it.
pub(crate) fn batch(sender: Sender, compression: Compression, records: &[Sample<'_>]) -> Bytes {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let records: Vec<Record> = records
        .iter()
        .enumerate()
        .map(|(at, (timestamp, key, value))| Record {
            transactional: sender.transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: sender.id,
            producer_epoch: sender.epoch,
            timestamp_type: TimestampType::Creation,
            offset: at as i64,
            sequence: sender.sequence.wrapping_add(at as i32),
            timestamp: *timestamp,
            key: key.map(bytes),
            value: value.map(bytes),
            headers: [("origin".into(), Some(bytes("test")))].into(),
        })
        .collect();
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, &records, &RecordEncodeOptions { version: 2, compression })
        .expect("the records are valid");
    out.freeze()
}

/// A batch of nobody, uncompressed.
pub(crate) fn plain(records: &[Sample<'_>]) -> Bytes {
    batch(PLAIN, Compression::None, records)
}

/// A batch of a producer, of `count` records at time 1.
pub(crate) fn numbered(id: i64, epoch: i16, sequence: i32, count: usize, transactional: bool) -> Bytes {
    let records = vec![(1, Some("k"), Some("v")); count];
    batch(Sender { id, epoch, sequence, transactional }, Compression::None, &records)
}

/// All records of some batches, as a client decodes them.
pub(crate) fn decode(mut batches: Bytes) -> Vec<Record> {
    let sets = RecordBatchDecoder::decode_all(&mut batches).expect("a client can decode what is stored");
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// The heads of some whole batches.
pub(crate) fn headers(mut batches: &[u8]) -> Vec<BatchHeader> {
    let mut headers = Vec::new();
    while !batches.is_empty() {
        let header = super::verify(batches).expect("what is stored is whole");
        batches = &batches[header.size..];
        headers.push(header);
    }
    headers
}
