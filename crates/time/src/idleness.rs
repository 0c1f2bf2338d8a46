//! When does an input that delivers nothing stop holding time back?
//!
//! An input is idle when it *was asked* and had nothing for the timeout. Time in which nobody asked
//! (the task was blocked by a slow receiver, the split was paused) proves nothing and never counts:
//! rows may be waiting there, and calling the input idle would make them late.

use crate::Timestamp;

/// Longest time between two reports that still counts in full. A reader reports a quiet split at
/// least every 50 ms; a far longer gap means that it was not asked meanwhile.
const REPORT_GAP_MS: i64 = 1_000;

/// The idle timer of one input.
#[derive(Clone, Debug)]
pub struct IdlenessTimer {
    timeout_ms: Option<i64>,
    /// The moment from which silence counts; moves forward by the time nobody asked.
    since_ms: Timestamp,
    last_report_ms: Timestamp,
    idle: bool,
}

impl IdlenessTimer {
    /// An active input, as of `now_ms`. A timeout of `None` or 0 never comes.
    pub fn new(timeout_ms: Option<i64>, now_ms: Timestamp) -> Self {
        IdlenessTimer {
            timeout_ms: timeout_ms.filter(|ms| *ms > 0),
            since_ms: now_ms,
            last_report_ms: now_ms,
            idle: false,
        }
    }

    /// The input delivered. True if it was idle and is active again.
    pub fn activity(&mut self, now_ms: Timestamp) -> bool {
        self.since_ms = now_ms;
        self.last_report_ms = now_ms;
        std::mem::replace(&mut self.idle, false)
    }

    /// The input was asked and had nothing. True if it becomes idle by this: at the first report at
    /// or after the last activity plus the timeout.
    pub fn quiet(&mut self, now_ms: Timestamp) -> bool {
        let gap = now_ms - self.last_report_ms;
        if gap > REPORT_GAP_MS {
            self.since_ms += gap - REPORT_GAP_MS;
        }
        self.last_report_ms = now_ms;
        let due = self.timeout_ms.is_some_and(|timeout| now_ms - self.since_ms >= timeout);
        let becomes = due && !self.idle;
        self.idle |= due;
        becomes
    }

    /// Nobody could ask for this long.
    pub fn not_asked(&mut self, duration_ms: i64) {
        self.since_ms += duration_ms;
        self.last_report_ms += duration_ms;
    }

    /// Whether the input is idle.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// How long the input has been asked in vain, in milliseconds.
    pub fn quiet_ms(&self, now_ms: Timestamp) -> i64 {
        (now_ms - self.since_ms).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_comes_at_the_first_probe_at_or_after_the_timeout() {
        let mut timer = IdlenessTimer::new(Some(10), 0);
        timer.activity(4);
        let idle_at: Vec<i64> = (5..=30).step_by(5).filter(|now| timer.quiet(*now)).collect();
        assert_eq!(idle_at, [15]);
        assert!(timer.activity(31));
        assert!(!timer.is_idle());
    }

    #[test]
    fn an_input_that_never_spoke_is_idle_too() {
        let mut timer = IdlenessTimer::new(Some(2_000), 100);
        let mut now = 100;
        while !timer.quiet(now) {
            now += 50;
        }
        assert_eq!(now, 2_100);
    }

    #[test]
    fn time_in_which_nobody_asked_does_not_count() {
        let mut timer = IdlenessTimer::new(Some(1_000), 0);
        timer.activity(0);
        timer.not_asked(5_000);
        assert!(!timer.quiet(5_010));
        assert!(!timer.quiet(5_999));
        assert!(timer.quiet(6_000));
        let mut timer = IdlenessTimer::new(Some(2_000), 0);
        assert!(!timer.quiet(60_000), "a minute without a report is not a minute of silence");
    }

    #[test]
    fn without_a_timeout_nothing_is_idle() {
        for timeout in [None, Some(0)] {
            let mut timer = IdlenessTimer::new(timeout, 0);
            assert!((0..100).all(|i| !timer.quiet(i * 900)));
        }
    }
}
