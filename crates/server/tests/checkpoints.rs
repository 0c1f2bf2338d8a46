//! Checkpoints and savepoints over REST: Flink's paths and JSON, over a fixed history and a job that answers when it
//! is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate_api::config::Configuration;
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::coordinator::{
    AckMetrics, Coordinator, DeclineReason, Fact, History, JobPlan, OperatorPlan, RestoredFrom, VertexPlan,
};
use tidegate_checkpoint::manifest::TaskSnapshot;
use tidegate_checkpoint::options::CheckpointOptions;
use tidegate_checkpoint::{CheckpointId, JobId, OperatorId, Stop, TaskId};
use tidegate_runtime::view::{CheckpointStatistics, FailureView, JobStatus, JobView, TakenCheckpoint, VertexView};
use tidegate_server::{Answer, ClusterAccess, router};
use tokio::sync::oneshot;
use tower::ServiceExt;

const JOB: &str = "94e338cf7162a1301781f06f00d3c10f";
const UNKNOWN: &str = "ffffffffffffffffffffffffffffffff";
const SOURCE: &str = "cbc357ccb763df2852fee8c4fc7d55f2";

/// What was asked for: folder and whether the job stops; and where to say how it went.
type Asked = (Option<String>, Option<Stop>, oneshot::Sender<Result<String>>);

struct OneJob {
    options: CheckpointOptions,
    asked: Mutex<Vec<Asked>>,
}

fn options(settings: &[(&str, &str)]) -> CheckpointOptions {
    let mut config = Configuration::default();
    settings.iter().for_each(|(key, value)| config.set(*key, *value));
    CheckpointOptions::from_config(&config).expect("options")
}

/// A job restored from savepoint 6 that completed checkpoint 7, failed 8 and has 9 in progress.
fn history(options: &CheckpointOptions) -> History {
    let vertex = VertexPlan {
        operators: vec![OperatorPlan {
            id: OperatorId::new("source(b)"),
            name: "Source: b[1]".into(),
            states: BTreeMap::new(),
        }],
        parallelism: 2,
        max_parallelism: 128,
        inputs: Vec::new(),
    };
    let plan = JobPlan {
        job: JobId::parse(JOB).expect("an id"),
        job_name: "job".into(),
        engine: "test".into(),
        vertices: vec![vertex],
    };
    let mut coordinator = Coordinator::new(plan, options.settings(), CheckpointId(7));
    let from = RestoredFrom {
        checkpoint: CheckpointId(6),
        restored_ms: 900,
        is_savepoint: true,
        location: "file:/sp/savepoint-94e338-1".into(),
    };
    coordinator.on(Fact::AllRestored { finished: Vec::new(), from: Some(from) }, 1000);
    let ask = |request| Fact::CheckpointRequested { request };
    let (first, second) = (TaskId::new(0, 0), TaskId::new(0, 1));
    let metrics = |state_bytes, written_bytes, alignment_ms| AckMetrics {
        start_delay_ms: 3,
        alignment_ms,
        sync_ms: 1,
        async_ms: 4,
        state_bytes,
        written_bytes,
        ..AckMetrics::default()
    };
    let acknowledged = |id, task, metrics| Fact::Acknowledged {
        checkpoint: CheckpointId(id),
        task,
        snapshot: TaskSnapshot::default(),
        metrics,
    };
    coordinator.on(ask(1), 1000);
    coordinator.on(acknowledged(7, first, metrics(100, 60, 5)), 1010);
    coordinator.on(acknowledged(7, second, metrics(200, 40, 9)), 1020);
    let location = "file:/cp/chk-7".to_owned();
    coordinator.on(Fact::ManifestStored { checkpoint: CheckpointId(7), location }, 1030);
    coordinator.on(ask(2), 1100);
    let reason = DeclineReason::SnapshotFailed("the disk is full".into());
    coordinator.on(Fact::Declined { checkpoint: CheckpointId(8), task: first, reason }, 1110);
    coordinator.on(ask(3), 1200);
    coordinator.on(acknowledged(9, first, metrics(300, 30, 0)), 1210);
    coordinator.history().clone()
}

