//! Groups and their accumulators, as every aggregating operator keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use tidegate_api::expr::AggregateCall;
use tidegate_api::function::{FunctionLibrary, GroupedAccumulator};
use tidegate_api::{Batch, Error, Result, RowKind, Schema};

use crate::table::GroupTable;

/// Rows of an emitted batch at most.
pub(super) const BATCH_ROWS: usize = 8192;

/// The aggregate calls of one operator, and how to make accumulators for them.
pub(super) struct AggregateSet {
    calls: Vec<AggregateCall>,
    functions: Arc<dyn FunctionLibrary>,
    retracts: bool,
}

impl AggregateSet {
    pub(super) fn new(calls: Vec<AggregateCall>, functions: Arc<dyn FunctionLibrary>, retracts: bool) -> Self {
        AggregateSet { calls, functions, retracts }
    }

    /// A fresh accumulator for each call.
    pub(super) fn accumulators(&self) -> Result<Accumulators> {
        let list = self.calls.iter().map(|c| self.functions.accumulator(c, self.retracts)).collect::<Result<_>>()?;
        Ok(Accumulators { list })
    }

    /// The input columns the calls read.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.calls.iter().flat_map(|c| c.args.iter().copied().chain(c.filter))
    }

    /// The number of state columns of each call.
    pub(super) fn state_widths(&self) -> Result<Vec<usize>> {
        self.calls.iter().map(|c| Ok(self.functions.state_types(c)?.len())).collect()
    }

    /// Number of calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

/// One accumulator for each call of an [`AggregateSet`].
pub(super) struct Accumulators {
    list: Vec<Box<dyn GroupedAccumulator>>,
}

impl Accumulators {
    /// Adds (or takes back) the rows of `columns`, which are addressed as the operator's input is.
    fn apply(
        &mut self,
        set: &AggregateSet,
        columns: &[ArrayRef],
        groups: &[u32],
        group_count: usize,
        back: bool,
    ) -> Result<()> {
        for (call, accumulator) in set.calls.iter().zip(&mut self.list) {
            let args: Vec<ArrayRef> = call.args.iter().map(|i| columns[*i].clone()).collect();
            let selected: Option<&BooleanArray> = call.filter.map(|i| columns[i].as_boolean());
            let done = match back {
                false => accumulator.update(&args, selected, groups, group_count),
                true => accumulator.retract(&args, selected, groups, group_count),
            };
            done.map_err(|e| Error::from(e).context(format!("aggregate {}", call.name)))?;
        }
        Ok(())
    }

    /// Adds rows of mixed kinds in order: `+I` and `+U` are added, `-U` and `-D` taken back.
    pub(super) fn update(
        &mut self,
        set: &AggregateSet,
        columns: &[ArrayRef],
        kinds: Option<&UInt8Array>,
        groups: &[u32],
        group_count: usize,
    ) -> Result<()> {
        let Some(kinds) = kinds else {
            return self.apply(set, columns, groups, group_count, false);
        };
        for (from, len, back) in runs_of(groups.len(), |row| !RowKind::from_byte(kinds.value(row)).is_addition()) {
            // Columns nobody reads may be empty.
            let slice = |c: &ArrayRef| if c.len() == groups.len() { c.slice(from, len) } else { c.clone() };
            let part: Vec<ArrayRef> = columns.iter().map(slice).collect();
            self.apply(set, &part, &groups[from..from + len], group_count, back)?;
        }
        Ok(())
    }

    /// Adds partial states: the state columns of all calls one after the other.
    pub(super) fn merge(&mut self, states: &[ArrayRef], widths: &[usize], groups: &[u32], n: usize) -> Result<()> {
        let mut rest = states;
        for (accumulator, width) in self.list.iter_mut().zip(widths) {
            let (own, others) = rest.split_at(*width);
            accumulator.merge(own, groups, n)?;
            rest = others;
        }
        Ok(())
    }

    /// Adds states of `other`'s groups `from` to these groups `to`.
    pub(super) fn merge_from(&mut self, other: &Accumulators, from: &[u32], to: &[u32], n: usize) -> Result<()> {
        for (target, source) in self.list.iter_mut().zip(&other.list) {
            target.merge(&source.state(from)?, to, n)?;
        }
        Ok(())
    }

    /// Merges one group into another of the same accumulators.
    pub(super) fn merge_within(&mut self, from: u32, to: u32, n: usize) -> Result<()> {
        for accumulator in &mut self.list {
            let state = accumulator.state(&[from])?;
            accumulator.merge(&state, &[to], n)?;
        }
        Ok(())
    }

    /// The state columns of all calls.
    pub(super) fn states(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for accumulator in &self.list {
            columns.extend(accumulator.state(groups)?);
        }
        Ok(columns)
    }

    /// The result column of each call.
    pub(super) fn results(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.list.iter().map(|a| a.evaluate(groups)).collect()
    }
}

