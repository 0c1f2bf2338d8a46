//! How the tasks of an attempt are connected: a queue for each, channels for every edge.

use std::sync::Arc;

use tidegate_api::graph::Partitioner;
use tidegate_api::{Error, Result};
use tidegate_time::Clock;
use tokio::sync::mpsc;

use crate::exchange::{ChannelSender, TaskInbox, TaskQueue, task_queue};
use crate::plan::ExecutionPlan;
use crate::task::{InputGate, TaskCommand};

/// Queues and channel numbers of all tasks.
pub(super) struct Wiring {
    /// Per vertex and subtask.
    pub inputs: Vec<Vec<TaskInput>>,
    /// Per edge, the channels of each sending subtask.
    pub channels: Vec<Vec<Vec<ChannelSender>>>,
}

pub(super) struct TaskInput {
    queue: TaskQueue,
    /// Taken when the task is made.
    inbox: Option<TaskInbox>,
    /// For each channel the input of the head operator and the sender's subtask.
    pub channels: Vec<(usize, usize)>,
}

impl Wiring {
    pub(super) fn new(plan: &ExecutionPlan) -> Self {
        let input = |_| {
            let (queue, inbox) = task_queue();
            TaskInput { queue, inbox: Some(inbox), channels: Vec::new() }
        };
        let mut inputs: Vec<Vec<TaskInput>> =
            plan.vertices.iter().map(|vertex| (0..vertex.parallelism).map(input).collect()).collect();
        let mut channels = Vec::new();
        for edge in &plan.edges {
            let senders = plan.vertices[edge.from.0].parallelism;
            let mut of_edge: Vec<Vec<ChannelSender>> = (0..senders).map(|_| Vec::new()).collect();
            for (sender, targets) in of_edge.iter_mut().enumerate() {
                for (receiver, input) in inputs[edge.to].iter_mut().enumerate() {
                    if edge.partitioner == Partitioner::Forward && sender != receiver {
                        continue;
                    }
                    input.channels.push((edge.input, sender));
                    targets.push(input.queue.channel());
                }
            }
            channels.push(of_edge);
        }
        Wiring { inputs, channels }
    }

    pub(super) fn gate(
        &mut self,
        vertex: usize,
        subtask: usize,
        commands: mpsc::UnboundedReceiver<TaskCommand>,
        clock: Arc<dyn Clock>,
    ) -> Result<InputGate> {
        let input = &mut self.inputs[vertex][subtask];
        let inbox = input.inbox.take().ok_or_else(|| Error::internal("a task was made twice"))?;
        let inputs = input.channels.iter().map(|(input, _)| *input).collect();
        Ok(InputGate::new(inbox, inputs, commands, clock))
    }
}
