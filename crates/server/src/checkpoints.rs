//! `/jobs/:id/checkpoints...`: how a job takes checkpoints, and what became of them.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use tidegate_checkpoint::barrier::Alignment;
use tidegate_checkpoint::coordinator::{AckMetrics, CheckpointRecord, Outcome, RestoredFrom, Sample};
use tidegate_checkpoint::options::{Backend, CheckpointOptions, Mode, Retention, StorageKind};
use tidegate_checkpoint::{CheckpointId, TaskId};
use tidegate_runtime::view::{CheckpointStatistics, JobView};

use crate::App;
use crate::error::{RestError, RestResult};
use crate::job::find;

/// What becomes of a job's checkpoints, or why nothing does.
fn statistics(app: &App, job: &JobView, missing: impl FnOnce() -> String) -> Result<CheckpointStatistics, RestError> {
    app.cluster.checkpoints(&job.id).ok_or_else(|| RestError::not_found(missing()))
}

pub(crate) async fn overview(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = find(&app, &id)?;
    let kept = statistics(&app, &job, || "Checkpointing has not been enabled.".to_owned())?;
    let (history, counts) = (&kept.history, kept.history.counts());
    let latest = |record: Option<&CheckpointRecord>| record.map_or(Value::Null, checkpoint_json);
    let column = |number: fn(&Sample) -> i64| summary(history.samples().map(number));
    Ok(Json(json!({
        "counts": {
            "restored": counts.restored, "total": counts.total, "in_progress": counts.in_progress,
            "completed": counts.completed, "failed": counts.failed,
        },
        "summary": {
            "checkpointed_size": column(|s| s.written_bytes as i64),
            "state_size": column(|s| s.state_bytes as i64),
            "end_to_end_duration": column(|s| s.duration_ms),
            "alignment_buffered": column(|_| 0),
            "processed_data": column(|s| s.processed_bytes as i64),
            "persisted_data": column(|s| s.persisted_bytes as i64),
        },
        "latest": {
            "completed": latest(history.latest_completed()),
            "savepoint": latest(history.latest_savepoint()),
            "failed": latest(history.latest_failed()),
            "restored": history.restored().map_or(Value::Null, restored_json),
        },
        "history": history.records().map(checkpoint_json).collect::<Vec<_>>(),
    })))
}

fn restored_json(from: &RestoredFrom) -> Value {
    json!({
        "id": from.checkpoint.0, "restore_timestamp": from.restored_ms, "is_savepoint": from.is_savepoint,
        "external_path": from.location,
    })
}

fn checkpoint_json(record: &CheckpointRecord) -> Value {
    let status = status(&record.outcome);
    let mut json = json!({
        "className": status.to_lowercase(),
        "id": record.barrier.id.0,
        "status": status,
        "is_savepoint": record.barrier.kind.is_savepoint(),
        "savepointFormat": if record.barrier.kind.is_savepoint() { json!("CANONICAL") } else { Value::Null },
        "trigger_timestamp": record.barrier.timestamp_ms,
        "latest_ack_timestamp": record.latest_ack_ms(),
        "checkpointed_size": record.sum(|m| m.written_bytes),
        "state_size": record.sum(|m| m.state_bytes),
        "end_to_end_duration": record.duration_ms(),
        "alignment_buffered": 0,
        "processed_data": record.sum(|m| m.processed_bytes),
        "persisted_data": record.sum(|m| m.persisted_bytes),
        "num_subtasks": record.expected,
        "num_acknowledged_subtasks": record.tasks.len(),
        "checkpoint_type": record.type_name(),
        "tasks": {},
    });
    match &record.outcome {
        Outcome::InProgress => {}
        Outcome::Completed { location, discarded } => {
            json["external_path"] = json!(location);
            json["discarded"] = json!(discarded);
        }
        Outcome::Failed { reason } => {
            json["failure_timestamp"] = json!(record.ended_ms);
            json["failure_message"] = json!(reason);
        }
    }
    json
}

fn status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::InProgress => "IN_PROGRESS",
        Outcome::Completed { .. } => "COMPLETED",
        Outcome::Failed { .. } => "FAILED",
    }
}

pub(crate) async fn config(State(app): State<App>, Path(id): Path<String>) -> RestResult {
    let job = find(&app, &id)?;
    let missing = || format!("Checkpointing is not enabled for this job ({}).", job.id);
    Ok(Json(config_json(&statistics(&app, &job, missing)?.options)))
}

