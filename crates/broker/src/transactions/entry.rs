//! What the journal of transactions says, and how it is read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::{Partition, Txn};

/// How many producer ids one entry of the journal sets aside. A restart skips what was left of them.
const BLOCK: i64 = 1000;

/// One change, written before it is acknowledged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Entry {
    /// Producer ids below `until` may have been handed out.
    Ids { until: i64 },
    /// The whole new state of a transactional id.
    Txn { id: String, txn: Txn },
    /// Partitions and a group joined the open transaction, or opened it.
    Added { id: String, partitions: Vec<Partition>, group: Option<String>, now_ms: i64 },
    /// The transactional id expired.
    Forgotten { id: String },
    /// A topic is gone, and with it its part of every open transaction.
    TopicDeleted { topic: String },
}

/// The transactions and producer ids that a sequence of entries describes.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) txns: BTreeMap<String, Txn>,
    /// First producer id that was never handed out.
    pub(super) next_id: i64,
}

impl Replayed {
    /// Applies the next entry. Entries about unknown ids are without effect.
    pub(super) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Ids { until } => self.next_id = self.next_id.max(until),
            Entry::Txn { id, txn } => {
                self.txns.insert(id, txn);
            }
            Entry::Added { id, partitions, group, now_ms } => {
                if let Some(txn) = self.txns.get_mut(&id) {
                    txn.add(&partitions, group.as_deref(), now_ms);
                }
            }
            Entry::Forgotten { id } => {
                self.txns.remove(&id);
            }
            Entry::TopicDeleted { topic } => {
                for txn in self.txns.values_mut() {
                    txn.partitions.retain(|partition| partition.0 != topic);
                }
            }
        }
    }
}

/// The producer ids that were set aside and not handed out yet.
#[derive(Debug)]
pub(super) struct ProducerIds {
    next: i64,
    until: i64,
}

impl ProducerIds {
    /// Ids from `next` on; none is set aside yet.
    pub(super) fn from(next: i64) -> ProducerIds {
        ProducerIds { next, until: next }
    }

    /// The entry that must be in the journal before the next id is taken, if one is needed.
    pub(super) fn reservation(&self) -> Option<Entry> {
        (self.next == self.until).then_some(Entry::Ids { until: self.until + BLOCK })
    }

    /// Takes the next id. The [`reservation`](ProducerIds::reservation) was written.
    pub(super) fn take(&mut self) -> i64 {
        if self.next == self.until {
            self.until += BLOCK;
        }
        self.next += 1;
        self.next - 1
    }

    /// The entry that says which ids may have been handed out so far.
    pub(super) fn snapshot(&self) -> Entry {
        Entry::Ids { until: self.until }
    }
}
