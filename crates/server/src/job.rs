//! `/jobs...`: the list, one job, its plan, its end.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_api::graph::{JobGraph, Partitioner};
use tidegate_checkpoint::coordinator::CheckpointRecord;
use tidegate_runtime::view::{CheckpointStatistics, ExecutionState, FailureView, JobStatus, JobView, VertexView};

use crate::App;
use crate::error::{RestError, RestResult};
use crate::metrics::{Selection, aggregated_list, listed};
use crate::vertex;

/// Every state REST lists; the ones Tidegate never enters stay at 0.
const JOB_STATES: [&str; 11] = [
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
];
pub(crate) const TASK_STATES: [&str; 10] = [
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
];

/// Finds a job, with Flink's answers for an id that is none or unknown.
pub(crate) fn find(app: &App, id: &str) -> Result<JobView, RestError> {
    if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(RestError::bad_parameter("jobid", id));
    }
    app.cluster.job(id).ok_or_else(|| RestError::job_not_found(id))
}

pub(crate) async fn list(State(app): State<App>) -> Json<Value> {
    let jobs = app.cluster.jobs();
    let jobs: Vec<Value> = jobs.iter().map(|j| json!({ "id": j.id, "status": j.status.name() })).collect();
    Json(json!({ "jobs": jobs }))
}

pub(crate) async fn overview(State(app): State<App>) -> Json<Value> {
    let now = (app.now_ms)();
    let jobs: Vec<Value> = app.cluster.jobs().iter().map(|j| overview_entry(j, now)).collect();
    Json(json!({ "jobs": jobs }))
}

fn overview_entry(job: &JobView, now: i64) -> Value {
    let span = Span::of(job, now);
    let mut tasks = Map::new();
    let mut total = 0;
    for state in TASK_STATES {
        let count = job.vertices.iter().flat_map(|v| &v.subtasks).filter(|s| s.state.name() == state).count();
        total += count;
        tasks.insert(state.to_lowercase(), json!(count));
    }
    tasks.insert("total".into(), json!(total));
    json!({
        "jid": job.id,
        "name": job.name,
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": span.start,
        "end-time": span.end,
        "duration": span.duration,
        "state": job.status.name(),
        "last-modification": job.timestamps.values().max().copied().unwrap_or(span.start),
        "tasks": tasks,
        "pending-operators": 0,
    })
}

/// Start, end (-1 while it runs) and length of a job.
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) duration: i64,
}

impl Span {
    pub(crate) fn of(job: &JobView, now: i64) -> Span {
        let start = job.timestamps.get(&JobStatus::Initializing).copied().unwrap_or(now);
        let end = if job.status.is_terminal() { job.timestamps.get(&job.status).copied().unwrap_or(now) } else { -1 };
        Span { start, end, duration: if end < 0 { now - start } else { end - start } }
    }
}

pub(crate) async fn details(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = find(&app, &id)?;
    let now = (app.now_ms)();
    let span = Span::of(&job, now);
    let timestamps: Map<String, Value> = JOB_STATES
        .iter()
        .map(|state| {
            let at = job.timestamps.iter().find(|(s, _)| s.name() == *state).map_or(0, |(_, at)| *at);
            ((*state).to_owned(), json!(at))
        })
        .collect();
    let vertices: Vec<Value> = job.vertices.iter().map(|v| vertex::summary(v, now)).collect();
    Ok(Json(json!({
        "jid": job.id,
        "application-id": job.id,
        "name": job.name,
        "isStoppable": false,
        "state": job.status.name(),
        "job-type": "STREAMING",
        "schedulerType": "Default",
        "start-time": span.start,
        "end-time": span.end,
        "duration": span.duration,
        "maxParallelism": -1,
        "now": now,
        "timestamps": timestamps,
        "vertices": vertices,
        "status-counts": vertex_counts(&job),
        "plan": plan_json(&job),
        "pending-operators": 0,
    })))
}

/// How many vertices are in each state.
fn vertex_counts(job: &JobView) -> Value {
    let mut counts: BTreeMap<&str, usize> = TASK_STATES.iter().map(|s| (*s, 0)).collect();
    for vertex in &job.vertices {
        *counts.entry(vertex::state(vertex).name()).or_default() += 1;
    }
    json!(counts)
}

pub(crate) async fn status(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    Ok(Json(json!({ "status": find(&app, &id)?.status.name() })))
}

pub(crate) async fn plan(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    Ok(Json(json!({ "plan": plan_json(&find(&app, &id)?) })))
}

fn plan_json(job: &JobView) -> Value {
    // Flink lists the sink first.
    let nodes: Vec<Value> = job.vertices.iter().rev().map(plan_node).collect();
    json!({ "jid": job.id, "name": job.name, "type": "STREAMING", "nodes": nodes })
}

