//! Which offsets are visible, and what a snapshot keeps of them.

use proptest::prelude::*;

use super::super::offsets::{Change, Offset, Offsets};
use crate::transactions::Partition;

fn at(partition: i32) -> Partition {
    ("t".to_owned(), partition)
}

fn offset(offset: i64) -> Offset {
    Offset { offset, leader_epoch: -1, metadata: String::new(), commit_ms: 0, expire_ms: None }
}

fn commit(group: &str, partition: i32, value: i64) -> Change {
    Change::Commit { group: group.to_owned(), offsets: vec![(at(partition), offset(value))] }
}

fn stage(producer_id: i64, group: &str, partition: i32, value: i64) -> Change {
    Change::Stage { producer_id, group: group.to_owned(), offsets: vec![(at(partition), offset(value))] }
}

fn visible(offsets: &Offsets, group: &str, partition: i32) -> Option<i64> {
    offsets.get(group, &at(partition)).map(|found| found.offset)
}

#[test]
fn the_later_write_wins_whenever_the_transaction_ends() {
    let mut offsets = Offsets::default();
    offsets.apply(stage(7, "g", 0, 10));
    offsets.apply(commit("g", 0, 20));
    offsets.apply(Change::End { producer_id: 7, commit: true });
    assert_eq!(visible(&offsets, "g", 0), Some(20));
    offsets.apply(stage(7, "g", 0, 30));
    offsets.apply(Change::End { producer_id: 7, commit: true });
    offsets.apply(Change::End { producer_id: 7, commit: true });
    assert_eq!(visible(&offsets, "g", 0), Some(30));
}

#[test]
fn an_abort_drops_what_was_staged_and_only_that() {
    let mut offsets = Offsets::default();
    offsets.apply(stage(7, "g", 0, 1));
    offsets.apply(stage(8, "g", 1, 2));
    assert!(offsets.is_staged("g", &at(0)) && offsets.is_staging(7) && !offsets.is_staged("h", &at(0)));
    offsets.apply(Change::End { producer_id: 7, commit: false });
    assert!(!offsets.is_staged("g", &at(0)) && !offsets.is_staging(7) && offsets.is_staged("g", &at(1)));
    assert_eq!((visible(&offsets, "g", 0), offsets.len()), (None, 1));
}

#[test]
fn deletions_reach_staged_offsets_too() {
    let cases = [
        Change::Delete { group: "g".to_owned(), partitions: vec![at(0)] },
        Change::DeleteGroup { group: "g".to_owned() },
        Change::DeleteTopic { topic: "t".to_owned() },
    ];
    for deletion in cases {
        let mut offsets = Offsets::default();
        offsets.apply(commit("g", 0, 1));
        offsets.apply(stage(7, "g", 0, 2));
        offsets.apply(deletion);
        assert!(!offsets.knows_group("g") && !offsets.knows_topic("t"));
        offsets.apply(Change::End { producer_id: 7, commit: true });
        assert_eq!(visible(&offsets, "g", 0), None);
    }
}

fn change() -> impl Strategy<Value = Change> {
    let group = prop_oneof![Just("g"), Just("h")];
    let partition = 0..3_i32;
    let value = 0..100_i64;
    let producer = 0..3_i64;
    prop_oneof![
        4 => (group.clone(), partition.clone(), value.clone()).prop_map(|(group, at, value)| commit(group, at, value)),
        4 => (producer.clone(), group.clone(), partition.clone(), value)
            .prop_map(|(producer, group, at, value)| stage(producer, group, at, value)),
        3 => (producer, any::<bool>()).prop_map(|(producer_id, commit)| Change::End { producer_id, commit }),
        1 => (group, partition).prop_map(|(group, partition)| {
            Change::Delete { group: group.to_owned(), partitions: vec![at(partition)] }
        }),
    ]
}

proptest! {
    #[test]
    fn a_snapshot_goes_on_as_the_original(
        before in proptest::collection::vec(change(), 0..40),
        after in proptest::collection::vec(change(), 0..40),
    ) {
        let mut offsets = Offsets::default();
        before.into_iter().for_each(|change| offsets.apply(change));
        let mut copy = Offsets::default();
        offsets.snapshot().into_iter().for_each(|change| copy.apply(change));
        for change in after {
            offsets.apply(change.clone());
            copy.apply(change);
            for group in ["g", "h"] {
                for partition in 0..3 {
                    prop_assert_eq!(visible(&offsets, group, partition), visible(&copy, group, partition));
                    prop_assert_eq!(offsets.is_staged(group, &at(partition)), copy.is_staged(group, &at(partition)));
                }
            }
        }
    }
}
