//! Protocols as text: time and fact, then the decisions it leads to.
//!
//! The job is `source (2 subtasks) -> aggregate (2) -> sink (1)`: tasks 00 01 10 11 20. Facts: `tick`,
//! `up` all restored, `ack 3 10`, `nack 3 10` the snapshot failed, `no 3 10` declined for another
//! reason, `end 20` ended, `fin 00` finished, `sp 7` savepoint request 7, `stop 7`, `drain 7`, `cp 7` a checkpoint is
//! asked for, `ok 3` manifest stored, `bad 3` not stored, `unknown 3` perhaps stored, `fail`, `over`.

use super::*;
use crate::barrier::{Alignment, BarrierKind, Stop};
use crate::ids::{CheckpointId, JobId, OperatorId, TaskId};
use crate::manifest::{FilePlace, FileRef, Manifest, SubtaskEntry, TaskSnapshot};

const TASKS: [&str; 5] = ["00", "01", "10", "11", "20"];

pub(super) fn plan() -> JobPlan {
    let vertex = |name: &str, parallelism, inputs: &[u32]| VertexPlan {
        operators: vec![OperatorPlan { id: OperatorId::new(name), name: name.to_owned(), states: Default::default() }],
        parallelism,
        max_parallelism: 128,
        inputs: inputs.iter().map(|vertex| InputEdge { vertex: *vertex, forward: false }).collect(),
    };
    JobPlan {
        job: JobId::parse("0123456789abcdef0123456789abcdef").expect("an id"),
        job_name: "job".to_owned(),
        engine: "test".to_owned(),
        vertices: vec![vertex("source", 2, &[]), vertex("aggregate", 2, &[0]), vertex("sink", 1, &[1])],
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        interval_ms: Some(100),
        timeout_ms: 1_000,
        min_pause_ms: 0,
        max_concurrent: 1,
        tolerable_failures: 0,
        alignment: Alignment::Aligned,
        history: 3,
    }
}

pub(super) fn operator_of(task: TaskId) -> &'static str {
    ["source", "aggregate", "sink"][task.vertex as usize]
}

pub(super) fn snapshot(task: TaskId, name: &str) -> TaskSnapshot {
    let file = FileRef::new(FilePlace::Shared, format!("{}{}-{name}", task.vertex, task.subtask), 1);
    TaskSnapshot::of(operator_of(task), SubtaskEntry { files: vec![file], ..SubtaskEntry::default() })
}

fn task(text: &str) -> TaskId {
    let digit = |i: usize| text[i..=i].parse().expect("a digit");
    TaskId::new(digit(0), digit(1))
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(|task| format!("{}{}", task.vertex, task.subtask)).collect::<Vec<_>>().join(" ")
}

fn show(decision: &Decision) -> String {
    match decision {
        Decision::Trigger { barrier, tasks } => {
            let kind = match barrier.kind {
                BarrierKind::Checkpoint(_) => "",
                BarrierKind::Savepoint { stop: None } => "s",
                BarrierKind::Savepoint { stop: Some(Stop::Suspend) } => "stop",
                BarrierKind::Savepoint { stop: Some(Stop::Drain) } => "drain",
            };
            format!("trigger {}{kind} [{}]", barrier.id, names(tasks))
        }
        Decision::StoreManifest { manifest, target } => match target {
            Some(target) => format!("store {} in {target}", manifest.checkpoint),
            None => format!("store {}", manifest.checkpoint),
        },
        Decision::Complete { checkpoint, tasks, .. } => format!("complete {checkpoint} [{}]", names(tasks)),
        Decision::NotifyAborted { checkpoint, reason, .. } => {
            format!("abort {checkpoint}: {}", reason.to_string().split(['.', ' ']).nth(2).unwrap_or_default())
        }
        Decision::Discard { checkpoint, snapshots } => format!("discard {checkpoint} x{}", snapshots.len()),
        Decision::Drop { checkpoint } => format!("drop {checkpoint}"),
        Decision::Answer { request, result: Ok((id, location)) } => format!("answer {request}: {id} {location}"),
        Decision::Answer { request, result: Err(_) } => format!("refuse {request}"),
        Decision::FailJob { .. } => "FAIL".to_owned(),
        Decision::RestartJob { .. } => "RESTART".to_owned(),
        Decision::Warn { .. } => "warn".to_owned(),
    }
}

