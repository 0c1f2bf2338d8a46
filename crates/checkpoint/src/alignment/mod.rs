//! How a subtask with several inputs takes part in a checkpoint.
//!
//! ```text
//!   input 0   ...a b |n| c d      read first: blocked, c and d wait
//!   input 1   ...e f g h |n|      everything before its barrier still counts
//! ```
//!
//! *Aligned*: an input whose barrier was read is blocked until the barrier of every input was; then the
//! state is exactly what came before the barriers. *Unaligned*: the state is taken at once, the barrier
//! overtakes what is queued, and the queued elements in front of the barriers become part of the
//! checkpoint. *Timeout* is the first, and the second once the barrier has been on its way for too long.
//!
//! A queue is shared by sender and receiver, so what a barrier overtakes is always on the receiver's
//! side, and recording it is the receiver's business alone.
//!
//! The machine is told when a barrier *arrives* in an input's queue (only the unaligned kinds need to
//! know) and when it is *reached*, everything before it having been processed.

mod machine;
mod step;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use machine::Aligner;
pub use step::{AbandonReason, Step};
