//! Keys that expire: `table.exec.state.ttl`.
//!
//! As Flink's state with a time to live, updated on create and write, never returned once expired. The clock is
//! the machine's, read once for each batch.

use std::sync::Arc;

/// How often expired keys that nobody meets are looked for, in times of a time to live.
const SWEEPS: i64 = 4;

/// When the groups of a table expire, by slot.
pub(super) struct TimeToLive {
    ttl_ms: i64,
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// The time of the batch at hand.
    now_ms: i64,
    expires_ms: Vec<i64>,
    next_sweep_ms: i64,
}

impl TimeToLive {
    pub(super) fn new(ttl_ms: i64, clock: Arc<dyn Fn() -> i64 + Send + Sync>) -> TimeToLive {
        TimeToLive { ttl_ms, clock, now_ms: i64::MIN, expires_ms: Vec::new(), next_sweep_ms: i64::MIN }
    }

    /// Reads the clock, which does not go back here.
    pub(super) fn read_clock(&mut self) -> i64 {
        self.now_ms = self.now_ms.max((self.clock)());
        self.now_ms
    }

    /// True if this slot is dead.
    pub(super) fn is_expired(&self, slot: u32) -> bool {
        self.expires_ms.get(slot as usize).is_some_and(|at| *at <= self.now_ms)
    }

    /// A slot is written: it lives for another while.
    pub(super) fn write(&mut self, slot: u32) {
        let expires_ms = self.now_ms.saturating_add(self.ttl_ms);
        match self.expires_ms.get_mut(slot as usize) {
            Some(at) => *at = expires_ms,
            // Slots are given out one after the other.
            None => self.expires_ms.push(expires_ms),
        }
    }

    /// New slots that were saved; one that was saved without an end gets one.
    pub(super) fn add(&mut self, expires_ms: &[Option<i64>]) {
        let end = self.now_ms.max(0).saturating_add(self.ttl_ms);
        self.expires_ms.extend(expires_ms.iter().map(|at| at.unwrap_or(end)));
    }

    /// When these slots expire.
    pub(super) fn of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.expires_ms[*slot as usize]).collect()
    }

    /// Only these slots are left, numbered from 0 in this order.
    pub(super) fn renumber(&mut self, kept: &[u32]) {
        self.expires_ms = self.of(kept);
    }

    /// True if it is time to look for expired keys that nobody meets.
    pub(super) fn is_sweep_due(&mut self) -> bool {
        if self.now_ms < self.next_sweep_ms {
            return false;
        }
        self.next_sweep_ms = self.now_ms.saturating_add((self.ttl_ms / SWEEPS).max(1));
        true
    }
}
