//! One transactional id at Kafka: fence it, read its sequence, write a segment. All of it blocks.
//!
//! After any failure the producer is not used again: what became of its transaction is asked of Kafka by a
//! new one, never guessed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::sequences::{Committed, Segment, SinkName};
use tidegate_time::{Clock, SystemClock};

use super::segment::read_segment;
use super::segment_data;
use crate::kafka::client::{Consumer, Health};
use crate::kafka::records::Record;
use crate::kafka::sink::SinkTable;

/// How long one call may block: an attempt that is given up must not hold up its end for longer.
const CALL: Duration = Duration::from_secs(5);
/// How long to wait for acknowledgements at a time.
const POLL: Duration = Duration::from_millis(50);

/// Why a step did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It may succeed when tried again from fencing.
    Passing(String),
    /// Trying again here does not help.
    Final(Error),
    /// Nobody waits for it any more.
    Stopped,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

/// What the client tells of records that were not stored.
#[derive(Default)]
struct Deliveries {
    health: Health,
    failure: Mutex<Option<(KafkaError, String)>>,
}

impl ClientContext for Deliveries {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        // What matters comes as an error event too, and standard error is the user's.
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.health.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| (error.clone(), message.topic().to_owned()));
        }
    }
}

/// A fenced transactional id.
pub(super) struct Transactions {
    producer: BaseProducer<Deliveries>,
    /// Of the id's group: reads its offset, and names it to transactions. It never joins.
    consumer: Consumer,
    /// The same for a consumer that does not wait for transactions to end.
    impatient: ClientConfig,
    name: SinkName,
    bootstrap: String,
    timeout_ms: i64,
    clock: SystemClock,
    partitions: Mutex<HashMap<String, i32>>,
}

impl Transactions {
    /// Shuts out whoever used the id, and ends the transaction they may have left.
    pub fn fence(table: &SinkTable, name: &SinkName, timeout_ms: i64) -> std::result::Result<Transactions, Failure> {
        let refused = |e| Failure::Final(table.options.properties.refused(e));
        let mut config = table.config.clone();
        config.set("transactional.id", &name.transactional_id);
        config.set("transaction.timeout.ms", timeout_ms.to_string());
        let producer = BaseProducer::from_config_and_context(&config, Deliveries::default()).map_err(refused)?;
        let mut config = table.config.clone();
        config.set("group.id", &name.group);
        config.set("enable.auto.commit", "false");
        let mut impatient = config.clone();
        impatient.set("isolation.level", "read_uncommitted");
        // Also makes Kafka say only offsets whose transaction is over.
        config.set("isolation.level", "read_committed");
        let consumer = Consumer::from_config_and_context(&config, Health::default()).map_err(refused)?;
        let transactions = Transactions {
            producer,
            consumer,
            impatient,
            name: name.clone(),
            bootstrap: table.options.properties.bootstrap.clone(),
            timeout_ms,
            clock: SystemClock::new(),
            partitions: Mutex::default(),
        };
        match transactions.producer.init_transactions(CALL) {
            Ok(()) => Ok(transactions),
            Err(error) => Err(transactions.failure("cannot be opened", error, None)),
        }
    }

    /// The sequence that the group has committed.
    pub fn committed(&self, topic: &str) -> std::result::Result<Option<Committed>, Failure> {
        committed_offset(&self.consumer, topic).map_err(|error| {
            const WHAT: &str = "cannot be asked for its progress";
            if is_timeout(&error) && self.is_held_back(topic) {
                let what = format!(
                    "{WHAT}: Kafka holds it back, for a transaction is open that has written an offset of group '{}', \
                     and this id has none. Either another program uses that group, or Kafka has left a transaction \
                     half ended and will not end it ('kafka-transactions.sh find-hanging' tells); what to do is in \
                     docs/recovery.md, 'Kafka holds back the progress'",
                    self.name.group
                );
                return self.failure(&what, error, None);
            }
            self.failure(WHAT, error, None)
        })
    }

    /// Whether Kafka would answer if it did not wait for a transaction to end.
    fn is_held_back(&self, topic: &str) -> bool {
        let consumer: std::result::Result<Consumer, KafkaError> =
            Consumer::from_config_and_context(&self.impatient, Health::default());
        consumer.and_then(|consumer| committed_offset(&consumer, topic)).is_ok()
    }

