//! The engine of this process: connectors, functions and the local cluster, wired.

use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, ConnectorRegistry};
use tidegate_api::function::FunctionLibrary;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, ErrorKind, Result};
use tidegate_checkpoint::Stop;
use tidegate_connectors::print::PrintFactory;
use tidegate_runtime::audit::OutputsView;
use tidegate_runtime::view::{
    CheckpointStatistics, EventTimeView, FailureView, JobStatus, JobView, SourceProgress, TakenCheckpoint,
};
use tidegate_runtime::{
    ClusterOptions, EndedJob, JobHandle, JobId, JobRecords, LocalCluster, Notice, PreparedJob, RestorePlan, ResumedJob,
};
use tidegate_server::{Answer, ClusterAccess, Operations};
use tidegate_sql::library::SqlFunctions;

use crate::allocator;
use crate::collect::CollectFactory;
use crate::console::Console;
use crate::job::stopping;
use crate::losses::losses;
use crate::store::{JobRecord, JobStore, Stored};

/// What a process needs to run jobs.
pub struct Engine {
    cluster: LocalCluster,
    /// Keeps the submitted jobs beyond the life of the process.
    store: Option<Arc<JobStore>>,
    connectors: ConnectorRegistry,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    settings: Vec<(String, String)>,
    id: String,
    console: Console,
    operations: Operations,
}

impl Engine {
    /// Wires the parts. Notices go to `console`.
    pub fn new(config: &Configuration, console: Console) -> Result<Engine> {
        Engine::with(config, console, Vec::new())
    }

    /// The same, with these connectors instead of the ones of their names.
    pub fn with(config: &Configuration, console: Console, instead: Vec<Arc<dyn ConnectorFactory>>) -> Result<Engine> {
        Engine::wired(config, console, instead, Configuration::default(), None)
    }

    /// The same, for jobs that others submit: they have the settings of the process where they have none of their own.
    /// With a store they outlive it.
    pub fn serving(config: &Configuration, console: Console, store: Option<Arc<JobStore>>) -> Result<Engine> {
        Engine::wired(config, console, Vec::new(), config.clone(), store)
    }

    fn wired(
        config: &Configuration,
        console: Console,
        instead: Vec<Arc<dyn ConnectorFactory>>,
        defaults: Configuration,
        store: Option<Arc<JobStore>>,
    ) -> Result<Engine> {
        let functions: Arc<dyn FunctionLibrary> = Arc::new(SqlFunctions);
        let mut connectors = ConnectorRegistry::default();
        tidegate_connectors::register_all(&mut connectors);
        if let Some(mailbox) = console.mailbox() {
            connectors.register(Arc::new(PrintFactory { out: Some(mailbox.clone()) }));
        }
        connectors.register(Arc::new(CollectFactory { functions: functions.clone(), console: console.clone() }));
        instead.into_iter().for_each(|factory| connectors.register(factory));
        let mut options = ClusterOptions::new(connectors.clone(), functions);
        options.finished_jobs_max = finished_jobs_max(config)?;
        options.defaults = defaults;
        options.checkpoints_dir = store.as_ref().map(|store| store.checkpoints());
        options.records = store.clone().map(|store| store as Arc<dyn JobRecords>);
        let told = console.clone();
        options.notices = Arc::new(move |notice: Notice| told.notice(&format!("warning: {}", notice.text)));
        let clock = options.clock.clone();
        Ok(Engine {
            cluster: LocalCluster::new(options)?,
            store,
            connectors,
            now_ms: Arc::new(move || clock.now_ms()),
            settings: config.values.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            id: format!("local-{}", std::process::id()),
            console,
            operations: Operations::default(),
        })
    }

    /// What was asked for over REST and takes its time.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// The connectors scripts may name.
    pub fn connectors(&self) -> &ConnectorRegistry {
        &self.connectors
    }

    /// Wall clock in milliseconds.
    pub fn now_ms(&self) -> Arc<dyn Fn() -> i64 + Send + Sync> {
        self.now_ms.clone()
    }

