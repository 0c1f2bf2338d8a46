//! What looks wrong about a source's event times.

use tidegate_time::{Clock, Timestamp, Watermark};

use crate::late::digits;
use crate::notices::JobNotices;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const YEAR_MS: i64 = 365 * DAY_MS;
/// Silence of a split that holds the watermark before it is worth a line.
const QUIET_NOTICE_MS: i64 = 10_000;
/// Rows seen before the share of rows in 1970 means something while the job runs.
const SAMPLE_ROWS: u64 = 100;

/// Watches the event times of one source subtask; says each thing once.
pub(crate) struct EventTimeWatch {
    operator: String,
    notices: JobNotices,
    told_future: bool,
    judged_1970: bool,
    rows: u64,
    rows_in_1970: u64,
}

impl EventTimeWatch {
    pub(crate) fn new(operator: String, notices: JobNotices) -> Self {
        EventTimeWatch { operator, notices, told_future: false, judged_1970: false, rows: 0, rows_in_1970: 0 }
    }

    /// Looks at one batch: its event times, the candidates for the watermark and the split's watermark
    /// after it.
    pub(crate) fn batch(
        &mut self,
        timestamps: &[Timestamp],
        candidates: &[Timestamp],
        running: Timestamp,
        now_ms: Timestamp,
        place: &dyn Fn(usize) -> String,
    ) {
        if !self.told_future && running > now_ms.saturating_add(DAY_MS) {
            self.told_future = true;
            let first = candidates.iter().position(|c| *c > now_ms.saturating_add(DAY_MS));
            let place = first.map_or_else(|| "an earlier row".to_owned(), place);
            self.notices.warn(format!(
                "{}: watermark is {} h ahead of wall clock, set by {place} (watermark {}); rows that come after it \
                 with earlier times are late",
                self.operator,
                running.saturating_sub(now_ms) / HOUR_MS,
                digits(running),
            ));
        }
        if !self.judged_1970 {
            self.rows += timestamps.len() as u64;
            self.rows_in_1970 += timestamps.iter().filter(|ts| (0..YEAR_MS).contains(*ts)).count() as u64;
            if self.rows >= SAMPLE_ROWS {
                self.check_1970(now_ms);
                // Enough has been seen, whatever it says.
                self.judged_1970 = true;
            }
        }
    }

    /// A split that was asked in vain for `quiet_ms` holds the watermark of the others. True if that
    /// was said.
    pub(crate) fn quiet(&self, split: &str, running: Watermark, quiet_ms: i64) -> bool {
        if quiet_ms < QUIET_NOTICE_MS {
            return false;
        }
        let what = match running {
            Watermark::MIN => "it never delivered a row".to_owned(),
            Watermark(ms) => format!("its watermark is {}", digits(ms)),
        };
        self.notices.warn(format!(
            "{}: split {split} holds the watermark: {what}, and it has had nothing for {} s; an idle timeout \
             ('scan.watermark.idle-timeout' or 'table.exec.source.idle-timeout') would leave it out",
            self.operator,
            quiet_ms / 1_000
        ));
        true
    }

    /// The source has ended: however few rows there were, they are all.
    pub(crate) fn end(&mut self, clock: &dyn Clock) {
        self.check_1970(clock.now_ms());
    }

    fn check_1970(&mut self, now_ms: Timestamp) {
        let nearly_all = self.rows > 0 && self.rows_in_1970 * 100 >= self.rows * 99;
        if self.judged_1970 || !nearly_all || now_ms < 2 * YEAR_MS {
            return;
        }
        self.notices.warn(format!(
            "{}: {} % of event times lie in 1970 - seconds read as milliseconds?",
            self.operator,
            self.rows_in_1970 * 100 / self.rows
        ));
    }
}