    /// Writes a segment and its sequence, both or neither.
    pub fn write(&self, segment: &Segment, path: &Path, stop: &AtomicBool) -> std::result::Result<(), Failure> {
        let data = segment_data(segment)?;
        let began = self.clock.monotonic_ms();
        let failed = |error| self.failure("cannot write", error, Some(began));
        self.producer.begin_transaction().map_err(failed)?;
        let rows = read_segment(path, |record| self.send(record, data.fixed, began, stop))?;
        if rows != segment.staged.rows {
            return Err(Failure::Final(Error::job(format!(
                "The staged file '{}' has {rows} records and not {}.",
                path.display(),
                segment.staged.rows
            ))));
        }
        // The client's own waiting comes in steps of 100 ms.
        while self.producer.in_flight_count() > 0 {
            self.serve(POLL, began, stop)?;
        }
        let sequence = i64::try_from(segment.sequence).map_err(|e| Error::internal(e.to_string()))?;
        let mut offsets = TopicPartitionList::new();
        let mut offset = offsets.add_partition(&data.topic, 0);
        offset.set_offset(Offset::Offset(sequence)).map_err(failed)?;
        offset.set_metadata(segment.metadata());
        let group = self.consumer.group_metadata();
        let group = group.ok_or_else(|| Error::internal("a consumer has no group"))?;
        self.producer.send_offsets_to_transaction(&offsets, &group, CALL).map_err(failed)?;
        loop {
            match self.producer.commit_transaction(CALL) {
                Ok(()) => return Ok(()),
                // The same question again, as the client wants it: it has only not been answered yet.
                Err(KafkaError::Transaction(e)) if e.is_retriable() && self.has_time(began) => {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Failure::Stopped);
                    }
                }
                Err(error) => return Err(self.delivery_failure(began).unwrap_or_else(|| failed(error))),
            }
        }
    }

    fn send(
        &self,
        record: Record<'_>,
        fixed: Option<u32>,
        began: i64,
        stop: &AtomicBool,
    ) -> std::result::Result<(), Failure> {
        let mut next = BaseRecord::<[u8], [u8]>::to(record.topic).payload(record.value);
        (next.key, next.timestamp, next.headers) = (record.key, record.timestamp, record.headers);
        if let Some(subtask) = fixed {
            let count = self.count_partitions(record.topic, began)?;
            next.partition = Some(i32::try_from(subtask).unwrap_or(0) % count.max(1));
        }
        loop {
            match self.producer.send(next) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    next = back;
                    self.serve(POLL, began, stop)?;
                }
                Err((error, _)) => {
                    let failure = self.delivery_failure(began);
                    return Err(failure.unwrap_or_else(|| self.failure("cannot write", error, Some(began))));
                }
            }
        }
    }

    /// Takes acknowledgements.
    fn serve(&self, wait: Duration, began: i64, stop: &AtomicBool) -> std::result::Result<(), Failure> {
        self.producer.poll(wait);
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        self.delivery_failure(began).map_or(Ok(()), Err)
    }

    fn delivery_failure(&self, began: i64) -> Option<Failure> {
        let failure = self.producer.context().failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map(|(error, topic)| {
            self.failure(&format!("cannot store a record in topic '{topic}'"), error, Some(began))
        })
    }

    fn count_partitions(&self, topic: &str, began: i64) -> std::result::Result<i32, Failure> {
        let mut known = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get(topic) {
            return Ok(*count);
        }
        let asked = self.producer.client().fetch_metadata(Some(topic), CALL);
        let metadata = asked.map_err(|e| self.failure("cannot learn the partitions of a topic", e, Some(began)))?;
        let found = metadata.topics().iter().find(|t| t.name() == topic && !t.partitions().is_empty());
        let count = found.map(|t| i32::try_from(t.partitions().len()).unwrap_or(i32::MAX)).ok_or_else(|| {
            Error::job(format!("Topic '{topic}' does not exist on the Kafka brokers at '{}'.", self.bootstrap))
        })?;
        known.insert(topic.to_owned(), count);
        Ok(count)
    }

    fn has_time(&self, began: i64) -> bool {
        self.clock.monotonic_ms() - began < self.timeout_ms
    }

    /// `began` is when the transaction began, if there is one.
    fn failure(&self, what: &str, error: KafkaError, began: Option<i64>) -> Failure {
        // The client often says only that something failed; why is what the network said before.
        let reason = match self.producer.context().health.last_error() {
            Some(reason) => format!("{error} ({reason})"),
            None => error.to_string(),
        };
        let text =
            format!("Transactional id '{}' at Kafka '{}' {what}: {reason}", self.name.transactional_id, self.bootstrap);
        let hopeless = self.producer.context().health.login_error().is_some();
        match error.rdkafka_error_code() {
            Some(code) if is_fenced(code) && began.is_some_and(|began| self.has_time(began)) => {
                // Had the transaction timed out, the broker would say the same; but there was time left.
                Failure::Final(Error::job(format!(
                    "{text}. Another job, or another run of this one, has taken the id: every job needs a \
                     'sink.transactional-id-prefix' of its own."
                )))
            }
            Some(code) if hopeless || is_final(code) => Failure::Final(Error::job(text)),
            _ => Failure::Passing(text),
        }
    }
}

/// What a group has committed for a topic: the sequence of its id.
fn committed_offset(consumer: &Consumer, topic: &str) -> std::result::Result<Option<Committed>, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, 0);
    let list = consumer.committed_offsets(list, CALL)?;
    let found = list.find_partition(topic, 0).ok_or(KafkaError::NoMessageReceived)?;
    found.error()?;
    Ok(match found.offset() {
        Offset::Offset(sequence) => Committed::parse(sequence, found.metadata()),
        _ => None,
    })
}

/// The client asks again by itself until the time is over, also if the answer was that an offset is not stable.
fn is_timeout(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    let code = error.rdkafka_error_code();
    matches!(code, Some(Code::OperationTimedOut | Code::RequestTimedOut | Code::UnstableOffsetCommit))
}

fn is_fenced(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::ProducerFenced | Code::InvalidProducerEpoch | Code::Fenced)
}

/// Whether a person has to do something.
fn is_final(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::InvalidTransactionTimeout
            | Code::TransactionalIdAuthorizationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::SSL
            | Code::MessageSizeTooLarge
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::InvalidTopic
    )
}

/// `properties.transaction.timeout.ms`, or Kafka's default.
pub(super) fn transaction_timeout_ms(table: &SinkTable) -> Result<i64> {
    const DEFAULT_MS: i64 = 60_000;
    let Some(text) = table.options.properties.client.get("transaction.timeout.ms") else { return Ok(DEFAULT_MS) };
    text.trim().parse().map_err(|_| {
        Error::invalid(format!(
            "Kafka client setting 'properties.transaction.timeout.ms' = '{text}' is not a whole number."
        ))
    })
}
