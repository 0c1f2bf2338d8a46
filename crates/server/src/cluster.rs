//! `/overview`, `/config`, `/taskmanagers`, `/jobmanager/...`.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};
use tidegate_runtime::view::JobStatus;

use crate::App;
use crate::error::{RestError, RestResult};
use crate::metrics::{Selection, listed};

/// The Flink release whose REST shapes and SQL this speaks. Clients check it before they talk.
pub(crate) const FLINK_VERSION: &str = "2.3.0";

pub(crate) async fn overview(State(app): State<App>) -> Json<Value> {
    let jobs = app.cluster.jobs();
    let count = |wanted: &[JobStatus]| jobs.iter().filter(|j| wanted.contains(&j.status)).count();
    let running = jobs.iter().filter(|j| !j.status.is_terminal()).count();
    let used = used_slots(&app);
    Json(json!({
        "taskmanagers": 1,
        "slots-total": app.slots,
        "slots-available": app.slots.saturating_sub(used),
        "jobs-running": running,
        "jobs-finished": count(&[JobStatus::Finished]),
        "jobs-cancelled": count(&[JobStatus::Canceled]),
        "jobs-failed": count(&[JobStatus::Failed]),
        "flink-version": FLINK_VERSION,
        "flink-commit": "tidegate",
        "tidegate-version": env!("CARGO_PKG_VERSION"),
    }))
}

/// A job takes as many slots as its widest vertex, as with Flink's slot sharing.
fn used_slots(app: &App) -> usize {
    let running = app.cluster.jobs().into_iter().filter(|j| !j.status.is_terminal());
    running.map(|j| j.vertices.iter().map(|v| v.parallelism).max().unwrap_or(0)).sum()
}

pub(crate) async fn config() -> Json<Value> {
    Json(json!({
        "refresh-interval": 3000,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": FLINK_VERSION,
        "flink-revision": format!("tidegate @ {}", env!("CARGO_PKG_VERSION")),
        "features": { "web-submit": false, "web-cancel": true, "web-rescale": false, "web-history": false },
    }))
}

pub(crate) async fn jobmanager_config(State(app): State<App>) -> Json<Value> {
    let entries = app.cluster.settings().into_iter().map(|(key, value)| json!({ "key": key, "value": value }));
    Json(Value::Array(entries.collect()))
}

pub(crate) async fn jobmanager_metrics(State(app): State<App>, Query(selection): Query<Selection>) -> Json<Value> {
    let running = app.cluster.jobs().iter().filter(|j| !j.status.is_terminal()).count();
    let metrics = vec![
        ("numRegisteredTaskManagers".to_owned(), 1),
        ("numRunningJobs".to_owned(), running as i64),
        ("taskSlotsTotal".to_owned(), app.slots as i64),
        ("taskSlotsAvailable".to_owned(), app.slots.saturating_sub(used_slots(&app)) as i64),
    ];
    listed(metrics, &selection)
}

pub(crate) async fn taskmanagers(State(app): State<App>) -> Json<Value> {
    Json(json!({ "taskmanagers": [taskmanager_json(&app)] }))
}

pub(crate) async fn taskmanager(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    if *id != *app.taskmanager_id {
        return Err(RestError::not_found(format!("TaskExecutor {id} was not found")));
    }
    Ok(Json(taskmanager_json(&app)))
}

pub(crate) async fn taskmanager_metrics(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(selection): Query<Selection>,
) -> RestResult {
    if *id != *app.taskmanager_id {
        return Err(RestError::not_found(format!("TaskExecutor {id} was not found")));
    }
    Ok(listed(process_metrics(), &selection))
}

fn taskmanager_json(app: &App) -> Value {
    let used = used_slots(app);
    let memory: i64 = process_metrics().iter().find(|(k, _)| k.ends_with("Heap.Used")).map_or(0, |(_, v)| *v);
    json!({
        "id": &*app.taskmanager_id,
        "path": "tidegate://local",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": (app.now_ms)(),
        "slotsNumber": app.slots,
        "freeSlots": app.slots.saturating_sub(used),
        "hardware": { "cpuCores": app.slots, "physicalMemory": memory, "freeMemory": 0, "managedMemory": 0 },
        "blocked": false,
    })
}

/// Dashboards read Flink's JVM gauges; here "heap" is the resident memory of the process.
fn process_metrics() -> Vec<(String, i64)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> i64 {
        let line = status.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse().ok()).unwrap_or(0)
    };
    vec![
        ("Status.JVM.Memory.Heap.Used".to_owned(), field("VmRSS:") * 1024),
        ("Status.JVM.Memory.Heap.Max".to_owned(), field("VmPeak:") * 1024),
        ("Status.JVM.Threads.Count".to_owned(), field("Threads:")),
    ]
}
