use std::fs::OpenOptions;

use super::*;
use crate::batch::samples::{numbered, plain};

#[test]
fn a_log_is_the_same_after_a_restart() {
    let mut opened = open(|config| config.segment_bytes = 300);
    for round in 0..12 {
        opened.at(plain(&[(round, None, Some("value"))]));
        opened.at(numbered(7, 0, round as i32, 1, true));
        if round % 3 == 0 {
            opened.log.append_end_marker(7, 0, round % 2 == 0, NOW).unwrap();
        }
    }
    let before = (opened.log.offsets(), opened.log.producers(), opened.log.size_bytes());
    let values = opened.values(Isolation::ReadUncommitted);
    let committed = opened.values(Isolation::ReadCommitted);
    assert!(opened.files(".log").len() > 3);
    opened.reopen();
    assert_eq!((opened.log.offsets(), opened.log.producers(), opened.log.size_bytes()), before);
    assert_eq!(opened.values(Isolation::ReadUncommitted), values);
    assert_eq!(opened.values(Isolation::ReadCommitted), committed);
    let again = opened.append(numbered(7, 0, 11, 1, true)).unwrap();
    assert!(again.duplicate, "the window of duplicates survives");
}

#[test]
fn everything_is_found_again_without_summaries_and_snapshots() {
    let mut opened = open(|config| config.segment_bytes = 300);
    for round in 0..12 {
        opened.at(numbered(7, 0, round, 1, true));
        opened.log.append_end_marker(7, 0, round % 2 == 0, NOW).unwrap();
    }
    opened.at(numbered(8, 2, 0, 1, true));
    let before = (opened.log.offsets(), opened.log.producers(), opened.values(Isolation::ReadCommitted));
    for suffix in [".index", ".snapshot"] {
        for name in opened.files(suffix) {
            fs::remove_file(opened.path().join(name)).unwrap();
        }
        opened.reopen();
        assert_eq!(
            (opened.log.offsets(), opened.log.producers(), opened.values(Isolation::ReadCommitted)),
            before,
            "without {suffix}"
        );
    }
}

#[test]
fn the_start_of_the_log_survives() {
    let mut opened = open(|_| {});
    opened.at(numbered(-1, -1, -1, 5, false));
    assert_eq!(opened.log.delete_before(3).unwrap(), 3);
    opened.reopen();
    assert_eq!(opened.log.offsets().log_start, 3);
    assert_eq!(opened.log.delete_before(-1).unwrap(), 5);
    opened.reopen();
    let offsets = opened.log.offsets();
    assert_eq!((offsets.log_start, offsets.high_watermark), (5, 5));
    assert_eq!(opened.log.delete_before(6).unwrap_err(), ResponseError::OffsetOutOfRange);
}

#[test]
fn garbage_after_the_last_batch_is_cut() {
    let mut opened = open(|_| {});
    let bytes = plain(&[(1, None, Some("a"))]);
    opened.at(bytes.clone());
    let path = opened.path().join(&opened.files(".log")[0]);
    for garbage in [&[0u8; 200][..], &bytes[..40], &[255u8; 61], &bytes[..bytes.len() - 1]] {
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], garbage].concat()).unwrap();
        opened.reopen();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(opened.values(Isolation::ReadUncommitted), pairs(&[(0, "a")]));
    }
    assert_eq!(opened.at(bytes), 1);
}

#[test]
fn damage_in_the_middle_is_refused_and_named() {
    let opened = open(|config| config.segment_bytes = 200);
    for _ in 0..10 {
        opened.at(plain(&[(1, None, Some("value"))]));
    }
    let names = opened.files(".log");
    let path = opened.path().join(&names[1]);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(fs::metadata(&path).unwrap().len() - 1).unwrap();
    let error = PartitionLog::open(&opened.path(), Arc::clone(&opened.config), NOW).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains(&names[1]), "{error}");
}

#[test]
fn a_process_may_die_between_the_steps_of_a_roll() {
    let mut opened = open(|config| config.segment_bytes = 200);
    let bytes = plain(&[(1, None, Some("value"))]);
    while opened.files(".log").len() < 2 {
        opened.at(bytes.clone());
    }
    // The last step of a roll makes the new file; take it back, and the snapshot it made unnecessary is gone too.
    let end = opened.log.offsets().high_watermark;
    fs::remove_file(opened.path().join(opened.files(".log").last().unwrap())).unwrap();
    opened.reopen();
    assert_eq!(opened.at(bytes.clone()), end - 1);
    assert_eq!(opened.at(bytes), end);
    opened.reopen();
    assert_eq!(opened.log.offsets().high_watermark, end + 1);
}
