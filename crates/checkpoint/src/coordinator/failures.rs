//! How many checkpoints in a row may fail.

use std::collections::BTreeSet;

use crate::ids::CheckpointId;

/// Counts failures since the last success, each checkpoint once.
#[derive(Clone, Debug)]
pub(super) struct Failures {
    tolerable: u32,
    counted: BTreeSet<CheckpointId>,
    last_success: Option<CheckpointId>,
}

impl Failures {
    pub(super) fn new(tolerable: u32) -> Failures {
        Failures { tolerable, counted: BTreeSet::new(), last_success: None }
    }

    /// A checkpoint failed in a way that counts; true if that is one too many, and then counting
    /// begins anew. One older than the last success says nothing about now.
    pub(super) fn failed(&mut self, checkpoint: CheckpointId) -> bool {
        if Some(checkpoint) > self.last_success {
            self.counted.insert(checkpoint);
        }
        let exceeded = self.counted.len() > self.tolerable as usize;
        if exceeded {
            self.counted.clear();
        }
        exceeded
    }

    pub(super) fn succeeded(&mut self, checkpoint: CheckpointId) {
        if Some(checkpoint) > self.last_success {
            self.last_success = Some(checkpoint);
            self.counted.clear();
        }
    }
}
