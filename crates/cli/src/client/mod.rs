//! `tidegate sql`: Flink's SQL client.
//!
//! Statements come from a file, from standard input, or from somebody at a terminal. The first two are run by
//! [`crate::script`]; the third by [`shell`]: [`editor`] reads statements, [`complete`] and [`highlight`] help to type
//! them, [`view`] shows what a SELECT gives, [`mailbox`] keeps what jobs say from getting in between.

mod caret;
mod complete;
mod editor;
pub mod help;
mod highlight;
pub mod input;
mod interrupt;
pub mod jobs;
pub mod mailbox;
mod settings;
mod shell;
mod terminal;
#[cfg(unix)]
mod typeahead;
mod view;
mod words;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate_api::{Error, Result};
use tidegate_sql::ast::Statement;
use tidegate_sql::parser::parse_statement;
use tidegate_sql::script::ScriptStatement;
use tidegate_sql::session::{Outcome, Session};

use crate::args::SqlArgs;
use crate::console::{Console, print_out};
use crate::engine::Engine;
use crate::remote::Remote;
use crate::script::{self, Script, Target, Voice};
use crate::signals::Signals;
use editor::Editor;
use input::StatementReader;
use interrupt::Interrupts;
use mailbox::Mailbox;
use shell::Shell;
use terminal::Terminal;

/// `tidegate sql`.
pub fn sql(args: SqlArgs) -> ExitCode {
    match (&args.file, Terminal::look()) {
        (None, Some(terminal)) => interactive(&args, terminal).unwrap_or_else(crate::failed),
        _ => crate::block_on(|signals| batch(args, signals)),
    }
}

/// Runs the statements of a file, or of standard input.
async fn batch(args: SqlArgs, signals: Signals) -> Result<()> {
    let statements = args.file.as_deref().map(script::read).transpose()?;
    let console = Console::new(args.session.quiet);
    if let (Some(file), Some([])) = (&args.file, statements.as_deref()) {
        console.notice(&format!("warning: the script '{}' has no statement", file.display()));
    }
    let (session, engine) = session(&args, &console)?;
    let target = target(&args, engine)?;
    let script = Script { session, target, voice: Voice::Client, console, signals };
    match statements {
        Some(statements) => script.execute(&statements).await,
        None => script.execute_read(StatementReader::stdin()).await,
    }
}

/// Talks to somebody at a terminal.
fn interactive(args: &SqlArgs, terminal: Terminal) -> Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("control").enable_all().build();
    let runtime = runtime.map_err(|e| Error::job(format!("Cannot start threads: {e}")))?;
    let entered = runtime.enter();
    let interrupts = Interrupts::listen();
    terminal::restore_on_panic();
    let mailbox = Arc::new(Mailbox::new(terminal.shows_output));
    let console = Console::interactive(args.session.quiet, mailbox.clone());
    let (session, engine) = session(args, &console)?;
    settings::check(session.config())?;
    let target = target(args, engine.clone())?;
    // Before anything else changes the terminal's modes, and so goes back to these.
    #[cfg(unix)]
    let typed_ahead = terminal.can_edit.then(typeahead::TypeAhead::keep);
    print_out(&format!("Tidegate {}. HELP; lists the statements, QUIT; leaves.\n", env!("CARGO_PKG_VERSION")))?;
    let editor = terminal.can_edit.then(|| {
        let history = editor::open_history(args.history.as_deref())
            .map_err(|why| console.notice(&format!("[WARNING] No history is kept: {why}.")));
        Editor::new(terminal, history.ok(), &interrupts, mailbox.clone())
    });
    let runtime_handle = runtime.handle().clone();
    let mut shell = Shell {
        session,
        target,
        engine,
        console,
        mailbox,
        interrupts: interrupts.clone(),
        terminal,
        runtime: runtime_handle,
    };
    drop(entered);
    let ended = shell.run(editor);
    #[cfg(unix)]
    drop(typed_ahead);
    drop(shell);
    runtime.shutdown_background();
    ended?;
    Ok(interrupts.end().map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// A session with the settings of the command line, after the statements of `-i`.
fn session(args: &SqlArgs, console: &Console) -> Result<(Session, Arc<Engine>)> {
    let config = script::settings(&args.session)?;
    let engine = Arc::new(Engine::new(&config, console.clone())?);
    let mut session = Session::new(engine.connectors().clone(), config);
    if let Some(file) = &args.init {
        initialize(&mut session, file)?;
    }
    Ok((session, engine))
}

fn target(args: &SqlArgs, engine: Arc<Engine>) -> Result<Target> {
    Ok(match &args.endpoint {
        Some(url) => Target::There(Remote::new(url)?),
        None => Target::Here(engine),
    })
}

/// Runs the statements of `-i`, which only set the session up.
fn initialize(session: &mut Session, file: &Path) -> Result<()> {
    let in_file = |e: Error| e.context(format!("In '{}'", file.display()));
    let statements = script::read(file)?;
    // Before any has run: a session half set up is of no use.
    for statement in &statements {
        if !sets_up(&parse_statement(statement)?) {
            return Err(in_file(not_for_init(statement)));
        }
    }
    for statement in &statements {
        match session.execute(statement).map_err(in_file)? {
            Outcome::Done => {}
            _ => return Err(in_file(not_for_init(statement))),
        }
    }
    Ok(())
}

/// Flink allows DDL, USE, SET and RESET there, but nothing that runs a job or shows anything.
fn sets_up(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(create) => create.as_query.is_none(),
        Statement::Set(setting) => setting.is_some(),
        Statement::Insert(_)
        | Statement::StatementSet(_)
        | Statement::BeginStatementSet
        | Statement::EndStatementSet
        | Statement::Query(_)
        | Statement::Show(_)
        | Statement::Describe { .. }
        | Statement::Explain { .. }
        | Statement::StopJob { .. }
        | Statement::Quit
        | Statement::Clear
        | Statement::Help => false,
        _ => true,
    }
}

fn not_for_init(statement: &ScriptStatement) -> Error {
    let first = statement.text.lines().next().unwrap_or_default();
    Error::invalid(format!(
        "Unsupported operation in sql init file at line {}, column {}: {first}. It may have DDL, USE, SET and RESET.",
        statement.line, statement.column
    ))
}
