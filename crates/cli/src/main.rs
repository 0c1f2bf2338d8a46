//! The `tidegate` binary: reads the command line and wires the parts together.

mod allocator;
mod args;
mod audit;
mod broker;
mod client;
mod collect;
mod console;
mod demo;
mod describe;
mod engine;
mod install;
mod job;
mod losses;
mod progress;
mod remote;
mod rest;
mod script;
mod signals;
mod standalone;
mod store;
mod tableau;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tidegate_api::{Error, ErrorKind, Result, fail_point};
use tidegate_sql::session::Session;

use args::{Cli, Command, RunArgs};
use console::{Console, say};
use engine::Engine;
use remote::Remote;
use script::{Script, Target, Voice};
use signals::Signals;

/// What a shell sees of a program whose standard output was closed: 128 and the number of SIGPIPE.
const EXIT_OUTPUT_CLOSED: u8 = 141;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = fail_point::arm() {
        return failed(error);
    }
    match cli.command {
        Command::Demo(args) => block_on(|signals| demo::demo(args, signals)),
        Command::Run(args) => block_on(|signals| run(args, signals)),
        Command::Sql(args) => client::sql(args),
        Command::Standalone(args) => block_on(|signals| standalone::standalone(args, signals)),
        Command::Broker(args) => block_on(|signals| broker::broker(args, signals)),
        Command::Job { command } => block_on(|signals| job::job(command, signals)),
        Command::Completions { shell } => install::completions(shell).map_or_else(failed, |()| ExitCode::SUCCESS),
        Command::Man { out } => install::manual(out.as_deref()).map_or_else(failed, |()| ExitCode::SUCCESS),
    }
}

/// Says what went wrong.
fn failed(error: Error) -> ExitCode {
    if error.kind == ErrorKind::OutputClosed {
        return ExitCode::from(EXIT_OUTPUT_CLOSED);
    }
    say(&format!("error: {error}"));
    ExitCode::from(error.exit_code() as u8)
}

/// The control side: REST, signals, progress. The data plane has a runtime of its own, so these
/// answer while it is saturated.
fn block_on<W: Future<Output = Result<()>>>(work: impl FnOnce(Signals) -> W) -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("control").enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return failed(Error::job(format!("Cannot start threads: {e}"))),
    };
    let (signals, outcome) = runtime.block_on(async {
        let signals = Signals::listen();
        (signals.clone(), work(signals).await)
    });
    runtime.shutdown_background();
    match (outcome, signals.exit_code()) {
        (Ok(()), _) => ExitCode::SUCCESS,
        // The job ended as cancelled; that is what was asked for.
        (Err(e), Some(code)) if e.kind == ErrorKind::Cancelled => code,
        (Err(e), _) => failed(e),
    }
}

async fn run(args: RunArgs, signals: Signals) -> Result<()> {
    let statements = script::read(&args.file)?;
    let mut config = script::settings(&args.session)?;
    if let Some(path) = &args.from_savepoint {
        config.set("execution.state-recovery.path", job::request::absolute(path)?);
        config.set("execution.state-recovery.ignore-unclaimed-state", args.allow_non_restored_state.to_string());
    }
    if let Some(mode) = args.claim_mode {
        config.set("execution.state-recovery.claim-mode", mode);
    }
    let console = Console::new(args.session.quiet);
    if statements.is_empty() {
        console.notice(&format!("warning: the script '{}' has no statement", args.file.display()));
    }
    let engine = Arc::new(Engine::new(&config, console.clone())?);
    let session = Session::new(engine.connectors().clone(), config);
    if args.dry_run {
        return job::dry_run::dry_run(session, &engine, &statements, &console).await;
    }
    let mut server = None;
    if let Some(port) = args.rest_port {
        let serving = rest::serve(engine.clone(), "127.0.0.1", port).await?;
        console.notice(&format!("REST on http://{}", serving.address));
        server = Some(serving);
    }
    let target = match &args.endpoint {
        Some(url) => Target::There(Remote::new(url)?),
        None => Target::Here(engine.clone()),
    };
    let ended = Script { session, target, voice: Voice::Results, console, signals }.execute(&statements).await;
    // Whoever stopped a job here comes for the path of its savepoint.
    let _ = tokio::time::timeout(script::STOP_WAIT, engine.operations().all_read()).await;
    if let Some(server) = server {
        server.end().await;
    }
    ended
}
