//! What outlives the process: the job manager says when it must be written, somebody else keeps it.

use tidegate_api::Result;

use super::handle::{EndedJob, JobId};

/// Keeps what must be known of jobs when their process is gone. Calls come from the data plane's threads and may
/// block for as long as a file takes to reach the disk.
pub trait JobRecords: Send + Sync {
    /// A savepoint that stops the job exists, and its sinks are about to publish with it: the job must never go on
    /// from anything older.
    fn stopping(&self, job: &JobId, savepoint: &StopSavepoint) -> Result<()>;

    /// The job was restarted so often by now, in all processes.
    fn restarted(&self, job: &JobId, times: u64) -> Result<()>;

    /// The job has reached its last state. Its checkpoints go when this has returned, and stay if it is an error: a
    /// job that is started again without them would write its rows again.
    fn ended(&self, job: &EndedJob) -> Result<()>;
}

/// A job that ran in another process and goes on in this one.
#[derive(Clone, Debug)]
pub struct ResumedJob {
    /// Its id, which it keeps.
    pub id: JobId,
    /// How often it was restarted before, in all processes.
    pub restarts: u64,
    /// The savepoint it was stopping with, if it was.
    pub savepoint: Option<StopSavepoint>,
}

/// A savepoint that a job was stopping with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSavepoint {
    /// Its number, in the order of the job's checkpoints.
    pub checkpoint: u64,
    /// Where it is.
    pub location: String,
}
