//! Running a script: statement by statement, jobs waited for or submitted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::config::Configuration;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, ErrorKind, Result};
use tidegate_sql::parser::parse_statement;
use tidegate_sql::script::{ScriptStatement, split_script};
use tidegate_sql::session::{ClientCommand, JobKind, Outcome, PlannedJob, Session};

use crate::args::SessionArgs;
use crate::client::input::StatementReader;
use crate::client::{help, jobs};
use crate::console::Console;
use crate::engine::{Engine, Running};
use crate::progress::Progress;
use crate::remote::Remote;
use crate::signals::Signals;
use crate::tableau;

/// How long jobs may take to stop. One that writes to a pipe nobody reads from would never stop.
pub const STOP_WAIT: Duration = Duration::from_secs(5);

/// Where the jobs of a script run.
pub enum Target {
    /// In this process.
    Here(Arc<Engine>),
    /// On a standalone process.
    There(Remote),
}

impl Target {
    /// A statement is about to be executed.
    pub fn said(&self, statement: &str) {
        if let Target::There(remote) = self {
            remote.said(statement);
        }
    }
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
        let why = match e.kind() {
            std::io::ErrorKind::InvalidData => "it is not UTF-8 text".into(),
            std::io::ErrorKind::IsADirectory => "it is a directory".into(),
            _ => e.to_string(),
        };
        Error::invalid(format!("Cannot read the script '{}': {why}.", path.display()))
    })?;
    let statements = split_script(without_mark(&text))?;
    // A syntax error at the end of a script must not be found after its first job has run.
    for statement in &statements {
        parse_statement(statement)?;
    }
    Ok(statements)
}

/// Editors on Windows put a byte order mark first; it is no part of the first statement.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
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
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| Error::invalid(format!("-D takes KEY=VALUE, not '{pair}'.")))?;
        config.set(key.trim(), value.trim());
    }
    Ok(config)
}

/// A script about to run.
pub struct Script {
    /// What its statements change.
    pub session: Session,
    /// Where its jobs run.
    pub target: Target,
    /// How it talks.
    pub voice: Voice,
    /// To whom it talks.
    pub console: Console,
    /// What interrupts it.
    pub signals: Signals,
}

impl Script {
    /// Runs every statement in order. A bounded job is waited for; an unbounded one runs on beside the
    /// statements that follow, and all are waited for at the end.
    pub async fn execute(mut self, statements: &[ScriptStatement]) -> Result<()> {
        let mut background: Vec<Running> = Vec::new();
        let ended = self.statements(statements, &mut background).await.and_then(|_| self.check_end());
        self.wait_background(ended, background).await
    }

    /// The same for statements that come one after the other, each run as soon as its `;` has come. Stops at the
    /// first error.
    pub async fn execute_read(mut self, mut reader: StatementReader) -> Result<()> {
        let mut background: Vec<Running> = Vec::new();
        let ended = self.read_statements(&mut reader, &mut background).await.and_then(|()| self.check_end());
        self.wait_background(ended, background).await
    }

    async fn read_statements(&mut self, reader: &mut StatementReader, background: &mut Vec<Running>) -> Result<()> {
        loop {
            let statements = tokio::select! {
                statements = reader.next() => statements?,
                () = self.signals.wait() => return Err(Error::cancelled()),
            };
            match statements {
                Some(statements) if self.statements(&statements, background).await? => {}
                _ => return Ok(()),
            }
        }
    }

    async fn wait_background(&self, ended: Result<()>, background: Vec<Running>) -> Result<()> {
        if background.is_empty() {
            return ended;
        }
        if ended.is_err() {
            background.iter().for_each(Running::cancel);
        }
        let jobs = self.wait_all(background).await;
        ended.and(jobs)
    }

    /// Runs statements in order; false if one of them was QUIT.
    async fn statements(&mut self, statements: &[ScriptStatement], background: &mut Vec<Running>) -> Result<bool> {
        for statement in statements {
            if self.signals.came() {
                return Err(Error::cancelled());
            }
            self.target.said(&statement.text);
            match self.session.execute(statement)? {
                Outcome::Done => self.say("Execute statement succeeded.")?,
                Outcome::Text(text) => self.console.out(&format!("{}\n", text.trim_end()))?,
                Outcome::Table { columns, rows } => self.console.out(&tableau::fitted(&columns, &rows))?,
                Outcome::Client(command) => self.client_command(&command, background).await?,
                Outcome::Quit => return Ok(false),
                Outcome::Job(job) => self.start(*job, background).await?,
            }
        }
        Ok(true)
    }

