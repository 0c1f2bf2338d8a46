//! What a checkpoint consists of: the one file that makes it exist.
//!
//! A manifest names every operator by its stable id and, for each of its subtasks, what was
//! acknowledged: run sets of keyed state, positions of splits, the watermark, what a sink has staged,
//! and what an unaligned barrier overtook. What these contain is the business of the runtime, the
//! stores and the connectors: here it is opaque JSON. The *files* they need are not opaque, for
//! somebody has to count them.
//!
//! On disk (`_metadata`):
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `TIDECKPT` |
//! | 4 | format version, little-endian |
//! | 8 | length of the body, little-endian |
//! | n | body: JSON |
//! | 8 | XXH3-64 of all bytes before, little-endian |

mod codec;
mod entry;
mod error;
mod file;
mod validate;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use codec::{FORMAT_VERSION, decode, encode};
pub use entry::{
    Committable, InFlight, KeyGroupRange, OperatorEntry, SplitPosition, StateKind, StateSchema, SubtaskEntry,
    TaskSnapshot,
};
pub use error::ManifestError;
pub use file::{FilePlace, FileRef};

use crate::barrier::BarrierKind;
use crate::ids::{CheckpointId, JobId, OperatorId};

/// A complete checkpoint or savepoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its number.
    pub checkpoint: CheckpointId,
    /// What it was taken for, as the barrier said.
    pub kind: BarrierKind,
    /// The job that took it.
    pub job: JobId,
    /// That job's name.
    pub job_name: String,
    /// Who wrote it: `tidegate 0.1.0`.
    pub engine: String,
    /// When it was triggered, milliseconds since the epoch.
    pub triggered_ms: i64,
    /// When the last acknowledgement came, milliseconds since the epoch.
    pub acknowledged_ms: i64,
    /// What each operator keeps.
    pub operators: BTreeMap<OperatorId, OperatorEntry>,
}

impl Manifest {
    /// Every file it needs, in the order of operators and subtasks; a file may come twice.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.operators.values().flat_map(|operator| operator.subtasks.iter()).flat_map(SubtaskEntry::files)
    }

    /// The same, to be changed.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        self.operators.values_mut().flat_map(|operator| operator.subtasks.iter_mut()).flat_map(SubtaskEntry::files_mut)
    }

    /// Bytes of all its files, each counted once.
    pub fn bytes(&self) -> u64 {
        let distinct: BTreeMap<(FilePlace, &str), u64> =
            self.files().map(|file| ((file.place, file.path.as_str()), file.bytes)).collect();
        distinct.values().sum()
    }

    /// True for a savepoint.
    pub fn is_savepoint(&self) -> bool {
        self.kind.is_savepoint()
    }
}
