//! The interactive session: reads statements, runs them, says what came of it.
//!
//! The session owns the terminal and lends it: to the editor while a statement is typed, to a view while its result is
//! looked at, to whatever prints while a statement runs. An INSERT runs on behind the prompt; a SELECT is in front of
//! it until it ends or is cancelled.

use std::sync::Arc;

use tidegate_api::{Error, ErrorKind, Result};
use tidegate_server::ClusterAccess;
use tidegate_sql::ast::Statement;
use tidegate_sql::parser::parse_statement;
use tidegate_sql::script::{ScriptStatement, split_script};
use tidegate_sql::session::{ClientCommand, JobKind, Outcome, PlannedJob, Session};
use tokio::runtime::Handle;

use super::complete::Vocabulary;
use super::editor::{Editor, Entered, PROMPT, PROMPT_MORE};
use super::input::Collected;
use super::interrupt::Interrupts;
use super::mailbox::Mailbox;
use super::terminal::{self, Terminal};
use super::view::screen::ViewScreen;
use super::view::{Progress, ViewMode};
use super::{caret, help, jobs, settings};
use crate::collect::{TableauScreen, time_cost};
use crate::console::{Console, print_out, say};
use crate::engine::{Engine, Running};
use crate::script::{STOP_WAIT, Target, select_is_local, submitted_text};
use crate::tableau;

/// An interactive session.
pub struct Shell {
    /// What statements change.
    pub session: Session,
    /// Where jobs run.
    pub target: Target,
    /// Runs SELECTs and casts their values, here.
    pub engine: Arc<Engine>,
    /// Who prints.
    pub console: Console,
    /// What jobs say meanwhile.
    pub mailbox: Arc<Mailbox>,
    /// Ctrl-C and the like.
    pub interrupts: Interrupts,
    /// What the terminal can do.
    pub terminal: Terminal,
    /// The runtime that answers while statements run.
    pub runtime: Handle,
}

/// Whether the session goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Quit,
}

impl Shell {
    /// Reads and runs statements until the user leaves. An error of a statement is said and is none of the session.
    pub fn run(&mut self, mut editor: Option<Editor>) -> Result<()> {
        let ended = self.statements_until_end(&mut editor);
        self.mailbox.release()?;
        // The editor's drop writes the history and restores the terminal.
        drop(editor);
        if ended.as_ref().is_err_and(|e| e.kind == ErrorKind::OutputClosed) {
            self.runtime.block_on(self.cancel_all());
            return ended;
        }
        self.say_goodbye();
        ended
    }

    fn statements_until_end(&mut self, editor: &mut Option<Editor>) -> Result<()> {
        loop {
            if let Some(editor) = editor {
                editor.learn(self.vocabulary());
            }
            let entered = match editor {
                Some(editor) => {
                    self.mailbox.hold();
                    let entered = editor.read();
                    self.mailbox.release()?;
                    entered?
                }
                None => self.read_plain()?,
            };
            match entered {
                Entered::Text(text) if self.text(&text)? == Flow::On => {}
                Entered::Cleared => {}
                Entered::Text(_) | Entered::End => return Ok(()),
            }
        }
    }

    /// Reads from a terminal that cannot move its cursor: line by line, without editing.
    fn read_plain(&self) -> Result<Entered> {
        let mut collected = Collected::default();
        let seen = self.interrupts.count();
        let mut text = String::new();
        loop {
            print_out(if text.is_empty() { PROMPT } else { PROMPT_MORE })?;
            let mut line = String::new();
            let read = std::io::stdin().read_line(&mut line);
            let read = read.map_err(|e| Error::job(format!("Cannot read from the terminal: {e}.")))?;
            if read == 0 || self.interrupts.end().is_some() {
                print_out("\n")?;
                return Ok(Entered::End);
            }
            if self.interrupts.count() > seen {
                return Ok(Entered::Cleared);
            }
            text += &line;
            match collected.add(&line) {
                Ok(statements) if statements.is_empty() && !collected.is_empty() => {}
                _ => return Ok(Entered::Text(text)),
            }
        }
    }

    /// Runs what was typed, up to the first error.
    fn text(&mut self, text: &str) -> Result<Flow> {
        let statements = match split_script(text) {
            Ok(statements) => statements,
            Err(e) => return self.said(Err(e), text),
        };
        let count = statements.len();
        for (i, statement) in statements.iter().enumerate() {
            let ran = self.statement(statement);
            let failed = ran.is_err();
            if self.said(ran, text)? == Flow::Quit {
                return Ok(Flow::Quit);
            }
            if failed && i + 1 < count {
                say(&format!("[INFO] What was typed after it was not run: {} of {count} statements.\n", count - i - 1));
            }
            if failed || self.interrupts.end().is_some() {
                break;
            }
        }
        if self.interrupts.end().is_some() { Ok(Flow::Quit) } else { Ok(Flow::On) }
    }

