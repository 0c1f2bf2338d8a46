//! `SHOW JOBS`, `DESCRIBE JOB` and `STOP JOB`: the jobs of this process, or of the one at `--endpoint`.

use serde_json::Value;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::Stop;
use tidegate_checkpoint::options::CheckpointOptions;
use tidegate_runtime::view::JobStatus;
use tidegate_server::ClusterAccess;
use tidegate_sql::session::{Session, StopMode};

use crate::job::request::{Wish, absolute};
use crate::script::Target;
use crate::tableau;

/// A job as these statements show it.
struct Job {
    id: String,
    name: String,
    status: String,
    started_ms: i64,
}

/// All jobs, newest first.
pub fn list(target: &Target, session: &Session) -> Result<String> {
    Ok(table(&jobs(target)?, session))
}

/// One job, by its whole id.
pub fn describe(target: &Target, session: &Session, id: &str) -> Result<String> {
    let mut jobs = jobs(target)?;
    jobs.retain(|job| job.id == id);
    if jobs.is_empty() { Err(no_job(id)) } else { Ok(table(&jobs, session)) }
}

/// Cancels a job, or stops it with a savepoint: then a table with its path.
pub async fn stop(target: &Target, session: &Session, id: &str, mode: StopMode) -> Result<Option<String>> {
    let jobs = jobs(target)?;
    let job = jobs.iter().find(|job| job.id == id).ok_or_else(|| no_job(id))?;
    let stop = match mode {
        StopMode::Cancel => return cancel(target, job).map(|()| None),
        StopMode::Savepoint => Stop::Suspend,
        StopMode::SavepointAndDrain => Stop::Drain,
    };
    let folder = CheckpointOptions::from_config(session.config())?.savepoint_dir;
    let folder = folder.as_deref().map(absolute).transpose()?;
    let path = match target {
        Target::Here(engine) => engine.savepoint(id, folder, Some(stop)).await,
        Target::There(remote) => {
            let wish = if stop == Stop::Drain { Wish::Drain } else { Wish::Suspend };
            match remote.begin(id, wish, folder) {
                Ok(trigger) => remote.outcome(id, wish, &trigger).await,
                Err(error) => Err(error),
            }
        }
    };
    let path = path.map_err(|e| e.context(format!("Could not stop job {id} with savepoint")))?;
    Ok(Some(tableau::fitted(&["savepoint path".to_owned()], &[vec![Some(path)]])))
}

fn cancel(target: &Target, job: &Job) -> Result<()> {
    let id = &job.id;
    match target {
        Target::Here(engine) if engine.cancel(id) => Ok(()),
        Target::Here(_) => Err(Error::invalid(format!("Job {id} has already ended: it is {}.", job.status))),
        Target::There(remote) => remote.cancel(id).map(|_| ()),
    }
}

fn no_job(id: &str) -> Error {
    Error::invalid(format!("There is no job '{id}'. SHOW JOBS lists the jobs with their ids."))
}

fn jobs(target: &Target) -> Result<Vec<Job>> {
    match target {
        Target::Here(engine) => Ok(engine
            .jobs()
            .into_iter()
            .map(|job| Job {
                started_ms: job.timestamps.get(&JobStatus::Initializing).copied().unwrap_or_default(),
                id: job.id,
                name: job.name,
                status: job.status.name().to_owned(),
            })
            .collect()),
        Target::There(remote) => {
            let overview = remote.get("/jobs/overview")?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let job = |job: &Value| Job {
                id: text(&job["jid"]),
                name: text(&job["name"]),
                status: text(&job["state"]),
                started_ms: job["start-time"].as_i64().unwrap_or_default(),
            };
            Ok(overview["jobs"].as_array().into_iter().flatten().map(job).collect())
        }
    }
}

fn table(jobs: &[Job], session: &Session) -> String {
    let columns = ["job id", "job name", "status", "start time"].map(String::from);
    let row = |job: &Job| {
        [job.id.clone(), job.name.clone(), job.status.clone(), session.local_time(job.started_ms)].map(Some).to_vec()
    };
    tableau::fitted(&columns, &jobs.iter().map(row).collect::<Vec<_>>())
}
