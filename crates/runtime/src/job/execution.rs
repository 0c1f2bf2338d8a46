//! Watches over the tasks of one job: it ends when all have ended, and the first failure ends all.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_api::{Error, ErrorKind, Result};
use tokio::task::{Id, JoinError, JoinSet};

use super::deploy::Deployment;
use super::handle::Job;
use crate::task::Subtask;
use crate::view::{ExecutionState, JobStatus};

/// Something that runs for a job.
pub(crate) struct Runnable {
    /// For messages: vertex name and `(1/2)`, or what else it is.
    pub place: String,
    /// The subtask it is; a split enumerator is none.
    pub subtask: Option<Arc<Subtask>>,
    pub future: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
}

struct Started {
    place: String,
    subtask: Option<Arc<Subtask>>,
}

impl Started {
    fn enter(&self, state: ExecutionState) {
        if let Some(subtask) = &self.subtask {
            subtask.enter(state);
        }
    }
}

/// Runs a job to its end.
pub(crate) async fn execute(deployment: Deployment) {
    let Deployment { job, runnables } = deployment;
    job.enter(JobStatus::Running);
    let mut tasks = JoinSet::new();
    let mut started: HashMap<Id, Started> = HashMap::new();
    for runnable in runnables {
        let id = tasks.spawn(runnable.future).id();
        started.insert(id, Started { place: runnable.place, subtask: runnable.subtask });
    }
    let mut cancel = job.cancel.subscribe();
    let mut gave_up = None;
    loop {
        tokio::select! {
            biased;
            _ = cancel.wait_for(|cancel| *cancel), if job.status() == JobStatus::Running => {
                job.enter(JobStatus::Cancelling);
                stop(&mut tasks, &started);
            }
            ended = tasks.join_next_with_id() => {
                let Some(ended) = ended else { break };
                match task_ended(&job, &mut started, ended) {
                    Ended::Failed if job.status() == JobStatus::Running => {
                        job.enter(JobStatus::Failing);
                        stop(&mut tasks, &started);
                    }
                    Ended::GaveUp(place) => gave_up = Some(place),
                    Ended::Failed | Ended::Done => {}
                }
            }
        }
    }
    for late in &job.late {
        late.finish();
    }
    if let Some(place) = gave_up.filter(|_| job.status() == JobStatus::Running) {
        let error = Error::internal("its neighbour task ended too early");
        job.fail(Some(place.clone()), error.context(place));
        job.enter(JobStatus::Failing);
    }
    job.enter(match job.status() {
        JobStatus::Failing => JobStatus::Failed,
        JobStatus::Cancelling => JobStatus::Canceled,
        _ => JobStatus::Finished,
    });
    job.done.send_replace(true);
}

fn stop(tasks: &mut JoinSet<Result<()>>, started: &HashMap<Id, Started>) {
    for task in started.values() {
        task.enter(ExecutionState::Canceling);
    }
    tasks.abort_all();
}

/// How a task ended.
enum Ended {
    /// At the end of its input, or because it was told to.
    Done,
    /// Because another task was gone; that one knows why.
    GaveUp(String),
    /// By a failure, which ends the job.
    Failed,
}

/// Notes how a task ended.
fn task_ended(job: &Job, started: &mut HashMap<Id, Started>, ended: Result<(Id, Result<()>), JoinError>) -> Ended {
    let id = match &ended {
        Ok((id, _)) => *id,
        Err(e) => e.id(),
    };
    let Some(task) = started.remove(&id) else { return Ended::Done };
    let error = match ended {
        Ok((_, Ok(()))) => {
            task.enter(ExecutionState::Finished);
            return Ended::Done;
        }
        Ok((_, Err(e))) if e.kind == ErrorKind::Cancelled => {
            task.enter(ExecutionState::Canceled);
            return Ended::GaveUp(task.place);
        }
        Ok((_, Err(error))) => error,
        Err(e) if e.is_cancelled() => {
            task.enter(ExecutionState::Canceled);
            return Ended::Done;
        }
        Err(e) => Error::internal(format!("a task panicked: {}", panic_text(e))),
    };
    task.enter(ExecutionState::Failed);
    job.fail(Some(task.place.clone()), error.context(task.place));
    Ended::Failed
}

fn panic_text(error: JoinError) -> String {
    let payload: Box<dyn Any + Send> = match error.try_into_panic() {
        Ok(payload) => payload,
        Err(e) => return e.to_string(),
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&'static str>().map_or("without a message".into(), |t| (*t).into()),
    }
}
