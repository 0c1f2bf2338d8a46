//! What others see over HTTP: Flink's REST paths and JSON, so that its tools and scripts keep working.
//!
//! Every path answers with and without the `/v1` prefix. The server reads snapshots
//! ([`tidegate_runtime::view`]) and never touches the data plane; it runs on a runtime of its own, so
//! it answers while the data plane is saturated.

mod audit;
mod checkpoints;
mod cluster;
mod error;
mod job;
mod metrics;
mod operations;
mod routes;
mod savepoints;
mod vertex;

use std::pin::Pin;
use std::sync::Arc;

use tidegate_api::Result;
use tidegate_api::graph::JobGraph;
use tidegate_checkpoint::Stop;
use tidegate_runtime::audit::OutputsView;
use tidegate_runtime::view::{CheckpointStatistics, JobView, TakenCheckpoint};

pub use operations::Operations;
pub use routes::{router, router_with, serve};

/// An answer that takes its time.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What the server needs from the job manager.
pub trait ClusterAccess: Send + Sync {
    /// All jobs, newest first.
    fn jobs(&self) -> Vec<JobView>;

    /// One job.
    fn job(&self, id: &str) -> Option<JobView>;

    /// Starts a job and gives its id. `script` are the statements it was made of, for people. May block for as long
    /// as a file takes to reach the disk.
    fn submit(&self, graph: JobGraph, script: Option<String>) -> Result<String>;

    /// Asks a running job to stop; false if there is none of that id.
    fn cancel(&self, id: &str) -> bool;

    /// What a job's exactly-once sinks have published; `None` if there is no job of that id.
    fn outputs(&self, id: &str) -> Option<OutputsView> {
        let _ = id;
        None
    }

    /// How a job takes checkpoints, and what became of them; `None` if it takes none or is unknown.
    fn checkpoints(&self, id: &str) -> Option<CheckpointStatistics>;

    /// Takes a savepoint into a folder under `target`, or under the job's own, and gives its place; with `stop` when
    /// the job has ended with it.
    fn savepoint(&self, id: &str, target: Option<String>, stop: Option<Stop>) -> Answer<String>;

    /// Takes a checkpoint now.
    fn checkpoint(&self, id: &str) -> Answer<TakenCheckpoint>;

    /// Settings the process was started with.
    fn settings(&self) -> Vec<(String, String)>;
}

/// Shared by all handlers.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) cluster: Arc<dyn ClusterAccess>,
    pub(crate) slots: usize,
    pub(crate) taskmanager_id: Arc<str>,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(crate) operations: operations::Operations,
}
