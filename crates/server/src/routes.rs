//! The paths.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};

use crate::error::RestError;
use crate::operations::Operations;
use crate::{App, ClusterAccess, audit, checkpoints, cluster, job, savepoints, vertex};

/// Job graphs are small; a body beyond this is a mistake.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The REST API over `cluster`. `slots` is how many subtasks run side by side (cores); `now_ms` is the
/// wall clock; `taskmanager_id` names this process.
pub fn router(
    cluster: Arc<dyn ClusterAccess>,
    slots: usize,
    taskmanager_id: &str,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
) -> Router {
    router_with(cluster, slots, taskmanager_id, now_ms, Operations::default())
}

/// The same, with the operations that are asked for kept in `operations`.
pub fn router_with(
    cluster: Arc<dyn ClusterAccess>,
    slots: usize,
    taskmanager_id: &str,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    operations: Operations,
) -> Router {
    let app = App { cluster, slots, taskmanager_id: taskmanager_id.into(), now_ms, operations };
    let api = paths();
    Router::new()
        .merge(api.clone())
        .nest("/v1", api)
        .fallback(unknown_path)
        .layer(middleware::from_fn(headers))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
}

fn paths() -> Router<App> {
    let vertices = "/jobs/{job}/vertices/{vertex}";
    Router::new()
        .route("/overview", get(cluster::overview))
        .route("/config", get(cluster::config))
        .route("/taskmanagers", get(cluster::taskmanagers))
        .route("/taskmanagers/metrics", get(cluster::all_taskmanager_metrics))
        .route("/taskmanagers/{id}", get(cluster::taskmanager))
        .route("/taskmanagers/{id}/metrics", get(cluster::taskmanager_metrics))
        .route("/jobmanager/config", get(cluster::jobmanager_config))
        .route("/jobmanager/metrics", get(cluster::jobmanager_metrics))
        .route("/jobs", get(job::list).post(job::submit))
        .route("/jobs/overview", get(job::overview))
        .route("/jobs/metrics", get(job::all_metrics))
        .route("/applications/overview", get(cluster::applications))
        .route("/jars", get(cluster::jars))
        .route("/datasets", get(cluster::datasets))
        .route("/jobs/{job}", get(job::details).patch(job::cancel))
        .route("/jobs/{job}/status", get(job::status))
        .route("/jobs/{job}/config", get(job::config))
        .route("/jobs/{job}/plan", get(job::plan))
        .route("/jobs/{job}/exceptions", get(job::exceptions))
        .route("/jobs/{job}/metrics", get(job::metrics))
        .route("/jobs/{job}/accumulators", get(job::accumulators))
        .route("/jobs/{job}/execution-result", get(job::execution_result))
        .merge(checkpoint_paths())
        .route("/jobs/{job}/jobmanager/config", get(cluster::jobmanager_config))
        .route("/jobs/{job}/yarn-cancel", get(job::cancel))
        .route(vertices, get(vertex::details))
        .route(&format!("{vertices}/watermarks"), get(vertex::watermarks))
        .route(&format!("{vertices}/metrics"), get(vertex::vertex_metrics))
        .route(&format!("{vertices}/backpressure"), get(vertex::backpressure))
        .route(&format!("{vertices}/subtasktimes"), get(vertex::subtask_times))
        .route(&format!("{vertices}/taskmanagers"), get(vertex::taskmanagers))
        .route(&format!("{vertices}/accumulators"), get(vertex::accumulators))
        .route(&format!("{vertices}/jm-operator-metrics"), get(vertex::coordinator_metrics))
        .route(&format!("{vertices}/subtasks/accumulators"), get(vertex::subtasks_accumulators))
        .route("/jobs/{job}/tidegate/audit", get(audit::audit))
        .route(&format!("{vertices}/subtasks/metrics"), get(vertex::subtasks_metrics))
        .route(&format!("{vertices}/subtasks/{{index}}"), get(vertex::subtask))
        .route(&format!("{vertices}/subtasks/{{index}}/metrics"), get(vertex::subtask_metrics))
}

fn checkpoint_paths() -> Router<App> {
    let details = "/jobs/{job}/checkpoints/details/{checkpoint}";
    Router::new()
        .route("/jobs/{job}/checkpoints", get(checkpoints::overview).post(savepoints::checkpoint))
        .route("/jobs/{job}/checkpoints/config", get(checkpoints::config))
        .route("/jobs/{job}/checkpoints/{trigger}", get(savepoints::checkpoint_status))
        .route(details, get(checkpoints::details))
        .route(&format!("{details}/subtasks/{{vertex}}"), get(checkpoints::subtasks))
        .route("/jobs/{job}/savepoints", post(savepoints::savepoint))
        .route("/jobs/{job}/savepoints/{trigger}", get(savepoints::savepoint_status))
        .route("/jobs/{job}/stop", post(savepoints::stop))
}

async fn unknown_path(request: Request) -> RestError {
    RestError::new(StatusCode::NOT_FOUND, format!("Unable to load requested file {}.", request.uri().path()))
}

async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if headers.get(header::CONTENT_TYPE).is_some_and(|v| v == "application/json") {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    }
    response
}

/// Serves the router until `end`; what is being answered then is answered still.
pub async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(end).await
}
