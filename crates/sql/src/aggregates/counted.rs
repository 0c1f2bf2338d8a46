//! For each group its values in order, and how often each is there.
//!
//! What MIN and MAX with retraction and PERCENTILE keep. A value taken back before it came counts below zero
//! until it comes: changes of several inputs may overtake each other. The state says these counts too, so that
//! merging it into an empty group restores the group exactly.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tidegate_api::Result;

use super::rows::list_of;

/// Values of type `K` with their counts, none of them zero.
pub(super) struct Counted<K> {
    groups: Vec<BTreeMap<K, i64>>,
}

impl<K: Ord> Counted<K> {
    /// No groups.
    pub(super) fn new() -> Self {
        Counted { groups: Vec::new() }
    }

    /// Makes the groups `0 .. n`.
    pub(super) fn grow(&mut self, n: usize) {
        self.groups.resize_with(n.max(self.groups.len()), BTreeMap::new);
    }

    /// Adds `count` occurrences of `value`; fewer than none take it back.
    pub(super) fn add<V>(&mut self, group: usize, value: &V, count: i64)
    where
        K: Borrow<V> + for<'a> From<&'a V>,
        V: Ord + ?Sized,
    {
        let held = &mut self.groups[group];
        match held.get_mut(value) {
            Some(c) => {
                *c += count;
                if *c == 0 {
                    held.remove(value);
                }
            }
            None => {
                held.insert(value.into(), count);
            }
        }
    }

    /// The values of a group.
    pub(super) fn of(&self, group: u32) -> &BTreeMap<K, i64> {
        &self.groups[group as usize]
    }

    /// The counts of these groups, a list each.
    pub(super) fn counts(&self, groups: &[u32]) -> Result<ArrayRef> {
        let held = || groups.iter().map(|g| self.of(*g));
        let counts = Int64Array::from_iter_values(held().flat_map(|m| m.values().copied()));
        Ok(Arc::new(list_of(Arc::new(counts), held().map(BTreeMap::len), None)?))
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }
}
