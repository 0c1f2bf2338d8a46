//! What became of the last checkpoints, for people and for Flink's REST shapes.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::barrier::{Barrier, BarrierKind};
use crate::ids::{CheckpointId, TaskId};

/// Completed checkpoints the summary looks back on; Flink's window.
const SUMMARY_MAX: usize = 10_000;

/// How a task fared with a checkpoint. Times are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckMetrics {
    /// From the trigger to the first barrier seen.
    pub start_delay_ms: i64,
    /// From the first barrier to the last.
    pub alignment_ms: i64,
    /// The stop of the data plane.
    pub sync_ms: i64,
    /// Writing, beside the data plane.
    pub async_ms: i64,
    /// All of the task's state.
    pub state_bytes: u64,
    /// What was written for this checkpoint.
    pub written_bytes: u64,
    /// What was processed during the alignment.
    pub processed_bytes: u64,
    /// What a barrier overtook and was written.
    pub persisted_bytes: u64,
    /// Whether a barrier overtook anything.
    pub unaligned: bool,
}

/// Where a checkpoint stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not all tasks have acknowledged, or the manifest is being stored.
    InProgress,
    /// It exists, or existed.
    Completed {
        /// Where.
        location: String,
        /// True once it was deleted.
        discarded: bool,
    },
    /// It never existed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Its barrier.
    pub barrier: Barrier,
    /// Tasks that had to acknowledge.
    pub expected: usize,
    /// When each did, and how it fared.
    pub tasks: BTreeMap<TaskId, (i64, AckMetrics)>,
    /// When it was completed or given up.
    pub ended_ms: Option<i64>,
    /// Where it stands.
    pub outcome: Outcome,
}

impl CheckpointRecord {
    /// Time of the last acknowledgement; -1 before the first, as Flink has it.
    pub fn latest_ack_ms(&self) -> i64 {
        self.tasks.values().map(|(acknowledged_ms, _)| *acknowledged_ms).max().unwrap_or(-1)
    }

    /// From the trigger to the end, or to the last acknowledgement so far.
    pub fn duration_ms(&self) -> i64 {
        let end = self.ended_ms.unwrap_or_else(|| self.latest_ack_ms());
        end.saturating_sub(self.barrier.timestamp_ms).max(0)
    }

    /// A number of all tasks together.
    pub fn sum(&self, number: impl Fn(&AckMetrics) -> u64) -> u64 {
        self.tasks.values().map(|(_, metrics)| number(metrics)).sum()
    }

    /// Flink's `checkpoint_type`.
    pub fn type_name(&self) -> &'static str {
        match self.barrier.kind {
            BarrierKind::Savepoint { stop: None } => "SAVEPOINT",
            BarrierKind::Savepoint { stop: Some(_) } => "SYNC_SAVEPOINT",
            BarrierKind::Checkpoint(_) if self.tasks.values().any(|(_, metrics)| metrics.unaligned) => {
                "UNALIGNED_CHECKPOINT"
            }
            BarrierKind::Checkpoint(_) => "CHECKPOINT",
        }
    }

    /// The task and the stage that took longest: what to look at when checkpoints are slow.
    pub fn slowest(&self) -> Option<(TaskId, &'static str, i64)> {
        let stages = |(task, (_, m)): (&TaskId, &(i64, AckMetrics))| {
            [
                (*task, "start delay", m.start_delay_ms),
                (*task, "alignment", m.alignment_ms),
                (*task, "sync", m.sync_ms),
                (*task, "async", m.async_ms),
            ]
        };
        // The first of equals: a delay of one task shows again in all behind it.
        self.tasks.iter().flat_map(stages).rev().max_by_key(|(_, _, ms)| *ms)
    }
}

/// How many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Restores.
    pub restored: u64,
    /// Triggered.
    pub total: u64,
    /// In progress.
    pub in_progress: u64,
    /// Completed, savepoints too.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
}

/// What a job was restored from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredFrom {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// When the restore was over.
    pub restored_ms: i64,
    /// Whether it was a savepoint.
    pub is_savepoint: bool,
    /// Where it is.
    pub location: String,
}

/// A completed checkpoint in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From trigger to completion.
    pub duration_ms: i64,
    /// Bytes of all state.
    pub state_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes processed while aligning.
    pub processed_bytes: u64,
    /// Bytes overtaken.
    pub persisted_bytes: u64,
}

