//! The rows of one side that are in memory, by key and time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use tidegate_api::Timestamp;

use crate::operators::join::{HeldRows, Place};

/// A row that may still meet partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) time: Timestamp,
    /// Its number in the order of arrival at the operator, both sides together.
    pub(super) number: i64,
    pub(super) place: Place,
    /// Whether it has met a partner; only kept up if rows without one are wanted.
    pub(super) matched: bool,
}

/// What a row takes beside its columns, with its part of what finds it.
const ROW_BYTES: usize = 2 * size_of::<Row>() + size_of::<(Timestamp, u32)>();

/// See the module.
#[derive(Default)]
pub(super) struct SideRows {
    /// The rows of each key in the order of their times, and of their arrival among equal ones.
    by_key: Vec<VecDeque<Row>>,
    /// The earliest time of every key that has rows; and others, which were the earliest once.
    due: BinaryHeap<Reverse<(Timestamp, u32)>>,
    pub(super) held: HeldRows,
    len: usize,
}

impl SideRows {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// About the memory they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.held.bytes() + self.len * ROW_BYTES + self.by_key.len() * size_of::<VecDeque<Row>>()
    }

    /// Makes room for keys with numbers below `known`.
    pub(super) fn know(&mut self, known: usize) {
        if self.by_key.len() < known {
            self.by_key.resize_with(known, VecDeque::new);
        }
    }

    /// Adds a row of a key that is known.
    pub(super) fn insert(&mut self, key: u32, row: Row) {
        let rows = &mut self.by_key[key as usize];
        // Most rows come in the order of their times.
        let at = match rows.back() {
            Some(last) if last.time > row.time => rows.partition_point(|other| other.time <= row.time),
            _ => rows.len(),
        };
        if at == 0 {
            self.due.push(Reverse((row.time, key)));
        }
        rows.insert(at, row);
        self.len += 1;
    }

    /// Positions of the rows of a key with times from `first` to `last`.
    pub(super) fn between(&self, key: u32, first: Timestamp, last: Timestamp) -> Range<usize> {
        let Some(rows) = self.by_key.get(key as usize) else { return 0..0 };
        let start = rows.partition_point(|row| row.time < first);
        start..rows.partition_point(|row| row.time <= last).max(start)
    }

    /// A row by its position.
    pub(super) fn row(&self, key: u32, at: usize) -> &Row {
        &self.by_key[key as usize][at]
    }

    /// The same, to be changed.
    pub(super) fn row_mut(&mut self, key: u32, at: usize) -> &mut Row {
        &mut self.by_key[key as usize][at]
    }

    /// The rows of a key.
    pub(super) fn of_key(&self, key: u32) -> impl Iterator<Item = &Row> {
        self.by_key.get(key as usize).into_iter().flatten()
    }

    /// The times of all rows.
    pub(super) fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.by_key.iter().flatten().map(|row| row.time)
    }

    /// Takes rows with times up to `until` out, at most `most` of them, the earliest first but for equal keys. Their
    /// places are still to be let go.
    pub(super) fn take_over(&mut self, until: Timestamp, most: usize) -> Vec<Row> {
        let mut over = Vec::new();
        while over.len() < most {
            let Some(Reverse((time, key))) = self.due.peek().copied().filter(|next| next.0.0 <= until) else { break };
            self.due.pop();
            let rows = &mut self.by_key[key as usize];
            if rows.front().is_none_or(|first| first.time != time) {
                continue;
            }
            let count = rows.partition_point(|row| row.time <= until).min(most - over.len());
            over.extend(rows.drain(..count));
            match rows.front() {
                Some(first) => self.due.push(Reverse((first.time, key))),
                None => *rows = VecDeque::new(),
            }
        }
        self.len -= over.len();
        over
    }

    /// Takes all rows out but those for which `stays` holds; gives how many went, by time.
    pub(super) fn evict(&mut self, stays: impl Fn(Timestamp) -> bool, mut gone: impl FnMut(Timestamp)) {
        self.due.clear();
        for (key, rows) in self.by_key.iter_mut().enumerate() {
            rows.retain(|row| {
                let stays = stays(row.time);
                if !stays {
                    self.held.let_go(row.place.0);
                    self.len -= 1;
                    gone(row.time);
                }
                stays
            });
            rows.shrink_to_fit();
            if let Some(first) = rows.front() {
                self.due.push(Reverse((first.time, key as u32)));
            }
        }
    }

    /// True if a key has rows.
    pub(super) fn has(&self, key: u32) -> bool {
        self.by_key.get(key as usize).is_some_and(|rows| !rows.is_empty())
    }

    /// Only these keys are left, numbered from 0 in this order; the others have no rows.
    pub(super) fn renumber(&mut self, kept: &[u32]) {
        let take = |key: &u32| self.by_key.get_mut(*key as usize).map(std::mem::take).unwrap_or_default();
        self.by_key = kept.iter().map(take).collect();
        let first = |(key, rows): (usize, &VecDeque<Row>)| Some(Reverse((rows.front()?.time, key as u32)));
        self.due = self.by_key.iter().enumerate().filter_map(first).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: i64, number: i64) -> Row {
        Row { time, number, place: (0, 0), matched: false }
    }

    fn numbers(rows: &[Row]) -> Vec<i64> {
        rows.iter().map(|row| row.number).collect()
    }

    fn filled(rows: &[(u32, i64)]) -> SideRows {
        let mut side = SideRows::default();
        side.know(8);
        rows.iter().enumerate().for_each(|(i, (key, time))| side.insert(*key, row(*time, i as i64)));
        side
    }

    #[test]
    fn rows_of_a_key_lie_by_time_and_arrival() {
        let side = filled(&[(1, 5), (1, 9), (1, 5), (1, 7), (2, 6)]);
        let found: Vec<i64> = side.between(1, 5, 7).map(|at| side.row(1, at).number).collect();
        assert_eq!(found, [0, 2, 3]);
        assert_eq!(side.between(1, 10, 20), 4..4);
        assert!(side.between(1, 7, 6).is_empty() && side.between(100, 0, 9).is_empty());
    }

    #[test]
    fn rows_go_when_their_time_comes_whatever_came_before() {
        // The earliest row of key 1 comes last, twice.
        let mut side = filled(&[(1, 20), (1, 10), (2, 15), (1, 5), (3, 30)]);
        assert_eq!(numbers(&side.take_over(4, 9)), [0_i64; 0]);
        assert_eq!(numbers(&side.take_over(12, 9)), [3, 1]);
        side.insert(1, row(13, 5));
        assert_eq!(numbers(&side.take_over(20, 1)), [5]);
        assert_eq!(numbers(&side.take_over(20, 9)), [2, 0]);
        assert_eq!(numbers(&side.take_over(i64::MAX, 9)), [4]);
        assert_eq!((side.len(), side.due.len()), (0, 0));
    }

    #[test]
    fn what_is_left_after_others_went_still_goes_in_time() {
        let mut side = SideRows::default();
        side.know(5);
        let column: arrow::array::ArrayRef = std::sync::Arc::new(arrow::array::Int64Array::from(vec![0; 5]));
        let batch = side.held.hold(arrow::array::RecordBatch::try_from_iter([("v", column)]).unwrap(), 5);
        for (number, (key, time)) in [(1, 20), (1, 10), (2, 15), (4, 7), (4, 8)].into_iter().enumerate() {
            side.insert(key, Row { place: (batch, number as u32), ..row(time, number as i64) });
        }
        let mut gone = Vec::new();
        side.evict(|time| time < 15, |time| gone.push(time));
        gone.sort_unstable();
        assert_eq!((gone, side.len()), (vec![15, 20], 3));
        side.renumber(&[4, 1]);
        assert!(side.has(0) && side.has(1) && !side.has(2));
        assert_eq!(numbers(&side.take_over(9, 9)), [3, 4]);
        assert_eq!(numbers(&side.take_over(10, 9)), [1]);
    }
}
