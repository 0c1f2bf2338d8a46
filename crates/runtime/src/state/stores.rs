//! The stores of one operator in one subtask.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::{Result, Schema};
use tidegate_state::RunStore;

use super::keyed::{KeyedLayout, KeyedState};

/// Opens the store of a state: empty, or as a checkpoint left it.
pub(crate) trait StoreFactory: Send + Sync {
    /// The store of the state of this name, and if it was restored the value columns it was written with.
    fn open(&self, layout: &KeyedLayout) -> Result<(RunStore, Option<Schema>)>;
}

/// A store an operator has opened.
#[derive(Clone)]
pub(crate) struct OpenStore {
    /// What it holds.
    pub layout: KeyedLayout,
    /// Shared with the threads that write its files.
    pub store: Arc<Mutex<RunStore>>,
}

/// What an operator keeps beyond its life; without checkpoints it keeps nothing.
#[derive(Clone, Default)]
pub struct OperatorStates {
    kept: Option<Arc<Kept>>,
}

struct Kept {
    factory: Box<dyn StoreFactory>,
    open: Mutex<Vec<OpenStore>>,
}

impl OperatorStates {
    /// States in the stores of this factory.
    pub(crate) fn new(factory: Box<dyn StoreFactory>) -> OperatorStates {
        OperatorStates { kept: Some(Arc::new(Kept { factory, open: Mutex::default() })) }
    }

    /// The state of this layout; `None` if nothing is kept.
    pub(crate) fn keyed(&self, layout: KeyedLayout) -> Result<Option<KeyedState>> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let (store, restored) = kept.factory.open(&layout)?;
        let store = Arc::new(Mutex::new(store));
        kept.lock().push(OpenStore { layout: layout.clone(), store: store.clone() });
        KeyedState::new(layout, store, restored).map(Some)
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