/// The checkpoints of a job, the last few in detail.
#[derive(Clone, Debug)]
pub struct History {
    max: usize,
    records: VecDeque<CheckpointRecord>,
    counts: Counts,
    samples: VecDeque<Sample>,
    latest_completed: Option<CheckpointRecord>,
    latest_savepoint: Option<CheckpointRecord>,
    latest_failed: Option<CheckpointRecord>,
    restored: Option<RestoredFrom>,
}

impl History {
    /// Keeps the last `max` that are over (`web.checkpoints.history`), and all in progress.
    pub fn new(max: usize) -> History {
        History {
            max,
            records: VecDeque::new(),
            counts: Counts::default(),
            samples: VecDeque::new(),
            latest_completed: None,
            latest_savepoint: None,
            latest_failed: None,
            restored: None,
        }
    }

    /// Newest first.
    pub fn records(&self) -> impl Iterator<Item = &CheckpointRecord> {
        self.records.iter().rev()
    }

    /// One of them.
    pub fn record(&self, id: CheckpointId) -> Option<&CheckpointRecord> {
        self.records.iter().find(|record| record.barrier.id == id)
    }

    /// How many there were.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The last that completed, savepoints apart.
    pub fn latest_completed(&self) -> Option<&CheckpointRecord> {
        self.latest_completed.as_ref()
    }

    /// The last savepoint.
    pub fn latest_savepoint(&self) -> Option<&CheckpointRecord> {
        self.latest_savepoint.as_ref()
    }

    /// The last that failed.
    pub fn latest_failed(&self) -> Option<&CheckpointRecord> {
        self.latest_failed.as_ref()
    }

    /// The last restore.
    pub fn restored(&self) -> Option<&RestoredFrom> {
        self.restored.as_ref()
    }

    /// Completed checkpoints in numbers, oldest first, up to Flink's 10,000.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Checkpoints whose files were deleted.
    pub fn discarded(&mut self, ids: &[CheckpointId]) {
        let records = self.records.iter_mut().chain(&mut self.latest_completed).chain(&mut self.latest_savepoint);
        for record in records.filter(|record| ids.contains(&record.barrier.id)) {
            if let Outcome::Completed { discarded, .. } = &mut record.outcome {
                *discarded = true;
            }
        }
    }

    pub(super) fn restored_from(&mut self, from: RestoredFrom) {
        self.counts.restored += 1;
        self.restored = Some(from);
    }

    pub(super) fn triggered(&mut self, barrier: Barrier, expected: usize) {
        self.counts.total += 1;
        self.counts.in_progress += 1;
        let record = CheckpointRecord {
            barrier,
            expected,
            tasks: BTreeMap::new(),
            ended_ms: None,
            outcome: Outcome::InProgress,
        };
        self.records.push_back(record);
    }

    pub(super) fn acknowledged(&mut self, id: CheckpointId, task: TaskId, now_ms: i64, metrics: AckMetrics) {
        if let Some(record) = self.records.iter_mut().find(|record| record.barrier.id == id) {
            record.tasks.insert(task, (now_ms, metrics));
        }
    }

    pub(super) fn ended(&mut self, id: CheckpointId, now_ms: i64, outcome: Outcome) {
        let Some(record) = self.records.iter_mut().find(|record| record.barrier.id == id) else { return };
        record.ended_ms = Some(now_ms);
        record.outcome = outcome;
        let record = record.clone();
        self.counts.in_progress = self.counts.in_progress.saturating_sub(1);
        if let Outcome::Failed { .. } = record.outcome {
            self.counts.failed += 1;
            self.latest_failed = Some(record);
        } else {
            self.counts.completed += 1;
            self.sample(&record);
            let latest = if record.barrier.kind.is_savepoint() {
                &mut self.latest_savepoint
            } else {
                &mut self.latest_completed
            };
            *latest = Some(record);
        }
        let over = |record: &CheckpointRecord| record.ended_ms.is_some();
        while self.records.iter().filter(|record| over(record)).count() > self.max {
            if let Some(oldest) = self.records.iter().position(over) {
                self.records.remove(oldest);
            }
        }
    }

    fn sample(&mut self, record: &CheckpointRecord) {
        if self.samples.len() == SUMMARY_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            duration_ms: record.duration_ms(),
            state_bytes: record.sum(|metrics| metrics.state_bytes),
            written_bytes: record.sum(|metrics| metrics.written_bytes),
            processed_bytes: record.sum(|metrics| metrics.processed_bytes),
            persisted_bytes: record.sum(|metrics| metrics.persisted_bytes),
        });
    }
}
