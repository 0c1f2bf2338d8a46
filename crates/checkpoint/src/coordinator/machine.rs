//! The machine: facts in, decisions out.

use std::collections::BTreeMap;

use crate::barrier::Stop;
use crate::coordinator::failures::Failures;
use crate::coordinator::pending::Pending;
use crate::coordinator::schedule::{Request, Schedule};
use crate::coordinator::{
    AbortReason, AckMetrics, Decision, DeclineReason, Fact, History, JobPlan, Outcome, Settings, assemble,
};
use crate::ids::{CheckpointId, TaskId};
use crate::manifest::{FilePlace, TaskSnapshot};

/// Missing tasks an error names.
const NAMED_MAX: usize = 5;

/// Where a task is in its life.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaskState {
    Running,
    /// Has read everything and waits for a checkpoint.
    Ended,
    /// The checkpoint it waited for is complete: it commits, and will be finished.
    Committing,
    Finished(TaskSnapshot),
}

/// The checkpoint coordinator of one job.
#[derive(Clone, Debug)]
pub struct Coordinator {
    pub(super) plan: JobPlan,
    pub(super) settings: Settings,
    pub(super) schedule: Schedule,
    pub(super) pending: BTreeMap<CheckpointId, Pending>,
    pub(super) tasks: BTreeMap<TaskId, TaskState>,
    pub(super) next: CheckpointId,
    /// True from the moment that all tasks run until the attempt fails or the job stops.
    pub(super) running: bool,
    /// A savepoint that stops the job has completed: nothing follows.
    pub(super) stopped: bool,
    pub(super) history: History,
    /// The time of the fact that is being taken.
    now_ms: i64,
    latest: Option<CheckpointId>,
    failures: Failures,
    stop_failed: Option<(Stop, AbortReason)>,
}

impl Coordinator {
    /// A coordinator whose first checkpoint will be `next`: above all that were ever begun.
    pub fn new(plan: JobPlan, settings: Settings, next: CheckpointId) -> Coordinator {
        let failures = Failures::new(settings.tolerable_failures);
        let history = History::new(settings.history);
        let tasks = plan.tasks().map(|task| (task, TaskState::Running)).collect();
        Coordinator {
            plan,
            settings,
            schedule: Schedule::default(),
            pending: BTreeMap::new(),
            tasks,
            next,
            running: false,
            stopped: false,
            history,
            now_ms: 0,
            latest: None,
            failures,
            stop_failed: None,
        }
    }

    /// The id the next checkpoint gets.
    pub fn next_id(&self) -> CheckpointId {
        self.next
    }

    /// What became of the last checkpoints.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Exchanges the history with another: it belongs to the job and outlives the attempt that this coordinator
    /// serves.
    pub fn swap_history(&mut self, history: &mut History) {
        std::mem::swap(&mut self.history, history);
    }

    /// These checkpoints were deleted; for the history.
    pub fn discarded(&mut self, ids: &[CheckpointId]) {
        self.history.discarded(ids);
    }

    /// Checkpoints in progress, with when they were triggered: their files must not be swept.
    pub fn in_progress(&self) -> impl Iterator<Item = (CheckpointId, i64)> {
        self.pending.iter().map(|(id, pending)| (*id, pending.barrier.timestamp_ms))
    }

    /// False while a manifest is being stored: whether that checkpoint exists is not known, so a failed
    /// job cannot choose where to restart. When it can, it asks the storage for the latest and not its
    /// memory: a manifest whose outcome was unknown may be there, and a job that restarted before it
    /// would give away sequences that it has given away too.
    pub fn may_restore(&self) -> bool {
        !self.pending.values().any(|pending| pending.storing)
    }

    /// When [`Fact::Tick`] is due; `None` if nothing depends on time.
    pub fn wake_ms(&self) -> Option<i64> {
        let deadline = |pending: &Pending| pending.barrier.timestamp_ms.saturating_add(self.settings.timeout_ms);
        let deadlines = self.pending.values().filter(|pending| !pending.storing).map(deadline);
        let last = self.is_final_due().then_some(self.schedule.final_not_before_ms);
        deadlines.chain(self.schedule.next_ms).chain(self.schedule.alarm_ms).chain(last).min()
    }

