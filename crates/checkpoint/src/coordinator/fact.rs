//! What the coordinator is told.

use crate::barrier::Stop;
use crate::coordinator::{AckMetrics, RestoredFrom};
use crate::ids::{CheckpointId, TaskId};
use crate::manifest::TaskSnapshot;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Time has passed.
    Tick,
    /// Every task runs and has its state back. These were restored as finished.
    AllRestored {
        /// Finished tasks with what they said last.
        finished: Vec<(TaskId, TaskSnapshot)>,
        /// What it was restored from, if it was.
        from: Option<RestoredFrom>,
    },
    /// Somebody asks for a checkpoint now.
    CheckpointRequested {
        /// Comes back in the answer.
        request: u64,
    },
    /// Somebody asks for a savepoint.
    SavepointRequested {
        /// Comes back in the answer.
        request: u64,
        /// The folder to put it in.
        target: String,
        /// Whether and how the job stops with it.
        stop: Option<Stop>,
    },
    /// A task has written its part of a checkpoint.
    Acknowledged {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskId,
        /// What it keeps.
        snapshot: TaskSnapshot,
        /// How long that took and how large it is.
        metrics: AckMetrics,
    },
    /// A task cannot take part in a checkpoint.
    Declined {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Which task.
        task: TaskId,
        /// Why.
        reason: DeclineReason,
    },
    /// A task has read its inputs to the end, has sent the end on, and waits for a checkpoint to
    /// complete so that it can commit what it staged last.
    TaskEnded {
        /// Which task.
        task: TaskId,
    },
    /// A task is finished; it owes nothing.
    TaskFinished {
        /// Which task.
        task: TaskId,
        /// What every later manifest says of it. Its files must not be a checkpoint's own
        /// ([`crate::manifest::FilePlace::Exclusive`]), for they outlive it.
        last: TaskSnapshot,
    },
    /// The manifest of a checkpoint is stored: it exists.
    ManifestStored {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Where, as users name it.
        location: String,
    },
    /// The manifest could not be stored.
    ManifestFailed {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        error: String,
        /// False if it may be there all the same: then its files stay.
        is_absent: bool,
    },
    /// A task failed, and so the attempt. Tasks are being stopped.
    JobFailed,
    /// The job has ended or was cancelled.
    Stopped,
}

/// Why a task declines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclineReason {
    /// Its state could not be written.
    SnapshotFailed(String),
    /// It does not run yet, or not any more.
    NotRunning,
    /// The barrier of a later checkpoint came first.
    Superseded,
    /// It was told that the checkpoint is over.
    Cancelled,
}
