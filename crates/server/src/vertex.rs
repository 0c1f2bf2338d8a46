//! `/jobs/:id/vertices/:vid...`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde_json::{Map, Value, json};
use tidegate_runtime::view::{ExecutionState, SubtaskView, VertexView};

use crate::App;
use crate::error::{RestError, RestResult};
use crate::job::{TASK_STATES, aggregate_state, find};
use crate::metrics::{self, Selection};

/// The number of key groups Flink would choose, which it shows as a vertex's maximum parallelism.
fn max_parallelism(vertex: &VertexView) -> usize {
    (vertex.parallelism + vertex.parallelism / 2).next_power_of_two().clamp(128, 1 << 15)
}

/// Where subtasks run; there is no port to reach them at.
pub(crate) const ENDPOINT: &str = "localhost:-1";

fn find_vertex(app: &App, job: &str, id: &str) -> Result<VertexView, RestError> {
    let found = find(app, job)?;
    let vertex = found.vertices.into_iter().find(|v| v.id == id);
    vertex.ok_or_else(|| RestError::not_found(format!("job vertex {id} not found")))
}

pub(crate) fn state(vertex: &VertexView) -> ExecutionState {
    let states: Vec<ExecutionState> = vertex.subtasks.iter().map(|s| s.state).collect();
    aggregate_state(&states)
}

/// Start, end (-1 while it runs) and length of a subtask.
fn span(subtask: &SubtaskView, now: i64) -> (i64, i64, i64) {
    let start = subtask.timestamps.get(&ExecutionState::Initializing).copied().unwrap_or(now);
    let ended = matches!(subtask.state, ExecutionState::Finished | ExecutionState::Canceled | ExecutionState::Failed);
    let end = if ended { subtask.timestamps.get(&subtask.state).copied().unwrap_or(now) } else { -1 };
    (start, end, if end < 0 { now - start } else { end - start })
}

fn io_metrics(subtasks: &[SubtaskView]) -> Value {
    let sum = |name: &str| -> i64 {
        subtasks.iter().flat_map(|s| &s.task_metrics).filter(|(n, _)| n == name).map(|(_, v)| *v).sum()
    };
    json!({
        "read-bytes": sum("numBytesIn"), "read-bytes-complete": true,
        "write-bytes": sum("numBytesOut"), "write-bytes-complete": true,
        "read-records": sum("numRecordsIn"), "read-records-complete": true,
        "write-records": sum("numRecordsOut"), "write-records-complete": true,
        "accumulated-backpressured-time": sum("accumulateBackPressuredTimeMs"),
        "accumulated-idle-time": sum("accumulateIdleTimeMs"),
        "accumulated-busy-time": sum("accumulateBusyTimeMs") as f64,
    })
}

/// A vertex as `/jobs/:id` lists it.
pub(crate) fn summary(vertex: &VertexView, now: i64) -> Value {
    let spans: Vec<_> = vertex.subtasks.iter().map(|s| span(s, now)).collect();
    let start = spans.iter().map(|s| s.0).min().unwrap_or(-1);
    let end = if spans.iter().any(|s| s.1 < 0) { -1 } else { spans.iter().map(|s| s.1).max().unwrap_or(-1) };
    let mut tasks: BTreeMap<&str, usize> = TASK_STATES.iter().map(|s| (*s, 0)).collect();
    for subtask in &vertex.subtasks {
        *tasks.entry(subtask.state.name()).or_default() += 1;
    }
    json!({
        "id": vertex.id,
        "slotSharingGroupId": "00000000000000000000000000000000",
        "name": vertex.name,
        "maxParallelism": max_parallelism(vertex),
        "parallelism": vertex.parallelism,
        "status": state(vertex).name(),
        "start-time": start,
        "end-time": end,
        "duration": if end < 0 { now - start } else { end - start },
        "tasks": tasks,
        "metrics": io_metrics(&vertex.subtasks),
    })
}

pub(crate) async fn details(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let now = (app.now_ms)();
    let subtasks: Vec<Value> = vertex.subtasks.iter().enumerate().map(|(i, s)| subtask_json(&app, i, s, now)).collect();
    Ok(Json(json!({
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": max_parallelism(&vertex),
        "now": now,
        "subtasks": subtasks,
        "aggregated": aggregated(&vertex.subtasks, now),
    })))
}

