//! Between tasks: bounded channels and the partitioners that spread rows over them.
//!
//! Each channel has a credit for every element that may lie in it unprocessed; a sender without credit
//! waits: backpressure is nothing but that. There are no cycles, so no task can wait for itself. What comes
//! to a task through all its channels arrives in one queue, in the order it was sent: a task that sets one
//! channel aside (to align a barrier) holds at most that channel's credits, and its other senders go on.

mod channel;
mod key_hash;
mod partition;

pub(crate) use channel::{
    Announcement, ChannelElement, ChannelSender, Either, Envelope, TaskInbox, TaskQueue, task_queue,
};
pub(crate) use key_hash::KeyHasher;
pub(crate) use partition::ResultPartition;
