//! The sink: options, checked, and what goes where in a record.

use std::sync::Arc;

use rdkafka::config::ClientConfig;
use tidegate_api::audit::OutputUnit;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    Committable, CommitterContext, Sink, SinkCommitter, SinkMode, SinkWriter, TableDescriptor, WriterContext,
};
use tidegate_api::{Error, Result, Schema};

use super::exactly_once::ExactlyOnce;
use super::metadata::Key;
use super::options::{Guarantee, KafkaOptions, Partitioning, Topics};
use super::writer::KafkaWriter;
use crate::format::{EncodingFormat, encoding_format};
use crate::option::OptionReader;

/// What all writers of a table share.
pub(super) struct SinkTable {
    pub options: KafkaOptions,
    pub target: Target,
    /// Input columns of the value and its schema.
    pub value_columns: Vec<usize>,
    pub value_schema: Schema,
    pub value_format: Arc<dyn EncodingFormat>,
    pub key_format: Option<Arc<dyn EncodingFormat>>,
    pub headers: Option<HeaderColumn>,
    /// Input column of the writable `timestamp` metadata.
    pub timestamp: Option<usize>,
    /// `sink.delivery-guarantee` is `at-least-once`, so a flush waits.
    pub waits: bool,
    pub partitioning: Partitioning,
    pub config: ClientConfig,
}

/// Where records go.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// All to this topic.
    Topic(String),
    /// Each to the topic its column names, which must be one of `allowed`.
    Column { column: usize, allowed: Topics },
}

/// The input column with headers.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeaderColumn {
    /// `headers`: a map.
    Map(usize),
    /// `header-list`: an array of rows.
    List(usize),
}

/// Writes topics.
pub(super) struct KafkaSink {
    table: Arc<SinkTable>,
    exactly_once: Option<ExactlyOnce>,
}

impl KafkaSink {
    /// Checks the table's options.
    pub fn new(table: &TableDescriptor, config: &Configuration) -> Result<KafkaSink> {
        let mut reader = OptionReader::new("kafka", table);
        let mut options = KafkaOptions::read(&mut reader, table)?;
        let value_format = encoding_format(&mut reader, options.value_format_key)?;
        let key_format = match options.key {
            Some(_) => Some(encoding_format(&mut reader, "key.format")?),
            None => None,
        };
        reader.finish()?;
        if !table.primary_key.is_empty() && !value_format.takes_changes() {
            return Err(Error::invalid(format!(
                "The Kafka table '{}' with '{}' format doesn't support defining PRIMARY KEY constraint on the table, \
                 because it can't guarantee the semantic of primary key.",
                table.identifier,
                value_format.identifier()
            )));
        }
        let columns = MetadataInput::of(table)?;
        let fields = options.value_columns.iter().map(|c| table.physical.fields[*c].clone());
        let value_schema = Schema::new(fields.collect());
        // Types the formats cannot write are refused here and not at the first row.
        value_format.encoder(&value_schema)?;
        if let (Some(format), Some(key)) = (&key_format, &options.key) {
            format.encoder(&key.schema)?;
        }
        let target = target(options.topics.as_ref(), columns.topic)?;
        let producer = producer_config(&mut options)?;
        let table = SinkTable {
            target,
            value_columns: options.value_columns.clone(),
            value_schema,
            value_format,
            key_format,
            headers: columns.headers,
            timestamp: columns.timestamp,
            waits: options.guarantee == Guarantee::AtLeastOnce,
            partitioning: options.partitioning,
            config: producer,
            options,
        };
        let table = Arc::new(table);
        Ok(KafkaSink { exactly_once: ExactlyOnce::of(&table, config)?, table })
    }
}

/// Input columns that are written as metadata.
#[derive(Default)]
struct MetadataInput {
    topic: Option<usize>,
    headers: Option<HeaderColumn>,
    timestamp: Option<usize>,
}

