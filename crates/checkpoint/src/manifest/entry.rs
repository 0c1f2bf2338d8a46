//! What one operator, one subtask and one task say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_api::types::Schema;

use crate::ids::OperatorId;
use crate::manifest::FileRef;

/// An operator's part of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorEntry {
    /// Its name in the graph, for people: `GlobalWindowAggregate[5]`.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups; fixed by the first checkpoint.
    pub max_parallelism: u32,
    /// Its states by name, with what they contain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, StateSchema>,
    /// One entry per subtask, by index.
    pub subtasks: Vec<SubtaskEntry>,
}

impl OperatorEntry {
    /// True if every subtask has read its inputs to the end.
    pub fn is_finished(&self) -> bool {
        self.subtasks.iter().all(|subtask| subtask.finished)
    }

    /// True if a restore must give this to somebody: it has state, positions or staged output.
    pub fn has_state(&self) -> bool {
        !self.states.is_empty() || self.subtasks.iter().any(SubtaskEntry::has_state)
    }
}

/// What sort of state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// One value per key.
    Value,
    /// Rows per key, in order.
    List,
    /// Entries per key.
    Map,
    /// Timers.
    Timers,
    /// Per subtask, not per key.
    Operator,
}

/// What a state contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSchema {
    /// Its sort.
    pub kind: StateKind,
    /// Key columns; none for operator state.
    pub key: Schema,
    /// Value columns. A column's *name* says what it means (`SUM(v)`, not `agg0`): another name is
    /// another meaning, and is refused on restore.
    pub value: Schema,
}

/// Key groups `start ..= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// The first.
    pub start: u32,
    /// The last.
    pub end: u32,
}

impl KeyGroupRange {
    /// The range of a subtask (Flink's formula).
    pub fn of(subtask: u32, parallelism: u32, max_parallelism: u32) -> KeyGroupRange {
        let (i, p, max) = (u64::from(subtask), u64::from(parallelism.max(1)), u64::from(max_parallelism));
        let start = (i * max).div_ceil(p);
        let end = ((i + 1) * max - 1) / p;
        KeyGroupRange { start: start as u32, end: end as u32 }
    }

    /// The key groups both have.
    pub fn intersection(self, other: KeyGroupRange) -> Option<KeyGroupRange> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start <= end).then_some(KeyGroupRange { start, end })
    }
}

/// A subtask's part: what it acknowledged, or the last it said before it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubtaskEntry {
    /// True if it has read its inputs to the end; it is restored as ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub finished: bool,
    /// The key groups its keyed state covers; `None` without keyed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_groups: Option<KeyGroupRange>,
    /// The stores' run sets, in the stores' own form.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub runs: Value,
    /// The files these run sets consist of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// Operator state that is not keyed, in the operator's own form.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub operator_state: Value,
    /// Where each split is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitPosition>,
    /// The operator's watermark, milliseconds; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark_ms: Option<i64>,
    /// What a sink has staged and not yet committed, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub committables: Vec<Committable>,
    /// What an unaligned barrier overtook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<InFlight>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl SubtaskEntry {
    /// Every file it needs.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let staged = self.committables.iter().flat_map(|staged| staged.files.iter());
        self.files.iter().chain(staged).chain(self.in_flight.iter().map(|part| &part.file))
    }

    /// The same, to be changed.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let staged = self.committables.iter_mut().flat_map(|staged| staged.files.iter_mut());
        self.files.iter_mut().chain(staged).chain(self.in_flight.iter_mut().map(|part| &mut part.file))
    }

    /// True if a restore must give something of this to somebody. A watermark alone need not go anywhere: the sources
    /// bring it again.
    pub fn has_state(&self) -> bool {
        !self.runs.is_null()
            || !self.operator_state.is_null()
            || !self.splits.is_empty()
            || !self.committables.is_empty()
            || !self.in_flight.is_empty()
    }
}

/// Where a split is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitPosition {
    /// The split's stable name.
    pub split: String,
    /// The connector's own data: the next offset, the line.
    pub position: Value,
    /// The split's own watermark, milliseconds; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark_ms: Option<i64>,
    /// True if it has been read to its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub finished: bool,
}

/// Output that a sink has staged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Committable {
    /// The sink's own data: for Kafka, a segment with its ids and sequence.
    pub state: Value,
    /// The files with the staged rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
}

/// A part of a file with elements that a barrier overtook on one input channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// Which input of the operator.
    pub input: u32,
    /// The sending vertex's subtask.
    pub sender: u32,
    /// The file; several channels may share one.
    pub file: FileRef,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Number of elements.
    pub elements: u64,
}

/// What one task acknowledges: an entry for each operator of its chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// By stable id.
    pub operators: BTreeMap<OperatorId, SubtaskEntry>,
}

impl TaskSnapshot {
    /// A snapshot of one operator.
    pub fn of(operator: impl Into<String>, entry: SubtaskEntry) -> TaskSnapshot {
        TaskSnapshot { operators: BTreeMap::from([(OperatorId::new(operator), entry)]) }
    }

    /// Every file it needs.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.operators.values().flat_map(SubtaskEntry::files)
    }
}
