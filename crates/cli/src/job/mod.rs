//! `tidegate job ...`: what a user operates the jobs of a standalone process with.
//!
//! What takes its time there, a savepoint for one, is asked for by [`request`] and waited for; what Flink's command
//! line prints is printed here in its words, because tools parse them.

pub mod checkpoints;
pub mod dry_run;
pub mod request;
pub mod stopping;

use tidegate_api::{Error, Result};

use crate::args::{JobCommand, OneJob, SavepointArgs, StopArgs};
use crate::console::print_out;
use crate::describe;
use crate::remote::Remote;
use crate::signals::Signals;
use request::Wish;

/// Runs one command.
pub async fn job(command: JobCommand, signals: Signals) -> Result<()> {
    match command {
        JobCommand::List(at) => print_out(&describe::list(&Remote::new(&at.endpoint)?)?),
        JobCommand::Describe(one) => show(&one, describe::describe),
        JobCommand::Checkpoints(one) => show(&one, checkpoints::text),
        JobCommand::Audit(one) => show(&one, crate::audit::audit),
        JobCommand::Cancel(one) => show(&one, Remote::cancel),
        JobCommand::Savepoint(args) => savepoint(&args, &signals).await,
        JobCommand::Stop(args) => stop(&args, &signals).await,
        JobCommand::Checkpoint(one) => checkpoint(&one, &signals).await,
    }
}

fn show(one: &OneJob, text: fn(&Remote, &str) -> Result<String>) -> Result<()> {
    let (remote, id) = found(one)?;
    print_out(&text(&remote, &id)?)
}

/// The process and the whole id of a job.
fn found(one: &OneJob) -> Result<(Remote, String)> {
    let remote = Remote::new(&one.at.endpoint)?;
    let id = remote.resolve(&one.job)?;
    Ok((remote, id))
}

async fn savepoint(args: &SavepointArgs, signals: &Signals) -> Result<()> {
    let (remote, id) = found(&args.of)?;
    let target = args.dir.as_deref().map(request::absolute).transpose()?;
    print_out(&format!("Triggering savepoint for job {id}.\nWaiting for response...\n"))?;
    let path = waited(&remote, &id, Wish::Savepoint, target, signals).await?;
    print_out(&format!(
        "Savepoint completed. Path: {path}\nYou can resume your program from this savepoint with the run command.\n"
    ))
}

async fn stop(args: &StopArgs, signals: &Signals) -> Result<()> {
    let (remote, id) = found(&args.of)?;
    let target = args.savepoint_dir.as_deref().map(request::absolute).transpose()?;
    let (does, wish) = if args.drain { ("Draining", Wish::Drain) } else { ("Suspending", Wish::Suspend) };
    print_out(&format!(
        "{does} job \"{id}\" with a CANONICAL savepoint.\nTriggering stop-with-savepoint for job {id}.\nWaiting for \
         response...\n"
    ))?;
    let path = waited(&remote, &id, wish, target, signals).await?;
    print_out(&format!("Savepoint completed. Path: {path}\n"))
}

async fn checkpoint(one: &OneJob, signals: &Signals) -> Result<()> {
    let (remote, id) = found(one)?;
    print_out(&format!("Triggering checkpoint for job {id}.\nWaiting for response...\n"))?;
    let number = waited(&remote, &id, Wish::Checkpoint, None, signals).await?;
    let details = remote.get(&format!("/jobs/{id}/checkpoints/details/{number}"))?;
    let path = details["external_path"].as_str().map(|path| format!(" Path: {path}")).unwrap_or_default();
    print_out(&format!("Checkpoint(CONFIGURED) {number} for job {id} completed.{path}\n"))
}

async fn waited(remote: &Remote, id: &str, wish: Wish, target: Option<String>, signals: &Signals) -> Result<String> {
    let trigger = remote.begin(id, wish, target)?;
    tokio::select! {
        taken = remote.outcome(id, wish, &trigger) => taken,
        () = signals.wait() => {
            // It cannot be taken back.
            crate::console::say(&format!("Not waiting any more. `tidegate job checkpoints {id}` shows what comes of it."));
            Err(Error::cancelled())
        }
    }
}
