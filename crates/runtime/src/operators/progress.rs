//! How far a window operator has come, and what it has open: part of a checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_api::{Error, Result, Timestamp, Watermark};
use tidegate_state::{KeyGroupRange, Namespace};

use super::group_set::GroupSet;
use super::group_state::{GroupState, numbers};
use crate::state::KeyedState;

/// How far a subtask of a window operator has come; part of a checkpoint, so that what was late stays late
/// and no window fires twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) watermark: Watermark,
    /// Windows that end here or earlier have fired.
    pub(super) floor: Timestamp,
    /// What is open, if groups may leave memory: a restored operator need not read its state to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) open: Option<OpenSets>,
    /// The number of the next row, if rows are numbered in the order of their arrival.
    #[serde(default)]
    pub(super) next_number: i64,
    /// Whether all that was restored comes from operators whose groups may leave memory.
    #[serde(skip)]
    pub(super) is_on_disk: bool,
}

/// The group sets of a subtask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenSets {
    key_groups: KeyGroupRange,
    sets: Vec<OpenSet>,
}

/// A group set in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenSet {
    /// Name of the state.
    state: String,
    pub(super) namespace: i64,
    /// What makes its groups distinct in the namespace.
    pub(super) more: Vec<i64>,
    groups: u64,
    rows: i64,
}

impl OpenSet {
    /// A set that has been saved.
    pub(super) fn new(state: &GroupState, namespace: i64, more: Vec<i64>, set: &GroupSet) -> OpenSet {
        let groups = set.cold() + set.len() as u64;
        OpenSet { state: state.keyed.name().to_owned(), namespace, more, groups, rows: set.rows() }
    }

    /// All groups of a state.
    pub(super) fn whole(state: &KeyedState, groups: u64) -> OpenSet {
        let name = state.name().to_owned();
        OpenSet { state: name, namespace: Namespace::GLOBAL.0, more: Vec::new(), groups, rows: 0 }
    }

    /// Rows of a namespace.
    pub(super) fn of_rows(state: &KeyedState, namespace: i64, rows: i64) -> OpenSet {
        OpenSet { state: state.name().to_owned(), namespace, more: Vec::new(), groups: 0, rows }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> u64 {
        self.groups
    }

    /// Leaves its groups where they are.
    pub(super) fn leave_cold(&self, set: &mut GroupSet) {
        set.add_cold(self.groups, self.rows);
    }
}

impl Progress {
    /// Progress without windows that fire by a floor.
    pub(super) fn of(watermark: Watermark) -> Progress {
        Progress { watermark, floor: Timestamp::MIN, open: None, next_number: 0, is_on_disk: false }
    }

    /// With what is open in the key groups of `state`.
    pub(super) fn with_open(self, state: &KeyedState, sets: Vec<OpenSet>) -> Progress {
        Progress { open: Some(OpenSets { key_groups: state.owned(), sets }), ..self }
    }

    pub(super) fn save(self) -> Result<serde_json::Value> {
        serde_json::to_value(self).map_err(|e| Error::internal(format!("progress cannot be saved: {e}")))
    }

    /// The progress of a subtask that takes over from these. At an aligned barrier they all are equally far;
    /// the least of them loses no row in any case.
    pub(super) fn restore(subtasks: &[serde_json::Value]) -> Result<Progress> {
        let read = |value: &serde_json::Value| serde_json::from_value::<Progress>(value.clone());
        let all = subtasks.iter().filter(|value| !value.is_null()).map(read).collect::<Result<Vec<_>, _>>();
        let mut all = all.map_err(|e| Error::job(format!("The checkpoint's window progress cannot be read: {e}.")))?;
        Ok(Progress {
            watermark: all.iter().map(|p| p.watermark).min().unwrap_or(Watermark::MIN),
            floor: all.iter().map(|p| p.floor).min().unwrap_or(Timestamp::MIN),
            next_number: all.iter().map(|p| p.next_number).max().unwrap_or(0),
            is_on_disk: !all.is_empty() && all.iter().all(|p| p.open.is_some()),
            open: if all.len() == 1 { all.remove(0).open } else { None },
        })
    }

    /// What is open in this state, if it was saved by a subtask of the same key groups.
    pub(super) fn saved_in(&self, state: &KeyedState) -> Option<Vec<OpenSet>> {
        let open = self.open.as_ref().filter(|open| open.key_groups == state.owned())?;
        let name = state.name();
        Some(open.sets.iter().filter(|set| set.state == name).cloned().collect())
    }

    /// What is open in this state: as it was saved by a subtask of the same key groups, or else as the state's
    /// rows say.
    pub(super) fn open_in(&self, state: &GroupState) -> Result<Vec<OpenSet>> {
        self.saved_in(&state.keyed).map_or_else(|| count(state), Ok)
    }
}

/// Counts what a state holds.
fn count(state: &GroupState) -> Result<Vec<OpenSet>> {
    let mut counted: BTreeMap<(i64, Vec<i64>), (u64, i64)> = BTreeMap::new();
    state.read_all(|namespace, keys, values| {
        let more = keys[state.keyed.partitioned()..].iter().map(|column| numbers(Some(column)));
        let more = more.collect::<Result<Vec<_>>>()?;
        let row_counts = numbers(values.get(state.widths().iter().sum::<usize>()))?;
        for row in 0..row_counts.len() {
            let more = more.iter().map(|column| column.value(row)).collect();
            let (groups, rows) = counted.entry((namespace.0, more)).or_default();
            *groups += 1;
            *rows += row_counts.value(row);
        }
        Ok(())
    })?;
    let name = state.keyed.name();
    let set = |((namespace, more), (groups, rows))| OpenSet { state: name.to_owned(), namespace, more, groups, rows };
    Ok(counted.into_iter().map(set).collect())
}
