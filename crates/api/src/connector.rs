//! What a connector implements. Connectors give rows, splits and positions, never watermarks:
//! event time lives once, in the runtime's source operator.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, UInt8Array};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_time::{Clock, Watermark, WatermarkStatus};

use crate::audit::{Auditor, OutputUnit};
use crate::config::Configuration;
use crate::element::Batch;
use crate::error::{Error, Result};
use crate::metrics::MetricGroup;
use crate::types::{LogicalType, Schema};

/// A table as `CREATE TABLE` states it, without computed columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableDescriptor {
    /// `catalog.database.table`.
    pub identifier: String,
    /// `WITH` options, after any `OPTIONS` hint.
    pub options: BTreeMap<String, String>,
    /// Physical columns.
    pub physical: Schema,
    /// Metadata columns.
    pub metadata: Vec<MetadataColumn>,
    /// Physical columns of the primary key.
    pub primary_key: Vec<usize>,
    /// Physical columns of `PARTITIONED BY`.
    pub partition_keys: Vec<usize>,
}

/// A `METADATA` column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataColumn {
    /// Column name.
    pub name: String,
    /// The connector's key: `timestamp`, `file.path`, `value.source.timestamp`.
    pub key: String,
    /// The connector's type for that key.
    pub ty: LogicalType,
    /// `VIRTUAL`: read only, not part of the sink's schema.
    pub is_virtual: bool,
}

/// A column a reader delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadColumn {
    /// Physical column by position.
    Physical(usize),
    /// Metadata column by position in [`TableDescriptor::metadata`], in the connector's type.
    Metadata(usize),
}

/// Makes sources and sinks of one `'connector' = '...'`.
pub trait ConnectorFactory: Send + Sync {
    /// The option value that names it.
    fn identifier(&self) -> &'static str;

    /// Whether scripts may name it; false for what the engine makes tables of by itself.
    fn is_public(&self) -> bool {
        true
    }

    /// Checks every option and makes a source. Opens nothing: planning must not need the network.
    fn source(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Source>> {
        let _ = (table, config);
        Err(Error::invalid(format!(
            "Connector '{}' can only be used as a sink. It cannot be used as a source.",
            self.identifier()
        )))
    }

    /// Checks every option and makes a sink. Opens nothing.
    fn sink(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Sink>> {
        let _ = (table, config);
        Err(Error::invalid(format!(
            "Connector '{}' can only be used as a source. It cannot be used as a sink.",
            self.identifier()
        )))
    }

    /// The metadata keys this table offers, with their types. Called before `source` and `sink`.
    fn metadata_keys(&self, options: &BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        let _ = options;
        Vec::new()
    }
}

/// A source that can be read.
pub trait Source: Send + Sync {
    /// Whether it ends by itself.
    fn is_bounded(&self) -> bool;

    /// Whether rows may be other than `+I` (changelog formats).
    fn is_updating(&self) -> bool {
        false
    }

    /// Finds the splits; runs once per job.
    fn enumerator(&self, ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>>;

    /// Reads splits; runs once per subtask.
    fn reader(&self, columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>>;

    /// `scan.parallelism`, if set.
    fn parallelism(&self) -> Option<usize> {
        None
    }
}

/// Says a line to the user while the job goes on, for trouble that may pass by itself.
#[derive(Clone)]
pub struct Notifier(Arc<dyn Fn(&str) + Send + Sync>);

impl Notifier {
    /// Hands each line to `tell`, which must not block for long.
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Notifier(Arc::new(tell))
    }

    /// Nobody listens.
    pub fn silent() -> Self {
        Notifier::new(|_| {})
    }

    /// Warns of something that is probably not as the user means it.
    pub fn warn(&self, text: &str) {
        (self.0)(text);
    }
}

/// What an enumerator may use.
#[derive(Clone)]
pub struct EnumeratorContext {
    /// Takes what it wants to say; the source's name is put before it.
    pub notices: Notifier,
}

impl EnumeratorContext {
    /// A context nobody listens to.
    pub fn silent() -> Self {
        EnumeratorContext { notices: Notifier::silent() }
    }
}

/// What a reader may use.
#[derive(Clone)]
pub struct ReaderContext {
    /// Subtask index from 0.
    pub subtask: usize,
    /// Number of subtasks.
    pub parallelism: usize,
    /// Rows a batch may have at most.
    pub batch_rows: usize,
    /// The source operator's metrics.
    pub metrics: Arc<MetricGroup>,
}

/// A part of a source that is read in order, with its own watermark: a Kafka partition, a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Stable name, as metrics show it: `clicks1-0`, a file path.
    pub id: String,
    /// Eager splits go to subtask `owner % parallelism`.
    pub owner: u64,
    /// Where to start, where to end, ...: the connector's own data.
    pub state: serde_json::Value,
}

/// How splits reach subtasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitAssignment {
    /// All at once, by [`Split::owner`]; an assigned split holds the watermark from its
    /// assignment, before its first row.
    Eager,
    /// One after the other: a subtask gets the next split when it has finished one.
    OnDemand,
}

/// Finds splits.
#[async_trait]
pub trait SplitEnumerator: Send {
    /// The splits that exist now and were not returned before. The first call waits for the
    /// external system and says clearly if it cannot be reached or the topic or file is missing.
    async fn discover(&mut self) -> Result<Vec<Split>>;