    /// Says an error of a statement. That nobody reads any more is an error of the session.
    fn said(&self, ran: Result<Flow>, text: &str) -> Result<Flow> {
        match ran {
            Err(e) if e.kind == ErrorKind::OutputClosed => Err(e),
            // Whoever pressed Ctrl-C made no mistake.
            Err(e) if e.kind == ErrorKind::Cancelled => {
                say(&format!("[INFO] {e}\n"));
                Ok(Flow::On)
            }
            Err(e) => {
                say(&format!("{}\n", caret::error_text(&e, text)));
                Ok(Flow::On)
            }
            Ok(flow) => Ok(flow),
        }
    }

    fn statement(&mut self, statement: &ScriptStatement) -> Result<Flow> {
        let started = (self.engine.now_ms())();
        if let Statement::Set(Some((key, value))) = parse_statement(statement)? {
            let mut config = self.session.config().clone();
            config.set(key.trim(), value.trim());
            settings::check(&config)?;
            if key.trim().starts_with("sql-client.") && !settings::is_known(key.trim()) {
                self.console.notice(&format!("[WARNING] Tidegate makes no use of the key '{}'.", key.trim()));
            }
        }
        self.target.said(&statement.text);
        match self.session.execute(statement)? {
            Outcome::Quit => return Ok(Flow::Quit),
            Outcome::Done => self.done()?,
            Outcome::Text(text) => self.console.out(&format!("{}\n\n", text.trim_end()))?,
            Outcome::Table { columns, rows } => self.table(&tableau::fitted(&columns, &rows), started)?,
            Outcome::Client(command) => self.client_command(&command, started)?,
            Outcome::Job(job) => self.job(*job)?,
        }
        Ok(Flow::On)
    }

    fn done(&self) -> Result<()> {
        self.console.out("[INFO] Execute statement succeeded.\n\n")
    }

    /// A finished table, with the time it took if that is wanted.
    fn table(&self, text: &str, started_ms: i64) -> Result<()> {
        let time = match settings::prints_time(self.session.config())? {
            true => time_cost((self.engine.now_ms())() - started_ms),
            false => String::new(),
        };
        self.console.out(&format!("{}{time}\n\n", text.trim_end()))
    }

    fn client_command(&self, command: &ClientCommand, started: i64) -> Result<()> {
        match command {
            ClientCommand::Clear if self.terminal.can_edit && self.terminal.shows_output => terminal::clear(),
            ClientCommand::Clear => Ok(()),
            ClientCommand::Help => self.console.out(&format!("{}\n", help::TEXT)),
            ClientCommand::ShowJobs => self.table(&jobs::list(&self.target, &self.session)?, started),
            ClientCommand::DescribeJob(id) => self.table(&jobs::describe(&self.target, &self.session, id)?, started),
            ClientCommand::StopJob { id, mode } => {
                match self.interruptible(jobs::stop(&self.target, &self.session, id, *mode))? {
                    Some(table) => self.table(&table, started),
                    None => self.done(),
                }
            }
        }
    }

    /// The view of a SELECT; `None` is the tableau, and what a terminal that cannot show views gets.
    fn view_mode(&self) -> Result<Option<ViewMode>> {
        let mode = settings::result_mode(self.session.config())?;
        Ok(mode.filter(|_| self.terminal.can_edit && self.terminal.shows_output))
    }

    fn job(&self, job: PlannedJob) -> Result<()> {
        let is_select = matches!(job.kind, JobKind::Select { .. });
        match &self.target {
            Target::There(_) if is_select => Err(select_is_local()),
            Target::There(remote) => {
                self.console.out("[INFO] Submitting SQL update statement to the cluster...\n")?;
                let id = remote.submit(&job.graph)?;
                self.console.out(&format!("{}\n", submitted_text(&id)))?;
                if !self.session.config().bool("table.dml-sync", false)? {
                    return Ok(());
                }
                match self.interruptible(remote.wait(&id)) {
                    // It is not this process that runs it.
                    Err(e) if e.kind == ErrorKind::Cancelled => {
                        let text = "[INFO] Not waiting any more; the job goes on. STOP JOB stops it.\n\n";
                        return self.console.out(text);
                    }
                    ended => ended?,
                }
                self.console.out("[INFO] Complete execution of the SQL update statement.\n\n")
            }
            Target::Here(_) if is_select => self.select(job),
            Target::Here(engine) => self.insert(engine, job),
        }
    }

