//! The REST shapes that Flink's tools read, over a fixed job.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate_api::graph::{JobGraph, Partitioner};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::Stop;
use tidegate_runtime::view::{
    CheckpointStatistics, ExecutionState, JobStatus, JobView, SubtaskView, TakenCheckpoint, VertexInput, VertexView,
};
use tidegate_server::{Answer, ClusterAccess, router};
use tower::ServiceExt;

const JOB: &str = "94e338cf7162a1301781f06f00d3c10f";

struct OneJob;

fn subtask(watermark: Option<i64>, operator: &str) -> SubtaskView {
    let mut task_metrics = vec![("numRecordsIn".to_owned(), 41)];
    task_metrics.extend(watermark.map(|w| ("currentInputWatermark".to_owned(), w)));
    SubtaskView {
        state: ExecutionState::Running,
        timestamps: BTreeMap::from([(ExecutionState::Initializing, 1000), (ExecutionState::Running, 1010)]),
        task_metrics,
        operators: vec![(operator.to_owned(), vec![("currentOutputWatermark".to_owned(), 7000)])],
    }
}

impl ClusterAccess for OneJob {
    fn jobs(&self) -> Vec<JobView> {
        let source = VertexView {
            id: "cbc357ccb763df2852fee8c4fc7d55f2".into(),
            name: "Source: clicks[1] -> LocalWindowAggregate[3]".into(),
            description: vec![(0, "[1]:TableSourceScan".into()), (1, "[3]:LocalWindowAggregate".into())],
            parallelism: 2,
            inputs: vec![],
            subtasks: vec![subtask(None, "Source: clicks[1]"), subtask(None, "Source: clicks[1]")],
        };
        let window = VertexView {
            id: "f6dc7f4d2283f4605b127b9364e21148".into(),
            name: "GlobalWindowAggregate[5]".into(),
            description: vec![(0, "[5]:GlobalWindowAggregate".into())],
            parallelism: 1,
            inputs: vec![VertexInput { vertex: source.id.clone(), partitioner: Partitioner::Hash(vec![0]) }],
            subtasks: vec![subtask(Some(6500), "GlobalWindowAggregate[5]")],
        };
        vec![JobView {
            id: JOB.into(),
            name: "insert-into_default_catalog.default_database.o".into(),
            status: JobStatus::Running,
            timestamps: BTreeMap::from([(JobStatus::Initializing, 1000), (JobStatus::Running, 1010)]),
            vertices: vec![source, window],
            failure: None,
            past_failures: Vec::new(),
            restarts: 0,
        }]
    }

    fn job(&self, id: &str) -> Option<JobView> {
        self.jobs().into_iter().find(|j| j.id == id)
    }

    fn submit(&self, _graph: JobGraph, _script: Option<String>) -> Result<String> {
        Err(Error::invalid("no"))
    }

    fn cancel(&self, _id: &str) -> bool {
        true
    }

    fn checkpoints(&self, _id: &str) -> Option<CheckpointStatistics> {
        None
    }

    fn savepoint(&self, _id: &str, _target: Option<String>, _stop: Option<Stop>) -> Answer<String> {
        Box::pin(async { Err(Error::invalid("no")) })
    }

    fn checkpoint(&self, _id: &str) -> Answer<TakenCheckpoint> {
        Box::pin(async { Err(Error::invalid("no")) })
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("parallelism.default".into(), "2".into())]
    }
}

async fn ask(method: &str, path: &str) -> (StatusCode, Value) {
    let app = router(Arc::new(OneJob), 2, "tm-1", Arc::new(|| 5000));
    let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
    let response = app.oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "application/json; charset=UTF-8", "{path}");
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

#[tokio::test]
async fn both_prefixes_answer_alike() {
    for path in ["/overview", "/config", "/jobs", "/jobs/overview"] {
        assert_eq!(ask("GET", path).await, ask("GET", &format!("/v1{path}")).await);
    }
    let (_, overview) = ask("GET", "/overview").await;
    assert_eq!((&overview["slots-total"], &overview["slots-available"]), (&json!(2), &json!(0)));
    assert_eq!(overview["jobs-running"], 1);
}

