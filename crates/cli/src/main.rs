//! The `tidegate` binary: reads the command line and wires the parts together.

mod args;
mod collect;
mod engine;
mod progress;
mod remote;
mod rest;
mod script;
mod standalone;
mod tableau;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tidegate_api::{ErrorKind, Result};
use tidegate_sql::session::Session;

use args::{Cli, Command, RunArgs, SqlArgs};
use engine::Engine;
use remote::Remote;
use script::{Target, Voice};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a shell expects of a program that was interrupted.
const EXIT_INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Run(args) => block_on(run(args)),
        Command::Sql(args) => block_on(sql(args)),
        Command::Standalone(args) => block_on(standalone::standalone(args)),
        Command::Job { command } => remote::job(&command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind == ErrorKind::Cancelled => ExitCode::from(EXIT_INTERRUPTED),
        Err(e) => {
            eprintln!("{} {e}", if e.exit_code() == 2 { "error:" } else { "error: the job failed:" });
            ExitCode::from(e.exit_code() as u8)
        }
    }
}

/// The control side: REST, signals, progress. The data plane has a runtime of its own, so these
/// answer while it is saturated.
fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("control").enable_all().build();
    match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            runtime.shutdown_background();
            outcome
        }
        Err(e) => Err(tidegate_api::Error::job(format!("Cannot start threads: {e}"))),
    }
}

async fn run(args: RunArgs) -> Result<()> {
    let statements = script::read(&args.file)?;
    let config = script::settings(&args.session)?;
    let quiet = args.session.quiet;
    let engine = Arc::new(Engine::new(&config, quiet)?);
    let session = Session::new(engine.connectors().clone(), config);
    let _rest = match args.rest_port {
        Some(port) => Some(rest::serve(engine.clone(), "127.0.0.1", port).await?),
        None => None,
    };
    let target = match &args.endpoint {
        Some(url) => Target::There(Remote::new(url)),
        None => Target::Here(engine),
    };
    script::execute(statements, session, &target, Voice::Results, quiet).await
}

async fn sql(args: SqlArgs) -> Result<()> {
    let statements = script::read(&args.file)?;
    let config = script::settings(&args.session)?;
    let engine = Arc::new(Engine::new(&config, args.session.quiet)?);
    let session = Session::new(engine.connectors().clone(), config);
    let target = match &args.endpoint {
        Some(url) => Target::There(Remote::new(url)),
        None => Target::Here(engine),
    };
    script::execute(statements, session, &target, Voice::Client, args.session.quiet).await
}
