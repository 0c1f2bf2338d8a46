//! `'connector' = 'kafka'`.
//!
//! A topic's partition is a split: read in order from an offset that the enumerator fixed when the
//! job started, with a watermark of its own. Partitions are assigned, never subscribed to; the group
//! only names where committed offsets are kept. What is read when is decided here; the waiting,
//! retrying and decompressing is librdkafka's.
//!
//! Unlike Flink's client, which reads uncommitted records unless told otherwise, a table reads
//! committed ones: set `properties.isolation.level` to change that.

mod client;
mod commits;
mod consume;
mod enumerator;
mod exactly_once;
mod metadata;
mod offsets;
mod options;
mod produce;
mod properties;
mod reader;
mod records;
mod rows;
mod sink;
mod source;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, Source, TableDescriptor};
use tidegate_api::{Error, LogicalType, Result};

pub use produce::{Producer, Record};

/// Makes Kafka sources and sinks.
#[derive(Clone, Copy, Debug, Default)]
pub struct KafkaFactory;

impl ConnectorFactory for KafkaFactory {
    fn identifier(&self) -> &'static str {
        "kafka"
    }

    fn source(&self, table: &TableDescriptor, _config: &Configuration) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(source::KafkaSource::new(table)?))
    }

    fn sink(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(sink::KafkaSink::new(table, config)?))
    }

    fn metadata_keys(&self, _options: &BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        metadata::keys()
    }
}

/// `'connector' = 'upsert-kafka'`: known, so that the refusal says more than "no such connector".
#[derive(Clone, Copy, Debug, Default)]
pub struct UpsertKafkaFactory;

impl UpsertKafkaFactory {
    fn refuse<T>() -> Result<T> {
        Err(Error::unsupported("Connector 'upsert-kafka' is not supported yet; 'kafka' is, for append-only tables."))
    }
}

impl ConnectorFactory for UpsertKafkaFactory {
    fn identifier(&self) -> &'static str {
        "upsert-kafka"
    }

    fn source(&self, _table: &TableDescriptor, _config: &Configuration) -> Result<Arc<dyn Source>> {
        Self::refuse()
    }

    fn sink(&self, _table: &TableDescriptor, _config: &Configuration) -> Result<Arc<dyn Sink>> {
        Self::refuse()
    }

    fn metadata_keys(&self, _options: &BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        metadata::keys()
    }
}
