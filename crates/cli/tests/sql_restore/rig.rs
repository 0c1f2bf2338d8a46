//! Runs scripts in this process, each of their jobs in several stretches: a stretch ends with a savepoint that
//! stops the job at an exact place, and the next goes on from it, perhaps at another parallelism.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::ConnectorRegistry;
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::Stop;
use tidegate_connectors::datagen::DatagenFactory;
use tidegate_connectors::filesystem::FilesystemFactory;
use tidegate_connectors::print::{PrintFactory, PrintOut};
use tidegate_runtime::{ClusterOptions, JobHandle, JobSummary, LocalCluster};
use tidegate_sql::library::SqlFunctions;
use tidegate_sql::script::{ScriptStatement, split_script};
use tidegate_sql::session::{Outcome, Session};

use crate::gate::{Gate, GatedFactory, Gates};
use crate::sink::{CountingFactory, SinkGate};

/// A script may take this long on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(300);
/// How often it is looked whether a job has come so far that it can be asked for a savepoint.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A part of a job's run.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub parallelism: usize,
    /// After so many events of its sources it is stopped with a savepoint; `None` runs to the end.
    pub events: Option<u64>,
}

/// What became of a script.
#[derive(Default)]
pub struct Ran {
    /// What it printed, over all stretches.
    pub printed: String,
    /// For each stretch of each job, what it did.
    pub summaries: Vec<JobSummary>,
    /// For each job, how many events its sources had in all.
    pub events: Vec<u64>,
}

/// What jobs print to standard output.
#[derive(Clone, Default)]
pub struct Printed(Arc<Mutex<String>>);

impl Printed {
    /// Everything so far; it is forgotten.
    pub fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl PrintOut for Printed {
    async fn print(&self, lines: &str, to_stderr: bool) -> Result<()> {
        if !to_stderr {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(lines);
        }
        Ok(())
    }
}

/// An engine whose sources stand behind a gate.
pub struct Rig {
    pub cluster: LocalCluster,
    pub connectors: ConnectorRegistry,
    pub gates: Gates,
    pub printed: Printed,
    /// What the `print` sinks do.
    pub sinks: Arc<SinkGate>,
}

impl Rig {
    pub fn new() -> Rig {
        let (gates, printed, sinks) = (Gates::new(), Printed::default(), Arc::<SinkGate>::default());
        let mut connectors = ConnectorRegistry::default();
        tidegate_connectors::register_all(&mut connectors);
        connectors.register(Arc::new(GatedFactory { factory: Arc::new(FilesystemFactory), gates: gates.clone() }));
        connectors.register(Arc::new(GatedFactory { factory: Arc::new(DatagenFactory), gates: gates.clone() }));
        let print = Arc::new(PrintFactory { out: Some(Arc::new(printed.clone())) });
        connectors.register(Arc::new(CountingFactory { factory: print, gate: sinks.clone() }));
        let mut options = ClusterOptions::new(connectors.clone(), Arc::new(SqlFunctions));
        options.worker_threads = 2;
        let wraps = gates.clone();
        options.wrap_values = Some(Arc::new(move |source, _| wraps.wrap(source)));
        let cluster = LocalCluster::new(options).expect("a cluster");
        Rig { cluster, connectors, gates, printed, sinks }
    }

    /// A session of this parallelism.
    pub fn session(&self, parallelism: usize) -> Session {
        let mut config = Configuration::default();
        config.set("parallelism.default", parallelism.to_string());
        Session::new(self.connectors.clone(), config)
    }

