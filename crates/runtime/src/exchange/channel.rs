//! Channels with credits, and the queue where the channels of a task meet.

use std::sync::Arc;

use tidegate_api::{Error, Result, StreamElement};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};

use crate::task::TaskTimes;

/// Elements a channel may hold. With full batches this bounds what waits for a task to this many batches
/// for each of its senders.
const CHANNEL_CREDITS: usize = 8;

/// An element and the channel it came through. The channel's credit goes back when this is dropped.
pub(crate) struct Envelope {
    /// Number of the channel at the receiver.
    pub channel: u32,
    /// The element.
    pub element: StreamElement,
    /// The channel's credit.
    pub credit: OwnedSemaphorePermit,
}

/// Where the channels of a task meet: the sending side, from which channels are made.
pub(crate) struct TaskQueue {
    sender: mpsc::UnboundedSender<Envelope>,
    channels: u32,
}

/// The receiving side of a task's channels.
pub(crate) struct TaskInbox {
    receiver: mpsc::UnboundedReceiver<Envelope>,
}

/// The two sides of a task's input.
pub(crate) fn task_queue() -> (TaskQueue, TaskInbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (TaskQueue { sender, channels: 0 }, TaskInbox { receiver })
}

impl TaskQueue {
    /// Another channel to the task; they are numbered from 0.
    pub(crate) fn channel(&mut self) -> ChannelSender {
        let channel = self.channels;
        self.channels += 1;
        ChannelSender { channel, queue: self.sender.clone(), credits: Arc::new(Semaphore::new(CHANNEL_CREDITS)) }
    }
}

impl TaskInbox {
    /// The next element, if one is there.
    pub(crate) fn try_next(&mut self) -> Option<Envelope> {
        self.receiver.try_recv().ok()
    }

    /// The next element. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Envelope> {
        // All senders went away without an end: they failed or are being cancelled.
        self.receiver.recv().await.ok_or_else(Error::cancelled)
    }
}

/// The sending end of one channel.
pub(crate) struct ChannelSender {
    channel: u32,
    queue: mpsc::UnboundedSender<Envelope>,
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
        let envelope = Envelope { channel: self.channel, element, credit };
        // The receiver ended: it failed or is being cancelled, and says why itself.
        self.queue.send(envelope).map_err(|_| Error::cancelled())
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
        let held = inbox.next().await.unwrap();
        assert_eq!(held.channel, 0);
        assert!(is_pending(blocked.as_mut()), "the credit lies in the envelope");
        drop(held);
        blocked.await.unwrap();
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