fn plan_node(vertex: &VertexView) -> Value {
    let mut description = String::new();
    for (depth, text) in &vertex.description {
        let branch = if *depth == 0 { String::new() } else { format!("{}+- ", "   ".repeat(depth - 1)) };
        description += &format!("{branch}{text}<br/>");
    }
    let mut node = json!({
        "id": vertex.id,
        "operator": "",
        "parallelism": vertex.parallelism,
        "operator_strategy": "",
        "description": description,
        "optimizer_properties": {},
    });
    if !vertex.inputs.is_empty() {
        let inputs = vertex.inputs.iter().enumerate().map(|(num, input)| {
            json!({
                "id": input.vertex, "num": num, "exchange": "pipelined_bounded",
                "ship_strategy": ship_strategy(&input.partitioner),
            })
        });
        node["inputs"] = Value::Array(inputs.collect());
    }
    node
}

fn ship_strategy(partitioner: &Partitioner) -> &'static str {
    match partitioner {
        Partitioner::Forward => "FORWARD",
        Partitioner::Hash(_) => "HASH",
        Partitioner::Rebalance => "REBALANCE",
        Partitioner::Broadcast => "BROADCAST",
        Partitioner::Global => "GLOBAL",
    }
}

pub(crate) async fn config(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = find(&app, &id)?;
    let parallelism = job.vertices.iter().map(|v| v.parallelism).max().unwrap_or(1);
    Ok(Json(json!({
        "jid": job.id,
        "name": job.name,
        "execution-config": {
            "restart-strategy": "Cluster level default restart strategy",
            "job-parallelism": parallelism,
            "object-reuse-mode": false,
            "user-config": {},
        },
    })))
}

/// Flink's default of `maxExceptions`.
const EXCEPTIONS_MAX: usize = 20;

/// `?maxExceptions=5`.
#[derive(Debug, Deserialize)]
pub(crate) struct Exceptions {
    #[serde(rename = "maxExceptions")]
    max: Option<usize>,
}

/// Why the job failed, and why it was started again, newest first.
pub(crate) async fn exceptions(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(wanted): Query<Exceptions>,
) -> RestResult {
    let job = find(&app, &id)?;
    let failures: Vec<&FailureView> = job.failure.iter().chain(&job.past_failures).collect();
    let max = wanted.max.unwrap_or(EXCEPTIONS_MAX);
    let entry = |f: &&FailureView| {
        json!({
            "exceptionName": "tidegate.JobFailure", "stacktrace": f.message, "timestamp": f.timestamp_ms,
            "taskName": f.task, "endpoint": vertex::ENDPOINT, "taskManagerId": &*app.taskmanager_id, "failureLabels": {},
            "concurrentExceptions": [],
        })
    };
    let entries: Vec<Value> = failures.iter().take(max).map(entry).collect();
    let truncated = failures.len() > max;
    Ok(Json(json!({ "exceptionHistory": { "entries": entries, "truncated": truncated } })))
}

pub(crate) async fn metrics(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(selection): Query<Selection>,
) -> RestResult {
    let job = find(&app, &id)?;
    Ok(listed(job_metrics(&app, &job, (app.now_ms)()), &selection))
}

/// `/jobs/metrics`: each metric aggregated over the jobs.
pub(crate) async fn all_metrics(State(app): State<App>, Query(selection): Query<Selection>) -> Json<Value> {
    let now = (app.now_ms)();
    let jobs = app.cluster.jobs();
    aggregated_list(jobs.iter().map(|job| job_metrics(&app, job, now)), &selection)
}

