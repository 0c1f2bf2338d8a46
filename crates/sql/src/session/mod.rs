//! A session: settings and catalogs, and what each statement does to them.
//!
//! A statement is parsed when it is executed, not before, because it sees what those before it have
//! made. Queries and inserts become a [`PlannedJob`]; running it is the caller's business. A
//! statement that fails changes nothing.

mod ctas;
mod ddl;
mod describe;
mod named;
mod show;
mod show_create;

use tidegate_api::config::{Configuration, shown};
use tidegate_api::connector::ConnectorRegistry;
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result, Schema};
use tidegate_window::Zone;

use crate::ast::{Insert, ObjectName, Query, Span, Statement};
use crate::catalog::Catalog;
use crate::parser::parse_statement;
use crate::plan::Planner;
use crate::script::ScriptStatement;

pub use named::{NamedObject, callable_names};

/// What a statement came to.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing to show.
    Done,
    /// Rows to show; `None` is NULL.
    Table {
        /// Column names.
        columns: Vec<String>,
        /// Rows.
        rows: Vec<Vec<Option<String>>>,
    },
    /// Text to show: `EXPLAIN`, `SHOW CREATE`.
    Text(String),
    /// A job to run.
    Job(Box<PlannedJob>),
    /// What only the client can do: it knows the terminal and the jobs.
    Client(ClientCommand),
    /// `QUIT`.
    Quit,
}

/// A statement that is the client's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// `CLEAR`: empty the screen.
    Clear,
    /// `HELP`.
    Help,
    /// `SHOW JOBS`.
    ShowJobs,
    /// `DESCRIBE JOB 'id'`.
    DescribeJob(String),
    /// `STOP JOB 'id'`.
    StopJob {
        /// The job's id.
        id: String,
        /// How it ends.
        mode: StopMode,
    },
}

/// How `STOP JOB` ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Where it is.
    Cancel,
    /// `WITH SAVEPOINT`: with a savepoint, from which it can go on.
    Savepoint,
    /// `WITH SAVEPOINT WITH DRAIN`: the same after all windows have fired.
    SavepointAndDrain,
}

/// A job that a statement asks for.
#[derive(Clone, Debug)]
pub struct PlannedJob {
    /// What to run.
    pub graph: JobGraph,
    /// What it is for.
    pub kind: JobKind,
}

/// What a job is for.
#[derive(Clone, Debug)]
pub enum JobKind {
    /// It writes to tables.
    Insert {
        /// Their identifiers, `catalog.database.table`, one per insert.
        sinks: Vec<String>,
    },
    /// Its rows go to the client.
    Select {
        /// The rows' columns.
        schema: Schema,
    },
}

/// Settings, catalogs and connectors.
pub struct Session {
    catalog: Catalog,
    config: Configuration,
    /// What `RESET` goes back to.
    initial: Configuration,
    connectors: ConnectorRegistry,
    /// The inserts since `BEGIN STATEMENT SET`.
    open_set: Option<Vec<Insert>>,
}

impl Session {
    /// A session with an empty default catalog.
    pub fn new(connectors: ConnectorRegistry, config: Configuration) -> Session {
        let catalog = Catalog::new(
            config.get("table.builtin-catalog-name").unwrap_or("default_catalog"),
            config.get("table.builtin-database-name").unwrap_or("default_database"),
        );
        Session { catalog, initial: config.clone(), config, connectors, open_set: None }
    }

    /// The settings now.
    pub fn config(&self) -> &Configuration {
        &self.config
    }

    /// A moment, in milliseconds since the epoch, as a clock in the session's time zone shows it:
    /// `2026-10-01T10:00:00.123`.
    pub fn local_time(&self, epoch_ms: i64) -> String {
        // SET has checked the zone; one that came otherwise is shown as UTC.
        let local_ms = Zone::parse(self.config.time_zone()).map_or(epoch_ms, |zone| zone.to_local(epoch_ms));
        tidegate_api::text::format_timestamp_iso(i128::from(local_ms) * 1_000_000)
    }

    /// The catalogs now.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether a `BEGIN STATEMENT SET` waits for its `END`: a script that ends so has inserts that
    /// never ran.
    pub fn has_open_statement_set(&self) -> bool {
        self.open_set.is_some()
    }

    /// Runs one statement.
    pub fn execute(&mut self, statement: &ScriptStatement) -> Result<Outcome> {
        let parsed = parse_statement(statement)?;
        self.execute_parsed(parsed).map_err(|e| match e.message.contains("line ") {
            true => e,
            false => e.context(format!("Statement at line {}, column {}", statement.line, statement.column)),
        })
    }

