//! Jobs that are killed: real processes, real brokers, and a count of every row at the end.
//!
//! A [`Round`] runs one job over many lives. Each ends by `kill -9` at a moment that a seed chooses, or by the
//! process itself at a [fail point](tidegate_api::fail_point); the next goes on from the newest checkpoint, with
//! another parallelism or with barriers that overtake, as the seed wants it. In between the broker is away
//! once. At the end readers of committed records and of finished files must see exactly the rows of an
//! undisturbed run.

pub mod disk;
pub mod input;
mod job;
pub mod life;
pub mod output;
mod round;
pub mod site;

pub use job::{Job, LIMIT};
pub use round::{Outcome, Round};
