//! Channels with credits, and the queue where the channels of a task meet.

use std::sync::Arc;

use tidegate_api::{Error, Result, StreamElement};
use tidegate_checkpoint::{Alignment, Barrier};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};

use crate::task::TaskTimes;

/// Elements a channel may hold. With full batches this bounds what waits for a task to this many batches
/// for each of its senders.
const CHANNEL_CREDITS: usize = 8;

/// What a channel carries.
#[derive(Clone, Debug)]
pub(crate) enum ChannelElement {
    /// For the operators.
    Stream(StreamElement),
    /// For the task.
    Barrier(Barrier),
}

/// An element and the channel it came through. The channel's credit goes back when this is dropped.
pub(crate) struct Envelope {
    /// Number of the channel at the receiver.
    pub channel: usize,
    /// The element.
    pub element: ChannelElement,
    /// The channel's credit; barriers need none, so that nothing holds them up.
    pub credit: Option<OwnedSemaphorePermit>,
}

/// Says that a barrier lies in a channel, behind what is not worked off yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcement {
    pub channel: usize,
    pub barrier: Barrier,
}

/// Where the channels of a task meet: the sending side, from which channels are made.
pub(crate) struct TaskQueue {
    sender: mpsc::UnboundedSender<Envelope>,
    announcer: mpsc::UnboundedSender<Announcement>,
    channels: usize,
}

/// The receiving side of a task's channels.
pub(crate) struct TaskInbox {
    receiver: mpsc::UnboundedReceiver<Envelope>,
    announced: mpsc::UnboundedReceiver<Announcement>,
}

/// The two sides of a task's input.
pub(crate) fn task_queue() -> (TaskQueue, TaskInbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (announcer, announced) = mpsc::unbounded_channel();
    (TaskQueue { sender, announcer, channels: 0 }, TaskInbox { receiver, announced })
}

impl TaskQueue {
    /// Another channel to the task; they are numbered from 0.
    pub(crate) fn channel(&mut self) -> ChannelSender {
        let channel = self.channels;
        self.channels += 1;
        let credits = Arc::new(Semaphore::new(CHANNEL_CREDITS));
        ChannelSender { channel, queue: self.sender.clone(), announcer: self.announcer.clone(), credits }
    }
}

impl TaskInbox {
    /// The next element, if one is there.
    pub(crate) fn try_next(&mut self) -> Option<Envelope> {
        self.receiver.try_recv().ok()
    }

    /// The next barrier that may overtake, if one was announced.
    pub(crate) fn try_announced(&mut self) -> Option<Announcement> {
        self.announced.try_recv().ok()
    }

    /// The next element or announcement, whichever is first. Cancel-safe.
    pub(crate) async fn either(&mut self) -> Result<Either> {
        tokio::select! {
            biased;
            Some(announcement) = self.announced.recv() => Ok(Either::Announced(announcement)),
            // All senders went away without an end: they failed or are being cancelled.
            next = self.receiver.recv() => next.map(Either::Element).ok_or_else(Error::cancelled),
        }
    }
}

/// What comes next to a task.
pub(crate) enum Either {
    Element(Envelope),
    Announced(Announcement),
}

/// The sending end of one channel.
pub(crate) struct ChannelSender {
    channel: usize,
    queue: mpsc::UnboundedSender<Envelope>,
    announcer: mpsc::UnboundedSender<Announcement>,
    credits: Arc<Semaphore>,
}

impl ChannelSender {
    /// Sends an element; waits while the channel is full.
    pub(crate) async fn send(&self, element: StreamElement, times: &TaskTimes) -> Result<()> {
        let credit = match self.credits.clone().try_acquire_owned() {
            Ok(credit) => credit,
            Err(TryAcquireError::Closed) => return Err(Error::cancelled()),
            Err(TryAcquireError::NoPermits) => {
                let waiting = times.backpressured();
                // A receiver that goes away drops what it holds, so a waiting sender always wakes up.
                let credit = self.credits.clone().acquire_owned().await;
                drop(waiting);
                credit.map_err(|_| Error::cancelled())?
            }
        };
        let element = ChannelElement::Stream(element);
        let envelope = Envelope { channel: self.channel, element, credit: Some(credit) };
        // The receiver ended: it failed or is being cancelled, and says why itself.
        self.queue.send(envelope).map_err(|_| Error::cancelled())
    }

    /// Sends a barrier; never waits. One that may overtake is announced too.
    pub(crate) fn barrier(&self, barrier: Barrier) -> Result<()> {
        let envelope = Envelope { channel: self.channel, element: ChannelElement::Barrier(barrier), credit: None };
        self.queue.send(envelope).map_err(|_| Error::cancelled())?;
        if matches!(barrier.kind.alignment(), Alignment::Timeout(_) | Alignment::Unaligned) {
            // After the barrier, so that whoever hears of it finds all that is before it in the queue.
            let announcement = Announcement { channel: self.channel, barrier };
            self.announcer.send(announcement).map_err(|_| Error::cancelled())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use tidegate_api::Watermark;
    use tidegate_time::ManualClock;

    fn element(n: i64) -> StreamElement {
        StreamElement::Watermark(Watermark(n))
    }

    fn is_pending(future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn a_full_channel_stops_its_sender_and_no_other() {
        let times = TaskTimes::new(Arc::new(ManualClock::new(0)));
        let (mut queue, mut inbox) = task_queue();
        let (first, second) = (queue.channel(), queue.channel());
        for n in 0..CHANNEL_CREDITS as i64 {
            first.send(element(n), &times).await.unwrap();
        }
        let mut blocked = Box::pin(first.send(element(99), &times));
        assert!(is_pending(blocked.as_mut()));
        second.send(element(0), &times).await.unwrap();
        let held = inbox.try_next().unwrap();
        assert_eq!(held.channel, 0);
        assert!(is_pending(blocked.as_mut()), "the credit lies in the envelope");
        drop(held);
        blocked.await.unwrap();
    }

    #[tokio::test]
    async fn a_barrier_waits_for_nobody_and_is_found_behind_what_it_may_overtake() {
        let times = TaskTimes::new(Arc::new(ManualClock::new(0)));
        let (mut queue, mut inbox) = task_queue();
        let channel = queue.channel();
        for n in 0..CHANNEL_CREDITS as i64 {
            channel.send(element(n), &times).await.unwrap();
        }
        let kind = tidegate_checkpoint::BarrierKind::Checkpoint(Alignment::Unaligned);
        let barrier = Barrier { id: tidegate_checkpoint::CheckpointId(1), timestamp_ms: 0, kind };
        channel.barrier(barrier).unwrap();
        assert!(matches!(inbox.either().await.unwrap(), Either::Announced(a) if a.barrier == barrier));
        let queued: Vec<Envelope> = std::iter::from_fn(|| inbox.try_next()).collect();
        assert_eq!(queued.len(), CHANNEL_CREDITS + 1);
        assert!(matches!(queued.last().unwrap().element, ChannelElement::Barrier(b) if b == barrier));
    }

    #[tokio::test]
    async fn a_receiver_that_goes_away_frees_its_waiting_senders() {
        let times = TaskTimes::new(Arc::new(ManualClock::new(0)));
        let (mut queue, inbox) = task_queue();
        let channel = queue.channel();
        for n in 0..CHANNEL_CREDITS as i64 {
            channel.send(element(n), &times).await.unwrap();
        }
        let mut blocked = Box::pin(channel.send(element(99), &times));
        assert!(is_pending(blocked.as_mut()));
        drop(inbox);
        assert!(blocked.await.is_err());
    }
}
