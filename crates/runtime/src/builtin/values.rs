//! The rows of a `VALUES` list.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, FunctionLibrary};
use tidegate_api::{Batch, Result, Schema, Value};

/// The rows as batches of at most `batch_rows`. Constants are evaluated by the function library, the
/// only one that knows how a value of each type becomes a column.
pub(crate) fn value_batches(
    rows: &[Vec<Value>],
    schema: &Schema,
    functions: &dyn FunctionLibrary,
    zone: &str,
    batch_rows: usize,
    ctx: &EvalContext,
) -> Result<Vec<Batch>> {
    let arrow = schema.to_arrow();
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let empty = Schema::default();
    let unit = RecordBatch::try_new_with_options(empty.to_arrow(), Vec::new(), &one_row)?;
    let mut batches = Vec::new();
    for chunk in rows.chunks(batch_rows.max(1)) {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.len());
        for (column, field) in schema.fields.iter().enumerate() {
            let mut values: Vec<ArrayRef> = Vec::with_capacity(chunk.len());
            for row in chunk {
                let value = row.get(column).cloned().unwrap_or(Value::Null);
                let mut constant = functions.compile(&Expr::literal(value, field.ty.clone()), &empty, zone)?;
                values.push(constant.evaluate(&unit, ctx)?);
            }
            let parts: Vec<&dyn arrow::array::Array> = values.iter().map(|v| v.as_ref()).collect();
            columns.push(concat(&parts)?);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
        batches.push(Batch::inserts(RecordBatch::try_new_with_options(arrow.clone(), columns, &rows)?));
    }
    Ok(batches)
}