fn config_json(options: &CheckpointOptions) -> Value {
    json!({
        "mode": match options.mode {
            Mode::ExactlyOnce => "exactly_once",
            Mode::AtLeastOnce => "at_least_once",
        },
        // Flink's number for a job that takes checkpoints only when it is asked to.
        "interval": options.interval_ms.unwrap_or(i64::MAX),
        "timeout": options.timeout_ms,
        "min_pause": options.min_pause_ms,
        "max_concurrent": options.settings().max_concurrent,
        "externalization": {
            "enabled": options.retention != Retention::NoExternalized,
            "delete_on_cancellation": options.retention != Retention::RetainOnCancellation,
        },
        "state_backend": match options.backend {
            Backend::HashMap => "HashMapStateBackend",
            Backend::Disk => "EmbeddedRocksDBStateBackend",
        },
        "checkpoint_storage": match options.storage {
            StorageKind::JobManager => "JobManagerCheckpointStorage",
            StorageKind::FileSystem => "FileSystemCheckpointStorage",
        },
        "unaligned_checkpoints": options.unaligned,
        "tolerable_failed_checkpoints": options.tolerable_failures,
        "aligned_checkpoint_timeout": match options.alignment() {
            Alignment::Timeout(ms) => ms,
            _ => 0,
        },
        "checkpoints_after_tasks_finish": true,
        "state_changelog_enabled": false,
        "changelog_periodic_materialization_interval": 600_000,
        "changelog_storage": "memory",
    })
}

/// A checkpoint by its number, with the job it belongs to.
fn record(app: &App, job: &str, id: &str) -> Result<(JobView, CheckpointRecord), RestError> {
    let job = find(app, job)?;
    let number: u64 = id.parse().map_err(|_| RestError::bad_parameter("checkpointid", id))?;
    let kept = statistics(app, &job, || "Checkpointing was not enabled.".to_owned())?;
    let history = &kept.history;
    let latest = [history.latest_completed(), history.latest_savepoint(), history.latest_failed()];
    let found = history.record(CheckpointId(number));
    let found = found.or_else(|| latest.into_iter().flatten().find(|record| record.barrier.id.0 == number));
    match found {
        Some(record) => Ok((job, record.clone())),
        None => Err(RestError::not_found(format!("Could not find checkpointing statistics for checkpoint {number}."))),
    }
}

pub(crate) async fn details(State(app): State<App>, Path((id, checkpoint)): Path<(String, String)>) -> RestResult {
    let (job, record) = record(&app, &id, &checkpoint)?;
    let mut json = checkpoint_json(&record);
    let tasks: Map<String, Value> =
        (0..job.vertices.len()).map(|v| (job.vertices[v].id.clone(), vertex_json(&job, &record, v))).collect();
    json["tasks"] = Value::Object(tasks);
    Ok(Json(json))
}

/// What the subtasks of a vertex said, by subtask.
fn said(record: &CheckpointRecord, vertex: usize) -> impl Iterator<Item = (u32, i64, AckMetrics)> {
    let of = move |(task, (ack_ms, metrics)): (&TaskId, &(i64, AckMetrics))| {
        (task.vertex as usize == vertex).then_some((task.subtask, *ack_ms, *metrics))
    };
    record.tasks.iter().filter_map(of)
}

fn vertex_json(job: &JobView, record: &CheckpointRecord, vertex: usize) -> Value {
    let sum =
        |number: fn(&AckMetrics) -> u64| said(record, vertex).map(|(_, _, metrics)| number(&metrics)).sum::<u64>();
    let latest_ms = said(record, vertex).map(|(_, ack_ms, _)| ack_ms).max();
    json!({
        "id": record.barrier.id.0,
        "status": status(&record.outcome),
        "latest_ack_timestamp": latest_ms.unwrap_or(-1),
        "checkpointed_size": sum(|m| m.written_bytes),
        "state_size": sum(|m| m.state_bytes),
        "end_to_end_duration": latest_ms.map_or(-1, |ms| (ms - record.barrier.timestamp_ms).max(0)),
        "alignment_buffered": 0,
        "processed_data": sum(|m| m.processed_bytes),
        "persisted_data": sum(|m| m.persisted_bytes),
        "num_subtasks": job.vertices[vertex].parallelism,
        "num_acknowledged_subtasks": said(record, vertex).count(),
    })
}

