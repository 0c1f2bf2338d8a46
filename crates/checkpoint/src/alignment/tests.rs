//! Protocols as text: one fact a line, the steps it leads to beside it.
//!
//! `r0 5a` barrier 5 (aligned) is reached on channel 0, `q1 5t` it arrives in channel 1's queue; kinds
//! are `a`ligned, `t`imeout of 100 ms from time 0, `u`naligned, `l` at least once, `s`avepoint. `e0` channel 0
//! ends, `E0` its end is queued, `c5` checkpoint 5 is cancelled, `t101` it is 101 ms, `!5u` triggered.

use super::*;
use crate::barrier::{Alignment, Barrier, BarrierKind};
use crate::ids::CheckpointId;

fn barrier(text: &str) -> Barrier {
    let (id, kind) = text.split_at(text.len() - 1);
    let kind = match kind {
        "a" => BarrierKind::Checkpoint(Alignment::Aligned),
        "t" => BarrierKind::Checkpoint(Alignment::Timeout(100)),
        "u" => BarrierKind::Checkpoint(Alignment::Unaligned),
        "l" => BarrierKind::Checkpoint(Alignment::AtLeastOnce),
        _ => BarrierKind::Savepoint { stop: None },
    };
    Barrier { id: CheckpointId(id.parse().expect("a number")), timestamp_ms: 0, kind }
}

fn show(step: &Step) -> String {
    match step {
        Step::Block(channel) => format!("block {channel}"),
        Step::Unblock(channel) => format!("unblock {channel}"),
        Step::Record { channel, .. } => format!("record {channel}"),
        Step::Snapshot(b) if b.kind == BarrierKind::Checkpoint(Alignment::Unaligned) => format!("SNAPSHOT {}u", b.id),
        Step::Snapshot(b) => format!("SNAPSHOT {}", b.id),
        Step::Done(id) => format!("done {id}"),
        Step::Abandon { checkpoint, reason: AbandonReason::Cancelled } => format!("cancel {checkpoint}"),
        Step::Abandon { checkpoint, reason: AbandonReason::Superseded { by } } => format!("{by} over {checkpoint}"),
    }
}

fn play(channels: usize, script: &str) {
    let mut aligner = Aligner::new(channels);
    let mut now_ms = 0;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (fact, expected) = line.split_once("->").expect("a fact and steps");
        let words: Vec<&str> = fact.split_whitespace().collect();
        let (verb, argument) = words[0].split_at(1);
        let channel = || argument.parse().expect("a channel");
        let steps = match verb {
            "r" => aligner.reached(channel(), barrier(words[1]), now_ms),
            "q" => aligner.arrived(channel(), barrier(words[1]), now_ms),
            "e" => aligner.ended(channel()),
            "E" => aligner.end_arrived(channel()),
            "c" => aligner.cancelled(CheckpointId(argument.parse().expect("an id"))),
            "!" => aligner.triggered(barrier(argument)),
            _ => {
                now_ms = argument.parse().expect("a time");
                aligner.tick(now_ms)
            }
        };
        let found: Vec<String> = steps.iter().map(show).collect();
        assert_eq!(found.join(", "), expected.trim(), "after '{}'", fact.trim());
    }
}

#[test]
fn aligned_blocks_until_the_last_barrier() {
    play(
        3,
        "r1 1a -> block 1
         r0 1a -> block 0
         t9999 ->
         r2 1a -> SNAPSHOT 1, unblock 0, unblock 1, done 1
         r2 1a ->",
    );
    play(1, "r0 1a -> SNAPSHOT 1, done 1");
}

#[test]
fn a_source_and_a_task_without_open_inputs_are_triggered() {
    play(0, "!1u -> SNAPSHOT 1u, done 1\n !1u -> ");
    play(1, "e0 -> \n !2a -> SNAPSHOT 2, done 2");
    play(2, "!1t -> \n e0 -> \n e1 -> SNAPSHOT 1, done 1 \n !1t ->");
    play(2, "r0 1a -> block 0 \n !1a -> \n e1 -> SNAPSHOT 1, unblock 0, done 1");
    play(0, "c3 -> \n !3a -> \n !4a -> SNAPSHOT 4, done 4");
}

