use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};

use super::*;
use crate::barrier::{Alignment, Stop};

fn job() -> JobId {
    JobId::parse("0123456789abcdef0123456789abcdef").expect("an id")
}

fn schema(columns: &[(&str, TypeKind)]) -> Schema {
    Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, LogicalType::new(kind.clone()))).collect())
}

fn aggregate() -> OperatorEntry {
    let state = StateSchema {
        kind: StateKind::Value,
        key: schema(&[("k", TypeKind::Varchar(10))]),
        value: schema(&[("COUNT(*)", TypeKind::BigInt)]),
    };
    let subtask = |index: u32| SubtaskEntry {
        key_groups: Some(KeyGroupRange::of(index, 2, 128)),
        runs: json!({"runs": [index]}),
        files: vec![FileRef::new(FilePlace::Shared, format!("run-{index}"), 100)],
        watermark_ms: Some(i64::MAX),
        ..SubtaskEntry::default()
    };
    OperatorEntry {
        name: "GlobalWindowAggregate[5]".to_owned(),
        parallelism: 2,
        max_parallelism: 128,
        states: BTreeMap::from([("accumulators".to_owned(), state)]),
        subtasks: vec![subtask(0), subtask(1)],
    }
}

fn ends(finished: bool) -> OperatorEntry {
    let file = FileRef::new(FilePlace::Exclusive, "staged-0", 40);
    let subtask = SubtaskEntry {
        finished,
        splits: vec![SplitPosition {
            split: "clicks-0".to_owned(),
            position: json!({"offset": 50}),
            watermark_ms: Some(-5),
            finished,
        }],
        committables: vec![Committable { state: json!({"sequence": 3}), files: vec![file.clone()] }],
        in_flight: vec![InFlight { input: 0, sender: 1, file, offset: 8, bytes: 32, elements: 2 }],
        ..SubtaskEntry::default()
    };
    OperatorEntry {
        name: "Source: clicks[1]".to_owned(),
        parallelism: 1,
        max_parallelism: 128,
        states: BTreeMap::new(),
        subtasks: vec![subtask],
    }
}

fn manifest() -> Manifest {
    Manifest {
        checkpoint: CheckpointId(7),
        kind: BarrierKind::Checkpoint(Alignment::Timeout(500)),
        job: job(),
        job_name: "insert-into_out".to_owned(),
        engine: "tidegate 0.1.0".to_owned(),
        triggered_ms: 1_000,
        acknowledged_ms: 1_250,
        operators: BTreeMap::from([
            (OperatorId::new("aggregate"), aggregate()),
            (OperatorId::new("source"), ends(false)),
            (OperatorId::new("values"), ends(true)),
        ]),
    }
}

#[test]
fn a_manifest_comes_back_as_it_was() {
    let manifest = manifest();
    let bytes = encode(&manifest).expect("encodes");
    assert_eq!(decode(&bytes), Ok(manifest.clone()));
    assert_eq!(manifest.files().count(), 6);
    assert_eq!(manifest.bytes(), 240, "each file once");
    assert!(!manifest.operators[&OperatorId::new("source")].is_finished());
    assert!(manifest.operators[&OperatorId::new("values")].is_finished());
}

#[test]
fn the_head_is_fixed_for_ever() {
    let bytes = encode(&manifest()).expect("encodes");
    assert_eq!(&bytes[..12], b"TIDECKPT\x01\x00\x00\x00");
    assert_eq!(u64::from_le_bytes(bytes[12..20].try_into().unwrap()), bytes.len() as u64 - 28);
}

