//! What stores need besides reads and writes: sealed batches become files, runs are merged. The work is done
//! beside the task; only a task that writes faster than its disk waits.

use std::sync::{Arc, MutexGuard, PoisonError};

use tidegate_api::{Error, Result};
use tidegate_state::{Pressure, RunStore};

use super::keyed::failed;
use super::stores::OpenStore;

/// Wall clock in milliseconds.
pub(crate) type NowMs = Arc<dyn Fn() -> i64 + Send + Sync>;

impl OpenStore {
    /// The store, for a moment.
    pub(super) fn lock(&self) -> MutexGuard<'_, RunStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong beside the task since this was asked last.
    pub(super) fn trouble(&self) -> Result<()> {
        let mut trouble = self.upkeep.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.take().map_or(Ok(()), Err)
    }

    fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            let mut trouble = self.upkeep.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            trouble.get_or_insert(error);
        }
    }

    /// Writes sealed batches to files; false if there is nothing to write. The caller holds `writing`, for a
    /// store has one flush under way at most.
    pub(super) async fn flush(&self, now_ms: i64) -> Result<bool> {
        let Some(job) = ({ self.lock().flush_job(now_ms) }) else { return Ok(false) };
        let id = job.id();
        match run_blocking(move || job.run()).await {
            Ok(written) => self.lock().apply_flush(written).map_err(failed)?,
            Err(error) => {
                self.lock().abandon(id);
                return Err(error);
            }
        }
        Ok(true)
    }

    async fn merge(&self, now_ms: i64) -> Result<bool> {
        let Some(job) = ({ self.lock().merge_job(now_ms).map_err(failed)? }) else { return Ok(false) };
        let id = job.id();
        match run_blocking(move || job.run()).await {
            Ok(merged) => self.lock().apply_merge(merged).map_err(failed)?,
            Err(error) => {
                self.lock().abandon(id);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Merges what is worth it, beside everything else.
    pub(super) fn merge_behind(&self, now_ms: i64) {
        let Ok(merging) = self.upkeep.merging.clone().try_lock_owned() else { return };
        let store = self.clone();
        tokio::spawn(async move {
            let _merging = merging;
            let outcome = async {
                while store.merge(now_ms).await? {}
                Ok(())
            };
            store.note(outcome.await);
        });
    }

    /// Flushes beside everything else, then merges.
    fn flush_behind(&self, now_ms: i64) {
        let Ok(writing) = self.upkeep.writing.clone().try_lock_owned() else { return };
        let store = self.clone();
        tokio::spawn(async move {
            let _writing = writing;
            store.note(store.flush(now_ms).await.map(|_| ()));
            store.merge_behind(now_ms);
        });
    }

    /// Has sealed batches written to files if they take much memory, beside everything else. Whoever waits for the
    /// snapshot they belong to hears of it if that fails.
    pub(crate) fn flush_full(&self, now_ms: i64) {
        if { self.lock().pressure() }.wants_flush {
            self.flush_behind(now_ms);
        }
    }

    /// Has the store do what it needs, and waits if it does not keep up.
    pub(crate) async fn keep_up(&self, now_ms: &NowMs) -> Result<()> {
        self.trouble()?;
        let pressure = { self.lock().pressure() };
        if pressure.wants_flush {
            self.flush_behind(now_ms());
        }
        if pressure.wait_for_flush || pressure.wait_for_merge {
            self.wait(pressure, now_ms).await?;
        }
        Ok(())
    }

    /// Waits for what is under way and does the rest itself: a limit that its own work cannot lift is not waited
    /// for again.
    async fn wait(&self, pressure: Pressure, now_ms: &NowMs) -> Result<()> {
        if pressure.wait_for_flush {
            let _writing = self.upkeep.writing.lock().await;
            while { self.lock().pressure() }.wait_for_flush && self.flush(now_ms()).await? {}
        }
        if pressure.wait_for_merge {
            let _merging = self.upkeep.merging.lock().await;
            while { self.lock().pressure() }.wait_for_merge && self.merge(now_ms()).await? {}
        }
        self.trouble()
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> tidegate_state::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::internal(format!("writing state broke: {e}")))?.map_err(failed)
}
