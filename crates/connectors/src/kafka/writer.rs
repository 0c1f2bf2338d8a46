//! Writes rows as records and keeps count of those not yet acknowledged.
//!
//! The client's thread serves acknowledgements; each wakes the writer. A full send queue makes the
//! writer wait for one, so memory is bounded by the client's buffer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tidegate_api::connector::{SinkWriter, WriterContext};
use tidegate_api::metrics::Counter;
use tidegate_api::{Batch, Error, Result};
use tokio::sync::Notify;

use super::options::Partitioning;
use super::records::{RecordEncoder, Records};
use super::sink::SinkTable;

/// How soon a full send queue is tried again though no acknowledgement has come.
const FULL_QUEUE_RETRY: Duration = Duration::from_millis(5);

/// What acknowledgements tell the writer.
struct Progress {
    in_flight: AtomicUsize,
    failure: Mutex<Option<String>>,
    changed: Notify,
    sent: Counter,
    sent_bytes: Counter,
    errors: Counter,
}

impl Progress {
    fn check(&self) -> Result<()> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            None => Ok(()),
            Some(text) => Err(Error::job(text.clone())),
        }
    }

    fn fail(&self, text: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(text);
    }
}

/// The client's callbacks.
struct Acknowledgements {
    progress: Arc<Progress>,
    bootstrap: String,
}

impl ClientContext for Acknowledgements {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        // Failures come as delivery results, and standard error is the user's.
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let hopeless = [RDKafkaErrorCode::Authentication, RDKafkaErrorCode::SSL, RDKafkaErrorCode::Fatal];
        if error.rdkafka_error_code().is_some_and(|code| hopeless.contains(&code)) {
            self.progress.fail(format!("Writing to Kafka at '{}' failed: {reason}", self.bootstrap));
            self.progress.changed.notify_one();
        }
    }
}

impl ProducerContext for Acknowledgements {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => {
                self.progress.sent.add(1);
                let len = message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len);
                self.progress.sent_bytes.add(len as u64);
            }
            Err((error, message)) => {
                self.progress.errors.add(1);
                self.progress.fail(format!(
                    "A record for topic '{}' was not stored by Kafka at '{}': {error}",
                    message.topic(),
                    self.bootstrap
                ));
            }
        }
        self.progress.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.progress.changed.notify_one();
    }
}

type Client = ThreadedProducer<Acknowledgements>;

/// The client and its progress.
struct Sender {
    client: Arc<Client>,
    progress: Arc<Progress>,
    bootstrap: String,
}

impl Sender {
    /// Hands a record to the client; waits while its queue is full.
    async fn send(&self, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
        self.progress.in_flight.fetch_add(1, Ordering::AcqRel);
        loop {
            match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    // Full means that acknowledgements are due, and each of them wakes us. But the client
                    // makes room only after it has told of a whole set of them, so the last wake-up may come
                    // too early: the timeout is for that one.
                    let woken = self.progress.changed.notified();
                    let _ = tokio::time::timeout(FULL_QUEUE_RETRY, woken).await;
                    if let Err(error) = self.progress.check() {
                        self.progress.in_flight.fetch_sub(1, Ordering::AcqRel);
                        return Err(error);
                    }
                }
                Err((error, back)) => {
                    self.progress.in_flight.fetch_sub(1, Ordering::AcqRel);
                    self.progress.errors.add(1);
                    return Err(Error::job(format!(
                        "A record for topic '{}' cannot be sent to Kafka at '{}': {error}",
                        back.topic, self.bootstrap
                    )));
                }
            }
        }
    }

    async fn wait_for_acknowledgements(&self) -> Result<()> {
        while self.progress.in_flight.load(Ordering::Acquire) > 0 {
            self.progress.check()?;
            self.progress.changed.notified().await;
        }
        self.progress.check()
    }

    async fn count_partitions(&self, topic: String, timeout: Duration) -> Result<i32> {
        let (client, bootstrap) = (Arc::clone(&self.client), self.bootstrap.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = client.client().fetch_metadata(Some(&topic), timeout).map_err(|e| {
                Error::job(format!("Kafka at '{bootstrap}' does not tell the partitions of topic '{topic}': {e}"))
            })?;
            let found = metadata.topics().iter().find(|t| t.name() == topic && !t.partitions().is_empty());
            let count = found.map(|t| i32::try_from(t.partitions().len()).unwrap_or(i32::MAX));
            count.ok_or_else(|| {
                Error::job(format!("Topic '{topic}' does not exist on the Kafka brokers at '{bootstrap}'."))
            })
        });
        asked.await.map_err(|e| Error::internal(e.to_string()))?
    }
}

/// One subtask's writer.
pub(super) struct KafkaWriter {
    table: Arc<SinkTable>,
    ctx: WriterContext,
    sender: Sender,
    encoder: RecordEncoder,
    records: Records,
    /// Partitions of each topic, where the partitioner must know.
    partitions: HashMap<String, i32>,
}

impl KafkaWriter {
    pub fn new(table: Arc<SinkTable>, ctx: WriterContext) -> Result<KafkaWriter> {
        let progress = Arc::new(Progress {
            in_flight: AtomicUsize::new(0),
            failure: Mutex::new(None),
            changed: Notify::new(),
            sent: ctx.metrics.counter("numRecordsSend"),
            sent_bytes: ctx.metrics.counter("numBytesSend"),
            errors: ctx.metrics.counter("numRecordsSendErrors"),
        });
        let bootstrap = table.options.properties.bootstrap.clone();
        let context = Acknowledgements { progress: Arc::clone(&progress), bootstrap: bootstrap.clone() };
        let client = Client::from_config_and_context(&table.config, context);
        let client = client.map_err(|e| table.options.properties.refused(e))?;
        Ok(KafkaWriter {
            encoder: RecordEncoder::new(Arc::clone(&table))?,
            records: Records::default(),
            sender: Sender { client: Arc::new(client), progress, bootstrap },
            partitions: HashMap::new(),
            table,
            ctx,
        })
    }

    /// The partition for a record, if it is not the client's to choose.
    async fn partition(&mut self, topic: &str) -> Result<Option<i32>> {
        if self.table.partitioning != Partitioning::Fixed {
            return Ok(None);
        }
        let count = match self.partitions.get(topic) {
            Some(count) => *count,
            None => {
                let timeout = Duration::from_millis(self.table.options.properties.api_timeout_ms);
                let count = self.sender.count_partitions(topic.to_owned(), timeout).await?;
                self.partitions.insert(topic.to_owned(), count);
                count
            }
        };
        Ok(Some(i32::try_from(self.ctx.subtask).unwrap_or(0) % count.max(1)))
    }
}

#[async_trait]
impl SinkWriter for KafkaWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        self.sender.progress.check()?;
        let (table, mut records) = (Arc::clone(&self.table), std::mem::take(&mut self.records));
        self.encoder.encode(&batch, &mut records)?;
        for index in 0..records.len() {
            let made = records.get(&table, self.ctx.rowtime, &batch.columns, index)?;
            let mut record = BaseRecord::to(made.topic).payload(made.value);
            (record.key, record.timestamp, record.headers) = (made.key, made.timestamp, made.headers);
            record.partition = self.partition(made.topic).await?;
            self.sender.send(record).await?;
        }
        self.records = records;
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        match self.table.waits {
            true => self.sender.wait_for_acknowledgements().await,
            false => self.sender.progress.check(),
        }
    }

    async fn finish(&mut self) -> Result<()> {
        self.sender.wait_for_acknowledgements().await
    }
}
