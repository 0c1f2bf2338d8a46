//! Sums of group sets that overlap in windows.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use tidegate_api::Result;

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS};
use super::group_set::GroupSet;
use crate::table::GroupTable;

/// Keys that several group sets share, so that sets which overlap in windows are added by number instead
/// of by key. It forgets: rebuilt once most of its keys are in no set any more.
pub(super) struct Dictionary {
    key_types: Vec<DataType>,
    table: GroupTable,
    /// For each set (by slice end) the number here of each of its groups.
    numbers: BTreeMap<i64, Vec<u32>>,
}

impl Dictionary {
    pub(super) fn new(key_types: Vec<DataType>) -> Result<Self> {
        Ok(Dictionary { table: GroupTable::new(&key_types)?, key_types, numbers: BTreeMap::new() })
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let numbers = self.numbers.values().map(|numbers| numbers.capacity() * size_of::<u32>());
        self.table.memory_bytes() + numbers.sum::<usize>()
    }

    /// The sum of some sets, named by slice end.
    pub(super) fn sum<'a>(
        &mut self,
        set: &AggregateSet,
        parts: impl Iterator<Item = (i64, &'a GroupSet)> + Clone,
    ) -> Result<Summed> {
        let mut fresh = Vec::new();
        for (end, part) in parts.clone() {
            let numbers = self.numbers.entry(end).or_default();
            if numbers.len() < part.len() {
                let new: Vec<u32> = (numbers.len() as u32..part.len() as u32).collect();
                self.table.intern(&part.keys(&new)?, new.len(), &mut fresh)?;
                numbers.extend_from_slice(&fresh);
            }
        }
        let n = self.table.len();
        let mut summed = Summed { accumulators: set.accumulators()?, row_counts: vec![0; n] };
        for (end, part) in parts {
            let numbers = &self.numbers[&end];
            numbers.iter().zip(part.row_counts()).for_each(|(g, c)| summed.row_counts[*g as usize] += c);
            summed.accumulators.merge_from(part.accumulators(), &part.all(), numbers, n)?;
        }
        Ok(summed)
    }

    /// The groups of a sum that hold rows, in chunks of a batch.
    pub(super) fn chunks(&self, summed: &Summed) -> Vec<Vec<u32>> {
        let live: Vec<u32> = (0..self.table.len() as u32).filter(|g| summed.row_counts[*g as usize] != 0).collect();
        live.chunks(BATCH_ROWS).map(<[u32]>::to_vec).collect()
    }

    /// Keys and results of these groups of a sum.
    pub(super) fn results(&self, summed: &Summed, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.table.keys(groups)?;
        columns.extend(summed.accumulators.results(groups)?);
        Ok(columns)
    }

    /// Forgets the sets up to this slice end, and their keys if `live` are all that is left.
    pub(super) fn forget(&mut self, expired: i64, live: usize) -> Result<()> {
        self.numbers = self.numbers.split_off(&expired.saturating_add(1));
        if self.table.len() > 2 * live + 4_096 {
            self.table = GroupTable::new(&self.key_types)?;
            self.numbers.clear();
        }
        Ok(())
    }
}

/// The sum of some group sets, by the numbers of a [`Dictionary`].
pub(super) struct Summed {
    accumulators: Accumulators,
    row_counts: Vec<i64>,
}
