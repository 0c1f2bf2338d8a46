//! Which groups of a table stay in memory, and what they take there.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use tidegate_api::Result;

use super::aggregates::BATCH_ROWS;

/// How often a group must have been met to stay.
const MET_AGAIN: usize = 2;
/// How often a group can be met before it makes no difference any more.
const COUNTS: usize = 256;
/// Groups whose size is looked at.
const SAMPLE: usize = 64;
/// Bytes of a group beside its key and its accumulators: counts, numbers, epochs.
const GROUP_BYTES: usize = 32;
/// What a value of no fixed width takes beside its bytes: its place, its length, the allocator's part.
const VALUE_BYTES: usize = 48;

/// The part of the memory for tables that groups take when they are written at once.
const WRITTEN_AT_ONCE: usize = 16;
/// How few and how many groups are written at once. A lookup asks every batch that is not in a file yet, so there
/// should not be many.
const WRITTEN_GROUPS: std::ops::RangeInclusive<usize> = 256..=32_768;

/// How often each group was met lately. Off unless groups may leave.
#[derive(Default)]
pub(super) struct Recency {
    is_on: bool,
    counts: Vec<u8>,
}

impl Recency {
    /// Counts if `is_on`; else costs nothing.
    pub(super) fn new(is_on: bool) -> Recency {
        Recency { is_on, counts: Vec::new() }
    }

    /// These groups of a table with `count` groups are met.
    pub(super) fn touch(&mut self, groups: &[u32], count: usize) {
        if !self.is_on {
            return;
        }
        self.counts.resize(count.max(self.counts.len()), 0);
        for group in groups {
            let met = &mut self.counts[*group as usize];
            *met = met.saturating_add(1);
        }
    }

    /// Those of `groups` that were met most often, at most `keep` of them, in their order. A group that was met but
    /// once is not worth taking along: if all are like that, the next is as likely to be any other.
    pub(super) fn hottest(&self, groups: &[u32], keep: usize) -> Vec<u32> {
        let count = |group: &u32| usize::from(self.counts.get(*group as usize).copied().unwrap_or(0));
        let mut of_count = [0_usize; COUNTS];
        groups.iter().for_each(|group| of_count[count(group)] += 1);
        // All above the threshold stay, and of those that meet it as many as there is room for.
        let (mut threshold, mut above) = (COUNTS, 0);
        while threshold > MET_AGAIN && above + of_count[threshold - 1] <= keep {
            threshold -= 1;
            above += of_count[threshold];
        }
        let mut room = if threshold > MET_AGAIN { keep - above } else { 0 };
        let stays = |group: &&u32| {
            let count = count(group);
            let is_last = count + 1 == threshold && room > 0;
            room -= usize::from(is_last);
            count >= threshold || is_last
        };
        groups.iter().filter(stays).copied().collect()
    }

    /// Only these groups are left, numbered from 0 in this order; what they were met before counts half.
    pub(super) fn renumber(&mut self, kept: &[u32]) {
        let half = |group: &u32| self.counts.get(*group as usize).copied().unwrap_or(0) / 2;
        self.counts = kept.iter().map(half).collect();
    }
}

/// What the accumulators of a group take on average, by a sample of what they would save.
#[derive(Default)]
pub(super) struct GroupSize {
    bytes: usize,
    /// Number of groups when the sample was taken.
    sampled_at: usize,
    asked: u32,
}

impl GroupSize {
    /// The average as it was seen last, 0 before.
    pub(super) fn last(&self) -> usize {
        self.bytes
    }

    /// How many groups are to be written as one batch, if `table_bytes` is the memory there is for tables.
    pub(super) fn written_at_once(&self, table_bytes: Option<usize>) -> usize {
        let bytes = table_bytes.filter(|_| self.bytes > 0).map(|all| all / WRITTEN_AT_ONCE);
        bytes.map_or(BATCH_ROWS, |bytes| (bytes / self.bytes).clamp(*WRITTEN_GROUPS.start(), *WRITTEN_GROUPS.end()))
    }

    /// The average in bytes over `groups` groups; `save` gives what some of them would save. A sample is taken
    /// when the table has grown or shrunk, and now and then because groups grow.
    pub(super) fn average(
        &mut self,
        groups: usize,
        save: impl FnOnce(&[u32]) -> Result<Vec<ArrayRef>>,
    ) -> Result<usize> {
        self.asked += 1;
        let is_off = groups.abs_diff(self.sampled_at) * 4 > self.sampled_at || self.asked.is_multiple_of(16);
        if groups > 0 && is_off {
            let step = groups.div_ceil(SAMPLE);
            let sample: Vec<u32> = (0..groups).step_by(step).map(|group| group as u32).collect();
            let bytes: usize = save(&sample)?.iter().map(held_bytes).sum();
            self.bytes = bytes / sample.len() + GROUP_BYTES;
            self.sampled_at = groups;
        }
        Ok(self.bytes)
    }
}

