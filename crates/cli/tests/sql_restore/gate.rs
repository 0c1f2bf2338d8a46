//! Sources that hand out as much as a test allows, so that a job can be stopped at an exact place.
//!
//! What counts is an *event*: one read of the reader behind (a row, if batches are of one row) or the end of a
//! split. A reader that may not go on waits, as one that has nothing to read does; the engine around it is as in
//! earnest.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_api::Result;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    ConnectorFactory, EnumeratorContext, ReadColumn, ReaderContext, Sink, Source, SourceEvent, SourceReader, Split,
    SplitEnumerator, TableDescriptor,
};
use tidegate_api::types::LogicalType;
use tokio::sync::{Semaphore, watch};

/// Counts what the sources of a job hand out, and stops them.
pub struct Gate {
    permits: Semaphore,
    handed: watch::Sender<u64>,
}

impl Gate {
    /// A gate that lets so many events through, or all.
    pub fn new(events: Option<u64>) -> Arc<Gate> {
        let permits = events.map_or(Semaphore::MAX_PERMITS, |n| usize::try_from(n).expect("few events"));
        Arc::new(Gate { permits: Semaphore::new(permits), handed: watch::Sender::new(0) })
    }

    /// Events so far.
    pub fn handed(&self) -> u64 {
        *self.handed.borrow()
    }

    /// Waits until so many events were handed out.
    pub async fn reached(&self, events: u64) {
        let mut handed = self.handed.subscribe();
        handed.wait_for(|handed| *handed >= events).await.expect("the gate is here");
    }
}

/// The gate of the job that runs; another one for each job.
#[derive(Clone)]
pub struct Gates(Arc<Mutex<Arc<Gate>>>);

impl Gates {
    /// Open ones.
    pub fn new() -> Gates {
        Gates(Arc::new(Mutex::new(Gate::new(None))))
    }

    /// Sources made from now on stand behind this gate.
    pub fn set(&self, gate: &Arc<Gate>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = gate.clone();
    }

    /// Puts a source behind the gate.
    pub fn wrap(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        let gate = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Arc::new(GatedSource { source, gate })
    }
}

/// A connector whose sources stand behind the gate.
pub struct GatedFactory {
    pub factory: Arc<dyn ConnectorFactory>,
    pub gates: Gates,
}

impl ConnectorFactory for GatedFactory {
    fn identifier(&self) -> &'static str {
        self.factory.identifier()
    }

    fn source(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Source>> {
        Ok(self.gates.wrap(self.factory.source(table, config)?))
    }

    fn sink(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Sink>> {
        self.factory.sink(table, config)
    }

    fn metadata_keys(&self, options: &std::collections::BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        self.factory.metadata_keys(options)
    }
}

struct GatedSource {
    source: Arc<dyn Source>,
    gate: Arc<Gate>,
}

impl Source for GatedSource {
    fn is_bounded(&self) -> bool {
        self.source.is_bounded()
    }

    fn is_updating(&self) -> bool {
        self.source.is_updating()
    }

    fn enumerator(&self, ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        self.source.enumerator(ctx)
    }

    fn reader(&self, columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        let reader = self.source.reader(columns, ctx)?;
        Ok(Box::new(GatedReader { reader, gate: self.gate.clone(), permit: false, open: 0 }))
    }

    fn parallelism(&self) -> Option<usize> {
        self.source.parallelism()
    }
}

struct GatedReader {
    reader: Box<dyn SourceReader>,
    gate: Arc<Gate>,
    /// It may read once.
    permit: bool,
    /// Splits that have not ended. A reader without any must not take what others are waiting for.
    open: usize,
}

#[async_trait]
impl SourceReader for GatedReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.open += 1;
        self.reader.add_split(split)
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        if self.open == 0 {
            return std::future::pending().await;
        }
        if !self.permit {
            self.gate.permits.acquire().await.expect("nobody closes it").forget();
            self.permit = true;
        }
        let event = self.reader.next().await?;
        if !matches!(event, SourceEvent::Quiet(_)) {
            self.permit = false;
            self.gate.handed.send_modify(|handed| *handed += 1);
        }
        self.open -= usize::from(matches!(event, SourceEvent::SplitFinished(_)));
        Ok(event)
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        self.reader.snapshot()
    }

    fn snapshot_taken(&mut self, checkpoint: u64) {
        self.reader.snapshot_taken(checkpoint);
    }

    fn snapshot_completed(&mut self, checkpoint: u64) {
        self.reader.snapshot_completed(checkpoint);
    }

    fn locate(&self, split: usize, position: i64) -> String {
        self.reader.locate(split, position)
    }
}