    /// Starts a job whose sources hand out so many events.
    pub fn start(&self, mut graph: JobGraph, events: Option<u64>, settings: &[(&str, &str)]) -> Result<Started> {
        settings.iter().for_each(|(key, value)| graph.config.set(*key, *value));
        let gate = Gate::new(events);
        self.gates.set(&gate);
        Ok(Started { job: self.cluster.submit(graph)?, gate })
    }
}

/// A job that runs, and the gate its sources stand behind.
pub struct Started {
    pub job: JobHandle,
    pub gate: Arc<Gate>,
}

impl Started {
    /// Stops the job with a savepoint when its sources have handed out so many events.
    async fn stop_at(&self, events: u64) -> Result<(String, JobSummary)> {
        let stopped = async {
            self.gate.reached(events).await;
            loop {
                match self.job.savepoint(None, Some(Stop::Suspend)).await {
                    // The last of its tasks has not begun yet.
                    Err(e) if e.message.contains("currently running") => tokio::time::sleep(LOOK_AGAIN).await,
                    other => break other,
                }
            }
        };
        let location = tokio::select! {
            biased;
            location = stopped => location,
            ended = self.job.wait() => {
                ended?;
                let handed = self.gate.handed();
                return Err(Error::internal(format!("it ended at event {handed}, before event {events}")));
            }
        };
        let ended = self.job.wait().await;
        // A job that failed has its own reason; why it could not be stopped follows from that.
        let summary = ended?;
        Ok((location?, summary))
    }
}

/// Runs a script; `stretches` says for each of its jobs, by number, how it is cut.
pub fn run(script: &str, stretches: &dyn Fn(usize) -> Vec<Stretch>) -> (Ran, Result<()>) {
    let mut ran = Ran::default();
    let ended = within(run_all(script, stretches, &mut ran));
    (ran, ended)
}

async fn run_all(script: &str, stretches: &dyn Fn(usize) -> Vec<Stretch>, ran: &mut Ran) -> Result<()> {
    let rig = Rig::new();
    let folder = tempfile::tempdir().expect("a folder for savepoints");
    // The same script is planned once for each parallelism.
    let mut sessions: Vec<(usize, Session)> = Vec::new();
    let mut job = 0;
    for statement in split_script(script)? {
        let wanted = stretches(job);
        for stretch in &wanted {
            if sessions.iter().all(|(parallelism, _)| *parallelism != stretch.parallelism) {
                sessions.push((stretch.parallelism, replay(&rig, script, &statement, stretch.parallelism)?));
            }
        }
        let mut graphs = Vec::new();
        for (parallelism, session) in &mut sessions {
            match session.execute(&statement)? {
                Outcome::Job(planned) => graphs.push((*parallelism, planned.graph)),
                Outcome::Quit => return Ok(()),
                _ => {}
            }
        }
        if !graphs.is_empty() {
            let done = run_job(&rig, &graphs, &wanted, folder.path(), ran).await;
            ran.printed.push_str(&rig.printed.take());
            done?;
            job += 1;
        }
    }
    Ok(())
}

/// A session that has seen the statements before this one.
fn replay(rig: &Rig, script: &str, until: &ScriptStatement, parallelism: usize) -> Result<Session> {
    let mut session = rig.session(parallelism);
    for statement in split_script(script)?.iter().take_while(|s| *s != until) {
        session.execute(statement)?;
    }
    Ok(session)
}

async fn run_job(
    rig: &Rig,
    graphs: &[(usize, JobGraph)],
    stretches: &[Stretch],
    folder: &std::path::Path,
    ran: &mut Ran,
) -> Result<()> {
    let folder = folder.to_str().expect("a UTF-8 path");
    let mut savepoint: Option<String> = None;
    let mut events = 0;
    for stretch in stretches {
        let mut settings = vec![("execution.checkpointing.savepoint-dir", folder)];
        if let Some(path) = &savepoint {
            settings.push(("execution.state-recovery.path", path));
        }
        if stretch.events.is_some() || stretches.len() == 1 {
            settings.push(("tidegate.source.batch-rows", "1"));
        }
        let graph = graphs.iter().find(|(parallelism, _)| *parallelism == stretch.parallelism);
        let graph = graph.expect("a graph of this parallelism").1.clone();
        let started = rig.start(graph, stretch.events, &settings)?;
        let ended = match stretch.events {
            None => started.job.wait().await.map(|summary| (None, summary)),
            Some(events) => started.stop_at(events).await.map(|(location, summary)| (Some(location), summary)),
        };
        events += started.gate.handed();
        let (location, summary) = ended.inspect_err(|_| ran.events.push(events))?;
        savepoint = location;
        ran.summaries.push(summary);
    }
    ran.events.push(events);
    Ok(())
}

/// Runs to the end in time.
pub fn within<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let timed = async { tokio::time::timeout(LIMIT, future).await };
    runtime.block_on(timed).unwrap_or_else(|_| Err(Error::internal(format!("still running after {LIMIT:?}"))))
}
