//! Names of checkpoints, jobs, operators and tasks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a checkpoint or savepoint of a job: from 1, rising over restarts, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    /// The id after this one.
    pub fn next(self) -> CheckpointId {
        CheckpointId(self.0 + 1)
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A job's id: 32 lower-case hex digits, as in Flink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

/// A text that is no job id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a job id: 32 hexadecimal digits are expected")]
pub struct NoJobId(String);

impl JobId {
    /// Reads 32 hex digits of either case.
    pub fn parse(text: &str) -> Result<JobId, NoJobId> {
        if text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(JobId(text.to_ascii_lowercase()))
        } else {
            Err(NoJobId(text.to_owned()))
        }
    }

    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobId {
    type Error = NoJobId;

    fn try_from(text: String) -> Result<JobId, NoJobId> {
        JobId::parse(&text)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> String {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which operator a state belongs to, across restarts and changes of the script; see
/// [`crate::identity`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperatorId(pub String);

impl OperatorId {
    /// An id of this text.
    pub fn new(text: impl Into<String>) -> OperatorId {
        OperatorId(text.into())
    }
}

impl fmt::Display for OperatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A subtask of a vertex of the running graph. Only good within one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// Position of the vertex in the execution graph.
    pub vertex: u32,
    /// Subtask from 0.
    pub subtask: u32,
}

impl TaskId {
    /// Subtask `subtask` of vertex `vertex`.
    pub fn new(vertex: u32, subtask: u32) -> TaskId {
        TaskId { vertex, subtask }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vertex {} subtask {}", self.vertex, self.subtask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_are_32_hex_digits_and_nothing_else() {
        let id = JobId::parse("94E3A1B2c3d4e5f60718293a4b5c6d7e").expect("an id");
        assert_eq!(id.as_str(), "94e3a1b2c3d4e5f60718293a4b5c6d7e");
        for text in ["", "94e3", "94e3a1b2c3d4e5f60718293a4b5c6d7g", "../../../../../../../../etc/passwd."] {
            assert!(JobId::parse(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<JobId>("\"..\"").is_err());
    }
}
