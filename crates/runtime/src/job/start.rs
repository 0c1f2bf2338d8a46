//! The life of each kind of task: open what it needs, run, finish.

use tidegate_api::connector::ReaderContext;
use tidegate_api::graph::SourceSpec;
use tidegate_api::{Result, Watermark};

use crate::source::SourceTask;
use crate::task::{self, InputGate, Task};
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