impl ClusterAccess for OneJob {
    fn jobs(&self) -> Vec<JobView> {
        let failure = |message: &str, at| FailureView { message: message.into(), task: None, timestamp_ms: at };
        vec![JobView {
            id: JOB.into(),
            name: "job".into(),
            status: JobStatus::Running,
            timestamps: BTreeMap::from([(JobStatus::Initializing, 1000), (JobStatus::Running, 1010)]),
            vertices: vec![VertexView {
                id: SOURCE.into(),
                name: "Source: b[1]".into(),
                description: Vec::new(),
                parallelism: 2,
                inputs: Vec::new(),
                subtasks: Vec::new(),
            }],
            failure: None,
            past_failures: vec![failure("the second", 1005), failure("the first", 1002)],
            restarts: 2,
        }]
    }

    fn job(&self, id: &str) -> Option<JobView> {
        self.jobs().into_iter().find(|job| job.id == id)
    }

    fn submit(&self, _graph: JobGraph, _script: Option<String>) -> Result<String> {
        Err(Error::invalid("no"))
    }

    fn cancel(&self, _id: &str) -> bool {
        true
    }

    fn checkpoints(&self, id: &str) -> Option<CheckpointStatistics> {
        (id == JOB).then(|| CheckpointStatistics { options: self.options.clone(), history: history(&self.options) })
    }

    fn savepoint(&self, _id: &str, target: Option<String>, stop: Option<Stop>) -> Answer<String> {
        let (sender, answered) = oneshot::channel();
        self.asked.lock().expect("not poisoned").push((target, stop, sender));
        Box::pin(async { answered.await.expect("an answer") })
    }

