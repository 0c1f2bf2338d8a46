//! Runs a job: attempt after attempt, each until all its tasks have ended; the first failure ends an attempt.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, ErrorKind, Result};
use tidegate_checkpoint::coordinator::Fact;
use tidegate_checkpoint::options::{CheckpointOptions, JobEnd};
use tidegate_checkpoint::restart::{self as backoff, Backoff, RestartStrategy};
use tidegate_checkpoint::storage::Stores;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};

use super::checkpoints::JobCheckpoints;
use super::cluster::ClusterOptions;
use super::deploy::{Deployment, TaskCommands};
use super::driver::{Driver, Verdict};
use super::handle::{Job, JobRequest};
use super::records::ResumedJob;
use super::restore::operator_states;
use crate::notices::JobNotices;
use crate::plan::ExecutionPlan;
use crate::task::Subtask;
use crate::view::{ExecutionState, JobStatus};

/// How often it is looked whether all tasks run, until they do.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

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

/// A job about to run, over as many attempts as its restart strategy grants.
pub(crate) struct Execution {
    pub graph: JobGraph,
    pub plan: ExecutionPlan,
    pub options: Arc<ClusterOptions>,
    pub job: Arc<Job>,
    pub requests: mpsc::UnboundedReceiver<JobRequest>,
    pub checkpoints: CheckpointOptions,
    pub strategy: RestartStrategy,
    /// Where checkpoints are kept, shared by the jobs of the process.
    pub stores: Arc<Stores>,
    /// The attempt that was made to check the job, if it can be the first.
    pub checked: Option<Checked>,
    /// The job goes on from another process.
    pub resumed: Option<ResumedJob>,
}

/// An attempt that was made to check a job which takes no checkpoints by itself.
pub(crate) struct Checked {
    pub deployment: Deployment,
    /// What a savepoint needs; absent if there is no folder for temporary files.
    pub own: Option<JobCheckpoints>,
    /// What tasks say about it.
    pub said: mpsc::UnboundedReceiver<Fact>,
}

/// How an attempt ended.
enum Outcome {
    Finished,
    Cancelled,
    /// The reason is the job's failure.
    Failed,
    /// To be started again; nothing has failed.
    Restart(String),
}

impl Execution {
    /// Runs the job to its end.
    pub(crate) async fn execute(mut self) {
        let job = self.job.clone();
        let mut own = match self.open_checkpoints().await {
            Ok(own) => own,
            Err(error) => {
                job.fail(None, error);
                if self.resumed.is_none() {
                    self.record_end(JobStatus::Failed);
                }
                return end(&job, JobStatus::Failed);
            }
        };
        let mut backoff = Backoff::new(self.strategy.clone());
        let mut is_first = true;
        let status = loop {
            let outcome = match self.begin(&mut own, is_first).await {
                Ok((runnables, driver)) => self.run_attempt(runnables, driver, own.as_mut()).await,
                Err(error) => {
                    job.fail(None, error);
                    // What was wrong from the start stays wrong.
                    if is_first { break JobStatus::Failed } else { Outcome::Failed }
                }
            };
            is_first = false;
            let wait_ms = match outcome {
                Outcome::Finished => break JobStatus::Finished,
                Outcome::Cancelled => break JobStatus::Canceled,
                Outcome::Restart(reason) => {
                    self.warn(&format!("the job starts again from its last checkpoint: {reason}"));
                    0
                }
                Outcome::Failed => match backoff.failure(job.clock.monotonic_ms(), rand_unit()) {
                    backoff::Verdict::GiveUp { .. } => break JobStatus::Failed,
                    backoff::Verdict::RestartAfter(ms) | backoff::Verdict::Joined(ms) => {
                        let reason = job.forget_failure().unwrap_or_default();
                        let from = own.as_ref().and_then(JobCheckpoints::restart_point);
                        let from = from.map_or("from the beginning".to_owned(), |id| format!("from checkpoint {id}"));
                        self.warn(&format!("the job failed and starts again {from}, in {ms} ms: {reason}"));
                        ms
                    }
                },
            };
            if !self.wait_for_restart(wait_ms).await {
                break JobStatus::Canceled;
            }
        };
        let goes_on = job.is_suspended() && status == JobStatus::Canceled;
        // What could not be taken over is left as it is: the reason may be gone at the next try.
        let untouched = status == JobStatus::Failed && self.resumed.is_some() && !job.has_run();
        if goes_on || untouched || !self.record_end(status) {
            return end(&job, status);
        }
        if let Some(own) = &mut own {
            let gone = own.end(match status {
                JobStatus::Finished => JobEnd::Finished,
                JobStatus::Canceled => JobEnd::Canceled,
                _ => JobEnd::Failed,
            });
            let gone = gone.await;
            job.with_checkpoint_history(|history| history.discarded(&gone));
        }
        end(&job, status);
    }

