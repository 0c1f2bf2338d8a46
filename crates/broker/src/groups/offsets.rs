//! Committed offsets, and those that wait for the end of their transaction.
//!
//! Every write has a number. A staged offset that becomes visible does not replace one that was committed
//! after it was staged: the later write wins, as in Kafka's `OffsetMetadataManager`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::transactions::Partition;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offset {
    pub(crate) offset: i64,
    /// -1 if unknown.
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    pub(crate) commit_ms: i64,
    /// When it ends, if the client says so (OffsetCommit up to 4).
    pub(crate) expire_ms: Option<i64>,
}

/// One change, as the journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Change {
    /// Offsets that are visible at once.
    Commit { group: String, offsets: Vec<(Partition, Offset)> },
    /// Offsets that become visible when the producer's transaction commits.
    Stage { producer_id: i64, group: String, offsets: Vec<(Partition, Offset)> },
    /// The end of a producer's transaction.
    End { producer_id: i64, commit: bool },
    /// Offsets that were deleted or expired.
    Delete { group: String, partitions: Vec<Partition> },
    /// All offsets of a group.
    DeleteGroup { group: String },
    /// All offsets of a topic.
    DeleteTopic { topic: String },
}

#[derive(Clone, Debug)]
struct Written {
    number: u64,
    offset: Offset,
}

type GroupOffsets = BTreeMap<Partition, Written>;

/// Offsets of all groups.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    committed: BTreeMap<String, GroupOffsets>,
    staged: BTreeMap<i64, BTreeMap<String, GroupOffsets>>,
    number: u64,
}

impl Offsets {
    /// Applies a change.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Commit { group, offsets } => {
                Offsets::put(&mut self.number, self.committed.entry(group).or_default(), offsets);
            }
            Change::Stage { producer_id, group, offsets } => {
                let groups = self.staged.entry(producer_id).or_default();
                Offsets::put(&mut self.number, groups.entry(group).or_default(), offsets);
            }
            Change::End { producer_id, commit } => self.end(producer_id, commit),
            Change::Delete { group, partitions } => {
                self.remove(|of, partition| *of == group && partitions.contains(partition));
            }
            Change::DeleteGroup { group } => self.remove(|of, _| *of == group),
            Change::DeleteTopic { topic } => self.remove(|_, partition| partition.0 == topic),
        }
    }

    fn put(number: &mut u64, into: &mut GroupOffsets, offsets: Vec<(Partition, Offset)>) {
        for (partition, offset) in offsets {
            *number += 1;
            into.insert(partition, Written { number: *number, offset });
        }
    }

    fn end(&mut self, producer_id: i64, commit: bool) {
        let staged = self.staged.remove(&producer_id).unwrap_or_default();
        for (group, offsets) in staged.into_iter().filter(|_| commit) {
            let committed = self.committed.entry(group).or_default();
            for (partition, written) in offsets {
                if committed.get(&partition).is_none_or(|old| old.number < written.number) {
                    committed.insert(partition, written);
                }
            }
        }
    }

    fn remove(&mut self, wanted: impl Fn(&String, &Partition) -> bool) {
        let prune = |groups: &mut BTreeMap<String, GroupOffsets>| {
            for (group, offsets) in groups.iter_mut() {
                offsets.retain(|partition, _| !wanted(group, partition));
            }
            groups.retain(|_, offsets| !offsets.is_empty());
        };
        prune(&mut self.committed);
        self.staged.values_mut().for_each(prune);
        self.staged.retain(|_, groups| !groups.is_empty());
    }

    /// The offset that is visible.
    pub(crate) fn get(&self, group: &str, partition: &Partition) -> Option<&Offset> {
        Some(&self.committed.get(group)?.get(partition)?.offset)
    }

    /// All visible offsets of a group, by topic and partition.
    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = (&Partition, &Offset)> {
        self.committed.get(group).into_iter().flatten().map(|(partition, written)| (partition, &written.offset))
    }

    /// Whether an open transaction holds an offset of the partition back.
    pub(crate) fn is_staged(&self, group: &str, partition: &Partition) -> bool {
        self.staged.values().any(|groups| groups.get(group).is_some_and(|offsets| offsets.contains_key(partition)))
    }

    /// Whether a producer's transaction holds offsets back.
    pub(crate) fn is_staging(&self, producer_id: i64) -> bool {
        self.staged.contains_key(&producer_id)
    }

    /// Whether anything of the group is here, visible or not.
    pub(crate) fn knows_group(&self, group: &str) -> bool {
        self.committed.contains_key(group) || self.staged.values().any(|groups| groups.contains_key(group))
    }

    /// Whether anything of the topic is here, visible or not.
    pub(crate) fn knows_topic(&self, topic: &str) -> bool {
        let has = |groups: &BTreeMap<String, GroupOffsets>| {
            groups.values().flat_map(BTreeMap::keys).any(|partition| partition.0 == topic)
        };
        has(&self.committed) || self.staged.values().any(has)
    }

    /// Groups with visible or staged offsets.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &String> {
        self.committed.keys().chain(self.staged.values().flat_map(BTreeMap::keys))
    }

    /// How many offsets there are.
    pub(crate) fn len(&self) -> usize {
        let count = |groups: &BTreeMap<String, GroupOffsets>| groups.values().map(BTreeMap::len).sum::<usize>();
        count(&self.committed) + self.staged.values().map(count).sum::<usize>()
    }

    /// Changes that make the same offsets from nothing, in the order of their writes.
    pub(crate) fn snapshot(&self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.len());
        for (group, offsets) in &self.committed {
            for (partition, written) in offsets {
                let offsets = vec![(partition.clone(), written.offset.clone())];
                changes.push((written.number, Change::Commit { group: group.clone(), offsets }));
            }
        }
        for (&producer_id, groups) in &self.staged {
            for (group, offsets) in groups {
                for (partition, written) in offsets {
                    let offsets = vec![(partition.clone(), written.offset.clone())];
                    changes.push((written.number, Change::Stage { producer_id, group: group.clone(), offsets }));
                }
            }
        }
        changes.sort_by_key(|(number, _)| *number);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}
