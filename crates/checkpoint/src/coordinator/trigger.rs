//! Which checkpoint begins now, and where its barrier goes.

use std::collections::{BTreeMap, BTreeSet};

use crate::barrier::{Barrier, BarrierKind};
use crate::coordinator::Decision;
use crate::coordinator::machine::{Coordinator, TaskState};
use crate::coordinator::pending::Pending;
use crate::coordinator::schedule::Request;
use crate::ids::TaskId;

impl Coordinator {
    /// True if the job ends with a savepoint that is under way, or has.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopped || self.pending.values().any(Pending::stops)
    }

    /// True if every task has read everything, some wait for a checkpoint, and none for them is under
    /// way.
    pub(super) fn is_final_due(&self) -> bool {
        self.running
            && !self.is_stopping()
            && self.tasks.values().all(|state| *state != TaskState::Running)
            && self.tasks.values().any(|state| *state == TaskState::Ended)
            && !self.pending.values().any(|pending| pending.is_final)
    }

    pub(super) fn trigger_due(&mut self, now_ms: i64, out: &mut Vec<Decision>) {
        // Each round triggers one or ends; requests are bounded, the others are due once.
        while self.running && !self.is_stopping() {
            let full = self.pending.len() >= self.settings.max_concurrent;
            if let Some(request) = self.schedule.peek() {
                // Savepoints need not wait for their turn unless barriers may overtake each other.
                let forced = request.target.is_some() && !self.settings.may_overtake();
                if full && !forced {
                    return;
                }
                let request = self.schedule.pop();
                self.trigger(request, now_ms, out);
                continue;
            }
            if full {
                return;
            }
            // The end of the inputs waits for no interval and no pause: nothing else will happen.
            if self.is_final_due() {
                if now_ms < self.schedule.final_not_before_ms {
                    return;
                }
                self.trigger(None, now_ms, out);
                continue;
            }
            if self.schedule.next_ms.is_none_or(|due| now_ms < due) {
                return;
            }
            let resumes_ms = self.schedule.pause_until_ms(&self.settings);
            if now_ms < resumes_ms {
                self.schedule.next_ms = Some(resumes_ms);
                return;
            }
            self.schedule.triggered(&self.settings, now_ms);
            if self.tasks.values().any(|state| matches!(state, TaskState::Running | TaskState::Ended)) {
                self.trigger(None, now_ms, out);
            }
        }
    }

    fn trigger(&mut self, request: Option<Request>, now_ms: i64, out: &mut Vec<Decision>) {
        let kind = match &request {
            Some(Request { target: Some(_), stop, .. }) => BarrierKind::Savepoint { stop: *stop },
            _ => BarrierKind::Checkpoint(self.settings.alignment),
        };
        let barrier = Barrier { id: self.next, timestamp_ms: now_ms, kind };
        self.next = self.next.next();
        let mut pending = Pending {
            barrier,
            missing: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            finished: BTreeMap::new(),
            triggered: BTreeSet::new(),
            ended: BTreeSet::new(),
            request,
            storing: false,
            keeps_files: false,
            is_final: self.tasks.values().all(|state| *state != TaskState::Running),
        };
        for (task, state) in &self.tasks {
            match state {
                TaskState::Finished(last) => drop(pending.finished.insert(*task, last.clone())),
                TaskState::Running | TaskState::Ended | TaskState::Committing => drop(pending.missing.insert(*task)),
            }
            if *state == TaskState::Ended {
                pending.ended.insert(*task);
            }
        }
        self.history.triggered(barrier, pending.missing.len());
        self.pending.insert(barrier.id, pending);
        self.trigger_orphaned(out);
        self.store_if_complete(barrier.id, now_ms, out);
    }

    /// Sends barriers to the tasks that get none from others: sources, and those whose senders have all
    /// ended, be it before or after the checkpoint began.
    pub(super) fn trigger_orphaned(&mut self, out: &mut Vec<Decision>) {
        let ended = |task: TaskId| !matches!(self.tasks.get(&task), Some(TaskState::Running));
        for pending in self.pending.values_mut() {
            let reach = |task: &&TaskId| !pending.triggered.contains(task) && self.plan.all_senders(**task, ended);
            let tasks: Vec<TaskId> = pending.missing.iter().filter(reach).copied().collect();
            if !tasks.is_empty() {
                pending.triggered.extend(tasks.iter().copied());
                out.push(Decision::Trigger { barrier: pending.barrier, tasks });
            }
        }
    }
}
