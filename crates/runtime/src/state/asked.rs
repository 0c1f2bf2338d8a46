//! A snapshot that is asked for at a barrier, and begun when the operator has written everything that belongs to it.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::{Error, Result};
use tidegate_state::{RunStore, StateError};
use tokio::sync::watch;

/// Between a task, which asks, the operator, which writes and begins, and whoever writes files, who waits.
#[derive(Clone)]
pub(crate) struct AskedSnapshot {
    store: Arc<Mutex<RunStore>>,
    asked: Arc<Mutex<Option<u64>>>,
    /// The snapshot that was begun last; they are numbered upwards from 1.
    begun: watch::Sender<u64>,
}

impl AskedSnapshot {
    /// Nothing is asked for yet.
    pub(super) fn new(store: Arc<Mutex<RunStore>>) -> AskedSnapshot {
        AskedSnapshot { store, asked: Arc::default(), begun: watch::Sender::new(0) }
    }

    /// A barrier has passed.
    pub(super) fn ask(&self, id: u64) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    }

    /// Begins the snapshot that is asked for, if one is: what is written from here on is not part of it.
    pub(super) fn begin(&self) -> std::result::Result<(), StateError> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(id) = asked else { return Ok(()) };
        self.store.lock().unwrap_or_else(PoisonError::into_inner).begin_snapshot(id)?;
        self.begun.send_replace(id);
        Ok(())
    }

    /// Waits until a snapshot has been begun.
    pub(super) async fn begun(&self, id: u64) -> Result<()> {
        let mut begun = self.begun.subscribe();
        let waited = begun.wait_for(|begun| *begun >= id).await;
        waited.map(drop).map_err(|_| Error::internal("nobody begins a snapshot that is waited for"))
    }
}
