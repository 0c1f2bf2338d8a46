//! DISTINCT: an aggregate behind a set of the values it has seen.
//!
//! A value reaches the aggregate when it is new to its group, and is taken back when its last
//! occurrence is. The state is the set itself, so that partial results merge exactly.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use tidegate_api::Result;
use tidegate_api::function::{GroupedAccumulator, RowError};

use super::extreme::counts_beside;
use super::rows::{RowCodec, counting, for_each, list_state};

struct Entry {
    bytes: Box<[u8]>,
    hash: u64,
    count: i64,
}

/// Where an entry lies.
struct Place {
    hash: u64,
    group: u32,
    position: u32,
}

/// An aggregate over distinct values.
pub(super) struct Distinct {
    inner: Box<dyn GroupedAccumulator>,
    codec: RowCodec,
    hasher: FixedState,
    table: HashTable<Place>,
    /// For each group its values in the order they came.
    groups: Vec<Vec<Entry>>,
    retracts: bool,
}

impl Distinct {
    /// `inner` over the distinct values of the Arrow type `ty`.
    pub(super) fn new(inner: Box<dyn GroupedAccumulator>, ty: &DataType, retracts: bool) -> Result<Self> {
        Ok(Distinct {
            inner,
            codec: RowCodec::new(ty)?,
            hasher: FixedState::with_seed(11),
            table: HashTable::new(),
            groups: Vec::new(),
            retracts,
        })
    }

    /// Adds `count` occurrences; true if the value appeared in its group or went from it.
    fn add(&mut self, group: usize, bytes: &[u8], count: i64) -> bool {
        let hash = self.hasher.hash_one((group, bytes));
        let groups = &mut self.groups;
        let is_it = |p: &Place| {
            p.hash == hash && p.group as usize == group && *groups[group][p.position as usize].bytes == *bytes
        };
        if let Some(place) = self.table.find(hash, is_it) {
            let position = place.position as usize;
            let entry = &mut groups[group][position];
            entry.count += count;
            if entry.count > 0 {
                return false;
            }
            self.remove(group, position, hash);
            return true;
        }
        if count <= 0 {
            // Takes back what never came: nothing to take.
            return false;
        }
        let position = groups[group].len() as u32;
        groups[group].push(Entry { bytes: bytes.into(), hash, count });
        self.table.insert_unique(hash, Place { hash, group: group as u32, position }, |p| p.hash);
        true
    }

    fn remove(&mut self, group: usize, position: usize, hash: u64) {
        let at = |position: usize| move |p: &Place| p.group as usize == group && p.position as usize == position;
        if let Ok(found) = self.table.find_entry(hash, at(position)) {
            found.remove();
        }
        let entries = &mut self.groups[group];
        entries.swap_remove(position);
        let last = entries.len();
        if let Some(moved) = entries.get(position)
            && let Some(place) = self.table.find_mut(moved.hash, at(last))
        {
            place.position = position as u32;
        }
    }

    fn change(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        count: i64,
    ) -> Result<(Vec<ArrayRef>, Vec<u32>), RowError> {
        let failed = |e: tidegate_api::Error| RowError::new(0, e.to_string());
        self.groups.resize_with(n.max(self.groups.len()), Vec::new);
        let rows = self.codec.encode(&args[0]).map_err(failed)?;
        let mask = counting(selected, None);
        let mut changed = Vec::new();
        for_each(groups, mask.as_ref(), |row, g| {
            if self.add(g, rows.row(row).data(), count) {
                changed.push(row as u32);
            }
        });
        let their_groups = changed.iter().map(|r| groups[*r as usize]).collect();
        let index = UInt32Array::from(changed);
        let taken: Result<Vec<_>, _> = args.iter().map(|a| take(a, &index, None)).collect();
        Ok((taken.map_err(|e| failed(e.into()))?, their_groups))
    }
}

impl GroupedAccumulator for Distinct {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        let (args, groups) = self.change(args, selected, groups, n, 1)?;
        self.inner.update(&args, None, &groups, n)
    }

    fn retract(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        let (args, groups) = self.change(args, selected, groups, n, -1)?;
        self.inner.retract(&args, None, &groups, n)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.groups.resize_with(n.max(self.groups.len()), Vec::new);
        let lists = list_state(states, 0)?;
        let counts = states.get(1).map(|_| list_state(states, 1)).transpose()?;
        let counts = counts.map(|c| c.values().as_primitive::<Int64Type>());
        let rows = self.codec.encode(lists.values())?;
        let (mut fresh, mut fresh_groups) = (Vec::new(), Vec::new());
        for (row, group) in groups.iter().enumerate() {
            for i in lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize {
                if self.add(*group as usize, rows.row(i).data(), counts.map_or(1, |c| c.value(i))) {
                    fresh.push(i as u32);
                    fresh_groups.push(*group);
                }
            }
        }
        let values = take(lists.values(), &UInt32Array::from(fresh), None)?;
        Ok(self.inner.update(&[values], None, &fresh_groups, n)?)
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| &self.groups[*g as usize]);
        let values = self.codec.decode_lists(held().map(|l| Some(l.iter().map(|e| &e.bytes[..]))))?;
        if !self.retracts {
            return Ok(vec![Arc::new(values)]);
        }
        let counts = Int64Array::from_iter_values(held().flat_map(|l| l.iter().map(|e| e.count)));
        let counts = counts_beside(&values, counts)?;
        Ok(vec![Arc::new(values), counts])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        self.inner.evaluate(groups)
    }

    fn clear(&mut self) {
        self.inner.clear();
        self.table.clear();
        self.groups.clear();
    }
}
