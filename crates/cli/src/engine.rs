//! The engine of this process: connectors, functions and the local cluster, wired.

use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, ConnectorRegistry};
use tidegate_api::function::FunctionLibrary;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{ErrorKind, Result};
use tidegate_connectors::print::PrintFactory;
use tidegate_runtime::view::{EventTimeView, JobView, SourceProgress};
use tidegate_runtime::{ClusterOptions, JobHandle, LocalCluster, Notice};
use tidegate_server::ClusterAccess;
use tidegate_sql::library::SqlFunctions;

use crate::collect::CollectFactory;
use crate::console::Console;
use crate::losses::losses;

/// What a process needs to run jobs.
pub struct Engine {
    cluster: LocalCluster,
    connectors: ConnectorRegistry,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    settings: Vec<(String, String)>,
    id: String,
    console: Console,
}

impl Engine {
    /// Wires the parts. Notices go to `console`.
    pub fn new(config: &Configuration, console: Console) -> Result<Engine> {
        Engine::with(config, console, Vec::new())
    }

    /// The same, with these connectors instead of the ones of their names.
    pub fn with(config: &Configuration, console: Console, instead: Vec<Arc<dyn ConnectorFactory>>) -> Result<Engine> {
        let functions: Arc<dyn FunctionLibrary> = Arc::new(SqlFunctions);
        let mut connectors = ConnectorRegistry::default();
        tidegate_connectors::register_all(&mut connectors);
        if let Some(mailbox) = console.mailbox() {
            connectors.register(Arc::new(PrintFactory { out: Some(mailbox.clone()) }));
        }
        connectors.register(Arc::new(CollectFactory { functions: functions.clone(), console: console.clone() }));
        instead.into_iter().for_each(|factory| connectors.register(factory));
        let mut options = ClusterOptions::new(connectors.clone(), functions);
        options.finished_jobs_max = config.usize("jobstore.max-capacity", options.finished_jobs_max)?;
        let told = console.clone();
        options.notices = Arc::new(move |notice: Notice| told.notice(&format!("warning: {}", notice.text)));
        let clock = options.clock.clone();
        Ok(Engine {
            cluster: LocalCluster::new(options)?,
            connectors,
            now_ms: Arc::new(move || clock.now_ms()),
            settings: config.values.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            id: format!("local-{}", std::process::id()),
            console,
        })
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
        Ok(Running { job: self.cluster.submit(graph)?, prints })
    }

    /// Cancels what runs and waits for it to end.
    pub async fn cancel_all(&self) {
        // A job that has already ended cannot be cancelled; that is as good.
        let stopping: Vec<JobHandle> = self.cluster.jobs().into_iter().filter(|job| job.cancel().is_ok()).collect();
        for job in stopping {
            let _ = job.wait().await;
        }
    }
}

impl ClusterAccess for Engine {
    fn jobs(&self) -> Vec<JobView> {
        self.cluster.jobs().iter().rev().map(JobHandle::view).collect()
    }

    fn job(&self, id: &str) -> Option<JobView> {
        self.cluster.job(id).map(|job| job.view())
    }

    fn submit(&self, graph: JobGraph) -> Result<String> {
        let job = self.cluster.submit(graph)?;
        let id = job.id().as_str().to_owned();
        self.console.notice(&format!("job {id} started: {}", job.name()));
        let (told, console) = (job.clone(), self.console.clone());
        tokio::spawn(async move {
            let ended = told.wait().await;
            losses(&told.view()).iter().for_each(|line| console.notice(line));
            let how = match ended {
                Ok(_) => "finished".to_owned(),
                Err(e) if e.kind == ErrorKind::Cancelled => "was cancelled".to_owned(),
                Err(e) => format!("failed: {e}"),
            };
            console.notice(&format!("job {} {how}", told.id()));
        });
        Ok(id)
    }

    fn cancel(&self, id: &str) -> bool {
        self.cluster.job(id).is_some_and(|job| job.cancel().is_ok())
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
