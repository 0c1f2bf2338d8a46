//! Between tasks: bounded channels and the partitioners that spread rows over them.
//!
//! A task has one bounded queue for all that comes to it, each element marked with its channel. A full
//! queue makes its senders wait: backpressure is nothing but that. There are no cycles, so no task can
//! wait for itself.

mod key_hash;
mod partition;

use tidegate_api::StreamElement;
use tokio::sync::mpsc;

pub(crate) use partition::ResultPartition;

/// Elements a task's queue holds at most. With full batches this bounds a task's input to a few
/// thousand rows times this.
pub(crate) const QUEUE_ELEMENTS: usize = 16;

/// An element and the channel it came through.
pub(crate) struct Envelope {
    /// Number of the channel at the receiver.
    pub channel: u32,
    /// The element.
    pub element: StreamElement,
}

/// The sending end of one channel.
#[derive(Clone)]
pub(crate) struct ChannelSender {
    /// Number of the channel at the receiver.
    pub channel: u32,
    /// The receiver's queue.
    pub queue: mpsc::Sender<Envelope>,
}
