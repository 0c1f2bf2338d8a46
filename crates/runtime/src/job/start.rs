//! The life of each kind of task: open what it needs, run, finish.

use tidegate_api::connector::ReaderContext;
use tidegate_api::graph::SourceSpec;
use tidegate_api::{Batch, Result, StreamElement, Watermark};

use tokio::sync::mpsc;

use crate::source::{SourceCommands, SourceTask};
use crate::task::{self, InputGate, Task, TaskCommand};
use crate::view::ExecutionState;

pub(super) async fn run_task(mut task: Task, gate: InputGate, restored: Watermark) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open().await?;
    task.subtask.enter(ExecutionState::Running);
    task::run(task, gate, restored).await
}

pub(super) async fn run_source(
    source: SourceTask,
    mut task: Task,
    context: ReaderContext,
    spec: SourceSpec,
) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open().await?;
    let reader = source.source.reader(&spec.read, context)?;
    task.subtask.enter(ExecutionState::Running);
    source.run(task, reader).await
}

pub(super) async fn run_values(
    batches: Vec<Batch>,
    mut task: Task,
    commands: mpsc::UnboundedReceiver<TaskCommand>,
) -> Result<()> {
    task.subtask.enter(ExecutionState::Initializing);
    task.open().await?;
    task.subtask.enter(ExecutionState::Running);
    for batch in batches {
        task.chain.count_read(batch.num_rows());
        task.emit(StreamElement::Batch(batch)).await?;
    }
    task.emit(StreamElement::Watermark(Watermark::MAX)).await?;
    task.emit(StreamElement::EndOfInput).await?;
    task.finish(&mut SourceCommands { commands, reader: None }, Watermark::MAX).await
}
