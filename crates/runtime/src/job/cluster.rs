//! Everything in one process: jobs share one data runtime with a thread per core.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorRegistry, Source};
use tidegate_api::function::FunctionLibrary;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::options::{Backend, CheckpointOptions, StorageKind, add_defaults, default_dir};
use tidegate_checkpoint::restart::RestartStrategy;
use tidegate_checkpoint::storage::{CheckpointStorage, Stores};
use tidegate_time::{Clock, SystemClock};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::checkpoints::{JobCheckpoints, checkpoint_job, storage_failed};
use super::deploy::Deployment;
use super::execution::{Checked, Execution};
use super::handle::{Attempt, EndedJob, Job, JobHandle, JobId};
use super::records::{JobRecords, ResumedJob};
use super::working_folder;
use crate::audit::OutputBoard;
use crate::notices::{JobNotices, Notice, Notices};
use crate::plan::{ExecutionPlan, plan};

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
    /// Settings of jobs that do not have them.
    pub defaults: Configuration,
    /// Where checkpoints of jobs go that name no place themselves: a folder or URL. `None` is memory.
    pub checkpoints_dir: Option<String>,
    /// Who remembers jobs beyond the life of the process.
    pub records: Option<Arc<dyn JobRecords>>,
    /// Stands between the engine and `VALUES`, the one source that no connector makes: a test paces it, as
    /// it paces tables by their connectors. It is given the job's settings.
    pub wrap_values: Option<WrapSource>,
}

/// A storage of checkpoints that is there answers within this time.
const PROOF_WAIT: Duration = Duration::from_secs(30);

