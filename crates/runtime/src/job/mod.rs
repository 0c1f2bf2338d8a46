//! The local job manager: takes job graphs, runs them, tells how they are doing.

mod attempt;
mod boards;
mod checkpoints;
mod cluster;
mod deploy;
mod driver;
mod execution;
mod handle;
mod memory;
mod start;
mod wiring;

pub use cluster::{ClusterOptions, LocalCluster};
pub use handle::{JobHandle, JobId, JobSummary, OperatorRows};
