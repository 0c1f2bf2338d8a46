//! What is asked for and takes its time: a trigger id at once, the outcome when somebody comes for it.
//!
//! Outcomes are kept for [`KEPT_MS`] after the end, as in Flink, and no more of them than [`KEPT_MAX`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tidegate_api::Result;
use tokio::sync::Notify;

use crate::Answer;

/// Flink's `rest.async.store-duration`.
const KEPT_MS: i64 = 5 * 60 * 1000;
/// Operations that are over and kept at one time.
const KEPT_MAX: usize = 1000;

/// What sort of operation a trigger id belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Savepoints, with and without the end of the job.
    Savepoint,
    /// Checkpoints.
    Checkpoint,
}

/// Kind, job and trigger id.
type Key = (Kind, String, String);

enum Operation {
    InProgress,
    /// When it ended, the `operation` of Flink's answer, and whether somebody has come for it.
    Over(i64, Value, bool),
}

/// The operations of a process.
#[derive(Clone, Default)]
pub struct Operations {
    all: Arc<Mutex<BTreeMap<Key, Operation>>>,
    read: Arc<Notify>,
}

/// Flink's form of an exception.
pub(crate) fn throwable(error: &tidegate_api::Error) -> Value {
    json!({ "class": "tidegate.JobFailure", "stack-trace": error.to_string() })
}

impl Operations {
    /// Begins an operation in the background. One whose trigger id is known is not begun again: its first request was
    /// heard. `shown` is what an outcome looks like.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        key: Key,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
        work: impl FnOnce() -> Answer<T>,
        shown: impl FnOnce(Result<T>) -> Value + Send + 'static,
    ) {
        {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            forget(&mut all, now_ms());
            if all.contains_key(&key) {
                return;
            }
            all.insert(key.clone(), Operation::InProgress);
        }
        let (work, all) = (work(), self.all.clone());
        tokio::spawn(async move {
            let outcome = shown(work.await);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(key, Operation::Over(now_ms(), outcome, false));
        });
    }

    /// Flink's answer to whoever asks for an operation; `None` if there is none.
    pub(crate) fn status(&self, key: &Key) -> Option<Value> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match all.get_mut(key)? {
            Operation::InProgress => json!({ "status": { "id": "IN_PROGRESS" } }),
            Operation::Over(_, outcome, read) => {
                *read = true;
                self.read.notify_waiters();
                json!({ "status": { "id": "COMPLETED" }, "operation": outcome })
            }
        })
    }

    /// Waits until somebody has come for every outcome: a process that ends before takes them with it.
    pub async fn all_read(&self) {
        loop {
            let read = self.read.notified();
            let is_unread = |operation: &Operation| !matches!(operation, Operation::Over(_, _, true));
            let unread = self.all.lock().unwrap_or_else(PoisonError::into_inner).values().any(is_unread);
            if !unread {
                return;
            }
            read.await;
        }
    }
}

/// Forgets what ended long ago, and the oldest of what is too much.
fn forget(all: &mut BTreeMap<Key, Operation>, now_ms: i64) {
    all.retain(|_, operation| !matches!(operation, Operation::Over(at, ..) if now_ms - *at > KEPT_MS));
    let ended = |operation: &Operation| match operation {
        Operation::Over(at, ..) => Some(*at),
        Operation::InProgress => None,
    };
    while all.values().filter_map(ended).count() > KEPT_MAX {
        let oldest = all.iter().filter_map(|(key, operation)| Some((ended(operation)?, key.clone()))).min();
        if let Some((_, key)) = oldest {
            all.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_forgotten_one_day_and_what_goes_on_is_not() {
        let key = |n: usize| (Kind::Savepoint, "job".to_owned(), format!("{n:04}"));
        let mut all = BTreeMap::from([(key(0), Operation::InProgress)]);
        all.extend((1..=KEPT_MAX + 5).map(|n| (key(n), Operation::Over(n as i64, Value::Null, false))));
        forget(&mut all, 1000);
        assert_eq!(all.len(), KEPT_MAX + 1);
        assert!(all.contains_key(&key(0)) && !all.contains_key(&key(5)) && all.contains_key(&key(6)));
        forget(&mut all, KEPT_MS + 100_000);
        assert_eq!(all.len(), 1);
    }
}
