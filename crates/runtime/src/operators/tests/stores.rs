//! Stores in memory that survive the operator that filled them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate_api::Result;
use tidegate_state::{KeyGroupRange, MemoryDir, PageCache, RunSetDescriptor, RunStore, StoreOptions};

use crate::operator::OperatorStates;
use crate::state::{KeyedLayout, OpenStore, OpenedStore, StoreFactory, Tracking};

/// The stores of one operator, with the last snapshot of each.
#[derive(Clone, Default)]
pub(super) struct TestStores {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    dir: MemoryDir,
    attempt: u64,
    /// Snapshots asked for so far.
    asked: u64,
    /// Memory for tables, if groups may leave it.
    table_bytes: Option<usize>,
    /// Whether checkpoints write everything.
    writes_whole: bool,
    snapshots: BTreeMap<String, RunSetDescriptor>,
    /// Of the operator made last.
    states: OperatorStates,
}

impl TestStores {
    /// What a new operator is given.
    pub(super) fn states(&self) -> OperatorStates {
        let mut kept = self.kept.lock().unwrap();
        let tracking = if kept.writes_whole { Tracking::Whole } else { Tracking::Changed };
        let states = OperatorStates::new(Box::new(self.clone()), kept.table_bytes, tracking);
        kept.attempt += 1;
        kept.states = states.clone();
        states
    }

    /// From the next operator on, checkpoints write everything and not only what changed.
    pub(super) fn write_whole(&self) {
        self.kept.lock().unwrap().writes_whole = true;
    }

    /// From the next operator on, tables have this much memory.
    pub(super) fn limit(&self, table_bytes: Option<usize>) {
        self.kept.lock().unwrap().table_bytes = table_bytes;
    }

    /// A barrier has passed: every store that the last operator opened is to give a snapshot.
    pub(super) fn ask(&self) {
        let mut kept = self.kept.lock().unwrap();
        kept.asked += 1;
        kept.states.open().iter().for_each(|open| open.ask_for_snapshot(kept.asked));
    }

    /// What is written from here on is not part of them.
    pub(super) fn begin(&self) {
        let kept = self.kept.lock().unwrap();
        kept.states.open().iter().for_each(|open| open.begin_snapshot().unwrap());
    }

    /// Takes these snapshots. The operator has written what belongs to them.
    pub(super) fn take(&self) {
        let mut kept = self.kept.lock().unwrap();
        for open in kept.states.open() {
            let taken = take_snapshot(&open, kept.asked);
            kept.snapshots.insert(open.layout.name.to_owned(), taken);
        }
    }
}

/// Takes the snapshot a store was asked for.
pub(super) fn take_snapshot(open: &OpenStore, id: u64) -> RunSetDescriptor {
    open.begin_snapshot().unwrap();
    let mut store = open.store.lock().unwrap();
    store.flush(0).unwrap();
    store.take_snapshot(id).unwrap()
}

impl StoreFactory for TestStores {
    fn open(&self, layout: &KeyedLayout) -> Result<OpenedStore> {
        let kept = self.kept.lock().unwrap();
        let options =
            StoreOptions { file_prefix: format!("{}-{}", layout.name, kept.attempt), ..StoreOptions::default() };
        let (dir, cache) = (Arc::new(kept.dir.clone()), Arc::new(PageCache::new(1 << 20)));
        let store = match kept.snapshots.get(layout.name) {
            None => RunStore::new(dir, options, cache, KeyGroupRange::all()),
            Some(taken) => {
                let restored =
                    RunStore::restore(dir, options, cache, std::slice::from_ref(taken), KeyGroupRange::all());
                restored.unwrap().0
            }
        };
        Ok(OpenedStore { store, folder: PathBuf::new(), restored: None, origin: None })
    }
}
