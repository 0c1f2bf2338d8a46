use serde_json::Value;

use super::*;
use crate::ids::CheckpointId;

const DAY_MS: i64 = 86_400_000;

fn own() -> SinkName {
    SinkName::new("app", 0)
}

fn staged(bytes: u64) -> Staged {
    Staged { rows: 1, bytes, sources: Value::Null, data: Value::Null, files: Vec::new() }
}

fn segment(name: &SinkName, sequence: u64, checkpoint: u64) -> Segment {
    Segment { name: name.clone(), sequence, checkpoint: CheckpointId(checkpoint), token: 7, staged: staged(10) }
}

fn lane(name: SinkName, highest: u64, confirmed: u64, pending: &[u64]) -> LaneState {
    let pending = pending.iter().map(|sequence| segment(&name, *sequence, 7)).collect();
    LaneState { name, highest, confirmed, confirmed_ms: Some(0), pending }
}

fn restored(lanes: Vec<LaneState>, age_ms: i64, forced: bool) -> Option<Restored> {
    Some(Restored { lanes, taken_ms: 0, now_ms: age_ms, retention_ms: 7 * DAY_MS, forced })
}

fn fence_and_read(sequences: &mut Sequences, name: &SinkName, committed: Option<u64>) -> Result<(), SequenceError> {
    assert_eq!(sequences.next_command(), Some(Command::Fence(name.clone())));
    assert_eq!(sequences.next_command(), None, "one command at a time");
    sequences.fenced(name);
    assert_eq!(sequences.next_command(), Some(Command::Read(name.clone())));
    sequences.read(name, committed.map(|sequence| Committed { sequence, token: Some(7) }))
}

#[test]
fn a_segment_is_written_after_its_checkpoint_and_in_order() {
    let mut sequences = Sequences::new(own(), Caps::default(), None);
    assert!(!sequences.is_open());
    fence_and_read(&mut sequences, &own(), None).expect("a fresh group");
    assert!(sequences.is_open());
    let first = sequences.stage(CheckpointId(1), 7, staged(5));
    let second = sequences.stage(CheckpointId(2), 7, staged(5));
    assert_eq!((first.sequence, second.sequence), (1, 2));
    assert_eq!(sequences.next_command(), None, "no checkpoint is complete");
    sequences.complete(CheckpointId(1));
    assert_eq!(sequences.next_command(), Some(Command::Write(Box::new(first))));
    sequences.written(&own(), 1, 100);
    assert_eq!(sequences.next_command(), None);
    sequences.complete(CheckpointId(3));
    assert_eq!(
        sequences.next_command(),
        Some(Command::Write(Box::new(second))),
        "a later checkpoint releases it as well"
    );
    sequences.written(&own(), 2, 200);
    assert_eq!(sequences.pending().count(), 0);
}

#[test]
fn the_next_sequence_is_above_what_kafka_and_the_checkpoint_know() {
    for (committed, highest, expected) in [(Some(9), 4, 10), (Some(2), 4, 5), (None, 0, 1), (Some(4), 4, 5)] {
        let mut sequences =
            Sequences::new(own(), Caps::default(), restored(vec![lane(own(), highest, 0, &[])], 0, false));
        fence_and_read(&mut sequences, &own(), committed).expect("plausible");
        assert_eq!(sequences.stage(CheckpointId(8), 7, staged(1)).sequence, expected);
    }
}

#[test]
fn recovery_replays_what_is_newer_and_opens_last() {
    let old = SinkName::new("before", 3);
    let lanes = vec![lane(old.clone(), 6, 3, &[4, 5, 6])];
    let mut sequences = Sequences::new(own(), Caps::default(), restored(lanes, 1_000, false));
    fence_and_read(&mut sequences, &old, Some(4)).expect("plausible");
    for sequence in [5, 6] {
        assert_eq!(sequences.next_command(), Some(Command::Write(Box::new(segment(&old, sequence, 7)))));
        assert!(!sequences.is_open());
        sequences.written(&old, sequence, 0);
    }
    assert_eq!(sequences.next_command(), Some(Command::Close(old.clone())));
    fence_and_read(&mut sequences, &own(), None).expect("a fresh group");
    assert!(sequences.is_open());
    assert_eq!(sequences.next_command(), None);
    let kept = sequences.state().into_iter().find(|state| state.name == old).expect("kept");
    assert_eq!((kept.highest, kept.confirmed, kept.pending.len()), (6, 6, 0));
}

#[test]
fn after_an_error_everything_is_asked_again() {
    let mut sequences = Sequences::new(own(), Caps::default(), restored(vec![lane(own(), 2, 0, &[1, 2])], 0, false));
    fence_and_read(&mut sequences, &own(), None).expect("plausible");
    assert_eq!(sequences.next_command(), Some(Command::Write(Box::new(segment(&own(), 1, 7)))));
    sequences.failed(&own());
    fence_and_read(&mut sequences, &own(), Some(1)).expect("it had been written after all");
    assert_eq!(sequences.next_command(), Some(Command::Write(Box::new(segment(&own(), 2, 7)))));
    sequences.failed(&own());
    assert_eq!(sequences.next_command(), Some(Command::Fence(own())));
    sequences.failed(&own());
    assert_eq!(sequences.next_command(), Some(Command::Fence(own())));
}

