//! Stores of several subtasks, each with its share of the key groups, which may be cut anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tidegate_api::Result;
use tidegate_state::{KeyGroupRange, MemoryDir, PageCache, RunSetDescriptor, RunStore, StoreOptions};

use super::stores::take_snapshot;
use crate::operator::{Operator, OperatorStates};
use crate::state::{KeyedLayout, OpenStore, OpenedStore, StoreFactory, Tracking};

/// Where the subtasks of one operator, and those that take over from them, keep their state.
#[derive(Clone, Default)]
pub(super) struct SharedStores {
    dir: MemoryDir,
    /// Numbers subtasks and snapshots; later ones have higher numbers.
    next: Arc<AtomicU64>,
    /// Memory for tables, if groups may leave it.
    table_bytes: Option<usize>,
}

/// A checkpoint of one subtask.
#[derive(Clone)]
pub(super) struct Snapshot {
    groups: KeyGroupRange,
    runs: BTreeMap<String, RunSetDescriptor>,
    /// What the operator returned.
    pub(super) kept: Value,
}

impl Snapshot {
    /// Whether a subtask of these key groups takes over from it.
    pub(super) fn concerns(&self, groups: KeyGroupRange) -> bool {
        self.groups.first < groups.end && groups.first < self.groups.end
    }
}

impl SharedStores {
    /// Empty ones.
    pub(super) fn new(table_bytes: Option<usize>) -> SharedStores {
        SharedStores { table_bytes, ..SharedStores::default() }
    }

    /// From the next subtasks on, tables have this much memory.
    pub(super) fn limit(&mut self, table_bytes: Option<usize>) {
        self.table_bytes = table_bytes;
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What a new subtask of these key groups is given, which goes on from `from`.
    pub(super) fn states(&self, groups: KeyGroupRange, from: &[Snapshot]) -> OperatorStates {
        let from = from.iter().filter(|old| old.concerns(groups)).map(|old| old.runs.clone()).collect();
        let subtask = Subtask { dir: self.dir.clone(), number: self.number(), groups, from };
        OperatorStates::new(Box::new(subtask), self.table_bytes, Tracking::Changed)
    }

    /// Takes a checkpoint of the subtask of these key groups.
    pub(super) fn snapshot(
        &self,
        operator: &mut dyn Operator,
        states: &OperatorStates,
        groups: KeyGroupRange,
    ) -> Snapshot {
        let (number, kept) = (self.number(), operator.checkpoint().unwrap());
        states.open().iter().for_each(|open| open.ask_for_snapshot(number));
        while !operator.save_some(1).unwrap() {}
        let taken = |open: OpenStore| (open.layout.name.to_owned(), take_snapshot(&open, number));
        Snapshot { groups, runs: states.open().into_iter().map(taken).collect(), kept }
    }
}

struct Subtask {
    dir: MemoryDir,
    number: u64,
    groups: KeyGroupRange,
    from: Vec<BTreeMap<String, RunSetDescriptor>>,
}

impl StoreFactory for Subtask {
    fn open(&self, layout: &KeyedLayout) -> Result<OpenedStore> {
        let file_prefix = format!("{}-{}", layout.name, self.number);
        let options = StoreOptions { file_prefix, ..StoreOptions::default() };
        let (dir, cache) = (Arc::new(self.dir.clone()), Arc::new(PageCache::new(1 << 20)));
        let old: Vec<RunSetDescriptor> = self.from.iter().filter_map(|runs| runs.get(layout.name)).cloned().collect();
        let store = match old.is_empty() {
            true => RunStore::new(dir, options, cache, self.groups),
            false => RunStore::restore(dir, options, cache, &old, self.groups).unwrap().0,
        };
        Ok(OpenedStore { store, folder: PathBuf::new(), restored: None, origin: None })
    }
}
