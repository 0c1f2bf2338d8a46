//! `tidegate job list` and `tidegate job describe`: REST answers as text.

use serde_json::Value;
use tidegate_api::Result;

use crate::remote::Remote;

/// The jobs as a table.
pub fn list(remote: &Remote) -> Result<String> {
    let overview = remote.get("/jobs/overview")?;
    let jobs = overview["jobs"].as_array().cloned().unwrap_or_default();
    if jobs.is_empty() {
        return Ok("No jobs.\n".into());
    }
    let mut lines = format!("{:<32}  {:<10}  {:>10}  NAME\n", "ID", "STATE", "RUNS FOR");
    for job in jobs {
        let seconds = job["duration"].as_i64().unwrap_or(0) / 1000;
        let (id, state, name) = (text(&job["jid"]), text(&job["state"]), text(&job["name"]));
        lines += &format!("{id:<32}  {state:<10}  {seconds:>9}s  {name}\n");
    }
    Ok(lines)
}

/// One job: its vertices with rows and watermarks, and why it failed.
pub fn describe(remote: &Remote, id: &str) -> Result<String> {
    let job = remote.get(&format!("/jobs/{id}"))?;
    let mut lines = format!("{}  {}  {}\n", text(&job["jid"]), text(&job["state"]), text(&job["name"]));
    for vertex in job["vertices"].as_array().into_iter().flatten() {
        let vid = text(&vertex["id"]);
        let path = format!("/jobs/{id}/vertices/{vid}");
        lines += &format!("\n  {}  {} (x{})\n", text(&vertex["status"]), text(&vertex["name"]), vertex["parallelism"]);
        for counter in operator_counters(remote, &path)? {
            lines += &format!("    {counter}\n");
        }
        for mark in remote.get(&format!("{path}/watermarks"))?.as_array().into_iter().flatten() {
            let subtask = text(&mark["id"]);
            let subtask = subtask.split('.').next().unwrap_or_default();
            lines += &format!("    subtask {subtask}: watermark {}\n", watermark_text(&text(&mark["value"])));
        }
    }
    lines += &checkpoints(remote, id)?;
    let failures = remote.get(&format!("/jobs/{id}/exceptions"))?;
    let entries = failures["exceptionHistory"]["entries"].as_array().cloned().unwrap_or_default();
    for (i, entry) in entries.iter().enumerate() {
        let how = if i == 0 && job["state"] == "FAILED" { "failed" } else { "failed and started again" };
        lines += &format!("\n  {how}: {}\n", text(&entry["stacktrace"]));
    }
    Ok(lines)
}

/// The last checkpoint and savepoint; nothing if the job takes none.
fn checkpoints(remote: &Remote, id: &str) -> Result<String> {
    let path = format!("/jobs/{id}/checkpoints");
    let Some(all) = remote.get_if_there(&path)? else { return Ok(String::new()) };
    let counts = &all["counts"];
    let mut lines = format!("\n  checkpoints: {} completed, {} failed\n", counts["completed"], counts["failed"]);
    for (what, latest) in [("checkpoint", &all["latest"]["completed"]), ("savepoint", &all["latest"]["savepoint"])] {
        if let Some(place) = latest["external_path"].as_str() {
            lines += &format!("    last {what}: {} at {place}\n", latest["id"]);
        }
    }
    Ok(lines)
}

/// `Source__clicks[1]: 10 rows in, 10 rows out`, and how many were left out. The counters of a whole vertex
/// count only what passes its edges: of a source chained to its sink, nothing.
fn operator_counters(remote: &Remote, vertex: &str) -> Result<Vec<String>> {
    const COUNTERS: [&str; 7] = [
        "numRecordsIn",
        "numRecordsOut",
        "numLateRecordsDropped",
        "numNullRowtimeDropped",
        "numNullRecordsDropped",
        "numRecordsInErrors",
        "numBlankRecords",
    ];
    let names = remote.get(&format!("{vertex}/subtasks/metrics"))?;
    let ids = names.as_array().into_iter().flatten().map(|m| text(&m["id"]));
    let wanted: Vec<String> = ids.filter(|id| split_counter(id).is_some_and(|(_, c)| COUNTERS.contains(&c))).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let query: Vec<String> = wanted.iter().map(|id| percent_encoded(id)).collect();
    let sums = remote.get(&format!("{vertex}/subtasks/metrics?agg=sum&get={}", query.join(",")))?;
    let mut lines: Vec<(String, String)> = Vec::new();
    for sum in sums.as_array().into_iter().flatten() {
        let id = text(&sum["id"]);
        let Some((operator, counter)) = split_counter(&id) else { continue };
        let value = sum["sum"].as_f64().unwrap_or(0.0);
        if value == 0.0 && !matches!(counter, "numRecordsIn" | "numRecordsOut") {
            continue;
        }
        let said = format!("{counter} {value}");
        match lines.iter_mut().find(|(o, _)| o == operator) {
            Some((_, line)) => *line += &format!(", {said}"),
            None => lines.push((operator.to_owned(), said)),
        }
    }
    Ok(lines.into_iter().map(|(operator, line)| format!("{operator}: {line}")).collect())
}

/// Operator and counter of a metric id; `None` for a metric of the task itself.
fn split_counter(id: &str) -> Option<(&str, &str)> {
    id.rsplit_once('.')
}

fn percent_encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A watermark in words: `2026-10-01 10:00:07.000`, or that there is none.
pub fn watermark_text(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(i64::MIN) => "none yet".into(),
        Ok(i64::MAX) => "at the end of input".into(),
        Ok(ms) => tidegate_api::text::format_timestamp_sql(i128::from(ms) * 1_000_000, 3),
        Err(_) => value.to_owned(),
    }
}
