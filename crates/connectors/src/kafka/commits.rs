//! Tells the source's group how far complete checkpoints have read.
//!
//! Others watch a group to see how far a job is behind. The job itself goes on from its checkpoints: a commit that
//! fails or is lost changes nothing, the next checkpoint commits again.

use std::collections::{BTreeMap, HashMap};

use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::metrics::{Counter, Gauge, MetricGroup};

use super::client::{Consumer, Health};
use super::offsets::Partition;

/// Snapshots that wait for their checkpoint. If so many fail in a row, the oldest is of no use any more.
const WAITING_MAX: usize = 100;

/// The offsets of one reader that are to be committed.
pub(super) struct OffsetCommits {
    /// Offsets behind what was returned, by checkpoint.
    taken: BTreeMap<u64, Vec<(Partition, i64)>>,
    shown: HashMap<Partition, Gauge>,
    succeeded: Counter,
    failed: Counter,
}

impl OffsetCommits {
    /// Nothing is taken yet.
    pub fn new(metrics: &MetricGroup) -> OffsetCommits {
        OffsetCommits {
            taken: BTreeMap::new(),
            shown: HashMap::new(),
            succeeded: metrics.counter("commitsSucceeded"),
            failed: metrics.counter("commitsFailed"),
        }
    }

    /// Shows what is committed of a partition.
    pub fn follow(&mut self, topic: &str, partition: i32, committed: Gauge) {
        self.shown.insert((topic.to_owned(), partition), committed);
    }

    /// These offsets are part of a checkpoint.
    pub fn taken(&mut self, checkpoint: u64, offsets: Vec<(Partition, i64)>) {
        self.taken.insert(checkpoint, offsets);
        if self.taken.len() > WAITING_MAX {
            self.taken.pop_first();
        }
    }

    /// A checkpoint is complete: its offsets are sent, and nobody waits for the answer.
    pub fn completed(&mut self, checkpoint: u64, consumer: &Consumer) {
        let later = self.taken.split_off(&(checkpoint + 1));
        let Some(offsets) = std::mem::replace(&mut self.taken, later).remove(&checkpoint) else { return };
        if offsets.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        let listed = offsets.iter().try_for_each(|((topic, partition), offset)| {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
        });
        if listed.and_then(|()| consumer.commit(&list, CommitMode::Async)).is_err() {
            self.failed.add(1);
        }
    }

    /// Counts the answers that have come.
    pub fn answered(&mut self, health: &Health) {
        for commit in health.take_commits() {
            let Some(list) = commit else {
                self.failed.add(1);
                continue;
            };
            self.succeeded.add(1);
            for element in list.elements() {
                if let (Some(shown), Offset::Offset(offset)) =
                    (self.shown.get(&(element.topic().to_owned(), element.partition())), element.offset())
                {
                    shown.set(offset);
                }
            }
        }
    }
}
