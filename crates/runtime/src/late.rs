//! Says that rows were dropped as late: at most one line every ten seconds for each operator, and at the
//! end the sum, unless one line has said it all. Remembers for which windows they came.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::text::format_timestamp_sql;
use tidegate_time::Clock;
use tidegate_window::Zone;

use crate::notices::JobNotices;
use crate::operator::{LateListener, LateRows};
use crate::view::LateWindowView;

const NOTICE_INTERVAL_MS: i64 = 10_000;
/// Windows with late rows that are remembered, those that lost a row last.
const WINDOWS_MAX: usize = 64;

/// Collects the late rows of one operator, over all its subtasks.
pub(crate) struct LateReporter {
    operator: String,
    /// The zone whose local time the window's bounds are in.
    zone: Zone,
    clock: Arc<dyn Clock>,
    notices: JobNotices,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    total: u64,
    /// Rows not yet told about.
    untold: u64,
    last: Option<LateRows>,
    told_at_ms: Option<i64>,
    /// Lines so far.
    lines: u64,
    /// The one that lost a row last at the back.
    windows: VecDeque<LateWindowView>,
}

impl State {
    fn remember(&mut self, rows: LateRows) {
        let is_it = |w: &LateWindowView| (w.start, w.end) == (rows.window_start, rows.window_end);
        let mut window = match self.windows.iter().rposition(is_it) {
            Some(at) => self.windows.remove(at),
            None => None,
        }
        .unwrap_or(LateWindowView { start: rows.window_start, end: rows.window_end, rows: 0, watermark: 0 });
        window.rows += rows.count;
        window.watermark = rows.watermark;
        if self.windows.len() == WINDOWS_MAX {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
    }
}

impl LateReporter {
    pub(crate) fn new(operator: String, zone: Zone, clock: Arc<dyn Clock>, notices: JobNotices) -> Self {
        LateReporter { operator, zone, clock, notices, state: Mutex::default() }
    }

    /// The operator's name.
    pub(crate) fn operator(&self) -> &str {
        &self.operator
    }

    /// All late rows so far.
    pub(crate) fn total(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// All late rows so far, and the windows they were for.
    pub(crate) fn windows(&self) -> (u64, Vec<LateWindowView>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.total, state.windows.iter().copied().collect())
    }

    /// Says how many there were in all, if no single line has said it; at the end of a job.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = state.last.filter(|_| state.untold > 0 || state.lines > 1) else { return };
        let count = format!("{} in all", rows(state.total));
        self.notices.warn(line(&self.operator, &self.zone, &count, last));
        (state.untold, state.last) = (0, None);
    }
}

impl LateListener for LateReporter {
    fn late(&self, rows: LateRows) {
        let now = self.clock.monotonic_ms();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total += rows.count;
        state.untold += rows.count;
        state.last = Some(rows);
        state.remember(rows);
        if state.told_at_ms.is_none_or(|told| now - told >= NOTICE_INTERVAL_MS) {
            self.notices.warn(line(&self.operator, &self.zone, &self::rows(state.untold), rows));
            (state.told_at_ms, state.untold) = (Some(now), 0);
            state.lines += 1;
        }
    }
}

/// Milliseconds as a timestamp's digits.
pub(crate) fn digits(ms: i64) -> String {
    format_timestamp_sql(i128::from(ms) * 1_000_000, 3)
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row".into() } else { format!("{count} rows") }
}

/// The watermark is the operator's when it dropped the rows. In an aggregate of two phases that is later
/// than when the rows came, so the line says only how far it has passed the window.
fn line(operator: &str, zone: &Zone, count: &str, last: LateRows) -> String {
    format!(
        "{operator}: {count} dropped as late, the last for window [{}, {}); the watermark is {}, {} s past its end",
        digits(last.window_start),
        digits(last.window_end),
        digits(zone.to_local(last.watermark)),
        seconds(last.watermark.saturating_sub(zone.to_epoch(last.window_end)).max(0)),
    )
}

/// `9`, `0.25`.
fn seconds(ms: i64) -> String {
    let text = format!("{}.{:03}", ms / 1_000, ms % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_time::ManualClock;

    #[test]
    fn one_line_in_ten_seconds_and_the_rest_at_the_end() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = lines.clone();
        let notices = JobNotices::new(
            "0".repeat(32),
            Arc::new(move |n: crate::notices::Notice| sink.lock().unwrap().push(n.text)),
        );
        let clock = Arc::new(ManualClock::new(0));
        let reporter = LateReporter::new("GlobalWindowAggregate[5]".into(), Zone::UTC, clock.clone(), notices);
        let rows = LateRows { count: 1, window_start: 0, window_end: 10_000, watermark: 13_500 };
        reporter.late(rows);
        reporter.late(rows);
        clock.advance_ms(9_999);
        reporter.late(rows);
        assert_eq!(lines.lock().unwrap().len(), 1);
        clock.advance_ms(1);
        reporter.late(rows);
        reporter.late(rows);
        reporter.finish();
        reporter.finish();
        assert_eq!(reporter.total(), 5);
        let last = "the last for window [1970-01-01 00:00:00.000, 1970-01-01 00:00:10.000); \
                    the watermark is 1970-01-01 00:00:13.500, 3.5 s past its end";
        assert_eq!(
            *lines.lock().unwrap(),
            ["1 row", "3 rows", "5 rows in all"]
                .map(|n| format!("GlobalWindowAggregate[5]: {n} dropped as late, {last}"))
        );
    }

    #[test]
    fn one_line_that_has_said_it_all_is_not_said_again() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = lines.clone();
        let notices = JobNotices::new(
            "0".repeat(32),
            Arc::new(move |n: crate::notices::Notice| sink.lock().unwrap().push(n.text)),
        );
        let reporter = LateReporter::new("w".into(), Zone::UTC, Arc::new(ManualClock::new(0)), notices);
        reporter.late(LateRows { count: 7, window_start: 0, window_end: 10_000, watermark: 10_000 });
        reporter.finish();
        assert_eq!(lines.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_windows_that_lost_rows_last_are_remembered() {
        let notices = JobNotices::new("0".repeat(32), Arc::new(|_: crate::notices::Notice| {}));
        let reporter = LateReporter::new("w".into(), Zone::UTC, Arc::new(ManualClock::new(0)), notices);
        let late = |window: i64, count, watermark| {
            let window_start = window * 10;
            reporter.late(LateRows { count, window_start, window_end: window_start + 10, watermark });
        };
        (0..WINDOWS_MAX as i64).for_each(|window| late(window, 1, 1_000));
        late(0, 2, 2_000);
        late(999, 1, 3_000);
        let (total, windows) = reporter.windows();
        assert_eq!((total, windows.len()), (WINDOWS_MAX as u64 + 3, WINDOWS_MAX));
        let [.., again, newest] = windows[..] else { panic!("{windows:?}") };
        assert_eq!(again, LateWindowView { start: 0, end: 10, rows: 3, watermark: 2_000 });
        assert_eq!(newest.start, 9_990);
        assert!(windows.iter().all(|w| w.start != 10), "the oldest made room");
    }
}
