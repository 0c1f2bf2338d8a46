//! The engine of this process: connectors, functions and the local cluster, wired.

use std::sync::Arc;

use tidegate_api::Result;
use tidegate_api::config::Configuration;
use tidegate_api::connector::ConnectorRegistry;
use tidegate_api::function::FunctionLibrary;
use tidegate_api::graph::JobGraph;
use tidegate_runtime::view::{JobView, SourceProgress};
use tidegate_runtime::{ClusterOptions, JobHandle, LocalCluster, Notice};
use tidegate_server::ClusterAccess;
use tidegate_sql::library::SqlFunctions;

use crate::collect::CollectFactory;

/// Rows that did not make it into a result, by the counter that has them.
const LOSSES: &[(&str, &str)] = &[
    ("numLateRecordsDropped", "late rows dropped"),
    ("numNullRowtimeDropped", "rows dropped for a NULL event time"),
    ("numNullRecordsDropped", "rows dropped for a NULL in a NOT NULL column"),
    ("numRecordsInErrors", "records or fields that could not be read, ignored"),
    ("numBlankRecords", "blank records skipped"),
    ("numTombstones", "tombstones skipped"),
];

/// What a process needs to run jobs.
pub struct Engine {
    cluster: LocalCluster,
    connectors: ConnectorRegistry,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    settings: Vec<(String, String)>,
    id: String,
    quiet: bool,
}

impl Engine {
    /// Wires the parts. `quiet` silences notices.
    pub fn new(config: &Configuration, quiet: bool) -> Result<Engine> {
        let functions: Arc<dyn FunctionLibrary> = Arc::new(SqlFunctions);
        let mut connectors = ConnectorRegistry::default();
        tidegate_connectors::register_all(&mut connectors);
        connectors.register(Arc::new(CollectFactory { functions: functions.clone() }));
        let mut options = ClusterOptions::new(connectors.clone(), functions);
        if !quiet {
            options.notices = Arc::new(|notice: Notice| eprintln!("warning: {}", notice.text));
        }
        let clock = options.clock.clone();
        Ok(Engine {
            cluster: LocalCluster::new(options)?,
            connectors,
            now_ms: Arc::new(move || clock.now_ms()),
            settings: config.values.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            id: format!("local-{}", std::process::id()),
            quiet,
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
        Ok(Running { job: self.cluster.submit(graph)?, quiet: self.quiet })
    }

    /// Cancels what runs and waits for it to end.
    pub async fn cancel_all(&self) {
        for job in self.cluster.jobs() {
            // A job that has already ended cannot be cancelled; that is as good.
            if job.cancel().is_ok() {
                let _ = job.wait().await;
            }
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
        eprintln!("job {id} started: {}", job.name());
        let told = job.clone();
        tokio::spawn(async move {
            let ended = told.wait().await;
            say_losses(&told.view());
            match ended {
                Ok(_) => eprintln!("job {} finished", told.id().as_str()),
                Err(e) => eprintln!("job {}: {e}", told.id().as_str()),
            }
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
    quiet: bool,
}

impl Running {
    /// Waits for the end, then says which rows were lost on the way.
    pub async fn wait(&self) -> Result<()> {
        let ended = self.job.wait().await;
        if !self.quiet {
            say_losses(&self.job.view());
        }
        ended.map(|_| ())
    }

    /// Asks the job to stop.
    pub fn cancel(&self) {
        // A job that has already ended cannot be cancelled; that is as good.
        let _ = self.job.cancel();
    }

    /// Reads how far the sources have come, at any time.
    pub fn progress_reader(&self) -> Box<dyn Fn() -> Vec<SourceProgress> + Send + Sync> {
        let job = self.job.clone();
        Box::new(move || job.sources())
    }
}

/// The summary at the end of a job: every row that is not in a result is in one of these counts.
fn say_losses(job: &JobView) {
    for vertex in &job.vertices {
        let operators = vertex.subtasks.first().map_or(0, |s| s.operators.len());
        for position in 0..operators {
            for (metric, meaning) in LOSSES {
                let in_subtasks = vertex.subtasks.iter().filter_map(|s| s.operators.get(position));
                let values = in_subtasks.flat_map(|(_, m)| m).filter(|(name, _)| name == metric).map(|(_, v)| *v);
                let total: i64 = values.sum();
                if total > 0 {
                    let operator = vertex.subtasks.first().and_then(|s| s.operators.get(position)).map_or("", |o| &o.0);
                    eprintln!("{operator}: {total} {meaning}");
                }
            }
        }
    }
}
