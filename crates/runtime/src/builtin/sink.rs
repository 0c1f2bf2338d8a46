//! The sink: constraints are enforced here, then rows go to the connector's writer.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use tidegate_api::audit::{Auditor, OutputName};
use tidegate_api::connector::{
    Committable, CommitterContext, Notifier, Sink, SinkCommitter, SinkMode, SinkWriter, WriterContext,
};
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::graph::SinkSpec;
use tidegate_api::metrics::Counter;
use tidegate_api::{Batch, Error, Result, RowKind, Watermark, WatermarkStatus};
use tidegate_checkpoint::CheckpointId;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::calc::keep_rows;
use crate::audit::SinkAccount;
use crate::task::{StagedCommittable, StagedOutput, TaskCommand};

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
    notices: Notifier,
    /// What a checkpoint says is staged; published when the sink opens.
    restored: Vec<Committable>,
    /// Staged and not known to be published, oldest first, by the checkpoint it belongs to.
    staged: VecDeque<(CheckpointId, Vec<Committable>)>,
    /// The last checkpoint that was handed to the publisher.
    sent: Option<CheckpointId>,
    publisher: Option<Publisher>,
    /// Rows came since the last barrier, or something else is left to be handed over.
    wrote: bool,
    /// Absent if the job cannot take checkpoints.
    account: Option<SinkAccount>,
    /// Where event time stands in the input.
    event_time: (Watermark, WatermarkStatus),
}

/// Publishes in the background, one checkpoint after the other.
struct Publisher {
    queue: mpsc::UnboundedSender<(CheckpointId, Vec<Committable>)>,
    work: JoinHandle<()>,
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Publisher {
    /// Starts with a committer that has recovered; `commands` hears of every commit.
    fn start(
        link: usize,
        mut committer: Box<dyn SinkCommitter>,
        commands: mpsc::UnboundedSender<TaskCommand>,
        account: Option<(SinkAccount, Arc<dyn Sink>)>,
    ) -> Publisher {
        let (queue, mut staged) = mpsc::unbounded_channel::<(CheckpointId, Vec<Committable>)>();
        let work = tokio::spawn(async move {
            while let Some((checkpoint, committables)) = staged.recv().await {
                let names = account.as_ref().map(|(_, sink)| names(sink.as_ref(), &committables)).unwrap_or_default();
                let (said, failed) = match committer.commit(committables).await {
                    Ok(()) => {
                        account.iter().for_each(|(account, _)| account.published(&names));
                        (TaskCommand::Committed { link, checkpoint }, false)
                    }
                    Err(e) => (TaskCommand::CommitFailed(e), true),
                };
                // A task that is gone needs no answer.
                if commands.send(said).is_err() || failed {
                    return;
                }
            }
        });
        Publisher { queue, work }
    }
}

fn names(sink: &dyn Sink, committables: &[Committable]) -> Vec<OutputName> {
    committables.iter().filter_map(|committable| Some(sink.describe(committable)?.name)).collect()
}

impl SinkOperator {
    pub(crate) fn new(
        spec: &SinkSpec,
        sink: Arc<dyn Sink>,
        context: WriterContext,
        notices: Notifier,
        restored: Vec<Committable>,
        account: Option<SinkAccount>,
    ) -> Self {
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
            notices,
            restored,
            staged: VecDeque::new(),
            sent: None,
            publisher: None,
            wrote: false,
            account,
            event_time: (Watermark::MIN, WatermarkStatus::Active),
        }
    }

    /// Publishes what is left from before, then makes the writer. `link` is the sink's place in the chain.
    pub(crate) async fn open(&mut self, link: usize, commands: &mpsc::UnboundedSender<TaskCommand>) -> Result<()> {
        if let Some(mut committer) = self.committer()? {
            let restored = std::mem::take(&mut self.restored);
            let pending = names(self.sink.as_ref(), &restored);
            if let Some(account) = &self.account {
                restored.iter().filter_map(|c| self.sink.describe(c)).for_each(|unit| account.restored(unit));
            }
            committer.recover(restored).await?;
            fail_point::reached(FailPoint::AfterSinkRecovery);
            let account = self.account.clone().map(|account| (account, Arc::clone(&self.sink)));
            if let Some((account, _)) = &account {
                account.published(&pending);
            }
            self.publisher = Some(Publisher::start(link, committer, commands.clone(), account));
        } else if !self.restored.is_empty() {
            return Err(Error::job(format!(
                "The checkpoint holds output staged for table '{}', but the table has no such guarantee any more. \
                 Restore with the table's old options first, and stop that job with a savepoint.",
                self.table
            )));
        }
        self.writer = Some(self.sink.writer(self.context.clone())?);
        Ok(())
    }