fn fact(words: &[&str]) -> Fact {
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let id = || CheckpointId(number(1));
    let declined = |reason| Fact::Declined { checkpoint: id(), task: task(words[2]), reason };
    let savepoint = |stop| Fact::SavepointRequested { request: number(1), target: "sp".to_owned(), stop };
    match words[0] {
        "tick" => Fact::Tick,
        "up" => Fact::AllRestored { finished: Vec::new(), from: None },
        "ack" => Fact::Acknowledged {
            checkpoint: id(),
            task: task(words[2]),
            snapshot: snapshot(task(words[2]), words[1]),
            metrics: AckMetrics { async_ms: 5, ..AckMetrics::default() },
        },
        "nack" => declined(DeclineReason::SnapshotFailed("disk full".to_owned())),
        "no" => declined(DeclineReason::NotRunning),
        "end" => Fact::TaskEnded { task: task(words[1]) },
        "fin" => Fact::TaskFinished { task: task(words[1]), last: snapshot(task(words[1]), "last") },
        "sp" => savepoint(None),
        "stop" => savepoint(Some(Stop::Suspend)),
        "drain" => savepoint(Some(Stop::Drain)),
        "cp" => Fact::CheckpointRequested { request: number(1) },
        "ok" => Fact::ManifestStored { checkpoint: id(), location: format!("at-{}", number(1)) },
        "bad" | "unknown" => {
            Fact::ManifestFailed { checkpoint: id(), error: "no".to_owned(), is_absent: words[0] == "bad" }
        }
        "fail" => Fact::JobFailed,
        "over" => Fact::Stopped,
        other => panic!("unknown fact {other}"),
    }
}

/// Plays a script; `ackall 3` acknowledges for every task that is not finished.
fn play_on(coordinator: &mut Coordinator, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, expected) = line.split_once("->").expect("a fact and decisions");
        let words: Vec<&str> = left.split_whitespace().collect();
        let now_ms: i64 = words[0].parse().expect("a time");
        let mut found = Vec::new();
        if words[1] == "ackall" {
            for name in TASKS {
                found.extend(coordinator.on(fact(&["ack", words[2], name]), now_ms));
            }
        } else {
            found = coordinator.on(fact(&words[1..]), now_ms);
        }
        // The model checks that each that is given up is discarded; here only those with files are shown.
        let empty = |d: &Decision| matches!(d, Decision::Discard { snapshots, .. } if snapshots.is_empty());
        let shown: Vec<String> = found.iter().filter(|decision| !empty(decision)).map(show).collect();
        assert_eq!(shown.join(", "), expected.trim(), "after '{}'", left.trim());
    }
}

fn play(settings: Settings, script: &str) -> Coordinator {
    let mut coordinator = Coordinator::new(plan(), settings, CheckpointId(1));
    play_on(&mut coordinator, script);
    coordinator
}

#[test]
fn periodic_checkpoints_begin_an_interval_after_the_start() {
    let coordinator = play(
        settings(),
        "0 tick ->
         50 up ->
         149 tick ->
         150 tick -> trigger 1 [00 01]
         160 ack 1 00 ->
         160 ack 1 01 ->
         170 ack 1 11 ->
         170 ack 1 10 ->
         180 ack 1 20 -> store 1
         190 ok 1 -> complete 1 [00 01 10 11 20]
         249 tick ->
         250 tick -> trigger 2 [00 01]",
    );
    assert_eq!(coordinator.next_id(), CheckpointId(3));
    assert_eq!(coordinator.wake_ms(), Some(350));
}

#[test]
fn a_missed_turn_is_taken_once_and_the_rhythm_stays() {
    play(
        settings(),
        "0 up ->
         100 tick -> trigger 1 [00 01]
         200 tick ->
         350 ackall 1 -> store 1
         350 ok 1 -> complete 1 [00 01 10 11 20], trigger 2 [00 01]
         380 ackall 2 -> store 2
         380 ok 2 -> complete 2 [00 01 10 11 20]
         399 tick ->
         400 tick -> trigger 3 [00 01]",
    );
}

