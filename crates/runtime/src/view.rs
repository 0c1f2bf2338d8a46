//! What others may see of jobs: plain snapshots, taken while the job runs, that REST, the progress
//! line, the demo and tests read. Nothing here is live: a view never blocks the data plane.
//!
//! [`EventTimeView`] answers why a window is not there yet: what it needs, what it has, and which split
//! of which source holds the watermark back.

use std::collections::BTreeMap;

use tidegate_api::graph::Partitioner;
use tidegate_checkpoint::coordinator::History;
use tidegate_checkpoint::options::CheckpointOptions;

/// Flink's job states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobStatus {
    /// Accepted, nothing runs yet.
    Initializing,
    /// The execution graph exists.
    Created,
    /// Subtasks run.
    Running,
    /// A subtask failed; the others are being cancelled.
    Failing,
    /// Ended by a failure.
    Failed,
    /// Waiting to be tried again after a failure.
    Restarting,
    /// A user's cancellation is under way.
    Cancelling,
    /// Ended by a user's cancellation.
    Canceled,
    /// Ended by itself.
    Finished,
}

impl JobStatus {
    /// All states, in Flink's spelling order of life.
    pub const ALL: [JobStatus; 9] = [
        JobStatus::Initializing,
        JobStatus::Created,
        JobStatus::Running,
        JobStatus::Failing,
        JobStatus::Failed,
        JobStatus::Restarting,
        JobStatus::Cancelling,
        JobStatus::Canceled,
        JobStatus::Finished,
    ];

    /// The name REST shows: `RUNNING`.
    pub fn name(self) -> &'static str {
        match self {
            JobStatus::Initializing => "INITIALIZING",
            JobStatus::Created => "CREATED",
            JobStatus::Running => "RUNNING",
            JobStatus::Failing => "FAILING",
            JobStatus::Failed => "FAILED",
            JobStatus::Restarting => "RESTARTING",
            JobStatus::Cancelling => "CANCELLING",
            JobStatus::Canceled => "CANCELED",
            JobStatus::Finished => "FINISHED",
        }
    }

    /// True if the job will not change state any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobStatus::Failed | JobStatus::Canceled | JobStatus::Finished)
    }
}

/// Flink's states of one subtask (the ones an engine without a resource manager goes through).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutionState {
    /// Not started yet.
    Created,
    /// Building operators, finding splits.
    Initializing,
    /// Processing.
    Running,
    /// Ended by itself.
    Finished,
    /// Being cancelled.
    Canceling,
    /// Cancelled.
    Canceled,
    /// Failed.
    Failed,
}

impl ExecutionState {
    /// The name REST shows.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionState::Created => "CREATED",
            ExecutionState::Initializing => "INITIALIZING",
            ExecutionState::Running => "RUNNING",
            ExecutionState::Finished => "FINISHED",
            ExecutionState::Canceling => "CANCELING",
            ExecutionState::Canceled => "CANCELED",
            ExecutionState::Failed => "FAILED",
        }
    }
}

/// A job at one moment.
#[derive(Clone, Debug)]
pub struct JobView {
    /// 32 hex digits.
    pub id: String,
    /// Job name.
    pub name: String,
    /// State.
    pub status: JobStatus,
    /// When each state was entered, in milliseconds since the epoch.
    pub timestamps: BTreeMap<JobStatus, i64>,
    /// Vertices, sources first.
    pub vertices: Vec<VertexView>,
    /// Why it failed, if it did.
    pub failure: Option<FailureView>,
    /// Why it was started again, newest first; only the last few.
    pub past_failures: Vec<FailureView>,
    /// How often it was started again.
    pub restarts: u64,
}

/// Why a job failed.
#[derive(Clone, Debug)]
pub struct FailureView {
    /// The error's text.
    pub message: String,
    /// Name of the vertex it came from, with subtask: `Source: clicks[1] (1/2)`.
    pub task: Option<String>,
    /// When, in milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// A vertex: a chain of operators, run by `parallelism` subtasks.
#[derive(Clone, Debug)]
pub struct VertexView {
    /// 32 hex digits.
    pub id: String,
    /// Operator names joined by ` -> `.
    pub name: String,
    /// Descriptions of its operators, in chain order, each with its depth in the chain.
    pub description: Vec<(usize, String)>,
    /// Number of subtasks.
    pub parallelism: usize,
    /// Vertices it reads from.
    pub inputs: Vec<VertexInput>,
    /// One entry per subtask.
    pub subtasks: Vec<SubtaskView>,
}

/// An edge into a vertex.
#[derive(Clone, Debug)]
pub struct VertexInput {
    /// Id of the vertex that sends.
    pub vertex: String,
    /// How rows are spread.
    pub partitioner: Partitioner,
}

/// One subtask of a vertex.
#[derive(Clone, Debug)]
pub struct SubtaskView {
    /// State.
    pub state: ExecutionState,
    /// When each state was entered, in milliseconds since the epoch.
    pub timestamps: BTreeMap<ExecutionState, i64>,
    /// Metrics of the task itself (`numRecordsIn`, `busyTimeMsPerSecond`, ...).
    pub task_metrics: Vec<(String, i64)>,
    /// Operator name and its metrics, in chain order.
    pub operators: Vec<(String, Vec<(String, i64)>)>,
}

/// How far a source has come, for the progress line.
#[derive(Clone, Debug)]
pub struct SourceProgress {
    /// Source operator's name.
    pub name: String,
    /// Rows read by all its subtasks.
    pub rows: u64,
    /// The least watermark of its subtasks; `i64::MIN` before the first.
    pub watermark: i64,
}

/// Event time in a job at one moment: how far each split has come, what open windows wait for, what came
/// too late.
///
/// The parts are read one after the other while the job runs, so their sums agree once rows stand still:
/// then every row a source has read is in a closed window, in an open one, or late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTimeView {
    /// The sources, in the order of the job graph.
    pub sources: Vec<SourceView>,
    /// The operators that close windows, in the order of the job graph.
    pub windows: Vec<WindowOperatorView>,
}

