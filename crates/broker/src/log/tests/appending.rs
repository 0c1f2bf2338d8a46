use kafka_protocol::records::Compression;

use super::*;
use crate::batch::samples::{PLAIN, batch, numbered, plain};

#[test]
fn batches_get_consecutive_offsets() {
    let opened = open(|_| {});
    assert_eq!(opened.at(plain(&[(1, None, Some("a")), (2, None, Some("b"))])), 0);
    assert_eq!(opened.at(plain(&[(3, None, Some("c"))])), 2);
    assert_eq!(opened.values(Isolation::ReadUncommitted), pairs(&[(0, "a"), (1, "b"), (2, "c")]));
    let offsets = opened.log.offsets();
    assert_eq!((offsets.log_start, offsets.last_stable, offsets.high_watermark), (0, 3, 3));
}

#[test]
fn one_batch_is_taken_and_nothing_else() {
    let opened = open(|_| {});
    let one = plain(&[(1, None, Some("a"))]);
    let two = [one.clone(), one.clone()].concat();
    assert_eq!(opened.append(two.into()).unwrap_err(), ResponseError::InvalidRecord);
    assert_eq!(opened.append(Bytes::new()).unwrap_err(), ResponseError::InvalidRecord);
    assert_eq!(opened.append(one.slice(..one.len() - 2)).unwrap_err(), ResponseError::CorruptMessage);
    assert_eq!(opened.log.offsets().high_watermark, 0);
}

#[test]
fn a_batch_sent_twice_is_stored_once_and_answered_twice() {
    let opened = open(|_| {});
    for sequence in (0..10).step_by(2) {
        assert_eq!(opened.at(numbered(7, 0, sequence, 2, false)), i64::from(sequence));
    }
    for sequence in (0..10).step_by(2) {
        let again = opened.append(numbered(7, 0, sequence, 2, false)).unwrap();
        assert_eq!((again.base_offset, again.duplicate), (i64::from(sequence), true));
    }
    opened.at(numbered(7, 0, 10, 2, false));
    // The first one has left the window of five: it can no longer be told from a gap.
    let refused = opened.append(numbered(7, 0, 0, 2, false)).unwrap_err();
    assert_eq!(refused, ResponseError::OutOfOrderSequenceNumber);
    assert_eq!(opened.log.offsets().high_watermark, 12);
}

#[test]
fn a_gap_is_refused_and_the_wrap_is_none() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, i32::MAX - 1, 2, false));
    let refused = opened.append(numbered(7, 0, 1, 1, false)).unwrap_err();
    assert_eq!(refused, ResponseError::OutOfOrderSequenceNumber);
    assert_eq!(opened.at(numbered(7, 0, 0, 1, false)), 2);
}

#[test]
fn a_new_epoch_begins_at_zero_and_fences_the_old() {
    let opened = open(|_| {});
    opened.at(numbered(7, 3, 0, 1, false));
    assert_eq!(opened.append(numbered(7, 4, 1, 1, false)).unwrap_err(), ResponseError::OutOfOrderSequenceNumber);
    // The same sequence number as in the old epoch, and yet no duplicate.
    let appended = opened.append(numbered(7, 4, 0, 1, false)).unwrap();
    assert_eq!((appended.base_offset, appended.duplicate), (1, false));
    assert_eq!(opened.append(numbered(7, 3, 1, 1, false)).unwrap_err(), ResponseError::InvalidProducerEpoch);
}

#[test]
fn a_marker_fences_whoever_is_in_an_older_epoch() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, 0, 1, true));
    opened.log.append_end_marker(7, 1, false, NOW).unwrap();
    assert_eq!(opened.append(numbered(7, 0, 1, 1, true)).unwrap_err(), ResponseError::InvalidProducerEpoch);
    assert_eq!(opened.log.append_end_marker(7, 0, true, NOW).unwrap_err(), ResponseError::InvalidProducerEpoch);
    assert_eq!(opened.append(numbered(7, 1, 5, 1, true)).unwrap_err(), ResponseError::OutOfOrderSequenceNumber);
    assert_eq!(opened.at(numbered(7, 1, 0, 1, true)), 2);
}

#[test]
fn a_marker_of_the_same_epoch_lets_the_sequence_go_on() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, 0, 2, true));
    opened.log.append_end_marker(7, 0, true, NOW).unwrap();
    assert_eq!(opened.at(numbered(7, 0, 2, 1, true)), 3);
}

#[test]
fn a_repeated_marker_is_not_written_again() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, 0, 1, true));
    assert_eq!(opened.log.append_end_marker(7, 0, true, NOW).unwrap(), 1);
    assert_eq!(opened.log.append_end_marker(7, 0, true, NOW).unwrap(), 2);
    assert_eq!(opened.log.offsets().high_watermark, 2);
}

#[test]
fn plain_batches_do_not_mix_into_a_transaction() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, 0, 1, true));
    assert_eq!(opened.append(numbered(7, 0, 1, 1, false)).unwrap_err(), ResponseError::InvalidTxnState);
}

