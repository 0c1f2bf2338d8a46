//! What is to be done.

use std::fmt;

use crate::barrier::Barrier;
use crate::coordinator::DeclineReason;
use crate::ids::{CheckpointId, TaskId};
use crate::manifest::{Manifest, TaskSnapshot};

/// Something to do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send the barrier to these tasks: sources, and tasks all of whose senders have ended. The same
    /// barrier may be sent to more tasks later.
    Trigger {
        /// The barrier.
        barrier: Barrier,
        /// The tasks.
        tasks: Vec<TaskId>,
    },
    /// Store this manifest and report how it went.
    StoreManifest {
        /// What to store.
        manifest: Box<Manifest>,
        /// The folder a savepoint goes to; `None` for checkpoints.
        target: Option<String>,
    },
    /// The checkpoint is complete. It is where a failed job restarts from now on; the retained ones
    /// that are too many go; and the tasks are told, so that they commit.
    Complete {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Where.
        location: String,
        /// True for a savepoint that stops the job: it belongs to the user and is never deleted.
        is_savepoint: bool,
        /// The tasks to tell.
        tasks: Vec<TaskId>,
    },
    /// Tell these tasks that a checkpoint is over.
    NotifyAborted {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// The tasks.
        tasks: Vec<TaskId>,
        /// Why.
        reason: AbortReason,
    },
    /// Files that only this checkpoint named may go: it will never exist. Once for each that is given up,
    /// unless its manifest may exist, and again for acknowledgements that come late.
    Discard {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What tasks had acknowledged.
        snapshots: Vec<TaskSnapshot>,
    },
    /// A checkpoint whose manifest was stored after that of a later one: delete it like any subsumed
    /// one.
    Drop {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Answer a request.
    Answer {
        /// Which request.
        request: u64,
        /// Id and location, or why not.
        result: Result<(CheckpointId, String), AbortReason>,
    },
    /// Too many checkpoints failed: the job fails, and its restart strategy decides.
    FailJob {
        /// Why.
        reason: String,
    },
    /// Stopping the job failed when it could not go on any more: restart it from the last checkpoint.
    /// Not a failure of the job: it does not count for the restart strategy.
    RestartJob {
        /// Why.
        reason: String,
    },
    /// Tell the user.
    Warn {
        /// What.
        text: String,
    },
}

/// Why a checkpoint is no more. Texts are Flink's where it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// It took too long.
    Expired {
        /// Tasks that had not acknowledged, the first few.
        missing: Vec<TaskId>,
        /// How many they are.
        missing_count: usize,
    },
    /// A task declined.
    Declined(TaskId, DeclineReason),
    /// The manifest could not be stored.
    StoringFailed(String),
    /// A later checkpoint completed first.
    Subsumed {
        /// The later one.
        by: CheckpointId,
    },
    /// The job failed.
    JobFailed,
    /// The job is over.
    Stopped,
    /// The job is stopping with a savepoint already.
    Stopping,
    /// Not all tasks run.
    NotRunning,
    /// Too many requests wait.
    TooManyRequests,
}

impl AbortReason {
    /// True if it counts against `tolerable-failed-checkpoints` (Flink's rule): what went wrong with
    /// this checkpoint, not what made it superfluous.
    pub fn counts(&self) -> bool {
        matches!(
            self,
            AbortReason::Expired { .. }
                | AbortReason::StoringFailed(_)
                | AbortReason::Declined(_, DeclineReason::SnapshotFailed(_))
        )
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbortReason::Expired { missing, missing_count } => {
                write!(f, "Checkpoint expired before completing. {missing_count} tasks had not acknowledged it")?;
                for (i, task) in missing.iter().enumerate() {
                    write!(f, "{} {task}", if i == 0 { ":" } else { "," })?;
                }
                Ok(())
            }
            AbortReason::Declined(task, DeclineReason::SnapshotFailed(error)) => {
                write!(f, "Checkpoint was declined: {task} could not write its state: {error}")
            }
            AbortReason::Declined(task, DeclineReason::NotRunning) => {
                write!(f, "Checkpoint was declined: {task} is not running")
            }
            AbortReason::Declined(task, DeclineReason::Superseded) => {
                write!(f, "Checkpoint was declined: {task} saw the barrier of a newer checkpoint first")
            }
            AbortReason::Declined(task, DeclineReason::Cancelled) => {
                write!(f, "Checkpoint was declined: {task} was told it is cancelled")
            }
            AbortReason::StoringFailed(error) => write!(f, "Failure to finalize checkpoint. {error}"),
            AbortReason::Subsumed { by } => write!(f, "Checkpoint has been subsumed by checkpoint {by}."),
            AbortReason::JobFailed => f.write_str("Failure of the job."),
            AbortReason::Stopped => f.write_str("CheckpointCoordinator shutdown: the job is over."),
            AbortReason::Stopping => f.write_str("The job is stopping with a savepoint already."),
            AbortReason::NotRunning => f.write_str("Not all required tasks are currently running."),
            AbortReason::TooManyRequests => f.write_str("The maximum number of queued checkpoint requests exceeded."),
        }
    }
}
