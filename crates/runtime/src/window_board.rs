//! What a window operator shows while it runs: its watermark, how many windows it has closed, and the open
//! ones that close next.
//!
//! An operator publishes after a batch or a watermark, never per row. What is open is swapped in as a
//! whole, so reader and operator hold the lock for as long as it takes to copy a pointer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::{Timestamp, Watermark};
use tidegate_window::WindowAssigner;

use crate::late::LateReporter;
use crate::view::{OpenWindowView, WindowOperatorView};

/// Open windows or slices that a subtask shows, those that close first.
const NEAREST: usize = 16;

/// Rows held for a window, or for a slice of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRows {
    /// Start on the window grid.
    pub start: Timestamp,
    /// End, exclusive.
    pub end: Timestamp,
    /// Rows in it.
    pub rows: i64,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    nearest: Vec<OpenRows>,
}

/// The visible side of one subtask of a window operator.
#[derive(Debug)]
pub struct WindowBoard {
    watermark: AtomicI64,
    closed: AtomicU64,
    open: Mutex<Arc<Open>>,
}

impl Default for WindowBoard {
    fn default() -> Self {
        let watermark = AtomicI64::new(Watermark::MIN.timestamp());
        WindowBoard { watermark, closed: AtomicU64::new(0), open: Mutex::default() }
    }
}

impl WindowBoard {
    /// The operator has processed this watermark, which closed so many windows.
    pub(crate) fn passed(&self, watermark: Watermark, closed: u64) {
        self.closed.fetch_add(closed, Ordering::Relaxed);
        self.watermark.store(watermark.timestamp(), Ordering::Release);
    }

    /// What is open now: how many, and the rows of each, the nearest end first.
    pub(crate) fn publish(&self, count: usize, nearest: impl Iterator<Item = OpenRows>) {
        let open = Arc::new(Open { count, nearest: nearest.take(NEAREST).collect() });
        let before = std::mem::replace(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner), open);
        drop(before);
    }

    fn open(&self) -> Arc<Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A window operator of a job, as its handle sees it.
pub(crate) struct WindowOperator {
    pub name: String,
    /// Names of the sources that feed it.
    pub sources: Vec<String>,
    pub windows: WindowAssigner,
    /// Whether the boards show slices, out of which windows are made, and not windows.
    pub slices: bool,
    /// Of its subtasks.
    pub boards: Vec<Arc<WindowBoard>>,
    /// Of the subtasks of its first phase, which holds the rows of a slice until the slice closes.
    pub first_phase: Vec<Arc<WindowBoard>>,
    pub late: Arc<LateReporter>,
}

impl WindowOperator {
    /// The operator at this moment.
    pub(crate) fn view(&self) -> WindowOperatorView {
        let watermarks = self.boards.iter().map(|b| b.watermark.load(Ordering::Acquire));
        let watermark = watermarks.min().unwrap_or(Watermark::MIN.timestamp());
        let boards: Vec<Arc<Open>> = self.first_phase.iter().chain(&self.boards).map(|b| b.open()).collect();
        let nearest = self.merge(&boards, watermark);
        // Only if nothing was left out is the number exact.
        let shown = boards.iter().map(|b| if b.count > b.nearest.len() { b.count } else { 0 }).max().unwrap_or(0);
        let (late_rows, late) = self.late.windows();
        WindowOperatorView {
            operator: self.name.clone(),
            sources: self.sources.clone(),
            watermark: (watermark != Watermark::MIN.timestamp()).then_some(watermark),
            closed: self.boards.iter().map(|b| b.closed.load(Ordering::Relaxed)).sum(),
            open: shown.max(nearest.len()),
            nearest,
            late_rows,
            late,
        }
    }