/// One vertex of a checkpoint, subtask by subtask: which of them made it slow, and at what.
pub(crate) async fn subtasks(
    State(app): State<App>,
    Path((id, checkpoint, vertex)): Path<(String, String, String)>,
) -> RestResult {
    let (job, record) = record(&app, &id, &checkpoint)?;
    let position = job.vertices.iter().position(|v| v.id == vertex);
    let position = position
        .ok_or_else(|| RestError::not_found(format!("There is no checkpoint statistics for task {vertex}.")))?;
    let column = |number: &dyn Fn(i64, &AckMetrics) -> i64| {
        summary(said(&record, position).map(|(_, ack_ms, metrics)| number(ack_ms, &metrics)))
    };
    let trigger_ms = record.barrier.timestamp_ms;
    let mut json = vertex_json(&job, &record, position);
    json["summary"] = json!({
        "checkpointed_size": column(&|_, m| m.written_bytes as i64),
        "state_size": column(&|_, m| m.state_bytes as i64),
        "end_to_end_duration": column(&|ack_ms, _| (ack_ms - trigger_ms).max(0)),
        "checkpoint_duration": { "sync": column(&|_, m| m.sync_ms), "async": column(&|_, m| m.async_ms) },
        "alignment": {
            "buffered": column(&|_, _| 0),
            "processed": column(&|_, m| m.processed_bytes as i64),
            "persisted": column(&|_, m| m.persisted_bytes as i64),
            "duration": column(&|_, m| m.alignment_ms),
        },
        "start_delay": column(&|_, m| m.start_delay_ms),
    });
    let subtask = |index: usize| match record.tasks.get(&TaskId::new(position as u32, index as u32)) {
        Some((ack_ms, metrics)) => subtask_json(&record, index, *ack_ms, metrics),
        None => json!({ "className": "pending", "index": index, "status": "pending_or_failed" }),
    };
    json["subtasks"] = (0..job.vertices[position].parallelism).map(subtask).collect();
    Ok(Json(json))
}

fn subtask_json(record: &CheckpointRecord, index: usize, ack_ms: i64, metrics: &AckMetrics) -> Value {
    json!({
        "className": "completed",
        "index": index,
        "ack_timestamp": ack_ms,
        "end_to_end_duration": (ack_ms - record.barrier.timestamp_ms).max(0),
        "checkpointed_size": metrics.written_bytes,
        "state_size": metrics.state_bytes,
        "checkpoint": { "sync": metrics.sync_ms, "async": metrics.async_ms },
        "alignment": {
            "buffered": 0, "processed": metrics.processed_bytes, "persisted": metrics.persisted_bytes,
            "duration": metrics.alignment_ms,
        },
        "start_delay": metrics.start_delay_ms,
        "unaligned_checkpoint": metrics.unaligned,
        "aborted": false,
        "status": "completed",
    })
}

/// Minimum, maximum, average and percentiles. With fewer than two values Flink says that percentiles are not known.
fn summary(values: impl Iterator<Item = i64>) -> Value {
    let mut sorted: Vec<i64> = values.collect();
    sorted.sort_unstable();
    let sum: i64 = sorted.iter().sum();
    let mut json = json!({
        "min": sorted.first().copied().unwrap_or(0),
        "max": sorted.last().copied().unwrap_or(0),
        "avg": sum / sorted.len().max(1) as i64,
    });
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
        json[name] = if sorted.len() < 2 { json!("NaN") } else { json!(percentile(&sorted, share)) };
    }
    json
}

/// The value at a share of the way through, as Flink estimates it: between two neighbours of a sample of `n` at
/// `share * (n + 1)`.
fn percentile(sorted: &[i64], share: f64) -> f64 {
    let at = share * (sorted.len() + 1) as f64;
    let below = (at.floor() as usize).clamp(1, sorted.len());
    let (low, high) = (sorted[below - 1] as f64, sorted[below.min(sorted.len() - 1)] as f64);
    if at < 1.0 { low } else { low + (at - at.floor()) * (high - low) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_flinks() {
        // What Flink 2.3 answered for these three.
        let three = summary([17, 97, 93].into_iter());
        assert_eq!((&three["min"], &three["max"], &three["avg"]), (&json!(17), &json!(97), &json!(69)));
        assert_eq!((&three["p50"], &three["p90"], &three["p999"]), (&json!(93.0), &json!(97.0), &json!(97.0)));
        assert_eq!(summary([5].into_iter())["p50"], "NaN");
        assert_eq!(summary(std::iter::empty())["max"], 0);
        assert_eq!(percentile(&[0, 10, 20, 30], 0.5), 15.0);
    }
}