#[test]
fn every_cut_is_called_truncated_and_every_flipped_bit_is_found() {
    let bytes = encode(&manifest()).expect("encodes");
    for length in 1..bytes.len() {
        let error = decode(&bytes[..length]).expect_err("cut");
        assert!(matches!(error, ManifestError::Truncated { .. }), "{length}: {error}");
    }
    for position in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[position] ^= 0x10;
        assert!(decode(&broken).is_err(), "byte {position}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(decode(&longer), Err(ManifestError::Trailing { extra: 1 }));
}

#[test]
fn what_is_not_ours_is_told_apart() {
    let text = |bytes: &[u8]| decode(bytes).expect_err("refused").to_string();
    assert!(text(&[0x49, 0x60, 0x67, 0x2d, 0, 0, 0, 4]).contains("Apache Flink"));
    assert!(text(b"PAR1....").contains("50415231"));
    assert!(text(b"").contains("empty"));
    let mut newer = encode(&manifest()).expect("encodes");
    newer[8] = 9;
    assert_eq!(decode(&newer), Err(ManifestError::Newer { found: 9, supported: FORMAT_VERSION }));
}

#[test]
fn contradictions_are_refused_before_they_are_written() {
    let broken = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest();
        change(&mut manifest);
        encode(&manifest).expect_err("refused").to_string()
    };
    let aggregate = OperatorId::new("aggregate");
    let cases: [(&dyn Fn(&mut Manifest), &str); 6] = [
        (&|m| m.checkpoint = CheckpointId(0), "begin at 1"),
        (&|m| drop(m.operators.get_mut(&aggregate).unwrap().subtasks.pop()), "2 but 1 subtasks"),
        (&|m| m.operators.get_mut(&aggregate).unwrap().max_parallelism = 64, "its share is 0..=31"),
        (&|m| m.operators.get_mut(&aggregate).unwrap().subtasks[1].files[0].path = "../run".to_owned(), "../run"),
        (&|m| m.files_mut().filter(|f| f.path == "staged-0").take(1).for_each(|f| f.bytes = 41), "both 41 and 40"),
        (
            &|m| m.operators.get_mut(&OperatorId::new("source")).unwrap().subtasks[0].in_flight[0].offset = 9,
            "lie outside",
        ),
    ];
    for (change, word) in cases {
        let text = broken(change);
        assert!(text.contains(word), "{text} lacks {word}");
    }
}

#[test]
fn key_groups_are_split_as_flink_splits_them() {
    for parallelism in 1u32..=128 {
        let ranges: Vec<KeyGroupRange> = (0..parallelism).map(|i| KeyGroupRange::of(i, parallelism, 128)).collect();
        assert_eq!((ranges[0].start, ranges[parallelism as usize - 1].end), (0, 127));
        assert!(ranges.windows(2).all(|w| w[0].end + 1 == w[1].start));
        for (index, range) in ranges.iter().enumerate() {
            for group in range.start..=range.end {
                assert_eq!(tidegate_state::operator_index(group as usize, parallelism as usize, 128), index);
            }
        }
    }
    let halves = (KeyGroupRange { start: 0, end: 63 }, KeyGroupRange { start: 64, end: 127 });
    assert_eq!(halves.0.intersection(halves.1), None);
    let middle = KeyGroupRange::of(1, 3, 128);
    assert_eq!(middle.intersection(halves.0), Some(KeyGroupRange { start: 43, end: 63 }));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..200), version in 0u32..3, ours: bool) {
        let mut bytes = Vec::new();
        if ours {
            bytes.extend_from_slice(b"TIDECKPT");
            bytes.extend_from_slice(&version.to_le_bytes());
        }
        bytes.extend_from_slice(&tail);
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn opaque_parts_pass_unchanged(
        number in any::<i64>(), unsigned in any::<u64>(), text in "\\PC{0,20}", stop in any::<Option<bool>>()
    ) {
        let mut manifest = manifest();
        manifest.kind = BarrierKind::Savepoint { stop: stop.map(|d| if d { Stop::Drain } else { Stop::Suspend }) };
        manifest.job_name = text.clone();
        let source = manifest.operators.get_mut(&OperatorId::new("source")).unwrap();
        source.subtasks[0].operator_state = json!({"n": number, "u": unsigned, "t": [text]});
        let bytes = encode(&manifest).expect("encodes");
        prop_assert_eq!(decode(&bytes), Ok(manifest));
    }
}
