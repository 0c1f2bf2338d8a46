//! Taking savepoints and checkpoints, and stopping a job with one.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_api::Result as JobResult;
use tidegate_checkpoint::Stop;
use tidegate_runtime::view::{JobView, TakenCheckpoint};

use crate::App;
use crate::error::{RestError, RestResult};
use crate::job::find;
use crate::operations::{Kind, throwable};

type Accepted = Result<(StatusCode, Json<Value>), RestError>;

/// `POST /jobs/:id/savepoints`. Flink writes these names with dashes, and those of [`StopRequest`] without.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SavepointRequest {
    target_directory: Option<String>,
    cancel_job: Option<bool>,
    #[serde(rename = "triggerId")]
    trigger_id: Option<String>,
    #[serde(rename = "formatType")]
    format_type: Option<String>,
}

/// `POST /jobs/:id/stop`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StopRequest {
    target_directory: Option<String>,
    drain: Option<bool>,
    trigger_id: Option<String>,
    format_type: Option<String>,
}

/// `POST /jobs/:id/checkpoints`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointRequest {
    trigger_id: Option<String>,
    checkpoint_type: Option<String>,
}

/// A body may be left out.
fn parsed<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, RestError> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|e| bad(format!("Bad request received. Failed to parse JSON: {e}.")))
}

fn bad(message: impl Into<String>) -> RestError {
    RestError::new(StatusCode::BAD_REQUEST, message)
}

/// One of `choices`, which all mean the same here.
fn check_choice(name: &str, value: Option<&str>, choices: &[&str]) -> Result<(), RestError> {
    match value {
        Some(value) if !choices.contains(&value) => {
            Err(bad(format!("Bad request: '{value}' is not supported for {name}, only {}.", choices.join(", "))))
        }
        _ => Ok(()),
    }
}

/// The client's trigger id, or a new one.
fn trigger_id(given: Option<String>) -> Result<String, RestError> {
    match given {
        None => Ok(uuid::Uuid::new_v4().simple().to_string()),
        Some(id) if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(id.to_ascii_lowercase()),
        Some(id) => Err(RestError::bad_parameter("triggerid", &id)),
    }
}

/// The folder of a savepoint: the one asked for, else the job's own, else that of the process.
fn target(app: &App, job: &JobView, given: Option<String>, property: &str) -> Result<String, RestError> {
    let given = given.filter(|dir| !dir.trim().is_empty());
    let of_job = || app.cluster.checkpoints(&job.id)?.options.savepoint_dir;
    let of_process = || {
        let settings = app.cluster.settings();
        let is_dir = |(key, _): &&(String, String)| key == "execution.checkpointing.savepoint-dir";
        settings.iter().find(is_dir).map(|(_, dir)| dir.clone())
    };
    given.or_else(of_job).or_else(of_process).ok_or_else(|| {
        bad(format!(
            "Config key [execution.checkpointing.savepoint-dir] is not set. Property [{property}] must be provided."
        ))
    })
}

fn accepted(trigger: &str) -> Accepted {
    Ok((StatusCode::ACCEPTED, Json(json!({ "request-id": trigger }))))
}

fn begin_savepoint(app: &App, job: &JobView, trigger: String, target: String, stop: Option<Stop>) -> Accepted {
    let (cluster, id) = (app.cluster.clone(), job.id.clone());
    let shown = |outcome: JobResult<String>| match outcome {
        Ok(location) => json!({ "location": location }),
        Err(error) => json!({ "failure-cause": throwable(&error) }),
    };
    let key = (Kind::Savepoint, job.id.clone(), trigger.clone());
    app.operations.begin(key, app.now_ms.clone(), move || cluster.savepoint(&id, Some(target), stop), shown);
    accepted(&trigger)
}

pub(crate) async fn savepoint(State(app): State<App>, Path(id): Path<String>, body: Bytes) -> Accepted {
    let job = find(&app, &id)?;
    let request: SavepointRequest = parsed(&body)?;
    check_choice("formatType", request.format_type.as_deref(), &["CANONICAL", "NATIVE"])?;
    let trigger = trigger_id(request.trigger_id)?;
    let target = target(&app, &job, request.target_directory, "target-directory")?;
    // Cancelled after the savepoint, the job could publish rows between the two that a restore publishes again.
    let stop = request.cancel_job.unwrap_or(false).then_some(Stop::Suspend);
    begin_savepoint(&app, &job, trigger, target, stop)
}

pub(crate) async fn stop(State(app): State<App>, Path(id): Path<String>, body: Bytes) -> Accepted {
    let job = find(&app, &id)?;
    let request: StopRequest = parsed(&body)?;
    check_choice("formatType", request.format_type.as_deref(), &["CANONICAL", "NATIVE"])?;
    let trigger = trigger_id(request.trigger_id)?;
    let target = target(&app, &job, request.target_directory, "targetDirectory")?;
    let stop = if request.drain.unwrap_or(false) { Stop::Drain } else { Stop::Suspend };
    begin_savepoint(&app, &job, trigger, target, Some(stop))
}

pub(crate) async fn checkpoint(State(app): State<App>, Path(id): Path<String>, body: Bytes) -> Accepted {
    let job = find(&app, &id)?;
    let request: CheckpointRequest = parsed(&body)?;
    // Flink refuses INCREMENTAL too: what a checkpoint writes is the job's setting.
    check_choice("checkpointType", request.checkpoint_type.as_deref(), &["CONFIGURED", "FULL"])?;
    let trigger = trigger_id(request.trigger_id)?;
    let shown = |outcome: JobResult<TakenCheckpoint>| match outcome {
        Ok(taken) => json!({ "checkpointId": taken.id }),
        Err(error) => json!({ "failureCause": throwable(&error) }),
    };
    let (cluster, id) = (app.cluster.clone(), job.id.clone());
    let key = (Kind::Checkpoint, job.id.clone(), trigger.clone());
    app.operations.begin(key, app.now_ms.clone(), move || cluster.checkpoint(&id), shown);
    accepted(&trigger)
}

pub(crate) async fn savepoint_status(
    State(app): State<App>,
    Path((job, trigger)): Path<(String, String)>,
) -> RestResult {
    status(&app, Kind::Savepoint, &job, &trigger)
}

pub(crate) async fn checkpoint_status(
    State(app): State<App>,
    Path((job, trigger)): Path<(String, String)>,
) -> RestResult {
    status(&app, Kind::Checkpoint, &job, &trigger)
}

fn status(app: &App, kind: Kind, job: &str, trigger: &str) -> RestResult {
    let found = app.operations.status(&(kind, job.to_owned(), trigger.to_ascii_lowercase()));
    found.map(Json).ok_or_else(|| {
        let what = match kind {
            Kind::Savepoint => "savepoint",
            Kind::Checkpoint => "checkpoint",
        };
        RestError::new(
            StatusCode::NOT_FOUND,
            format!(
                "org.apache.flink.runtime.rest.handler.RestHandlerException: There is no {what} operation with \
                 triggerId={trigger} for job {job}."
            ),
        )
    })
}