    /// One entry per open window, over all boards.
    fn merge(&self, boards: &[Arc<Open>], watermark: Timestamp) -> Vec<OpenWindowView> {
        let mut open: BTreeMap<(Timestamp, Timestamp), i64> = BTreeMap::new();
        let mut whole = Vec::new();
        for shown in boards.iter().flat_map(|board| &board.nearest) {
            if !self.slices {
                whole.push(*shown);
                continue;
            }
            for end in self.windows.window_ends(shown.end).filter(|end| *end >= shown.end) {
                if !self.windows.is_fired(end, watermark) {
                    *open.entry((end, self.windows.window_start(end))).or_default() += shown.rows;
                }
            }
        }
        for shown in whole {
            *open.entry((shown.end, shown.start)).or_default() += shown.rows;
        }
        let view = |((end, start), rows)| OpenWindowView { start, end, closes_at: self.windows.fire_time(end), rows };
        open.into_iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notices::{JobNotices, Notice};
    use crate::operator::{LateListener, LateRows};
    use tidegate_time::ManualClock;
    use tidegate_window::{WindowKind, WindowSpec, Zone};

    fn operator(kind: WindowKind, slices: bool) -> WindowOperator {
        let spec = WindowSpec { kind, offset: 0, zone: None };
        let notices = JobNotices::new(String::new(), Arc::new(|_: Notice| {}));
        let late = LateReporter::new("w".into(), Zone::UTC, Arc::new(ManualClock::new(0)), notices);
        WindowOperator {
            name: "w".into(),
            sources: vec!["s".into()],
            windows: spec.assigner().unwrap(),
            slices,
            boards: vec![Arc::default(), Arc::default()],
            first_phase: vec![Arc::default()],
            late: Arc::new(late),
        }
    }

    fn rows(start: i64, end: i64, rows: i64) -> OpenRows {
        OpenRows { start, end, rows }
    }

    #[test]
    fn both_phases_and_all_subtasks_make_one_window() {
        let w = operator(WindowKind::Tumble { size: 10 }, true);
        assert_eq!((w.view().watermark, w.view().open), (None, 0));
        w.first_phase[0].publish(1, [rows(0, 10, 3)].into_iter());
        w.boards[0].publish(1, [rows(0, 10, 2)].into_iter());
        w.boards[1].publish(2, [rows(0, 10, 1), rows(10, 20, 7)].into_iter());
        w.boards[0].passed(Watermark(8), 0);
        assert_eq!(w.view().watermark, None, "the other subtask has none yet");
        w.boards[1].passed(Watermark(5), 2);
        let view = w.view();
        assert_eq!((view.watermark, view.closed, view.open), (Some(5), 2, 2));
        let window = |start, end, rows| OpenWindowView { start, end, closes_at: end - 1, rows };
        assert_eq!(view.nearest, [window(0, 10, 6), window(10, 20, 7)]);
    }

    #[test]
    fn a_slice_counts_in_each_window_that_has_not_closed() {
        let w = operator(WindowKind::Hop { slide: 5, size: 10 }, true);
        w.boards[0].publish(1, [rows(5, 10, 4)].into_iter());
        w.boards.iter().for_each(|b| b.passed(Watermark(9), 1));
        let window = OpenWindowView { start: 5, end: 15, closes_at: 14, rows: 4 };
        assert_eq!(w.view().nearest, [window], "[0, 10) has closed");
    }

    #[test]
    fn sessions_of_one_span_are_shown_as_one_and_what_is_cut_off_is_counted() {
        let w = operator(WindowKind::Session { gap: 5 }, false);
        w.boards[0].publish(40, (0..40).map(|i| rows(i, i + 5, 1)));
        w.boards[1].publish(1, [rows(0, 5, 2)].into_iter());
        let view = w.view();
        assert_eq!((view.open, view.nearest.len(), view.nearest[0].rows), (40, NEAREST, 3));
    }

    #[test]
    fn late_rows_are_told_by_window() {
        let w = operator(WindowKind::Tumble { size: 10 }, true);
        w.late.late(LateRows { count: 2, window_start: 0, window_end: 10, watermark: 12 });
        let view = w.view();
        assert_eq!(view.late_rows, 2);
        assert_eq!((view.late[0].start, view.late[0].rows, view.late[0].watermark), (0, 2, 12));
    }
}
