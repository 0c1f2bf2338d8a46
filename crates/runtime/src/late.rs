//! Says that rows were dropped as late: at most one line every ten seconds for each operator.

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

    /// Says what has not been said yet; at the end of a job.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell(&mut state);
    }

    fn tell(&self, state: &mut State) {
        let Some(last) = state.last.filter(|_| state.untold > 0) else { return };
        self.notices.warn(line(&self.operator, &self.zone, state.untold, last));
        state.untold = 0;
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
            state.told_at_ms = Some(now);
            self.tell(&mut state);
        }
    }
}

/// Milliseconds as a timestamp's digits.
pub(crate) fn digits(ms: i64) -> String {
    format_timestamp_sql(i128::from(ms) * 1_000_000, 3)
}

fn line(operator: &str, zone: &Zone, count: u64, last: LateRows) -> String {
    let rows = if count == 1 { "1 row" } else { &format!("{count} rows") };
    format!(
        "{operator}: {rows} dropped as late, last for window [{}, {}) closed at watermark {}, {} s behind",
        digits(last.window_start),
        digits(last.window_end),
        digits(zone.to_local(last.watermark)),
        last.watermark.saturating_sub(zone.to_epoch(last.window_end)).max(0) / 1_000,
    )
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
        assert_eq!(*lines.lock().unwrap(), [1, 3, 1].map(|n| line("GlobalWindowAggregate[5]", &Zone::UTC, n, rows)));
        assert_eq!(
            line("GlobalWindowAggregate[5]", &Zone::UTC, 3, rows),
            "GlobalWindowAggregate[5]: 3 rows dropped as late, last for window [1970-01-01 00:00:00.000, \
             1970-01-01 00:00:10.000) closed at watermark 1970-01-01 00:00:13.500, 3 s behind"
        );
    }
}
