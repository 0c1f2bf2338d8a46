//! The bookkeeping against a model of Kafka: crashes at every point of the protocol, zombies, changes of
//! parallelism and prefix. Every row must be in the topic once.
//!
//! Each rule can be broken on purpose; then the same run must lose or double rows, or the test proves
//! nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ids::CheckpointId;

/// Transactional ids, groups and the committed rows of one topic.
#[derive(Default)]
struct Kafka {
    rows: Vec<u64>,
    epochs: BTreeMap<String, u32>,
    offsets: BTreeMap<String, (i64, String)>,
}

impl Kafka {
    fn fence(&mut self, name: &SinkName) -> u32 {
        let epoch = self.epochs.entry(name.transactional_id.clone()).or_default();
        *epoch += 1;
        *epoch
    }

    /// Rows and offset become visible together, unless the producer was fenced.
    fn commit(&mut self, epoch: u32, segment: &Segment) -> bool {
        if self.epochs.get(&segment.name.transactional_id) != Some(&epoch) {
            return false;
        }
        let rows = segment.staged.data.as_array().into_iter().flatten();
        self.rows.extend(rows.filter_map(serde_json::Value::as_u64));
        self.offsets.insert(segment.name.group.clone(), (segment.sequence as i64, segment.metadata()));
        true
    }
}

/// Rules broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Nothing,
    /// The committed sequence is not read.
    NoRead,
    /// Pending segments are forgotten at a restore.
    NoPending,
    /// Ids are not fenced: whoever used them goes on.
    NoFence,
    /// An error is taken for a failure: the segment is written again without asking.
    NoDoubt,
    /// A segment is written before its checkpoint is complete.
    NoWait,
}

/// A stream of choices that a seed decides.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Default)]
struct Checkpoint {
    id: u64,
    position: u64,
    lanes: Vec<LaneState>,
}

struct Subtask {
    name: SinkName,
    sequences: Sequences,
    epochs: BTreeMap<SinkName, u32>,
    open: Vec<u64>,
}

struct World {
    kafka: Kafka,
    choices: Choices,
    broken: Broken,
    complete: Checkpoint,
    next_id: u64,
    /// Producers of dead attempts that have a transaction ready to commit.
    zombies: Vec<(u32, Segment)>,
    total: u64,
    crashes: u32,
}

/// An attempt ended before its time.
struct Crash;

impl World {
    fn new(seed: u64, broken: Broken) -> World {
        World {
            kafka: Kafka::default(),
            choices: Choices(seed),
            broken,
            complete: Checkpoint::default(),
            next_id: 0,
            zombies: Vec::new(),
            total: 120,
            crashes: 0,
        }
    }

    fn run(mut self) -> Vec<u64> {
        while self.crashes < 60 {
            match self.attempt() {
                Ok(()) => break,
                Err(Crash) => self.crashes += 1,
            }
        }
        // Whoever is left over wakes up at the end.
        self.wake_zombies(1);
        let mut rows = self.kafka.rows;
        rows.sort_unstable();
        rows
    }

    /// Everybody dies sometimes; never at the last attempt.
    fn may_crash(&mut self, one_in: u64) -> Result<(), Crash> {
        if self.crashes < 50 && self.choices.one_in(one_in) { Err(Crash) } else { Ok(()) }
    }

    fn wake_zombies(&mut self, one_in: u64) {
        for (epoch, segment) in std::mem::take(&mut self.zombies) {
            if self.choices.one_in(one_in) {
                self.kafka.commit(epoch, &segment);
            } else {
                self.zombies.push((epoch, segment));
            }
        }
    }

    fn attempt(&mut self) -> Result<(), Crash> {
        let mut subtasks = self.restore();
        self.wake_zombies(3);
        for subtask in &mut subtasks {
            self.drive(subtask)?;
            assert!(subtask.sequences.is_open());
        }
        let mut position = self.complete.position;
        while position < self.total || self.complete.position < self.total {
            for _ in 0..self.choices.below(12) {
                if position < self.total {
                    let index = self.choices.below(subtasks.len() as u64) as usize;
                    subtasks[index].open.push(position);
                    position += 1;
                }
            }
            self.wake_zombies(6);
            self.may_crash(12)?;
            self.checkpoint(&mut subtasks, position)?;
        }
        subtasks.iter_mut().try_for_each(|subtask| self.drive(subtask))
    }

    fn restore(&mut self) -> Vec<Subtask> {
        let prefix = ["app", "other"][self.choices.below(2) as usize];
        let names: Vec<SinkName> =
            (0..=self.choices.below(4) as u32).map(|subtask| SinkName::new(prefix, subtask)).collect();
        let mut lanes = self.complete.lanes.clone();
        if self.broken == Broken::NoPending {
            lanes.iter_mut().for_each(|lane| lane.pending.clear());
        }
        let shares = spread(lanes, &names);
        let subtask = |(name, lanes): (SinkName, Vec<LaneState>)| {
            let restored = Restored { lanes, taken_ms: 0, now_ms: 1, retention_ms: 100, forced: false };
            let sequences = Sequences::new(name.clone(), Caps::default(), Some(restored));
            Subtask { name, sequences, epochs: BTreeMap::new(), open: Vec::new() }
        };
        names.into_iter().zip(shares).map(subtask).collect()
    }

