//! Accumulators and the rows on their way into them, as every aggregating operator needs them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use tidegate_api::expr::AggregateCall;
use tidegate_api::function::{FunctionLibrary, GroupedAccumulator};
use tidegate_api::{Batch, Error, Field, Result, RowKind, Schema};

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

    /// What the accumulators save, and how many columns of it belong to each call. The columns are named by
    /// what the calls compute.
    pub(super) fn saved(&self) -> Result<(Vec<Field>, Vec<usize>)> {
        let (mut fields, mut widths) = (Vec::new(), Vec::new());
        for call in &self.calls {
            let types = self.functions.saved_types(call, self.retracts)?;
            widths.push(types.len());
            let name = |i: usize| if i == 0 { call.meaning.clone() } else { format!("{}#{i}", call.meaning) };
            fields.extend(types.into_iter().enumerate().map(|(i, ty)| Field::new(name(i), ty)));
        }
        Ok((fields, widths))
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

    /// Everything these groups hold, for a checkpoint.
    pub(super) fn save(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for accumulator in &self.list {
            columns.extend(accumulator.save(groups)?);
        }
        Ok(columns)
    }

    /// Fills new groups with what was saved.
    pub(super) fn load(&mut self, saved: &[ArrayRef], widths: &[usize], groups: &[u32], n: usize) -> Result<()> {
        let mut rest = saved;
        for (accumulator, width) in self.list.iter_mut().zip(widths) {
            let (own, others) = rest.split_at(*width);
            accumulator.load(own, groups, n)?;
            rest = others;
        }
        Ok(())
    }

    /// The result column of each call.
    pub(super) fn results(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.list.iter().map(|a| a.evaluate(groups)).collect()
    }
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
