//! A Kafka table read and written as the runtime does it, without SQL.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    ConnectorFactory, EnumeratorContext, MetadataColumn, ReadColumn, ReaderContext, SinkWriter, Source, SourceEvent,
    SourceReader, SplitEnumerator, TableDescriptor, WriterContext,
};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, Field, LogicalType, Result, Schema, TypeKind};
use tidegate_connectors::kafka::KafkaFactory;
use tidegate_connectors::row_text::format_row;
use tidegate_time::SystemClock;

/// How long a test waits for what must come.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A table over columns `id INT, name STRING`.
pub fn table(bootstrap: &str, topic: &str, options: &[(&str, &str)]) -> TableDescriptor {
    let mut table = TableDescriptor {
        identifier: "default_catalog.default_database.t".to_owned(),
        physical: Schema::new(vec![
            Field::new("id", LogicalType::new(TypeKind::Int)),
            Field::new("name", LogicalType::string()),
        ]),
        ..TableDescriptor::default()
    };
    let common = [
        ("connector", "kafka"),
        ("topic", topic),
        ("properties.bootstrap.servers", bootstrap),
        ("scan.startup.mode", "earliest-offset"),
        ("format", "json"),
    ];
    for (key, value) in common.iter().chain(options) {
        match *value {
            "" => table.options.remove(*key),
            value => table.options.insert((*key).to_owned(), value.to_owned()),
        };
    }
    table
}

/// Adds a metadata column named as its key.
pub fn with_metadata(mut table: TableDescriptor, keys: &[&str]) -> TableDescriptor {
    let known = KafkaFactory.metadata_keys(&table.options);
    for key in keys {
        let (_, ty) = known.iter().find(|(name, _)| name == key).expect("a known key").clone();
        table.metadata.push(MetadataColumn { name: (*key).to_owned(), key: (*key).to_owned(), ty, is_virtual: true });
    }
    table
}

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub split: String,
    pub offset: i64,
    pub text: String,
}

/// One subtask of a source.
pub struct Reading {
    pub enumerator: Box<dyn SplitEnumerator>,
    pub reader: Box<dyn SourceReader>,
    pub splits: Vec<String>,
    pub finished: BTreeSet<String>,
    pub rows: Vec<Row>,
    pub metrics: Arc<MetricGroup>,
    schema: Schema,
}

impl Reading {
    /// Finds splits and gives all of them to one reader.
    pub async fn start(table: &TableDescriptor) -> Result<Reading> {
        let source = KafkaFactory.source(table, &Configuration::default())?;
        let mut reading = Reading::open(table, source.as_ref())?;
        reading.discover().await?;
        Ok(reading)
    }

    fn open(table: &TableDescriptor, source: &dyn Source) -> Result<Reading> {
        let physical = (0..table.physical.len()).map(ReadColumn::Physical);
        let metadata = (0..table.metadata.len()).map(ReadColumn::Metadata);
        let columns: Vec<ReadColumn> = physical.chain(metadata).collect();
        let mut schema = table.physical.clone();
        schema.fields.extend(table.metadata.iter().map(|m| Field::new(&m.name, m.ty.clone())));
        let metrics = Arc::new(MetricGroup::default());
        let ctx = ReaderContext { subtask: 0, parallelism: 1, batch_rows: 8192, metrics: Arc::clone(&metrics) };
        Ok(Reading {
            enumerator: source.enumerator(EnumeratorContext::silent())?,
            reader: source.reader(&columns, ctx)?,
            splits: Vec::new(),
            finished: BTreeSet::new(),
            rows: Vec::new(),
            metrics,
            schema,
        })
    }

    /// Adds the splits that are new.
    pub async fn discover(&mut self) -> Result<usize> {
        let found = self.enumerator.discover().await?;
        let count = found.len();
        for split in found {
            self.splits.push(split.id.clone());
            self.reader.add_split(split)?;
        }
        Ok(count)
    }

    /// Takes one event.
    pub async fn step(&mut self) -> Result<SourceEvent> {
        let event = self.reader.next().await?;
        match &event {
            SourceEvent::Rows(batch) => {
                let rows = Batch { columns: batch.columns.clone(), kinds: batch.kinds.clone() };
                for (row, offset) in batch.positions.iter().enumerate() {
                    let text = format_row(&rows, &self.schema, row)?;
                    self.rows.push(Row { split: self.splits[batch.split].clone(), offset: *offset, text });
                }
            }
            SourceEvent::Quiet(_) => {}
            SourceEvent::SplitFinished(split) => {
                self.finished.insert(self.splits[*split].clone());
            }
        }
        Ok(event)
    }

    /// Reads until there are `count` rows and returns their texts, sorted by split and offset.
    pub async fn take(&mut self, count: usize) -> Result<Vec<String>> {
        self.until(|r| r.rows.len() >= count).await?;
        Ok(self.texts())
    }

    /// Reads to the end of all splits and returns the rows' texts.
    pub async fn read_to_end(&mut self) -> Result<Vec<String>> {
        self.until(|r| r.finished.len() == r.splits.len()).await?;
        Ok(self.texts())
    }

    /// Reads until all splits are quiet.
    pub async fn until_quiet(&mut self) -> Result<()> {
        let mut quiet = BTreeSet::new();
        let all = self.splits.len();
        self.until_event(|_, event| {
            if let Some(SourceEvent::Quiet(splits)) = event {
                quiet.extend(splits.iter().copied());
            }
            quiet.len() == all
        })
        .await
    }

    async fn until(&mut self, done: impl Fn(&Reading) -> bool) -> Result<()> {
        self.until_event(|reading, _| done(reading)).await
    }

    async fn until_event(&mut self, mut done: impl FnMut(&Reading, Option<&SourceEvent>) -> bool) -> Result<()> {
        let mut event = None;
        let work = async {
            while !done(self, event.as_ref()) {
                event = Some(self.step().await?);
            }
            Ok(())
        };
        let result = tokio::time::timeout(LIMIT, work).await;
        result.unwrap_or_else(|_| panic!("nothing more came; rows so far: {:#?}", self.rows))
    }

    /// The rows' texts, sorted by split and offset.
    pub fn texts(&self) -> Vec<String> {
        let mut rows = self.rows.clone();
        rows.sort();
        rows.into_iter().map(|row| row.text).collect()
    }

    /// A metric's value.
    pub fn metric(&self, name: &str) -> i64 {
        self.metrics.snapshot().iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no metric {name}")).1
    }
}

/// Reads a bounded table to its end.
pub async fn read_all(table: &TableDescriptor) -> Result<Vec<String>> {
    Reading::start(table).await?.read_to_end().await
}

/// A writer of a table.
pub fn writer(table: &TableDescriptor, subtask: usize, rowtime: Option<usize>) -> Result<Box<dyn SinkWriter>> {
    let sink = KafkaFactory.sink(table, &Configuration::default())?;
    let metrics = Arc::new(MetricGroup::default());
    let (restored, clock) = (Vec::new(), Arc::new(SystemClock::new()));
    sink.writer(WriterContext { subtask, parallelism: 4, rowtime, metrics, staging: None, restored, clock })
}

/// The text of an error, which must be one.
pub fn error_of<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}
