//! The function library the runtime is handed: expressions compiled by [`crate::functions`],
//! aggregates by [`crate::aggregates`].

use tidegate_api::error::Result;
use tidegate_api::expr::{AggregateCall, Expr};
use tidegate_api::function::{Evaluator, FunctionLibrary, GroupedAccumulator};
use tidegate_api::types::{LogicalType, Schema};

use crate::{aggregates, functions};

/// Flink's built-in functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqlFunctions;

impl FunctionLibrary for SqlFunctions {
    fn compile(&self, expr: &Expr, input: &Schema, zone: &str) -> Result<Box<dyn Evaluator>> {
        functions::eval::compile(expr, input, zone)
    }

    fn accumulator(&self, call: &AggregateCall, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
        aggregates::accumulator(call, retracts)
    }

    fn state_types(&self, call: &AggregateCall) -> Result<Vec<LogicalType>> {
        aggregates::state_types(call)
    }

    fn saved_types(&self, call: &AggregateCall, retracts: bool) -> Result<Vec<LogicalType>> {
        aggregates::saved_types(call, retracts)
    }
}
