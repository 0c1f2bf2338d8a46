//! Output columns from input columns.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, Evaluator, FunctionLibrary, RowError};
use tidegate_api::{Result, Schema};

/// One output column per expression.
pub(crate) struct Projection {
    columns: Vec<Box<dyn Evaluator>>,
    schema: Arc<ArrowSchema>,
}

impl Projection {
    pub(crate) fn new(
        exprs: &[Expr],
        input: &Schema,
        output: &Schema,
        functions: &dyn FunctionLibrary,
        zone: &str,
    ) -> Result<Self> {
        let columns = exprs.iter().map(|expr| functions.compile(expr, input, zone));
        Ok(Projection { columns: columns.collect::<Result<_>>()?, schema: output.to_arrow() })
    }

    /// The output columns for each row of `batch`.
    pub(crate) fn project(&mut self, batch: &RecordBatch, ctx: &EvalContext) -> Result<RecordBatch, RowError> {
        let columns = self.columns.iter_mut().map(|column| column.evaluate(batch, ctx));
        let columns = columns.collect::<Result<Vec<_>, RowError>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)
            .map_err(|e| RowError::new(0, format!("internal error (please report it): {e}")))
    }
}
