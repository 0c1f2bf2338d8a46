use kafka_protocol::records::Compression;

use super::*;
use crate::batch::samples::{PLAIN, batch, numbered, plain};

const ALL: Isolation = Isolation::ReadUncommitted;

#[test]
fn a_time_leads_to_the_exact_record() {
    for codec in [Compression::None, Compression::Snappy] {
        let opened = open(|config| config.segment_bytes = 300);
        opened.at(batch(PLAIN, codec, &[(10, None, Some("a")), (30, None, Some("b")), (20, None, Some("c"))]));
        opened.at(batch(PLAIN, codec, &[(5, None, Some("d"))]));
        opened.at(batch(PLAIN, codec, &[(40, None, Some("e")), (50, None, Some("f"))]));
        opened.at(batch(PLAIN, codec, &[(50, None, Some("g"))]));
        let at = |time| opened.log.offset_for(OffsetQuery::Timestamp(time, ALL)).unwrap();
        assert_eq!(at(0), Some((0, 10)));
        assert_eq!(at(11), Some((1, 30)));
        assert_eq!(at(31), Some((4, 40)));
        assert_eq!(at(50), Some((5, 50)));
        assert_eq!(at(51), None);
        let latest = opened.log.offset_for(OffsetQuery::MaxTimestamp(ALL)).unwrap();
        assert_eq!(latest, Some((5, 50)), "the first record with the largest time");
    }
}

#[test]
fn earliest_and_latest_have_no_time() {
    let opened = open(|_| {});
    opened.at(plain(&[(1, None, None), (1, None, None)]));
    opened.at(numbered(7, 0, 0, 2, true));
    opened.log.delete_before(1).unwrap();
    let answer = |query| opened.log.offset_for(query).unwrap();
    assert_eq!(answer(OffsetQuery::Earliest), Some((1, -1)));
    assert_eq!(answer(OffsetQuery::Latest(ALL)), Some((4, -1)));
    assert_eq!(answer(OffsetQuery::Latest(Isolation::ReadCommitted)), Some((2, -1)));
}

#[test]
fn an_answer_beyond_the_last_stable_offset_is_none() {
    let opened = open(|_| {});
    opened.at(plain(&[(5, None, None)]));
    opened.at(numbered(7, 0, 0, 1, true));
    opened.at(plain(&[(9, None, None)]));
    let at = |isolation| opened.log.offset_for(OffsetQuery::Timestamp(6, isolation)).unwrap();
    assert_eq!(at(ALL), Some((2, 9)));
    assert_eq!(at(Isolation::ReadCommitted), None);
}

#[test]
fn records_before_the_start_are_no_answer() {
    let opened = open(|_| {});
    opened.at(plain(&[(5, None, None), (6, None, None), (7, None, None)]));
    opened.log.delete_before(2).unwrap();
    assert_eq!(opened.log.offset_for(OffsetQuery::Timestamp(0, ALL)).unwrap(), Some((2, 7)));
}

#[test]
fn an_empty_log_has_no_record_at_any_time() {
    let opened = open(|_| {});
    for query in [OffsetQuery::Timestamp(0, ALL), OffsetQuery::Timestamp(i64::MIN, ALL), OffsetQuery::MaxTimestamp(ALL)]
    {
        assert_eq!(opened.log.offset_for(query).unwrap(), None);
    }
}

#[test]
fn stamped_batches_have_one_time() {
    let opened = open(|config| config.log_append_time = true);
    opened.at(plain(&[(5, None, None), (900, None, None)]));
    assert_eq!(opened.log.offset_for(OffsetQuery::Timestamp(6, ALL)).unwrap(), Some((0, NOW)));
    assert_eq!(opened.log.offset_for(OffsetQuery::Timestamp(NOW + 1, ALL)).unwrap(), None);
}