    /// Subtasks that run side by side: the cores.
    pub fn slots(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Names this process as a TaskManager.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts a job.
    pub fn start(&self, graph: JobGraph) -> Result<Running> {
        let prints = prints(&graph);
        let prepared = self.cluster.prepare(graph, None)?;
        allocator::suit(&prepared);
        Ok(Running { job: self.cluster.start(prepared)?, prints })
    }

    /// What a job would get of the snapshot it is to be restored from; nothing starts.
    pub async fn plan_restore(&self, graph: &JobGraph) -> Result<RestorePlan> {
        self.cluster.plan_restore(graph).await
    }

    fn known(&self, id: &str) -> Result<JobHandle> {
        self.cluster.job(id).ok_or_else(|| Error::invalid(format!("There is no job {id}.")))
    }

    /// Stops what runs and waits for it to end: for good, or until another process takes the jobs over.
    pub async fn stop_all(&self) {
        let running: Vec<JobHandle> =
            self.cluster.jobs().into_iter().filter(|job| !job.status().is_terminal()).collect();
        for job in &running {
            match &self.store {
                Some(_) => job.suspend(),
                // A job that has already ended cannot be cancelled; that is as good.
                None => drop(job.cancel()),
            }
        }
        for job in running {
            let _ = job.wait().await;
        }
    }

    /// Takes over the jobs of an earlier process.
    pub fn recover(&self, stored: Vec<Stored>) {
        for job in stored {
            match job {
                Stored::Record(record) => match record.ended() {
                    Some(ended) => drop(self.cluster.remember(ended)),
                    None => self.resume(*record),
                },
                Stored::Broken { id, reason } => self.lost(id, "unknown", 0, reason),
            }
        }
    }

    fn resume(&self, mut record: JobRecord) {
        let Some(id) = JobId::parse(&record.id) else { return };
        record.restarts += 1;
        if let Some(store) = &self.store
            && let Err(e) = store.put(record.clone())
        {
            self.console.notice(&format!("warning: {e}"));
        }
        let resumed = ResumedJob { id: id.clone(), restarts: record.restarts, savepoint: record.savepoint() };
        let started = record.graph().map_err(Error::job).and_then(|graph| {
            let prepared = self.cluster.prepare(graph, Some(resumed))?;
            allocator::suit(&prepared);
            let outlives = prepared.outlives_process();
            Ok((self.cluster.start(prepared)?, outlives))
        });
        match started {
            Ok((job, outlives)) => {
                let from = match outlives {
                    true => "goes on",
                    false => "starts over, or goes on from what it was told to take, for it takes no checkpoints",
                };
                self.console.notice(&format!("job {id} {from}: {}", job.name()));
                self.watch(job);
            }
            Err(e) => self.lost(id, &record.name, record.submitted_ms, e.to_string()),
        }
    }

    /// Shows a job that cannot be taken over as a failed one.
    fn lost(&self, id: JobId, name: &str, submitted_ms: i64, reason: String) {
        let now_ms = (self.now_ms)();
        self.console.notice(&format!("job {id} failed: {reason}"));
        self.cluster.remember(EndedJob {
            id,
            name: name.to_owned(),
            status: JobStatus::Failed,
            timestamps: [(JobStatus::Initializing, submitted_ms), (JobStatus::Failed, now_ms)].into_iter().collect(),
            failure: Some(FailureView { message: reason, task: None, timestamp_ms: now_ms }),
        });
    }

    /// Keeps a job before it is started: one that is lost must not have written anything.
    fn keep(&self, prepared: &PreparedJob, graph: &JobGraph, script: Option<String>) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let record = JobRecord::new(prepared.id(), graph, script, (self.now_ms)()).map_err(Error::internal)?;
        store.put(record)?;
        if !prepared.outlives_process() {
            self.console.notice(&format!(
                "warning: job {} takes no checkpoints that outlive this process: after a restart it starts over from its \
                 beginning. Set 'execution.checkpointing.interval' in its script.",
                prepared.id()
            ));
        }
        Ok(())
    }

