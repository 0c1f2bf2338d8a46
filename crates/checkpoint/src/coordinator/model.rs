//! The machine under random facts: nothing is lost, nothing happens twice, limits hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::{plan, settings, snapshot};
use super::*;
use crate::barrier::{Alignment, Stop};
use crate::ids::{CheckpointId, TaskId};

#[derive(Clone, Debug)]
enum Step {
    Wait(u16),
    Acknowledge(u8, u8),
    Decline(u8, u8),
    End(u8),
    Finish(u8),
    Savepoint(Option<bool>),
    Checkpoint,
    Stored(u8, u8),
    Fail,
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u16..400).prop_map(Step::Wait),
        30 => (any::<u8>(), any::<u8>()).prop_map(|(c, t)| Step::Acknowledge(c, t)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(c, t)| Step::Decline(c, t)),
        1 => any::<u8>().prop_map(Step::End),
        1 => any::<u8>().prop_map(Step::Finish),
        1 => any::<Option<bool>>().prop_map(Step::Savepoint),
        1 => Just(Step::Checkpoint),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(c, how)| Step::Stored(c, how)),
        1 => Just(Step::Fail),
        2 => Just(Step::Restore),
    ]
}

/// What became of the checkpoints so far.
#[derive(Default)]
struct Record {
    triggered: BTreeMap<CheckpointId, bool>,
    storing: BTreeSet<CheckpointId>,
    /// Given up, stored, or of an unknown outcome: whoever counts files heard of their end.
    counted: BTreeSet<CheckpointId>,
    over: BTreeSet<CheckpointId>,
    completed: Vec<CheckpointId>,
    requests: BTreeSet<u64>,
    answered: BTreeSet<u64>,
    /// Names of acknowledged files, and where they ended.
    acknowledged: BTreeSet<String>,
    kept: BTreeSet<String>,
    discarded: BTreeSet<String>,
}

impl Record {
    fn take(&mut self, decisions: Vec<Decision>) {
        for decision in decisions {
            match decision {
                Decision::Trigger { barrier, tasks } => {
                    assert!(!tasks.is_empty());
                    let newest = self.triggered.keys().next_back().copied();
                    if self.triggered.insert(barrier.id, barrier.kind.is_savepoint()).is_none() {
                        assert!(newest < Some(barrier.id), "ids only rise");
                    }
                    assert!(!self.over.contains(&barrier.id) && !self.storing.contains(&barrier.id));
                }
                Decision::StoreManifest { manifest, .. } => {
                    manifest.validate().expect("a good manifest");
                    assert!(self.storing.insert(manifest.checkpoint), "stored twice");
                    // Where all tasks have finished, none is told.
                    self.triggered.entry(manifest.checkpoint).or_insert(manifest.is_savepoint());
                    self.kept.extend(manifest.files().map(|file| file.path.clone()));
                }
                Decision::Complete { checkpoint, .. } => {
                    assert!(self.over.contains(&checkpoint), "only a stored one is complete");
                    assert!(self.completed.last() < Some(&checkpoint), "completions only rise");
                    self.completed.push(checkpoint);
                }
                Decision::NotifyAborted { checkpoint, .. } => {
                    assert!(!self.storing.contains(&checkpoint), "a checkpoint being stored was aborted");
                    self.over.insert(checkpoint);
                }
                Decision::Discard { snapshots, checkpoint } => {
                    self.counted.insert(checkpoint);
                    for file in snapshots.iter().flat_map(|snapshot| snapshot.files()) {
                        self.discarded.insert(file.path.clone());
                    }
                }
                Decision::Answer { request, .. } => {
                    assert!(self.requests.contains(&request));
                    assert!(self.answered.insert(request), "answered twice");
                }
                Decision::Drop { checkpoint } => assert!(self.over.contains(&checkpoint)),
                Decision::FailJob { .. } | Decision::RestartJob { .. } | Decision::Warn { .. } => {}
            }
        }
    }

    fn pick(&self, choice: u8) -> Option<CheckpointId> {
        let ids: Vec<CheckpointId> = self.triggered.keys().rev().take(3).copied().collect();
        (!ids.is_empty()).then(|| ids[choice as usize % ids.len()])
    }
}

struct Run {
    coordinator: Coordinator,
    record: Record,
    now_ms: i64,
    next_request: u64,
    next_file: u32,
}

impl Run {
    fn on(&mut self, fact: Fact) {
        let decisions = self.coordinator.on(fact, self.now_ms);
        self.record.take(decisions);
        let forced = self.record.triggered.values().filter(|savepoint| **savepoint).count();
        assert!(self.coordinator.in_progress().count() <= self.coordinator.settings.max_concurrent + forced);
    }

