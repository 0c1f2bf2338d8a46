//! Finds partitions and fixes where each is read from and to.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_api::connector::{Notifier, Split, SplitAssignment, SplitEnumerator};
use tidegate_api::{Error, Result};

use super::offsets::{Broker, Partition};
use super::options::{OffsetReset, Place};
use super::source::SourceTable;

/// What a reader must know of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartitionState {
    pub topic: String,
    pub partition: i32,
    /// Offset of the first record to read.
    pub start: i64,
    /// Offset of the first record not to read any more.
    pub stop: Option<i64>,
}

impl PartitionState {
    /// The split that a reader opens.
    pub fn to_split(&self) -> Result<Split> {
        Ok(Split {
            id: format!("{}-{}", self.topic, self.partition),
            owner: owner(&self.topic, self.partition),
            state: serde_json::to_value(self).map_err(|e| Error::internal(e.to_string()))?,
        })
    }
}

/// Asks the brokers for partitions, once or from time to time.
pub(super) struct KafkaEnumerator {
    table: Arc<SourceTable>,
    /// Everything ever returned. A partition that one answer misses keeps its place.
    known: BTreeSet<Partition>,
    started: bool,
    notices: Notifier,
    /// The last discovery failed, and that has been said.
    failing: bool,
}

impl KafkaEnumerator {
    pub fn new(table: Arc<SourceTable>, notices: Notifier) -> Self {
        KafkaEnumerator { table, known: BTreeSet::new(), started: false, notices, failing: false }
    }
}

/// Asks with a client of its own, which goes when the answer is there: the next question comes in
/// minutes, if at all.
fn ask(
    table: &SourceTable,
    known: &BTreeSet<Partition>,
    first: bool,
    notices: &Notifier,
) -> Result<Vec<PartitionState>> {
    let broker = Broker {
        consumer: table.asking_consumer()?,
        bootstrap: table.options.properties.bootstrap.clone(),
        group: table.group.clone(),
        timeout: Duration::from_millis(table.options.properties.api_timeout_ms),
        // Only the first question holds up the job; of a later one its end is said.
        waiting: Cell::new(first.then(|| notices.clone())),
    };
    find(&broker, table, known, first)
}

/// The partitions not in `known`, with their offsets.
fn find(broker: &Broker, table: &SourceTable, known: &BTreeSet<Partition>, first: bool) -> Result<Vec<PartitionState>> {
    let partitions = new_ones(broker.partitions(&table.topics)?, known);
    // What appears later did not exist when the job started: all of it is new.
    let (place, reset) = match first {
        true => (&table.options.startup, table.options.reset),
        false => (&Place::Earliest, OffsetReset::Earliest),
    };
    let starts = broker.resolve(place, reset, &partitions, "start")?;
    let stops = match &table.options.end {
        Some(place) => Some(broker.resolve(place, OffsetReset::None, &partitions, "end")?),
        None => None,
    };
    let state = |p: &Partition| {
        let start = starts.get(p).copied().filter(|o| *o >= 0);
        let start =
            start.ok_or_else(|| Error::job(format!("Kafka gave no offset for topic '{}', partition {}.", p.0, p.1)))?;
        let stop = stops.as_ref().and_then(|stops| stops.get(p).copied());
        Ok(PartitionState { topic: p.0.clone(), partition: p.1, start, stop })
    };
    partitions.iter().map(state).collect()
}

/// What is there and was not known, in order. Nothing that is known is ever forgotten: an answer may miss partitions,
/// and one that came back as a new one would be read again from its beginning.
fn new_ones(mut found: Vec<Partition>, known: &BTreeSet<Partition>) -> Vec<Partition> {
    found.retain(|partition| !known.contains(partition));
    found.sort();
    found
}

/// Flink's rule of which subtask reads a partition: partitions of a topic go around, from a subtask
/// that the topic's name gives.
fn owner(topic: &str, partition: i32) -> u64 {
    let hash = topic.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let start = u64::from(hash.wrapping_mul(31) as u32 & 0x7FFF_FFFF);
    start + u64::try_from(partition).unwrap_or(0)
}

#[async_trait]
impl SplitEnumerator for KafkaEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let (table, known, first) = (Arc::clone(&self.table), self.known.clone(), !self.started);
        let notices = self.notices.clone();
        let task = tokio::task::spawn_blocking(move || ask(&table, &known, first, &notices));
        let found = task.await.map_err(|e| Error::internal(format!("the partition discovery broke: {e}")))?;
        let found = match found {
            Ok(found) => found,
            // The readers' clients go on by themselves; the next discovery sees what this one missed.
            Err(error) if self.started => {
                if !std::mem::replace(&mut self.failing, true) {
                    self.notices.warn(&format!("new partitions cannot be looked for, trying again: {error}"));
                }
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        (self.started, self.failing) = (true, false);
        let mut splits = Vec::with_capacity(found.len());
        for state in found {
            self.known.insert((state.topic.clone(), state.partition));
            splits.push(state.to_split()?);
        }
        Ok(splits)
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.table.options.discovery
    }

    fn assignment(&self) -> SplitAssignment {
        SplitAssignment::Eager
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        let known = KnownPartitions { known: self.known.clone(), started: self.started };
        serde_json::to_value(known).map_err(|e| Error::internal(e.to_string()))
    }

    fn restore(&mut self, state: serde_json::Value) -> Result<()> {
        let known: KnownPartitions = serde_json::from_value(state)
            .map_err(|e| Error::job(format!("The checkpoint's list of Kafka partitions cannot be read: {e}.")))?;
        (self.known, self.started) = (known.known, known.started);
        Ok(())
    }
}

/// The enumerator's part of a checkpoint.
#[derive(Serialize, Deserialize)]
struct KnownPartitions {
    known: BTreeSet<Partition>,
    /// The first discovery is over, so what is new from now on is read from its beginning.
    started: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_an_answer_misses_keeps_its_place() {
        let all = |numbers: &[i32]| numbers.iter().map(|n| ("t".to_owned(), *n)).collect::<Vec<Partition>>();
        let known: BTreeSet<Partition> = all(&[0, 1]).into_iter().collect();
        assert_eq!(new_ones(all(&[0]), &known), []);
        assert_eq!(new_ones(all(&[3, 1, 2, 0]), &known), all(&[2, 3]));
    }

    /// Values of Java's `(topic.hashCode() * 31) & 0x7FFFFFFF`.
    #[test]
    fn owners_are_flinks() {
        // "a".hashCode() = 97; "clicks1".hashCode() = 860524545 (wraps when multiplied by 31).
        assert_eq!(owner("a", 0), 97 * 31);
        assert_eq!(owner("a", 3), 97 * 31 + 3);
        let clicks = "clicks1".bytes().fold(0_i64, |h, b| (h * 31 + i64::from(b)) & 0xFFFF_FFFF);
        assert_eq!(owner("clicks1", 1), ((clicks * 31) & 0x7FFF_FFFF) as u64 + 1);
    }
}