    fn checkpoint(&mut self, subtasks: &mut [Subtask], position: u64) -> Result<(), Crash> {
        self.next_id += 1;
        let id = CheckpointId(self.next_id);
        let mut lanes = Vec::new();
        for subtask in subtasks.iter_mut() {
            let rows = std::mem::take(&mut subtask.open);
            // Rule 6: several segments of one epoch.
            for part in rows.chunks(5) {
                let staged = Staged { rows: part.len() as u64, data: json!(part), ..Staged::default() };
                subtask.sequences.stage(id, self.choices.below(1 << 31), staged);
            }
            lanes.extend(subtask.sequences.state());
        }
        if self.broken == Broken::NoWait {
            self.commit(subtasks, id)?;
        }
        self.may_crash(8)?;
        if self.choices.one_in(5) {
            // Aborted: what is staged waits for the next one.
            return Ok(());
        }
        self.complete = Checkpoint { id: id.0, position, lanes };
        self.may_crash(8)?;
        self.commit(subtasks, id)
    }

    fn commit(&mut self, subtasks: &mut [Subtask], id: CheckpointId) -> Result<(), Crash> {
        assert!(id.0 >= self.complete.id);
        for subtask in subtasks {
            subtask.sequences.complete(id);
            self.drive(subtask)?;
        }
        Ok(())
    }

    /// Carries out commands until there are none, with accidents.
    fn drive(&mut self, subtask: &mut Subtask) -> Result<(), Crash> {
        while let Some(command) = subtask.sequences.next_command() {
            self.may_crash(25)?;
            match command {
                Command::Fence(name) => {
                    let epoch = match self.kafka.epochs.get(&name.transactional_id) {
                        Some(epoch) if self.broken == Broken::NoFence => *epoch,
                        _ => self.kafka.fence(&name),
                    };
                    subtask.epochs.insert(name.clone(), epoch);
                    subtask.sequences.fenced(&name);
                }
                Command::Read(name) => {
                    let found = self.kafka.offsets.get(&name.group);
                    let committed = found.and_then(|(offset, metadata)| Committed::parse(*offset, metadata));
                    let committed = if self.broken == Broken::NoRead { None } else { committed };
                    if subtask.sequences.read(&name, committed).is_err() {
                        // Only a broken rule makes the offsets look wrong; go on as if forced.
                        assert_ne!(self.broken, Broken::Nothing);
                        subtask.sequences.failed(&name);
                        return Err(Crash);
                    }
                    self.wake_zombies(4);
                }
                Command::Write(segment) => self.write(subtask, &segment)?,
                Command::Close(name) => drop(subtask.epochs.remove(&name)),
            }
        }
        Ok(())
    }

    fn write(&mut self, subtask: &mut Subtask, segment: &Segment) -> Result<(), Crash> {
        let epoch = subtask.epochs[&segment.name];
        match self.choices.below(14) {
            // Dies with the transaction open; a zombie may still commit it.
            0 if self.crashes < 50 => {
                self.zombies.push((epoch, segment.clone()));
                Err(Crash)
            }
            // Dies after the commit.
            1 if self.crashes < 50 => {
                self.kafka.commit(epoch, segment);
                Err(Crash)
            }
            // An error, though it was committed.
            2 => {
                self.kafka.commit(epoch, segment);
                self.error(subtask, segment);
                Ok(())
            }
            // Timed out and aborted.
            3 => {
                self.error(subtask, segment);
                Ok(())
            }
            _ => {
                if self.kafka.commit(epoch, segment) {
                    subtask.sequences.written(&segment.name, segment.sequence, 1);
                } else {
                    self.error(subtask, segment);
                }
                Ok(())
            }
        }
    }

    fn error(&mut self, subtask: &mut Subtask, segment: &Segment) {
        subtask.sequences.failed(&segment.name);
        if self.broken == Broken::NoDoubt {
            let epoch = self.kafka.fence(&segment.name);
            subtask.epochs.insert(segment.name.clone(), epoch);
            self.kafka.commit(epoch, segment);
        }
        debug_assert!(subtask.name.group.starts_with("eos."));
    }
}

fn faults(broken: Broken) -> (usize, usize) {
    let (mut lost, mut doubled) = (0, 0);
    for seed in 0..60 {
        let rows = World::new(seed, broken).run();
        for row in 0..120 {
            match rows.iter().filter(|found| **found == row).count() {
                0 => lost += 1,
                1 => {}
                _ => doubled += 1,
            }
        }
    }
    (lost, doubled)
}

#[test]
fn a_broken_rule_loses_or_doubles_rows() {
    assert_eq!(faults(Broken::Nothing), (0, 0));
    let (_, doubled) = faults(Broken::NoRead);
    assert!(doubled > 0, "what was written is written again");
    let (lost, _) = faults(Broken::NoPending);
    assert!(lost > 0, "what was staged is gone");
    let (_, doubled) = faults(Broken::NoFence);
    assert!(doubled > 0, "a zombie comes after the read");
    let (_, doubled) = faults(Broken::NoDoubt);
    assert!(doubled > 0, "an unknown outcome was a success");
    let (_, doubled) = faults(Broken::NoWait);
    assert!(doubled > 0, "the sources go back behind what was written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_row_is_written_once(seed in any::<u64>()) {
        let rows = World::new(seed, Broken::Nothing).run();
        prop_assert_eq!(rows, (0..120).collect::<Vec<_>>());
    }
}