#[test]
fn the_timeout_turns_waiting_into_overtaking() {
    play(
        3,
        "r0 1t -> block 0
         t100 ->
         t101 -> record 1, record 2, SNAPSHOT 1u, unblock 0
         q1 1t ->
         r1 1t ->
         q2 1t -> done 1
         r2 1t ->",
    );
    // A barrier that was on its way for too long overtakes when it is first seen in a queue.
    play(2, "t500 -> \n q0 1t -> record 0, record 1, SNAPSHOT 1u \n r0 1t -> \n r1 1t -> done 1");
    // In time, nothing is recorded.
    play(2, "q0 1t -> \n q1 1t -> \n r1 1t -> block 1 \n r0 1t -> SNAPSHOT 1, unblock 1, done 1 \n t101 ->");
}

#[test]
fn when_all_barriers_are_queued_the_timeout_finishes_at_once() {
    play(2, "q0 1t -> \n q1 1t -> \n t101 -> record 0, record 1, SNAPSHOT 1u, done 1 \n r0 1t -> \n r1 1t ->");
}

#[test]
fn a_sender_that_overtook_makes_the_receiver_overtake() {
    play(2, "r0 1t -> block 0 \n q1 1u -> record 1, SNAPSHOT 1u, unblock 0, done 1");
}

#[test]
fn unaligned_never_blocks() {
    play(2, "r0 1u -> record 1, SNAPSHOT 1u \n r1 1u -> done 1");
    play(2, "q0 1u -> record 0, record 1, SNAPSHOT 1u \n q1 1u -> done 1 \n r1 1u -> \n r0 1u ->");
}

#[test]
fn an_ended_channel_counts_as_aligned() {
    play(2, "r0 1a -> block 0 \n e1 -> SNAPSHOT 1, unblock 0, done 1 \n r0 2a -> SNAPSHOT 2, done 2");
    play(2, "e0 -> \n r1 1a -> SNAPSHOT 1, done 1");
    play(2, "r0 1u -> record 1, SNAPSHOT 1u \n E1 -> done 1 \n e1 ->");
    play(2, "E1 -> \n r0 1u -> record 1, SNAPSHOT 1u, done 1");
    play(2, "E1 -> \n r0 1t -> block 0 \n t101 -> record 1, SNAPSHOT 1u, unblock 0, done 1");
}

#[test]
fn a_later_barrier_supersedes_and_old_ones_are_ignored() {
    play(
        2,
        "r0 1t -> block 0
         q1 2t -> 2 over 1, unblock 0
         r1 1t ->
         r1 2t -> block 1
         r0 2t -> SNAPSHOT 2, unblock 1, done 2
         r0 1a ->",
    );
    play(2, "r0 1a -> block 0 \n q0 2a -> \n r1 1a -> SNAPSHOT 1, unblock 0, done 1");
}

#[test]
fn cancelled_checkpoints_release_their_inputs_and_do_not_come_back() {
    play(
        2,
        "r0 1a -> block 0
         c1 -> cancel 1, unblock 0
         r1 1a ->
         c2 ->
         r0 2a ->
         r1 2a ->
         r0 3a -> block 0
         c2 ->
         r1 3a -> SNAPSHOT 3, unblock 0, done 3",
    );
    play(2, "r0 1u -> record 1, SNAPSHOT 1u \n c1 -> cancel 1 \n r1 1u ->");
}

#[test]
fn at_least_once_blocks_nobody() {
    play(2, "r0 1l -> \n t9999 -> \n r1 1l -> SNAPSHOT 1, done 1");
}

#[test]
fn savepoints_are_aligned() {
    play(2, "r0 1s -> block 0 \n t9999 -> \n r1 1s -> SNAPSHOT 1, unblock 0, done 1");
}

#[test]
fn cancellations_are_bounded() {
    let mut aligner = Aligner::new(1);
    for id in 1..10_000 {
        assert_eq!(aligner.cancelled(CheckpointId(id)), []);
    }
    assert_eq!(aligner.reached(0, barrier("9999a"), 0), []);
    assert_eq!(aligner.reached(0, barrier("10000a"), 0).len(), 2);
}