    fn committer(&self) -> Result<Option<Box<dyn SinkCommitter>>> {
        self.sink.committer(CommitterContext {
            subtask: self.context.subtask,
            parallelism: self.context.parallelism,
            metrics: self.context.metrics.clone(),
            notices: self.notices.clone(),
            audit: self.account.as_ref().map_or_else(Auditor::silent, SinkAccount::auditor),
        })
    }

    /// Whether output becomes visible only by a checkpoint.
    pub(crate) fn stages(&self) -> bool {
        self.publisher.is_some()
    }

    /// Event time has advanced.
    pub(crate) fn advance(&mut self, watermark: Watermark) {
        self.event_time.0 = watermark;
    }

    /// The input became idle or active again.
    pub(crate) fn set_status(&mut self, status: WatermarkStatus) {
        self.event_time.1 = status;
    }

    /// Hands over what was written: all that is staged and not known to be published, and what the writer
    /// needs to go on.
    pub(crate) async fn pre_commit(&mut self, checkpoint: CheckpointId) -> Result<StagedOutput> {
        let staged = self.hand_over(checkpoint.0).await?;
        let writer = self.writer()?.snapshot()?;
        self.wrote = false;
        if let Some(account) = &self.account {
            let units = staged.iter().filter_map(|committable| self.sink.describe(committable));
            units.for_each(|unit| account.staged(unit, checkpoint.0));
        }
        if !staged.is_empty() {
            self.staged.push_back((checkpoint, staged));
        }
        let all = self.staged.iter().flat_map(|(_, committables)| committables);
        let committables =
            all.map(|c| StagedCommittable { state: c.state.clone(), rows: c.rows, files: c.files.clone() });
        Ok(StagedOutput { committables: committables.collect(), writer })
    }

    async fn hand_over(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        let (watermark, status) = self.event_time;
        let writer = self.writer()?;
        writer.input_watermark(watermark, status);
        writer.pre_commit(checkpoint).await
    }

    /// A checkpoint is complete: what was staged up to it is published in the background. Older checkpoints
    /// that were given up are published with it: their rows are in this one too.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) -> Result<()> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        for (id, committables) in self.staged.iter().filter(|(id, _)| *id <= checkpoint) {
            if self.sent.is_none_or(|sent| *id > sent) {
                let sent = publisher.queue.send((*id, committables.clone()));
                sent.map_err(|_| Error::internal("nobody publishes what the sink has staged"))?;
                self.sent = Some(*id);
            }
        }
        Ok(())
    }

    /// What was staged for a checkpoint is published.
    pub(crate) fn committed(&mut self, checkpoint: CheckpointId) {
        self.staged.retain(|(id, _)| *id > checkpoint);
    }

    /// True if nothing is left to be handed over, and all that was staged is published.
    pub(crate) fn is_settled(&self) -> bool {
        self.staged.is_empty() && !self.wrote
    }

    /// True if something is staged for a checkpoint that is not known to be complete and published.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Without checkpoints: publishes all there is, at the end of the input.
    pub(crate) async fn publish_all(&mut self) -> Result<()> {
        self.wrote = false;
        let staged = self.hand_over(0).await?;
        let committer = if staged.is_empty() { None } else { self.committer()? };
        match committer {
            Some(mut committer) => committer.commit(staged).await,
            None => Ok(()),
        }
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
        self.wrote = true;
        self.writer()?.write(batch).await
    }

    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.writer()?.flush().await
    }

    /// The input has ended; if the job goes on from here later, as `suspended` says, what is unfinished stays so.
    pub(crate) async fn finish(&mut self, suspended: bool) -> Result<()> {
        self.writer()?.finish().await?;
        if !suspended {
            self.wrote |= self.writer()?.holds_output();
        }
        Ok(())
    }
}
