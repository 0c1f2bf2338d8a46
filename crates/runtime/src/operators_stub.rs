use crate::operator::{Operator, OperatorContext};
use tidegate_api::graph::OperatorSpec;
use tidegate_api::{Result, Schema};
pub(crate) fn build(
    _spec: &OperatorSpec,
    _input: &[Schema],
    _output: &Schema,
    _ctx: OperatorContext,
) -> Result<Option<Box<dyn Operator>>> {
    Ok(None)
}
