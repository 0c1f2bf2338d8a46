//! The keys of both inputs, numbered together.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use tidegate_api::graph::JoinSpec;
use tidegate_api::{Error, Field, Result, Schema};

use super::Side;
use crate::operators::aggregates::column_types;
use crate::table::GroupTable;

/// The number of no key: a row with NULL in a key column has no partner.
pub(in crate::operators) const NO_KEY: u32 = u32::MAX;

/// Keys less than this are never worth forgetting.
const FEW: usize = 4_096;

/// Distinct keys of both inputs, numbered from 0 in the order they came.
pub(in crate::operators) struct JoinKeys {
    columns: [Vec<usize>; 2],
    null_safe: Vec<bool>,
    types: Vec<DataType>,
    table: GroupTable,
    /// So many keys may be known before it is worth looking for dead ones.
    rebuilt_above: usize,
}

impl JoinKeys {
    pub(in crate::operators) fn new(spec: &JoinSpec, inputs: [&Schema; 2]) -> Result<JoinKeys> {
        let types = column_types(inputs[0], &spec.left_keys)?;
        if types != column_types(inputs[1], &spec.right_keys)? || spec.null_safe.len() != types.len() {
            return Err(Error::internal("the keys of a join's two inputs differ in type"));
        }
        Ok(JoinKeys {
            columns: [spec.left_keys.clone(), spec.right_keys.clone()],
            null_safe: spec.null_safe.clone(),
            table: GroupTable::new(&types)?,
            types,
            rebuilt_above: FEW,
        })
    }

    /// The key columns as a state has them: named as in the left input.
    pub(in crate::operators) fn fields(&self, left: &Schema) -> Vec<Field> {
        self.columns[0].iter().map(|column| left.fields[*column].clone()).collect()
    }

    /// The number of each row's key; [`NO_KEY`] for a row that has no partner because of a NULL.
    pub(in crate::operators) fn of(&mut self, side: Side, rows: &RecordBatch) -> Result<Vec<u32>> {
        let columns: Vec<ArrayRef> =
            self.columns[side.index()].iter().map(|column| rows.column(*column).clone()).collect();
        let mut numbers = self.intern(&columns, rows.num_rows())?;
        for (column, null_safe) in columns.iter().zip(&self.null_safe) {
            if *null_safe || column.null_count() == 0 {
                continue;
            }
            for (row, number) in numbers.iter_mut().enumerate() {
                if column.is_null(row) {
                    *number = NO_KEY;
                }
            }
        }
        Ok(numbers)
    }

    /// The numbers of these keys.
    pub(in crate::operators) fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        self.table.intern(columns, rows, &mut numbers)?;
        Ok(numbers)
    }

    /// The columns of these keys.
    pub(in crate::operators) fn columns(&self, numbers: &[u32]) -> Result<Vec<ArrayRef>> {
        self.table.keys(numbers)
    }

    /// How many keys have numbers.
    pub(in crate::operators) fn known(&self) -> usize {
        self.table.len()
    }

    /// Memory in bytes.
    pub(in crate::operators) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// True if it is time to look which keys have no rows any more.
    pub(in crate::operators) fn may_be_sparse(&self) -> bool {
        self.known() > self.rebuilt_above
    }

    /// Keeps these keys only, and numbers them from 0 in this order.
    pub(in crate::operators) fn renumber(&mut self, kept: &[u32]) -> Result<()> {
        let columns = self.table.keys(kept)?;
        self.table = GroupTable::new(&self.types)?;
        self.intern(&columns, kept.len())?;
        self.rebuilt_above = 2 * kept.len() + FEW;
        Ok(())
    }
}
