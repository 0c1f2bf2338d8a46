//! Announcing that a partition is whole: `sink.partition-commit.*`.
//!
//! A writer remembers the partitions it has put rows into until they are committed, and says at every barrier
//! which those are, whether its files of them are whole, and where its watermark stands: a [`Report`]. Reports
//! are published like files, after the checkpoint is complete and after the files. When all writers of the sink
//! have reported the same barrier, [`PartitionCommits`] knows that every file up to it is finished, takes the
//! lowest watermark, and commits what is due: it puts a success file into the folder.
//!
//! What is not committed yet is in the writers' part of the checkpoint, so a restart forgets nothing; what was
//! committed a moment before it may be committed once more, as it is after a late row.

mod book;
mod formatter;
mod time;

pub(super) use book::{PartitionBook, UncommittedPartition};

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_api::connector::TableDescriptor;
use tidegate_api::{Error, Result, Watermark};

use self::time::PartitionTime;
use super::disk::Disk;
use crate::option::{OptionReader, invalid_value};

/// Keys that a source takes too, without effect.
pub(super) const KEYS: [&str; 11] = [
    "sink.partition-commit.trigger",
    "sink.partition-commit.delay",
    "sink.partition-commit.watermark-time-zone",
    "sink.partition-commit.policy.kind",
    "sink.partition-commit.policy.class",
    "sink.partition-commit.policy.class.parameters",
    "sink.partition-commit.success-file.name",
    "partition.time-extractor.kind",
    "partition.time-extractor.class",
    "partition.time-extractor.timestamp-pattern",
    "partition.time-extractor.timestamp-formatter",
];

/// When a partition is due.
#[derive(Clone, Debug)]
enum Trigger {
    /// At the next checkpoint, or when the wall clock has passed its first row by the delay.
    ProcessTime { delay_ms: i64 },
    /// When the watermark has passed the time in its name by the delay.
    PartitionTime { time: PartitionTime, delay_ms: i64 },
}

/// What a table says about committing partitions.
#[derive(Clone, Debug)]
pub(super) struct PartitionCommitOptions {
    trigger: Trigger,
    success_file: String,
}

impl PartitionCommitOptions {
    /// `None` if the table has no partitions or names no policy: then nothing is announced (Flink's rule).
    pub(super) fn read(
        options: &mut OptionReader<'_>,
        table: &TableDescriptor,
    ) -> Result<Option<PartitionCommitOptions>> {
        let kinds = options.text("sink.partition-commit.policy.kind");
        let has_policy = read_policies(kinds.unwrap_or_default())?;
        options.accept(&["sink.partition-commit.policy.class", "sink.partition-commit.policy.class.parameters"]);
        let success_file = options.text("sink.partition-commit.success-file.name").unwrap_or("_SUCCESS").to_owned();
        if success_file.is_empty() || success_file.contains('/') {
            return Err(invalid_value("sink.partition-commit.success-file.name", &success_file, "the name of a file"));
        }
        let delay_ms = options.duration_ms("sink.partition-commit.delay")?.unwrap_or(0);
        let time = PartitionTime::read(options, table)?;
        let trigger = match options.text("sink.partition-commit.trigger").unwrap_or("process-time") {
            "process-time" => Trigger::ProcessTime { delay_ms },
            "partition-time" => Trigger::PartitionTime { time, delay_ms },
            other => {
                let wanted = "'process-time' or 'partition-time'";
                return Err(invalid_value("sink.partition-commit.trigger", other, wanted));
            }
        };
        let is_on = has_policy && !table.partition_keys.is_empty();
        Ok(is_on.then_some(PartitionCommitOptions { trigger, success_file }))
    }

    /// Whether a partition whose first row came at `first_ms` is due at this watermark and wall-clock time.
    fn is_due(&self, partition: &str, first_ms: i64, watermark: Watermark, now_ms: i64) -> Result<bool> {
        match &self.trigger {
            Trigger::ProcessTime { delay_ms } => Ok(*delay_ms == 0 || now_ms > first_ms.saturating_add(*delay_ms)),
            Trigger::PartitionTime { time, delay_ms } => {
                Ok(watermark.timestamp() > time.epoch_ms(partition)?.saturating_add(*delay_ms))
            }
        }
    }
}

/// Whether success files are wanted; refuses the other policies.
fn read_policies(kinds: &str) -> Result<bool> {
    let mut has_policy = false;
    for kind in kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()) {
        match kind.to_ascii_lowercase().as_str() {
            "success-file" => has_policy = true,
            "metastore" => {
                return Err(Error::invalid(
                    "Can not configure a 'metastore' partition commit policy for a file system table. You can only \
                     configure 'metastore' partition commit policy for a hive table.",
                ));
            }
            "custom" => {
                return Err(Error::unsupported(
                    "Option 'sink.partition-commit.policy.kind' = 'custom' is not supported: it names a Java class. Use \
                     'success-file'.",
                ));
            }
            _ => return Err(invalid_value("sink.partition-commit.policy.kind", kinds, "'success-file'")),
        }
    }
    Ok(has_policy)
}

/// A partition that a writer has put rows into since it was last committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportedPartition {
    /// `dt=2026-10-01/hour=10/`.
    pub directory: String,
    /// When its first row came, wall clock.
    pub first_ms: i64,
    /// All its rows up to the barrier are in whole files.
    pub is_whole: bool,
}

