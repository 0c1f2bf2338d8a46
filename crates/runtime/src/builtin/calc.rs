//! Filter and projection.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::UInt8Type;
use tidegate_api::expr::Expr;
use tidegate_api::function::Evaluator;
use tidegate_api::{Batch, Error, Result, Schema, Watermark};

use super::Projection;
use crate::operator::{Operator, OperatorContext, Output};

/// Keeps the rows for which a condition is TRUE and computes columns over them.
pub(crate) struct Calc {
    filter: Option<Box<dyn Evaluator>>,
    projection: Projection,
    watermark: Watermark,
    ctx: OperatorContext,
}

impl Calc {
    pub(crate) fn new(
        filter: Option<&Expr>,
        projection: &[Expr],
        input: &Schema,
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<Self> {
        let functions = ctx.functions.as_ref();
        let filter = filter.map(|expr| functions.compile(expr, input, &ctx.zone)).transpose()?;
        let projection = Projection::new(projection, input, output, functions, &ctx.zone)?;
        Ok(Calc { filter, projection, watermark: Watermark::MIN, ctx })
    }
}

impl Operator for Calc {
    fn process_batch(&mut self, _input: usize, batch: Batch, out: &mut Output) -> Result<()> {
        let eval = self.ctx.eval_context(self.watermark);
        let kept = match &mut self.filter {
            None => batch,
            Some(filter) => {
                let keep = filter.evaluate(&batch.columns, &eval)?;
                let keep = keep
                    .as_boolean_opt()
                    .ok_or_else(|| Error::internal(format!("a filter of type {}", keep.data_type())))?;
                keep_rows(batch, keep)?
            }
        };
        if kept.num_rows() > 0 {
            let columns = self.projection.project(&kept.columns, &eval)?;
            out.batch(Batch { columns, kinds: kept.kinds });
        }
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}

/// The rows where `keep` is TRUE.
pub(crate) fn keep_rows(batch: Batch, keep: &BooleanArray) -> Result<Batch> {
    let keep = if keep.null_count() > 0 { &prep_null_mask_filter(keep) } else { keep };
    let count = keep.true_count();
    if count == batch.num_rows() {
        return Ok(batch);
    }
    let columns = if batch.columns.num_columns() == 0 {
        let rows = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(batch.columns.schema(), Vec::new(), &rows)?
    } else {
        filter_record_batch(&batch.columns, keep)?
    };
    let kinds = match &batch.kinds {
        Some(kinds) => Some(filter(kinds, keep)?.as_primitive::<UInt8Type>().clone()),
        None => None,
    };
    Ok(Batch { columns, kinds })
}