    /// Writes down that the job is over; false if that cannot be done, and then the job's checkpoints must stay.
    fn record_end(&self, status: JobStatus) -> bool {
        let Some(records) = &self.options.records else { return true };
        match records.ended(&self.job.ending(status)) {
            Ok(()) => true,
            Err(e) => {
                let status = status.name();
                self.warn(&format!(
                    "the job is {status}, but that cannot be written down, so it will start again: {e}"
                ));
                false
            }
        }
    }

    fn warn(&self, text: &str) {
        JobNotices::new(self.job.id.to_string(), self.options.notices.clone()).warn(text);
    }

    async fn open_checkpoints(&mut self) -> Result<Option<JobCheckpoints>> {
        if let Some(checked) = &mut self.checked {
            return Ok(checked.own.take());
        }
        let (options, stores) = (self.checkpoints.clone(), self.stores.clone());
        let resumed = self.resumed.as_ref();
        let records = self.options.records.clone();
        let mut own = JobCheckpoints::open(&self.graph, &self.job.id, options, stores, resumed, records).await?;
        if self.resumed.is_some() {
            // What a killed process was about to write goes.
            own.settle(self.job.clock.now_ms()).await?;
        }
        Ok(Some(own))
    }

    /// Makes the tasks of the next attempt.
    async fn begin(
        &mut self,
        own: &mut Option<JobCheckpoints>,
        is_first: bool,
    ) -> Result<(Vec<Runnable>, Option<Driver>)> {
        let checked = self.checked.take();
        let Some(own) = own else {
            let runnables = match checked {
                Some(checked) => checked.deployment.runnables,
                None => {
                    let made = Deployment::new(&self.graph, &self.plan, &self.job.id, &self.options, None)?;
                    self.job.attempted(made.attempt, is_first);
                    made.runnables
                }
            };
            return Ok((runnables, None));
        };
        if let Some(Checked { deployment, said, .. }) = checked {
            let driver = self.driver(own, deployment.tasks, said)?;
            return Ok((deployment.runnables, Some(driver)));
        }
        if !is_first {
            own.settle(self.job.clock.now_ms()).await?;
        }
        if is_first && own.options.restore.is_some() {
            let states = operator_states(&self.graph, &self.plan, &self.job.id, &self.options, own)?;
            own.check_mapping(&self.graph, &self.plan, &states)?;
        }
        let (folder, file_prefix) = own.begin_attempt();
        let restored = own.restored(&folder).await?;
        let restart = self.job.restarts() + u64::from(!is_first);
        if let Some(records) = self.options.records.as_ref().filter(|_| !is_first)
            && let Err(e) = records.restarted(&self.job.id, restart)
        {
            self.warn(&format!("that the job is restarted cannot be written down: {e}"));
        }
        if !is_first || restored.is_some() || self.resumed.is_some() {
            self.job.outputs.restarted(restart, restored.as_ref().map(|restored| &restored.manifest));
        }
        self.job.show_checkpoints(|view| view.restored = restored.as_ref().map(|r| r.manifest.checkpoint.0));
        let (facts, said) = mpsc::unbounded_channel();
        let account = (self.job.outputs.clone(), restart);
        let shared = own.attempt(&self.graph, &self.plan, facts, folder, file_prefix, restored, account);
        let made = Deployment::new(&self.graph, &self.plan, &self.job.id, &self.options, Some(&shared))?;
        let driver = self.driver(own, made.tasks, said)?;
        self.job.attempted(made.attempt, is_first);
        Ok((made.runnables, Some(driver)))
    }

    fn driver(&self, own: &JobCheckpoints, tasks: TaskCommands, said: mpsc::UnboundedReceiver<Fact>) -> Result<Driver> {
        let plan = own.plan(&self.graph, &self.plan, &self.job.id, &tasks.states)?;
        let notices = JobNotices::new(self.job.id.to_string(), self.options.notices.clone());
        Ok(Driver::new(plan, own, tasks, said, self.job.clone(), notices))
    }

