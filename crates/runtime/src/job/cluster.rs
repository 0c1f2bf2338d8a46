//! Everything in one process: jobs share one data runtime with a thread per core.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::connector::ConnectorRegistry;
use tidegate_api::function::FunctionLibrary;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, Result, WindowKind};
use tidegate_checkpoint::options::{Backend, CheckpointOptions};
use tidegate_checkpoint::restart::RestartStrategy;
use tidegate_checkpoint::storage::Stores;
use tidegate_time::{Clock, SystemClock};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::deploy::Deployment;
use super::execution::Execution;
use super::handle::{Job, JobHandle, JobId};
use crate::notices::{JobNotices, Notice, Notices};
use crate::plan::plan;

/// What a cluster is made from.
pub struct ClusterOptions {
    /// Threads of the data runtime; 0 is one per core.
    pub worker_threads: usize,
    /// Where tables are read and written.
    pub connectors: ConnectorRegistry,
    /// Expressions and aggregates.
    pub functions: Arc<dyn FunctionLibrary>,
    /// Wall clock and idleness.
    pub clock: Arc<dyn Clock>,
    /// Who is told about late rows and odd event times.
    pub notices: Arc<dyn Notices>,
    /// How many ended jobs are remembered; the oldest are forgotten first.
    pub finished_jobs_max: usize,
}

/// Ended jobs remembered unless told otherwise: enough to look back at, and little memory.
const FINISHED_JOBS_MAX: usize = 100;

impl ClusterOptions {
    /// A cluster with a thread per core, the machine's clock, and nobody who listens to notices.
    pub fn new(connectors: ConnectorRegistry, functions: Arc<dyn FunctionLibrary>) -> Self {
        ClusterOptions {
            worker_threads: 0,
            connectors,
            functions,
            clock: Arc::new(SystemClock::new()),
            notices: Arc::new(|_: Notice| {}),
            finished_jobs_max: FINISHED_JOBS_MAX,
        }
    }
}

/// Runs jobs in this process. Dropping it stops all of them.
pub struct LocalCluster {
    options: Arc<ClusterOptions>,
    stores: Arc<Stores>,
    jobs: Mutex<Vec<JobHandle>>,
    /// Taken when the cluster is dropped.
    runtime: Option<Runtime>,
}

impl LocalCluster {
    /// Starts the data runtime.
    pub fn new(options: ClusterOptions) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.thread_name("tidegate-task").enable_all();
        if options.worker_threads > 0 {
            builder.worker_threads(options.worker_threads);
        }
        let runtime =
            builder.build().map_err(|e| Error::job(format!("cannot start the threads that run tasks: {e}")))?;
        Ok(LocalCluster {
            options: Arc::new(options),
            stores: Arc::default(),
            jobs: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    /// Checks a job, makes its operators, and starts it. What is wrong with the job itself (an unknown
    /// connector option, a construct that does not run) is an error here; what goes wrong later is the
    /// error of [`JobHandle::wait`].
    pub fn submit(&self, graph: JobGraph) -> Result<JobHandle> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::internal("the cluster is shut down"));
        };
        let execution = self.prepare(graph)?;
        let handle = JobHandle { job: execution.job.clone() };
        {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            forget_ended(&mut jobs, self.options.finished_jobs_max);
            jobs.push(handle.clone());
        }
        runtime.spawn(execution.execute());
        Ok(handle)
    }

    /// Checks a job and makes it ready to run.
    fn prepare(&self, graph: JobGraph) -> Result<Execution> {
        let checkpoints = CheckpointOptions::from_config(&graph.config)?;
        let takes_checkpoints = checkpoints.takes_checkpoints();
        let strategy = RestartStrategy::from_config(&graph.config, checkpoints.is_enabled())?;
        let (id, plan) = (JobId::random(), plan(&graph)?);
        let mut checked = Deployment::new(&graph, &plan, &id, &self.options, None)?;
        let attempt = std::mem::take(&mut checked.attempt);
        let (sender, requests) = mpsc::unbounded_channel();
        let job = Arc::new(Job::new(id, graph.name.clone(), attempt, self.options.clock.clone(), sender));
        let notices = JobNotices::new(job.id.to_string(), self.options.notices.clone());
        if !checkpoints.without_effect.is_empty() && takes_checkpoints {
            notices.warn(format!("settings without effect here: {}", checkpoints.without_effect.join(", ")));
        }
        if checkpoints.backend == Backend::Disk && graph.nodes.iter().any(|node| has_sessions(&node.spec)) {
            notices.warn(
                "'state.backend.type' asks for state on disk; session windows keep theirs in memory in this release",
            );
        }
        Ok(Execution {
            graph,
            plan,
            options: self.options.clone(),
            job,
            requests,
            strategy,
            stores: self.stores.clone(),
            checked: (!takes_checkpoints && checkpoints.backend == Backend::HashMap).then_some(checked),
            checkpoints,
        })
    }

    /// The jobs that run and those that ended last, oldest first.
    pub fn jobs(&self) -> Vec<JobHandle> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The job with this id.
    pub fn job(&self, id: &str) -> Option<JobHandle> {
        self.jobs().into_iter().find(|job| job.id().as_str() == id)
    }
}

fn has_sessions(spec: &OperatorSpec) -> bool {
    let window = match spec {
        OperatorSpec::WindowAggregate(spec) => &spec.window,
        OperatorSpec::WindowTableFunction { window, .. } => window,
        _ => return false,
    };
    matches!(window.kind, WindowKind::Session { .. })
}

/// Forgets the oldest of the ended jobs until `max` of them are left.
fn forget_ended(jobs: &mut Vec<JobHandle>, max: usize) {
    let ended = jobs.iter().filter(|job| job.status().is_terminal()).count();
    let mut surplus = ended.saturating_sub(max);
    jobs.retain(|job| {
        let forget = surplus > 0 && job.status().is_terminal();
        surplus -= usize::from(forget);
        !forget
    });
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Not waiting: this may run inside another runtime, where waiting is forbidden.
            runtime.shutdown_background();
        }
    }
}
