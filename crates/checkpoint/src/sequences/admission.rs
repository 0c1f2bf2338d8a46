//! How much may be staged.

use std::collections::BTreeSet;

use crate::sequences::Segment;

/// Limits of one sink subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Staged bytes above which the sink waits, or asks for a checkpoint.
    pub bytes: u64,
    /// Checkpoints with segments not written above which it does the same.
    pub checkpoints: usize,
    /// Staged bytes above which the job fails: no checkpoint has completed for very long.
    pub bytes_max: u64,
    /// Rows of a segment.
    pub segment_rows: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            bytes: 1 << 30,
            checkpoints: 100,
            bytes_max: 8 << 30,
            // Fits well into a transaction of a minute at a million rows a second.
            segment_rows: 20_000_000,
            segment_bytes: 1 << 30,
        }
    }
}

/// Whether a sink may take more rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Open,
    /// Yes, and a checkpoint should begin now: nothing staged can be written before one completes. The
    /// sink must go on reading, for the barrier is behind rows in its queues; these are bounded.
    AskCheckpoint,
    /// No: wait until a segment is written. Only while there are some that may be.
    Wait {
        /// For messages and metrics.
        reason: String,
    },
    /// Never: fail the job.
    Full {
        /// What to say.
        reason: String,
    },
}

impl Caps {
    pub(super) fn admit<'a>(
        &self,
        pending: impl Iterator<Item = &'a Segment>,
        released: usize,
        open_bytes: u64,
    ) -> Admission {
        let (mut bytes, mut checkpoints) = (open_bytes, BTreeSet::new());
        for segment in pending {
            bytes = bytes.saturating_add(segment.staged.bytes);
            checkpoints.insert(segment.checkpoint);
        }
        let checkpoints = checkpoints.len();
        if bytes <= self.bytes && checkpoints <= self.checkpoints {
            return Admission::Open;
        }
        let held = format!("{bytes} bytes of {checkpoints} checkpoints are staged and not written to Kafka");
        if released > 0 {
            return Admission::Wait {
                reason: format!("{held}, more than {} bytes or {} checkpoints", self.bytes, self.checkpoints),
            };
        }
        if bytes > self.bytes_max {
            return Admission::Full {
                reason: format!(
                    "{held}, more than the {} that are allowed, because no checkpoint completes. Find out why, or \
                     raise 'tidegate.sink.staged-bytes-max'.",
                    self.bytes_max
                ),
            };
        }
        Admission::AskCheckpoint
    }
}
