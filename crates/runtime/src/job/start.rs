//! The life of each kind of task: open what it needs, run, finish.

use tidegate_api::connector::ReaderContext;
use tidegate_api::graph::SourceSpec;
use tidegate_api::{Batch, Result, StreamElement, Watermark};

use crate::source::SourceTask;
use crate::task::{self, InputGate, Task};
use crate::view::ExecutionState;

pub(super) async fn run_task(mut task: Task, gate: InputGate) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open()?;
    task.subtask.enter(ExecutionState::Running);
    task::run(task, gate).await
}

pub(super) async fn run_source(
    source: SourceTask,
    mut task: Task,
    context: ReaderContext,
    spec: SourceSpec,
) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open()?;
    let reader = source.source.reader(&spec.read, context)?;
    task.subtask.enter(ExecutionState::Running);
    source.run(task, reader).await
}

pub(super) async fn run_values(batches: Vec<Batch>, mut task: Task) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open()?;
    task.subtask.enter(ExecutionState::Running);
    for batch in batches {
        task.chain.count_read(batch.num_rows());
        task.emit(StreamElement::Batch(batch)).await?;
    }
    task.emit(StreamElement::Watermark(Watermark::MAX)).await?;
    task.emit(StreamElement::EndOfInput).await?;
    task.finish().await
}