/// Makes another source of a source.
pub type WrapSource = Arc<dyn Fn(Arc<dyn Source>, &Configuration) -> Arc<dyn Source> + Send + Sync>;

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
            defaults: Configuration::default(),
            checkpoints_dir: None,
            records: None,
            wrap_values: None,
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
        // What killed processes left behind is nothing to wait for.
        runtime.spawn_blocking(|| working_folder::sweep(&std::env::temp_dir()));
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
        self.start(self.prepare(graph, None)?)
    }

    /// Starts a job that was prepared.
    pub fn start(&self, prepared: PreparedJob) -> Result<JobHandle> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::internal("the cluster is shut down"));
        };
        let handle = JobHandle { job: prepared.execution.job.clone() };
        self.add(handle.clone());
        runtime.spawn(prepared.execution.execute());
        Ok(handle)
    }

    /// Shows a job that ended in another process, or could not be taken over from one.
    pub fn remember(&self, ended: EndedJob) -> JobHandle {
        let handle = JobHandle { job: Arc::new(Job::ended(ended, self.options.clock.clone())) };
        self.add(handle.clone());
        handle
    }

    fn add(&self, handle: JobHandle) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        forget_ended(&mut jobs, self.options.finished_jobs_max);
        jobs.push(handle);
    }

    /// Checks a job and makes it ready to run: a new one, or one that goes on from another process.
    pub fn prepare(&self, mut graph: JobGraph, resumed: Option<ResumedJob>) -> Result<PreparedJob> {
        add_defaults(&mut graph.config, &self.options.defaults);
        if let Some(dir) = &self.options.checkpoints_dir {
            default_dir(&mut graph.config, dir);
        }
        let checkpoints = CheckpointOptions::from_config(&graph.config)?;
        let strategy = RestartStrategy::from_config(&graph.config, checkpoints.is_enabled())?;
        let id = resumed.as_ref().map_or_else(JobId::random, |resumed| resumed.id.clone());
        let plan = plan(&graph)?;
        let outputs = Arc::new(OutputBoard::new(self.options.clock.clone()));
        let notices = JobNotices::new(id.to_string(), self.options.notices.clone());
        // The attempt that checks the job can be its first if there is nothing to be looked for in a storage.
        let is_first = !checkpoints.is_enabled()
            && checkpoints.restore.is_none()
            && checkpoints.backend == Backend::HashMap
            && checkpoints.create_subdir
            && resumed.is_none();
        let (attempt, checked) = match is_first {
            true => self.first_attempt(&graph, &plan, &id, &checkpoints, &outputs, &notices)?,
            false => (Deployment::new(&graph, &plan, &id, &self.options, None)?.attempt, None),
        };
        let (sender, requests) = mpsc::unbounded_channel();
        let kept = checked.as_ref().is_none_or(|checked| checked.own.is_some()).then(|| checkpoints.clone());
        let clock = self.options.clock.clone();
        let job = Arc::new(Job::new(id, graph.name.clone(), attempt, clock, sender, kept, outputs));
        job.restarted_before(resumed.as_ref().map_or(0, |resumed| resumed.restarts));
        if !checkpoints.without_effect.is_empty() && checkpoints.is_enabled() {
            notices.warn(format!("settings without effect here: {}", checkpoints.without_effect.join(", ")));
        }
        if resumed.is_none() {
            // What was allowed once is not asked again: a job must come back when Kafka is away.
            preflight(&graph, &self.options)?.into_iter().for_each(|warning| notices.warn(warning));
            self.prove_storage(&checkpoints, &job.id)?;
        }
        Ok(PreparedJob {
            execution: Execution {
                graph,
                plan,
                options: self.options.clone(),
                job,
                requests,
                strategy,
                stores: self.stores.clone(),
                checked,
                checkpoints,
                resumed,
            },
        })
    }

    /// Makes the first attempt of a job that takes no checkpoints by itself. What it needs to take a savepoint is a
    /// folder for temporary files; a job runs without one too.
    fn first_attempt(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        id: &JobId,
        checkpoints: &CheckpointOptions,
        outputs: &Arc<OutputBoard>,
        notices: &JobNotices,
    ) -> Result<(Attempt, Option<Checked>)> {
        let (facts, said) = mpsc::unbounded_channel();
        let (stores, records) = (self.stores.clone(), self.options.records.clone());
        let mut own = match JobCheckpoints::new(graph, id, checkpoints.clone(), stores, records) {
            Ok(own) => Some(own),
            Err(e) => {
                notices.warn(format!("no savepoint can be taken of this job: {e}"));
                None
            }
        };
        let shared = own.as_mut().map(|own| {
            let (folder, prefix) = own.begin_attempt();
            own.attempt(graph, plan, facts, folder, prefix, None, (outputs.clone(), 0))
        });
        let mut deployment = Deployment::new(graph, plan, id, &self.options, shared.as_ref())?;
        Ok((std::mem::take(&mut deployment.attempt), Some(Checked { deployment, own, said })))
    }

    /// Asks a store that is reached over a network whether it will take the checkpoints.
    fn prove_storage(&self, checkpoints: &CheckpointOptions, id: &JobId) -> Result<()> {
        let (Some(dir), Some(runtime)) = (&checkpoints.dir, &self.runtime) else { return Ok(()) };
        let place = match (checkpoints.storage, checkpoints.is_enabled()) {
            (StorageKind::FileSystem, true) => self.stores.open(dir, &checkpoints.s3).map_err(storage_failed)?,
            _ => return Ok(()),
        };
        if !place.is_remote() {
            return Ok(());
        }
        let storage = CheckpointStorage::new(&place, &checkpoint_job(id)?, checkpoints.create_subdir);
        let random = uuid::Uuid::new_v4().as_u64_pair().0;
        let proof = async {
            match tokio::time::timeout(PROOF_WAIT, storage.prove(random)).await {
                Ok(proved) => proved.map_err(storage_failed),
                Err(_) => Err(Error::job(format!("'{dir}' did not answer within {} s.", PROOF_WAIT.as_secs()))),
            }
        };
        // A thread of its own: who submits may be inside another runtime, where waiting is forbidden.
        let proved = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(proof)).join());
        let proved = proved.unwrap_or_else(|_| Err(Error::internal("asking the storage of checkpoints broke")));
        proved.map_err(|e| e.context("the storage of checkpoints cannot be used"))
    }

    pub(super) fn options(&self) -> &ClusterOptions {
        &self.options
    }

    pub(super) fn stores(&self) -> &Arc<Stores> {
        &self.stores
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

/// Has all sinks ask their external systems, at once, for it may take them seconds.
fn preflight(graph: &JobGraph, options: &ClusterOptions) -> Result<Vec<String>> {
    let sinks = graph.nodes.iter().filter_map(|node| match &node.spec {
        OperatorSpec::Sink(spec) => Some((&node.name, spec)),
        _ => None,
    });
    let asked: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
        let asking: Vec<_> = sinks
            .map(|(name, spec)| {
                scope.spawn(move || -> Result<Vec<String>> {
                    let sink = options.connectors.factory(&spec.table)?.sink(&spec.table, &graph.config)?;
                    let warnings = sink.preflight(&graph.config)?;
                    Ok(warnings.into_iter().map(|warning| format!("{name}: {warning}")).collect())
                })
            })
            .collect();
        let broke = |_| Err(Error::internal("asking about a sink broke"));
        asking.into_iter().map(|thread| thread.join().unwrap_or_else(broke)).collect()
    });
    let warnings: Vec<Vec<String>> = asked.into_iter().collect::<Result<_>>()?;
    Ok(warnings.into_iter().flatten().collect())
}

/// A job that was checked and is ready to run.
pub struct PreparedJob {
    execution: Execution,
}

impl PreparedJob {
    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.execution.job.id
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.execution.job.name
    }

    /// Whether its state is limited in memory, and goes to disk beyond that.
    pub fn limits_memory(&self) -> bool {
        self.execution.checkpoints.backend == Backend::Disk
    }

    /// Whether it takes checkpoints that outlive the process; if not, another process can only start it from its
    /// beginning.
    pub fn outlives_process(&self) -> bool {
        let checkpoints = &self.execution.checkpoints;
        checkpoints.is_enabled() && checkpoints.storage == StorageKind::FileSystem
    }
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
