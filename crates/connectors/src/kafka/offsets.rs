//! Places in partitions become offsets: the questions a job asks before it reads. All calls wait, so
//! they run on a thread for blocking work.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::connector::Notifier;
use tidegate_api::{Error, Result};
use tokio::time::Instant;

use super::client::{Consumer, is_transient};
use super::options::{OffsetReset, Place, Topics};

/// A partition by topic and number.
pub(super) type Partition = (String, i32);

/// Asks brokers, again and again while that can help, until the time is over.
pub(super) struct Broker {
    pub consumer: Consumer,
    /// `properties.bootstrap.servers`, for messages.
    pub bootstrap: String,
    /// `properties.group.id`, for messages.
    pub group: String,
    pub timeout: Duration,
    /// Who is told, once, that the brokers do not answer.
    pub waiting: Cell<Option<Notifier>>,
}

/// How long the brokers may be silent before the user is told.
const SILENCE_TOLD_AFTER: Duration = Duration::from_secs(2);

impl Broker {
    /// The partitions of the topics, all of them that exist now.
    pub fn partitions(&self, topics: &Topics) -> Result<Vec<Partition>> {
        match topics {
            Topics::List(names) => {
                let mut all = Vec::new();
                for name in names {
                    let metadata = self.ask(&format!("the partitions of topic '{name}'"), |timeout| {
                        self.consumer.fetch_metadata(Some(name), timeout)
                    })?;
                    all.extend(self.partitions_of(&metadata, name)?);
                }
                Ok(all)
            }
            Topics::Pattern(pattern) => {
                let metadata = self.ask("the list of topics", |timeout| self.consumer.fetch_metadata(None, timeout))?;
                let topics = metadata.topics().iter().filter(|t| pattern.is_match(t.name()) && t.error().is_none());
                Ok(topics.flat_map(|t| t.partitions().iter().map(|p| (t.name().to_owned(), p.id()))).collect())
            }
        }
    }

    fn partitions_of(&self, metadata: &Metadata, name: &str) -> Result<Vec<Partition>> {
        let topic = metadata.topics().iter().find(|t| t.name() == name);
        let error = topic.and_then(|t| t.error()).map(RDKafkaErrorCode::from);
        match (topic, error) {
            (Some(topic), None | Some(RDKafkaErrorCode::LeaderNotAvailable)) => {
                Ok(topic.partitions().iter().map(|p| (name.to_owned(), p.id())).collect())
            }
            (_, None | Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {
                Err(Error::job(format!(
                    "Topic '{name}' does not exist on the Kafka brokers at '{}'. Create it, or correct the table's \
                     'topic' option.",
                    self.bootstrap
                )))
            }
            (_, Some(code)) => {
                Err(Error::job(format!("Topic '{name}' on the Kafka brokers at '{}': {code}.", self.bootstrap)))
            }
        }
    }

    /// Where `place` is in each partition.
    pub fn resolve(
        &self,
        place: &Place,
        reset: OffsetReset,
        partitions: &[Partition],
        purpose: &str,
    ) -> Result<BTreeMap<Partition, i64>> {
        match place {
            Place::Earliest => self.list(partitions, Offset::Beginning),
            Place::Latest => self.list(partitions, Offset::End),
            Place::Timestamp(millis) => self.by_timestamp(partitions, *millis),
            Place::Group => {
                let mut found = self.committed(partitions)?;
                let rest = missing(partitions, &found);
                if let (Some((topic, partition)), OffsetReset::None) = (rest.first(), reset) {
                    return Err(self.nothing_committed(topic, *partition, purpose));
                }
                let fallback = if reset == OffsetReset::Latest { Offset::End } else { Offset::Beginning };
                found.extend(self.list(&rest, fallback)?);
                Ok(found)
            }
            Place::Offsets(offsets) => {
                let named = |(topic, p): &Partition| Some(((topic.clone(), *p), *offsets.get(p)?));
                let mut found: BTreeMap<Partition, i64> = partitions.iter().filter_map(named).collect();
                let rest = missing(partitions, &found);
                if !rest.is_empty() {
                    found.extend(self.committed(&rest)?);
                    let rest = missing(partitions, &found);
                    found.extend(self.list(&rest, Offset::Beginning)?);
                }
                Ok(found)
            }
        }
    }

    fn nothing_committed(&self, topic: &str, partition: i32, purpose: &str) -> Error {
        Error::job(format!(
            "Reading of topic '{topic}', partition {partition} should {purpose} at the committed offset of group \
             '{}', but that group has committed none. Set 'properties.auto.offset.reset' to 'earliest' or 'latest', \
             or another '{}' than 'group-offsets'.",
            self.group,
            if purpose == "end" { "scan.bounded.mode" } else { "scan.startup.mode" },
        ))
    }

    /// The first offset, or the one behind the last record that this client may read.
    fn list(&self, partitions: &[Partition], which: Offset) -> Result<BTreeMap<Partition, i64>> {
        // The lookup by time knows Kafka's two special times, and unlike the "watermark" query it
        // answers with the last stable offset when only committed records are read.
        self.times(partitions, which)
    }

    fn by_timestamp(&self, partitions: &[Partition], millis: i64) -> Result<BTreeMap<Partition, i64>> {
        let mut found = self.times(partitions, Offset::Offset(millis))?;
        let later: Vec<Partition> = found.iter().filter(|(_, o)| **o < 0).map(|(p, _)| p.clone()).collect();
        found.extend(self.list(&later, Offset::End)?);
        Ok(found)
    }

    fn times(&self, partitions: &[Partition], time: Offset) -> Result<BTreeMap<Partition, i64>> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let answer =
            self.ask("offsets", |timeout| self.consumer.offsets_for_times(question(partitions, time)?, timeout))?;
        let mut found = BTreeMap::new();
        for element in answer.elements() {
            let (topic, partition) = (element.topic(), element.partition());
            element.error().map_err(|e| {
                Error::job(format!("The offsets of topic '{topic}', partition {partition} cannot be read: {e}"))
            })?;
            let offset = match element.offset() {
                Offset::Offset(n) => n,
                _ => -1,
            };
            found.insert((topic.to_owned(), partition), offset);
        }
        Ok(found)
    }

