//! A task: one subtask of a vertex, run as one asynchronous loop.
//!
//! ```text
//!   queue -> watermark valve -> operator chain -> result partitions, sinks
//! ```
//!
//! A task takes one element at a time, so its operators need no lock. It waits in three places only:
//! for input (idle), for a receiver's queue (backpressured), and for a sink's I/O.

mod chain;
mod subtask;
mod times;

use std::sync::Arc;

use arrow::array::Array;
use tidegate_api::{Batch, Result, StreamElement};
use tidegate_time::{ValveChange, ValveEvent, WatermarkValve};

pub(crate) use chain::{Link, LinkMetrics, LinkOperator, OperatorChain};
pub(crate) use subtask::Subtask;
pub(crate) use times::TaskTimes;

use crate::exchange::{Envelope, ResultPartition, TaskInbox};
use chain::Effect;

/// The operators of a subtask and where their output goes.
pub(crate) struct Task {
    pub chain: OperatorChain,
    pub partitions: Vec<ResultPartition>,
    pub subtask: Arc<Subtask>,
    /// Some sink has taken rows since the last flush.
    unflushed: bool,
}

impl Task {
    pub(crate) fn new(chain: OperatorChain, partitions: Vec<ResultPartition>, subtask: Arc<Subtask>) -> Self {
        Task { chain, partitions, subtask, unflushed: false }
    }

    /// Opens the sinks.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.subtask.times.start();
        self.sinks().try_for_each(|sink| sink.open())
    }

    /// Gives an element to the head operator and carries out what follows from it.
    pub(crate) async fn feed(&mut self, input: usize, element: StreamElement) -> Result<()> {
        self.chain.feed_head(input, element)?;
        self.carry_out().await
    }

    /// Emits an element of the head, a source, and carries out what follows from it.
    pub(crate) async fn emit(&mut self, element: StreamElement) -> Result<()> {
        self.chain.emit_head(element)?;
        self.carry_out().await
    }

    async fn carry_out(&mut self) -> Result<()> {
        let Task { chain, partitions, subtask, unflushed } = self;
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

    /// Makes everything durable at the end of the input.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        for sink in self.sinks() {
            sink.finish().await?;
        }
        Ok(())
    }
}

/// Where a task's elements come from.
pub(crate) struct InputGate {
    pub inbox: TaskInbox,
    /// Input of the head operator for each channel.
    pub channels: Vec<usize>,
}

impl InputGate {
    /// The next element; sinks are flushed before waiting for one.
    async fn next(&mut self, task: &mut Task) -> Result<Envelope> {
        if let Some(envelope) = self.inbox.try_next() {
            return Ok(envelope);
        }
        task.flush().await?;
        let waiting = task.subtask.times.idle();
        let next = self.inbox.next().await;
        drop(waiting);
        next
    }
}

/// Runs a task that is fed by others, to the end of its input.
pub(crate) async fn run(mut task: Task, mut gate: InputGate) -> Result<()> {
    let mut valve = WatermarkValve::new(gate.channels.len());
    let mut open = gate.channels.len();
    while open > 0 {
        // The channel's credit is kept until the element has been worked off.
        let Envelope { channel, element, credit: _credit } = gate.next(&mut task).await?;
        let channel = channel as usize;
        match element {
            StreamElement::Batch(batch) => {
                task.subtask.records_in.add(batch.num_rows() as u64);
                task.subtask.bytes_in.add(byte_size(&batch));
                task.feed(gate.channels[channel], StreamElement::Batch(batch)).await?;
            }
            StreamElement::Watermark(watermark) => {
                advance(&mut task, valve.watermark(channel, watermark)).await?;
            }
            StreamElement::Status(status) => {
                advance(&mut task, valve.set_status(channel, status)).await?;
            }
            StreamElement::EndOfInput => {
                open -= 1;
                advance(&mut task, valve.finish(channel)).await?;
            }
        }
        tokio::task::consume_budget().await;
    }
    task.feed(0, StreamElement::EndOfInput).await?;
    task.finish().await
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
