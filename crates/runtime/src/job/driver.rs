//! Carries out what the coordinator of checkpoints decides, while an attempt runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::coordinator::{AbortReason, Coordinator, Decision, Fact, JobPlan};
use tidegate_checkpoint::manifest::{Manifest, TaskSnapshot};
use tidegate_checkpoint::storage::{Loaded, StorageError};
use tidegate_checkpoint::{Barrier, CheckpointId, TaskId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::checkpoints::JobCheckpoints;
use super::deploy::TaskCommands;
use super::handle::{Job, JobRequest};
use crate::notices::JobNotices;
use crate::task::TaskCommand;
use crate::view::{CompletedCheckpoint, TakenCheckpoint};

/// How a manifest's storing went.
struct Stored {
    checkpoint: CheckpointId,
    is_savepoint: bool,
    outcome: Result<Loaded, StorageError>,
}

/// What an attempt must do for its checkpoints' sake.
pub(crate) enum Verdict {
    /// Fail, and let the restart strategy decide.
    Fail(Error),
    /// Start again from the last checkpoint; nothing has failed.
    Restart(String),
}

/// The coordinator of one attempt, with its ears and hands.
pub(crate) struct Driver {
    coordinator: Coordinator,
    tasks: TaskCommands,
    facts: mpsc::UnboundedReceiver<Fact>,
    storing: JoinSet<Stored>,
    answers: HashMap<u64, oneshot::Sender<Result<TakenCheckpoint>>>,
    next_request: u64,
    triggered: BTreeMap<CheckpointId, i64>,
    job: Arc<Job>,
    notices: JobNotices,
}

impl Driver {
    pub(crate) fn new(
        plan: JobPlan,
        own: &JobCheckpoints,
        tasks: TaskCommands,
        facts: mpsc::UnboundedReceiver<Fact>,
        job: Arc<Job>,
        notices: JobNotices,
    ) -> Driver {
        Driver {
            coordinator: Coordinator::new(plan, own.options.settings(), own.next),
            tasks,
            facts,
            storing: JoinSet::new(),
            answers: HashMap::new(),
            next_request: 0,
            triggered: BTreeMap::new(),
            job,
            notices,
        }
    }

    /// Waits for the next thing that concerns checkpoints, and does what follows. Cancel-safe: a fact that was
    /// taken is worked off before anything is waited for again.
    pub(crate) async fn next(&mut self, own: &mut JobCheckpoints) -> Option<Verdict> {
        let now = self.job.clock.now_ms();
        let wait_ms = self.coordinator.wake_ms().map(|at| (at - now).max(0) as u64);
        let due = async {
            match wait_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let fact = tokio::select! {
            biased;
            Some(stored) = self.storing.join_next() => match stored {
                Ok(stored) => self.stored(own, stored),
                Err(_) => return Some(Verdict::Fail(Error::internal("storing a checkpoint broke"))),
            },
            Some(fact) = self.facts.recv() => fact,
            () = due => Fact::Tick,
        };
        self.take(own, fact)
    }

    /// Every task runs and has its state back.
    pub(crate) fn all_restored(&mut self, own: &mut JobCheckpoints) -> Option<Verdict> {
        let from = own.restored_from(self.job.clock.now_ms());
        // Tasks that had finished find nothing to do and finish again at once.
        self.take(own, Fact::AllRestored { finished: Vec::new(), from })
    }

    /// Tells the coordinator a fact and does what it decides.
    pub(crate) fn take(&mut self, own: &mut JobCheckpoints, fact: Fact) -> Option<Verdict> {
        if let Fact::Acknowledged { checkpoint, snapshot, .. } = &fact {
            own.acknowledged(*checkpoint, snapshot.files());
        }
        let now_ms = self.job.clock.now_ms();
        let decisions = self.job.with_checkpoint_history(|history| {
            self.coordinator.swap_history(history);
            let decisions = self.coordinator.on(fact, now_ms);
            self.coordinator.swap_history(history);
            decisions
        });
        own.next = self.coordinator.next_id();
        let mut verdict = None;
        for decision in decisions {
            verdict = self.carry_out(own, decision).or(verdict);
        }
        verdict
    }

    /// A user asks for something.
    pub(crate) fn request(&mut self, own: &mut JobCheckpoints, request: JobRequest) -> Option<Verdict> {
        self.next_request += 1;
        let number = self.next_request;
        let fact = match request {
            JobRequest::Checkpoint { answer } => {
                self.answers.insert(number, answer);
                Fact::CheckpointRequested { request: number }
            }
            JobRequest::Savepoint { target, stop, answer } => {
                let Some(target) = target.or_else(|| own.options.savepoint_dir.clone()) else {
                    let _ = answer.send(Err(Error::invalid(
                        "No savepoint directory configured. Name one, or set 'execution.checkpointing.savepoint-dir'.",
                    )));
                    return None;
                };
                self.answers.insert(number, answer);
                Fact::SavepointRequested { request: number, target, stop }
            }
        };
        self.take(own, fact)
    }

    /// Waits until no manifest is being stored: only then is it known from where to go on.
    pub(crate) async fn settle(&mut self, own: &mut JobCheckpoints) {
        while let Some(stored) = self.storing.join_next().await {
            if let Ok(stored) = stored {
                let fact = self.stored(own, stored);
                // The attempt is over; what follows for it does not matter any more.
                let _ = self.take(own, fact);
            }
        }
    }

    fn carry_out(&mut self, own: &mut JobCheckpoints, decision: Decision) -> Option<Verdict> {
        match decision {
            Decision::Trigger { barrier, tasks } => self.trigger(own, barrier, &tasks),
            Decision::StoreManifest { manifest, target } => self.store(own, *manifest, target),
            Decision::Complete { checkpoint, tasks, .. } => self.tell(&tasks, &TaskCommand::Completed(checkpoint)),
            Decision::NotifyAborted { checkpoint, tasks, reason } => {
                self.tell(&tasks, &TaskCommand::Aborted(checkpoint));
                self.aborted(checkpoint, &reason);
            }
            Decision::Discard { checkpoint, snapshots } => {
                let condemned = own.discarded(checkpoint, snapshots.iter().flat_map(TaskSnapshot::files));
                own.delete(condemned);
            }
            // Retention has counted it already.
            Decision::Drop { .. } => {}
            Decision::Answer { request, result } => {
                if let Some(answer) = self.answers.remove(&request) {
                    let said = result.map(|(id, location)| TakenCheckpoint { id: id.0, location });
                    let _ = answer.send(said.map_err(|reason| Error::job(reason.to_string())));
                }
            }
            Decision::FailJob { reason } => return Some(Verdict::Fail(Error::job(reason))),
            Decision::RestartJob { reason } => return Some(Verdict::Restart(reason)),
            Decision::Warn { text } => self.notices.warn(text),
        }
        None
    }

    fn trigger(&mut self, own: &mut JobCheckpoints, barrier: Barrier, tasks: &[TaskId]) {
        own.begun(barrier.id);
        fail_point::reached(FailPoint::BeforeBarrier);
        self.triggered.insert(barrier.id, barrier.timestamp_ms);
        self.job.show_checkpoints(|view| {
            view.in_progress.insert(barrier.id.0, barrier.timestamp_ms);
        });
        // What enumerators know is read before any barrier is sent. All subtasks keep it: any of them may come
        // to its end before it hears of the barrier.
        let said: BTreeMap<usize, serde_json::Value> =
            self.tasks.enumerators.iter().map(|(vertex, state)| (*vertex, state.latest())).collect();
        for task in tasks {
            let enumerator = said.get(&(task.vertex as usize)).cloned().unwrap_or_default();
            self.tell(&[*task], &TaskCommand::Trigger { barrier, enumerator });
        }
    }

    fn tell(&self, tasks: &[TaskId], command: &TaskCommand) {
        for task in tasks {
            let sender = self.tasks.senders.get(task.vertex as usize).and_then(|s| s.get(task.subtask as usize));
            if let Some(sender) = sender {
                // A task that is gone has ended or failed, and has said so.
                let _ = sender.send(command.clone());
            }
        }
    }

    fn store(&mut self, own: &JobCheckpoints, manifest: Manifest, target: Option<String>) {
        fail_point::reached(FailPoint::BeforeManifest);
        let (checkpoint, is_savepoint) = (manifest.checkpoint, target.is_some());
        match own.storing(manifest, target) {
            Ok(storing) => {
                self.storing.spawn(async move { Stored { checkpoint, is_savepoint, outcome: storing.await } });
            }
            Err(error) => {
                let reason = error.to_string();
                let outcome = Err(StorageError::Location { url: String::new(), reason });
                self.storing.spawn(async move { Stored { checkpoint, is_savepoint, outcome } });
            }
        }
    }

    fn stored(&mut self, own: &mut JobCheckpoints, stored: Stored) -> Fact {
        let Stored { checkpoint, is_savepoint, outcome } = stored;
        match outcome {
            Ok(loaded) => {
                fail_point::reached(FailPoint::AfterManifest);
                let location = loaded.location();
                let triggered_ms = self.triggered.remove(&checkpoint).unwrap_or(loaded.manifest.triggered_ms);
                let complete = CompletedCheckpoint {
                    id: checkpoint.0,
                    location: location.clone(),
                    is_savepoint,
                    triggered_ms,
                    duration_ms: self.job.clock.now_ms() - triggered_ms,
                    bytes: loaded.manifest.bytes(),
                };
                self.job.show_checkpoints(|view| {
                    view.completed += 1;
                    view.in_progress.remove(&checkpoint.0);
                    view.latest = Some(complete);
                });
                self.job.outputs.completed(&loaded.manifest);
                if let Err(e) = own.stopping(&loaded) {
                    self.notices.warn(format!(
                        "that the job stops with savepoint {location} cannot be written down; if its process dies now, \
                         start it from there: {e}"
                    ));
                }
                let before = own.complete_ids();
                let condemned = own.stored(loaded, is_savepoint);
                own.delete(condemned);
                let after = own.complete_ids();
                let gone: Vec<CheckpointId> = before.into_iter().filter(|id| !after.contains(id)).collect();
                self.job.with_checkpoint_history(|history| history.discarded(&gone));
                Fact::ManifestStored { checkpoint, location }
            }
            Err(error) => {
                let is_absent = !error.is_unknown();
                if !is_absent {
                    own.unknown(checkpoint);
                }
                Fact::ManifestFailed { checkpoint, error: error.to_string(), is_absent }
            }
        }
    }

    fn aborted(&mut self, checkpoint: CheckpointId, reason: &AbortReason) {
        self.triggered.remove(&checkpoint);
        self.job.show_checkpoints(|view| {
            if view.in_progress.remove(&checkpoint.0).is_some() && reason.counts() {
                view.failed += 1;
                view.latest_failure = Some(reason.to_string());
            }
        });
        if reason.counts() {
            self.notices.warn(format!("checkpoint {checkpoint} failed: {reason}"));
        }
    }
}
