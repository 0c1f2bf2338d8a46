//! Running a script: statement by statement, jobs waited for or submitted.

use std::path::Path;
use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, Result};
use tidegate_sql::parser::parse_statement;
use tidegate_sql::script::{ScriptStatement, split_script};
use tidegate_sql::session::{JobKind, Outcome, PlannedJob, Session};

use crate::args::SessionArgs;
use crate::engine::{Engine, Running};
use crate::progress::Progress;
use crate::remote::Remote;
use crate::tableau;

/// Where the jobs of a script run.
pub enum Target {
    /// In this process.
    Here(Arc<Engine>),
    /// On a standalone process.
    There(Remote),
}

/// How a script talks while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// `tidegate run`: results only.
    Results,
    /// `tidegate sql`: Flink's SQL client messages too, which tools parse.
    Client,
}

/// Reads the script, so that a missing file is told before anything starts.
pub fn read(path: &Path) -> Result<Vec<ScriptStatement>> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        let why =
            if e.kind() == std::io::ErrorKind::InvalidData { "it is not UTF-8 text".into() } else { e.to_string() };
        Error::invalid(format!("Cannot read the script '{}': {why}", path.display()))
    })?;
    let statements = split_script(&text)?;
    // A syntax error at the end of a script must not be found after its first job has run.
    for statement in &statements {
        parse_statement(statement)?;
    }
    Ok(statements)
}

/// The settings of the command line.
pub fn settings(args: &SessionArgs) -> Result<Configuration> {
    let mut config = parse_settings(&args.settings)?;
    if let Some(n) = args.parallelism {
        config.set("parallelism.default", n.to_string());
    }
    Ok(config)
}

/// `KEY=VALUE` pairs as a configuration.
pub fn parse_settings(pairs: &[String]) -> Result<Configuration> {
    let mut config = Configuration::default();
    for pair in pairs {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| Error::invalid(format!("-D takes KEY=VALUE, not '{pair}'.")))?;
        config.set(key.trim(), value.trim());
    }
    Ok(config)
}

/// Runs every statement in order. A bounded job is waited for; an unbounded one runs on beside the
/// statements that follow, and all are waited for at the end.
pub async fn execute(
    statements: Vec<ScriptStatement>,
    mut session: Session,
    target: &Target,
    voice: Voice,
    quiet: bool,
) -> Result<()> {
    let mut background: Vec<Running> = Vec::new();
    for statement in &statements {
        match session.execute(statement)? {
            Outcome::Done => say(voice, "[INFO] Execute statement succeeded."),
            Outcome::Text(text) => print_out(&format!("{}\n", text.trim_end())),
            Outcome::Table { columns, rows } => print_out(&tableau::fitted(&columns, &rows)),
            Outcome::Quit => break,
            Outcome::Job(job) => start(*job, target, voice, quiet, &mut background).await?,
        }
    }
    if session.has_open_statement_set() {
        return Err(Error::invalid("The script ends inside a statement set: BEGIN STATEMENT SET has no END."));
    }
    if background.is_empty() {
        return Ok(());
    }
    let progress = Progress::start(quiet, &background);
    let ended = wait_all(background).await;
    progress.stop();
    ended
}

async fn start(
    job: PlannedJob,
    target: &Target,
    voice: Voice,
    quiet: bool,
    background: &mut Vec<Running>,
) -> Result<()> {
    let is_select = matches!(job.kind, JobKind::Select { .. });
    match target {
        Target::There(_) if is_select => Err(Error::unsupported(
            "SELECT shows its rows where the job runs; with --endpoint use INSERT INTO a table, or run the script without --endpoint.",
        )),
        Target::There(remote) => {
            say(voice, "[INFO] Submitting SQL update statement to the cluster...");
            let id = remote.submit(&job.graph)?;
            say(Voice::Client, "[INFO] SQL update statement has been successfully submitted to the cluster:");
            say(Voice::Client, &format!("Job ID: {id}"));
            Ok(())
        }
        Target::Here(engine) => {
            let bounded = is_bounded(engine, &job.graph)?;
            let running = engine.start(job.graph)?;
            if !bounded && !is_select {
                background.push(running);
                return Ok(());
            }
            let progress = Progress::start(quiet, std::slice::from_ref(&running));
            let ended = wait_all(vec![running]).await;
            progress.stop();
            ended
        }
    }
}

/// Whether every source of the job ends by itself.
fn is_bounded(engine: &Engine, graph: &JobGraph) -> Result<bool> {
    for node in &graph.nodes {
        if let OperatorSpec::Source(source) = &node.spec {
            let factory = engine.connectors().factory(&source.table)?;
            if !factory.source(&source.table, &graph.config)?.is_bounded() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Waits for all jobs; Ctrl-C cancels them. The first failure cancels the others and is the result.
async fn wait_all(jobs: Vec<Running>) -> Result<()> {
    let all = futures::future::try_join_all(jobs.iter().map(Running::wait));
    tokio::select! {
        ended = all => {
            if ended.is_err() {
                jobs.iter().for_each(Running::cancel);
            }
            ended.map(|_| ())
        }
        _ = tokio::signal::ctrl_c() => {
            jobs.iter().for_each(Running::cancel);
            for job in &jobs {
                // The jobs end as cancelled; that is what was asked for.
                let _ = job.wait().await;
            }
            Err(Error::cancelled())
        }
    }
}

fn say(voice: Voice, text: &str) {
    if voice == Voice::Client {
        print_out(&format!("{text}\n"));
    }
}

/// Writes to standard output; a reader that went away is no reason to panic.
pub fn print_out(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