/// What the values of a column take as an accumulator holds them, with the slack of growing vectors.
fn held_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8 | DataType::Binary => column_bytes(column) + VALUE_BYTES * column.len(),
        DataType::List(_) | DataType::Map(_, _) => {
            let data = column.to_data();
            let values: usize = data.child_data().iter().map(|child| child.len()).sum();
            2 * column_bytes(column) + VALUE_BYTES * (column.len() + values)
        }
        _ => column_bytes(column) * 3 / 2,
    }
}

/// What the values of a column take.
pub(super) fn column_bytes(column: &ArrayRef) -> usize {
    column.to_data().get_slice_memory_size().unwrap_or(0)
}

/// When a table that may let groups go is to be looked at: not before it can have grown by much.
pub(super) struct Room {
    budget_bytes: usize,
    /// At most this much has been added since it was looked at last.
    added: usize,
}

/// A row makes a group of this size at most, beside the bytes it brings.
const ROW_BYTES: usize = 128;
/// The part of the budget that may be added unseen.
const UNSEEN: usize = 16;

impl Room {
    pub(super) fn new(budget_bytes: usize) -> Room {
        Room { budget_bytes, added: 0 }
    }

    /// These rows came in; true if it is time to look how large the tables are.
    pub(super) fn added(&mut self, batch: &tidegate_api::Batch) -> bool {
        let columns = batch.columns.columns().iter();
        self.added += columns.map(column_bytes).sum::<usize>() + ROW_BYTES * batch.num_rows();
        let is_due = self.added > self.budget_bytes / UNSEEN;
        if is_due {
            self.added = 0;
        }
        is_due
    }

    /// The memory in bytes there is in all.
    pub(super) fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// How many of `groups` groups may stay, if tables of `bytes` bytes are too large: half of what would fit,
    /// so that the next look is worth it.
    pub(super) fn keep(&self, bytes: usize, groups: usize) -> Option<usize> {
        let is_full = bytes > self.budget_bytes;
        is_full.then(|| (groups as u128 * (self.budget_bytes / 2) as u128 / bytes as u128) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_met_often_stay() {
        let mut recency = Recency::new(true);
        recency.touch(&[0, 1, 1, 2, 2, 2, 4, 4], 5);
        let all = [0, 1, 2, 3, 4];
        assert_eq!(recency.hottest(&all, 0), [0; 0]);
        assert_eq!(recency.hottest(&all, 1), [2]);
        assert_eq!(recency.hottest(&all, 2), [1, 2]);
        assert_eq!(recency.hottest(&all, 3), [1, 2, 4]);
        assert_eq!(recency.hottest(&all, 9), [1, 2, 4], "once is not often");
        assert_eq!(recency.hottest(&[0, 3], 1), [0; 0]);
    }

    #[test]
    fn what_was_met_long_ago_counts_less() {
        let mut recency = Recency::new(true);
        recency.touch(&[0, 0, 0, 0, 1, 1], 3);
        recency.renumber(&[1, 0]);
        recency.touch(&[0, 0], 2);
        assert_eq!(recency.hottest(&[0, 1], 1), [0]);
    }

    #[test]
    fn large_groups_are_written_in_small_batches() {
        let of = |bytes| GroupSize { bytes, ..GroupSize::default() };
        assert_eq!(of(0).written_at_once(Some(1 << 30)), BATCH_ROWS, "the size is not known yet");
        assert_eq!(of(200).written_at_once(None), BATCH_ROWS);
        assert_eq!(of(200).written_at_once(Some(168 << 20)), 32_768);
        assert_eq!(of(200).written_at_once(Some(16 << 20)), (1 << 20) / 200);
        assert_eq!(of(1 << 20).written_at_once(Some(16 << 20)), 256);
    }

    #[test]
    fn nothing_is_counted_when_off() {
        let mut recency = Recency::new(false);
        recency.touch(&[0, 1], 2);
        assert!(recency.counts.is_empty());
    }

    #[test]
    fn a_full_table_keeps_half_of_what_fits() {
        let room = Room::new(1_000);
        assert_eq!(room.keep(1_000, 100), None);
        assert_eq!(room.keep(2_000, 100), Some(25));
    }
}