    /// Runs tasks until all have ended.
    async fn run_attempt(
        &mut self,
        runnables: Vec<Runnable>,
        mut driver: Option<Driver>,
        mut own: Option<&mut JobCheckpoints>,
    ) -> Outcome {
        let job = self.job.clone();
        job.enter(JobStatus::Running);
        let subtasks = runnables.iter().filter_map(|r| r.subtask.clone()).collect();
        let mut announcement = Announcement { subtasks, announced: false };
        let mut running = RunningTasks::start(runnables);
        let mut cancel = job.cancel.subscribe();
        let mut outcome = None;
        let mut gave_up = None;
        loop {
            let verdict = tokio::select! {
                biased;
                _ = cancel.wait_for(|cancel| *cancel), if outcome.is_none() => {
                    job.enter(JobStatus::Cancelling);
                    outcome = Some(Outcome::Cancelled);
                    running.stop();
                    None
                }
                ended = running.tasks.join_next_with_id() => {
                    let Some(ended) = ended else { break };
                    match task_ended(&job, &mut running.started, ended) {
                        Ended::Failed if outcome.is_none() => {
                            job.enter(JobStatus::Failing);
                            outcome = Some(Outcome::Failed);
                            running.stop();
                        }
                        Ended::GaveUp(place) => gave_up = Some(place),
                        Ended::Failed | Ended::Done => {}
                    }
                    None
                }
                verdict = drive(&mut driver, &mut own, &mut announcement), if outcome.is_none() => verdict,
                // Wishes wait until all tasks run: before, none can be granted.
                Some(request) = self.requests.recv(), if announcement.announced || driver.is_none() || outcome.is_some() => {
                    answer(&mut driver, &mut own, request)
                }
            };
            let failed = match verdict {
                None => continue,
                Some(Verdict::Fail(error)) => {
                    job.fail(None, error);
                    Outcome::Failed
                }
                Some(Verdict::Restart(reason)) => Outcome::Restart(reason),
            };
            if outcome.is_none() {
                job.enter(JobStatus::Failing);
                outcome = Some(failed);
                running.stop();
            }
        }
        for late in &job.attempt().late {
            late.finish();
        }
        if let Some(place) = gave_up.filter(|_| outcome.is_none()) {
            let error = Error::internal("its neighbour task ended too early");
            job.fail(Some(place.clone()), error.context(place));
            outcome = Some(Outcome::Failed);
        }
        let outcome = outcome.unwrap_or(Outcome::Finished);
        if let (Some(driver), Some(own)) = (&mut driver, own) {
            let over =
                if matches!(outcome, Outcome::Failed | Outcome::Restart(_)) { Fact::JobFailed } else { Fact::Stopped };
            let _ = driver.take(own, over);
            driver.settle(own).await;
        }
        outcome
    }

    /// Waits before the next attempt; false if the job is cancelled meanwhile.
    async fn wait_for_restart(&mut self, wait_ms: i64) -> bool {
        self.job.enter(JobStatus::Restarting);
        let mut cancel = self.job.cancel.subscribe();
        tokio::select! {
            _ = cancel.wait_for(|cancel| *cancel) => false,
            () = tokio::time::sleep(Duration::from_millis(wait_ms.max(0) as u64)) => true,
        }
    }
}

fn end(job: &Job, status: JobStatus) {
    job.enter(status);
    job.done.send_replace(true);
}

/// A number from 0 to 1 that decides how long to wait; nothing depends on its quality.
fn rand_unit() -> f64 {
    let (bits, _) = uuid::Uuid::new_v4().as_u64_pair();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The tasks of an attempt.
struct RunningTasks {
    tasks: JoinSet<Result<()>>,
    started: HashMap<Id, Started>,
}

/// Whether the coordinator knows that all tasks run.
struct Announcement {
    subtasks: Vec<Arc<Subtask>>,
    announced: bool,
}

impl Announcement {
    fn all_run(&self) -> bool {
        let runs = |s: &Arc<Subtask>| matches!(s.state(), ExecutionState::Running | ExecutionState::Finished);
        self.subtasks.iter().all(runs)
    }
}

impl RunningTasks {
    fn start(runnables: Vec<Runnable>) -> RunningTasks {
        let (mut tasks, mut started) = (JoinSet::new(), HashMap::new());
        for runnable in runnables {
            let id = tasks.spawn(runnable.future).id();
            started.insert(id, Started { place: runnable.place, subtask: runnable.subtask });
        }
        RunningTasks { tasks, started }
    }

    fn stop(&mut self) {
        stop(&mut self.tasks, &self.started);
    }
}

/// Does the next thing for checkpoints; never returns if the job takes none.
async fn drive(
    driver: &mut Option<Driver>,
    own: &mut Option<&mut JobCheckpoints>,
    running: &mut Announcement,
) -> Option<Verdict> {
    let (Some(driver), Some(own)) = (driver, own) else { return std::future::pending().await };
    while !running.announced {
        if running.all_run() {
            running.announced = true;
            return driver.all_restored(own);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    driver.next(own).await
}

/// Sees to a user's request.
fn answer(driver: &mut Option<Driver>, own: &mut Option<&mut JobCheckpoints>, request: JobRequest) -> Option<Verdict> {
    if let (Some(driver), Some(own)) = (driver, own) {
        return driver.request(own, request);
    }
    let (JobRequest::Savepoint { answer, .. } | JobRequest::Checkpoint { answer }) = request;
    let _ = answer.send(Err(Error::job(
        "The job can take no savepoint and no checkpoint: its folder for temporary files could not be made when it \
         started, which was warned of. Set 'io.tmp.dirs' and start it again.",
    )));
    None
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