/// A source and its splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceView {
    /// Source operator's name.
    pub name: String,
    /// The splits given to its subtasks so far, by subtask.
    pub splits: Vec<SplitView>,
}

impl SourceView {
    /// The split that holds the watermark back: the lowest of those that count. `None` if none counts.
    pub fn holding(&self) -> Option<&SplitView> {
        self.splits.iter().filter(|split| split.counts).min_by_key(|split| split.watermark)
    }
}

/// A split of a source: a Kafka partition, a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitView {
    /// Its name: `clicks-0`, a file path.
    pub name: String,
    /// The subtask that reads it.
    pub subtask: usize,
    /// Rows read.
    pub rows: u64,
    /// The highest event time so far, in milliseconds; `None` without rows or without event time.
    pub max_event_time: Option<i64>,
    /// Its own watermark, in milliseconds; `None` as long as it has none, and the source has none either.
    pub watermark: Option<i64>,
    /// Whether it counts towards the source's watermark: not if it is idle or finished, or has come back from
    /// idleness and not caught up yet.
    pub counts: bool,
    /// When the last rows came, by the wall clock; `None` before the first.
    pub last_row_ms: Option<i64>,
    /// Since when it has been left out as idle, by the wall clock.
    pub idle_since_ms: Option<i64>,
    /// Read to its end.
    pub finished: bool,
}

/// An operator that closes windows, over all its subtasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowOperatorView {
    /// Operator name.
    pub operator: String,
    /// Names of the sources its rows come from.
    pub sources: Vec<String>,
    /// The lowest watermark of its subtasks; `None` before each has one.
    pub watermark: Option<i64>,
    /// Windows closed so far. A session of each key is a window of its own.
    pub closed: u64,
    /// Windows that hold rows and have not closed. If there are more than a subtask shows, this is the least
    /// number there can be.
    pub open: usize,
    /// The open windows that close next.
    pub nearest: Vec<OpenWindowView>,
    /// Rows dropped as late so far.
    pub late_rows: u64,
    /// The windows they were for, the one that lost a row last at the end. Only so many are remembered.
    pub late: Vec<LateWindowView>,
}

/// A window that has not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWindowView {
    /// Start, on the window grid (local time for windows over `TIMESTAMP_LTZ`), in milliseconds.
    pub start: i64,
    /// End, exclusive.
    pub end: i64,
    /// The watermark that closes it, an instant in milliseconds.
    pub closes_at: i64,
    /// Rows in it.
    pub rows: i64,
}

/// Late rows of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateWindowView {
    /// Start of the window they missed.
    pub start: i64,
    /// Its end, exclusive.
    pub end: i64,
    /// How many.
    pub rows: u64,
    /// The operator's watermark when it dropped the last of them.
    pub watermark: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, watermark: Option<i64>, counts: bool) -> SplitView {
        SplitView {
            name: name.into(),
            subtask: 0,
            rows: 0,
            max_event_time: watermark,
            watermark,
            counts,
            last_row_ms: None,
            idle_since_ms: None,
            finished: false,
        }
    }

    #[test]
    fn the_lowest_split_that_counts_holds() {
        let source = |splits| SourceView { name: "s".into(), splits };
        let of = |splits| source(splits).holding().map(|s| s.name.clone());
        assert_eq!(of(vec![split("a", Some(5), true), split("b", Some(3), true)]).as_deref(), Some("b"));
        assert_eq!(of(vec![split("a", Some(5), true), split("b", Some(3), false)]).as_deref(), Some("a"));
        let never_spoke = vec![split("a", Some(5), true), split("b", None, true)];
        assert_eq!(of(never_spoke).as_deref(), Some("b"));
        assert_eq!(of(vec![split("a", Some(5), false)]), None);
    }
}

/// The checkpoints of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointsView {
    /// Complete ones since the start, savepoints among them.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
    /// Ids of those in progress, with when they were triggered, milliseconds since the epoch.
    pub in_progress: BTreeMap<u64, i64>,
    /// The newest complete one.
    pub latest: Option<CompletedCheckpoint>,
    /// Why the last one that failed did.
    pub latest_failure: Option<String>,
    /// The checkpoint the job went on from last.
    pub restored: Option<u64>,
}

/// A complete checkpoint or savepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedCheckpoint {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub location: String,
    /// Whether it is a savepoint.
    pub is_savepoint: bool,
    /// When it was triggered, milliseconds since the epoch.
    pub triggered_ms: i64,
    /// How long it took, milliseconds.
    pub duration_ms: i64,
    /// Bytes of all its files, those of earlier checkpoints included.
    pub bytes: u64,
}

/// A checkpoint or savepoint that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenCheckpoint {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub location: String,
}

/// How a job takes checkpoints, and what became of them over all its attempts. Tasks are named by the position of
/// their vertex in [`JobView::vertices`].
#[derive(Clone, Debug)]
pub struct CheckpointStatistics {
    /// As configured.
    pub options: CheckpointOptions,
    /// The last ones in detail, all in numbers.
    pub history: History,
}
