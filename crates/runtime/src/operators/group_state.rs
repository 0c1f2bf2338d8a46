//! Where the groups of an operator are saved, by their keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::{filter, take};
use arrow::datatypes::Int64Type;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Field, Result, Schema};
use tidegate_state::{KeyGroupRange, Namespace};

use super::aggregates::{Accumulators, AggregateSet};
use crate::operator::OperatorStates;
use crate::state::{KeyedLayout, KeyedState, Tracking};

/// Where the groups of an operator are saved, by their keys: what their accumulators hold, and their rows.
pub(super) struct GroupState {
    pub(super) keyed: KeyedState,
    /// Saved columns of each aggregate.
    widths: Vec<usize>,
    /// Memory in bytes that the operator's tables may take, if groups may leave them.
    table_bytes: Option<usize>,
    tracking: Tracking,
}

impl GroupState {
    /// The state of this name; `None` if nothing is kept. `keys` are those rows are spread by, `more` makes
    /// groups distinct that have the same. Values are what the accumulators save, the number of rows, and
    /// `more_values`.
    pub(super) fn open(
        states: &OperatorStates,
        name: &'static str,
        keys: &[Field],
        more: &[Field],
        more_values: &[Field],
        set: &AggregateSet,
    ) -> Result<Option<GroupState>> {
        if !states.is_kept() {
            return Ok(None);
        }
        let (mut value, widths) = set.saved()?;
        value.push(bigint("rows"));
        value.extend_from_slice(more_values);
        let layout = KeyedLayout {
            name,
            key: Schema::new(keys.iter().chain(more).cloned().collect()),
            partitioned: keys.len(),
            value: Schema::new(value),
            is_list: false,
        };
        let (table_bytes, tracking) = (states.table_bytes(), states.tracking());
        Ok(states.keyed(layout)?.map(|keyed| GroupState { keyed, widths, table_bytes, tracking }))
    }

    /// What a checkpoint writes.
    pub(super) fn tracking(&self) -> Tracking {
        self.tracking
    }

    /// A checkpoint is about to be written: what the last one wrote goes if this one writes everything.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.tracking == Tracking::Whole { self.keyed.clear() } else { Ok(()) }
    }

    /// Saved columns of each aggregate.
    pub(super) fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Memory in bytes that the operator's tables may take; `None` if every group stays in them.
    pub(super) fn table_bytes(&self) -> Option<usize> {
        self.table_bytes
    }

    /// What is written from here on is not part of the snapshot that was asked for, if one was.
    pub(super) fn begin_snapshot(&self) -> Result<()> {
        self.keyed.begin_snapshot()
    }

    /// Every saved group: its namespace, key columns and value columns, some thousand at a time.
    pub(super) fn read_all(
        &self,
        mut take: impl FnMut(Namespace, Vec<ArrayRef>, Vec<ArrayRef>) -> Result<()>,
    ) -> Result<()> {
        for namespace in self.keyed.namespaces() {
            self.keyed.read(namespace, KeyGroupRange::all(), |keys, values, _| take(namespace, keys, values))?;
        }
        Ok(())
    }
}

/// A namespace of a state and what makes its groups distinct beside the keys of rows.
pub(super) struct Home<'a> {
    pub(super) state: &'a mut GroupState,
    pub(super) namespace: Namespace,
    pub(super) more: &'a [i64],
}

impl<'a> Home<'a> {
    /// Groups of a namespace.
    pub(super) fn new(state: &'a mut GroupState, namespace: i64, more: &'a [i64]) -> Home<'a> {
        Home { state, namespace: Namespace(namespace), more }
    }

    /// Key columns as the state wants them.
    pub(super) fn key(&self, mut keys: Vec<ArrayRef>, rows: usize) -> Vec<ArrayRef> {
        keys.extend(self.more.iter().map(|k| -> ArrayRef { Arc::new(Int64Array::from_value(*k, rows)) }));
        keys
    }

    /// The groups of these key groups, read from the state some thousand at a time. What is in a table and not
    /// saved is not among them.
    pub(super) fn read(
        &self,
        key_groups: KeyGroupRange,
        set: &AggregateSet,
        mut take: impl FnMut(StoredGroups) -> Result<()>,
    ) -> Result<()> {
        self.state.keyed.read(self.namespace, key_groups, |mut keys, mut values, rows| {
            let mut rows = rows.len();
            let mine = self.mine(&mut keys)?;
            if let Some(mine) = mine {
                keys = keys.iter().map(|column| filter(column, &mine)).collect::<Result<_, _>>()?;
                values = values.iter().map(|column| filter(column, &mine)).collect::<Result<_, _>>()?;
                rows = mine.true_count();
            }
            let Some((row_counts, saved)) = values.split_last() else { return Err(no_row_counts()) };
            let row_counts = row_counts.as_primitive_opt::<Int64Type>().ok_or_else(no_row_counts)?.clone();
            let mut accumulators = set.accumulators()?;
            let groups: Vec<u32> = (0..rows as u32).collect();
            accumulators.load(saved, &self.state.widths, &groups, rows)?;
            take(StoredGroups { keys, accumulators, row_counts })
        })
    }

    /// Takes the further key columns off, and says which rows have the values of this home; `None` if all.
    fn mine(&self, keys: &mut Vec<ArrayRef>) -> Result<Option<BooleanArray>> {
        let mut mine: Option<BooleanArray> = None;
        for (column, wanted) in keys.split_off(keys.len() - self.more.len()).iter().zip(self.more) {
            let is_it = numbers(Some(column))?.values().iter().map(|value| value == wanted);
            let is_it = BooleanArray::from(is_it.collect::<Vec<_>>());
            mine = Some(match mine {
                None => is_it,
                Some(before) => arrow::compute::and(&before, &is_it)?,
            });
        }
        Ok(mine.filter(|mine| mine.true_count() < mine.len()))
    }
}

/// Groups as a state holds them, numbered from 0.
pub(super) struct StoredGroups {
    keys: Vec<ArrayRef>,
    accumulators: Accumulators,
    row_counts: Int64Array,
}

impl StoredGroups {
    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.row_counts.len()
    }

    /// The key columns.
    pub(super) fn keys(&self) -> &[ArrayRef] {
        &self.keys
    }

    /// What the groups hold.
    pub(super) fn accumulators(&self) -> &Accumulators {
        &self.accumulators
    }

    /// The number of rows of each.
    pub(super) fn row_counts(&self) -> &Int64Array {
        &self.row_counts
    }

    /// Keys and results of the groups that hold rows, and how many these are.
    pub(super) fn results(&self) -> Result<(Vec<ArrayRef>, usize)> {
        let live: Vec<u32> = (0..self.len() as u32).filter(|g| self.row_counts.value(*g as usize) != 0).collect();
        let index = arrow::array::UInt32Array::from(live);
        let mut columns: Vec<ArrayRef> = self.keys.iter().map(|k| take(k, &index, None)).collect::<Result<_, _>>()?;
        columns.extend(self.accumulators.results(index.values())?);
        Ok((columns, index.len()))
    }
}

/// A column of numbers.
pub(super) fn bigint(name: &str) -> Field {
    Field::new(name, LogicalType::new(TypeKind::BigInt))
}

/// A column of numbers, as it was read.
pub(super) fn numbers(column: Option<&ArrayRef>) -> Result<&Int64Array> {
    let numbers = column.and_then(|c| c.as_primitive_opt::<Int64Type>());
    numbers.ok_or_else(|| Error::internal("a saved column of numbers is missing"))
}

pub(super) fn no_row_counts() -> Error {
    Error::internal("saved groups without the number of their rows")
}