/// Minimum, quartiles and so on over the subtasks.
fn aggregated(subtasks: &[SubtaskView], now: i64) -> Value {
    let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut states: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for subtask in subtasks {
        for (name, value) in io_metrics(std::slice::from_ref(subtask)).as_object().into_iter().flatten() {
            if let Some(number) = value.as_f64() {
                metrics.entry(name.clone()).or_default().push(number);
            }
        }
        for (state, duration) in durations(subtask, now) {
            states.entry(state).or_default().push(duration as f64);
        }
    }
    let metrics: Map<String, Value> = metrics.into_iter().map(|(name, values)| (name, spread(values))).collect();
    let states: Map<String, Value> =
        states.into_iter().map(|(name, values)| (name.to_owned(), spread(values))).collect();
    json!({ "metrics": metrics, "status-duration": states })
}

/// Flink gives whole numbers here.
fn spread(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        let position = q * (values.len().saturating_sub(1)) as f64;
        let (low, high) = (position.floor() as usize, position.ceil() as usize);
        let (a, b) = (values.get(low).copied().unwrap_or(0.0), values.get(high).copied().unwrap_or(0.0));
        (a + (b - a) * position.fract()) as i64
    };
    let sum: f64 = values.iter().sum();
    json!({
        "min": quantile(0.0), "max": quantile(1.0), "avg": (sum / values.len().max(1) as f64) as i64, "sum": sum as i64,
        "median": quantile(0.5), "p25": quantile(0.25), "p75": quantile(0.75), "p95": quantile(0.95),
    })
}

pub(crate) async fn subtask_times(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let now = (app.now_ms)();
    let subtasks = vertex.subtasks.iter().enumerate().map(|(i, subtask)| {
        let entered: BTreeMap<&str, i64> = subtask.timestamps.iter().map(|(s, at)| (s.name(), *at)).collect();
        let timestamps: BTreeMap<&str, i64> =
            TASK_STATES.iter().map(|s| (*s, entered.get(s).copied().unwrap_or(0))).collect();
        json!({ "subtask": i, "endpoint": ENDPOINT, "duration": span(subtask, now).2, "timestamps": timestamps })
    });
    let subtasks: Vec<Value> = subtasks.collect();
    Ok(Json(json!({ "id": vertex.id, "name": vertex.name, "now": now, "subtasks": subtasks })))
}

/// One entry: everything runs in this process.
pub(crate) async fn taskmanagers(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let now = (app.now_ms)();
    let summary = summary(&vertex, now);
    Ok(Json(json!({
        "id": vertex.id, "name": vertex.name, "now": now,
        "taskmanagers": [{
            "endpoint": ENDPOINT,
            "status": summary["status"],
            "start-time": summary["start-time"],
            "end-time": summary["end-time"],
            "duration": summary["duration"],
            "metrics": summary["metrics"],
            "status-counts": summary["tasks"],
            "taskmanager-id": &*app.taskmanager_id,
            "aggregated": aggregated(&vertex.subtasks, now),
        }],
    })))
}

/// Tidegate's functions have no accumulators.
pub(crate) async fn accumulators(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    Ok(Json(json!({ "id": find_vertex(&app, &job, &id)?.id, "user-accumulators": [] })))
}

pub(crate) async fn subtasks_accumulators(
    State(app): State<App>,
    Path((job, id)): Path<(String, String)>,
) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let subtasks: Vec<Value> = (0..vertex.parallelism)
        .map(|i| json!({ "subtask": i, "attempt": 0, "endpoint": ENDPOINT, "user-accumulators": [] }))
        .collect();
    Ok(Json(json!({ "id": vertex.id, "parallelism": vertex.parallelism, "subtasks": subtasks })))
}

/// Metrics of a source's coordinator, of which there are none.
pub(crate) async fn coordinator_metrics(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    find_vertex(&app, &job, &id)?;
    Ok(Json(json!([])))
}