    /// How long to wait before asking again; `None` if the first answer is final.
    fn discovery_interval(&self) -> Option<Duration>;

    /// How splits reach subtasks.
    fn assignment(&self) -> SplitAssignment;

    /// What [`SplitEnumerator::restore`] needs to know to return no split twice.
    fn snapshot(&self) -> Result<serde_json::Value>;

    /// Goes on from a snapshot instead of from nothing; called before the first discovery.
    fn restore(&mut self, state: serde_json::Value) -> Result<()>;
}

/// Rows of one split, in the split's order.
#[derive(Clone, Debug)]
pub struct SourceBatch {
    /// Number of the split: the how-manieth given to [`SourceReader::add_split`], from 0.
    pub split: usize,
    /// The columns asked for.
    pub columns: RecordBatch,
    /// Row kinds, for changelog formats.
    pub kinds: Option<UInt8Array>,
    /// Position of each row: Kafka offset, line number of a file from 1.
    pub positions: Vec<i64>,
}

/// What a reader has to say.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// Rows; at most `batch_rows`, sooner if nothing more could be read at once.
    Rows(SourceBatch),
    /// These splits were just asked and had nothing. Sent at least every 50 ms while it lasts, so
    /// that idleness is noticed; never for a split that was not asked.
    Quiet(Vec<usize>),
    /// The split has been read to its end.
    SplitFinished(usize),
}

/// Reads the splits of one subtask.
#[async_trait]
pub trait SourceReader: Send {
    /// Starts reading another split. Its number is how many were added before.
    fn add_split(&mut self, split: Split) -> Result<()>;

    /// The next event. Cancel-safe: a dropped future loses nothing. With no split to read it waits
    /// for ever. Takes turns among splits so that none starves.
    async fn next(&mut self) -> Result<SourceEvent>;

    /// Where reading stands: each split that is not finished by its number, as it would have to be added to
    /// another reader to go on behind the last row that was returned. Called between two events.
    fn snapshot(&self) -> Result<Vec<(usize, Split)>>;

    /// What [`SourceReader::snapshot`] has just returned is part of this checkpoint.
    fn snapshot_taken(&mut self, checkpoint: u64) {
        let _ = checkpoint;
    }

    /// A checkpoint is complete: the reader may tell the external system how far it has come, for others to see. It
    /// must not block, and nothing that is read may depend on it. Not every checkpoint that was taken is completed,
    /// and a savepoint is not.
    fn snapshot_completed(&mut self, checkpoint: u64) {
        let _ = checkpoint;
    }

    /// Words for a place: `topic clicks, partition 0, offset 12`, `file /a/b.json, line 7`.
    fn locate(&self, split: usize, position: i64) -> String;
}

/// What a sink takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkMode {
    /// Only `+I`.
    Append,
    /// Any row kind, `-U` included.
    Changelog,
    /// `+I`, `+U` and `-D` by primary key; `-U` is not sent.
    Upsert,
}

/// A table that can be written.
pub trait Sink: Send + Sync {
    /// Which changes it takes.
    fn mode(&self) -> SinkMode;

    /// One writer per subtask. Connects lazily or here.
    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>>;

    /// `sink.parallelism`, if set.
    fn parallelism(&self) -> Option<usize> {
        None
    }

    /// What publishes the output that writers stage, one per subtask; `None` if rows are published as they
    /// are written.
    fn committer(&self, ctx: CommitterContext) -> Result<Option<Box<dyn SinkCommitter>>> {
        let _ = ctx;
        Ok(None)
    }

    /// Says for people what a committable of this sink is; `None` if there is nothing to say.
    fn describe(&self, committable: &Committable) -> Option<OutputUnit> {
        let _ = committable;
        None
    }

    /// Asks the external system whether it allows what the table's options want, before a job is started: an error
    /// refuses the job. Gives warnings otherwise. Blocks, for a few seconds at most; a system that cannot be asked is
    /// no reason to refuse.
    fn preflight(&self, config: &Configuration) -> Result<Vec<String>> {
        let _ = config;
        Ok(Vec::new())
    }
}

/// What a committer may use.
#[derive(Clone)]
pub struct CommitterContext {
    /// Subtask index from 0.
    pub subtask: usize,
    /// Number of subtasks.
    pub parallelism: usize,
    /// The sink operator's metrics.
    pub metrics: Arc<MetricGroup>,
    /// Takes what it wants to say while it waits; the sink's name is put before it.
    pub notices: Notifier,
    /// Takes what it finds of each piece of output. One that says nothing is taken to publish what it is given.
    pub audit: Auditor,
}

