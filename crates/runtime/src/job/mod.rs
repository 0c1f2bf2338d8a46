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
mod records;
mod restore;
mod start;
mod wiring;
mod working_folder;

pub use cluster::{ClusterOptions, LocalCluster, PreparedJob, WrapSource};
pub use handle::{EndedJob, JobHandle, JobId, JobSummary, OperatorRows};
pub use records::{JobRecords, ResumedJob, StopSavepoint};
pub use restore::RestorePlan;