    fn checkpoint(&self, _id: &str) -> Answer<TakenCheckpoint> {
        Box::pin(async { Ok(TakenCheckpoint { id: 10, location: "file:/cp/chk-10".into() }) })
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

struct Rig {
    cluster: Arc<OneJob>,
    router: Router,
}

impl Rig {
    fn new(settings: &[(&str, &str)]) -> Rig {
        let cluster = Arc::new(OneJob { options: options(settings), asked: Mutex::default() });
        let router = router(cluster.clone(), 2, "tm-1", Arc::new(|| 5000));
        Rig { cluster, router }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", &format!("/v1/jobs/{JOB}{path}"), "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    /// Asks for something that takes its time and gives the trigger id.
    async fn begin(&self, path: &str, body: &str) -> String {
        let (status, answer) = self.ask("POST", &format!("/jobs/{JOB}{path}"), body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        answer["request-id"].as_str().expect("an id").to_owned()
    }

    async fn refused(&self, method: &str, path: &str, body: &str) -> (StatusCode, String) {
        let (status, answer) = self.ask(method, path, body).await;
        (status, answer["errors"][0].as_str().expect("an error").to_owned())
    }

    /// Lets the oldest request that was heard end so.
    fn answer(&self, outcome: Result<String>) -> (Option<String>, Option<Stop>) {
        let (target, stop, sender) = self.cluster.asked.lock().expect("not poisoned").remove(0);
        sender.send(outcome).expect("somebody waits");
        (target, stop)
    }

    /// The operation once it is over.
    async fn over(&self, path: &str) -> Value {
        for _ in 0..10_000 {
            let answer = self.get(path).await;
            if answer["status"]["id"] == "COMPLETED" {
                return answer["operation"].clone();
            }
            tokio::task::yield_now().await;
        }
        panic!("{path} is never over");
    }
}

#[tokio::test]
async fn what_became_of_checkpoints_is_told_in_flinks_words() {
    let rig = Rig::new(&[]);
    let all = rig.get("/checkpoints").await;
    assert_eq!(all["counts"], json!({ "restored": 1, "total": 3, "in_progress": 1, "completed": 1, "failed": 1 }));
    assert_eq!(
        all["latest"]["restored"],
        json!({
            "id": 6, "restore_timestamp": 900, "is_savepoint": true, "external_path": "file:/sp/savepoint-94e338-1",
        })
    );
    let completed = json!({
        "className": "completed", "id": 7, "status": "COMPLETED", "is_savepoint": false, "savepointFormat": null,
        "trigger_timestamp": 1000, "latest_ack_timestamp": 1020, "checkpointed_size": 100, "state_size": 300,
        "end_to_end_duration": 30, "alignment_buffered": 0, "processed_data": 0, "persisted_data": 0,
        "num_subtasks": 2, "num_acknowledged_subtasks": 2, "checkpoint_type": "CHECKPOINT", "tasks": {},
        "external_path": "file:/cp/chk-7", "discarded": false,
    });
    assert_eq!(all["latest"]["completed"], completed);
    assert_eq!(all["latest"]["savepoint"], Value::Null);
    let failed = &all["latest"]["failed"];
    assert_eq!((&failed["status"], &failed["failure_timestamp"]), (&json!("FAILED"), &json!(1110)));
    assert!(failed["failure_message"].as_str().is_some_and(|m| m.contains("the disk is full")), "{failed}");
    let ids: Vec<_> = all["history"].as_array().expect("a list").iter().map(|c| c["id"].clone()).collect();
    assert_eq!(ids, [9, 8, 7], "newest first");
    assert_eq!(all["history"][0]["className"], "in_progress");
    assert_eq!(all["history"][0]["num_acknowledged_subtasks"], 1);
    assert_eq!(
        all["summary"]["state_size"],
        json!({
            "min": 300, "max": 300, "avg": 300, "p50": "NaN", "p90": "NaN", "p95": "NaN", "p99": "NaN", "p999": "NaN",
        })
    );
}

#[tokio::test]
async fn a_checkpoint_is_shown_by_vertex_and_subtask() {
    let rig = Rig::new(&[]);
    let seven = rig.get("/checkpoints/details/7").await;
    assert_eq!(
        seven["tasks"][SOURCE],
        json!({
            "id": 7, "status": "COMPLETED", "latest_ack_timestamp": 1020, "checkpointed_size": 100, "state_size": 300,
            "end_to_end_duration": 20, "alignment_buffered": 0, "processed_data": 0, "persisted_data": 0,
            "num_subtasks": 2, "num_acknowledged_subtasks": 2,
        })
    );
    let vertex = rig.get(&format!("/checkpoints/details/7/subtasks/{SOURCE}")).await;
    assert_eq!(vertex["summary"]["alignment"]["duration"]["max"], 9);
    assert_eq!(vertex["summary"]["start_delay"]["avg"], 3);
    assert_eq!(
        vertex["subtasks"][1],
        json!({
            "className": "completed", "index": 1, "ack_timestamp": 1020, "end_to_end_duration": 20,
            "checkpointed_size": 40, "state_size": 200, "checkpoint": { "sync": 1, "async": 4 },
            "alignment": { "buffered": 0, "processed": 0, "persisted": 0, "duration": 9 }, "start_delay": 3,
            "unaligned_checkpoint": false, "aborted": false, "status": "completed",
        })
    );
    let nine = rig.get(&format!("/checkpoints/details/9/subtasks/{SOURCE}")).await;
    assert_eq!(nine["subtasks"][1], json!({ "className": "pending", "index": 1, "status": "pending_or_failed" }));
    for (path, word) in [
        ("checkpoints/details/77", "checkpoint 77"),
        ("checkpoints/details/many", "checkpointid"),
        ("checkpoints/details/7/subtasks/0", "task 0"),
    ] {
        let (status, error) = rig.refused("GET", &format!("/jobs/{JOB}/{path}"), "").await;
        assert!(status.is_client_error() && error.contains(word), "{path}: {status} {error}");
    }
}

#[tokio::test]
async fn the_configuration_is_told_in_flinks_words() {
    let rig = Rig::new(&[
        ("execution.checkpointing.interval", "2 s"),
        ("execution.checkpointing.dir", "/cp"),
        ("execution.checkpointing.unaligned.enabled", "true"),
        ("execution.checkpointing.aligned-checkpoint-timeout", "5 s"),
        ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
    ]);
    assert_eq!(
        rig.get("/checkpoints/config").await,
        json!({
            "mode": "exactly_once", "interval": 2000, "timeout": 600_000, "min_pause": 0, "max_concurrent": 1,
            "externalization": { "enabled": true, "delete_on_cancellation": false },
            "state_backend": "HashMapStateBackend", "checkpoint_storage": "FileSystemCheckpointStorage",
            "unaligned_checkpoints": true, "tolerable_failed_checkpoints": 0, "aligned_checkpoint_timeout": 5000,
            "checkpoints_after_tasks_finish": true, "state_changelog_enabled": false,
            "changelog_periodic_materialization_interval": 600_000, "changelog_storage": "memory",
        })
    );
}

#[tokio::test]
async fn savepoints_are_asked_for_and_come_for_later() {
    let rig = Rig::new(&[]);
    let trigger = rig.begin("/savepoints", r#"{"target-directory":"/sp","cancel-job":false}"#).await;
    assert_eq!(trigger.len(), 32);
    let path = format!("/savepoints/{trigger}");
    assert_eq!(rig.get(&path).await, json!({ "status": { "id": "IN_PROGRESS" } }));
    assert_eq!(rig.answer(Ok("file:/sp/savepoint-1".into())), (Some("/sp".into()), None));
    assert_eq!(rig.over(&path).await, json!({ "location": "file:/sp/savepoint-1" }));

    // The same trigger id again is the same request, even after its end.
    let own = "0123456789ABCDEF0123456789abcdef";
    let body = format!(r#"{{"targetDirectory":"/sp","drain":true,"triggerId":"{own}"}}"#);
    let trigger = rig.begin("/stop", &body).await;
    assert_eq!(trigger, own.to_lowercase());
    assert_eq!(rig.answer(Err(Error::job("the disk is full"))), (Some("/sp".into()), Some(Stop::Drain)));
    let failed = rig.over(&format!("/savepoints/{trigger}")).await;
    assert_eq!(failed["failure-cause"]["stack-trace"], "the disk is full");
    assert_eq!(rig.begin("/stop", &body).await, trigger);
    assert!(rig.cluster.asked.lock().expect("not poisoned").is_empty());

    rig.begin("/savepoints", r#"{"target-directory":"/sp","cancel-job":true,"formatType":"NATIVE"}"#).await;
    assert_eq!(rig.answer(Ok(String::new())).1, Some(Stop::Suspend));
    let trigger = rig.begin("/checkpoints", "").await;
    assert_eq!(rig.over(&format!("/checkpoints/{trigger}")).await, json!({ "checkpointId": 10 }));
}

#[tokio::test]
async fn the_configured_folder_is_taken_if_none_is_named() {
    let rig = Rig::new(&[("state.savepoints.dir", "/configured")]);
    rig.begin("/stop", "{}").await;
    assert_eq!(rig.answer(Ok(String::new())), (Some("/configured".into()), Some(Stop::Suspend)));
    let none = Rig::new(&[]);
    for (path, property) in [("stop", "targetDirectory"), ("savepoints", "target-directory")] {
        let (status, error) = none.refused("POST", &format!("/jobs/{JOB}/{path}"), "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(
            error,
            format!(
                "Config key [execution.checkpointing.savepoint-dir] is not set. Property [{property}] must be provided."
            )
        );
    }
}

#[tokio::test]
async fn what_is_unknown_or_wrong_is_refused_as_flink_does() {
    let rig = Rig::new(&[("state.savepoints.dir", "/configured")]);
    for (method, path) in [
        ("POST", "savepoints"),
        ("POST", "stop"),
        ("POST", "checkpoints"),
        ("GET", "checkpoints"),
        ("GET", "checkpoints/config"),
    ] {
        let (status, error) = rig.refused(method, &format!("/jobs/{UNKNOWN}/{path}"), "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(error.ends_with(&format!("NotFoundException: Job {UNKNOWN} not found")), "{error}");
    }
    for what in ["savepoint", "checkpoint"] {
        let (status, error) = rig.refused("GET", &format!("/jobs/{JOB}/{what}s/{UNKNOWN}"), "").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        let wanted = format!("There is no {what} operation with triggerId={UNKNOWN} for job {JOB}.");
        assert!(error.ends_with(&wanted), "{error}");
    }
    for body in [r#"{"formatType":"XML"}"#, r#"{"triggerId":"7"}"#, "{"] {
        let (status, _) = rig.refused("POST", &format!("/jobs/{JOB}/stop"), body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    let (status, _) =
        rig.refused("POST", &format!("/jobs/{JOB}/checkpoints"), r#"{"checkpointType":"INCREMENTAL"}"#).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn failures_that_were_survived_are_remembered() {
    let rig = Rig::new(&[]);
    let entries = &rig.get("/exceptions").await["exceptionHistory"]["entries"];
    let texts: Vec<_> = entries.as_array().expect("a list").iter().map(|e| e["stacktrace"].clone()).collect();
    assert_eq!(texts, ["the second", "the first"]);
    let one = rig.get("/exceptions?maxExceptions=1").await;
    assert_eq!(one["exceptionHistory"]["truncated"], true);
    let wanted = "numRestarts,numberOfCompletedCheckpoints,lastCheckpointDuration,lastCheckpointSize";
    let metrics = rig.get(&format!("/metrics?get={wanted}")).await;
    let values: Vec<_> = metrics.as_array().expect("a list").iter().map(|m| m["value"].clone()).collect();
    assert_eq!(values, ["2", "1", "30", "100"]);
}
