//! The one door to the time of day.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Where the current time comes from. Passed as a parameter, so that a test decides what time it is.
pub trait Clock: Send + Sync {
    /// Wall clock, milliseconds since the epoch.
    fn now_ms(&self) -> Timestamp;

    /// A clock for durations, in nanoseconds from an arbitrary start; never goes back.
    fn monotonic_ns(&self) -> i64;

    /// [`Clock::monotonic_ns`] in milliseconds.
    fn monotonic_ms(&self) -> i64 {
        self.monotonic_ns() / 1_000_000
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Reads the machine's clocks from now on.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
impl Clock for SystemClock {
    fn now_ms(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        }
    }

    fn monotonic_ns(&self) -> i64 {
        self.start.elapsed().as_nanos() as i64
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ns: AtomicI64,
}

impl ManualClock {
    /// A clock whose wall time is `now_ms`.
    pub fn new(now_ms: Timestamp) -> Self {
        ManualClock { wall_ms: AtomicI64::new(now_ms), monotonic_ns: AtomicI64::new(0) }
    }

    /// Moves both clocks forward.
    pub fn advance_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ns.fetch_add(ms.saturating_mul(1_000_000), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> Timestamp {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> i64 {
        self.monotonic_ns.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (1_000, 0));
        clock.advance_ms(50);
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (1_050, 50));
    }

    #[test]
    fn the_system_clock_knows_the_century() {
        assert!(SystemClock::new().now_ms() > 1_700_000_000_000);
    }
}