#[test]
fn the_pause_counts_from_the_last_completion() {
    play(
        Settings { min_pause_ms: 80, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         190 ackall 1 -> store 1
         190 ok 1 -> complete 1 [00 01 10 11 20]
         200 tick ->
         269 tick ->
         270 tick -> trigger 2 [00 01]",
    );
}

#[test]
fn a_late_checkpoint_expires_and_its_late_acknowledgements_are_discarded() {
    play(
        Settings { tolerable_failures: 1, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 ack 1 00 ->
         300 tick -> warn
         1099 tick ->
         1100 tick -> abort 1: before, discard 1 x1, trigger 2 [00 01]
         1101 ack 1 01 -> discard 1 x1
         1200 nack 2 10 -> abort 2: declined:, FAIL, trigger 3 [00 01]",
    );
}

#[test]
fn a_success_forgives_and_superfluous_checkpoints_do_not_count() {
    play(
        Settings { tolerable_failures: 1, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 nack 1 00 -> abort 1: declined:
         200 tick -> trigger 2 [00 01]
         210 no 2 00 -> abort 2: declined:
         290 tick ->
         300 tick -> warn, trigger 3 [00 01]
         310 ackall 3 -> store 3
         310 ok 3 -> complete 3 [00 01 10 11 20]
         400 tick -> trigger 4 [00 01]
         410 nack 4 00 -> abort 4: declined:
         420 nack 4 01 ->",
    );
}

#[test]
fn concurrent_checkpoints_subsume_older_ones() {
    play(
        Settings { max_concurrent: 2, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         200 tick -> trigger 2 [00 01]
         300 tick -> warn
         310 ack 1 00 ->
         320 ackall 2 -> store 2
         330 ok 2 -> abort 1: been, discard 1 x1, complete 2 [00 01 10 11 20], trigger 3 [00 01]",
    );
}

#[test]
fn a_checkpoint_being_stored_is_neither_subsumed_nor_expired() {
    let coordinator = play(
        Settings { max_concurrent: 2, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 ackall 1 -> store 1
         200 tick -> trigger 2 [00 01]
         210 ackall 2 -> store 2
         220 ok 2 -> complete 2 [00 01 10 11 20]
         5000 fail ->
         5000 tick ->",
    );
    assert!(!coordinator.may_restore(), "checkpoint 1 may exist");
    let mut coordinator = coordinator;
    play_on(&mut coordinator, "5001 ok 1 -> drop 1");
    assert!(coordinator.may_restore());
}

#[test]
fn files_of_an_unknown_outcome_stay() {
    let script = "0 up ->
         100 tick -> trigger 1 [00 01]
         110 ackall 1 -> store 1";
    let mut tolerant = Settings { tolerable_failures: 5, ..settings() };
    tolerant.interval_ms = Some(100_000);
    let script = script.replace("100 tick", "100000 tick").replace("110 ackall", "100010 ackall");
    play_on(&mut play(tolerant.clone(), &script), "100020 bad 1 -> abort 1: finalize, discard 1 x5");
    play_on(&mut play(tolerant, &script), "100020 unknown 1 -> abort 1: finalize");
}

#[test]
fn a_savepoint_leaves_no_trace() {
    play(
        Settings { interval_ms: None, ..settings() },
        "0 up ->
         10 sp 7 -> trigger 1s [00 01]
         20 ackall 1 -> store 1 in sp
         30 ok 1 -> answer 7: 1 at-1
         40 cp 8 -> trigger 2 [00 01]
         50 ackall 2 -> store 2
         60 ok 2 -> answer 8: 2 at-2, complete 2 [00 01 10 11 20]",
    );
}

#[test]
fn a_savepoint_goes_before_and_is_not_subsumed() {
    play(
        settings(),
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 cp 5 ->
         110 sp 7 -> trigger 2s [00 01]
         120 ackall 1 -> store 1
         130 ok 1 -> complete 1 [00 01 10 11 20]
         140 ackall 2 -> store 2 in sp
         150 ok 2 -> answer 7: 2 at-2, trigger 3 [00 01]
         160 ackall 3 -> store 3
         170 ok 3 -> answer 5: 3 at-3, complete 3 [00 01 10 11 20]",
    );
    play(
        Settings { alignment: Alignment::Timeout(10), ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 sp 7 ->
         120 ackall 1 -> store 1
         130 ok 1 -> complete 1 [00 01 10 11 20], trigger 2s [00 01]",
    );
}

#[test]
fn stopping_with_a_savepoint_commits_and_nothing_follows() {
    play(
        settings(),
        "0 up ->
         10 stop 7 -> trigger 1stop [00 01]
         20 sp 8 -> refuse 8
         100 tick ->
         110 ackall 1 -> store 1 in sp
         120 ok 1 -> answer 7: 1 at-1, complete 1 [00 01 10 11 20]
         200 tick ->
         210 fin 00 ->
         220 end 20 ->
         300 tick ->
         310 fail ->
         400 up ->
         500 tick -> trigger 2 [00 01]",
    );
}

#[test]
fn a_failed_stop_lets_the_job_live() {
    play(
        settings(),
        "0 up ->
         10 stop 7 -> trigger 1stop [00 01]
         20 nack 1 20 -> abort 1: declined:, refuse 7, warn
         100 tick -> trigger 2 [00 01]",
    );
    play(
        settings(),
        "0 up ->
         10 drain 7 -> trigger 1drain [00 01]
         1010 tick -> abort 1: before, refuse 7, warn, RESTART, trigger 2 [00 01]",
    );
}

#[test]
fn the_end_of_the_inputs_has_a_checkpoint_of_its_own() {
    let mut coordinator = play(
        Settings { interval_ms: Some(1_000_000), min_pause_ms: 1_000_000, ..settings() },
        "0 up ->
         10 fin 00 ->
         20 fin 01 ->
         30 fin 10 ->
         40 fin 11 ->
         50 end 20 -> trigger 1 [20]",
    );
    let mut decisions = coordinator.on(fact(&["ack", "1", "20"]), 60);
    let Some(Decision::StoreManifest { manifest, .. }) = decisions.pop() else { panic!("a manifest") };
    let finished = |name: &str| manifest.operators[&OperatorId::new(name)].is_finished();
    assert_eq!([finished("source"), finished("aggregate"), finished("sink")], [true, true, false]);
    assert_eq!(files(&manifest), ["10-last", "11-last", "20-1", "00-last", "01-last"], "the last word is carried");
    play_on(&mut coordinator, "70 ok 1 -> complete 1 [20] \n 80 fin 20 -> \n 90 tick ->");
    assert_eq!(coordinator.wake_ms(), Some(1_000_000));
}

fn files(manifest: &Manifest) -> Vec<&str> {
    manifest.files().map(|file| file.path.as_str()).collect()
}

#[test]
fn a_failed_final_checkpoint_is_tried_again_a_little_later() {
    let coordinator = play(
        Settings { interval_ms: None, tolerable_failures: 3, ..settings() },
        "0 up ->
         0 end 00 ->
         0 end 01 ->
         0 end 10 ->
         0 end 11 ->
         0 end 20 -> trigger 1 [00 01 10 11 20]
         1000 tick -> abort 1: before
         1999 tick ->
         2000 tick -> trigger 2 [00 01 10 11 20]",
    );
    assert_eq!(coordinator.wake_ms(), Some(3_000));
}

#[test]
fn a_task_that_ends_while_a_checkpoint_runs_does_not_strand_it() {
    // Source 00 ends before its barrier: its last word counts, and those behind it still hear of the
    // checkpoint through 01. When 01 ends too, nobody would tell them.
    play(
        settings(),
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 fin 00 ->
         120 ack 1 01 ->
         130 ack 1 10 ->
         140 fin 01 -> trigger 1 [11]
         150 ack 1 11 ->
         160 ack 1 20 -> store 1",
    );
    play(
        settings(),
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 end 00 ->
         120 end 01 -> trigger 1 [10 11]
         130 ackall 1 -> store 1",
    );
}

#[test]
fn the_last_tasks_to_finish_complete_a_checkpoint() {
    play(
        settings(),
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 fin 00 ->
         110 fin 01 -> trigger 1 [10 11]
         110 fin 10 ->
         110 fin 11 -> trigger 1 [20]
         110 fin 20 -> store 1
         120 ok 1 -> complete 1 []
         200 tick ->",
    );
}

#[test]
fn a_failed_job_keeps_its_numbers() {
    let mut coordinator = play(
        Settings { max_concurrent: 2, ..settings() },
        "0 up ->
         100 tick -> trigger 1 [00 01]
         110 ack 1 00 ->
         120 fail -> discard 1 x1
         125 cp 7 -> refuse 7
         130 ack 1 01 -> discard 1 x1
         500 tick ->",
    );
    let finished = vec![(task("00"), snapshot(task("00"), "old"))];
    assert_eq!(coordinator.on(Fact::AllRestored { finished, from: None }, 600), []);
    play_on(
        &mut coordinator,
        "700 tick -> trigger 2 [01]
         710 ack 2 00 -> discard 2 x1
         720 over ->",
    );
}

#[test]
fn requests_are_bounded() {
    let mut coordinator = Coordinator::new(plan(), settings(), CheckpointId(1));
    let _ = coordinator.on(fact(&["up"]), 0);
    let mut refused = 0;
    for request in 0..1_500 {
        for decision in coordinator.on(Fact::CheckpointRequested { request }, 1) {
            refused +=
                usize::from(matches!(decision, Decision::Answer { result: Err(AbortReason::TooManyRequests), .. }));
        }
    }
    assert_eq!(refused, 1_500 - 1_000 - 1);
}

#[test]
fn the_history_tells_what_became_of_them_and_what_was_slow() {
    let mut coordinator = Coordinator::new(plan(), Settings { tolerable_failures: 9, ..settings() }, CheckpointId(1));
    let from =
        RestoredFrom { checkpoint: CheckpointId(9), restored_ms: 0, is_savepoint: true, location: "sp".to_owned() };
    let _ = coordinator.on(Fact::AllRestored { finished: Vec::new(), from: Some(from) }, 0);
    for round in 1..=5i64 {
        let _ = coordinator.on(Fact::Tick, round * 100);
        let checkpoint = CheckpointId(round as u64);
        for (index, name) in (0i64..).zip(TASKS) {
            let metrics =
                AckMetrics { alignment_ms: index, state_bytes: 10, unaligned: round == 5, ..Default::default() };
            let fact =
                Fact::Acknowledged { checkpoint, task: task(name), snapshot: snapshot(task(name), "x"), metrics };
            let _ = coordinator.on(fact, round * 100 + 10);
        }
        let text = if round == 2 { "bad 2".to_owned() } else { format!("ok {round}") };
        let _ = coordinator.on(fact(&text.split(' ').collect::<Vec<_>>()), round * 100 + 20);
    }
    let history = coordinator.history();
    let counts = Counts { restored: 1, total: 5, in_progress: 0, completed: 4, failed: 1 };
    assert_eq!(history.counts(), counts);
    assert_eq!(history.records().map(|record| record.barrier.id.0).collect::<Vec<_>>(), [5, 4, 3], "the last three");
    let last = history.latest_completed().expect("one");
    assert_eq!((last.type_name(), last.duration_ms(), last.latest_ack_ms()), ("UNALIGNED_CHECKPOINT", 20, 510));
    assert_eq!(last.slowest(), Some((task("20"), "alignment", 4)));
    assert_eq!(history.samples().map(|sample| sample.state_bytes).collect::<Vec<_>>(), [50; 4]);
    assert_eq!(history.latest_failed().map(|record| record.barrier.id), Some(CheckpointId(2)));
    coordinator.discarded(&[CheckpointId(4), CheckpointId(5)]);
    let gone = |record: &CheckpointRecord| matches!(record.outcome, Outcome::Completed { discarded: true, .. });
    assert_eq!(coordinator.history().records().map(gone).collect::<Vec<_>>(), [true, true, false]);
}