    /// What the group has committed; partitions without are left out.
    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, i64>> {
        let answer = self.ask(&format!("the committed offsets of group '{}'", self.group), |timeout| {
            self.consumer.committed_offsets(question(partitions, Offset::Invalid)?, timeout)
        })?;
        let known = answer.elements().into_iter().filter_map(|element| match element.offset() {
            Offset::Offset(n) => Some(((element.topic().to_owned(), element.partition()), n)),
            _ => None,
        });
        Ok(known.collect())
    }

    /// Calls until it answers. Short calls, so that a refused login is noticed at once.
    fn ask<T>(&self, what: &str, call: impl Fn(Duration) -> Result<T, KafkaError>) -> Result<T> {
        let end = Instant::now() + self.timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let error = match call(left.min(Duration::from_secs(1)).max(Duration::from_millis(1))) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // Errors of connections come as events; there are no messages here that could get lost.
            while self.consumer.poll(Duration::ZERO).is_some() {}
            if let Some(reason) = self.consumer.client().context().login_error() {
                return Err(Error::job(format!(
                    "The Kafka brokers at '{}' refuse the login: {reason}",
                    self.bootstrap
                )));
            }
            let code = error.rdkafka_error_code();
            if !code.is_some_and(is_transient) {
                return Err(Error::job(format!(
                    "The Kafka brokers at '{}' do not tell {what}: {error}",
                    self.bootstrap
                )));
            }
            let reason = || self.consumer.client().context().last_error().unwrap_or_else(|| error.to_string());
            if self.timeout.saturating_sub(left) >= SILENCE_TOLD_AFTER
                && let Some(notices) = self.waiting.take()
            {
                notices.warn(&format!(
                    "waiting for Kafka at '{}' ('properties.bootstrap.servers'), for {} s more: {}",
                    self.bootstrap,
                    left.as_secs(),
                    reason()
                ));
            }
            if left.is_zero() {
                return Err(Error::job(format!(
                    "Cannot reach Kafka at '{}' ('properties.bootstrap.servers') within {} ms to ask for {what}: {}",
                    self.bootstrap,
                    self.timeout.as_millis(),
                    reason()
                )));
            }
            // A call that fails at once must not become a busy loop.
            let _ = self.consumer.poll(left.min(Duration::from_millis(100)));
        }
    }
}

fn question(partitions: &[Partition], offset: Offset) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition_offset(topic, *partition, offset)?;
    }
    Ok(list)
}

fn missing(partitions: &[Partition], found: &BTreeMap<Partition, i64>) -> Vec<Partition> {
    partitions.iter().filter(|p| !found.contains_key(*p)).cloned().collect()
}