fn subtask_json(app: &App, index: usize, subtask: &SubtaskView, now: i64) -> Value {
    let (start, end, duration) = span(subtask, now);
    json!({
        "subtask": index,
        "status": subtask.state.name(),
        "attempt": 0,
        "endpoint": ENDPOINT,
        "start-time": start,
        "start_time": start,
        "end-time": end,
        "duration": duration,
        "metrics": io_metrics(std::slice::from_ref(subtask)),
        "taskmanager-id": &*app.taskmanager_id,
        "status-duration": durations(subtask, now),
    })
}

/// How long the subtask stayed in each state.
fn durations(subtask: &SubtaskView, now: i64) -> BTreeMap<&'static str, i64> {
    let mut entered: Vec<(&'static str, i64)> = subtask.timestamps.iter().map(|(s, at)| (s.name(), *at)).collect();
    entered.sort_by_key(|(_, at)| *at);
    let ends = entered.iter().skip(1).map(|(_, at)| *at).chain([now]).collect::<Vec<_>>();
    entered.iter().zip(ends).map(|((name, at), end)| (*name, end - at)).collect()
}

pub(crate) async fn subtask(
    State(app): State<App>,
    Path((job, id, index)): Path<(String, String, String)>,
) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let number: usize = index.parse().map_err(|_| RestError::bad_parameter("subtaskindex", &index))?;
    let found = vertex
        .subtasks
        .get(number)
        .ok_or_else(|| RestError::not_found(format!("Invalid subtask index for vertex {id}: {number}")))?;
    Ok(Json(subtask_json(&app, number, found, (app.now_ms)())))
}

pub(crate) async fn watermarks(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    // Flink answers [] for a source vertex: its task has no input, so no input watermark.
    let entries = vertex.subtasks.iter().enumerate().filter_map(|(i, subtask)| {
        let (name, value) = subtask.task_metrics.iter().find(|(n, _)| n == "currentInputWatermark")?;
        Some(json!({ "id": format!("{i}.{name}"), "value": value.to_string() }))
    });
    Ok(Json(Value::Array(entries.collect())))
}

pub(crate) async fn vertex_metrics(
    State(app): State<App>,
    Path((job, id)): Path<(String, String)>,
    Query(selection): Query<Selection>,
) -> RestResult {
    Ok(metrics::of_vertex(&find_vertex(&app, &job, &id)?, &selection))
}

pub(crate) async fn subtasks_metrics(
    State(app): State<App>,
    Path((job, id)): Path<(String, String)>,
    Query(selection): Query<Selection>,
) -> RestResult {
    Ok(metrics::over_subtasks(&find_vertex(&app, &job, &id)?, &selection))
}

pub(crate) async fn subtask_metrics(
    State(app): State<App>,
    Path((job, id, index)): Path<(String, String, usize)>,
    Query(selection): Query<Selection>,
) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let found = vertex.subtasks.get(index);
    let found = found.ok_or_else(|| RestError::not_found(format!("Invalid subtask index for vertex {id}: {index}")))?;
    Ok(metrics::listed(metrics::subtask_metrics(found), &selection))
}

pub(crate) async fn backpressure(State(app): State<App>, Path((job, id)): Path<(String, String)>) -> RestResult {
    let vertex = find_vertex(&app, &job, &id)?;
    let of = |subtask: &SubtaskView, name: &str| -> f64 {
        subtask.task_metrics.iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v as f64 / 1000.0)
    };
    let level = |ratio: f64| {
        if ratio <= 0.10 {
            "ok"
        } else if ratio <= 0.5 {
            "low"
        } else {
            "high"
        }
    };
    let subtasks: Vec<Value> = vertex
        .subtasks
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let ratio = of(s, "backPressuredTimeMsPerSecond");
            json!({
                "subtask": i, "attempt-number": 0, "backpressureLevel": level(ratio), "backpressure-level": level(ratio),
                "ratio": ratio, "idleRatio": of(s, "idleTimeMsPerSecond"), "busyRatio": of(s, "busyTimeMsPerSecond"),
            })
        })
        .collect();
    let worst = vertex.subtasks.iter().map(|s| of(s, "backPressuredTimeMsPerSecond")).fold(0.0, f64::max);
    Ok(Json(json!({
        "status": "ok", "backpressureLevel": level(worst), "backpressure-level": level(worst),
        "end-timestamp": (app.now_ms)(), "subtasks": subtasks,
    })))
}
