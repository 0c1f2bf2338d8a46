//! Operators without state: `Calc`, `Expand`, the sink, and the rows of `VALUES`.

mod calc;
mod expand;
mod projection;
mod sink;
mod values;

use tidegate_api::graph::OperatorSpec;
use tidegate_api::{Error, Result, Schema};

pub(crate) use calc::keep_rows;
pub(crate) use projection::Projection;
pub(crate) use sink::SinkOperator;
pub(crate) use values::ValuesSource;

use crate::operator::{Operator, OperatorContext};

/// The operator of a node that is neither a source nor a sink. `input` has one schema per input.
pub(crate) fn operator(
    spec: &OperatorSpec,
    input: &[Schema],
    output: &Schema,
    ctx: OperatorContext,
) -> Result<Box<dyn Operator>> {
    let first = || input.first().ok_or_else(|| Error::internal("an operator without an input"));
    match spec {
        OperatorSpec::Calc { filter, projection } => {
            Ok(Box::new(calc::Calc::new(filter.as_ref(), projection, first()?, output, ctx)?))
        }
        OperatorSpec::Expand { projections } => Ok(Box::new(expand::Expand::new(projections, first()?, output, ctx)?)),
        other => crate::operators::build(other, input, output, ctx)?
            .ok_or_else(|| Error::internal("this operator has no implementation in the runtime")),
    }
}
