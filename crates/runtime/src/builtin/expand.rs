//! Grouping sets: every row once per set.

use tidegate_api::expr::Expr;
use tidegate_api::{Batch, Result, Schema, Watermark};

use super::Projection;
use crate::operator::{Operator, OperatorContext, Output};

/// Emits each input row once per projection. The copies of a batch follow one another; within a copy
/// rows keep their order, and that is the order that matters: copies differ in their grouping key.
pub(crate) struct Expand {
    projections: Vec<Projection>,
    watermark: Watermark,
    ctx: OperatorContext,
}

impl Expand {
    pub(crate) fn new(
        projections: &[Vec<Expr>],
        input: &Schema,
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<Self> {
        let functions = ctx.functions.as_ref();
        let projections = projections.iter().map(|exprs| Projection::new(exprs, input, output, functions, &ctx.zone));
        Ok(Expand { projections: projections.collect::<Result<_>>()?, watermark: Watermark::MIN, ctx })
    }
}

impl Operator for Expand {
    fn process_batch(&mut self, _input: usize, batch: Batch, out: &mut Output) -> Result<()> {
        let eval = self.ctx.eval_context(self.watermark);
        for projection in &mut self.projections {
            let columns = projection.project(&batch.columns, &eval)?;
            out.batch(Batch { columns, kinds: batch.kinds.clone() });
        }
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}
