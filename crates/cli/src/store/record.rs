//! The record of one job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_api::graph::JobGraph;
use tidegate_runtime::view::{FailureView, JobStatus};
use tidegate_runtime::{EndedJob, JobId, StopSavepoint};

/// The version of records that this reads and writes.
const VERSION: u64 = 1;

/// A job as it was submitted, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// Version of the form.
    pub version: u64,
    /// 32 hex digits.
    pub id: String,
    /// The job's name.
    pub name: String,
    /// Who wrote it: `tidegate 0.1.0`.
    pub engine: String,
    /// When it was submitted, milliseconds since the epoch.
    pub submitted_ms: i64,
    /// How often it was restarted, in all processes.
    pub restarts: u64,
    /// The savepoint it was stopping with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<Savepoint>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The statements up to the one that made it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The [`JobGraph`], settings included. Read only when the job is started, so that one of another release spoils
    /// nothing else.
    pub graph: Value,
}

/// A savepoint that stops a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Savepoint {
    /// Its number.
    pub checkpoint: u64,
    /// Where it is.
    pub location: String,
}

impl From<&StopSavepoint> for Savepoint {
    fn from(savepoint: &StopSavepoint) -> Savepoint {
        Savepoint { checkpoint: savepoint.checkpoint, location: savepoint.location.clone() }
    }
}

/// How a job ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    /// Flink's name of its last state.
    pub status: String,
    /// When each state was entered, milliseconds since the epoch.
    pub timestamps: BTreeMap<String, i64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Why a job failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The error's text.
    pub message: String,
    /// Vertex and subtask it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When, milliseconds since the epoch.
    pub timestamp_ms: i64,
}

impl JobRecord {
    /// A job that is being submitted.
    pub fn new(id: &JobId, graph: &JobGraph, script: Option<String>, now_ms: i64) -> Result<JobRecord, String> {
        Ok(JobRecord {
            version: VERSION,
            id: id.as_str().to_owned(),
            name: graph.name.clone(),
            engine: engine(),
            submitted_ms: now_ms,
            restarts: 0,
            savepoint: None,
            end: None,
            script,
            graph: serde_json::to_value(graph).map_err(|e| e.to_string())?,
        })
    }

    /// Reads one, or says why it is none.
    pub fn parse(text: &[u8]) -> Result<JobRecord, String> {
        let value: Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        match value["version"].as_u64() {
            Some(VERSION) => serde_json::from_value(value).map_err(|e| e.to_string()),
            Some(other) => {
                Err(format!("it has version {other}, and this is {}, which reads version {VERSION}", engine()))
            }
            None => Err("it has no version".to_owned()),
        }
    }

    /// The savepoint it was stopping with, if it was.
    pub fn savepoint(&self) -> Option<StopSavepoint> {
        let Savepoint { checkpoint, location } = self.savepoint.clone()?;
        Some(StopSavepoint { checkpoint, location })
    }

    /// What the job does, or why this release cannot run it.
    pub fn graph(&self) -> Result<JobGraph, String> {
        serde_json::from_value(self.graph.clone()).map_err(|e| {
            format!(
                "it was planned by {} and this is {}, which reads its plan differently ({e}). Submit its script again, \
                 from its last checkpoint.",
                self.engine,
                engine()
            )
        })
    }

    /// The job as one that has ended; `None` if it has not.
    pub fn ended(&self) -> Option<EndedJob> {
        let end = self.end.as_ref()?;
        let timestamps = end.timestamps.iter().filter_map(|(name, at)| Some((status(name)?, *at)));
        let failure = end.failure.as_ref().map(|failure| FailureView {
            message: failure.message.clone(),
            task: failure.task.clone(),
            timestamp_ms: failure.timestamp_ms,
        });
        Some(EndedJob {
            id: JobId::parse(&self.id)?,
            name: self.name.clone(),
            status: status(&end.status).unwrap_or(JobStatus::Failed),
            timestamps: timestamps.collect(),
            failure,
        })
    }
}

impl End {
    /// What is to be remembered of an end.
    pub fn of(job: &EndedJob) -> End {
        let failure = job.failure.as_ref().map(|failure| Failure {
            message: failure.message.clone(),
            task: failure.task.clone(),
            timestamp_ms: failure.timestamp_ms,
        });
        End {
            status: job.status.name().to_owned(),
            timestamps: job.timestamps.iter().map(|(status, at)| (status.name().to_owned(), *at)).collect(),
            failure,
        }
    }

    /// When it was.
    pub fn ended_ms(&self) -> i64 {
        self.timestamps.get(&self.status).copied().unwrap_or(i64::MIN)
    }
}

fn engine() -> String {
    format!("tidegate {}", env!("CARGO_PKG_VERSION"))
}

fn status(name: &str) -> Option<JobStatus> {
    JobStatus::ALL.into_iter().find(|status| status.name() == name)
}
