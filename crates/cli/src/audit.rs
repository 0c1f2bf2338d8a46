//! `tidegate job audit`: the account of a job's exactly-once sinks as a table.

use serde_json::Value;
use tidegate_api::Result;

use crate::remote::Remote;
use crate::tableau;

const COLUMNS: [&str; 9] =
    ["sink", "output", "sequence", "group", "status", "rows", "bytes", "checkpoint", "sources read up to"];

/// What a job's exactly-once sinks have published and what is pending.
pub fn audit(remote: &Remote, id: &str) -> Result<String> {
    Ok(text(&remote.get(&format!("/jobs/{id}/tidegate/audit"))?))
}

fn text(answer: &Value) -> String {
    let outputs: Vec<&Value> = answer["outputs"].as_array().into_iter().flatten().collect();
    let mut lines = String::new();
    for restart in answer["restarts"].as_array().into_iter().flatten() {
        let from = match restart["checkpoint"].as_u64() {
            Some(checkpoint) => format!("from checkpoint {checkpoint}"),
            None => "from the beginning".to_owned(),
        };
        let at = restart["timestamp"].as_i64().unwrap_or_default();
        let at = tidegate_api::text::format_timestamp_sql(i128::from(at) * 1_000_000, 3);
        lines += &match restart["restart"].as_u64() {
            Some(0) => format!("Started {from} at {at} UTC.\n"),
            _ => format!("Restart {} {from} at {at} UTC.\n", restart["restart"]),
        };
    }
    if outputs.is_empty() {
        return lines + "No output by checkpoints: the job has no exactly-once sink, or has staged nothing yet.\n";
    }
    let rows: Vec<Vec<Option<String>>> = outputs.iter().map(|output| row(output, answer)).collect();
    lines += &tableau::fitted(&COLUMNS.map(String::from), &rows);
    let of = |status: &str| outputs.iter().filter(|output| output["status"] == status).count();
    lines += &format!(
        "{} pending, {} committed, {} replayed after a restart, {} found committed by one",
        of("PENDING"),
        of("COMMITTED"),
        of("REPLAYED"),
        of("FOUND_COMMITTED")
    );
    if let Some(forgotten) = answer["forgotten"].as_u64().filter(|n| *n > 0) {
        lines += &format!("; {forgotten} earlier ones are not remembered");
    }
    lines + ".\n"
}

fn row(output: &Value, answer: &Value) -> Vec<Option<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64().map(|n| n.to_string());
    let status = text(&output["status"]).unwrap_or_default();
    let status = match output["restart"].as_u64() {
        Some(0) | None => status,
        Some(restart) => format!("{status} (restart {restart})"),
    };
    let sink = format!("{}/{}", text(&output["sink"]).unwrap_or_default(), output["subtask"]);
    vec![
        Some(sink),
        text(&output["transactional-id"]).or_else(|| text(&output["path"])),
        number(&output["sequence"]),
        text(&output["group"]),
        Some(status),
        number(&output["rows"]),
        number(&output["bytes"]),
        number(&output["checkpoint"]),
        Some(sources(&output["checkpoint"], answer)),
    ]
}

/// `clicks-0 @ 12, clicks-1 @ 40`: where each split stands, if its connector says so in a number.
fn sources(checkpoint: &Value, answer: &Value) -> String {
    let found = answer["checkpoints"].as_array().into_iter().flatten().find(|c| c["id"] == *checkpoint);
    let sources = found.and_then(|found| found["sources"].as_array()).into_iter().flatten();
    let said = sources.map(|source| {
        let split = source["split"].as_str().unwrap_or_default();
        match (source["finished"].as_bool(), source["position"]["start"].as_i64()) {
            (Some(true), _) => format!("{split} @ end"),
            (_, Some(start)) => format!("{split} @ {start}"),
            _ => split.to_owned(),
        }
    });
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_replayed_is_named_with_its_restart() {
        let answer = json!({
            "restarts": [{ "restart": 2, "checkpoint": 7, "timestamp": 1_000 }],
            "outputs": [
                { "sink": "o[2]: Writer", "subtask": 0, "kind": "kafka-transaction", "transactional-id": "t-0",
                  "group": "eos.t-0", "sequence": 5, "status": "REPLAYED", "restart": 2, "rows": 10, "bytes": 99,
                  "checkpoint": 7 },
                { "sink": "f[3]: Writer", "subtask": 1, "kind": "file", "path": "/o/part-1", "status": "PENDING",
                  "restart": null, "rows": 3, "bytes": null, "checkpoint": 8 },
            ],
            "checkpoints": [{ "id": 7, "sources": [
                { "source": "Source: n[1]", "split": "n-0", "position": { "start": 12 }, "finished": false },
                { "source": "Source: n[1]", "split": "n-1", "position": null, "finished": true },
            ] }],
            "forgotten": 3,
        });
        let text = text(&answer);
        for words in [
            "Restart 2 from checkpoint 7 at 1970-01-01 00:00:01.000 UTC.",
            "REPLAYED (restart 2)",
            "n-0 @ 12, n-1 @ end",
            "/o/part-1",
            "1 pending, 0 committed, 1 replayed after a restart, 0 found committed by one; 3 earlier",
        ] {
            assert!(text.contains(words), "{words} is not in:\n{text}");
        }
        assert!(super::text(&json!({ "outputs": [] })).contains("no exactly-once sink"));
    }
}
