//! Where a subtask's time goes: busy, waiting for input, or waiting for a slow receiver.
//!
//! Only waits are measured, and only waits that happen: the fast path never reads the clock.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_time::Clock;

const NOT_WAITING: u8 = 0;
const IDLE: u8 = 1;
const BACKPRESSURED: u8 = 2;

/// The waiting times of one subtask.
pub(crate) struct TaskTimes {
    clock: Arc<dyn Clock>,
    idle_ns: AtomicI64,
    backpressured_ns: AtomicI64,
    waiting: AtomicU8,
    waiting_since_ns: AtomicI64,
    started_ns: AtomicI64,
    sample: Mutex<Sample>,
}

/// Time spent, and of each second of the last sampling window, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeShares {
    /// Since the start.
    pub accumulated_ms: [i64; 3],
    /// Per second, over the last second or more.
    pub per_second_ms: [i64; 3],
}

#[derive(Clone, Copy, Default)]
struct Sample {
    at_ns: i64,
    /// Busy, idle, backpressured.
    spent_ns: [i64; 3],
    per_second_ms: [i64; 3],
}

/// A wait under way; it ends when this is dropped.
pub(crate) struct Waiting<'a> {
    times: &'a TaskTimes,
    since_ns: i64,
    total: &'a AtomicI64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.times.waiting.store(NOT_WAITING, Ordering::Relaxed);
        self.total.fetch_add(self.times.clock.monotonic_ns() - self.since_ns, Ordering::Relaxed);
    }
}

impl TaskTimes {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        TaskTimes {
            clock,
            idle_ns: AtomicI64::new(0),
            backpressured_ns: AtomicI64::new(0),
            waiting: AtomicU8::new(NOT_WAITING),
            waiting_since_ns: AtomicI64::new(0),
            started_ns: AtomicI64::new(i64::MIN),
            sample: Mutex::default(),
        }
    }

    /// The subtask begins; time counts from here.
    pub(crate) fn start(&self) {
        let now = self.clock.monotonic_ns();
        self.started_ns.store(now, Ordering::Relaxed);
        self.sample.lock().unwrap_or_else(PoisonError::into_inner).at_ns = now;
    }

    /// Waiting for input begins.
    pub(crate) fn idle(&self) -> Waiting<'_> {
        self.wait(IDLE, &self.idle_ns)
    }

    /// Waiting for a receiver begins.
    pub(crate) fn backpressured(&self) -> Waiting<'_> {
        self.wait(BACKPRESSURED, &self.backpressured_ns)
    }

    fn wait<'a>(&'a self, kind: u8, total: &'a AtomicI64) -> Waiting<'a> {
        let since_ns = self.clock.monotonic_ns();
        self.waiting_since_ns.store(since_ns, Ordering::Relaxed);
        self.waiting.store(kind, Ordering::Relaxed);
        Waiting { times: self, since_ns, total }
    }

    /// Whether the subtask waits for a receiver now.
    pub(crate) fn is_backpressured(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == BACKPRESSURED
    }

    /// Busy, idle and backpressured time, in this order.
    pub(crate) fn shares(&self) -> TimeShares {
        let started = self.started_ns.load(Ordering::Relaxed);
        if started == i64::MIN {
            return TimeShares::default();
        }
        let now = self.clock.monotonic_ns();
        let mut idle = self.idle_ns.load(Ordering::Relaxed);
        let mut backpressured = self.backpressured_ns.load(Ordering::Relaxed);
        let open = (now - self.waiting_since_ns.load(Ordering::Relaxed)).max(0);
        match self.waiting.load(Ordering::Relaxed) {
            IDLE => idle += open,
            BACKPRESSURED => backpressured += open,
            _ => {}
        }
        let spent_ns = [(now - started - idle - backpressured).max(0), idle, backpressured];
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now - sample.at_ns;
        if elapsed >= 1_000_000_000 {
            let rate = |i: usize| (spent_ns[i] - sample.spent_ns[i]).clamp(0, elapsed) * 1_000 / elapsed;
            *sample = Sample { at_ns: now, spent_ns, per_second_ms: [rate(0), rate(1), rate(2)] };
        }
        TimeShares { accumulated_ms: spent_ns.map(|ns| ns / 1_000_000), per_second_ms: sample.per_second_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_time::ManualClock;

    #[test]
    fn waits_are_told_apart_and_the_rest_is_busy() {
        let clock = Arc::new(ManualClock::new(0));
        let times = TaskTimes::new(clock.clone());
        times.start();
        clock.advance_ms(200);
        let waiting = times.idle();
        clock.advance_ms(300);
        drop(waiting);
        let waiting = times.backpressured();
        assert!(times.is_backpressured());
        clock.advance_ms(500);
        assert_eq!(times.shares().accumulated_ms, [200, 300, 500], "a wait counts while it lasts");
        assert_eq!(times.shares().per_second_ms, [200, 300, 500]);
        drop(waiting);
        clock.advance_ms(1_000);
        assert_eq!(times.shares().per_second_ms, [1_000, 0, 0]);
    }
}
