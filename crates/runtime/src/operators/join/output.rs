//! Pairs of rows, and rows without a partner, as output.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::function::Evaluator;
use tidegate_api::graph::JoinSpec;
use tidegate_api::{Batch, Error, Result, Schema, Watermark};

use super::Side;
use crate::operator::{OperatorContext, Output};
use crate::operators::aggregates::output_batch;

/// Candidates: the columns of both sides, one pair of rows in each line.
pub(in crate::operators) struct Pairs {
    /// By side.
    pub(in crate::operators) columns: [Vec<ArrayRef>; 2],
    /// Number of pairs.
    pub(in crate::operators) len: usize,
}

/// Makes rows of the left columns followed by the right ones.
pub(in crate::operators) struct JoinOutput {
    schema: Arc<ArrowSchema>,
    left_width: usize,
    condition: Option<Box<dyn Evaluator>>,
    ctx: OperatorContext,
}

impl JoinOutput {
    pub(in crate::operators) fn new(
        spec: &JoinSpec,
        inputs: [&Schema; 2],
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<JoinOutput> {
        let both = Schema::new(inputs.iter().flat_map(|input| input.fields.iter().cloned()).collect());
        let compile = |condition| ctx.functions.compile(condition, &both, &ctx.zone);
        let condition = spec.condition.as_ref().map(compile).transpose()?;
        Ok(JoinOutput { schema: output.to_arrow(), left_width: inputs[0].len(), condition, ctx })
    }

    /// Emits the pairs for which the condition is TRUE, and says which these are; `None` if there is no condition.
    pub(in crate::operators) fn pairs(
        &mut self,
        pairs: Pairs,
        watermark: Watermark,
        out: &mut Output,
    ) -> Result<Option<BooleanArray>> {
        let [left, right] = pairs.columns;
        let rows = output_batch(&self.schema, left.into_iter().chain(right).collect(), pairs.len)?;
        let Some(condition) = &mut self.condition else {
            out.batch(Batch::inserts(rows));
            return Ok(None);
        };
        let holds = condition.evaluate(&rows, &self.ctx.eval_context(watermark))?;
        let holds = holds.as_boolean_opt().ok_or_else(|| Error::internal("a join's condition that is no condition"))?;
        // Unknown is not TRUE.
        let holds = if holds.null_count() > 0 { &arrow::compute::prep_null_mask_filter(holds) } else { holds };
        out.batch(Batch::inserts(filter_record_batch(&rows, holds)?));
        Ok(Some(holds.clone()))
    }

    /// Emits rows of one side with NULL in the columns of the other.
    pub(in crate::operators) fn padded(
        &self,
        side: Side,
        columns: Vec<ArrayRef>,
        rows: usize,
        out: &mut Output,
    ) -> Result<()> {
        let fields = self.schema.fields();
        let nulls = |range: std::ops::Range<usize>| fields[range].iter().map(|f| new_null_array(f.data_type(), rows));
        let columns = match side {
            Side::Left => columns.into_iter().chain(nulls(self.left_width..fields.len())).collect(),
            Side::Right => nulls(0..self.left_width).chain(columns).collect(),
        };
        out.batch(Batch::inserts(output_batch(&self.schema, columns, rows)?));
        Ok(())
    }
}