/// Output that a writer has staged at a barrier: to be published once that checkpoint is complete, and
/// again after every restart until it is known to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Committable {
    /// The sink's own data: names, sequence numbers, counts.
    pub state: serde_json::Value,
    /// Number of rows in it.
    pub rows: u64,
    /// Finished files with its rows, in the folder for staging. The engine makes them part of the checkpoint
    /// and has them at hand, perhaps elsewhere, whenever the committable is given back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
}

/// The second phase of a sink: publishes what writers have staged.
///
/// Publishing twice must be the same as publishing once: after a restart a committable comes again unless
/// its commit has returned and a later checkpoint has been completed.
#[async_trait]
pub trait SinkCommitter: Send {
    /// After a restart and before a row is written: what the checkpoint says is staged, oldest first, of all
    /// subtasks this one took over from. All of it is published, once, when this returns.
    async fn recover(&mut self, pending: Vec<Committable>) -> Result<()>;

    /// The checkpoint they belong to is complete: publishes them, oldest first. An error leaves the outcome
    /// unknown; the job restarts and [`SinkCommitter::recover`]s.
    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()>;
}

/// What a writer may use.
#[derive(Clone)]
pub struct WriterContext {
    /// Subtask index from 0.
    pub subtask: usize,
    /// Number of subtasks.
    pub parallelism: usize,
    /// Input column that is the rowtime, if the query has one.
    pub rowtime: Option<usize>,
    /// The sink operator's metrics.
    pub metrics: Arc<MetricGroup>,
    /// Where rows are staged until their checkpoint is complete or, in a job without checkpoints, until the end of the
    /// input: a folder of this subtask's own, which exists. `None` if there is no folder for temporary files.
    pub staging: Option<PathBuf>,
    /// What the writers of the subtasks this one took over from returned by [`SinkWriter::snapshot`].
    pub restored: Vec<serde_json::Value>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// Writes rows.
#[async_trait]
pub trait SinkWriter: Send {
    /// Takes a batch; may buffer. Errors of earlier writes may surface here.
    async fn write(&mut self, batch: Batch) -> Result<()>;

    /// Hands on what is buffered; called when the input has nothing more at once.
    async fn flush(&mut self) -> Result<()>;

    /// Where event time stands in the input: said before every [`SinkWriter::pre_commit`].
    fn input_watermark(&mut self, watermark: Watermark, status: WatermarkStatus) {
        let _ = (watermark, status);
    }

    /// A barrier: hands over what was written since the last one, to be published when the checkpoint is
    /// complete. A sink that publishes as it writes makes everything durable instead.
    async fn pre_commit(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        let _ = checkpoint;
        self.flush().await?;
        Ok(Vec::new())
    }

    /// What a writer needs to go on after a restart, right after [`SinkWriter::pre_commit`]: an open file,
    /// the next number of a sequence.
    fn snapshot(&self) -> Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }

    /// Everything is durable as far as the sink's guarantee goes. Called once, at the end; what is to be
    /// published is asked for afterwards, by a last [`SinkWriter::pre_commit`].
    async fn finish(&mut self) -> Result<()>;

    /// True if that last [`SinkWriter::pre_commit`] is needed though no row came since the one before it: for
    /// a file that stayed open across barriers. Asked after [`SinkWriter::finish`].
    fn holds_output(&self) -> bool {
        false
    }
}

/// Connector factories by identifier.
#[derive(Clone, Default)]
pub struct ConnectorRegistry {
    factories: BTreeMap<&'static str, Arc<dyn ConnectorFactory>>,
}

impl ConnectorRegistry {
    /// Adds a factory; a second one of the same identifier replaces the first.
    pub fn register(&mut self, factory: Arc<dyn ConnectorFactory>) {
        self.factories.insert(factory.identifier(), factory);
    }

    /// The factory of a table, by its `connector` option.
    pub fn factory(&self, table: &TableDescriptor) -> Result<&Arc<dyn ConnectorFactory>> {
        let Some(name) = table.options.get("connector") else {
            return Err(Error::invalid(format!(
                "Table options of '{}' do not contain an option key 'connector' for discovering a connector.",
                table.identifier
            )));
        };
        self.factories.get(name.as_str()).ok_or_else(|| {
            let public = self.factories.iter().filter(|(_, factory)| factory.is_public());
            let known: Vec<&str> = public.map(|(name, _)| *name).collect();
            Error::invalid(format!(
                "Cannot discover a connector using option: 'connector'='{name}'. Could not find any factory for \
                 identifier '{name}'. Available factory identifiers are: {}",
                known.join(", ")
            ))
        })
    }
}
