//! DISTINCT: an aggregate behind a set of the values it has seen.
//!
//! A value reaches the aggregate when it is new to its group, and is taken back when its last
//! occurrence is. The state is the set itself, so that partial results merge exactly. A checkpoint has what the
//! aggregate holds, too: values taken back left traces there, such as the order of the others.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::{Error, Result};

use super::rows::{RowCodec, count_state, counting, for_each, items, list_of, list_state};

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

    fn grow(&mut self, n: usize) {
        self.groups.resize_with(n.max(self.groups.len()), Vec::new);
    }

    /// Adds the sets of some states; the values that are new to their groups, and these groups.
    fn add_sets(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<(ArrayRef, Vec<u32>)> {
        self.grow(n);
        let values = list_state(states, 0)?;
        let counted = if self.retracts && states.len() > 1 { Some(count_state(states, 1)?) } else { None };
        let rows = self.codec.encode(values.values())?;
        let (mut fresh, mut fresh_groups) = (Vec::new(), Vec::new());
        for (row, group) in groups.iter().enumerate() {
            for (nth, i) in items(values, row).enumerate() {
                let count = counted.map_or(1, |(lists, counts)| counts.value(items(lists, row).start + nth));
                if self.add(*group as usize, rows.row(i).data(), count) {
                    fresh.push(i as u32);
                    fresh_groups.push(*group);
                }
            }
        }
        Ok((take(values.values(), &UInt32Array::from(fresh), None)?, fresh_groups))
    }

    /// Adds `count` occurrences of each row; the rows that changed the sets, and their groups.
    fn change(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        count: i64,
    ) -> Result<(Vec<ArrayRef>, Vec<u32>), RowError> {
        let failed = |e: tidegate_api::Error| RowError::new(0, e.to_string());
        self.grow(n);
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
        let (values, groups) = self.add_sets(states, groups, n)?;
        Ok(self.inner.update(&[values], None, &groups, n)?)
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| &self.groups[*g as usize]);
        let values = self.codec.decode_lists(held().map(|l| Some(l.iter().map(|e| &e.bytes[..]))))?;
        if !self.retracts {
            return Ok(vec![Arc::new(values)]);
        }
        let counts = Int64Array::from_iter_values(held().flat_map(|l| l.iter().map(|e| e.count)));
        let counts = list_of(Arc::new(counts), held().map(Vec::len), None)?;
        Ok(vec![Arc::new(values), Arc::new(counts)])
    }

    fn save(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut saved = self.state(groups)?;
        saved.extend(self.inner.save(groups)?);
        Ok(saved)
    }

    fn load(&mut self, saved: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        let own = if self.retracts { 2 } else { 1 };
        let inner = saved.get(own..).ok_or_else(|| Error::internal("a saved DISTINCT without its aggregate"))?;
        self.add_sets(saved, groups, n)?;
        self.inner.load(inner, groups, n)
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