    /// Takes a fact at `now_ms` (milliseconds since the epoch) and says what to do.
    pub fn on(&mut self, fact: Fact, now_ms: i64) -> Vec<Decision> {
        let mut out = Vec::new();
        self.now_ms = now_ms;
        match fact {
            Fact::Tick => self.tick(now_ms, &mut out),
            Fact::AllRestored { finished, from } => {
                from.into_iter().for_each(|from| self.history.restored_from(from));
                self.restored(finished, now_ms);
            }
            Fact::CheckpointRequested { request } => {
                self.request(Request { request, target: None, stop: None }, &mut out);
            }
            Fact::SavepointRequested { request, target, stop } => {
                self.request(Request { request, target: Some(target), stop }, &mut out);
            }
            Fact::Acknowledged { checkpoint, task, snapshot, metrics } => {
                self.acknowledged(checkpoint, task, snapshot, metrics, &mut out);
            }
            Fact::Declined { checkpoint, task, reason } => self.declined(checkpoint, task, reason, &mut out),
            Fact::TaskEnded { task } => {
                self.tasks.insert(task, TaskState::Ended);
                self.trigger_orphaned(&mut out);
            }
            Fact::TaskFinished { task, last } => self.finished(task, last, now_ms, &mut out),
            Fact::ManifestStored { checkpoint, location } => self.stored(checkpoint, location, now_ms, &mut out),
            Fact::ManifestFailed { checkpoint, error, is_absent } => {
                self.storing_failed(checkpoint, error, is_absent, &mut out);
            }
            Fact::JobFailed => self.halt(&AbortReason::JobFailed, &mut out),
            Fact::Stopped => self.halt(&AbortReason::Stopped, &mut out),
        }
        if let Some((stop, reason)) = self.stop_failed.take() {
            self.resume_after_failed_stop(stop, &reason, &mut out);
        }
        self.trigger_due(now_ms, &mut out);
        out
    }

    fn tick(&mut self, now_ms: i64, out: &mut Vec<Decision>) {
        let late = |pending: &Pending| {
            !pending.storing && now_ms.saturating_sub(pending.barrier.timestamp_ms) >= self.settings.timeout_ms
        };
        let expired: Vec<CheckpointId> =
            self.pending.iter().filter(|(_, pending)| late(pending)).map(|(id, _)| *id).collect();
        for id in expired {
            let missing = self.pending[&id].missing.iter().take(NAMED_MAX).copied().collect();
            let missing_count = self.pending[&id].missing.len();
            self.schedule.final_not_before_ms = now_ms.saturating_add(self.settings.min_pause_ms.max(1_000));
            self.abort(id, AbortReason::Expired { missing, missing_count }, out);
        }
        if self.running && self.schedule.alarm_ms.is_some_and(|alarm| now_ms >= alarm) {
            self.schedule.alarm_ms = None;
            let waiting = self.pending.values().next().map_or_else(String::new, |pending| {
                let first = pending.missing.first().map_or_else(String::new, |task| format!(", first {task}"));
                format!(" Checkpoint {} waits for {} tasks{first}.", pending.barrier.id, pending.missing.len())
            });
            out.push(Decision::Warn {
                text: format!(
                    "No checkpoint has completed for three intervals; the job makes no safe progress.{waiting}"
                ),
            });
        }
    }

    fn restored(&mut self, finished: Vec<(TaskId, TaskSnapshot)>, now_ms: i64) {
        for state in self.tasks.values_mut() {
            *state = TaskState::Running;
        }
        for (task, last) in finished {
            self.tasks.insert(task, TaskState::Finished(last));
        }
        self.running = true;
        // A job that failed while it stopped runs on.
        self.stopped = false;
        self.schedule.start(&self.settings, now_ms);
    }