#[test]
fn offsets_that_cannot_be_true_are_refused() {
    let judge = |state: LaneState, committed, age_ms, forced| {
        let mut sequences = Sequences::new(own(), Caps::default(), restored(vec![state], age_ms, forced));
        fence_and_read(&mut sequences, &own(), committed)
    };
    let expired = judge(lane(own(), 3, 2, &[3]), None, 8 * DAY_MS, false).expect_err("ambiguous");
    assert!(matches!(expired, SequenceError::Expired { pending: 1, .. }), "{expired}");
    assert!(expired.to_string().contains("eos.app-0"));
    assert_eq!(judge(lane(own(), 3, 3, &[]), None, 8 * DAY_MS, false), Ok(()), "nothing is pending");
    assert_eq!(judge(lane(own(), 1, 0, &[1]), None, DAY_MS, false), Ok(()), "never written");
    let gone = judge(lane(own(), 3, 2, &[3]), None, DAY_MS, false).expect_err("too young to have expired");
    assert!(matches!(gone, SequenceError::Regressed { found: 0, confirmed: 2, .. }), "{gone}");
    let back = judge(lane(own(), 3, 2, &[3]), Some(1), DAY_MS, false).expect_err("went back");
    assert!(back.to_string().contains("another cluster"), "{back}");
    for (committed, age_ms) in [(None, 8 * DAY_MS), (None, DAY_MS), (Some(1), DAY_MS)] {
        assert_eq!(judge(lane(own(), 3, 2, &[3]), committed, age_ms, true), Ok(()), "forced");
    }
    // Idle for longer than the retention, and then a young checkpoint.
    let mut idle = lane(own(), 3, 2, &[3]);
    idle.confirmed_ms = Some(-10 * DAY_MS);
    assert_eq!(judge(idle, None, DAY_MS, false), Ok(()));
}

#[test]
fn ids_go_to_whoever_writes_under_them_and_each_to_one() {
    let old: Vec<LaneState> = (0..4).map(|subtask| lane(SinkName::new("app", subtask), 1, 0, &[1])).collect();
    let new: Vec<SinkName> = (0..2).map(|subtask| SinkName::new("app", subtask)).collect();
    let shares = spread(old.clone(), &new);
    let names = |share: &[LaneState]| share.iter().map(|s| s.name.transactional_id.clone()).collect::<Vec<_>>();
    assert_eq!(names(&shares[0]), ["app-0", "app-2"]);
    assert_eq!(names(&shares[1]), ["app-1", "app-3"]);
    let renamed: Vec<SinkName> = (0..3).map(|subtask| SinkName::new("new", subtask)).collect();
    let shares = spread(old, &renamed);
    assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
    let twice = spread([lane(own(), 5, 1, &[2, 3]), lane(own(), 4, 2, &[3, 4])], &[own()]);
    let merged = &twice[0][0];
    assert_eq!((merged.highest, merged.confirmed), (5, 2));
    assert_eq!(merged.pending.iter().map(|segment| segment.sequence).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_sink_waits_only_for_what_can_come() {
    let caps = Caps { bytes: 100, checkpoints: 2, bytes_max: 300, segment_rows: 10, segment_bytes: 50 };
    let mut sequences = Sequences::new(own(), caps, None);
    fence_and_read(&mut sequences, &own(), None).expect("a fresh group");
    assert_eq!(sequences.admit(100), Admission::Open);
    assert_eq!(sequences.admit(101), Admission::AskCheckpoint, "nothing can be written before a checkpoint");
    sequences.stage(CheckpointId(1), 7, staged(90));
    assert_eq!(sequences.admit(20), Admission::AskCheckpoint);
    sequences.complete(CheckpointId(1));
    assert!(matches!(sequences.admit(20), Admission::Wait { .. }));
    assert_eq!(sequences.admit(10), Admission::Open);
    sequences.stage(CheckpointId(2), 7, staged(1));
    sequences.stage(CheckpointId(3), 7, staged(1));
    assert!(matches!(sequences.admit(0), Admission::Wait { .. }), "three checkpoints are behind");
    let mut stuck = Sequences::new(own(), caps, None);
    fence_and_read(&mut stuck, &own(), None).expect("a fresh group");
    assert!(matches!(stuck.admit(301), Admission::Full { .. }));
    assert!(sequences.is_segment_full(10, 0) && sequences.is_segment_full(1, 50) && !sequences.is_segment_full(9, 49));
}

#[test]
fn a_snapshot_from_before_a_fork_is_recognised() {
    let judge = |token, forced| {
        let mut sequences =
            Sequences::new(own(), Caps::default(), restored(vec![lane(own(), 3, 2, &[3])], 1_000, forced));
        let _ = sequences.next_command();
        sequences.fenced(&own());
        let _ = sequences.next_command();
        sequences.read(&own(), Some(Committed { sequence: 3, token }))
    };
    assert_eq!(judge(Some(7), false), Ok(()), "it is the same segment");
    assert_eq!(judge(None, false), Ok(()), "nobody can tell");
    assert!(matches!(judge(Some(8), false), Err(SequenceError::Forked { sequence: 3, .. })));
    assert_eq!(judge(Some(8), true), Ok(()));
    let segment = segment(&own(), 3, 1);
    let read = Committed { sequence: 3, token: Some(7) };
    assert_eq!(Committed::parse(3, &segment.metadata()), Some(read));
    assert_eq!(Committed::parse(3, ""), Some(Committed { sequence: 3, token: None }));
    assert_eq!(Committed::parse(-1001, ""), None, "librdkafka's word for none");
}
