//! The machine against a subtask with queues: whatever the interleaving, a checkpoint holds each
//! element before the barriers once, in the state or among the recorded, and none after them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::barrier::{Alignment, Barrier, BarrierKind};
use crate::ids::CheckpointId;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Element(u32),
    Barrier(Barrier),
    End,
}

#[derive(Default)]
struct Channel {
    /// Still to arrive.
    script: VecDeque<Item>,
    queue: VecDeque<Item>,
    /// Elements before each barrier.
    before: BTreeMap<CheckpointId, u32>,
    processed: u32,
}

#[derive(Clone, Default)]
struct Taken {
    processed: Vec<u32>,
    recorded: BTreeMap<usize, Vec<u32>>,
    snapshots: usize,
}

struct Subtask {
    aligner: Aligner,
    channels: Vec<Channel>,
    taken: BTreeMap<CheckpointId, Taken>,
    done: BTreeSet<CheckpointId>,
    abandoned: BTreeSet<CheckpointId>,
    now_ms: i64,
    exact: bool,
}

impl Subtask {
    fn new(script: Vec<Vec<Item>>, exact: bool) -> Subtask {
        let channels: Vec<Channel> = script
            .into_iter()
            .map(|items| {
                let (mut before, mut elements) = (BTreeMap::new(), 0);
                for item in &items {
                    match item {
                        Item::Element(_) => elements += 1,
                        Item::Barrier(barrier) => drop(before.insert(barrier.id, elements)),
                        Item::End => {}
                    }
                }
                Channel { script: items.into(), before, ..Channel::default() }
            })
            .collect();
        Subtask {
            aligner: Aligner::new(channels.len()),
            channels,
            taken: BTreeMap::new(),
            done: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            now_ms: 0,
            exact,
        }
    }

    /// The next item of the network comes into a queue.
    fn arrive(&mut self, channel: usize) {
        let Some(item) = self.channels[channel].script.pop_front() else { return };
        self.channels[channel].queue.push_back(item);
        match item {
            Item::Element(n) => {
                if let Some(id) = self.aligner.recording(channel) {
                    self.taken.entry(id).or_default().recorded.entry(channel).or_default().push(n);
                }
            }
            Item::Barrier(barrier) => {
                let steps = self.aligner.arrived(channel, barrier, self.now_ms);
                self.act(steps);
            }
            Item::End => {
                let steps = self.aligner.end_arrived(channel);
                self.act(steps);
            }
        }
    }

    /// The head of a queue is processed, unless the channel is blocked.
    fn process(&mut self, channel: usize) {
        if self.aligner.is_blocked(channel) {
            return;
        }
        let steps = match self.channels[channel].queue.pop_front() {
            Some(Item::Element(_)) => {
                self.channels[channel].processed += 1;
                Vec::new()
            }
            Some(Item::Barrier(barrier)) => self.aligner.reached(channel, barrier, self.now_ms),
            Some(Item::End) => self.aligner.ended(channel),
            None => Vec::new(),
        };
        self.act(steps);
    }