impl MetadataInput {
    fn of(table: &TableDescriptor) -> Result<MetadataInput> {
        let mut found = MetadataInput::default();
        let persisted = table.metadata.iter().filter(|column| !column.is_virtual);
        for (column, input) in persisted.zip(table.physical.len()..) {
            let key = Key::named(&column.key)?;
            if !key.is_writable() {
                return Err(Error::invalid(format!(
                    "Metadata column '{}' of table '{}': metadata '{}' of a Kafka record cannot be written. Declare \
                     the column as VIRTUAL.",
                    column.name, table.identifier, column.key
                )));
            }
            match key {
                Key::Topic => found.topic = Some(input),
                Key::Timestamp => found.timestamp = Some(input),
                _ if found.headers.is_some() => {
                    return Err(Error::invalid("Only one of the metadata 'headers' and 'header-list' can be written."));
                }
                Key::Headers => found.headers = Some(HeaderColumn::Map(input)),
                _ => found.headers = Some(HeaderColumn::List(input)),
            }
        }
        Ok(found)
    }
}

fn target(topics: Option<&Topics>, column: Option<usize>) -> Result<Target> {
    match (topics, column) {
        (Some(Topics::List(names)), None) if names.len() == 1 => Ok(Target::Topic(names[0].clone())),
        (Some(allowed), Some(column)) => Ok(Target::Column { column, allowed: allowed.clone() }),
        (None, Some(column)) => {
            let any = regex::Regex::new("").map_err(|e| Error::internal(e.to_string()))?;
            Ok(Target::Column { column, allowed: Topics::Pattern(any) })
        }
        (None, None) => Err(Error::invalid("Either 'topic' or a writable metadata column 'topic' must be set.")),
        (Some(Topics::List(names)), None) => Err(Error::invalid(format!(
            "Flink Kafka sink currently only supports single topic, but got 'topic': '{}'. Declare the metadata \
             column 'topic' to choose one for each row.",
            names.join(";")
        ))),
        (Some(Topics::Pattern(_)), None) => Err(Error::invalid(
            "Flink Kafka sink currently doesn't support 'topic-pattern' without the metadata column 'topic'.",
        )),
    }
}

/// Completes the client's settings with what Java's client does by default.
fn producer_config(options: &mut KafkaOptions) -> Result<ClientConfig> {
    let properties = &mut options.properties;
    let one = |properties: &super::properties::Properties, key: &str| properties.client.get(key).cloned();
    let weak_acks = one(properties, "acks").is_some_and(|acks| acks != "all" && acks != "-1");
    let in_flight = one(properties, "max.in.flight.requests.per.connection").and_then(|n| n.parse::<u32>().ok());
    if !weak_acks && in_flight.is_none_or(|n| n <= 5) {
        // Keeps the order of records through retries.
        properties.default("enable.idempotence", "true");
    }
    properties.default("partitioner", "murmur2_random");
    properties.default("queue.buffering.max.kbytes", "65536");
    properties.config()
}

impl Sink for KafkaSink {
    fn mode(&self) -> SinkMode {
        match self.table.value_format.takes_changes() {
            true => SinkMode::Changelog,
            false => SinkMode::Append,
        }
    }

    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        match &self.exactly_once {
            Some(exactly_once) => exactly_once.writer(ctx),
            None => Ok(Box::new(KafkaWriter::new(Arc::clone(&self.table), ctx)?)),
        }
    }

    fn committer(&self, ctx: CommitterContext) -> Result<Option<Box<dyn SinkCommitter>>> {
        Ok(self.exactly_once.as_ref().map(|exactly_once| exactly_once.committer(ctx)))
    }

    fn parallelism(&self) -> Option<usize> {
        self.table.options.sink_parallelism
    }

    fn describe(&self, committable: &Committable) -> Option<OutputUnit> {
        self.exactly_once.as_ref()?.describe(committable)
    }

    fn preflight(&self, config: &Configuration) -> Result<Vec<String>> {
        self.exactly_once.as_ref().map_or(Ok(Vec::new()), |exactly_once| exactly_once.preflight(config))
    }
}