fn job_metrics(app: &App, job: &JobView, now: i64) -> Vec<(String, i64)> {
    let running_since = job.timestamps.get(&JobStatus::Running).copied();
    let until = if job.status.is_terminal() { job.timestamps.get(&job.status).copied().unwrap_or(now) } else { now };
    let uptime = running_since.map_or(0, |since| until - since);
    let times = [("uptime", uptime), ("runningTime", uptime), ("downtime", 0), ("restartingTime", 0)];
    let restarts = ("numRestarts", job.restarts as i64);
    let checkpoints = checkpoint_metrics(app.cluster.checkpoints(&job.id).as_ref());
    let metrics = times.into_iter().chain([restarts]).chain(checkpoints);
    metrics.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// -1 is what is not there yet, as in Flink.
fn checkpoint_metrics(kept: Option<&CheckpointStatistics>) -> [(&'static str, i64); 12] {
    let counts = kept.map(|kept| kept.history.counts()).unwrap_or_default();
    let latest = kept.and_then(|kept| kept.history.latest_completed());
    let last = |number: &dyn Fn(&CheckpointRecord) -> i64| latest.map_or(-1, number);
    let restored = kept.and_then(|kept| kept.history.restored()).map_or(-1, |from| from.restored_ms);
    [
        ("numberOfCompletedCheckpoints", counts.completed as i64),
        ("numberOfFailedCheckpoints", counts.failed as i64),
        ("numberOfInProgressCheckpoints", counts.in_progress as i64),
        ("totalNumberOfCheckpoints", counts.total as i64),
        ("lastCompletedCheckpointId", last(&|record| record.barrier.id.0 as i64)),
        ("lastCheckpointDuration", last(&CheckpointRecord::duration_ms)),
        ("lastCheckpointSize", last(&|record| record.sum(|m| m.written_bytes) as i64)),
        ("lastCheckpointFullSize", last(&|record| record.sum(|m| m.state_bytes) as i64)),
        ("lastCheckpointProcessedData", last(&|record| record.sum(|m| m.processed_bytes) as i64)),
        ("lastCheckpointPersistedData", last(&|record| record.sum(|m| m.persisted_bytes) as i64)),
        ("lastCheckpointCompletedTimestamp", last(&|record| record.ended_ms.unwrap_or(-1))),
        ("lastCheckpointRestoreTimestamp", restored),
    ]
}

/// Tidegate's functions have no accumulators.
pub(crate) async fn accumulators(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    find(&app, &id)?;
    Ok(Json(json!({
        "job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {},
    })))
}

/// What clients that wait for a job ask: not there yet, or how it ended.
pub(crate) async fn execution_result(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = find(&app, &id)?;
    let status = match job.status {
        JobStatus::Finished => "SUCCEEDED",
        JobStatus::Canceled => "CANCELED",
        JobStatus::Failed => "FAILED",
        _ => return Ok(Json(json!({ "status": { "id": "IN_PROGRESS" } }))),
    };
    let span = Span::of(&job, (app.now_ms)());
    let mut result = json!({
        "id": job.id, "application-id": job.id, "name": job.name, "application-status": status,
        "accumulator-results": {}, "start-time": span.start, "end-time": span.end, "net-runtime": span.duration,
    });
    if let Some(failure) = &job.failure {
        result["failure-cause"] = json!({ "class": "tidegate.JobFailure", "stack-trace": failure.message });
    }
    Ok(Json(json!({ "status": { "id": "COMPLETED" }, "job-execution-result": result })))
}

/// `?mode=cancel`.
#[derive(Debug, Deserialize)]
pub(crate) struct Termination {
    mode: Option<String>,
}

pub(crate) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(termination): Query<Termination>,
) -> Result<(StatusCode, Json<Value>), RestError> {
    match termination.mode.as_deref() {
        None | Some("cancel") => {}
        Some("stop") => {
            return Err(RestError::new(
                StatusCode::PERMANENT_REDIRECT,
                "The termination mode \"stop\" has been removed. For an ungraceful shutdown, please use \"cancel\" \
                 instead. For a graceful shutdown, please use \"jobs/:jobId/stop\" instead.",
            ));
        }
        Some(other) => return Err(RestError::bad_parameter("mode", other)),
    }
    let job = find(&app, &id)?;
    if job.status == JobStatus::Canceled {
        return Ok((StatusCode::ACCEPTED, Json(json!({}))));
    }
    if job.status.is_terminal() {
        let state = job.status.name();
        return Err(RestError::new(
            StatusCode::CONFLICT,
            format!("Job cancellation failed because the job has already reached another terminal state ({state})."),
        ));
    }
    app.cluster.cancel(&id);
    Ok((StatusCode::ACCEPTED, Json(json!({}))))
}

/// Takes a job graph as JSON, with the text it was made of under `script`. Flink's own body is Java-serialized, which
/// only a JVM can read.
pub(crate) async fn submit(State(app): State<App>, body: axum::body::Bytes) -> RestResult {
    let refused = |e: &dyn std::fmt::Display| {
        RestError::new(
            StatusCode::BAD_REQUEST,
            format!("The body is no Tidegate job graph: {e}. Submit with `tidegate run --endpoint`."),
        )
    };
    let mut body: Value = serde_json::from_slice(&body).map_err(|e| refused(&e))?;
    let script = match body.as_object_mut().and_then(|body| body.remove("script")) {
        Some(Value::String(script)) => Some(script),
        _ => None,
    };
    let graph: JobGraph = serde_json::from_value(body).map_err(|e| refused(&e))?;
    let submitted = tokio::task::spawn_blocking(move || app.cluster.submit(graph, script)).await;
    let id = match submitted {
        Ok(Ok(id)) => id,
        Ok(Err(e)) => return Err(RestError::new(StatusCode::BAD_REQUEST, e.to_string())),
        Err(e) => return Err(RestError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string())),
    };
    Ok(Json(json!({ "jobid": id })))
}

/// The subtask state that stands for a whole vertex, as Flink aggregates it.
pub(crate) fn aggregate_state(states: &[ExecutionState]) -> ExecutionState {
    use ExecutionState::*;
    let any = |state| states.contains(&state);
    let all = |state| !states.is_empty() && states.iter().all(|s| *s == state);
    if any(Failed) {
        Failed
    } else if any(Canceling) {
        Canceling
    } else if any(Canceled) {
        Canceled
    } else if all(Finished) {
        Finished
    } else if any(Running) || any(Finished) {
        Running
    } else if any(Initializing) {
        Initializing
    } else {
        Created
    }
}
