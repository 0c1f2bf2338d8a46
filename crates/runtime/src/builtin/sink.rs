//! The sink: constraints are enforced here, then rows go to the connector's writer.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use tidegate_api::connector::{Sink, SinkMode, SinkWriter, WriterContext};
use tidegate_api::graph::SinkSpec;
use tidegate_api::metrics::Counter;
use tidegate_api::{Batch, Error, Result, RowKind};

use super::calc::keep_rows;

/// Writes to one table from one subtask.
pub(crate) struct SinkOperator {
    sink: Arc<dyn Sink>,
    context: WriterContext,
    writer: Option<Box<dyn SinkWriter>>,
    mode: SinkMode,
    table: String,
    /// Input columns that are NOT NULL, with their names.
    not_null: Vec<(usize, String)>,
    drop_nulls: bool,
    dropped: Counter,
}

impl SinkOperator {
    pub(crate) fn new(spec: &SinkSpec, sink: Arc<dyn Sink>, context: WriterContext) -> Self {
        let physical = spec.table.physical.fields.iter().map(|field| (&field.name, &field.ty));
        let metadata = spec.table.metadata.iter().filter(|m| !m.is_virtual).map(|m| (&m.name, &m.ty));
        let not_null = physical
            .chain(metadata)
            .enumerate()
            .filter(|(_, (_, ty))| !ty.nullable)
            .map(|(column, (name, _))| (column, name.clone()))
            .collect();
        SinkOperator {
            mode: sink.mode(),
            sink,
            writer: None,
            table: spec.table.identifier.clone(),
            not_null,
            drop_nulls: spec.drop_nulls,
            dropped: context.metrics.counter("numNullRecordsDropped"),
            context,
        }
    }

    /// Makes the writer.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.writer = Some(self.sink.writer(self.context.clone())?);
        Ok(())
    }

    /// The rows to write, if any are left: NOT NULL is enforced, and `-U` rows are left out where the
    /// table goes by key.
    pub(crate) fn prepare(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let batch = self.enforce_not_null(batch)?;
        let batch = match (self.mode, &batch.kinds) {
            (_, None) | (SinkMode::Changelog, _) => batch,
            (SinkMode::Append, Some(kinds)) => {
                if kinds.values().iter().any(|kind| *kind != RowKind::Insert.to_byte()) {
                    return Err(Error::invalid(format!(
                        "Table sink '{}' doesn't support consuming update and delete changes.",
                        self.table
                    )));
                }
                batch
            }
            (SinkMode::Upsert, Some(kinds)) => {
                let before = RowKind::UpdateBefore.to_byte();
                let values = kinds.values();
                let keep = BooleanBuffer::collect_bool(values.len(), |i| values[i] != before);
                keep_rows(batch, &BooleanArray::new(keep, None))?
            }
        };
        Ok((batch.num_rows() > 0).then_some(batch))
    }

    fn enforce_not_null(&self, mut batch: Batch) -> Result<Batch> {
        for (column, name) in &self.not_null {
            let array = batch.columns.column(*column);
            let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
            if !self.drop_nulls {
                return Err(Error::job(format!(
                    "Column '{name}' is NOT NULL, however, a null value is being written into it. You can set job \
                     configuration 'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop \
                     such records silently."
                )));
            }
            self.dropped.add(nulls.null_count() as u64);
            let keep = BooleanArray::new(nulls.inner().clone(), None);
            batch = keep_rows(batch, &keep)?;
        }
        Ok(batch)
    }

    fn writer(&mut self) -> Result<&mut Box<dyn SinkWriter>> {
        self.writer.as_mut().ok_or_else(|| Error::internal("a sink was used before it was opened"))
    }

    pub(crate) async fn write(&mut self, batch: Batch) -> Result<()> {
        self.writer()?.write(batch).await
    }

    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.writer()?.flush().await
    }

    pub(crate) async fn finish(&mut self) -> Result<()> {
        self.writer()?.finish().await
    }
}