    fn execute_parsed(&mut self, statement: Statement) -> Result<Outcome> {
        let fits_set = matches!(
            statement,
            Statement::Insert(_) | Statement::EndStatementSet | Statement::Quit | Statement::Clear | Statement::Help
        );
        if self.open_set.is_some() && !fits_set {
            return Err(Error::invalid("Only INSERT statement is allowed in Statement Set or use 'END' to submit it."));
        }
        match statement {
            Statement::Insert(insert) => self.insert(*insert),
            Statement::StatementSet(inserts) => self.inserts(&inserts),
            Statement::BeginStatementSet => {
                self.open_set = Some(Vec::new());
                Ok(Outcome::Done)
            }
            Statement::EndStatementSet => match self.open_set.take() {
                None => Err(Error::invalid(
                    "No Statement Set to submit. \"END\" command should be used after \"BEGIN STATEMENT SET\".",
                )),
                Some(inserts) if inserts.is_empty() => Ok(Outcome::Done),
                Some(inserts) => self.inserts(&inserts),
            },
            Statement::Query(query) => self.query(&query),
            Statement::Explain { details, statement } => match details.first() {
                None => self.explain(*statement),
                Some(detail) => Err(Error::unsupported(format!(
                    "EXPLAIN {detail} is not supported by Tidegate yet; plain EXPLAIN is."
                ))),
            },
            Statement::Set(None) => Ok(self.settings()),
            Statement::Set(Some((key, value))) => self.set(&key, &value),
            Statement::Reset(key) => Ok(self.reset(key.as_deref())),
            Statement::Use(name) => self.catalog.use_database(&name).map(|()| Outcome::Done),
            Statement::UseCatalog(name) => self.catalog.use_catalog(&name.value).map(|()| Outcome::Done),
            Statement::Show(show) => self.show(&show),
            Statement::Describe { object, extended, name } => self.describe(object, extended, &name),
            Statement::AddJar(_) | Statement::RemoveJar(_) => Ok(Outcome::Done),
            Statement::Clear => Ok(Outcome::Client(ClientCommand::Clear)),
            Statement::Help => Ok(Outcome::Client(ClientCommand::Help)),
            Statement::StopJob { id, savepoint, drain } => {
                let mode = match (savepoint, drain) {
                    (false, _) => StopMode::Cancel,
                    (true, false) => StopMode::Savepoint,
                    (true, true) => StopMode::SavepointAndDrain,
                };
                Ok(Outcome::Client(ClientCommand::StopJob { id, mode }))
            }
            Statement::Quit => Ok(Outcome::Quit),
            Statement::Unsupported { name, span } => Err(unsupported(span, name)),
            ddl => self.ddl(ddl),
        }
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.catalog, &self.config, &self.connectors)
    }

    fn insert(&mut self, insert: Insert) -> Result<Outcome> {
        if let Some(set) = &mut self.open_set {
            set.push(insert);
            return Ok(Outcome::Done);
        }
        self.inserts(std::slice::from_ref(&insert))
    }

    fn inserts(&self, inserts: &[Insert]) -> Result<Outcome> {
        let graph = self.planner().plan_inserts(inserts)?;
        let sinks = inserts.iter().map(|i| self.catalog.qualify(&i.target).identifier()).collect();
        Ok(Outcome::Job(Box::new(PlannedJob { graph, kind: JobKind::Insert { sinks } })))
    }

    fn query(&self, query: &Query) -> Result<Outcome> {
        let (graph, schema) = self.planner().plan_select(query)?;
        Ok(Outcome::Job(Box::new(PlannedJob { graph, kind: JobKind::Select { schema } })))
    }

    fn explain(&self, statement: Statement) -> Result<Outcome> {
        let planner = self.planner();
        let text = match statement {
            Statement::Insert(insert) => planner.explain_inserts(std::slice::from_ref(&insert))?,
            Statement::StatementSet(inserts) => planner.explain_inserts(&inserts)?,
            Statement::Query(query) => planner.explain_query(&query)?,
            Statement::CreateTable(create) => self.explain_create_as(&create)?,
            _ => return Err(Error::invalid("EXPLAIN is for queries, INSERT, STATEMENT SET and CREATE TABLE ... AS.")),
        };
        Ok(Outcome::Text(text))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<Outcome> {
        let key = key.trim();
        if key.is_empty() {
            return Err(Error::invalid("SET needs a key that is not empty."));
        }
        let value = value.trim();
        if key == "table.local-time-zone" && value != "default" && Zone::parse(value).is_err() {
            return Err(Error::invalid(format!(
                "Invalid time zone '{value}'. The value should be a Time Zone Database (TZDB) ID such as \
                 'America/Los_Angeles' to include daylight saving time. Fixed offsets are supported using 'GMT-03:00' \
                 or 'GMT+03:00'. Or use 'UTC' without time zone and daylight saving time."
            )));
        }
        self.config.set(key, value);
        Ok(Outcome::Done)
    }

    fn settings(&self) -> Outcome {
        let row = |(k, v): (&String, &String)| vec![Some(k.clone()), Some(shown(k, v).to_owned())];
        Outcome::Table {
            columns: vec!["key".into(), "value".into()],
            rows: self.config.values.iter().map(row).collect(),
        }
    }

    fn reset(&mut self, key: Option<&str>) -> Outcome {
        match key.map(str::trim) {
            None => self.config = self.initial.clone(),
            Some(key) => match self.initial.get(key) {
                Some(value) => self.config.set(key, value),
                None => drop(self.config.values.remove(key)),
            },
        }
        Outcome::Done
    }
}

/// A statement that Tidegate does not run.
fn unsupported(span: Span, what: &str) -> Error {
    Error::unsupported(format!(
        "At line {}, column {}: {what} is not supported by Tidegate yet.",
        span.line, span.column
    ))
}

/// The same for one that has a name.
fn unsupported_name(name: &ObjectName, what: &str) -> Error {
    unsupported(name.span(), what)
}

#[cfg(test)]
mod tests;