    fn request(&mut self, request: Request, out: &mut Vec<Decision>) {
        let number = request.request;
        let refusal = if !self.running {
            Some(AbortReason::NotRunning)
        } else if self.is_stopping() {
            Some(AbortReason::Stopping)
        } else if !self.schedule.enqueue(request) {
            Some(AbortReason::TooManyRequests)
        } else {
            None
        };
        out.extend(refusal.map(|reason| Decision::Answer { request: number, result: Err(reason) }));
    }

    fn acknowledged(
        &mut self,
        checkpoint: CheckpointId,
        task: TaskId,
        snapshot: TaskSnapshot,
        metrics: AckMetrics,
        out: &mut Vec<Decision>,
    ) {
        let Some(pending) = self.pending.get_mut(&checkpoint) else {
            out.push(Decision::Discard { checkpoint, snapshots: vec![snapshot] });
            return;
        };
        if pending.missing.remove(&task) {
            pending.acknowledged.insert(task, snapshot);
            self.history.acknowledged(checkpoint, task, self.now_ms, metrics);
            self.store_if_complete(checkpoint, self.now_ms, out);
        } else if pending.acknowledged.get(&task) != Some(&snapshot) {
            // Not the same once more, but something nobody asked for.
            out.push(Decision::Discard { checkpoint, snapshots: vec![snapshot] });
        }
    }

    fn declined(&mut self, checkpoint: CheckpointId, task: TaskId, reason: DeclineReason, out: &mut Vec<Decision>) {
        if self.pending.get(&checkpoint).is_some_and(|pending| pending.missing.contains(&task)) {
            self.abort(checkpoint, AbortReason::Declined(task, reason), out);
        }
    }

    /// A finished task has sent all it ever will, so its last word is its acknowledgement of every
    /// checkpoint that still waits for it: for those who receive from it, the end came as the barrier.
    fn finished(&mut self, task: TaskId, last: TaskSnapshot, now_ms: i64, out: &mut Vec<Decision>) {
        debug_assert!(last.files().all(|file| file.place != FilePlace::Exclusive), "files of {task} would go");
        let waiting: Vec<CheckpointId> = self
            .pending
            .iter_mut()
            .filter_map(|(id, pending)| pending.missing.remove(&task).then_some((*id, pending)))
            .map(|(id, pending)| {
                pending.finished.insert(task, last.clone());
                id
            })
            .collect();
        self.tasks.insert(task, TaskState::Finished(last));
        self.trigger_orphaned(out);
        for id in waiting {
            self.history.acknowledged(id, task, now_ms, AckMetrics::default());
            self.store_if_complete(id, now_ms, out);
        }
    }

    pub(super) fn store_if_complete(&mut self, id: CheckpointId, now_ms: i64, out: &mut Vec<Decision>) {
        let Some(pending) = self.pending.get_mut(&id).filter(|p| p.missing.is_empty() && !p.storing) else { return };
        pending.storing = true;
        let target = pending.request.as_ref().and_then(|request| request.target.clone());
        let manifest = Box::new(assemble::manifest(&self.plan, pending, now_ms));
        out.push(Decision::StoreManifest { manifest, target });
    }

    fn stored(&mut self, id: CheckpointId, location: String, now_ms: i64, out: &mut Vec<Decision>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let is_savepoint = pending.is_savepoint();
        if let Some(request) = &pending.request {
            let result = Ok((id, location.clone()));
            out.push(Decision::Answer { request: request.request, result });
        }
        self.history.ended(id, now_ms, Outcome::Completed { location: location.clone(), discarded: false });
        self.failures.succeeded(id);
        if self.running {
            self.schedule.completed(&self.settings, now_ms);
        }
        if is_savepoint && !pending.stops() {
            return;
        }
        if !is_savepoint && self.latest.is_some_and(|latest| latest > id) {
            out.push(Decision::Drop { checkpoint: id });
            return;
        }
        self.latest = Some(id);
        self.stopped |= pending.stops();
        for task in &pending.ended {
            if self.tasks.get(task) == Some(&TaskState::Ended) {
                self.tasks.insert(*task, TaskState::Committing);
            }
        }
        let older = |(other, pending): (&CheckpointId, &Pending)| {
            (*other < id && !pending.is_savepoint() && !pending.storing).then_some(*other)
        };
        let subsumed: Vec<CheckpointId> = self.pending.iter().filter_map(older).collect();
        for other in subsumed {
            self.abort(other, AbortReason::Subsumed { by: id }, out);
        }
        // While the job is being restarted nobody is there to be told; the restore tells them.
        let tasks = if self.running { self.unfinished() } else { Vec::new() };
        out.push(Decision::Complete { checkpoint: id, location, is_savepoint, tasks });
    }

