//! Groups of slices and windows: their keys, their accumulators, and how they are saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Field, Result, RowKind, Schema};
use tidegate_state::Namespace;

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows};
use crate::operator::OperatorStates;
use crate::state::{Changes, KeyedLayout, KeyedState};
use crate::table::GroupTable;

/// Where the groups of an operator are saved, by their keys: what their accumulators hold, and their rows.
pub(super) struct GroupState {
    pub(super) keyed: KeyedState,
    /// Saved columns of each aggregate.
    widths: Vec<usize>,
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
        };
        Ok(states.keyed(layout)?.map(|keyed| GroupState { keyed, widths }))
    }

    /// Saved columns of each aggregate.
    pub(super) fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Every saved group: its namespace, key columns and value columns, some thousand at a time.
    pub(super) fn read_all(
        &self,
        mut take: impl FnMut(Namespace, Vec<ArrayRef>, Vec<ArrayRef>) -> Result<()>,
    ) -> Result<()> {
        for namespace in self.keyed.namespaces() {
            self.keyed.read(namespace, |keys, values, _| take(namespace, keys, values))?;
        }
        Ok(())
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

fn no_row_counts() -> Error {
    Error::internal("saved groups without the number of their rows")
}

/// Groups of one slice or window: keys, accumulators, and how many rows each group holds.
pub(super) struct GroupSet {
    table: GroupTable,
    accumulators: Accumulators,
    row_counts: Vec<i64>,
    /// The sum of the row counts.
    rows: i64,
    groups: Vec<u32>,
    changes: Changes,
}

impl GroupSet {
    /// An empty set for keys of these types; `saved` if it will be [saved](GroupSet::save).
    pub(super) fn new(key_types: &[DataType], set: &AggregateSet, saved: bool) -> Result<Self> {
        Ok(GroupSet {
            table: GroupTable::new(key_types)?,
            accumulators: set.accumulators()?,
            row_counts: Vec::new(),
            rows: 0,
            groups: Vec::new(),
            changes: Changes::new(saved),
        })
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of rows: those added, less those taken back.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Adds rows; `columns` is addressed as the operator's input is.
    pub(super) fn update(&mut self, set: &AggregateSet, keys: &[usize], rows: &Rows) -> Result<()> {
        let key_columns: Vec<ArrayRef> = keys.iter().map(|k| rows.columns[*k].clone()).collect();
        self.table.intern(&key_columns, rows.len, &mut self.groups)?;
        let n = self.table.len();
        self.row_counts.resize(n, 0);
        match &rows.kinds {
            None => {
                self.groups.iter().for_each(|g| self.row_counts[*g as usize] += 1);
                self.rows += rows.len as i64;
            }
            Some(kinds) => self.groups.iter().zip(kinds.values()).for_each(|(g, kind)| {
                let step = if RowKind::from_byte(*kind).is_addition() { 1 } else { -1 };
                self.row_counts[*g as usize] += step;
                self.rows += step;
            }),
        }
        self.changes.mark(&self.groups, n);
        self.accumulators.update(set, &rows.columns, rows.kinds.as_ref(), &self.groups, n)
    }

    /// Adds partials: key columns, state columns and row counts.
    pub(super) fn merge(
        &mut self,
        keys: &[ArrayRef],
        states: &[ArrayRef],
        widths: &[usize],
        row_counts: &ArrayRef,
    ) -> Result<()> {
        let counts = row_counts.as_primitive::<Int64Type>();
        self.table.intern(keys, counts.len(), &mut self.groups)?;
        let n = self.table.len();
        self.row_counts.resize(n, 0);
        self.groups.iter().zip(counts.values()).for_each(|(g, c)| {
            self.row_counts[*g as usize] += c;
            self.rows += c;
        });
        self.changes.mark(&self.groups, n);
        self.accumulators.merge(states, widths, &self.groups, n)
    }

    /// Adds all groups of `other`.
    pub(super) fn absorb(&mut self, other: &GroupSet) -> Result<()> {
        let mut groups = std::mem::take(&mut self.groups);
        let all = other.all();
        self.table.intern(&other.table.keys(&all)?, all.len(), &mut groups)?;
        let n = self.table.len();
        self.row_counts.resize(n, 0);
        groups.iter().zip(&other.row_counts).for_each(|(g, c)| self.row_counts[*g as usize] += c);
        self.rows += other.rows;
        self.changes.mark(&groups, n);
        self.accumulators.merge_from(&other.accumulators, &all, &groups, n)?;
        self.groups = groups;
        Ok(())
    }

    /// Writes the groups that changed since they were last written. `key` are further key columns.
    pub(super) fn save(&mut self, state: &mut GroupState, namespace: Namespace, key: &[i64]) -> Result<()> {
        for groups in self.changes.take().chunks(BATCH_ROWS) {
            let mut keys = self.table.keys(groups)?;
            keys.extend(key.iter().map(|k| -> ArrayRef { Arc::new(Int64Array::from_value(*k, groups.len())) }));
            let mut values = self.accumulators.save(groups)?;
            values.push(Arc::new(Int64Array::from_iter_values(groups.iter().map(|g| self.row_counts[*g as usize]))));
            state.keyed.write(namespace, &keys, &values, groups.len())?;
        }
        Ok(())
    }

    /// Adds groups that were saved and are not in the set yet.
    pub(super) fn load(&mut self, state: &GroupState, keys: &[ArrayRef], values: &[ArrayRef]) -> Result<()> {
        let Some((row_counts, saved)) = values.split_last() else { return Err(no_row_counts()) };
        let counts = row_counts.as_primitive_opt::<Int64Type>().ok_or_else(no_row_counts)?;
        self.table.intern(keys, counts.len(), &mut self.groups)?;
        let n = self.table.len();
        self.row_counts.resize(n, 0);
        self.groups.iter().zip(counts.values()).for_each(|(g, c)| self.row_counts[*g as usize] = *c);
        self.rows += counts.values().iter().sum::<i64>();
        self.accumulators.load(saved, &state.widths, &self.groups, n)
    }

    fn all(&self) -> Vec<u32> {
        (0..self.len() as u32).collect()
    }

    /// The groups that hold rows, in chunks of a batch. A group whose rows were all taken back is not
    /// there, in Flink as here.
    pub(super) fn chunks(&self) -> Vec<Vec<u32>> {
        let live: Vec<u32> = (0..self.len() as u32).filter(|g| self.row_counts[*g as usize] != 0).collect();
        live.chunks(BATCH_ROWS).map(<[u32]>::to_vec).collect()
    }

    /// Keys and results of these groups.
    pub(super) fn results(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.table.keys(groups)?;
        columns.extend(self.accumulators.results(groups)?);
        Ok(columns)
    }

    /// Keys and state columns of these groups, and their row counts.
    pub(super) fn states(&self, groups: &[u32]) -> Result<(Vec<ArrayRef>, ArrayRef)> {
        let mut columns = self.table.keys(groups)?;
        columns.extend(self.accumulators.states(groups)?);
        let counts = Int64Array::from_iter_values(groups.iter().map(|g| self.row_counts[*g as usize]));
        Ok((columns, Arc::new(counts)))
    }
}

/// Keys that several group sets share, so that sets which overlap in windows are added by number instead
/// of by key. It forgets: rebuilt once most of its keys are in no set any more.
pub(super) struct Dictionary {
    key_types: Vec<DataType>,
    table: GroupTable,
    /// For each set (by slice end) the number here of each of its groups.
    numbers: BTreeMap<i64, Vec<u32>>,
}

impl Dictionary {
    pub(super) fn new(key_types: Vec<DataType>) -> Result<Self> {
        Ok(Dictionary { table: GroupTable::new(&key_types)?, key_types, numbers: BTreeMap::new() })
    }

    /// The sum of some sets, named by slice end.
    pub(super) fn sum<'a>(
        &mut self,
        set: &AggregateSet,
        parts: impl Iterator<Item = (i64, &'a GroupSet)> + Clone,
    ) -> Result<Summed> {
        let mut fresh = Vec::new();
        for (end, part) in parts.clone() {
            let numbers = self.numbers.entry(end).or_default();
            if numbers.len() < part.len() {
                let new: Vec<u32> = (numbers.len() as u32..part.len() as u32).collect();
                self.table.intern(&part.table.keys(&new)?, new.len(), &mut fresh)?;
                numbers.extend_from_slice(&fresh);
            }
        }
        let n = self.table.len();
        let mut summed = Summed { accumulators: set.accumulators()?, row_counts: vec![0; n] };
        for (end, part) in parts {
            let numbers = &self.numbers[&end];
            numbers.iter().zip(&part.row_counts).for_each(|(g, c)| summed.row_counts[*g as usize] += c);
            summed.accumulators.merge_from(&part.accumulators, &part.all(), numbers, n)?;
        }
        Ok(summed)
    }

    /// The groups of a sum that hold rows, in chunks of a batch.
    pub(super) fn chunks(&self, summed: &Summed) -> Vec<Vec<u32>> {
        let live: Vec<u32> = (0..self.table.len() as u32).filter(|g| summed.row_counts[*g as usize] != 0).collect();
        live.chunks(BATCH_ROWS).map(<[u32]>::to_vec).collect()
    }

    /// Keys and results of these groups of a sum.
    pub(super) fn results(&self, summed: &Summed, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.table.keys(groups)?;
        columns.extend(summed.accumulators.results(groups)?);
        Ok(columns)
    }

    /// Forgets the sets up to this slice end, and their keys if `live` are all that is left.
    pub(super) fn forget(&mut self, expired: i64, live: usize) -> Result<()> {
        self.numbers = self.numbers.split_off(&expired.saturating_add(1));
        if self.table.len() > 2 * live + 4_096 {
            self.table = GroupTable::new(&self.key_types)?;
            self.numbers.clear();
        }
        Ok(())
    }
}

/// The sum of some group sets, by the numbers of a [`Dictionary`].
pub(super) struct Summed {
    accumulators: Accumulators,
    row_counts: Vec<i64>,
}
