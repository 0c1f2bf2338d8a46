//! What the subtask has to do.

use crate::barrier::Barrier;
use crate::ids::CheckpointId;

/// One thing to do, in the order given, before anything else is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read nothing more from this input.
    Block(usize),
    /// Read from this input again.
    Unblock(usize),
    /// Persist the elements queued on this input: those before the barrier if it is in the queue, else
    /// all, and then each that arrives for as long as [`super::Aligner::recording`] names the
    /// checkpoint. They are processed as well, later, as ever.
    Record {
        /// The input.
        channel: usize,
        /// The checkpoint they belong to.
        checkpoint: CheckpointId,
    },
    /// Take the state as it is now, and send this barrier on before anything else. Its kind may have
    /// changed to unaligned.
    Snapshot(Barrier),
    /// Every barrier was seen: what was recorded is complete, and the checkpoint can be acknowledged
    /// when the snapshot is written.
    Done(CheckpointId),
    /// Forget this checkpoint and decline it; discard what was recorded for it.
    Abandon {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        reason: AbandonReason,
    },
}

/// Why a subtask gives up a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// The barrier of a later one came first.
    Superseded {
        /// The later one.
        by: CheckpointId,
    },
    /// The coordinator gave it up.
    Cancelled,
}
