//! Makes a manifest of what the tasks said.

use std::collections::BTreeMap;

use crate::coordinator::JobPlan;
use crate::coordinator::pending::Pending;
use crate::ids::{OperatorId, TaskId};
use crate::manifest::{Manifest, OperatorEntry, SubtaskEntry, TaskSnapshot};

/// The manifest of a checkpoint that all tasks acknowledged.
pub(super) fn manifest(plan: &JobPlan, pending: &Pending, acknowledged_ms: i64) -> Manifest {
    let mut operators = BTreeMap::new();
    for (vertex, plan) in (0u32..).zip(&plan.vertices) {
        for operator in &plan.operators {
            let subtasks = (0..plan.parallelism)
                .map(|subtask| entry(pending, TaskId::new(vertex, subtask), &operator.id))
                .collect();
            let entry = OperatorEntry {
                name: operator.name.clone(),
                parallelism: plan.parallelism,
                max_parallelism: plan.max_parallelism,
                states: operator.states.clone(),
                subtasks,
            };
            operators.insert(operator.id.clone(), entry);
        }
    }
    Manifest {
        checkpoint: pending.barrier.id,
        kind: pending.barrier.kind,
        job: plan.job.clone(),
        job_name: plan.job_name.clone(),
        engine: plan.engine.clone(),
        triggered_ms: pending.barrier.timestamp_ms,
        acknowledged_ms,
        operators,
    }
}

/// What a task said of an operator; an operator without state says nothing.
fn entry(pending: &Pending, task: TaskId, operator: &OperatorId) -> SubtaskEntry {
    let said = |snapshot: &TaskSnapshot| snapshot.operators.get(operator).cloned().unwrap_or_default();
    match pending.acknowledged.get(&task) {
        Some(snapshot) => said(snapshot),
        None => SubtaskEntry { finished: true, ..pending.finished.get(&task).map(said).unwrap_or_default() },
    }
}