#[test]
fn sizes_are_bounded() {
    let big = "x".repeat(300);
    let bytes = plain(&[(1, None, Some(&big))]);
    let opened = open(|config| config.max_message_bytes = bytes.len() - 1);
    assert_eq!(opened.append(bytes.clone()).unwrap_err(), ResponseError::MessageTooLarge);
    let opened = open(|config| config.segment_bytes = bytes.len() as u64 - 1);
    assert_eq!(opened.append(bytes.clone()).unwrap_err(), ResponseError::RecordListTooLarge);
    let opened = open(|config| config.segment_bytes = bytes.len() as u64);
    opened.at(bytes);
}

#[test]
fn times_are_bounded_or_replaced() {
    let record = |time| plain(&[(time, None, Some("a"))]);
    let opened = open(|config| {
        config.timestamp_after_max_ms = 10;
        config.timestamp_before_max_ms = 20;
    });
    opened.at(record(NOW + 10));
    opened.at(record(NOW - 20));
    opened.at(record(-1));
    assert_eq!(opened.append(record(NOW + 11)).unwrap_err(), ResponseError::InvalidTimestamp);
    assert_eq!(opened.append(record(NOW - 21)).unwrap_err(), ResponseError::InvalidTimestamp);

    let opened = open(|config| config.log_append_time = true);
    let appended = opened.append(record(NOW + i64::from(i32::MAX))).unwrap();
    assert_eq!(appended.log_append_time_ms, NOW);
    let stored = opened.log.read(0, 1000, true, Isolation::ReadUncommitted).unwrap().records;
    let header = batch::verify(&stored).unwrap();
    assert!(header.is_log_append_time());
    assert_eq!(header.max_timestamp, NOW);
}

#[test]
fn records_of_a_compacted_topic_need_keys() {
    let opened = open(|config| config.compact = true);
    for codec in [Compression::None, Compression::Zstd] {
        let keyless = batch(PLAIN, codec, &[(1, Some("k"), None), (1, None, Some("v"))]);
        assert_eq!(opened.append(keyless).unwrap_err(), ResponseError::InvalidRecord);
        opened.at(batch(PLAIN, codec, &[(1, Some("k"), None)]));
    }
}

#[test]
fn records_that_are_not_what_the_head_says_are_refused() {
    let opened = open(|_| {});
    let sent = plain(&[(10, Some("k"), Some("v")), (20, Some("k"), Some("v"))]);
    let header = batch::parse(&sent).unwrap();
    let records = &sent[batch::HEADER_SIZE..];
    let more = [records, &[0]].concat();
    let swapped = [&records[records.len() / 2..], &records[..records.len() / 2]].concat();
    for wrong in [&records[..records.len() - 1], &more, &swapped, &[7, 7, 7]] {
        let refused = opened.append(batch::encode(&header, wrong)).unwrap_err();
        assert_eq!(refused, ResponseError::InvalidRecord, "{wrong:?}");
    }
    // A largest time that is not that of any record is put right.
    opened.at(batch::encode(&BatchHeader { max_timestamp: 999, ..header }, records));
    let stored = opened.log.read(0, 1000, true, Isolation::ReadUncommitted).unwrap().records;
    assert_eq!(batch::verify(&stored).unwrap().max_timestamp, 20);
}

#[test]
fn a_topic_may_compress_again() {
    let opened = open(|config| config.compression = Some(Compression::Lz4));
    let value = "again and ".repeat(100);
    let sent = batch(PLAIN, Compression::Gzip, &[(1, Some("k"), Some(&value))]);
    opened.at(sent);
    let stored = opened.log.read(0, 10_000, true, Isolation::ReadUncommitted).unwrap().records;
    assert_eq!(batch::verify(&stored).unwrap().compression(), Some(Compression::Lz4));
    assert_eq!(opened.values(Isolation::ReadUncommitted), pairs(&[(0, &value)]));
}

#[test]
fn growth_is_told() {
    let opened = open(|_| {});
    let mut grown = opened.log.grown();
    opened.at(numbered(7, 0, 0, 2, true));
    assert!(grown.has_changed().unwrap());
    assert_eq!(*grown.borrow_and_update(), (2, 0));
    opened.log.append_end_marker(7, 0, true, NOW).unwrap();
    assert_eq!(*grown.borrow_and_update(), (3, 3));
}

#[test]
fn the_disk_s_trouble_is_told_once() {
    let opened = open(|_| {});
    fs::remove_dir_all(opened.path()).unwrap();
    let refused = opened.append(plain(&[(1, None, None)])).unwrap_err();
    assert_eq!(refused, ResponseError::KafkaStorageError);
    assert!(opened.log.take_trouble().unwrap().contains("t-0"));
    assert_eq!(opened.log.take_trouble(), None);
}

#[test]
fn a_deleted_log_is_gone() {
    let opened = open(|_| {});
    opened.at(plain(&[(1, None, None)]));
    opened.log.delete().unwrap();
    assert!(!opened.path().exists());
    let gone = ResponseError::UnknownTopicOrPartition;
    assert_eq!(opened.append(plain(&[(1, None, None)])).unwrap_err(), gone);
    assert_eq!(opened.log.read(0, 10, true, Isolation::ReadCommitted).unwrap_err(), gone);
    opened.log.clean(NOW).unwrap();
    assert!(!opened.path().exists());
}
