//! Coordinator, alignment, manifests and restores together: a small job with queues between its tasks,
//! late mail, aborted checkpoints and crashes. In the end each record was counted once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use serde_json::json;
use tidegate_checkpoint::alignment::{Aligner, Step};
use tidegate_checkpoint::coordinator::{
    AckMetrics, Coordinator, Decision, DeclineReason, Fact, InputEdge, JobPlan, OperatorPlan, Settings, VertexPlan,
};
use tidegate_checkpoint::manifest::{Manifest, SplitPosition, SubtaskEntry, TaskSnapshot, decode, encode};
use tidegate_checkpoint::mapping::assign;
use tidegate_checkpoint::{Alignment, Barrier, CheckpointId, JobId, OperatorId, TaskId};

const SOURCES: u32 = 2;
const COUNTERS: u32 = 3;
const RECORDS: u64 = 30;

/// A record: which source, which offset.
type Record = (u32, u64);

#[derive(Clone, Copy)]
enum Item {
    Record(Record),
    Barrier(Barrier),
    End,
}

#[derive(Default)]
struct Source {
    next: u64,
    ended: bool,
}

/// Counts records; has a queue from every source.
struct Counter {
    aligner: Aligner,
    queues: Vec<VecDeque<Item>>,
    counts: BTreeMap<Record, u64>,
    taken: BTreeMap<CheckpointId, BTreeMap<Record, u64>>,
    overtaken: BTreeMap<CheckpointId, Vec<Record>>,
    open_inputs: BTreeSet<usize>,
    /// Checkpoints acknowledged after the end.
    last: BTreeSet<CheckpointId>,
    finished: bool,
}

struct Job {
    coordinator: Coordinator,
    sources: Vec<Source>,
    counters: Vec<Counter>,
    /// What is on its way between coordinator and tasks.
    triggers: VecDeque<(TaskId, Barrier)>,
    facts: VecDeque<Fact>,
    complete: Vec<Manifest>,
    choices: u64,
    now_ms: i64,
    crashes: u32,
}

fn plan() -> JobPlan {
    let vertex = |name: &str, parallelism, inputs: Vec<InputEdge>| VertexPlan {
        operators: vec![OperatorPlan { id: OperatorId::new(name), name: name.to_owned(), states: BTreeMap::new() }],
        parallelism,
        max_parallelism: 128,
        inputs,
    };
    JobPlan {
        job: JobId::parse("0123456789abcdef0123456789abcdef").expect("an id"),
        job_name: "job".to_owned(),
        engine: "test".to_owned(),
        vertices: vec![
            vertex("source", SOURCES, vec![]),
            vertex("counter", COUNTERS, vec![InputEdge { vertex: 0, forward: false }]),
        ],
    }
}

fn counted(counts: &BTreeMap<Record, u64>, overtaken: &[Record]) -> TaskSnapshot {
    let list: Vec<_> = counts.iter().collect();
    let operator_state = json!({ "counts": list, "overtaken": overtaken });
    TaskSnapshot::of("counter", SubtaskEntry { operator_state, ..SubtaskEntry::default() })
}

fn position(source: u32, next: u64, finished: bool) -> TaskSnapshot {
    let split = SplitPosition { split: source.to_string(), position: json!(next), watermark_ms: None, finished };
    TaskSnapshot::of("source", SubtaskEntry { splits: vec![split], ..SubtaskEntry::default() })
}

impl Job {
    fn new(seed: u64, settings: Settings) -> Job {
        let coordinator = Coordinator::new(plan(), settings, CheckpointId(1));
        let mut job = Job {
            coordinator,
            sources: Vec::new(),
            counters: Vec::new(),
            triggers: VecDeque::new(),
            facts: VecDeque::new(),
            complete: Vec::new(),
            choices: seed,
            now_ms: 0,
            crashes: 0,
        };
        job.start();
        job
    }

