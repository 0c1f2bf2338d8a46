//! How a job survives: barriers, alignment, the checkpoint coordinator, manifests, restarts and the two
//! phases of a commit.
//!
//! All of it is pure: facts in, decisions out, with the time as a parameter. Only storage does I/O.

pub mod barrier;
pub mod ids;
pub mod manifest;
pub mod restart;

pub use barrier::{Alignment, Barrier, BarrierKind, Stop};
pub use ids::{CheckpointId, JobId, OperatorId, TaskId};
