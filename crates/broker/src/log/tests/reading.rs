use super::*;
use crate::batch::samples::{numbered, plain};

#[test]
fn a_read_is_whole_batches_up_to_the_limit() {
    let opened = open(|_| {});
    let bytes = plain(&[(1, None, Some("a")), (1, None, Some("b"))]);
    for _ in 0..10 {
        opened.at(bytes.clone());
    }
    let read = |from, max_bytes, at_least_one| {
        let read = opened.log.read(from, max_bytes, at_least_one, Isolation::ReadUncommitted).unwrap();
        samples::headers(&read.records).iter().map(|header| header.base_offset).collect::<Vec<_>>()
    };
    assert_eq!(read(5, bytes.len() * 3, false), [4, 6, 8]);
    assert_eq!(read(5, bytes.len() * 3 - 1, false), [4, 6]);
    assert_eq!(read(5, 1, true), [4]);
    assert_eq!(read(5, 1, false), [0i64; 0]);
    assert_eq!(read(19, 1 << 20, false), [18]);
    assert_eq!(read(20, 1 << 20, true), [0i64; 0]);
}

#[test]
fn offsets_outside_are_refused() {
    let opened = open(|_| {});
    opened.at(numbered(-1, -1, -1, 3, false));
    opened.log.delete_before(1).unwrap();
    for from in [-1, 0, 4] {
        let refused = opened.log.read(from, 100, true, Isolation::ReadUncommitted).unwrap_err();
        assert_eq!(refused, ResponseError::OffsetOutOfRange);
    }
    assert!(!opened.log.read(1, 100, true, Isolation::ReadUncommitted).unwrap().records.is_empty());
}

#[test]
fn committed_readers_stop_at_the_first_open_transaction() {
    let opened = open(|_| {});
    opened.at(plain(&[(1, None, Some("before"))]));
    opened.at(numbered(7, 0, 0, 1, true));
    opened.at(plain(&[(1, None, Some("after"))]));
    assert_eq!(opened.values(Isolation::ReadCommitted), pairs(&[(0, "before")]));
    assert_eq!(opened.log.offsets().last_stable, 1);
    opened.log.append_end_marker(7, 0, true, NOW).unwrap();
    assert_eq!(opened.values(Isolation::ReadCommitted), pairs(&[(0, "before"), (1, "v"), (2, "after")]));
    assert_eq!(opened.log.offsets().last_stable, 4);
}

#[test]
fn aborted_transactions_come_with_the_batches_they_touch() {
    let opened = open(|config| config.segment_bytes = 400);
    for round in 0..20 {
        let (id, epoch) = (round % 3, 0);
        let sequence = (round / 3) as i32 * 2;
        opened.at(numbered(id, epoch, sequence, 2, true));
        opened.at(plain(&[(1, None, Some("plain"))]));
        opened.log.append_end_marker(id, epoch, round % 2 == 0, NOW).unwrap();
    }
    for max_bytes in [1, 200, 1 << 20] {
        let seen = opened.consume(0, max_bytes, Isolation::ReadCommitted);
        let committed = seen.iter().filter(|record| record.transactional).count();
        assert_eq!(committed, 20, "two records of every second round");
        assert_eq!(seen.len(), 40);
    }
    let read = opened.log.read(4, 1, true, Isolation::ReadCommitted).unwrap();
    assert_eq!(read.aborted, [(1, 4)], "only the transaction of the one batch");
    let read = opened.log.read(4, 1, true, Isolation::ReadUncommitted).unwrap();
    assert!(read.aborted.is_empty());
}

#[test]
fn a_reader_goes_on_in_a_file_that_was_deleted() {
    let opened = open(|config| config.segment_bytes = 200);
    for _ in 0..10 {
        opened.at(plain(&[(1, None, Some("value"))]));
    }
    let before = opened.log.read(0, 1000, true, Isolation::ReadUncommitted).unwrap();
    opened.log.delete_before(8).unwrap();
    opened.log.clean(NOW).unwrap();
    assert_eq!(opened.log.offsets().log_start, 8);
    assert!(!before.records.is_empty());
    assert_eq!(opened.values(Isolation::ReadUncommitted), pairs(&[(8, "value"), (9, "value")]));
}