    /// Waits for the end of something; Ctrl-C is an error.
    fn interruptible<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let seen = self.interrupts.count();
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = self.interrupts.after(seen) => Err(Error::cancelled()),
            }
        })
    }

    fn insert(&self, engine: &Engine, job: PlannedJob) -> Result<()> {
        let waits = self.session.config().bool("table.dml-sync", false)?;
        self.console.out("[INFO] Submitting SQL update statement to the cluster...\n")?;
        let running = self.runtime.block_on(async { engine.start(job.graph) })?;
        self.console.out(&format!("{}\n", submitted_text(running.id())))?;
        if waits {
            self.wait_or_cancel(&running)?;
            return self.console.out("[INFO] Complete execution of the SQL update statement.\n\n");
        }
        let console = self.console.clone();
        self.runtime.spawn(async move {
            let ended = running.wait().await;
            running.losses().iter().for_each(|line| console.notice(&format!("[WARNING] {line}")));
            match ended {
                Ok(()) => console.notice(&format!("[INFO] Job {} finished.", running.id())),
                // Whoever stopped it knows.
                Err(e) if e.kind == ErrorKind::Cancelled => {}
                Err(e) => say_failure(&console, running.id(), &e),
            }
        });
        Ok(())
    }

    /// Waits for a job that stands before the prompt; Ctrl-C cancels it.
    fn wait_or_cancel(&self, running: &Running) -> Result<()> {
        let ended = self.interruptible(running.wait());
        if ended.is_err() {
            running.cancel();
            self.runtime.block_on(async {
                // What does not stop by then is blocked, and stops with the process.
                let _ = tokio::time::timeout(STOP_WAIT, running.wait()).await;
            });
        }
        running.losses().iter().for_each(|line| self.console.notice(&format!("[WARNING] {line}")));
        ended
    }

    fn select(&self, job: PlannedJob) -> Result<()> {
        match self.view_mode()? {
            None => self.select_as_tableau(job),
            Some(mode) => self.select_in_view(job, mode),
        }
    }

    fn select_as_tableau(&self, job: PlannedJob) -> Result<()> {
        let clock = settings::prints_time(self.session.config())?.then(|| self.engine.now_ms());
        self.console.show_on(Some(Arc::new(TableauScreen { console: self.console.clone(), clock })));
        let running = self.runtime.block_on(async { self.engine.start(job.graph) })?;
        match self.wait_or_cancel(&running) {
            // The tableau has said it.
            Err(e) if e.kind == ErrorKind::Cancelled => {}
            ended => ended?,
        }
        self.console.out("\n")
    }

    fn select_in_view(&self, job: PlannedJob, mode: ViewMode) -> Result<()> {
        let screen = Arc::new(ViewScreen::new(mode, settings::rows_max(self.session.config())?));
        self.console.show_on(Some(screen.clone()));
        let running = Arc::new(self.runtime.block_on(async { self.engine.start(job.graph) })?);
        let (watched, told) = (running.clone(), screen.clone());
        let end = self.runtime.spawn(async move {
            told.ended(match watched.wait().await {
                Ok(()) => Progress::Finished,
                Err(e) => Progress::Failed(e.to_string()),
            });
        });
        self.mailbox.hold();
        let shown = screen.show(self.terminal.colours, &self.interrupts, &*self.engine.now_ms());
        self.mailbox.release()?;
        let was_running = !end.is_finished();
        let ended = match was_running {
            true => {
                running.cancel();
                self.runtime.block_on(async {
                    // What does not stop by then is blocked, and stops with the process.
                    let _ = tokio::time::timeout(STOP_WAIT, running.wait()).await;
                });
                Ok(())
            }
            false => self.runtime.block_on(running.wait()),
        };
        running.losses().iter().for_each(|line| self.console.notice(&format!("[WARNING] {line}")));
        shown?;
        ended?;
        match was_running {
            true => self.console.out("[INFO] Result retrieval cancelled.\n\n"),
            false => {
                let rows = screen.received();
                let many = if rows == 1 { "row" } else { "rows" };
                self.console.out(&format!("[INFO] Received a total of {rows} {many}\n\n"))
            }
        }
    }

    fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            objects: self.session.named_objects(),
            settings: self.session.config().values.keys().cloned().collect(),
        }
    }

    /// Jobs of this process end with it.
    fn say_goodbye(&self) {
        if self.session.has_open_statement_set() {
            say("[WARNING] The inserts since BEGIN STATEMENT SET have not run: there was no END.");
        }
        let running: Vec<_> = self.engine.jobs().into_iter().filter(|job| !job.status.is_terminal()).collect();
        if !running.is_empty() {
            let many = if running.len() == 1 { "job that still runs" } else { "jobs that still run" };
            say(&format!("[INFO] Cancelling {} {many}:", running.len()));
            running.iter().for_each(|job| say(&format!("  {}  {}", job.id, job.name)));
        }
        self.runtime.block_on(self.cancel_all());
    }

    async fn cancel_all(&self) {
        let _ = tokio::time::timeout(STOP_WAIT, self.engine.stop_all()).await;
    }
}

fn say_failure(console: &Console, id: &str, error: &Error) {
    console.notice(&format!("[ERROR] Job {id} failed. Reason:\n{error}"));
}
