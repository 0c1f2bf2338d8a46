//! Where a task's elements come from: its channels, aligned at barriers.
//!
//! Elements are taken off the queue in the order they arrived. Those of a channel that is blocked are set
//! aside; they keep their credits, so their sender stops when it has none left and the others go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::{Result, StreamElement};
use tidegate_checkpoint::alignment::{Aligner, Step};
use tidegate_checkpoint::{Barrier, CheckpointId};
use tidegate_time::Clock;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{Subtask, Task, TaskCommand};
use crate::exchange::{Announcement, ChannelElement, Either, Envelope, TaskInbox};

/// The channels of a task.
pub(crate) struct InputGate {
    inbox: TaskInbox,
    commands: mpsc::UnboundedReceiver<TaskCommand>,
    clock: Arc<dyn Clock>,
    /// Input of the head operator for each channel.
    inputs: Vec<usize>,
    aligner: Aligner,
    /// Elements that a checkpoint had overtaken, before anything that arrives.
    restored: VecDeque<(usize, StreamElement)>,
    /// Taken off the queue and not worked off yet.
    pending: VecDeque<Envelope>,
    /// Elements of blocked channels.
    parked: Vec<VecDeque<Envelope>>,
    /// The last barrier taken off the queue, for each channel.
    passed: Vec<CheckpointId>,
    /// The newest checkpoint of which a barrier was seen, and when the first was.
    first_seen: (CheckpointId, i64),
    /// What the current checkpoint has overtaken.
    overtaken: Vec<(usize, StreamElement)>,
    /// What is to be done before anything else.
    steps: Vec<Step>,
    /// Triggers that came before the ends of all channels were worked off.
    early: VecDeque<Barrier>,
}

/// What comes next.
pub(crate) enum Arrival {
    /// An element of a channel. Its credit goes back when it has been worked off.
    Element { channel: usize, element: StreamElement, _credit: Option<OwnedSemaphorePermit> },
    /// What barriers ask for.
    Steps(Vec<Step>),
    /// The coordinator has something to say.
    Command(TaskCommand),
}

impl InputGate {
    pub(crate) fn new(
        inbox: TaskInbox,
        inputs: Vec<usize>,
        commands: mpsc::UnboundedReceiver<TaskCommand>,
        clock: Arc<dyn Clock>,
    ) -> InputGate {
        let channels = inputs.len();
        InputGate {
            inbox,
            commands,
            clock,
            inputs,
            aligner: Aligner::new(channels),
            restored: VecDeque::new(),
            pending: VecDeque::new(),
            parked: (0..channels).map(|_| VecDeque::new()).collect(),
            passed: vec![CheckpointId(0); channels],
            first_seen: (CheckpointId(0), 0),
            overtaken: Vec::new(),
            steps: Vec::new(),
            early: VecDeque::new(),
        }
    }

    /// Begins with elements that a checkpoint had overtaken.
    pub(crate) fn restore(&mut self, overtaken: Vec<(usize, StreamElement)>) {
        self.restored = overtaken.into();
    }

    /// Number of channels.
    pub(crate) fn channels(&self) -> usize {
        self.inputs.len()
    }

    /// The head's input that a channel feeds.
    pub(crate) fn input(&self, channel: usize) -> usize {
        self.inputs[channel]
    }

    /// The next thing to do; sinks are flushed before waiting for one.
    pub(crate) async fn next(&mut self, task: &mut Task) -> Result<Arrival> {
        loop {
            if !self.steps.is_empty() {
                return Ok(Arrival::Steps(std::mem::take(&mut self.steps)));
            }
            if let Ok(command) = self.commands.try_recv() {
                return Ok(Arrival::Command(command));
            }
            if let Some(announcement) = self.inbox.try_announced() {
                self.announced(announcement);
                continue;
            }
            if let Some((channel, element)) = self.restored.pop_front() {
                return Ok(Arrival::Element { channel, element, _credit: None });
            }
            let next = match self.pending.pop_front() {
                Some(envelope) => Some(envelope),
                None => self.pull(),
            };
            match next {
                Some(envelope) => {
                    if let Some(arrival) = self.sort(envelope) {
                        return Ok(arrival);
                    }
                }
                None if task.save_some()? => {}
                None => {
                    task.flush().await?;
                    let subtask = task.subtask.clone();
                    if let Some(command) = self.wait(&subtask).await? {
                        return Ok(Arrival::Command(command));
                    }
                }
            }
        }
    }