/// Groups of one slice or window: keys, accumulators, and how many rows each group holds.
pub(super) struct GroupSet {
    table: GroupTable,
    accumulators: Accumulators,
    row_counts: Vec<i64>,
    /// The sum of the row counts.
    rows: i64,
    groups: Vec<u32>,
}

impl GroupSet {
    /// An empty set for keys of these types.
    pub(super) fn new(key_types: &[DataType], set: &AggregateSet) -> Result<Self> {
        Ok(GroupSet {
            table: GroupTable::new(key_types)?,
            accumulators: set.accumulators()?,
            row_counts: Vec::new(),
            rows: 0,
            groups: Vec::new(),
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
        self.accumulators.merge_from(&other.accumulators, &all, &groups, n)?;
        self.groups = groups;
        Ok(())
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

/// Rows on their way into groups.
pub(super) struct Rows {
    /// Columns at their positions in the input; those nobody reads may be empty.
    pub(super) columns: Vec<ArrayRef>,
    /// Row kinds, if any is not `+I`.
    pub(super) kinds: Option<UInt8Array>,
    /// Number of rows.
    pub(super) len: usize,
}

impl Rows {
    /// All rows of a batch.
    pub(super) fn all(batch: &Batch) -> Rows {
        Rows { columns: batch.columns.columns().to_vec(), kinds: batch.kinds.clone(), len: batch.num_rows() }
    }

    /// A range of the rows, without copying; only the columns in `needed` are filled.
    pub(super) fn slice(batch: &Batch, from: usize, len: usize, needed: &[usize]) -> Rows {
        let columns = batch.columns.columns().iter().enumerate();
        let columns = columns.map(|(i, c)| if needed.contains(&i) { c.slice(from, len) } else { c.slice(0, 0) });
        Rows { columns: columns.collect(), kinds: batch.kinds.as_ref().map(|k| k.slice(from, len)), len }
    }

    /// Some of the rows; only the columns in `needed` are filled.
    pub(super) fn take(batch: &Batch, rows: Vec<u32>, needed: &[usize]) -> Result<Rows> {
        let len = rows.len();
        let index = UInt32Array::from(rows);
        let mut columns = Vec::with_capacity(batch.columns.num_columns());
        for (i, column) in batch.columns.columns().iter().enumerate() {
            columns.push(if needed.contains(&i) { take(column, &index, None)? } else { column.slice(0, 0) });
        }
        let kinds = batch.kinds.as_ref().map(|k| take(k, &index, None)).transpose()?;
        Ok(Rows { columns, kinds: kinds.map(|k| k.as_primitive().clone()), len })
    }
}

/// The maximal runs of equal values of `f` over `0..len`: (start, length, value).
pub(super) fn runs_of<T: PartialEq>(len: usize, f: impl Fn(usize) -> T) -> Vec<(usize, usize, T)> {
    let mut runs: Vec<(usize, usize, T)> = Vec::new();
    for row in 0..len {
        let value = f(row);
        match runs.last_mut() {
            Some(last) if last.2 == value => last.1 += 1,
            _ => runs.push((row, 1, value)),
        }
    }
    runs
}

/// Splits a batch by a number per row, such as its slice, and gives each part to `f`. Long runs are
/// passed on without copying; scattered rows are gathered, in arrival order.
pub(super) fn split_by(
    batch: &Batch,
    of: &[i64],
    needed: &[usize],
    mut f: impl FnMut(i64, Rows) -> Result<()>,
) -> Result<()> {
    let runs = runs_of(of.len(), |row| of[row]);
    if let [(_, _, one)] = runs[..] {
        return f(one, Rows::all(batch));
    }
    if runs.len() * 256 <= of.len() {
        return runs.into_iter().try_for_each(|(from, len, value)| f(value, Rows::slice(batch, from, len, needed)));
    }
    let mut parts: Vec<(i64, Vec<u32>)> = Vec::new();
    // By hash, not by search: history in no order of time scatters a batch over thousands of slices.
    let mut numbers: hashbrown::HashMap<i64, usize> = hashbrown::HashMap::new();
    let mut last = 0;
    for (from, len, value) in runs {
        if parts.get(last).is_none_or(|p| p.0 != value) {
            last = *numbers.entry(value).or_insert_with(|| {
                parts.push((value, Vec::new()));
                parts.len() - 1
            });
        }
        parts[last].1.extend(from as u32..(from + len) as u32);
    }
    parts.into_iter().try_for_each(|(value, rows)| f(value, Rows::take(batch, rows, needed)?))
}

/// The Arrow types of some columns of a schema.
pub(super) fn column_types(schema: &Schema, columns: &[usize]) -> Result<Vec<DataType>> {
    columns
        .iter()
        .map(|c| schema.fields.get(*c).map(|f| f.ty.to_arrow()))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::internal("a key column is not in the input"))
}

/// A batch of these columns under the operator's output schema.
pub(super) fn output_batch(
    schema: &Arc<arrow::datatypes::Schema>,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}
