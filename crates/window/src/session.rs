//! Session windows: bursts that grow and melt into one another.

use tidegate_time::Timestamp;

/// An interval of the window grid: `[start, end)` in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindow {
    /// First millisecond.
    pub start: Timestamp,
    /// One past the last millisecond.
    pub end: Timestamp,
}

impl TimeWindow {
    /// The window `[start, end)`.
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        TimeWindow { start, end }
    }

    /// True if the two overlap or touch: in Flink a row exactly one gap after the last belongs to the
    /// same session.
    pub fn touches(self, other: TimeWindow) -> bool {
        self.start <= other.end && self.end >= other.start
    }

    /// The smallest window that holds both.
    pub fn cover(self, other: TimeWindow) -> TimeWindow {
        TimeWindow { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// What adding a window to a key's sessions does to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMerge {
    /// The session afterwards.
    pub window: TimeWindow,
    /// The sessions that melt into it, as positions in the list; empty if it stands alone.
    pub absorbed: std::ops::Range<usize>,
}

/// Finds what `new` does to `sessions`, which are sorted and do not touch one another. The caller
/// replaces the absorbed ones by the result, which keeps the list so.
pub fn merge_session(sessions: &[TimeWindow], new: TimeWindow) -> SessionMerge {
    let first = sessions.partition_point(|s| s.end < new.start);
    let count = sessions[first..].iter().take_while(|s| s.touches(new)).count();
    let absorbed = first..first + count;
    let window = sessions[absorbed.clone()].iter().fold(new, |w, s| w.cover(*s));
    SessionMerge { window, absorbed }
}
