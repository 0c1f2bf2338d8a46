//! A writer's side of committing partitions: what it has put rows into.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_api::{Result, Watermark, WatermarkStatus};

use super::{PartitionCommits, Report, ReportedPartition};

/// What a checkpoint remembers of a partition that is not committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct UncommittedPartition {
    pub directory: String,
    /// When its first row came, wall clock.
    pub first_ms: i64,
}

struct Entry {
    first_ms: i64,
    /// The last barrier before its last row.
    after: u64,
}

/// The partitions one writer has put rows into since they were committed.
pub(in super::super) struct PartitionBook {
    commits: Arc<PartitionCommits>,
    subtask: usize,
    partitions: BTreeMap<String, Entry>,
    watermark: Watermark,
    is_idle: bool,
    has_ended: bool,
    /// What stands here was said at a barrier, as the last word.
    is_reported: bool,
    last_barrier: u64,
}

impl PartitionBook {
    /// Goes on from what checkpoints remember of the writers this one takes over from.
    pub(in super::super) fn new(
        commits: Arc<PartitionCommits>,
        subtask: usize,
        parallelism: usize,
        restored: impl IntoIterator<Item = UncommittedPartition>,
    ) -> PartitionBook {
        commits.lock().parallelism = parallelism;
        let mut book = PartitionBook {
            commits,
            subtask,
            partitions: BTreeMap::new(),
            watermark: Watermark::MIN,
            is_idle: false,
            has_ended: false,
            is_reported: false,
            last_barrier: 0,
        };
        for UncommittedPartition { directory, first_ms } in restored {
            book.add(directory, first_ms);
        }
        book
    }

    fn add(&mut self, directory: String, first_ms: i64) {
        self.is_reported = false;
        let entry = self.partitions.entry(directory).or_insert(Entry { first_ms, after: self.last_barrier });
        entry.first_ms = entry.first_ms.min(first_ms);
    }

    /// Rows go into a partition.
    pub(in super::super) fn wrote(&mut self, directory: &str, now_ms: i64) {
        self.is_reported = false;
        match self.partitions.get_mut(directory) {
            Some(entry) => entry.after = self.last_barrier,
            None => self.add(directory.to_owned(), now_ms),
        }
    }

    /// Where event time stands in the input.
    pub(in super::super) fn input_watermark(&mut self, watermark: Watermark, status: WatermarkStatus) {
        self.watermark = watermark;
        self.is_idle = status == WatermarkStatus::Idle;
    }

    /// Whether nothing more comes.
    pub(in super::super) fn is_over(&self) -> bool {
        self.has_ended || self.watermark == Watermark::MAX
    }

    /// Forgets what was committed, takes over what others have left, and says which partitions may be due: their
    /// files must be whole.
    pub(in super::super) fn due(&mut self, now_ms: i64) -> Result<Vec<String>> {
        let everybodys = self.hear();
        // The watermark of the others may be further: an idle input holds nobody back.
        let watermark = everybodys.map_or(self.watermark, |everybodys| everybodys.max(self.watermark));
        let mut due = Vec::new();
        for (directory, entry) in &self.partitions {
            if self.is_over() || self.commits.options.is_due(directory, entry.first_ms, watermark, now_ms)? {
                due.push(directory.clone());
            }
        }
        Ok(due)
    }

    /// Hears what was committed, and takes over what others have left. Gives the lowest watermark of all.
    fn hear(&mut self) -> Option<Watermark> {
        let commits = Arc::clone(&self.commits);
        let mut state = commits.lock();
        for (directory, checkpoint) in state.news.remove(&self.subtask).unwrap_or_default() {
            if self.partitions.get(&directory).is_some_and(|entry| entry.after < checkpoint) {
                self.partitions.remove(&directory);
            }
        }
        if !self.has_ended {
            for (directory, (first_ms, _)) in std::mem::take(&mut state.orphans) {
                self.add(directory, first_ms);
            }
        }
        state.watermark
    }

    /// What is said at a barrier.
    pub(in super::super) fn report(
        &mut self,
        checkpoint: u64,
        now_ms: i64,
        is_in_progress: impl Fn(&str) -> bool,
    ) -> Report {
        self.last_barrier = checkpoint;
        self.is_reported = self.is_over();
        let partitions = self.partitions.iter().map(|(directory, entry)| ReportedPartition {
            directory: directory.clone(),
            first_ms: entry.first_ms,
            is_whole: !is_in_progress(directory),
        });
        Report {
            subtask: self.subtask,
            checkpoint,
            watermark: self.watermark,
            is_idle: self.is_idle,
            now_ms,
            has_ended: self.is_over(),
            partitions: partitions.collect(),
        }
    }

    /// What a checkpoint keeps.
    pub(in super::super) fn snapshot(&self) -> Vec<UncommittedPartition> {
        let uncommitted = self.partitions.iter();
        let uncommitted = uncommitted
            .map(|(directory, entry)| UncommittedPartition { directory: directory.clone(), first_ms: entry.first_ms });
        uncommitted.collect()
    }

    /// The input has ended. What is not committed is left to who goes on, since a writer that has ended is in no
    /// later checkpoint. True if there is something to report at a last barrier.
    pub(in super::super) fn finish(&mut self, holds_files: bool) -> bool {
        self.hear();
        self.has_ended = true;
        let mut state = self.commits.lock();
        if self.partitions.is_empty() && !holds_files {
            state.ended.insert(self.subtask);
            return false;
        }
        for (directory, entry) in &self.partitions {
            state.orphans.insert(directory.clone(), (entry.first_ms, self.subtask));
        }
        holds_files || !self.is_reported
    }
}