    fn play(&mut self, step: &Step) {
        let tasks: Vec<TaskId> = plan().tasks().collect();
        let task = |choice: u8| tasks[choice as usize % tasks.len()];
        match step {
            Step::Wait(ms) => {
                self.now_ms += i64::from(*ms);
                self.on(Fact::Tick);
            }
            Step::Acknowledge(choice, who) => {
                if let Some(checkpoint) = self.record.pick(*choice) {
                    self.next_file += 1;
                    let snapshot = snapshot(task(*who), &format!("f{}", self.next_file));
                    self.record.acknowledged.extend(snapshot.files().map(|file| file.path.clone()));
                    self.on(Fact::Acknowledged {
                        checkpoint,
                        task: task(*who),
                        snapshot,
                        metrics: AckMetrics::default(),
                    });
                }
            }
            Step::Decline(choice, who) => {
                if let Some(checkpoint) = self.record.pick(*choice) {
                    let reason = DeclineReason::SnapshotFailed(String::new());
                    self.on(Fact::Declined { checkpoint, task: task(*who), reason });
                }
            }
            Step::End(who) => self.on(Fact::TaskEnded { task: task(*who) }),
            Step::Finish(who) => {
                self.on(Fact::TaskFinished { task: task(*who), last: Default::default() });
            }
            Step::Savepoint(stop) => {
                let stop = stop.map(|drain| if drain { Stop::Drain } else { Stop::Suspend });
                let request = self.request();
                self.on(Fact::SavepointRequested { request, target: "sp".to_owned(), stop });
            }
            Step::Checkpoint => {
                let request = self.request();
                self.on(Fact::CheckpointRequested { request });
            }
            Step::Stored(choice, how) => self.stored(*choice, *how),
            Step::Fail => self.on(Fact::JobFailed),
            Step::Restore => {
                if !self.coordinator.running && self.coordinator.may_restore() {
                    self.on(Fact::AllRestored { finished: Vec::new(), from: None });
                }
            }
        }
    }

    fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.record.requests.insert(self.next_request);
        self.next_request
    }

    fn stored(&mut self, choice: u8, how: u8) {
        let storing: Vec<CheckpointId> = self.record.storing.iter().copied().collect();
        let Some(checkpoint) = (!storing.is_empty()).then(|| storing[choice as usize % storing.len()]) else { return };
        self.record.storing.remove(&checkpoint);
        self.record.over.insert(checkpoint);
        if how % 8 > 1 {
            self.record.counted.insert(checkpoint);
        }
        match how % 8 {
            0 => self.on(Fact::ManifestFailed { checkpoint, error: String::new(), is_absent: true }),
            1 => {
                self.record.counted.insert(checkpoint);
                self.on(Fact::ManifestFailed { checkpoint, error: String::new(), is_absent: false });
            }
            _ => self.on(Fact::ManifestStored { checkpoint, location: String::new() }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_checkpoint_request_and_file_has_one_end(
        steps in prop::collection::vec(step(), 1..250),
        max_concurrent in 1usize..4, tolerable_failures in 0u32..3, min_pause_ms in 0i64..200, overtaking: bool,
    ) {
        let alignment = if overtaking { Alignment::Timeout(10) } else { Alignment::Aligned };
        let max_concurrent = if overtaking { 1 } else { max_concurrent };
        let settings = Settings { max_concurrent, tolerable_failures, min_pause_ms, alignment, ..settings() };
        let mut run = Run {
            coordinator: Coordinator::new(plan(), settings, CheckpointId(5)),
            record: Record::default(), now_ms: 0, next_request: 0, next_file: 0,
        };
        run.on(Fact::AllRestored { finished: Vec::new(), from: None });
        for step in &steps {
            run.play(step);
        }
        while let Some(checkpoint) = run.record.storing.iter().next().copied() {
            let _ = checkpoint;
            run.stored(0, 7);
        }
        run.on(Fact::Stopped);
        prop_assert_eq!(run.coordinator.in_progress().count(), 0);
        let counts = run.coordinator.history().counts();
        prop_assert_eq!((counts.in_progress, counts.total), (0, counts.completed + counts.failed));
        prop_assert!(run.coordinator.history().records().count() <= 3);
        let triggered: BTreeSet<CheckpointId> = run.record.triggered.keys().copied().collect();
        prop_assert_eq!(&triggered, &run.record.counted);
        prop_assert_eq!(&run.record.requests, &run.record.answered);
        let ended: BTreeSet<String> = run.record.kept.union(&run.record.discarded).cloned().collect();
        let unknown_outcomes_keep_theirs: Vec<_> = run.record.acknowledged.difference(&ended).collect();
        prop_assert!(unknown_outcomes_keep_theirs.is_empty(), "{:?}", unknown_outcomes_keep_theirs);
    }
}
