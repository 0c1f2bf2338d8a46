//! A `print` that a test can hold up, and that knows how much of its output belongs to a checkpoint.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    Committable, ConnectorFactory, Sink, SinkMode, SinkWriter, TableDescriptor, WriterContext,
};
use tidegate_api::{Batch, Result};
use tokio::sync::Semaphore;

/// What sinks may write, and what they have written.
#[derive(Default)]
pub struct SinkGate {
    /// If set, each batch takes a permit.
    pub permits: Mutex<Option<Arc<Semaphore>>>,
    /// For each checkpoint and subtask, how many rows had been written before it.
    pub marks: Mutex<BTreeMap<(u64, usize), usize>>,
}

impl SinkGate {
    fn mark(&self, checkpoint: u64, subtask: usize, rows: usize) {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).insert((checkpoint, subtask), rows);
    }
}

/// A connector whose sinks stand behind the gate.
pub struct CountingFactory {
    pub factory: Arc<dyn ConnectorFactory>,
    pub gate: Arc<SinkGate>,
}

impl ConnectorFactory for CountingFactory {
    fn identifier(&self) -> &'static str {
        self.factory.identifier()
    }

    fn sink(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(CountingSink { sink: self.factory.sink(table, config)?, gate: self.gate.clone() }))
    }
}

struct CountingSink {
    sink: Arc<dyn Sink>,
    gate: Arc<SinkGate>,
}

impl Sink for CountingSink {
    fn mode(&self) -> SinkMode {
        self.sink.mode()
    }

    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        let permits = self.gate.permits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let subtask = ctx.subtask;
        let writer = self.sink.writer(ctx)?;
        Ok(Box::new(CountingWriter { writer, gate: self.gate.clone(), permits, subtask, rows: 0 }))
    }

    fn parallelism(&self) -> Option<usize> {
        self.sink.parallelism()
    }
}

struct CountingWriter {
    writer: Box<dyn SinkWriter>,
    gate: Arc<SinkGate>,
    permits: Option<Arc<Semaphore>>,
    subtask: usize,
    rows: usize,
}

#[async_trait]
impl SinkWriter for CountingWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        if let Some(permits) = &self.permits {
            permits.acquire().await.expect("nobody closes it").forget();
        }
        self.rows += batch.num_rows();
        self.writer.write(batch).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.writer.flush().await
    }

    async fn pre_commit(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        self.gate.mark(checkpoint, self.subtask, self.rows);
        self.writer.pre_commit(checkpoint).await
    }

    async fn finish(&mut self) -> Result<()> {
        self.writer.finish().await
    }
}
