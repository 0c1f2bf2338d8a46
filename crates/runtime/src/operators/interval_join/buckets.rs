//! Time in pieces: what a side has in the state lies in a namespace for each, and goes with it.

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate_api::Timestamp;

/// Buckets that the partners of a row lie in, about.
const PIECES: i64 = 8;
/// A bucket is not shorter than this, in milliseconds: each has files of its own.
const SHORTEST_MS: i64 = 10_000;

/// A bucket with rows in the state.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Rows that are in the state alone.
    cold: u64,
    /// Whether its rows have come back to stay until they are over.
    is_loaded: bool,
}

/// The buckets of a side, named by their ends.
pub(super) struct Buckets {
    width: i64,
    saved: BTreeMap<i64, Bucket>,
}

impl Buckets {
    /// Buckets for rows whose partners lie within a span of so many milliseconds.
    pub(super) fn new(span: i64) -> Buckets {
        Buckets { width: (span / PIECES).max(SHORTEST_MS), saved: BTreeMap::new() }
    }

    /// The bucket of a time.
    pub(super) fn of(&self, time: Timestamp) -> i64 {
        time.div_euclid(self.width).saturating_add(1).saturating_mul(self.width)
    }

    /// The times of a bucket.
    pub(super) fn span(&self, bucket: i64) -> Range<Timestamp> {
        bucket.saturating_sub(self.width)..bucket
    }

    /// The state has rows of this bucket.
    pub(super) fn add_saved(&mut self, bucket: i64) {
        self.saved.entry(bucket).or_default();
    }

    /// Rows of this bucket are in the state alone from now on.
    pub(super) fn add_cold(&mut self, bucket: i64, rows: u64) {
        self.saved.entry(bucket).or_default().cold += rows;
    }

    /// The rows of this bucket have come back to stay.
    pub(super) fn loaded(&mut self, bucket: i64) {
        let bucket = self.saved.entry(bucket).or_default();
        (bucket.cold, bucket.is_loaded) = (0, true);
    }

    /// Whether the rows of the bucket of this time have come back to stay.
    pub(super) fn is_loaded(&self, time: Timestamp) -> bool {
        self.saved.get(&self.of(time)).is_some_and(|bucket| bucket.is_loaded)
    }

    /// Rows that are in the state alone. Those that are over count until their bucket goes.
    pub(super) fn cold(&self) -> u64 {
        self.saved.values().map(|bucket| bucket.cold).sum()
    }

    /// Each bucket with rows in the state alone, and how many.
    pub(super) fn all_cold(&self) -> impl Iterator<Item = (i64, u64)> {
        self.saved.iter().map(|(end, bucket)| (*end, bucket.cold)).filter(|(_, cold)| *cold > 0)
    }

    /// The buckets with rows in the state alone that hold times from `first` to `last`.
    pub(super) fn cold_between(&self, first: Timestamp, last: Timestamp) -> Vec<i64> {
        let near = self.all_cold().map(|(end, _)| end).filter(|end| first < *end && self.span(*end).start <= last);
        near.collect()
    }

    /// The first bucket with rows in the state alone of which some have times up to `until`.
    pub(super) fn first_cold(&self, until: Timestamp) -> Option<i64> {
        let (end, _) = self.all_cold().next()?;
        (self.span(end).start <= until).then_some(end)
    }

    /// Takes the buckets out whose times all are at `until` or before.
    pub(super) fn take_over(&mut self, until: Timestamp) -> Vec<i64> {
        let mut over = Vec::new();
        while let Some(first) = self.saved.first_entry().filter(|first| first.key().saturating_sub(1) <= until) {
            over.push(*first.key());
            first.remove();
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_an_eighth_of_the_span_but_not_too_short() {
        assert_eq!(Buckets::new(0).width, 10_000);
        let buckets = Buckets::new(8 * 3_600_000);
        assert_eq!(buckets.of(0), 3_600_000);
        assert_eq!(buckets.of(-1), 0);
        assert_eq!(buckets.span(buckets.of(3_600_000)), 3_600_000..7_200_000);
        assert!(buckets.span(buckets.of(i64::MAX)).end == i64::MAX);
    }

    #[test]
    fn cold_buckets_are_found_by_the_times_they_hold() {
        let mut buckets = Buckets::new(0);
        [10_000, 20_000, 40_000].into_iter().for_each(|bucket| buckets.add_cold(bucket, 2));
        buckets.add_saved(30_000);
        assert_eq!(buckets.cold_between(9_999, 10_000), [10_000, 20_000]);
        assert_eq!(buckets.cold_between(20_000, 29_999), [0_i64; 0]);
        assert_eq!((buckets.first_cold(-1), buckets.first_cold(0)), (None, Some(10_000)));
        buckets.loaded(10_000);
        assert!(buckets.is_loaded(9_999) && !buckets.is_loaded(10_000));
        assert_eq!((buckets.cold(), buckets.first_cold(10_000)), (4, Some(20_000)));
        assert_eq!(buckets.take_over(19_998), [10_000]);
        assert_eq!(buckets.take_over(i64::MAX), [20_000, 30_000, 40_000]);
    }
}
