//! A job from outside: wait for it, cancel it, look at it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::graph::OperatorSpec;
use tidegate_api::{Error, Result, Watermark};
use tidegate_checkpoint::Stop;
use tidegate_checkpoint::coordinator::History as CheckpointHistory;
use tidegate_checkpoint::options::CheckpointOptions;
use tidegate_time::Clock;
use tokio::sync::{mpsc, oneshot, watch};

use super::boards::ShownSource;
use crate::audit::{OutputBoard, OutputsView};
use crate::late::LateReporter;
use crate::task::Subtask;
use crate::view::{
    CheckpointStatistics, CheckpointsView, EventTimeView, ExecutionState, FailureView, JobStatus, JobView,
    SourceProgress, SourceView, TakenCheckpoint, VertexInput, VertexView,
};
use crate::window_board::WindowOperator;

/// Identifies a job: 32 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(String);

impl JobId {
    /// A new random id.
    pub(crate) fn random() -> Self {
        JobId(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Reads 32 hex digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())).then(|| JobId(text.to_ascii_lowercase()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator counted, over all its subtasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRows {
    /// Operator name.
    pub operator: String,
    /// Number of rows.
    pub rows: u64,
}

/// What a job did.
#[derive(Clone, Debug)]
pub struct JobSummary {
    /// The job.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Wall time from submission to end.
    pub duration_ms: i64,
    /// Rows read by each source.
    pub read: Vec<OperatorRows>,
    /// Rows written by each sink.
    pub written: Vec<OperatorRows>,
    /// Rows dropped as late, for each operator that dropped any.
    pub late: Vec<OperatorRows>,
    /// Rows dropped for a NULL event time, for each source that dropped any.
    pub null_rowtime: Vec<OperatorRows>,
    /// Rows dropped for a NULL in a NOT NULL column, for each sink that dropped any.
    pub null_constraint: Vec<OperatorRows>,
}

/// A vertex of a running job.
pub(crate) struct Vertex {
    pub id: String,
    pub name: String,
    pub description: Vec<(usize, String)>,
    pub inputs: Vec<VertexInput>,
    pub subtasks: Vec<Arc<Subtask>>,
    /// Operator name and what it is, in chain order.
    pub operators: Vec<(String, Role)>,
}

/// What an operator counts for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Sink,
    Other,
}

impl Role {
    pub(crate) fn of(spec: &OperatorSpec) -> Role {
        match spec {
            OperatorSpec::Source(_) | OperatorSpec::Values { .. } => Role::Source,
            OperatorSpec::Sink(_) => Role::Sink,
            _ => Role::Other,
        }
    }
}

/// A job that is over, as another process may remember it.
#[derive(Clone, Debug)]
pub struct EndedJob {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The state it ended in.
    pub status: JobStatus,
    /// When each state was entered, in milliseconds since the epoch.
    pub timestamps: BTreeMap<JobStatus, i64>,
    /// Why it failed, if it did.
    pub failure: Option<FailureView>,
}
/// Failures remembered that a job has survived; Flink's `web.exception-history-size`.
const PAST_FAILURES_MAX: usize = 16;

struct History {
    status: JobStatus,
    timestamps: BTreeMap<JobStatus, i64>,
    failure: Option<(FailureView, Error)>,
    /// Newest first.
    past_failures: VecDeque<FailureView>,
}

/// What is visible of one attempt to run a job.
#[derive(Default)]
pub(crate) struct Attempt {
    pub vertices: Vec<Vertex>,
    pub late: Vec<Arc<LateReporter>>,
    pub sources: Vec<ShownSource>,
    pub windows: Vec<WindowOperator>,
}

/// A wish about a running job.
pub(crate) enum JobRequest {
    /// A savepoint into this folder, or the configured one; and whether the job stops with it.
    Savepoint { target: Option<String>, stop: Option<Stop>, answer: oneshot::Sender<Result<TakenCheckpoint>> },
    /// A checkpoint now.
    Checkpoint { answer: oneshot::Sender<Result<TakenCheckpoint>> },
}

/// A job, as its tasks, its handle and the cluster share it.
pub(crate) struct Job {
    pub id: JobId,
    pub name: String,
    pub clock: Arc<dyn Clock>,
    /// The attempt that runs, or the last one.
    attempt: Mutex<Arc<Attempt>>,
    /// How often the job was restarted.
    restarts: AtomicU64,
    checkpoints: Mutex<CheckpointsView>,
    /// The account of what sinks publish.
    pub outputs: Arc<OutputBoard>,
    /// How checkpoints are taken; `None` if they cannot be.
    checkpoint_options: Option<CheckpointOptions>,
    checkpoint_history: Mutex<CheckpointHistory>,
    /// To whoever runs the job.
    pub requests: mpsc::UnboundedSender<JobRequest>,
    history: Mutex<History>,
    /// Turns true when a user asks for cancellation.
    pub cancel: watch::Sender<bool>,
    /// The job is stopped because its process ends, to go on in another.
    suspended: AtomicBool,
    /// Turns true when the job has reached its last state.
    pub done: watch::Sender<bool>,
}

impl Job {
    pub(crate) fn new(
        id: JobId,
        name: String,
        attempt: Attempt,
        clock: Arc<dyn Clock>,
        requests: mpsc::UnboundedSender<JobRequest>,
        checkpoint_options: Option<CheckpointOptions>,
        outputs: Arc<OutputBoard>,
    ) -> Self {
        let now = clock.now_ms();
        let timestamps = BTreeMap::from([(JobStatus::Initializing, now), (JobStatus::Created, now)]);
        Job {
            outputs,
            id,
            name,
            clock,
            attempt: Mutex::new(Arc::new(attempt)),
            restarts: AtomicU64::new(0),
            checkpoints: Mutex::default(),
            checkpoint_history: Mutex::new(CheckpointHistory::new(
                checkpoint_options.as_ref().map_or(0, |options| options.history),
            )),
            checkpoint_options,
            requests,
            history: Mutex::new(History {
                status: JobStatus::Created,
                timestamps,
                failure: None,
                past_failures: VecDeque::new(),
            }),
            cancel: watch::Sender::new(false),
            suspended: AtomicBool::new(false),
            done: watch::Sender::new(false),
        }
    }

    /// A job that ended in another process.
    pub(crate) fn ended(ended: EndedJob, clock: Arc<dyn Clock>) -> Self {
        let (requests, _) = mpsc::unbounded_channel();
        let outputs = Arc::new(OutputBoard::new(clock.clone()));
        let job = Job::new(ended.id, ended.name, Attempt::default(), clock, requests, None, outputs);
        // A failure's kind is known to the process it happened in alone.
        let failure = ended.failure.map(|view| (view.clone(), Error::job(view.message)));
        *job.history.lock().unwrap_or_else(PoisonError::into_inner) =
            History { status: ended.status, timestamps: ended.timestamps, failure, past_failures: VecDeque::new() };
        job.done.send_replace(true);
        job
    }

    /// The job as it ends now, in this state.
    pub(crate) fn ending(&self, status: JobStatus) -> EndedJob {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut timestamps = history.timestamps.clone();
        timestamps.insert(status, self.clock.now_ms());
        let failure = history.failure.as_ref().map(|(view, _)| view.clone()).filter(|_| status == JobStatus::Failed);
        EndedJob { id: self.id.clone(), name: self.name.clone(), status, timestamps, failure }
    }

    /// Whether the job has run in this process.
    pub(crate) fn has_run(&self) -> bool {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.timestamps.contains_key(&JobStatus::Running)
    }

    /// Whether the job stops only because its process ends.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::SeqCst)
    }

    /// The attempt that runs, or the last one.
    pub(crate) fn attempt(&self) -> Arc<Attempt> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another attempt takes over; all but the first are restarts.
    pub(crate) fn attempted(&self, attempt: Attempt, is_first: bool) {
        *self.attempt.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(attempt);
        self.restarts.fetch_add(u64::from(!is_first), Ordering::Relaxed);
    }

    /// How often the job was restarted.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// The job was restarted so often in other processes.
    pub(crate) fn restarted_before(&self, times: u64) {
        self.restarts.store(times, Ordering::Relaxed);
    }

    /// Changes what is visible of checkpoints.
    pub(crate) fn show_checkpoints(&self, change: impl FnOnce(&mut CheckpointsView)) {
        change(&mut self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Changes what is known of past checkpoints.
    pub(crate) fn with_checkpoint_history<T>(&self, change: impl FnOnce(&mut CheckpointHistory) -> T) -> T {
        change(&mut self.checkpoint_history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn status(&self) -> JobStatus {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).status
    }

    /// Enters a state.
    pub(crate) fn enter(&self, status: JobStatus) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.status = status;
        history.timestamps.insert(status, self.clock.now_ms());
    }

    /// Remembers why the job fails; the first reason stays.
    pub(crate) fn fail(&self, task: Option<String>, error: Error) {
        let failure = FailureView { message: error.to_string(), task, timestamp_ms: self.clock.now_ms() };
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.failure.get_or_insert((failure, error));
    }

    /// What went wrong last, if the job is not over: it is about to be tried again.
    pub(crate) fn forget_failure(&self) -> Option<String> {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let (view, _) = history.failure.take()?;
        let message = view.message.clone();
        history.past_failures.push_front(view);
        history.past_failures.truncate(PAST_FAILURES_MAX);
        Some(message)
    }

    fn result(&self) -> Result<JobSummary> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        match (history.status, &history.failure) {
            (JobStatus::Finished, _) => {
                drop(history);
                Ok(self.summary())
            }
            (JobStatus::Failed, Some((_, error))) => Err(error.clone()),
            (JobStatus::Canceled, _) => Err(Error::cancelled()),
            (status, _) => Err(Error::internal(format!("the job ended as {}", status.name()))),
        }
    }

    /// Sums a metric of every operator of a role; operators without it are left out.
    fn sums(&self, role: Option<Role>, metric: &str) -> Vec<OperatorRows> {
        let mut sums = Vec::new();
        for vertex in &self.attempt().vertices {
            for (position, (operator, found)) in vertex.operators.iter().enumerate() {
                if role.is_some_and(|role| role != *found) {
                    continue;
                }
                let rows = vertex.subtasks.iter().map(|s| metric_of(s, position, metric).unwrap_or(0) as u64);
                sums.push(OperatorRows { operator: operator.clone(), rows: rows.sum() });
            }
        }
        sums
    }

    fn summary(&self) -> JobSummary {
        let some = |sums: Vec<OperatorRows>| sums.into_iter().filter(|s| s.rows > 0).collect::<Vec<_>>();
        let attempt = self.attempt();
        let late =
            attempt.late.iter().map(|late| OperatorRows { operator: late.operator().to_owned(), rows: late.total() });
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let started = history.timestamps.values().min().copied().unwrap_or(0);
        let ended = history.timestamps.values().max().copied().unwrap_or(0);
        drop(history);
        JobSummary {
            id: self.id.clone(),
            name: self.name.clone(),
            duration_ms: ended - started,
            read: self.sums(Some(Role::Source), "numRecordsIn"),
            written: self.sums(Some(Role::Sink), "numRecordsOut"),
            late: some(late.collect()),
            null_rowtime: some(self.sums(Some(Role::Source), "numNullRowtimeDropped")),
            null_constraint: some(self.sums(Some(Role::Sink), "numNullRecordsDropped")),
        }
    }
}

fn metric_of(subtask: &Subtask, operator: usize, metric: &str) -> Option<i64> {
    let (_, group) = subtask.operators.get(operator)?;
    group.snapshot().into_iter().find(|(name, _)| name == metric).map(|(_, value)| value)
}

/// A submitted job. Cloning gives another handle to the same job; dropping one does nothing to it.
#[derive(Clone)]
pub struct JobHandle {
    pub(crate) job: Arc<Job>,
}

impl JobHandle {
    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.job.id
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.job.name
    }

    /// The state the job is in.
    pub fn status(&self) -> JobStatus {
        self.job.status()
    }

    /// Waits for the job's end, from any runtime. A failed job is its error (the vertex and subtask
    /// are in its context), a cancelled one an error of kind [`tidegate_api::ErrorKind::Cancelled`].
    pub async fn wait(&self) -> Result<JobSummary> {
        let mut done = self.job.done.subscribe();
        // The sender lives in the job that this handle holds.
        let _ = done.wait_for(|done| *done).await;
        self.job.result()
    }

    /// Asks the job to stop where it is. Returns at once; [`JobHandle::wait`] tells when it has. An
    /// error if the job has ended already.
    pub fn cancel(&self) -> Result<()> {
        let status = self.status();
        if status.is_terminal() {
            return Err(Error::invalid(format!(
                "Job cancellation failed because the job has already reached another terminal state ({}).",
                status.name()
            )));
        }
        self.job.cancel.send_replace(true);
        Ok(())
    }

    /// Stops the job because its process ends: it counts as running, keeps its checkpoints, and goes on from them
    /// in another process.
    pub fn suspend(&self) {
        self.job.suspended.store(true, Ordering::SeqCst);
        self.job.cancel.send_replace(true);
    }

    /// Whether the job was stopped by [`JobHandle::suspend`].
    pub fn is_suspended(&self) -> bool {
        self.job.is_suspended()
    }

    /// Takes a savepoint into a folder under `target`, or under the configured one, and says where. With
    /// `stop` the job ends with it.
    pub async fn savepoint(&self, target: Option<String>, stop: Option<Stop>) -> Result<String> {
        let (answer, answered) = oneshot::channel();
        let taken = self.ask(JobRequest::Savepoint { target, stop, answer }, answered).await?;
        Ok(taken.location)
    }

    /// Takes a checkpoint now and says where it is.
    pub async fn checkpoint(&self) -> Result<TakenCheckpoint> {
        let (answer, answered) = oneshot::channel();
        self.ask(JobRequest::Checkpoint { answer }, answered).await
    }

    async fn ask(
        &self,
        request: JobRequest,
        answered: oneshot::Receiver<Result<TakenCheckpoint>>,
    ) -> Result<TakenCheckpoint> {
        let over = || {
            let status = self.status();
            Error::invalid(format!("Job {} is not running any more ({}).", self.id(), status.name()))
        };
        if self.status().is_terminal() || self.job.requests.send(request).is_err() {
            return Err(over());
        }
        answered.await.unwrap_or_else(|_| Err(over()))
    }

    /// The job's checkpoints so far.
    pub fn checkpoints(&self) -> CheckpointsView {
        self.job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the job takes checkpoints, and what became of them; `None` if it can take none.
    pub fn checkpoint_statistics(&self) -> Option<CheckpointStatistics> {
        let options = self.job.checkpoint_options.clone()?;
        Some(CheckpointStatistics { options, history: self.job.with_checkpoint_history(|history| history.clone()) })
    }

    /// How often the job was restarted.
    pub fn restarts(&self) -> u64 {
        self.job.restarts()
    }

    /// What its exactly-once sinks have published, and what is pending.
    pub fn outputs(&self) -> OutputsView {
        self.job.outputs.view()
    }

    /// What the job has done so far.
    pub fn summary(&self) -> JobSummary {
        self.job.summary()
    }

    /// The job at this moment.
    pub fn view(&self) -> JobView {
        let attempt = self.job.attempt();
        let vertices = attempt.vertices.iter().map(|vertex| VertexView {
            id: vertex.id.clone(),
            name: vertex.name.clone(),
            description: vertex.description.clone(),
            parallelism: vertex.subtasks.len(),
            inputs: vertex.inputs.clone(),
            subtasks: vertex.subtasks.iter().map(|subtask| subtask.view()).collect(),
        });
        let vertices = vertices.collect();
        let history = self.job.history.lock().unwrap_or_else(PoisonError::into_inner);
        JobView {
            id: self.job.id.to_string(),
            name: self.job.name.clone(),
            status: history.status,
            timestamps: history.timestamps.clone(),
            vertices,
            failure: history.failure.as_ref().map(|(view, _)| view.clone()),
            past_failures: history.past_failures.iter().cloned().collect(),
            restarts: self.restarts(),
        }
    }

    /// What event time does in the job at this moment: splits, open windows, late rows.
    pub fn event_time(&self) -> EventTimeView {
        let attempt = self.job.attempt();
        let sources = attempt.sources.iter();
        EventTimeView {
            // Windows first: a row counted there has been counted at its source before.
            windows: attempt.windows.iter().map(WindowOperator::view).collect(),
            sources: sources.map(|s| SourceView { name: s.name.clone(), splits: s.splits.view() }).collect(),
        }
    }

    /// How far each source has come.
    pub fn sources(&self) -> Vec<SourceProgress> {
        let attempt = self.job.attempt();
        let heads = attempt.vertices.iter().filter(|v| v.operators.first().is_some_and(|(_, r)| *r == Role::Source));
        let progress = heads.map(|vertex| {
            let metric = |name: &'static str| vertex.subtasks.iter().filter_map(move |s| metric_of(s, 0, name));
            // A finished subtask does not hold time back.
            let running = vertex.subtasks.iter().filter(|s| s.state() != ExecutionState::Finished);
            let watermarks = running.filter_map(|s| metric_of(s, 0, "currentOutputWatermark"));
            SourceProgress {
                name: vertex.operators[0].0.clone(),
                rows: metric("numRecordsIn").sum::<i64>() as u64,
                watermark: watermarks.min().unwrap_or(Watermark::MAX.timestamp()),
            }
        });
        progress.collect()
    }
}