#[tokio::test]
async fn a_job_shows_states_vertices_and_plan() {
    let (status, job) = ask("GET", &format!("/jobs/{JOB}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(job["duration"], 4000);
    assert_eq!(job["end-time"], -1);
    assert_eq!(job["timestamps"]["RUNNING"], 1010);
    assert_eq!(job["timestamps"]["SUSPENDED"], 0);
    assert_eq!(job["status-counts"]["RUNNING"], 2);
    assert_eq!(job["vertices"][0]["tasks"]["RUNNING"], 2);
    assert_eq!(job["vertices"][0]["metrics"]["read-records"], 82);
    let node = &job["plan"]["nodes"][0];
    assert_eq!(node["inputs"][0]["ship_strategy"], "HASH");
    assert_eq!(job["plan"]["nodes"][1]["description"], "[1]:TableSourceScan<br/>+- [3]:LocalWindowAggregate<br/>");
}

#[tokio::test]
async fn watermarks_and_metrics_have_flinks_names() {
    let at = |vertex: &str, rest: &str| format!("/v1/jobs/{JOB}/vertices/{vertex}{rest}");
    let window = "f6dc7f4d2283f4605b127b9364e21148";
    let source = "cbc357ccb763df2852fee8c4fc7d55f2";
    assert_eq!(
        ask("GET", &at(window, "/watermarks")).await.1,
        json!([{ "id": "0.currentInputWatermark", "value": "6500" }])
    );
    assert_eq!(ask("GET", &at(source, "/watermarks")).await.1, json!([]));
    let (_, metrics) = ask("GET", &at(source, "/metrics?get=1.Source__clicks[1].currentOutputWatermark")).await;
    assert_eq!(metrics, json!([{ "id": "1.Source__clicks[1].currentOutputWatermark", "value": "7000" }]));
    let (_, sums) = ask("GET", &at(source, "/subtasks/metrics?get=numRecordsIn&agg=sum")).await;
    assert_eq!(sums, json!([{ "id": "numRecordsIn", "sum": 82.0 }]));
}

#[tokio::test]
async fn errors_have_flinks_shape() {
    let (status, body) = ask("GET", "/jobs/00000000000000000000000000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(body["errors"][0].as_str().expect("text").contains("Job 00000000000000000000000000000000 not found"));
    assert_eq!(ask("GET", "/jobs/zzz").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(ask("GET", "/nope").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask("PATCH", &format!("/jobs/{JOB}?mode=cancel")).await.0, StatusCode::ACCEPTED);
    assert_eq!(ask("PATCH", &format!("/jobs/{JOB}?mode=stop")).await.0, StatusCode::PERMANENT_REDIRECT);
}

#[tokio::test]
async fn what_the_web_ui_asks_of_a_vertex() {
    let at = |rest: &str| format!("/jobs/{JOB}/vertices/cbc357ccb763df2852fee8c4fc7d55f2{rest}");
    let (_, vertex) = ask("GET", &at("")).await;
    let read = &vertex["aggregated"]["metrics"]["read-records"];
    assert_eq!((&read["sum"], &read["avg"], &read["p95"]), (&json!(82), &json!(41), &json!(41)));
    assert_eq!(vertex["aggregated"]["status-duration"]["INITIALIZING"]["max"], 10);
    assert_eq!(vertex["maxParallelism"], 128);
    let (_, times) = ask("GET", &at("/subtasktimes")).await;
    assert_eq!(times["subtasks"][1]["timestamps"]["RUNNING"], 1010);
    assert_eq!(times["subtasks"][1]["timestamps"]["FAILED"], 0);
    let (_, managers) = ask("GET", &at("/taskmanagers")).await;
    assert_eq!(managers["taskmanagers"][0]["status-counts"]["RUNNING"], 2);
    assert_eq!(ask("GET", &at("/accumulators")).await.1["user-accumulators"], json!([]));
    assert_eq!(ask("GET", &at("/jm-operator-metrics")).await.1, json!([]));
}

#[tokio::test]
async fn what_the_web_ui_asks_of_a_job_without_checkpoints() {
    for (path, text) in [
        ("checkpoints", "Checkpointing has not been enabled.".to_owned()),
        ("checkpoints/config", format!("Checkpointing is not enabled for this job ({JOB}).")),
    ] {
        let (status, body) = ask("GET", &format!("/jobs/{JOB}/{path}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(body["errors"][0].as_str().is_some_and(|e| e.ends_with(&text)), "{body}");
    }
    let (_, accumulators) = ask("GET", &format!("/jobs/{JOB}/accumulators")).await;
    assert_eq!(accumulators["user-task-accumulators"], json!([]));
    let (_, restarts) = ask("GET", "/jobs/metrics?get=numRestarts&agg=max").await;
    assert_eq!(restarts, json!([{ "id": "numRestarts", "max": 0.0 }]));
    let (_, result) = ask("GET", &format!("/jobs/{JOB}/execution-result")).await;
    assert_eq!(result, json!({ "status": { "id": "IN_PROGRESS" } }));
}
