//! `tidegate job checkpoints`: what became of a job's checkpoints, and what made the last one slow.

use serde_json::Value;
use tidegate_api::Result;
use tidegate_api::text::format_timestamp_sql;

use crate::remote::Remote;

/// Counts, the last checkpoints, and the last complete one operator by operator.
pub fn text(remote: &Remote, id: &str) -> Result<String> {
    let all = remote.get(&format!("/jobs/{id}/checkpoints"))?;
    let counts = &all["counts"];
    let mut text = format!(
        "{} completed, {} failed, {} in progress, {} restored\n",
        counts["completed"], counts["failed"], counts["in_progress"], counts["restored"]
    );
    let restored = &all["latest"]["restored"];
    if let Some(path) = restored["external_path"].as_str() {
        text += &format!("went on from {} {} at {path}\n", what(restored), restored["id"]);
    }
    let history = all["history"].as_array().cloned().unwrap_or_default();
    if !history.is_empty() {
        text += &format!(
            "\n{:>6}  {:<20}  {:<11}  {:<23}  {:>9}  {:>12}  WHERE OR WHY NOT\n",
            "ID", "TYPE", "STATUS", "TRIGGERED (UTC)", "TOOK", "BYTES"
        );
    }
    history.iter().for_each(|record| text += &line(record));
    if let Some(latest) = all["latest"]["completed"]["id"].as_u64() {
        text += &stages(remote, id, latest)?;
    }
    Ok(text)
}

fn what(restored: &Value) -> &'static str {
    if restored["is_savepoint"] == true { "savepoint" } else { "checkpoint" }
}

fn line(record: &Value) -> String {
    let word = |key: &str| record[key].as_str().unwrap_or_default();
    let place = match word("status") {
        "FAILED" => word("failure_message").to_owned(),
        "IN_PROGRESS" => {
            format!("{} of {} subtasks have acknowledged", record["num_acknowledged_subtasks"], record["num_subtasks"])
        }
        _ if record["discarded"] == true => format!("{} (deleted)", word("external_path")),
        _ => word("external_path").to_owned(),
    };
    let triggered = format_timestamp_sql(i128::from(number(record, "trigger_timestamp")) * 1_000_000, 3);
    format!(
        "{:>6}  {:<20}  {:<11}  {triggered:<23}  {:>6} ms  {:>12}  {place}\n",
        number(record, "id"),
        word("checkpoint_type"),
        word("status"),
        number(record, "end_to_end_duration"),
        number(record, "checkpointed_size"),
    )
}

fn number(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_default()
}

/// Where the time of a checkpoint went: for each vertex the longest of each stage over its subtasks.
fn stages(remote: &Remote, id: &str, checkpoint: u64) -> Result<String> {
    let job = remote.get(&format!("/jobs/{id}"))?;
    let mut text = format!("\nCheckpoint {checkpoint}, the slowest subtask of each vertex, ms:\n");
    text +=
        &format!("{:>11}  {:>9}  {:>6}  {:>6}  {:>12}  VERTEX\n", "START DELAY", "ALIGNMENT", "SYNC", "ASYNC", "BYTES");
    for vertex in job["vertices"].as_array().into_iter().flatten() {
        let vid = vertex["id"].as_str().unwrap_or_default();
        let detail = remote.get(&format!("/jobs/{id}/checkpoints/details/{checkpoint}/subtasks/{vid}"))?;
        let summary = &detail["summary"];
        let max = |value: &Value| number(value, "max");
        text += &format!(
            "{:>11}  {:>9}  {:>6}  {:>6}  {:>12}  {}\n",
            max(&summary["start_delay"]),
            max(&summary["alignment"]["duration"]),
            max(&summary["checkpoint_duration"]["sync"]),
            max(&summary["checkpoint_duration"]["async"]),
            number(&detail, "checkpointed_size"),
            vertex["name"].as_str().unwrap_or_default(),
        );
    }
    Ok(text)
}
