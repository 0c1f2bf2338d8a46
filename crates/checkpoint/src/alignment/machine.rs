//! The machine.

use std::collections::BTreeSet;

use crate::alignment::{AbandonReason, Step};
use crate::barrier::{Alignment, Barrier, BarrierKind};
use crate::ids::CheckpointId;

/// Cancelled checkpoints whose barriers may still come; the oldest are forgotten first. Coordinators
/// have a handful in flight at most.
const CANCELLED_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    blocked: bool,
    /// The end is in the queue: nothing will arrive any more.
    end_queued: bool,
    /// The end was reached.
    ended: bool,
}

/// How far the barrier of the current checkpoint has come on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Expected,
    /// In the queue, with elements before it.
    Queued,
    /// Read; or the channel has ended, which is as good.
    Reached,
}

#[derive(Clone, Debug)]
struct Current {
    barrier: Barrier,
    progress: Vec<Progress>,
    /// The snapshot has been taken and the channels whose barrier is still expected are recorded.
    overtaken: bool,
}

/// The barriers of one subtask's inputs.
#[derive(Clone, Debug)]
pub struct Aligner {
    channels: Vec<Channel>,
    current: Option<Current>,
    /// The highest checkpoint that was begun; lower barriers are obsolete.
    latest: CheckpointId,
    cancelled: BTreeSet<CheckpointId>,
}

impl Aligner {
    /// A subtask with so many input channels, over all its inputs; none for a source.
    pub fn new(channels: usize) -> Aligner {
        Aligner {
            channels: vec![Channel::default(); channels],
            current: None,
            latest: CheckpointId(0),
            cancelled: BTreeSet::new(),
        }
    }

    /// True if nothing may be read from this channel now.
    pub fn is_blocked(&self, channel: usize) -> bool {
        self.channels[channel].blocked
    }

    /// The checkpoint that an element arriving on this channel now belongs to, if it must be persisted.
    pub fn recording(&self, channel: usize) -> Option<CheckpointId> {
        let current = self.current.as_ref().filter(|current| current.overtaken)?;
        (current.progress[channel] == Progress::Expected).then_some(current.barrier.id)
    }

    /// The checkpoint whose barriers are being waited for.
    pub fn pending(&self) -> Option<CheckpointId> {
        self.current.as_ref().map(|current| current.barrier.id)
    }

    /// When [`Aligner::tick`] is due, milliseconds since the epoch.
    pub fn deadline_ms(&self) -> Option<i64> {
        let current = self.current.as_ref().filter(|current| !current.overtaken)?;
        match current.barrier.kind.alignment() {
            Alignment::Timeout(timeout_ms) => Some(current.barrier.timestamp_ms.saturating_add(timeout_ms)),
            _ => None,
        }
    }

    /// A barrier was put into a channel's queue, behind elements that are not processed yet.
    pub fn arrived(&mut self, channel: usize, barrier: Barrier, now_ms: i64) -> Vec<Step> {
        // Where nothing can be overtaken only reading a barrier means anything: an aligned barrier in
        // the queue of a blocked channel does not end the checkpoint it is blocked for.
        match barrier.kind.alignment() {
            Alignment::Timeout(_) | Alignment::Unaligned => self.seen(channel, barrier, Progress::Queued, now_ms),
            Alignment::Aligned | Alignment::AtLeastOnce => Vec::new(),
        }
    }

    /// A barrier is next on a channel: all before it has been processed.
    pub fn reached(&mut self, channel: usize, barrier: Barrier, now_ms: i64) -> Vec<Step> {
        self.seen(channel, barrier, Progress::Reached, now_ms)
    }

    /// The end of input was put into a channel's queue.
    pub fn end_arrived(&mut self, channel: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        self.channels[channel].end_queued = true;
        if let Some(current) = self.current.as_mut().filter(|current| current.overtaken) {
            current.progress[channel] = current.progress[channel].max(Progress::Queued);
            self.finish_if_complete(&mut steps);
        }
        steps
    }

    /// A channel has ended: it counts as if its barrier had been read.
    pub fn ended(&mut self, channel: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        self.channels[channel] = Channel { blocked: false, end_queued: true, ended: true };
        if let Some(current) = &mut self.current {
            current.progress[channel] = Progress::Reached;
            self.finish_if_complete(&mut steps);
        }
        steps
    }

