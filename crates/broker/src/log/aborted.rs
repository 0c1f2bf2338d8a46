//! Which stretches of the log belong to aborted transactions, for consumers that read committed records only.

use serde::{Deserialize, Serialize};

/// An aborted transaction in a partition.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct Aborted {
    /// Whose it was.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first: i64,
    /// Offset of its end marker.
    pub marker: i64,
    /// The last stable offset once it had ended: whatever ends later begins there or after it.
    pub stable: i64,
}

/// The aborted transactions, in the order of their end markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AbortedIndex {
    entries: Vec<Aborted>,
}

impl AbortedIndex {
    /// Adds the transaction that has just ended.
    pub(super) fn push(&mut self, aborted: Aborted) {
        self.entries.push(aborted);
    }

    /// Those that have records or a marker in `from..until`.
    pub(super) fn overlapping(&self, from: i64, until: i64) -> Vec<Aborted> {
        let mut found = Vec::new();
        for entry in &self.entries[self.entries.partition_point(|entry| entry.marker < from)..] {
            if entry.first < until {
                found.push(*entry);
            }
            if entry.stable >= until {
                break;
            }
        }
        found
    }

    /// Those whose marker is in `from..until`, for the file beside the segment that holds the markers.
    pub(super) fn ended_within(&self, from: i64, until: i64) -> &[Aborted] {
        let start = self.entries.partition_point(|entry| entry.marker < from);
        let end = self.entries.partition_point(|entry| entry.marker < until);
        &self.entries[start..end.max(start)]
    }

    /// Keeps those for which `keep` holds: the markers of the others are no longer in the log.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Aborted) -> bool) {
        self.entries.retain(keep);
    }
}
