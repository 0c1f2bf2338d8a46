//! `execution.checkpointing.*`, `state.*` and `execution.state-recovery.*`: Flink's names, defaults and
//! old names.
//!
//! A setting is read, or it only tunes how Flink does something that is done differently here (then
//! [`CheckpointOptions::without_effect`] names it), or it is refused. None changes nothing in silence.

mod keys;
mod parse;
mod s3;
#[cfg(test)]
mod tests;

pub use parse::{add_defaults, default_dir};
pub use s3::{S3Keys, S3Options};

use crate::barrier::Alignment;
use crate::coordinator::Settings;

/// How a job checkpoints and where it restores from. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// From one trigger to the next; `None` is off.
    pub interval_ms: Option<i64>,
    /// `EXACTLY_ONCE` or `AT_LEAST_ONCE`.
    pub mode: Mode,
    /// A checkpoint that takes longer is aborted.
    pub timeout_ms: i64,
    /// From one completion to the next trigger at least.
    pub min_pause_ms: i64,
    /// Checkpoints in progress at one time.
    pub max_concurrent: usize,
    /// Checkpoints in a row that may fail.
    pub tolerable_failures: u32,
    /// Whether barriers may overtake.
    pub unaligned: bool,
    /// How long alignment may take before they do; 0 is at once.
    pub aligned_timeout_ms: i64,
    /// Where checkpoints are kept.
    pub storage: StorageKind,
    /// The folder of checkpoints, a URL or path.
    pub dir: Option<String>,
    /// Whether each job has a folder of its own in it.
    pub create_subdir: bool,
    /// The folder of savepoints.
    pub savepoint_dir: Option<String>,
    /// How many completed checkpoints are kept.
    pub num_retained: usize,
    /// What happens to them when the job ends.
    pub retention: Retention,
    /// Which state backend.
    pub backend: Backend,
    /// Memory in bytes for state that may leave memory, over all operators of the job
    /// (`taskmanager.memory.managed.size`).
    pub managed_bytes: u64,
    /// `execution.checkpointing.incremental` as set. Both backends write what changed.
    pub incremental: bool,
    /// What to restore from.
    pub restore: Option<RestoreOptions>,
    /// How to reach `s3://`.
    pub s3: S3Options,
    /// Checkpoints that are over of which the details are kept (`web.checkpoints.history`).
    pub history: usize,
    /// Keys that are set and have no effect here, for a notice.
    pub without_effect: Vec<&'static str>,
}

/// How exact a job is after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every record counts once.
    ExactlyOnce,
    /// Records may count again.
    AtLeastOnce,
}

/// Where checkpoints are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// In memory: a failed job restarts from them, a dead process does not.
    JobManager,
    /// In a folder or bucket.
    FileSystem,
}

/// What happens to checkpoints when a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They are deleted.
    NoExternalized,
    /// They are kept if the job failed.
    DeleteOnCancellation,
    /// They are kept if the job failed or was cancelled.
    RetainOnCancellation,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// It has read everything, or was stopped with a savepoint.
    Finished,
    /// It was cancelled.
    Canceled,
    /// It failed for good.
    Failed,
    /// Its job manager goes; another may take over.
    Suspended,
}

impl Retention {
    /// True if checkpoints stay (Flink's table).
    pub fn keeps(self, end: JobEnd) -> bool {
        match (self, end) {
            (Retention::NoExternalized, _) | (_, JobEnd::Finished) => false,
            (_, JobEnd::Failed) => true,
            (retention, JobEnd::Canceled | JobEnd::Suspended) => retention == Retention::RetainOnCancellation,
        }
    }
}

/// Which state backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// State in memory.
    HashMap,
    /// State on disk, memory as a cache. Flink's `rocksdb`.
    Disk,
}

/// What to restore from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// A checkpoint's or savepoint's folder, or its `_metadata`.
    pub path: String,
    /// Whose it is from then on.
    pub claim: ClaimMode,
    /// Whether state without an operator may be left behind.
    pub allow_non_restored: bool,
}

/// Who owns a snapshot that a job was restored from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimMode {
    /// The job: it may build on its files, and deletes it when it is subsumed.
    Claim,
    /// The user: the job reads it and copies what it needs on.
    NoClaim,
}

impl CheckpointOptions {
    /// True if checkpoints are taken periodically.
    pub fn is_enabled(&self) -> bool {
        self.interval_ms.is_some()
    }

    /// How inputs wait for each other.
    pub fn alignment(&self) -> Alignment {
        match (self.mode, self.unaligned, self.aligned_timeout_ms) {
            (Mode::AtLeastOnce, ..) => Alignment::AtLeastOnce,
            (Mode::ExactlyOnce, false, _) => Alignment::Aligned,
            (Mode::ExactlyOnce, true, 0) => Alignment::Unaligned,
            (Mode::ExactlyOnce, true, timeout_ms) => Alignment::Timeout(timeout_ms),
        }
    }

    /// The coordinator's part.
    pub fn settings(&self) -> Settings {
        Settings {
            interval_ms: self.interval_ms,
            timeout_ms: self.timeout_ms,
            min_pause_ms: self.min_pause_ms,
            // Flink: a pause between checkpoints leaves no room for two at once.
            max_concurrent: if self.min_pause_ms > 0 { 1 } else { self.max_concurrent },
            tolerable_failures: self.tolerable_failures,
            alignment: self.alignment(),
            history: self.history,
        }
    }
}
