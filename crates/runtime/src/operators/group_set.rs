//! Groups of slices and windows: their keys, their accumulators, and how they leave for the state.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use tidegate_api::{Result, RowKind};

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows};
use super::group_state::{GroupState, Home, StoredGroups, no_row_counts};
use super::recency::{GroupSize, Recency};
use crate::state::Changes;
use crate::table::GroupTable;

/// Groups of one slice or window: keys, accumulators, and how many rows each group holds.
pub(super) struct GroupSet {
    table: GroupTable,
    accumulators: Accumulators,
    row_counts: Vec<i64>,
    /// The sum of the row counts.
    rows: i64,
    groups: Vec<u32>,
    changes: Changes,
    /// Groups that are in the state alone.
    cold: u64,
    recency: Recency,
    size: GroupSize,
}

impl GroupSet {
    /// An empty set for keys of these types, which will be [saved](GroupSet::save) in `state` if that is given.
    pub(super) fn new(key_types: &[DataType], set: &AggregateSet, state: Option<&GroupState>) -> Result<Self> {
        Ok(GroupSet {
            table: GroupTable::new(key_types)?,
            accumulators: set.accumulators()?,
            row_counts: Vec::new(),
            rows: 0,
            groups: Vec::new(),
            changes: Changes::new(state.map(GroupState::tracking).unwrap_or_default()),
            cold: 0,
            recency: Recency::new(state.is_some_and(|state| state.table_bytes().is_some())),
            size: GroupSize::default(),
        })
    }

    /// Number of groups in memory.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of groups that are in the state alone.
    pub(super) fn cold(&self) -> u64 {
        self.cold
    }

    /// Leaves this many groups, which hold this many rows in all, in the state.
    pub(super) fn add_cold(&mut self, groups: u64, rows: i64) {
        self.cold += groups;
        self.rows += rows;
    }

    /// About the memory it takes, in bytes.
    pub(super) fn bytes(&mut self) -> Result<usize> {
        let average = self.size.average(self.table.len(), |groups| self.accumulators.save(groups))?;
        Ok(self.table.memory_bytes() + average * self.table.len())
    }

    /// Number of rows: those added, less those taken back.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Finds the group of each row, which is about to change, and has those that are new here back from the state;
    /// returns the number of groups.
    fn find(&mut self, keys: &[ArrayRef], rows: usize, home: Option<&mut Home>) -> Result<usize> {
        let known = self.table.len();
        self.table.intern(keys, rows, &mut self.groups)?;
        let n = self.table.len();
        self.row_counts.resize(n, 0);
        let first = self.changes.mark(&self.groups, n);
        if let Some(home) = home {
            if self.cold > 0 && n > known {
                self.fetch(known as u32..n as u32, home)?;
            }
            self.save_groups(&first, home)?;
        }
        self.recency.touch(&self.groups, n);
        Ok(n)
    }

    fn fetch(&mut self, new: std::ops::Range<u32>, home: &mut Home) -> Result<()> {
        let n = self.table.len();
        let new: Vec<u32> = new.collect();
        for new in new.chunks(BATCH_ROWS) {
            let keys = home.key(self.table.keys(new)?, new.len());
            let found = home.state.keyed.get(home.namespace, &keys, new.len())?;
            let groups: Vec<u32> = found.rows.iter().map(|row| new[*row as usize]).collect();
            let Some((row_counts, saved)) = found.values.split_last() else { return Err(no_row_counts()) };
            let counts = row_counts.as_primitive_opt::<Int64Type>().ok_or_else(no_row_counts)?;
            groups.iter().zip(counts.values()).for_each(|(g, c)| self.row_counts[*g as usize] = *c);
            self.accumulators.load(saved, home.state.widths(), &groups, n)?;
            self.cold = self.cold.saturating_sub(groups.len() as u64);
        }
        Ok(())
    }

    /// Adds rows; `columns` is addressed as the operator's input is.
    pub(super) fn update(
        &mut self,
        set: &AggregateSet,
        keys: &[usize],
        rows: &Rows,
        home: Option<&mut Home>,
    ) -> Result<()> {
        let key_columns: Vec<ArrayRef> = keys.iter().map(|k| rows.columns[*k].clone()).collect();
        let n = self.find(&key_columns, rows.len, home)?;
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
        self.accumulators.update(set, &rows.columns, rows.kinds.as_ref(), &self.groups, n)
    }

