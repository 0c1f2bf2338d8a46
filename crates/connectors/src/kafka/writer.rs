//! Writes rows as records and keeps count of those not yet acknowledged.
//!
//! The client's thread serves acknowledgements; each wakes the writer. A full send queue makes the
//! writer wait for one, so memory is bounded by the client's buffer.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType};
use async_trait::async_trait;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tidegate_api::connector::{SinkWriter, WriterContext};
use tidegate_api::metrics::Counter;
use tidegate_api::{Batch, Error, Result};
use tokio::sync::Notify;

use super::options::{Partitioning, Topics};
use super::sink::{HeaderColumn, SinkTable, Target};
use crate::format::Encoder;

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
    value: Box<dyn Encoder>,
    key: Option<Box<dyn Encoder>>,
    /// Partitions of each topic, where the partitioner must know.
    partitions: HashMap<String, i32>,
    encoded: Encoded,
}

/// The bytes of a batch.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    /// Row and bytes of each value.
    values: Vec<(usize, Range<usize>)>,
    /// Bytes of each row's key.
    keys: Vec<Option<Range<usize>>>,
}

impl Encoded {
    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
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
        let key = match (&table.key_format, &table.options.key) {
            (Some(format), Some(key)) => Some(format.encoder(&key.schema)?),
            _ => None,
        };
        Ok(KafkaWriter {
            value: table.value_format.encoder(&table.value_schema)?,
            key,
            sender: Sender { client: Arc::new(client), progress, bootstrap },
            partitions: HashMap::new(),
            encoded: Encoded::default(),
            table,
            ctx,
        })
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        let rows = batch.num_rows();
        let encoded = &mut self.encoded;
        encoded.bytes.clear();
        encoded.values.clear();
        encoded.keys.clear();
        encoded.keys.resize(rows, None);
        if let (Some(encoder), Some(key)) = (&mut self.key, &self.table.options.key) {
            // A key has no row kind.
            let keys = Batch::inserts(batch.columns.project(&key.columns)?);
            encoder.encode(&keys, 0..rows, &mut |row, bytes| {
                let range = encoded.push(bytes);
                encoded.keys[row] = Some(range);
                Ok(())
            })?;
        }
        let columns = batch.columns.project(&self.table.value_columns)?;
        let values = Batch { columns, kinds: batch.kinds.clone() };
        self.value.encode(&values, 0..rows, &mut |row, bytes| {
            let range = encoded.push(bytes);
            encoded.values.push((row, range));
            Ok(())
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
        self.encode(&batch)?;
        let table = Arc::clone(&self.table);
        let encoded = std::mem::take(&mut self.encoded);
        for (row, value) in &encoded.values {
            let topic = topic_of(&table.target, &batch.columns, *row)?;
            let mut record = BaseRecord::to(topic).payload(&encoded.bytes[value.clone()]);
            record.key = encoded.keys[*row].clone().map(|key| &encoded.bytes[key]);
            record.timestamp = timestamp_of(&table, self.ctx.rowtime, &batch.columns, *row)?;
            record.headers = table.headers.map_or(Ok(None), |column| headers_of(column, &batch.columns, *row))?;
            record.partition = self.partition(topic).await?;
            self.sender.send(record).await?;
        }
        self.encoded = encoded;
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

fn topic_of<'b>(target: &'b Target, columns: &'b RecordBatch, row: usize) -> Result<&'b str> {
    match target {
        Target::Topic(topic) => Ok(topic),
        Target::Column { column, allowed } => {
            let names = columns.column(*column).as_string_opt::<i32>().ok_or_else(|| wrong_type("topic"))?;
            if names.is_null(row) {
                return Err(Error::job("The metadata column 'topic' is NULL, so a record has no topic to go to."));
            }
            let name = names.value(row);
            let fits = match allowed {
                Topics::List(list) => list.iter().any(|t| t == name),
                Topics::Pattern(pattern) => pattern.is_match(name),
            };
            match fits {
                true => Ok(name),
                false => Err(Error::job(format!(
                    "The topic '{name}' of the current record is not one of the table's 'topic' or 'topic-pattern'."
                ))),
            }
        }
    }
}

/// The record's time: the `timestamp` metadata, else the query's rowtime, else Kafka's own.
fn timestamp_of(table: &SinkTable, rowtime: Option<usize>, columns: &RecordBatch, row: usize) -> Result<Option<i64>> {
    let Some(column) = table.timestamp.or(rowtime) else { return Ok(None) };
    let array = columns.column(column);
    if array.is_null(row) {
        return Ok(None);
    }
    let millis = match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => array.as_primitive::<TimestampMillisecondType>().value(row),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1000)
        }
        DataType::Decimal128(..) => {
            let millis = array.as_primitive::<Decimal128Type>().value(row).div_euclid(1_000_000);
            i64::try_from(millis).map_err(|_| Error::job("A record's time is beyond Kafka's range."))?
        }
        _ => return Err(wrong_type("timestamp")),
    };
    // Kafka has no times before 1970, and the client takes 0 for "now".
    match millis > 0 {
        true => Ok(Some(millis)),
        false => Err(Error::job(format!(
            "A record's time is {millis} ms since 1970-01-01; Kafka stores only later times in a record."
        ))),
    }
}

fn headers_of(column: HeaderColumn, columns: &RecordBatch, row: usize) -> Result<Option<OwnedHeaders>> {
    let index = match column {
        HeaderColumn::Map(index) | HeaderColumn::List(index) => index,
    };
    let array = columns.column(index);
    if array.is_null(row) {
        return Ok(None);
    }
    let entries = match column {
        HeaderColumn::Map(_) => array.as_map_opt().map(|map| map.value(row)),
        HeaderColumn::List(_) => array.as_list_opt::<i32>().and_then(|list| list.value(row).as_struct_opt().cloned()),
    };
    let entries = entries.filter(|e| e.num_columns() == 2).ok_or_else(|| wrong_type("headers"))?;
    let names = entries.column(0).as_string_opt::<i32>().ok_or_else(|| wrong_type("headers"))?;
    let values = entries.column(1).as_binary_opt::<i32>().ok_or_else(|| wrong_type("headers"))?;
    let mut headers = OwnedHeaders::new_with_capacity(entries.len());
    for i in 0..entries.len() {
        // As in Flink, a header without a name is left out.
        if entries.is_valid(i) && names.is_valid(i) {
            let value = values.is_valid(i).then(|| values.value(i));
            headers = headers.insert(Header { key: names.value(i), value });
        }
    }
    Ok(Some(headers))
}

fn wrong_type(name: &str) -> Error {
    Error::internal(format!("the metadata column '{name}' of a Kafka sink has another type than declared"))
}
