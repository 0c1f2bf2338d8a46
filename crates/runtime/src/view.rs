//! What others may see of jobs: plain snapshots, taken while the job runs, that REST, the progress
//! line and tests read. Nothing here is live: a view never blocks the data plane.

use std::collections::BTreeMap;

use tidegate_api::graph::Partitioner;

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
    /// A user's cancellation is under way.
    Cancelling,
    /// Ended by a user's cancellation.
    Canceled,
    /// Ended by itself.
    Finished,
}

impl JobStatus {
    /// All states, in Flink's spelling order of life.
    pub const ALL: [JobStatus; 8] = [
        JobStatus::Initializing,
        JobStatus::Created,
        JobStatus::Running,
        JobStatus::Failing,
        JobStatus::Failed,
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