    /// Adds partials: key columns, state columns and row counts.
    pub(super) fn merge(
        &mut self,
        keys: &[ArrayRef],
        states: &[ArrayRef],
        widths: &[usize],
        row_counts: &ArrayRef,
        home: Option<&mut Home>,
    ) -> Result<()> {
        let counts = row_counts.as_primitive::<Int64Type>();
        let n = self.find(keys, counts.len(), home)?;
        self.groups.iter().zip(counts.values()).for_each(|(g, c)| {
            self.row_counts[*g as usize] += c;
            self.rows += c;
        });
        self.accumulators.merge(states, widths, &self.groups, n)
    }

    /// Adds all groups of `other` that are in memory.
    pub(super) fn absorb(&mut self, other: &GroupSet, home: Option<&mut Home>) -> Result<()> {
        let all = other.all();
        let n = self.find(&other.table.keys(&all)?, all.len(), home)?;
        self.groups.iter().zip(&other.row_counts).for_each(|(g, c)| {
            self.row_counts[*g as usize] += c;
            self.rows += c;
        });
        self.accumulators.merge_from(&other.accumulators, &all, &self.groups, n)
    }

    /// Adds groups that were read from a state.
    pub(super) fn absorb_stored(&mut self, stored: &StoredGroups, home: Option<&mut Home>) -> Result<()> {
        let all: Vec<u32> = (0..stored.len() as u32).collect();
        let n = self.find(stored.keys(), all.len(), home)?;
        self.groups.iter().zip(stored.row_counts().values()).for_each(|(g, c)| {
            self.row_counts[*g as usize] += c;
            self.rows += c;
        });
        self.accumulators.merge_from(stored.accumulators(), &all, &self.groups, n)
    }

    /// A barrier: what has changed is to be written as it is now, or everything.
    pub(super) fn note(&mut self) {
        self.changes.note(self.table.len());
    }

    /// Writes some of what the last barrier has noted; returns how many groups.
    pub(super) fn save_some(&mut self, most: usize, home: &mut Home) -> Result<usize> {
        let next = self.changes.next_noted(most);
        self.save_groups(&next, home)?;
        Ok(next.len())
    }

    /// Whether something that the last barrier has noted is not written.
    pub(super) fn is_saving(&self) -> bool {
        self.changes.is_saving()
    }

    /// Writes the groups that changed since they were last written; what a barrier has noted has been.
    pub(super) fn save(&mut self, home: &mut Home) -> Result<()> {
        let changed = self.changes.take(self.table.len());
        self.save_groups(&changed, home)
    }

    fn save_groups(&mut self, groups: &[u32], home: &mut Home) -> Result<()> {
        for groups in groups.chunks(self.size.written_at_once(home.state.table_bytes())) {
            let keys = home.key(self.table.keys(groups)?, groups.len());
            let mut values = self.accumulators.save(groups)?;
            values.push(Arc::new(Int64Array::from_iter_values(groups.iter().map(|g| self.row_counts[*g as usize]))));
            home.state.keyed.write(home.namespace, &keys, &values, groups.len())?;
        }
        Ok(())
    }

    /// Lets groups leave for the state, those met least first, so that at most `keep` stay.
    pub(super) fn evict(
        &mut self,
        set: &AggregateSet,
        key_types: &[DataType],
        keep: usize,
        home: &mut Home,
    ) -> Result<()> {
        let kept = self.recency.hottest(&self.all(), keep);
        if kept.len() == self.len() {
            return Ok(());
        }
        let going = self.changes.keep(&kept);
        self.save_groups(&going, home)?;
        let mut fresh = GroupTable::new(key_types)?;
        let mut accumulators = set.accumulators()?;
        for kept in kept.chunks(BATCH_ROWS) {
            fresh.intern(&self.table.keys(kept)?, kept.len(), &mut self.groups)?;
            accumulators.load(&self.accumulators.save(kept)?, home.state.widths(), &self.groups, fresh.len())?;
        }
        self.row_counts = kept.iter().map(|g| self.row_counts[*g as usize]).collect();
        self.cold += (self.table.len() - kept.len()) as u64;
        (self.table, self.accumulators) = (fresh, accumulators);
        self.recency.renumber(&kept);
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
        self.accumulators.load(saved, state.widths(), &self.groups, n)
    }

    /// The key columns of these groups.
    pub(super) fn keys(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.table.keys(groups)
    }

    /// What the groups hold.
    pub(super) fn accumulators(&self) -> &Accumulators {
        &self.accumulators
    }

    /// The number of rows of each group.
    pub(super) fn row_counts(&self) -> &[i64] {
        &self.row_counts
    }

    /// The numbers of all groups.
    pub(super) fn all(&self) -> Vec<u32> {
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
