//! The mark that cuts streams in two: what came before it is in the checkpoint, what comes after is not.

use serde::{Deserialize, Serialize};

use crate::ids::CheckpointId;

/// A mark in a stream. It carries an id, a timestamp and a kind; nothing else, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// Which checkpoint.
    pub id: CheckpointId,
    /// When the coordinator triggered it, milliseconds since the epoch. The alignment timeout counts
    /// from here, so that time spent in queues on the way counts too.
    pub timestamp_ms: i64,
    /// What it is for.
    pub kind: BarrierKind,
}

/// What a barrier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierKind {
    /// A checkpoint for recovery.
    Checkpoint(Alignment),
    /// A savepoint; always aligned, and what comes after it if it ends the job.
    Savepoint {
        /// Whether the job stops with it.
        stop: Option<Stop>,
    },
}

impl BarrierKind {
    /// How inputs wait for each other.
    pub fn alignment(self) -> Alignment {
        match self {
            BarrierKind::Checkpoint(alignment) => alignment,
            BarrierKind::Savepoint { .. } => Alignment::Aligned,
        }
    }

    /// True for savepoints.
    pub fn is_savepoint(self) -> bool {
        matches!(self, BarrierKind::Savepoint { .. })
    }

    /// How the job ends with it, if it does (a synchronous savepoint in Flink's words).
    pub fn stop(self) -> Option<Stop> {
        match self {
            BarrierKind::Savepoint { stop } => stop,
            BarrierKind::Checkpoint(_) => None,
        }
    }
}

/// How a job ends with a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Sources stop; open windows stay in the state. The job can be resumed from the savepoint.
    Suspend,
    /// Sources send the highest watermark first, so that all windows fire (`--drain`).
    Drain,
}

/// How the inputs of a subtask wait for each other at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// An input that delivered the barrier is blocked until all have.
    Aligned,
    /// Aligned, but unaligned once this many milliseconds have passed since the barrier's timestamp.
    Timeout(i64),
    /// The first barrier overtakes what is queued, and what it overtook becomes state.
    Unaligned,
    /// Nobody is blocked: rows between the first and the last barrier are repeated after a recovery
    /// (`AT_LEAST_ONCE`).
    AtLeastOnce,
}
