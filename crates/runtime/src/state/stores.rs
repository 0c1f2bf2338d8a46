//! The stores of one operator in one subtask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::{Error, Result, Schema};
use tidegate_checkpoint::manifest::{StateKind, StateSchema};
use tidegate_state::RunStore;

use super::asked::AskedSnapshot;
use super::changes::Tracking;
use super::keyed::{KeyedLayout, KeyedState, failed};
use super::origin::Origin;

/// Opens the store of a state: empty, or as a checkpoint left it.
pub(crate) trait StoreFactory: Send + Sync {
    /// The store of the state of this name.
    fn open(&self, layout: &KeyedLayout) -> Result<OpenedStore>;
}

/// What a factory gives.
pub(crate) struct OpenedStore {
    pub store: RunStore,
    /// Where its files are.
    pub folder: PathBuf,
    /// If it was restored, the value columns it was written with.
    pub restored: Option<Schema>,
    /// If it was restored, from where.
    pub origin: Option<Origin>,
}

/// A store an operator has opened.
#[derive(Clone)]
pub(crate) struct OpenStore {
    /// What it holds.
    pub layout: KeyedLayout,
    /// Shared with the threads that write its files.
    pub store: Arc<Mutex<RunStore>>,
    /// Where its files are.
    pub folder: PathBuf,
    pub upkeep: Upkeep,
    /// Its next snapshot.
    pub asked: AskedSnapshot,
}

impl OpenStore {
    /// A barrier has passed: the snapshot of this number begins when the operator has written what belongs to it.
    pub(crate) fn ask_for_snapshot(&self, id: u64) {
        self.asked.ask(id);
    }

    /// The operator has written everything that belongs to the snapshot it was asked for.
    pub(crate) fn begin_snapshot(&self) -> Result<()> {
        self.asked.begin().map_err(failed)
    }
}

/// Who sees to a store's files at the moment, and what came of it.
#[derive(Clone, Default)]
pub(crate) struct Upkeep {
    /// Held by whoever flushes.
    pub writing: Arc<tokio::sync::Mutex<()>>,
    /// Held by whoever merges.
    pub merging: Arc<tokio::sync::Mutex<()>>,
    /// The first failure that nobody has heard of.
    pub trouble: Arc<Mutex<Option<Error>>>,
}

/// What an operator keeps beyond its life; without checkpoints it keeps nothing.
#[derive(Clone, Default)]
pub struct OperatorStates {
    kept: Option<Arc<Kept>>,
}

struct Kept {
    factory: Box<dyn StoreFactory>,
    /// Memory in bytes that the operator's tables may take; what does not fit stays in the stores alone.
    /// Without it everything stays in memory.
    table_bytes: Option<usize>,
    tracking: Tracking,
    open: Mutex<Vec<OpenStore>>,
}

impl OperatorStates {
    /// States in the stores of this factory. `table_bytes` is the memory that the operator's tables may take,
    /// if what does not fit is to stay in the stores alone; then only changes can be written.
    pub(crate) fn new(
        factory: Box<dyn StoreFactory>,
        table_bytes: Option<usize>,
        tracking: Tracking,
    ) -> OperatorStates {
        OperatorStates { kept: Some(Arc::new(Kept { factory, table_bytes, tracking, open: Mutex::default() })) }
    }

    /// What a checkpoint writes.
    pub(crate) fn tracking(&self) -> Tracking {
        self.kept.as_ref().map(|kept| kept.tracking).unwrap_or_default()
    }

    /// Memory in bytes that the operator's tables may take; `None` if everything stays in memory.
    pub(crate) fn table_bytes(&self) -> Option<usize> {
        self.kept.as_ref()?.table_bytes
    }

    /// Whether anything is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// The state of this layout; `None` if nothing is kept.
    pub(crate) fn keyed(&self, layout: KeyedLayout) -> Result<Option<KeyedState>> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let OpenedStore { store, folder, restored, origin } = kept.factory.open(&layout)?;
        let store = Arc::new(Mutex::new(store));
        let asked = AskedSnapshot::new(store.clone());
        let state = KeyedState::new(layout.clone(), store.clone(), asked.clone(), restored, origin)?;
        kept.lock().push(OpenStore { layout, store, folder, upkeep: Upkeep::default(), asked });
        Ok(Some(state))
    }

    /// What the states opened so far contain, by name.
    pub(crate) fn schemas(&self) -> BTreeMap<String, StateSchema> {
        let schema = |open: OpenStore| {
            let KeyedLayout { name, key, value, is_list, .. } = open.layout;
            let kind = if is_list { StateKind::List } else { StateKind::Value };
            (name.to_owned(), StateSchema { kind, key, value })
        };
        self.open().into_iter().map(schema).collect()
    }

    /// The stores opened so far, in that order.
    pub(crate) fn open(&self) -> Vec<OpenStore> {
        self.kept.as_ref().map(|kept| kept.lock().clone()).unwrap_or_default()
    }
}

impl Kept {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<OpenStore>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
