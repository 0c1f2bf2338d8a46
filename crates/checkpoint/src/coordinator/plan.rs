//! The running job as far as checkpoints need to know it.

use std::collections::BTreeMap;

use crate::ids::{JobId, OperatorId, TaskId};
use crate::manifest::StateSchema;

/// A job: vertices, each a chain of operators with some subtasks.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: String,
    /// What goes into manifests as their writer: `tidegate 0.1.0`.
    pub engine: String,
    /// The vertices, senders before receivers.
    pub vertices: Vec<VertexPlan>,
}

/// A chain of operators.
#[derive(Clone, Debug, PartialEq)]
pub struct VertexPlan {
    /// Its operators in order.
    pub operators: Vec<OperatorPlan>,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
    /// Where its rows come from; none for a source.
    pub inputs: Vec<InputEdge>,
}

/// An operator of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorPlan {
    /// Its stable id.
    pub id: OperatorId,
    /// Its name in the graph.
    pub name: String,
    /// What its states contain.
    pub states: BTreeMap<String, StateSchema>,
}

/// An edge into a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputEdge {
    /// Position of the sending vertex.
    pub vertex: u32,
    /// True if subtask i receives from subtask i alone, false if it receives from all.
    pub forward: bool,
}

impl JobPlan {
    /// All subtasks.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        (0u32..)
            .zip(&self.vertices)
            .flat_map(|(vertex, plan)| (0..plan.parallelism).map(move |subtask| TaskId::new(vertex, subtask)))
    }

    /// True if `ended` holds for every subtask that sends to this one; so also for a source.
    pub fn all_senders(&self, task: TaskId, ended: impl Fn(TaskId) -> bool) -> bool {
        let Some(plan) = self.vertices.get(task.vertex as usize) else { return false };
        plan.inputs.iter().all(|edge| {
            let senders = self.vertices.get(edge.vertex as usize).map_or(0, |vertex| vertex.parallelism);
            if edge.forward {
                ended(TaskId::new(edge.vertex, task.subtask))
            } else {
                (0..senders).all(|subtask| ended(TaskId::new(edge.vertex, subtask)))
            }
        })
    }
}