    fn below(&mut self, n: u64) -> u64 {
        self.choices = self.choices.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.choices >> 33) % n
    }

    fn tell(&mut self, fact: Fact) {
        for decision in self.coordinator.on(fact, self.now_ms) {
            match decision {
                Decision::Trigger { barrier, tasks } => self.triggers.extend(tasks.into_iter().map(|t| (t, barrier))),
                Decision::StoreManifest { manifest, .. } => {
                    let bytes = encode(&manifest).expect("a good manifest");
                    let checkpoint = manifest.checkpoint;
                    if self.below(8) == 0 {
                        let error = "disk full".to_owned();
                        self.facts.push_back(Fact::ManifestFailed { checkpoint, error, is_absent: true });
                    } else {
                        self.complete.push(decode(&bytes).expect("reads back"));
                        self.complete.sort_by_key(|manifest| manifest.checkpoint);
                        self.facts.push_back(Fact::ManifestStored { checkpoint, location: String::new() });
                    }
                }
                Decision::Complete { checkpoint, .. } => self.notify(checkpoint),
                Decision::NotifyAborted { checkpoint, .. } => {
                    for index in 0..self.counters.len() {
                        let steps = self.counters[index].aligner.cancelled(checkpoint);
                        self.act(index, steps);
                    }
                }
                Decision::Drop { checkpoint } => self.complete.retain(|manifest| manifest.checkpoint != checkpoint),
                Decision::Discard { .. } | Decision::Answer { .. } | Decision::Warn { .. } => {}
                Decision::FailJob { .. } | Decision::RestartJob { .. } => {
                    unreachable!("all failures are tolerated, and nobody drains this job")
                }
            }
        }
    }

    /// A counter that had ended when it acknowledged has nothing more to wait for.
    fn notify(&mut self, checkpoint: CheckpointId) {
        for index in 0..self.counters.len() {
            let counter = &mut self.counters[index];
            if !counter.finished && counter.last.contains(&checkpoint) {
                counter.finished = true;
                let last = counted(&counter.counts, &[]);
                self.facts.push_back(Fact::TaskFinished { task: TaskId::new(1, index as u32), last });
            }
        }
    }

    /// Starts all tasks from the newest manifest.
    fn start(&mut self) {
        self.triggers.clear();
        self.facts.clear();
        self.sources = (0..SOURCES).map(|_| Source::default()).collect();
        self.counters = (0..COUNTERS)
            .map(|_| Counter {
                aligner: Aligner::new(SOURCES as usize),
                queues: vec![VecDeque::new(); SOURCES as usize],
                counts: BTreeMap::new(),
                taken: BTreeMap::new(),
                overtaken: BTreeMap::new(),
                open_inputs: (0..SOURCES as usize).collect(),
                last: BTreeSet::new(),
                finished: false,
            })
            .collect();
        let mut finished = Vec::new();
        if let Some(manifest) = self.complete.last().cloned() {
            self.restore(&manifest, &mut finished);
        }
        self.tell(Fact::AllRestored { finished, from: None });
    }

    fn restore(&mut self, manifest: &Manifest, finished: &mut Vec<(TaskId, TaskSnapshot)>) {
        let owner = |split: &SplitPosition| split.split.parse().expect("a number");
        let sources = &manifest.operators[&OperatorId::new("source")];
        for (index, part) in (0u32..).zip(assign(sources, SOURCES, owner).expect("assigned")) {
            let split = &part.splits[0];
            self.sources[index as usize].next = split.position.as_u64().expect("a number");
            if part.finished {
                self.sources[index as usize].ended = true;
                finished.push((TaskId::new(0, index), position(index, RECORDS, true)));
                for counter in 0..COUNTERS {
                    self.send(index, counter, Item::End);
                }
            }
        }
        let counters = &manifest.operators[&OperatorId::new("counter")];
        for (index, part) in (0u32..).zip(assign(counters, COUNTERS, owner).expect("assigned")) {
            let state = &part.operator_state[0];
            let counts: Vec<(Record, u64)> = serde_json::from_value(state["counts"].clone()).expect("counts");
            let overtaken: Vec<Record> = serde_json::from_value(state["overtaken"].clone()).expect("records");
            let counter = &mut self.counters[index as usize];
            counter.counts = counts.into_iter().collect();
            for record in overtaken {
                *counter.counts.entry(record).or_default() += 1;
            }
            if part.finished {
                counter.finished = true;
                finished.push((TaskId::new(1, index), counted(&counter.counts, &[])));
            }
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.triggers.clear();
        self.tell(Fact::JobFailed);
        // What was being stored is settled first.
        while let Some(fact) = self.facts.pop_front() {
            if matches!(fact, Fact::ManifestStored { .. } | Fact::ManifestFailed { .. }) {
                self.tell(fact);
            }
        }
        assert!(self.coordinator.may_restore());
        self.start();
    }

    fn send(&mut self, source: u32, counter: u32, item: Item) {
        let (channel, to) = (source as usize, &mut self.counters[counter as usize]);
        to.queues[channel].push_back(item);
        let steps = match item {
            Item::Record(record) => {
                if let Some(id) = to.aligner.recording(channel) {
                    to.overtaken.entry(id).or_default().push(record);
                }
                Vec::new()
            }
            Item::Barrier(barrier) => to.aligner.arrived(channel, barrier, self.now_ms),
            Item::End => to.aligner.end_arrived(channel),
        };
        self.act(counter as usize, steps);
    }

    fn emit(&mut self, index: u32) {
        let source = &mut self.sources[index as usize];
        if source.ended {
            return;
        }
        if source.next < RECORDS {
            let record = (index, source.next);
            source.next += 1;
            self.send(index, (record.1 % u64::from(COUNTERS)) as u32, Item::Record(record));
        } else {
            source.ended = true;
            (0..COUNTERS).for_each(|counter| self.send(index, counter, Item::End));
            let last = position(index, RECORDS, true);
            self.facts.push_back(Fact::TaskFinished { task: TaskId::new(0, index), last });
        }
    }

    fn process(&mut self, index: usize, channel: usize) {
        let counter = &mut self.counters[index];
        if counter.aligner.is_blocked(channel) {
            return;
        }
        let steps = match counter.queues[channel].pop_front() {
            Some(Item::Record(record)) => {
                *counter.counts.entry(record).or_default() += 1;
                return;
            }
            Some(Item::Barrier(barrier)) => counter.aligner.reached(channel, barrier, self.now_ms),
            Some(Item::End) => {
                counter.open_inputs.remove(&channel);
                let steps = counter.aligner.ended(channel);
                if counter.open_inputs.is_empty() && !counter.finished {
                    self.facts.push_back(Fact::TaskEnded { task: TaskId::new(1, index as u32) });
                }
                steps
            }
            None => return,
        };
        self.act(index, steps);
    }

    fn act(&mut self, index: usize, steps: Vec<Step>) {
        let task = TaskId::new(1, index as u32);
        let counter = &mut self.counters[index];
        for step in steps {
            match step {
                Step::Record { channel, checkpoint } => {
                    let overtaken = counter.overtaken.entry(checkpoint).or_default();
                    for item in &counter.queues[channel] {
                        match item {
                            Item::Record(record) => overtaken.push(*record),
                            Item::Barrier(barrier) if barrier.id == checkpoint => break,
                            Item::Barrier(_) | Item::End => {}
                        }
                    }
                }
                Step::Snapshot(barrier) => drop(counter.taken.insert(barrier.id, counter.counts.clone())),
                Step::Done(checkpoint) => {
                    let counts = counter.taken.remove(&checkpoint).expect("taken");
                    let overtaken = counter.overtaken.remove(&checkpoint).unwrap_or_default();
                    if counter.open_inputs.is_empty() {
                        counter.last.insert(checkpoint);
                    }
                    let snapshot = counted(&counts, &overtaken);
                    let metrics = AckMetrics::default();
                    self.facts.push_back(Fact::Acknowledged { checkpoint, task, snapshot, metrics });
                }
                Step::Abandon { checkpoint, .. } => {
                    counter.taken.remove(&checkpoint);
                    counter.overtaken.remove(&checkpoint);
                    self.facts.push_back(Fact::Declined { checkpoint, task, reason: DeclineReason::Superseded });
                }
                Step::Block(_) | Step::Unblock(_) => {}
            }
        }
    }

    fn trigger(&mut self) {
        let Some((task, barrier)) = self.triggers.pop_front() else { return };
        if task.vertex == 1 {
            if !self.counters[task.subtask as usize].finished {
                let steps = self.counters[task.subtask as usize].aligner.triggered(barrier);
                self.act(task.subtask as usize, steps);
            }
            return;
        }
        let source = &self.sources[task.subtask as usize];
        if source.ended {
            return;
        }
        let snapshot = position(task.subtask, source.next, false);
        (0..COUNTERS).for_each(|counter| self.send(task.subtask, counter, Item::Barrier(barrier)));
        let metrics = AckMetrics::default();
        self.facts.push_back(Fact::Acknowledged { checkpoint: barrier.id, task, snapshot, metrics });
    }

    fn step(&mut self, crashing: bool) {
        match self.below(40) {
            0..=9 => {
                let source = self.below(u64::from(SOURCES)) as u32;
                self.emit(source);
            }
            10..=25 => {
                let (index, channel) = (self.below(u64::from(COUNTERS)), self.below(u64::from(SOURCES)));
                self.process(index as usize, channel as usize);
            }
            26..=29 => self.trigger(),
            30..=34 => {
                if let Some(fact) = self.facts.pop_front() {
                    self.tell(fact);
                }
            }
            35..=38 => {
                self.now_ms += self.below(30) as i64;
                for index in 0..self.counters.len() {
                    let steps = self.counters[index].aligner.tick(self.now_ms);
                    self.act(index, steps);
                }
                self.tell(Fact::Tick);
            }
            _ if crashing && self.crashes < 8 && self.below(4) == 0 => self.crash(),
            _ => {}
        }
    }

    fn is_finished(&self) -> bool {
        self.counters.iter().all(|counter| counter.finished) && self.facts.is_empty()
    }
}

