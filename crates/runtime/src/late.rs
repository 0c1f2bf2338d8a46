//! Says that rows were dropped as late: at most one line every ten seconds for each operator, and at the
//! end the sum, unless one line has said it all.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::text::format_timestamp_sql;
use tidegate_time::Clock;
use tidegate_window::Zone;

use crate::notices::JobNotices;
use crate::operator::{LateListener, LateRows};

const NOTICE_INTERVAL_MS: i64 = 10_000;

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
}
