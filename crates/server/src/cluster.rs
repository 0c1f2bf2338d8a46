//! `/overview`, `/config`, `/taskmanagers`, `/jobmanager/...`.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};
use tidegate_api::config::shown;
use tidegate_runtime::view::JobStatus;

use crate::App;
use crate::error::{RestError, RestResult};
use crate::job::Span;
use crate::metrics::{Selection, aggregated_list, listed};

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
    let entries =
        app.cluster.settings().into_iter().map(|(key, value)| json!({ "value": shown(&key, &value), "key": key }));
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
    check_id(&app, &id)?;
    let mut answer = taskmanager_json(&app);
    let used = process_metrics().iter().find(|(k, _)| k.ends_with("Heap.Used")).map_or(0, |(_, v)| *v);
    answer["metrics"] = json!({
        "heapUsed": used, "heapCommitted": used, "heapMax": -1, "nonHeapUsed": 0, "nonHeapCommitted": 0, "nonHeapMax": -1,
        "directCount": 0, "directUsed": 0, "directMax": 0, "mappedCount": 0, "mappedUsed": 0, "mappedMax": 0,
        "nettyShuffleMemorySegmentsAvailable": 0, "nettyShuffleMemorySegmentsUsed": 0,
        "nettyShuffleMemorySegmentsTotal": 0, "nettyShuffleMemoryAvailable": 0, "nettyShuffleMemoryUsed": 0,
        "nettyShuffleMemoryTotal": 0, "garbageCollectors": [],
    });
    let running = app.cluster.jobs().into_iter().filter(|j| !j.status.is_terminal());
    let slots = running.map(|job| {
        let tasks: usize = job.vertices.iter().map(|v| v.parallelism).sum();
        json!({ "jobId": job.id, "resource": resource(1.0), "assignedTasks": tasks })
    });
    answer["allocatedSlots"] = Value::Array(slots.collect());
    Ok(Json(answer))
}

fn check_id(app: &App, id: &str) -> Result<(), RestError> {
    if *id == *app.taskmanager_id {
        return Ok(());
    }
    Err(RestError::not_found(format!("TaskExecutor {id} was not found")))
}

pub(crate) async fn taskmanager_metrics(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(selection): Query<Selection>,
) -> RestResult {
    check_id(&app, &id)?;
    Ok(listed(process_metrics(), &selection))
}

/// `/taskmanagers/metrics`: aggregated over the TaskManagers, of which there is one.
pub(crate) async fn all_taskmanager_metrics(Query(selection): Query<Selection>) -> Json<Value> {
    aggregated_list(std::iter::once(process_metrics()), &selection)
}

/// An application of one job each, as Flink 2.3 shows a job that was submitted alone.
pub(crate) async fn applications(State(app): State<App>) -> Json<Value> {
    let now = (app.now_ms)();
    let jobs = app.cluster.jobs();
    let applications = jobs.iter().map(|job| {
        let span = Span::of(job, now);
        json!({
            "id": job.id, "name": format!("SingleJobApplication({})", job.name), "start-time": span.start,
            "end-time": span.end, "duration": span.duration, "status": job.status.name(),
            "jobs": { job.status.name(): 1 },
        })
    });
    Json(json!({ "applications": applications.collect::<Vec<_>>() }))
}

/// No JVM, no jars.
pub(crate) async fn jars() -> Json<Value> {
    Json(json!({ "address": "", "files": [] }))
}

pub(crate) async fn datasets() -> Json<Value> {
    Json(json!({ "dataSets": [] }))
}

fn taskmanager_json(app: &App) -> Value {
    let free = app.slots.saturating_sub(used_slots(app));
    let memory = memory_info();
    let running = app.cluster.jobs().into_iter().filter(|j| !j.status.is_terminal());
    let tasks: usize = running.flat_map(|j| j.vertices).map(|v| v.parallelism).sum();
    json!({
        "id": &*app.taskmanager_id,
        "path": "tidegate://local",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": (app.now_ms)(),
        "slotsNumber": app.slots,
        "freeSlots": free,
        "assignedTasks": tasks,
        "totalResource": resource(app.slots as f64),
        "freeResource": resource(free as f64),
        "hardware": {
            "cpuCores": app.slots, "physicalMemory": memory.0, "freeMemory": memory.1, "managedMemory": 0,
        },
        "memoryConfiguration": {
            "frameworkHeap": 0, "taskHeap": 0, "frameworkOffHeap": 0, "taskOffHeap": 0, "networkMemory": 0,
            "managedMemory": 0, "jvmMetaspace": 0, "jvmOverhead": 0, "totalFlinkMemory": 0, "totalProcessMemory": 0,
        },
    })
}

/// Only cores are divided among slots; memory is one pool.
fn resource(cores: f64) -> Value {
    json!({
        "cpuCores": cores, "taskHeapMemory": 0, "taskOffHeapMemory": 0, "managedMemory": 0, "networkMemory": 0,
        "extendedResources": {},
    })
}

/// Bytes of memory this machine has, and has free.
fn memory_info() -> (i64, i64) {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (kilobytes(&info, "MemTotal:") * 1024, kilobytes(&info, "MemAvailable:") * 1024)
}

fn kilobytes(text: &str, name: &str) -> i64 {
    let line = text.lines().find(|l| l.starts_with(name));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Dashboards read Flink's JVM gauges; here "heap" is the resident memory of the process.
fn process_metrics() -> Vec<(String, i64)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| kilobytes(&status, name);
    vec![
        ("Status.JVM.Memory.Heap.Used".to_owned(), field("VmRSS:") * 1024),
        ("Status.JVM.Memory.Heap.Max".to_owned(), field("VmPeak:") * 1024),
        ("Status.JVM.Threads.Count".to_owned(), field("Threads:")),
    ]
}
