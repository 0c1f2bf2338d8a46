//! How the tasks of an attempt are connected: a queue for each, channels for every edge.

use std::collections::BTreeMap;
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
    /// For each channel the input of the head operator, and which of its senders it comes from.
    pub channels: Vec<(usize, usize)>,
}

/// Numbers the senders of an input: after a union several edges lead to it, each with a first subtask.
#[derive(Default)]
struct SenderNumbers(BTreeMap<(usize, usize), usize>);

impl SenderNumbers {
    /// The number of the first of `count` senders more of an input of a vertex.
    fn add(&mut self, to: usize, input: usize, count: usize) -> usize {
        let next = self.0.entry((to, input)).or_default();
        std::mem::replace(next, *next + count)
    }
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
        let mut numbers = SenderNumbers::default();
        for edge in &plan.edges {
            let senders = plan.vertices[edge.from.0].parallelism;
            let first = numbers.add(edge.to, edge.input, senders);
            let mut of_edge: Vec<Vec<ChannelSender>> = (0..senders).map(|_| Vec::new()).collect();
            for (sender, targets) in of_edge.iter_mut().enumerate() {
                for (receiver, input) in inputs[edge.to].iter_mut().enumerate() {
                    if edge.partitioner == Partitioner::Forward && sender != receiver {
                        continue;
                    }
                    input.channels.push((edge.input, first + sender));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_several_edges_into_an_input_have_numbers_of_their_own() {
        let mut numbers = SenderNumbers::default();
        assert_eq!(numbers.add(7, 0, 2), 0);
        assert_eq!(numbers.add(7, 0, 3), 2);
        assert_eq!(numbers.add(7, 1, 2), 0);
        assert_eq!(numbers.add(8, 0, 1), 0);
        assert_eq!(numbers.add(7, 0, 1), 5);
    }
}
