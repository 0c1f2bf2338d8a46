//! The operators of a job graph, apart from sources, sinks and what is stateless.
//!
//! An operator is a plain machine: batches and watermarks in, batches and watermarks out. Event time
//! comes row-exact from the source, which cuts its batches where a watermark would change an answer, so
//! nothing here looks at watermarks inside a batch.

mod aggregates;
mod dictionary;
mod event_time;
mod global_window;
mod group_aggregate;
mod group_set;
mod group_state;
mod interval_join;
mod join;
mod local_window;
mod progress;
mod recency;
mod session_aggregate;
mod session_index;
mod session_tvf;
mod sessions;
mod stored_fire;
mod ttl;
mod unnest;
mod window_aggregate;
mod window_tvf;

use tidegate_api::graph::OperatorSpec;
use tidegate_api::{Error, Result, Schema, WindowKind};

use crate::operator::{Operator, OperatorContext};

/// Makes the operator of a spec; `None` for what the engine builds itself (sources, sinks, values,
/// calculations, unions, copies).
pub fn build(
    spec: &OperatorSpec,
    inputs: &[Schema],
    output: &Schema,
    ctx: OperatorContext,
) -> Result<Option<Box<dyn Operator>>> {
    let input = || inputs.first().ok_or_else(|| Error::internal("an operator without an input"));
    Ok(Some(match spec {
        OperatorSpec::LocalWindowAggregate(spec) => {
            Box::new(local_window::LocalWindowAggregate::new(spec, input()?, output, &ctx)?)
        }
        OperatorSpec::GlobalWindowAggregate(spec) => {
            Box::new(global_window::GlobalWindowAggregate::new(spec, input()?, output, &ctx)?)
        }
        OperatorSpec::WindowAggregate(spec) => {
            let from_time = matches!(spec.input, tidegate_api::graph::WindowInput::TimeColumn(_));
            if from_time && matches!(spec.window.kind, WindowKind::Session { .. }) {
                Box::new(session_aggregate::SessionAggregate::new(spec, input()?, output, &ctx)?)
            } else {
                Box::new(window_aggregate::WindowAggregate::new(spec, input()?, output, &ctx)?)
            }
        }
        OperatorSpec::GroupAggregate(spec) => {
            Box::new(group_aggregate::GroupAggregate::new(spec, input()?, output, &ctx)?)
        }
        OperatorSpec::WindowTableFunction { window, time_column, keys } => match window.kind {
            WindowKind::Session { .. } => {
                Box::new(session_tvf::SessionTableFunction::new(window, *time_column, keys, input()?, output, &ctx)?)
            }
            _ => Box::new(window_tvf::WindowTableFunction::new(window, *time_column, output)?),
        },
        OperatorSpec::IntervalJoin(spec) => {
            let [left, right] = inputs else { return Err(Error::internal("a join without two inputs")) };
            Box::new(interval_join::IntervalJoin::new(spec, [left, right], output, ctx)?)
        }
        OperatorSpec::WindowJoin(spec) => {
            let [left, right] = inputs else { return Err(Error::internal("a join without two inputs")) };
            Box::new(interval_join::IntervalJoin::of_windows(spec, [left, right], output, ctx)?)
        }
        OperatorSpec::Unnest(spec) => Box::new(unnest::Unnest::new(spec, input()?, output, ctx.clone())?),
        OperatorSpec::Source(_)
        | OperatorSpec::Values { .. }
        | OperatorSpec::Calc { .. }
        | OperatorSpec::Union
        | OperatorSpec::Expand { .. }
        | OperatorSpec::Sink(_) => return Ok(None),
    }))
}

#[cfg(test)]
mod tests;
