//! What a source shows of its splits while it runs: a few numbers each, written once per batch.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_time::Timestamp;

use crate::view::SplitView;

/// The splits of one source, over all its subtasks.
#[derive(Debug, Default)]
pub(crate) struct SplitBoard {
    splits: Mutex<Vec<Arc<SplitMarks>>>,
}

impl SplitBoard {
    /// A split was given to a subtask; the subtask writes its marks.
    pub(crate) fn add(&self, name: &str, subtask: usize) -> Arc<SplitMarks> {
        let marks = Arc::new(SplitMarks::new(name, subtask));
        self.splits.lock().unwrap_or_else(PoisonError::into_inner).push(marks.clone());
        marks
    }

    /// The splits at this moment, by subtask.
    pub(crate) fn view(&self) -> Vec<SplitView> {
        let splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut views: Vec<SplitView> = splits.iter().map(|marks| marks.view()).collect();
        views.sort_by_key(|view| view.subtask);
        views
    }
}

/// How far one split has come. `i64::MIN` stands for "not yet".
#[derive(Debug)]
pub(crate) struct SplitMarks {
    name: String,
    subtask: usize,
    rows: AtomicU64,
    max_event_time: AtomicI64,
    watermark: AtomicI64,
    counts: AtomicBool,
    last_row_ms: AtomicI64,
    idle_since_ms: AtomicI64,
    finished: AtomicBool,
}

impl SplitMarks {
    fn new(name: &str, subtask: usize) -> Self {
        let not_yet = || AtomicI64::new(i64::MIN);
        SplitMarks {
            name: name.to_owned(),
            subtask,
            rows: AtomicU64::new(0),
            max_event_time: not_yet(),
            watermark: not_yet(),
            counts: AtomicBool::new(true),
            last_row_ms: not_yet(),
            idle_since_ms: not_yet(),
            finished: AtomicBool::new(false),
        }
    }

    /// Rows were read, at this wall time.
    pub(crate) fn read(&self, rows: usize, now_ms: Timestamp) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.last_row_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The event times of a batch, and the split's watermark after it. Only the source's subtask calls this.
    pub(crate) fn event_times(&self, timestamps: &[Timestamp], watermark: Timestamp) {
        let highest = timestamps.iter().copied().fold(i64::MIN, i64::max);
        self.max_event_time.fetch_max(highest, Ordering::Relaxed);
        self.watermark.store(watermark, Ordering::Relaxed);
    }

    /// Whether the split counts towards the watermark, and since when it is idle, by the wall clock.
    pub(crate) fn status(&self, counts: bool, idle_since_ms: Option<Timestamp>) {
        self.counts.store(counts, Ordering::Relaxed);
        self.idle_since_ms.store(idle_since_ms.unwrap_or(i64::MIN), Ordering::Relaxed);
    }

    /// It was read to its end.
    pub(crate) fn finish(&self) {
        self.counts.store(false, Ordering::Relaxed);
        self.finished.store(true, Ordering::Relaxed);
    }

    fn view(&self) -> SplitView {
        let known = |mark: &AtomicI64| Some(mark.load(Ordering::Relaxed)).filter(|ms| *ms != i64::MIN);
        SplitView {
            name: self.name.clone(),
            subtask: self.subtask,
            rows: self.rows.load(Ordering::Relaxed),
            max_event_time: known(&self.max_event_time),
            watermark: known(&self.watermark),
            counts: self.counts.load(Ordering::Relaxed),
            last_row_ms: known(&self.last_row_ms),
            idle_since_ms: known(&self.idle_since_ms),
            finished: self.finished.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_what_came_last_and_what_was_highest() {
        let board = SplitBoard::default();
        let second = board.add("t-1", 1);
        let first = board.add("t-0", 0);
        assert_eq!(board.view().iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["t-0", "t-1"]);
        let empty = &board.view()[1];
        assert_eq!((empty.rows, empty.max_event_time, empty.watermark, empty.counts), (0, None, None, true));
        second.read(2, 77);
        second.event_times(&[30, 10], 28);
        second.read(1, 78);
        second.event_times(&[20], 28);
        let view = &board.view()[1];
        assert_eq!((view.rows, view.max_event_time, view.watermark), (3, Some(30), Some(28)));
        assert_eq!((view.last_row_ms, view.idle_since_ms), (Some(78), None));
        first.status(false, Some(99));
        assert_eq!((board.view()[0].counts, board.view()[0].idle_since_ms), (false, Some(99)));
        first.finish();
        assert!(board.view()[0].finished);
    }
}