    /// A checkpoint is triggered by the coordinator itself: at a source, or where the senders of all
    /// inputs have ended, so that no barrier will come. It waits for ends that are still queued.
    pub fn triggered(&mut self, barrier: Barrier) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.is_obsolete(barrier.id) {
            return steps;
        }
        if barrier.id > self.latest {
            self.begin(barrier, &mut steps);
        }
        self.finish_if_complete(&mut steps);
        steps
    }

    /// The coordinator gave a checkpoint up: its barriers mean nothing any more.
    pub fn cancelled(&mut self, checkpoint: CheckpointId) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.pending() == Some(checkpoint) {
            self.abandon(AbandonReason::Cancelled, &mut steps);
        } else if checkpoint > self.latest {
            self.cancelled.insert(checkpoint);
            while self.cancelled.len() > CANCELLED_MAX {
                self.cancelled.pop_first();
            }
        }
        steps
    }

    /// Time has passed: an alignment that takes too long stops waiting.
    pub fn tick(&mut self, now_ms: i64) -> Vec<Step> {
        let mut steps = Vec::new();
        // Flink's rule: later than the timeout, not at it.
        if self.deadline_ms().is_some_and(|deadline| now_ms > deadline) {
            self.overtake(&mut steps);
        }
        steps
    }

    fn is_obsolete(&self, id: CheckpointId) -> bool {
        id < self.latest || (id == self.latest && self.pending() != Some(id)) || self.cancelled.contains(&id)
    }

    fn seen(&mut self, channel: usize, barrier: Barrier, progress: Progress, now_ms: i64) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.is_obsolete(barrier.id) {
            return steps;
        }
        if barrier.id > self.latest {
            self.begin(barrier, &mut steps);
        }
        let alignment = barrier.kind.alignment();
        let Some(current) = &mut self.current else { return steps };
        current.progress[channel] = current.progress[channel].max(progress);
        let blocks = progress == Progress::Reached
            && !current.overtaken
            && alignment != Alignment::AtLeastOnce
            && alignment != Alignment::Unaligned;
        if self.finish_if_complete(&mut steps) {
            return steps;
        }
        if alignment == Alignment::Unaligned {
            self.overtake(&mut steps);
            return steps;
        }
        if blocks {
            self.channels[channel].blocked = true;
            steps.push(Step::Block(channel));
        }
        steps.extend(self.tick(now_ms));
        steps
    }

    fn begin(&mut self, barrier: Barrier, steps: &mut Vec<Step>) {
        if self.current.is_some() {
            self.abandon(AbandonReason::Superseded { by: barrier.id }, steps);
        }
        self.latest = barrier.id;
        self.cancelled = self.cancelled.split_off(&barrier.id.next());
        let progress =
            self.channels.iter().map(|c| if c.ended { Progress::Reached } else { Progress::Expected }).collect();
        self.current = Some(Current { barrier, progress, overtaken: false });
    }

    /// Stops waiting: what is queued before the barriers becomes part of the checkpoint.
    fn overtake(&mut self, steps: &mut Vec<Step>) {
        let Some(current) = self.current.as_mut().filter(|current| !current.overtaken) else { return };
        current.overtaken = true;
        current.barrier.kind = BarrierKind::Checkpoint(Alignment::Unaligned);
        for (channel, progress) in current.progress.iter_mut().enumerate() {
            if *progress != Progress::Reached {
                steps.push(Step::Record { channel, checkpoint: current.barrier.id });
            }
            if self.channels[channel].end_queued {
                *progress = (*progress).max(Progress::Queued);
            }
        }
        steps.push(Step::Snapshot(current.barrier));
        self.unblock_all(steps);
        self.finish_if_complete(steps);
    }

    fn finish_if_complete(&mut self, steps: &mut Vec<Step>) -> bool {
        let Some(current) = &self.current else { return false };
        let needed = if current.overtaken { Progress::Queued } else { Progress::Reached };
        if current.progress.iter().any(|progress| *progress < needed) {
            return false;
        }
        let (barrier, overtaken) = (current.barrier, current.overtaken);
        self.current = None;
        if !overtaken {
            steps.push(Step::Snapshot(barrier));
            self.unblock_all(steps);
        }
        steps.push(Step::Done(barrier.id));
        true
    }

    fn abandon(&mut self, reason: AbandonReason, steps: &mut Vec<Step>) {
        if let Some(current) = self.current.take() {
            steps.push(Step::Abandon { checkpoint: current.barrier.id, reason });
            self.unblock_all(steps);
        }
    }

    fn unblock_all(&mut self, steps: &mut Vec<Step>) {
        for (channel, state) in self.channels.iter_mut().enumerate() {
            if std::mem::take(&mut state.blocked) {
                steps.push(Step::Unblock(channel));
            }
        }
    }
}
