//! `/jobs/:id/tidegate/audit`: what exactly-once sinks have published, what is pending, and what a restart
//! published again. Flink has no such path.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use tidegate_api::audit::OutputName;
use tidegate_runtime::audit::{OutputRecord, OutputsView};

use crate::App;
use crate::error::{RestError, RestResult};
use crate::job;

pub(crate) async fn audit(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = job::find(&app, &id)?;
    let outputs = app.cluster.outputs(&id).ok_or_else(|| RestError::job_not_found(&id))?;
    Ok(Json(body(&job.id, &outputs)))
}

fn body(job: &str, view: &OutputsView) -> Value {
    let restarts = view.restarts.iter();
    let checkpoints = view.checkpoints.iter().map(|(id, positions)| {
        let sources = positions.iter().map(
            |at| json!({ "source": at.source, "split": at.split, "position": at.position, "finished": at.finished }),
        );
        json!({ "id": id, "sources": sources.collect::<Vec<_>>() })
    });
    json!({
        "jid": job,
        "restarts": restarts
            .map(|r| json!({ "restart": r.number, "checkpoint": r.checkpoint, "timestamp": r.at_ms }))
            .collect::<Vec<_>>(),
        "outputs": view.outputs.iter().map(output).collect::<Vec<_>>(),
        "checkpoints": checkpoints.collect::<Vec<_>>(),
        "forgotten": view.forgotten,
    })
}

fn output(record: &OutputRecord) -> Value {
    let mut output = json!({
        "sink": record.sink,
        "subtask": record.subtask,
        "status": record.state.name(),
        "rows": record.unit.rows,
        "bytes": record.unit.bytes,
        "checkpoint": record.unit.checkpoint,
        "restart": record.restart,
        "staged-timestamp": record.staged_ms,
        "committed-timestamp": record.settled_ms,
    });
    match &record.unit.name {
        OutputName::Sequence { transactional_id, group, sequence } => {
            output["kind"] = json!("kafka-transaction");
            output["transactional-id"] = json!(transactional_id);
            output["group"] = json!(group);
            output["sequence"] = json!(sequence);
        }
        OutputName::File { path } => {
            output["kind"] = json!("file");
            output["path"] = json!(path);
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_api::audit::OutputUnit;
    use tidegate_runtime::audit::{OutputState, Restart, SourcePosition};

    use super::*;

    #[test]
    fn an_account_as_json() {
        let unit = |name| OutputUnit { name, rows: 3, bytes: Some(70), checkpoint: Some(7) };
        let record = |name, state| OutputRecord {
            sink: "o[2]: Writer".into(),
            subtask: 1,
            unit: unit(name),
            state,
            restart: Some(2),
            staged_ms: None,
            settled_ms: Some(99),
        };
        let sequence = OutputName::Sequence { transactional_id: "t-1".into(), group: "eos.t-1".into(), sequence: 5 };
        let file = OutputName::File { path: "/o/part-1".into() };
        let position = SourcePosition {
            source: "Source: n[1]".into(),
            split: "n-0".into(),
            position: json!({ "start": 12 }),
            finished: false,
        };
        let view = OutputsView {
            outputs: vec![record(sequence, OutputState::Replayed), record(file, OutputState::Pending)],
            checkpoints: BTreeMap::from([(7, vec![position])]),
            restarts: vec![Restart { number: 2, checkpoint: Some(7), at_ms: 98 }],
            forgotten: 4,
        };
        let body = body("j", &view);
        assert_eq!(body["outputs"][0]["transactional-id"], "t-1");
        assert_eq!((&body["outputs"][0]["status"], &body["outputs"][0]["restart"]), (&json!("REPLAYED"), &json!(2)));
        assert_eq!(body["outputs"][0]["sequence"], 5);
        assert_eq!((&body["outputs"][1]["kind"], &body["outputs"][1]["path"]), (&json!("file"), &json!("/o/part-1")));
        assert_eq!(body["checkpoints"][0]["sources"][0]["position"]["start"], 12);
        assert_eq!(body["restarts"], json!([{ "restart": 2, "checkpoint": 7, "timestamp": 98 }]));
        assert_eq!(body["forgotten"], 4);
    }
}