    async fn client_command(&self, command: &ClientCommand, background: &mut Vec<Running>) -> Result<()> {
        match command {
            // A script has no screen of its own.
            ClientCommand::Clear => Ok(()),
            ClientCommand::Help => self.console.out(help::TEXT),
            ClientCommand::ShowJobs => self.console.out(&jobs::list(&self.target, &self.session)?),
            ClientCommand::DescribeJob(id) => self.console.out(&jobs::describe(&self.target, &self.session, id)?),
            ClientCommand::StopJob { id, mode } => {
                let stopped = tokio::select! {
                    stopped = jobs::stop(&self.target, &self.session, id, *mode) => stopped?,
                    () = self.signals.wait() => return Err(Error::cancelled()),
                };
                // It ended as it was told to: its end is none of the script's.
                background.retain(|running| running.id() != id.as_str());
                match stopped {
                    Some(table) => self.console.out(&table),
                    None => self.say("Execute statement succeeded."),
                }
            }
        }
    }

    fn check_end(&self) -> Result<()> {
        if self.session.has_open_statement_set() {
            return Err(Error::invalid("The script ends inside a statement set: BEGIN STATEMENT SET has no END."));
        }
        Ok(())
    }

    async fn start(&self, job: PlannedJob, background: &mut Vec<Running>) -> Result<()> {
        let is_select = matches!(job.kind, JobKind::Select { .. });
        match &self.target {
            Target::There(_) if is_select => Err(select_is_local()),
            Target::There(remote) => {
                self.say("Submitting SQL update statement to the cluster...")?;
                let id = remote.submit(&job.graph)?;
                self.submitted(&id)?;
                if self.waits_for_inserts()? {
                    self.wait_there(remote, &id).await?;
                }
                Ok(())
            }
            Target::Here(engine) => {
                let bounded = is_bounded(engine, &job.graph)?;
                if !is_select {
                    self.say("Submitting SQL update statement to the cluster...")?;
                }
                let running = engine.start(job.graph)?;
                if !is_select && self.voice == Voice::Client {
                    self.submitted(running.id())?;
                }
                if !bounded && !is_select && !self.waits_for_inserts()? {
                    background.push(running);
                    return Ok(());
                }
                self.wait_all(vec![running]).await?;
                if is_select { Ok(()) } else { self.complete() }
            }
        }
    }

    /// `table.dml-sync`: the next statement waits for the end of an insert.
    fn waits_for_inserts(&self) -> Result<bool> {
        self.session.config().bool("table.dml-sync", false)
    }

    fn submitted(&self, id: &str) -> Result<()> {
        self.console.out(&submitted_text(id))
    }

    fn complete(&self) -> Result<()> {
        if self.waits_for_inserts()? { self.say("Complete execution of the SQL update statement.") } else { Ok(()) }
    }

    async fn wait_there(&self, remote: &Remote, id: &str) -> Result<()> {
        tokio::select! {
            ended = remote.wait(id) => ended?,
            () = self.signals.wait() => return Err(Error::cancelled()),
        }
        self.complete()
    }

    /// Waits for all jobs; a signal cancels them. The first failure cancels the others and is the result.
    async fn wait_all(&self, jobs: Vec<Running>) -> Result<()> {
        let progress = Progress::start(&self.console, &jobs);
        let all = futures::future::try_join_all(jobs.iter().map(Running::wait));
        let ended = tokio::select! {
            ended = all => ended.map(|_| ()),
            () = self.signals.wait() => Err(Error::cancelled()),
        };
        if ended.is_err() {
            jobs.iter().for_each(Running::cancel);
            // They end as cancelled; what counts is that no row is written after the process has said how it ended.
            let stopped = futures::future::join_all(jobs.iter().map(Running::wait));
            let _ = tokio::time::timeout(STOP_WAIT, stopped).await;
        }
        progress.stop();
        for job in &jobs {
            job.losses().iter().for_each(|line| self.console.notice(line));
        }
        ended.map_err(|e| if e.kind == ErrorKind::Job { e.context("the job failed") } else { e })
    }

    fn say(&self, text: &str) -> Result<()> {
        if self.voice == Voice::Client { self.console.out(&format!("[INFO] {text}\n")) } else { Ok(()) }
    }
}

/// Why a SELECT does not run on a standalone process.
pub fn select_is_local() -> Error {
    Error::unsupported(
        "SELECT is not supported with --endpoint, because its rows appear where the job runs. Use INSERT INTO a table, \
         or leave --endpoint out.",
    )
}

/// What the client says of a job that was submitted.
pub fn submitted_text(id: &str) -> String {
    format!("[INFO] SQL update statement has been successfully submitted to the cluster:\nJob ID: {id}\n")
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