    fn storing_failed(&mut self, id: CheckpointId, error: String, is_absent: bool, out: &mut Vec<Decision>) {
        let Some(pending) = self.pending.get_mut(&id).filter(|pending| pending.storing) else { return };
        pending.storing = false;
        // If it may exist its files must. What is left over is swept at the next recovery.
        pending.keeps_files = !is_absent;
        self.abort(id, AbortReason::StoringFailed(error), out);
    }

    /// Ends a checkpoint that is not being stored.
    pub(super) fn abort(&mut self, id: CheckpointId, reason: AbortReason, out: &mut Vec<Decision>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.history.ended(id, self.now_ms, Outcome::Failed { reason: reason.to_string() });
        if self.running {
            out.push(Decision::NotifyAborted { checkpoint: id, tasks: self.unfinished(), reason: reason.clone() });
        }
        if !pending.keeps_files {
            // Also without files: whoever counts them must know that this checkpoint is over.
            let snapshots = pending.acknowledged.into_values().collect();
            out.push(Decision::Discard { checkpoint: id, snapshots });
        }
        if let Some(request) = &pending.request {
            out.push(Decision::Answer { request: request.request, result: Err(reason.clone()) });
        }
        if let (Some(stop), true) = (pending.barrier.kind.stop(), self.running) {
            self.stop_failed = Some((stop, reason));
            return;
        }
        // A savepoint that failed here is a matter for whoever asked; one that tasks could not write
        // bodes ill for checkpoints too (Flink's rule).
        let by_task = matches!(reason, AbortReason::Declined(..));
        let counts = reason.counts() && (!pending.barrier.kind.is_savepoint() || by_task);
        if counts && self.failures.failed(id) {
            let reason = format!("Exceeded checkpoint tolerable failure threshold. The last failure: {reason}");
            out.push(Decision::FailJob { reason });
        }
    }

    /// The job must go on: without drain its tasks wait behind a barrier they are told to forget; with
    /// drain windows have fired that should not have, so it goes back to its last checkpoint.
    fn resume_after_failed_stop(&mut self, stop: Stop, reason: &AbortReason, out: &mut Vec<Decision>) {
        match stop {
            Stop::Suspend => out.push(Decision::Warn {
                text: format!("The job could not be stopped with a savepoint and goes on. {reason}"),
            }),
            Stop::Drain => out.push(Decision::RestartJob {
                reason: format!("The job could not be drained with a savepoint. {reason}"),
            }),
        }
    }

    fn halt(&mut self, reason: &AbortReason, out: &mut Vec<Decision>) {
        self.running = false;
        for request in self.schedule.halt() {
            out.push(Decision::Answer { request: request.request, result: Err(reason.clone()) });
        }
        let open: Vec<CheckpointId> = self.pending.iter().filter(|(_, p)| !p.storing).map(|(id, _)| *id).collect();
        for id in open {
            self.abort(id, reason.clone(), out);
        }
    }

    fn unfinished(&self) -> Vec<TaskId> {
        let open = |(task, state): (&TaskId, &TaskState)| (!matches!(state, TaskState::Finished(_))).then_some(*task);
        self.tasks.iter().filter_map(open).collect()
    }
}
