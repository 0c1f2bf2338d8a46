use super::*;
use crate::batch::samples::{numbered, plain};

/// Ten segments of one batch each, with times 0, 100, ... 900.
fn ten_segments(change: impl FnOnce(&mut TopicConfig)) -> Opened {
    let opened = open(|config| {
        config.segment_bytes = 100;
        change(config);
    });
    for round in 0..10 {
        opened.at(plain(&[(round * 100, None, Some("a value"))]));
    }
    assert_eq!(opened.files(".log").len(), 10);
    opened
}

#[test]
fn nothing_goes_by_default_however_old_records_say_they_are() {
    let opened = ten_segments(|_| {});
    assert_eq!(opened.log.clean(i64::MAX).unwrap(), Cleaned::default());
    assert_eq!(opened.log.offsets().log_start, 0);
}

#[test]
fn old_segments_go_by_their_largest_time() {
    let mut opened = ten_segments(|config| config.retention_ms = 500);
    assert_eq!(opened.log.clean(500).unwrap().deleted_segments, 0);
    assert_eq!(opened.log.clean(701).unwrap().deleted_segments, 3);
    assert_eq!(opened.log.offsets().log_start, 3);
    opened.reopen();
    assert_eq!(opened.log.offsets().log_start, 3);
    assert_eq!(opened.values(Isolation::ReadUncommitted).len(), 7);
}

#[test]
fn when_all_is_old_the_offsets_go_on() {
    let mut opened = ten_segments(|config| config.retention_ms = 500);
    assert_eq!(opened.log.clean(5000).unwrap().deleted_segments, 10);
    assert_eq!(opened.log.size_bytes(), 0);
    opened.reopen();
    let offsets = opened.log.offsets();
    assert_eq!((offsets.log_start, offsets.high_watermark), (10, 10));
    assert_eq!(opened.at(plain(&[(1, None, None)])), 10);
}

#[test]
fn a_segment_stays_as_long_as_its_latest_record() {
    let opened = open(|config| {
        config.segment_bytes = 200;
        config.retention_ms = 500;
    });
    opened.at(plain(&[(9000, None, Some("recent"))]));
    opened.at(plain(&[(1, None, Some("old"))]));
    opened.at(plain(&[(1, None, Some("old too"))]));
    assert!(opened.files(".log").len() > 1);
    opened.log.clean(9100).unwrap();
    assert_eq!(opened.log.offsets().log_start, 0);
}

#[test]
fn records_without_a_time_go_by_the_age_of_the_file() {
    let opened = open(|config| {
        config.segment_bytes = 100;
        config.retention_ms = 60_000;
    });
    for _ in 0..3 {
        opened.at(plain(&[(-1, None, Some("a value"))]));
    }
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 0, "the files are of the real present");
    assert_eq!(opened.log.clean(i64::MAX).unwrap().deleted_segments, 3);
}

#[test]
fn the_oldest_go_when_there_is_too_much() {
    let opened = ten_segments(|_| {});
    let one = opened.log.size_bytes() / 10;
    opened.log.reconfigure(Arc::new(TopicConfig { retention_bytes: one as i64 * 4 + 1, ..(*opened.config).clone() }));
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 5, "what is left is not less than the limit");
    assert_eq!(opened.log.offsets().log_start, 5);
}

#[test]
fn files_before_the_start_go_whatever_the_policy() {
    let opened = ten_segments(|_| {});
    opened.log.delete_before(4).unwrap();
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 4);
    assert_eq!(opened.files(".log").len(), 6);
}

#[test]
fn a_compacted_topic_deletes_nothing_by_age_or_request() {
    let opened = ten_segments(|config| {
        config.delete = false;
        config.retention_ms = 0;
    });
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 0);
    assert_eq!(opened.log.delete_before(1).unwrap_err(), ResponseError::PolicyViolation);
}

#[test]
fn records_of_an_open_transaction_stay() {
    let opened = open(|config| {
        config.segment_bytes = 120;
        config.retention_ms = 0;
    });
    opened.at(numbered(7, 0, 0, 1, true));
    opened.at(numbered(-1, -1, -1, 1, false));
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 0);
    opened.log.append_end_marker(7, 0, true, 1).unwrap();
    assert_eq!(opened.log.clean(NOW).unwrap().deleted_segments, 3);
}

#[test]
fn a_long_stretch_of_record_time_begins_a_new_segment() {
    let opened = open(|config| config.segment_ms = 1000);
    for time in [5000, 6000, 100, 6001, 6500] {
        opened.at(plain(&[(time, None, None)]));
    }
    assert_eq!(opened.files(".log").len(), 2);
}

#[test]
fn idle_producers_are_forgotten_after_a_day_but_not_amid_a_transaction() {
    let opened = open(|_| {});
    opened.at(numbered(7, 0, 0, 1, false));
    opened.at(numbered(8, 0, 0, 1, true));
    let day = 24 * 60 * 60 * 1000;
    opened.log.clean(NOW + day - 1).unwrap();
    assert_eq!(opened.log.producers().len(), 2);
    opened.log.clean(NOW + day).unwrap();
    let left = opened.log.producers();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].producer_id, left[0].current_txn_start_offset), (8, Some(1)));
}