    /// Waits until something has come, or an alignment has taken too long.
    async fn wait(&mut self, subtask: &Subtask) -> Result<Option<TaskCommand>> {
        let deadline_ms = self.aligner.deadline_ms();
        // Flink's rule: later than the timeout, not at it.
        let left_ms = deadline_ms.map(|at| (at - self.clock.now_ms() + 1).max(0) as u64);
        let overdue = async {
            match left_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let waiting = subtask.times.idle();
        let came = tokio::select! {
            biased;
            Some(command) = self.commands.recv() => return Ok(Some(command)),
            () = overdue => None,
            came = self.inbox.either() => Some(came?),
        };
        drop(waiting);
        match came {
            None => self.steps.extend(self.aligner.tick(self.clock.now_ms())),
            Some(Either::Announced(announcement)) => self.announced(announcement),
            Some(Either::Element(envelope)) => {
                self.note(&envelope);
                self.pending.push_back(envelope);
            }
        }
        Ok(None)
    }

    /// A barrier lies in a channel.
    fn announced(&mut self, Announcement { channel, barrier }: Announcement) {
        // What is before it must be here, in case it is to be recorded.
        self.pull_all();
        let now_ms = self.see(barrier.id);
        self.steps.extend(self.aligner.arrived(channel, barrier, now_ms));
    }

    /// A barrier is seen: gives the time.
    fn see(&mut self, checkpoint: CheckpointId) -> i64 {
        let now_ms = self.clock.now_ms();
        if checkpoint > self.first_seen.0 {
            self.first_seen = (checkpoint, now_ms);
        }
        now_ms
    }

    /// When the first barrier of a checkpoint was seen, unless a newer one was.
    pub(crate) fn first_seen_ms(&self, checkpoint: CheckpointId) -> Option<i64> {
        (self.first_seen.0 == checkpoint).then_some(self.first_seen.1)
    }

    /// What an element taken off the queue means.
    fn sort(&mut self, envelope: Envelope) -> Option<Arrival> {
        let channel = envelope.channel;
        if self.aligner.is_blocked(channel) {
            self.parked[channel].push_back(envelope);
            return None;
        }
        if self.aligner.deadline_ms().is_some() {
            self.steps.extend(self.aligner.tick(self.clock.now_ms()));
            if !self.steps.is_empty() {
                self.pending.push_front(envelope);
                return None;
            }
        }
        match envelope.element {
            ChannelElement::Barrier(barrier) => {
                let now_ms = self.see(barrier.id);
                self.steps.extend(self.aligner.reached(channel, barrier, now_ms));
                None
            }
            ChannelElement::Stream(element) => Some(Arrival::Element { channel, element, _credit: envelope.credit }),
        }
    }

    /// Takes the next element off the queue.
    fn pull(&mut self) -> Option<Envelope> {
        let envelope = self.inbox.try_next()?;
        self.note(&envelope);
        Some(envelope)
    }

    fn pull_all(&mut self) {
        while let Some(envelope) = self.pull() {
            self.pending.push_back(envelope);
        }
    }

    /// Notes an element as it is taken off the queue: it may belong to a checkpoint.
    fn note(&mut self, envelope: &Envelope) {
        let channel = envelope.channel;
        match &envelope.element {
            ChannelElement::Barrier(Barrier { id, .. }) => self.passed[channel] = self.passed[channel].max(*id),
            ChannelElement::Stream(element) => {
                if self.aligner.recording(channel).is_some_and(|id| self.passed[channel] < id) {
                    self.overtaken.push((channel, element.clone()));
                }
                if matches!(element, StreamElement::EndOfInput) {
                    self.steps.extend(self.aligner.end_arrived(channel));
                }
            }
        }
    }

    /// This channel is read again.
    pub(crate) fn unblock(&mut self, channel: usize) {
        while let Some(envelope) = self.parked[channel].pop_back() {
            self.pending.push_front(envelope);
        }
    }

    /// These channels are overtaken by a checkpoint: what waits in them before its barrier is part of it.
    pub(crate) fn record(&mut self, channels: &[usize], checkpoint: CheckpointId) {
        let mut behind = vec![false; self.inputs.len()];
        for (channel, element) in &self.restored {
            if channels.contains(channel) {
                self.overtaken.push((*channel, element.clone()));
            }
        }
        for envelope in &self.pending {
            let channel = envelope.channel;
            match &envelope.element {
                ChannelElement::Barrier(barrier) => behind[channel] |= barrier.id >= checkpoint,
                ChannelElement::Stream(element) if channels.contains(&channel) && !behind[channel] => {
                    self.overtaken.push((channel, element.clone()));
                }
                ChannelElement::Stream(_) => {}
            }
        }
        self.pull_all();
    }

    /// What the checkpoint that was aligned last has overtaken.
    pub(crate) fn take_overtaken(&mut self) -> Vec<(usize, StreamElement)> {
        std::mem::take(&mut self.overtaken)
    }

    /// A channel's end has been worked off.
    pub(crate) fn ended(&mut self, channel: usize) {
        self.steps.extend(self.aligner.ended(channel));
    }

    /// What is to be done before anything else.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Keeps a trigger until all channels have ended.
    pub(crate) fn trigger_later(&mut self, barrier: Barrier) {
        self.early.push_back(barrier);
    }

    /// The coordinator triggers a checkpoint here, since all channels have ended.
    pub(crate) fn triggered(&mut self, barrier: Barrier) -> Vec<Step> {
        self.aligner.triggered(barrier)
    }

    /// The coordinator gave a checkpoint up.
    pub(crate) fn cancelled(&mut self, checkpoint: CheckpointId) {
        self.steps.extend(self.aligner.cancelled(checkpoint));
    }

    /// After all channels have ended: the next command.
    pub(crate) async fn command(&mut self) -> Option<TaskCommand> {
        if let Some(barrier) = self.early.pop_front() {
            return Some(TaskCommand::Trigger { barrier, enumerator: serde_json::Value::Null });
        }
        self.commands.recv().await
    }
}