    fn act(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Record { channel, checkpoint } => {
                    let recorded = self.taken.entry(checkpoint).or_default().recorded.entry(channel).or_default();
                    for item in &self.channels[channel].queue {
                        match item {
                            Item::Element(n) => recorded.push(*n),
                            Item::Barrier(barrier) if barrier.id == checkpoint => break,
                            Item::Barrier(_) | Item::End => {}
                        }
                    }
                }
                Step::Snapshot(barrier) => {
                    let processed = self.channels.iter().map(|channel| channel.processed).collect();
                    let taken = self.taken.entry(barrier.id).or_default();
                    taken.processed = processed;
                    taken.snapshots += 1;
                }
                Step::Done(id) => self.check(id),
                Step::Abandon { checkpoint, .. } => {
                    self.taken.remove(&checkpoint);
                    assert!(self.abandoned.insert(checkpoint), "abandoned twice");
                }
                Step::Block(_) | Step::Unblock(_) => {}
            }
        }
    }

    fn check(&mut self, id: CheckpointId) {
        assert!(self.done.insert(id), "done twice");
        let taken = &self.taken[&id];
        assert_eq!(taken.snapshots, 1);
        for (index, channel) in self.channels.iter().enumerate() {
            // A channel that ended before the barrier came has nothing behind it.
            let all = channel.before.get(&id).copied().unwrap_or(u32::MAX);
            let mut held: Vec<u32> = (0..taken.processed[index]).collect();
            held.extend(taken.recorded.get(&index).into_iter().flatten());
            if all == u32::MAX {
                let everything = channel.processed + channel.queue.len() as u32;
                assert!(held.len() as u32 <= everything);
                assert!(held.iter().zip(0..).all(|(n, i)| *n == i));
            } else if self.exact {
                assert_eq!(held, (0..all).collect::<Vec<_>>(), "channel {index} of checkpoint {id}");
            } else {
                assert!(held.len() as u32 >= all, "nothing before the barrier is lost");
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Plan {
    kind: Alignment,
    /// For each channel: elements before each barrier, then those after the last; and whether it ends.
    channels: Vec<(Vec<u8>, bool)>,
    /// What happens, in order: which channel, and what.
    actions: Vec<(u8, u8)>,
    cancels: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![
        Just(Alignment::Aligned),
        (0i64..60).prop_map(Alignment::Timeout),
        Just(Alignment::Unaligned),
        Just(Alignment::AtLeastOnce),
    ];
    (kind, 1usize..5, 1usize..4, any::<bool>()).prop_flat_map(|(kind, channels, barriers, cancels)| {
        let channel = (prop::collection::vec(0u8..5, 1..=barriers + 1), any::<bool>());
        let channels = prop::collection::vec(channel, channels);
        let actions = prop::collection::vec((any::<u8>(), any::<u8>()), 0..160);
        (Just(kind), channels, actions, Just(cancels)).prop_map(|(kind, channels, actions, cancels)| Plan {
            kind,
            channels,
            actions,
            cancels,
        })
    })
}

/// A channel with fewer counts than others ends early, before the later barriers.
fn script(plan: &Plan) -> Vec<Vec<Item>> {
    let longest = plan.channels.iter().map(|(counts, _)| counts.len()).max().unwrap_or(0);
    let one = |(counts, ends): &(Vec<u8>, bool)| {
        let (mut items, mut number) = (Vec::new(), 0u32);
        for (index, count) in counts.iter().enumerate() {
            for _ in 0..*count {
                items.push(Item::Element(number));
                number += 1;
            }
            if index + 1 < counts.len() {
                let kind = BarrierKind::Checkpoint(plan.kind);
                let id = CheckpointId(index as u64 + 1);
                items.push(Item::Barrier(Barrier { id, timestamp_ms: index as i64 * 20, kind }));
            }
        }
        if *ends || counts.len() < longest {
            items.push(Item::End);
        }
        items
    };
    plan.channels.iter().map(one).collect()
}

fn run(plan: &Plan) -> Subtask {
    let mut subtask = Subtask::new(script(plan), plan.kind != Alignment::AtLeastOnce);
    let channels = subtask.channels.len();
    for (what, choice) in &plan.actions {
        let channel = *choice as usize % channels;
        match what % 16 {
            0..=6 => subtask.arrive(channel),
            7..=13 => subtask.process(channel),
            14 => {
                subtask.now_ms += i64::from(choice % 40);
                let steps = subtask.aligner.tick(subtask.now_ms);
                subtask.act(steps);
            }
            _ if plan.cancels => {
                let steps = subtask.aligner.cancelled(CheckpointId(u64::from(choice % 4) + 1));
                subtask.act(steps);
            }
            _ => {}
        }
    }
    // Then everything arrives and is processed.
    for _ in 0..400 {
        for channel in 0..channels {
            subtask.arrive(channel);
            subtask.process(channel);
        }
    }
    subtask
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_checkpoint_is_what_came_before_the_barriers(plan in plan()) {
        let subtask = run(&plan);
        for (index, channel) in subtask.channels.iter().enumerate() {
            prop_assert!(channel.script.is_empty() && channel.queue.is_empty(), "channel {} is stuck", index);
            prop_assert!(!subtask.aligner.is_blocked(index));
        }
        prop_assert_eq!(subtask.aligner.pending(), None);
        let barriers = plan.channels.iter().map(|(counts, _)| counts.len() - 1).max().unwrap_or(0) as u64;
        if !plan.cancels {
            for id in (1..=barriers).map(CheckpointId) {
                prop_assert!(subtask.done.contains(&id) || subtask.abandoned.contains(&id));
            }
            // The last one has nobody to supersede it, and aligned ones cannot overlap.
            if barriers > 0 {
                prop_assert!(subtask.done.contains(&CheckpointId(barriers)));
            }
            if plan.kind == Alignment::Aligned {
                prop_assert_eq!(subtask.done.len() as u64, barriers);
            }
        }
        prop_assert!(subtask.done.is_disjoint(&subtask.abandoned));
    }
}
