//! The source: a table's options, checked, and the clients made of them.

use std::sync::Arc;

use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use tidegate_api::connector::{
    EnumeratorContext, MetadataColumn, ReadColumn, ReaderContext, Source, SourceReader, SplitEnumerator,
    TableDescriptor,
};
use tidegate_api::{Error, Result, Schema};
use tokio::sync::Notify;

use super::client::{Consumer, Health};
use super::enumerator::KafkaEnumerator;
use super::options::{KafkaOptions, OffsetReset, Topics};
use super::reader::KafkaReader;
use super::rows::RowBuilder;
use crate::format::{DecodingFormat, decoding_format};
use crate::option::OptionReader;

/// What the enumerator and all readers of a table share.
pub(super) struct SourceTable {
    pub options: KafkaOptions,
    pub topics: Topics,
    pub group: String,
    pub physical: Schema,
    pub metadata: Vec<MetadataColumn>,
    pub value_schema: Schema,
    pub value_format: Arc<dyn DecodingFormat>,
    pub key_format: Option<Arc<dyn DecodingFormat>>,
    config: ClientConfig,
}

impl SourceTable {
    /// A consumer for questions, not for reading.
    pub fn asking_consumer(&self) -> Result<Consumer> {
        let mut config = self.config.clone();
        config.set("statistics.interval.ms", "0");
        self.consumer(&config)
    }

    /// A consumer that also tells `wake` of its events.
    pub fn waking_consumer(&self, wake: &Arc<Notify>) -> Result<Consumer> {
        let mut consumer = self.consumer(&self.config)?;
        let wake = Arc::clone(wake);
        consumer.set_nonempty_callback(move || wake.notify_one());
        Ok(consumer)
    }

    fn consumer(&self, config: &ClientConfig) -> Result<Consumer> {
        Consumer::from_config_and_context(config, Health::default()).map_err(|e| self.options.properties.refused(e))
    }
}

/// Reads topics.
pub(super) struct KafkaSource {
    table: Arc<SourceTable>,
}

impl KafkaSource {
    /// Checks the table's options.
    pub fn new(table: &TableDescriptor) -> Result<KafkaSource> {
        let mut reader = OptionReader::new("kafka", table);
        let mut options = KafkaOptions::read(&mut reader, table)?;
        let value_format = decoding_format(&mut reader, options.value_format_key)?;
        let key_format = match options.key {
            Some(_) => Some(decoding_format(&mut reader, "key.format")?),
            None => None,
        };
        reader.finish()?;
        let topics =
            options.topics.clone().ok_or_else(|| Error::invalid("Either 'topic' or 'topic-pattern' must be set."))?;
        let columns = options.value_columns.iter().map(|c| table.physical.fields[*c].clone());
        let value_schema = Schema::new(columns.collect());
        value_format.check(&value_schema)?;
        if let (Some(format), Some(key)) = (&key_format, &options.key) {
            format.check(&key.schema)?;
        }
        if !table.primary_key.is_empty() && !value_format.is_updating() {
            return Err(Error::invalid(format!(
                "The Kafka table '{}' with '{}' format doesn't support defining PRIMARY KEY constraint on the table, \
                 because it can't guarantee the semantic of primary key.",
                table.identifier,
                value_format.identifier()
            )));
        }
        super::metadata::check(&table.metadata)?;
        let (group, config) = consumer_config(&mut options, &table.identifier)?;
        let (physical, metadata) = (table.physical.clone(), table.metadata.clone());
        let table =
            SourceTable { options, topics, group, physical, metadata, value_schema, value_format, key_format, config };
        Ok(KafkaSource { table: Arc::new(table) })
    }
}

/// Completes the client's settings; also says which group they name.
fn consumer_config(options: &mut KafkaOptions, identifier: &str) -> Result<(String, ClientConfig)> {
    // Start offsets are resolved before the first fetch, so an offset out of range means that records were
    // deleted before they were read. Unless the user has said where to go on, that is no reason to skip them.
    let reset = match options.reset {
        OffsetReset::Earliest => "earliest",
        OffsetReset::Latest => "latest",
        OffsetReset::None => "error",
    };
    let properties = &mut options.properties;
    // Positions are ours alone; the end of a partition is how we know that it was asked.
    properties.force("enable.auto.commit", "false");
    properties.force("enable.auto.offset.store", "false");
    properties.force("enable.partition.eof", "true");
    properties.force("auto.offset.reset", reset);
    properties.force("allow.auto.create.topics", "false");
    properties.default("group.id", &format!("KafkaSource-{identifier}"));
    properties.default("statistics.interval.ms", "1000");
    // A full local queue is looked at again soon: the default of a second starves a fast job.
    properties.default("fetch.queue.backoff.ms", "20");
    if options.end.is_some() {
        // The end of the last partition is noticed only when this is over.
        properties.default("fetch.wait.max.ms", "50");
    }
    let group = properties.client.get("group.id").cloned().unwrap_or_default();
    Ok((group, properties.config()?))
}

impl Source for KafkaSource {
    fn is_bounded(&self) -> bool {
        self.table.options.end.is_some()
    }

    fn is_updating(&self) -> bool {
        self.table.value_format.is_updating()
    }

    fn enumerator(&self, ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(KafkaEnumerator::new(Arc::clone(&self.table), ctx.notices)))
    }

    fn reader(&self, columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        let rows = RowBuilder::new(&self.table, columns, &ctx.metrics)?;
        Ok(Box::new(KafkaReader::new(Arc::clone(&self.table), rows, ctx)))
    }

    fn parallelism(&self) -> Option<usize> {
        self.table.options.source_parallelism
    }
}