/// What a writer says at a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub subtask: usize,
    pub checkpoint: u64,
    pub watermark: Watermark,
    pub is_idle: bool,
    /// Wall clock.
    pub now_ms: i64,
    /// The writer has read its input to the end.
    pub has_ended: bool,
    pub partitions: Vec<ReportedPartition>,
}

/// Commits the partitions of one sink, for all its subtasks.
pub(super) struct PartitionCommits {
    options: PartitionCommitOptions,
    disk: Arc<dyn Disk>,
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    parallelism: usize,
    /// The latest of each subtask; files up to it are finished.
    reports: BTreeMap<usize, Report>,
    /// Subtasks that have ended and will say nothing more than they have.
    ended: BTreeSet<usize>,
    /// What writers that end leave behind: nobody's checkpoint holds it once they are gone, so the next writer at
    /// a barrier takes it over. With when its first row came and who leaves it.
    orphans: BTreeMap<String, (i64, usize)>,
    /// What was committed, by the subtask that has not heard of it yet, with the barrier it was committed at.
    news: BTreeMap<usize, Vec<(String, u64)>>,
    /// The lowest watermark of all writers so far.
    watermark: Option<Watermark>,
}

impl PartitionCommits {
    pub(super) fn new(options: PartitionCommitOptions, disk: Arc<dyn Disk>, root: PathBuf) -> PartitionCommits {
        PartitionCommits { options, disk, root, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A barrier's files of one writer are finished. Commits what has become due.
    pub(super) fn published(&self, report: Report) -> Result<()> {
        let mut state = self.lock();
        if report.has_ended {
            state.ended.insert(report.subtask);
        }
        state.reports.insert(report.subtask, report);
        let Some((checkpoint, watermark, now_ms)) = state.common_barrier() else { return Ok(()) };
        state.watermark = state.watermark.max(Some(watermark));
        let all_ended = state.ended.len() == state.parallelism;
        for (directory, first_ms) in state.whole() {
            if all_ended || self.options.is_due(&directory, first_ms, watermark, now_ms)? {
                self.commit(&directory)?;
                state.committed(&directory, checkpoint);
            }
        }
        Ok(())
    }

    fn commit(&self, directory: &str) -> Result<()> {
        let folder = self.root.join(directory);
        let path = folder.join(&self.options.success_file);
        let made = self.disk.create_empty(&path).and_then(|()| self.disk.sync_folder(&folder));
        made.map_err(|e| Error::job(format!("The success file '{}' cannot be written: {e}.", path.display())))
    }
}

impl State {
    /// The barrier that all writers who go on have reported last, the lowest watermark and the earliest time
    /// there. `None` if they stand at different ones: then files of some are not finished yet.
    fn common_barrier(&self) -> Option<(u64, Watermark, i64)> {
        if (0..self.parallelism).any(|subtask| !self.reports.contains_key(&subtask) && !self.ended.contains(&subtask)) {
            return None;
        }
        let live: Vec<&Report> = self.reports.values().filter(|r| !self.ended.contains(&r.subtask)).collect();
        let now_ms = self.reports.values().map(|report| report.now_ms);
        let Some(first) = live.first() else {
            let last = self.reports.values().map(|report| report.checkpoint).max();
            return Some((last?, Watermark::MAX, now_ms.max()?));
        };
        // Whoever has ended may have reported a barrier that those who go on have not: files of theirs up to it
        // are still to be finished.
        let is_ahead = |report: &Report| report.checkpoint > first.checkpoint;
        if live.iter().any(|report| report.checkpoint != first.checkpoint) || self.reports.values().any(is_ahead) {
            return None;
        }
        let active = live.iter().filter(|report| !report.is_idle).map(|report| report.watermark);
        // When all are idle, the furthest counts: the rule of the valve.
        let watermark = active.min().or_else(|| live.iter().map(|report| report.watermark).max())?;
        Some((first.checkpoint, watermark, live.iter().map(|report| report.now_ms).min()?))
    }

    /// Partitions of which no writer has a file in progress, with when the first row came.
    fn whole(&self) -> Vec<(String, i64)> {
        let mut partitions: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
        for partition in self.reports.values().flat_map(|report| &report.partitions) {
            let (first_ms, is_whole) =
                partitions.entry(&partition.directory).or_insert((partition.first_ms, partition.is_whole));
            *first_ms = (*first_ms).min(partition.first_ms);
            *is_whole &= partition.is_whole;
        }
        let whole = partitions.into_iter().filter(|(_, (_, is_whole))| *is_whole);
        whole.map(|(directory, (first_ms, _))| (directory.to_owned(), first_ms)).collect()
    }

    fn committed(&mut self, directory: &str, checkpoint: u64) {
        for subtask in 0..self.parallelism {
            let partitions = self.reports.get_mut(&subtask).map(|report| &mut report.partitions);
            let had = partitions.is_some_and(|partitions| {
                let before = partitions.len();
                partitions.retain(|partition| partition.directory != directory);
                partitions.len() < before
            });
            if had || !self.ended.contains(&subtask) {
                self.news.entry(subtask).or_default().push((directory.to_owned(), checkpoint));
            }
        }
        // Whoever has not reported its end may have more rows of it.
        if self.orphans.get(directory).is_some_and(|(_, from)| self.ended.contains(from)) {
            self.orphans.remove(directory);
        }
    }
}
