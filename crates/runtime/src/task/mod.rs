//! A task: one subtask of a vertex, run as one asynchronous loop.
//!
//! ```text
//!   queue -> watermark valve -> operator chain -> result partitions, sinks
//! ```
//!
//! A task takes one element at a time, so its operators need no lock. It waits in three places only:
//! for input (idle), for a receiver's queue (backpressured), and for a sink's I/O.

mod chain;
mod checkpoints;
mod gate;
mod subtask;
mod times;

use std::sync::Arc;

use arrow::array::Array;
use serde_json::Value;
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::{Batch, Error, Result, StreamElement, Watermark};
use tidegate_checkpoint::alignment::{AbandonReason, Step};
use tidegate_checkpoint::coordinator::DeclineReason;
use tidegate_checkpoint::{Barrier, CheckpointId, Stop};
use tidegate_time::{ValveChange, ValveEvent, WatermarkValve};
use tokio::sync::mpsc;

pub(crate) use chain::{Link, LinkMetrics, LinkOperator, OperatorChain};
pub(crate) use checkpoints::{
    LinkIdentity, SourceSnapshot, StagedCommittable, StagedOutput, TaskCheckpoints, TaskCommand,
};
pub(crate) use gate::{Arrival, InputGate};
pub(crate) use subtask::Subtask;
pub(crate) use times::TaskTimes;

use crate::exchange::ResultPartition;
use chain::Effect;

/// The operators of a subtask and where their output goes.
pub(crate) struct Task {
    pub chain: OperatorChain,
    pub partitions: Vec<ResultPartition>,
    pub subtask: Arc<Subtask>,
    /// Some sink has taken rows since the last flush.
    unflushed: bool,
    /// Absent if the job cannot take checkpoints.
    checkpoints: Option<TaskCheckpoints>,
    /// The savepoint that the job is stopping with, to go on from it later: what ends now has not ended in
    /// event time.
    suspending: Option<CheckpointId>,
    /// Where the task's sinks say what they have published.
    commands: mpsc::UnboundedSender<TaskCommand>,
}

impl Task {
    pub(crate) fn new(
        chain: OperatorChain,
        partitions: Vec<ResultPartition>,
        subtask: Arc<Subtask>,
        checkpoints: Option<TaskCheckpoints>,
        commands: mpsc::UnboundedSender<TaskCommand>,
    ) -> Self {
        Task { chain, partitions, subtask, unflushed: false, checkpoints, suspending: None, commands }
    }

    /// Opens the sinks.
    pub(crate) async fn open(&mut self) -> Result<()> {
        self.subtask.times.start();
        let Task { chain, commands, .. } = self;
        for (position, link) in chain.links.iter_mut().enumerate() {
            if let LinkOperator::Sink(sink) = &mut link.operator {
                sink.open(position, commands).await?;
            }
        }
        Ok(())
    }

    /// Gives an element to the head operator and carries out what follows from it.
    pub(crate) async fn feed(&mut self, input: usize, element: StreamElement) -> Result<()> {
        self.chain.feed_head(input, element)?;
        self.carry_out().await?;
        self.carry_on().await
    }

    /// Emits an element of the head, a source, and carries out what follows from it.
    pub(crate) async fn emit(&mut self, element: StreamElement) -> Result<()> {
        self.chain.emit_head(element)?;
        self.carry_out().await?;
        self.carry_on().await
    }

    /// Has operators go on with what is too much for one call, and write what a barrier has noted; has stores write
    /// what they hold.
    async fn carry_on(&mut self) -> Result<()> {
        while self.chain.resume()? {
            self.carry_out().await?;
            self.keep_up().await?;
        }
        self.save_some()?;
        self.keep_up().await
    }

