//! Joins as operators: both inputs spread by their keys.

use tidegate_api::error::{Error, Result};
use tidegate_api::graph::{IntervalJoinSpec, JoinSpec, OperatorSpec, Partitioner, WindowJoinSpec};

use super::{Lowering, Port, updating_producer};
use crate::plan::explain::rel_text;
use crate::plan::rel::{IntervalJoin, JoinedWindow, Rel};

impl Lowering<'_, '_> {
    /// The exchange between an input and a join: where the rows come from and how they are spread.
    fn join_input(&mut self, input: &Rel, keys: Vec<usize>) -> Result<(Port, Partitioner, usize)> {
        let from = self.lower_rel(input, true)?;
        let (partitioner, parallelism) = self.exchange(keys);
        Ok((from, partitioner, parallelism))
    }

    pub(super) fn lower_interval_join(&mut self, rel: &Rel, join: &IntervalJoin) -> Result<Port> {
        for input in [&join.left, &join.right] {
            if input.is_updating() {
                let (node, what) = updating_producer(input);
                let name = if join.window.is_some() { "Window" } else { "Interval" };
                return Err(Error::unsupported(format!(
                    "StreamPhysical{name}Join doesn't support consuming {what} which is produced by node {node}. \
                     This join takes rows that are only added: join before aggregating, or aggregate by a window, \
                     which gives each row once."
                )));
            }
        }
        let keys = |side: fn(&crate::plan::rel::Key) -> usize| join.keys.iter().map(side).collect::<Vec<usize>>();
        let (left_keys, right_keys) = (keys(|key| key.left), keys(|key| key.right));
        let (left, left_partitioner, parallelism) = self.join_input(&join.left, left_keys.clone())?;
        let (right, right_partitioner, _) = self.join_input(&join.right, right_keys.clone())?;
        let spec = JoinSpec {
            kind: join.kind,
            left_keys,
            right_keys,
            null_safe: join.keys.iter().map(|key| key.null_safe).collect(),
            condition: join.residual.clone(),
        };
        let (left_time, right_time, meaning) = (join.left_time, join.right_time, join.meaning());
        let (name, spec) = match &join.window {
            Some(JoinedWindow { window, start_key, end_key }) => {
                let (window, start_key, end_key) = (window.clone(), *start_key, *end_key);
                let spec = WindowJoinSpec { join: spec, window, left_time, right_time, start_key, end_key, meaning };
                ("WindowJoin", OperatorSpec::WindowJoin(spec))
            }
            None => {
                let (lower_ms, upper_ms) = (join.lower_ms, join.upper_ms);
                let spec = IntervalJoinSpec { join: spec, left_time, right_time, lower_ms, upper_ms, meaning };
                ("IntervalJoin", OperatorSpec::IntervalJoin(spec))
            }
        };
        let node = self.operator(name, rel_text(rel), spec, rel.schema(), parallelism);
        self.connect_input(left, node, 0, left_partitioner);
        self.connect_input(right, node, 1, right_partitioner);
        Ok(node)
    }
}