    /// Says how a job ends.
    fn watch(&self, job: JobHandle) {
        let console = self.console.clone();
        tokio::spawn(async move {
            let ended = job.wait().await;
            losses(&job.view()).iter().for_each(|line| console.notice(line));
            let how = match ended {
                Ok(_) => "finished".to_owned(),
                Err(_) if job.is_suspended() => {
                    "is suspended, and goes on when its state folder is used again".to_owned()
                }
                Err(e) if e.kind == ErrorKind::Cancelled => "was cancelled".to_owned(),
                Err(e) => format!("failed: {e}"),
            };
            console.notice(&format!("job {} {how}", job.id()));
        });
    }
}

/// `jobstore.max-capacity`: how many ended jobs are remembered.
pub fn finished_jobs_max(config: &Configuration) -> Result<usize> {
    config.usize("jobstore.max-capacity", 100)
}

impl ClusterAccess for Engine {
    fn jobs(&self) -> Vec<JobView> {
        self.cluster.jobs().iter().rev().map(JobHandle::view).collect()
    }

    fn job(&self, id: &str) -> Option<JobView> {
        self.cluster.job(id).map(|job| job.view())
    }

    fn submit(&self, graph: JobGraph, script: Option<String>) -> Result<String> {
        let prepared = self.cluster.prepare(graph.clone(), None)?;
        allocator::suit(&prepared);
        self.keep(&prepared, &graph, script)?;
        let job = self.cluster.start(prepared)?;
        let id = job.id().as_str().to_owned();
        self.console.notice(&format!("job {id} started: {}", job.name()));
        self.watch(job);
        Ok(id)
    }

    fn cancel(&self, id: &str) -> bool {
        self.cluster.job(id).is_some_and(|job| job.cancel().is_ok())
    }

    fn outputs(&self, id: &str) -> Option<OutputsView> {
        self.cluster.job(id).map(|job| job.outputs())
    }

    fn checkpoints(&self, id: &str) -> Option<CheckpointStatistics> {
        self.cluster.job(id)?.checkpoint_statistics()
    }

    fn savepoint(&self, id: &str, target: Option<String>, stop: Option<Stop>) -> Answer<String> {
        let job = self.known(id);
        Box::pin(async move { stopping::savepoint(&job?, target, stop).await })
    }

    fn checkpoint(&self, id: &str) -> Answer<TakenCheckpoint> {
        let job = self.known(id);
        Box::pin(async move { job?.checkpoint().await })
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }
}

/// A job that was started.
pub struct Running {
    job: JobHandle,
    prints: bool,
}

impl Running {
    /// The job's id.
    pub fn id(&self) -> &str {
        self.job.id().as_str()
    }

    /// Waits for the end.
    pub async fn wait(&self) -> Result<()> {
        self.job.wait().await.map(|_| ())
    }

    /// Asks the job to stop.
    pub fn cancel(&self) {
        // A job that has already ended cannot be cancelled; that is as good.
        let _ = self.job.cancel();
    }

    /// What it has left out so far, a line for each operator.
    pub fn losses(&self) -> Vec<String> {
        losses(&self.job.view())
    }

    /// What event time does in it now: splits, open windows, late rows.
    pub fn event_time(&self) -> EventTimeView {
        self.job.event_time()
    }

    /// Whether its rows appear on standard output or standard error.
    pub fn prints(&self) -> bool {
        self.prints
    }

    /// Reads how far the sources have come, at any time.
    pub fn progress_reader(&self) -> Box<dyn Fn() -> Vec<SourceProgress> + Send + Sync> {
        let job = self.job.clone();
        Box::new(move || job.sources())
    }
}

fn prints(graph: &JobGraph) -> bool {
    graph.nodes.iter().any(|node| match &node.spec {
        OperatorSpec::Sink(sink) => {
            matches!(sink.table.options.get("connector").map(String::as_str), Some("print" | "collect"))
        }
        _ => false,
    })
}