    async fn keep_up(&mut self) -> Result<()> {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.keep_up().await,
            None => Ok(()),
        }
    }

    /// Has an operator write some of what a barrier has noted; false if there is nothing.
    pub(crate) fn save_some(&mut self) -> Result<bool> {
        let Task { chain, checkpoints: Some(checkpoints), .. } = self else { return Ok(false) };
        let Some((link, most)) = checkpoints.saving() else { return Ok(false) };
        let is_all = chain.save_some(link, most)?;
        checkpoints.saved(is_all)?;
        Ok(true)
    }

    /// Has operators write everything that barriers have noted.
    async fn save_all(&mut self) -> Result<()> {
        while self.save_some()? {
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    async fn carry_out(&mut self) -> Result<()> {
        let Task { chain, partitions, subtask, unflushed, .. } = self;
        for effect in chain.effects.drain(..) {
            match effect {
                Effect::Send(partition, element) => {
                    if let StreamElement::Batch(batch) = &element {
                        subtask.records_out.add(batch.num_rows() as u64);
                        subtask.bytes_out.add(byte_size(batch));
                    }
                    partitions[partition].send(element, &subtask.times).await?;
                }
                Effect::Write(link, batch) => {
                    if let LinkOperator::Sink(sink) = &mut chain.links[link].operator {
                        sink.write(batch).await?;
                        *unflushed = true;
                    }
                }
            }
        }
        Ok(())
    }

    fn sinks(&mut self) -> impl Iterator<Item = &mut crate::builtin::SinkOperator> {
        self.chain.links.iter_mut().filter_map(|link| match &mut link.operator {
            LinkOperator::Sink(sink) => Some(sink.as_mut()),
            _ => None,
        })
    }

    /// Has the sinks hand on what they buffer: nothing more is to be read at once.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if std::mem::take(&mut self.unflushed) {
            for sink in self.sinks() {
                sink.flush().await?;
            }
        }
        Ok(())
    }

    /// Takes part in a checkpoint: sends the barrier on, takes the state, and lets it be written. `seen_ms` is when
    /// the first of several barriers was seen.
    pub(crate) async fn snapshot(
        &mut self,
        barrier: Barrier,
        watermark: Watermark,
        source: Option<SourceSnapshot>,
        seen_ms: Option<i64>,
    ) -> Result<()> {
        // What is noted now must not mix with what an earlier barrier has noted.
        self.save_all().await?;
        let begun_ms = self.checkpoints.as_ref().map_or(0, TaskCheckpoints::now_ms);
        self.chain.before_barrier()?;
        self.carry_out().await?;
        for partition in &self.partitions {
            partition.barrier(barrier)?;
        }
        fail_point::reached(FailPoint::AfterBarrier);
        if barrier.kind.stop() == Some(Stop::Suspend) {
            self.suspending = Some(barrier.id);
        }
        let Task { chain, checkpoints, .. } = self;
        let Some(checkpoints) = checkpoints else { return Ok(()) };
        let mut taken = checkpoints.begin(watermark.timestamp());
        if let Some(source) = source {
            checkpoints.add_source(&mut taken, source);
        }
        for (position, link) in chain.links.iter_mut().enumerate() {
            match &mut link.operator {
                LinkOperator::Head => {}
                LinkOperator::Operator(operator) => {
                    checkpoints.add_operator(&mut taken, position, barrier.id, operator.as_mut())?;
                }
                LinkOperator::Sink(sink) => {
                    let staged = sink.pre_commit(barrier.id).await?;
                    checkpoints.add_sink(&mut taken, position, staged);
                }
            }
        }
        self.unflushed = false;
        checkpoints.write(barrier, taken, seen_ms.unwrap_or(begun_ms), begun_ms);
        Ok(())
    }

    /// A snapshot's alignment is over; this is what it has overtaken.
    pub(crate) fn aligned(&mut self, checkpoint: CheckpointId, overtaken: Vec<(usize, StreamElement)>) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.aligned(checkpoint, overtaken);
        }
    }

    /// A checkpoint is complete: sinks publish what they staged for it.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.sinks().try_for_each(|sink| sink.completed(checkpoint))?;
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.completed(checkpoint))
    }

    /// A sink has published what it staged for a checkpoint.
    fn committed(&mut self, link: usize, checkpoint: CheckpointId) {
        if let LinkOperator::Sink(sink) = &mut self.chain.links[link].operator {
            sink.committed(checkpoint);
        }
    }

    /// Does what barriers ask for.
    async fn take_steps(&mut self, gate: &mut InputGate, steps: Vec<Step>, watermark: Watermark) -> Result<()> {
        let recorded = steps.iter().filter_map(|step| match step {
            Step::Record { channel, checkpoint } => Some((*channel, *checkpoint)),
            _ => None,
        });
        let recorded: Vec<(usize, CheckpointId)> = recorded.collect();
        if let Some((_, checkpoint)) = recorded.first() {
            let channels: Vec<usize> = recorded.iter().map(|(channel, _)| *channel).collect();
            gate.record(&channels, *checkpoint);
        }
        for step in steps {
            match step {
                // The gate asks the aligner which channels are blocked.
                Step::Block(_) | Step::Record { .. } => {}
                Step::Unblock(channel) => gate.unblock(channel),
                Step::Snapshot(barrier) => {
                    self.snapshot(barrier, watermark, None, gate.first_seen_ms(barrier.id)).await?;
                }
                Step::Done(checkpoint) => self.aligned(checkpoint, gate.take_overtaken()),
                Step::Abandon { checkpoint, reason } => {
                    gate.take_overtaken();
                    if let Some(checkpoints) = &mut self.checkpoints {
                        checkpoints.abandoned(checkpoint, decline(reason));
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the end of the input on. Operators do not hear of it if the job will go on from a savepoint.
    pub(crate) async fn end(&mut self) -> Result<()> {
        if self.suspending.is_none() {
            return self.feed(0, StreamElement::EndOfInput).await;
        }
        for partition in &mut self.partitions {
            partition.send(StreamElement::EndOfInput, &self.subtask.times).await?;
        }
        Ok(())
    }

    /// Does what the coordinator or a sink's publisher says. The barrier of a trigger is given back.
    pub(crate) fn obey(&mut self, command: TaskCommand) -> Result<Option<TaskCommand>> {
        if let TaskCommand::Aborted(checkpoint) = &command
            && self.suspending == Some(*checkpoint)
        {
            self.suspending = None;
        }
        match command {
            TaskCommand::Completed(checkpoint) => self.completed(checkpoint)?,
            TaskCommand::Committed { link, checkpoint } => self.committed(link, checkpoint),
            TaskCommand::CommitFailed(error) => return Err(error),
            command @ (TaskCommand::Trigger { .. } | TaskCommand::Aborted(_)) => return Ok(Some(command)),
        }
        Ok(None)
    }

    /// Makes everything durable at the end of the input. What is staged waits for a last checkpoint, which
    /// `triggered` lets begin here.
    pub(crate) async fn finish(&mut self, commands: &mut impl LastCommands, watermark: Watermark) -> Result<()> {
        self.save_all().await?;
        let suspended = self.suspending.is_some();
        for sink in self.sinks() {
            sink.finish(suspended).await?;
        }
        // Without checkpoints the end of the input publishes. What a savepoint has taken is published with it, and what
        // comes after a stop belongs to whoever goes on.
        let on_demand = self.checkpoints.as_ref().is_none_or(|own| own.on_demand);
        if on_demand && !suspended && self.sinks().all(|sink| !sink.waits_for_checkpoint()) {
            for sink in self.sinks() {
                sink.publish_all().await?;
            }
        }
        if self.sinks().any(|sink| sink.stages() && !sink.is_settled()) {
            self.wait_for_last_checkpoint(commands, watermark).await?;
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.written().await;
            checkpoints.finished(commands.source(Value::Null).map(|source| source.splits).unwrap_or_default());
        }
        Ok(())
    }

    async fn wait_for_last_checkpoint(&mut self, commands: &mut impl LastCommands, watermark: Watermark) -> Result<()> {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.ended();
        }
        while !self.sinks().all(|sink| sink.is_settled()) {
            let Some(command) = commands.next().await else { return Err(Error::cancelled()) };
            match self.obey(command)? {
                Some(TaskCommand::Trigger { barrier, enumerator }) if commands.triggered(barrier) => {
                    self.snapshot(barrier, watermark, commands.source(enumerator), None).await?;
                    self.save_all().await?;
                    self.aligned(barrier.id, Vec::new());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a task hears after its inputs have ended.
pub(crate) trait LastCommands {
    /// The next command; `None` if nobody commands any more.
    async fn next(&mut self) -> Option<TaskCommand>;

    /// A checkpoint is triggered here; false if it is obsolete.
    fn triggered(&mut self, barrier: Barrier) -> bool;

    /// What a source that has ended adds to a snapshot; `enumerator` came with the trigger.
    fn source(&self, enumerator: Value) -> Option<SourceSnapshot> {
        let _ = enumerator;
        None
    }
}

impl LastCommands for InputGate {
    async fn next(&mut self) -> Option<TaskCommand> {
        self.command().await
    }

    fn triggered(&mut self, barrier: Barrier) -> bool {
        !InputGate::triggered(self, barrier).is_empty()
    }
}

fn decline(reason: AbandonReason) -> DeclineReason {
    match reason {
        AbandonReason::Superseded { .. } => DeclineReason::Superseded,
        AbandonReason::Cancelled => DeclineReason::Cancelled,
    }
}

/// Runs a task that is fed by others, to the end of its input. `restored` is the watermark it had reached.
pub(crate) async fn run(mut task: Task, mut gate: InputGate, restored: Watermark) -> Result<()> {
    let mut valve = WatermarkValve::restored(gate.channels(), restored);
    if restored != Watermark::MIN {
        task.feed(0, StreamElement::Watermark(restored)).await?;
    }
    let mut open = gate.channels();
    while open > 0 {
        match gate.next(&mut task).await? {
            // The channel's credit is kept until the element has been worked off.
            Arrival::Element { channel, element, _credit } => {
                open -= usize::from(matches!(element, StreamElement::EndOfInput));
                process(&mut task, &mut gate, &mut valve, channel, element).await?;
            }
            Arrival::Steps(steps) => task.take_steps(&mut gate, steps, valve.output()).await?,
            Arrival::Command(command) => match task.obey(command)? {
                Some(TaskCommand::Aborted(checkpoint)) => gate.cancelled(checkpoint),
                // The coordinator triggers sources only, and tasks whose senders have all ended; if the ends are
                // still in the queue, so is what the barrier is about.
                Some(TaskCommand::Trigger { barrier, .. }) => gate.trigger_later(barrier),
                _ => {}
            },
        }
        tokio::task::consume_budget().await;
    }
    let steps = gate.take_steps();
    task.take_steps(&mut gate, steps, valve.output()).await?;
    task.end().await?;
    task.finish(&mut gate, valve.output()).await
}

async fn process(
    task: &mut Task,
    gate: &mut InputGate,
    valve: &mut WatermarkValve,
    channel: usize,
    element: StreamElement,
) -> Result<()> {
    match element {
        StreamElement::Batch(batch) => {
            task.subtask.records_in.add(batch.num_rows() as u64);
            task.subtask.bytes_in.add(byte_size(&batch));
            task.feed(gate.input(channel), StreamElement::Batch(batch)).await
        }
        StreamElement::Watermark(watermark) => advance(task, valve.watermark(channel, watermark)).await,
        StreamElement::Status(status) => advance(task, valve.set_status(channel, status)).await,
        StreamElement::EndOfInput => {
            if task.suspending.is_none() {
                advance(task, valve.finish(channel)).await?;
            }
            gate.ended(channel);
            Ok(())
        }
    }
}

/// Bytes that the rows of a batch take in memory, without what they share with other batches.
fn byte_size(batch: &Batch) -> u64 {
    let columns = batch.columns.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64).sum()
}

async fn advance(task: &mut Task, change: ValveChange) -> Result<()> {
    for event in change.events() {
        let element = match event {
            ValveEvent::Watermark(watermark) => {
                if let Some(gauge) = &task.subtask.input_watermark {
                    gauge.set(watermark.timestamp());
                }
                StreamElement::Watermark(watermark)
            }
            ValveEvent::Status(status) => StreamElement::Status(status),
        };
        task.feed(0, element).await?;
    }
    Ok(())
}