fn run(seed: u64, alignment: Alignment, max_concurrent: usize, crashing: bool) -> Job {
    let settings = Settings {
        interval_ms: Some(40),
        timeout_ms: 400,
        min_pause_ms: 0,
        max_concurrent,
        tolerable_failures: u32::MAX,
        alignment,
        history: 10,
    };
    let mut job = Job::new(seed, settings);
    for _ in 0..60_000 {
        if job.is_finished() {
            break;
        }
        job.step(crashing);
    }
    job
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_record_is_counted_once(seed in any::<u64>(), kind in 0u8..3, timeout_ms in 0i64..40, more in 1usize..3) {
        let (alignment, max_concurrent) = match kind {
            0 => (Alignment::Aligned, more),
            1 => (Alignment::Timeout(timeout_ms), 1),
            _ => (Alignment::Unaligned, 1),
        };
        let job = run(seed, alignment, max_concurrent, true);
        prop_assert!(job.is_finished(), "the job comes to its end");
        let mut all: BTreeMap<Record, u64> = BTreeMap::new();
        for counter in &job.counters {
            for (record, count) in &counter.counts {
                *all.entry(*record).or_default() += count;
            }
        }
        prop_assert_eq!(all.len() as u64, u64::from(SOURCES) * RECORDS);
        prop_assert!(all.values().all(|count| *count == 1), "after {} crashes: {:?}", job.crashes, all);
    }
}

#[test]
fn without_alignment_records_are_counted_again() {
    // The control: the same job that only promises at least once must be caught doubling.
    let doubled = (0..200).any(|seed| {
        let job = run(seed, Alignment::AtLeastOnce, 1, true);
        job.counters.iter().any(|counter| counter.counts.values().any(|count| *count > 1))
    });
    assert!(doubled);
}
