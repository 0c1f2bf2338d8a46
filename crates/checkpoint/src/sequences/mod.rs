//! The bookkeeping of a sink that writes ahead: exactly once without open transactions.
//!
//! Rows of an epoch are staged as *segments* and become part of the checkpoint at its barrier. When the
//! checkpoint is complete, each segment is written in one short transaction together with its sequence
//! number, which is the committed offset of a consumer group of its own. So whoever knows the group
//! knows what is written, whatever was lost on the way.
//!
//! The rules:
//! 1. Sequences belong to a transactional id and are never checkpoint ids: the next is
//!    `max(committed, in the checkpoint) + 1`, so an older savepoint never makes new segments look
//!    written.
//! 2. At recovery, for every id with pending segments: fence (initialise the id, which shuts out whoever
//!    used it), then read the committed sequence, then write what is newer, in order. Only when no id has
//!    pending segments does the sink open its own and take rows. Nobody else may use these ids.
//! 3. After any error of a transaction its outcome is unknown: drop the producer and begin at 2.
//! 4. Committed offsets expire. A checkpoint older than their retention whose offset is missing is
//!    refused unless forced: it cannot be told whether its segments were written.
//! 5. Staged bytes are capped; see [`Admission`] for why waiting must not be forever.
//! 6. A segment too large for one transaction is cut into several, each with its own sequence.
//!
//! The offset's metadata holds the segment's token, so that a snapshot from before a fork of the job's
//! history is recognised instead of being taken for written.
//!
//! A segment carries its id and group, so that after a change of parallelism or prefix it is finished
//! under its old names, by whichever subtask [`spread`] gives it to.

mod admission;
mod error;
mod lane;
mod segment;
mod set;
mod spread;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Caps};
pub use error::SequenceError;
pub use lane::Command;
pub use segment::{Committed, LaneState, Segment, SinkName, Staged};
pub use set::{Restored, Sequences};
pub use spread::spread;
