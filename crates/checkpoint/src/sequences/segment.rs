//! Segments, and what a checkpoint keeps of a transactional id.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::CheckpointId;
use crate::manifest::FileRef;

/// The names a sink's subtask writes under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SinkName {
    /// Transactional id.
    pub transactional_id: String,
    /// Consumer group whose committed offset is the sequence.
    pub group: String,
}

impl SinkName {
    /// The names of subtask `subtask` under a prefix (`sink.transactional-id-prefix`).
    pub fn new(prefix: &str, subtask: u32) -> SinkName {
        let transactional_id = format!("{prefix}-{subtask}");
        SinkName { group: format!("eos.{transactional_id}"), transactional_id }
    }
}

/// What the sink has staged, before it has a place in the order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staged {
    /// Rows.
    pub rows: u64,
    /// Bytes as staged.
    pub bytes: u64,
    /// The source positions it came from, for messages about lost or doubled rows.
    pub sources: Value,
    /// The connector's own data.
    pub data: Value,
    /// The files with the encoded rows.
    pub files: Vec<FileRef>,
}

/// Rows to be written in one transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Where it is written under.
    pub name: SinkName,
    /// Its place in the order of its transactional id, from 1.
    pub sequence: u64,
    /// The checkpoint at whose barrier it was staged: it may be written once that one, or a later one,
    /// is complete.
    pub checkpoint: CheckpointId,
    /// A random number, written along with the sequence: tells this segment from one that another
    /// history of the job wrote under the same sequence.
    pub token: u64,
    /// What it consists of.
    pub staged: Staged,
}

impl Segment {
    /// The metadata of the committed offset.
    pub fn metadata(&self) -> String {
        format!("{:016x}", self.token)
    }
}

/// A committed offset, as a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The sequence.
    pub sequence: u64,
    /// The token of the segment that was written last; `None` if the offset came from elsewhere.
    pub token: Option<u64>,
}

impl Committed {
    /// Reads an offset and its metadata; an offset below 0 is none.
    pub fn parse(offset: i64, metadata: &str) -> Option<Committed> {
        let sequence = u64::try_from(offset).ok()?;
        Some(Committed { sequence, token: u64::from_str_radix(metadata, 16).ok() })
    }
}

/// What a checkpoint keeps of a transactional id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneState {
    /// The id and its group.
    pub name: SinkName,
    /// The highest sequence that was ever given away.
    pub highest: u64,
    /// The highest sequence known to be written; a later read must not find less.
    pub confirmed: u64,
    /// When that was written, milliseconds since the epoch, or earlier.
    pub confirmed_ms: Option<i64>,
    /// Segments not known to be written, in order.
    pub pending: Vec<Segment>,
}
