//! When checkpoints are due, and which request is next.

use std::collections::VecDeque;

use crate::barrier::{Alignment, Stop};

/// Requests that may wait; Flink's bound.
const QUEUE_MAX: usize = 1_000;

/// A job that completes nothing for so many intervals is worth a word.
const STALL_INTERVALS: i64 = 3;

/// How checkpoints are taken. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From one trigger to the next; `None` is off: only on request, and at the end of bounded inputs.
    pub interval_ms: Option<i64>,
    /// A checkpoint that takes longer is aborted.
    pub timeout_ms: i64,
    /// From one completion to the next periodic trigger at least.
    pub min_pause_ms: i64,
    /// Checkpoints in progress at one time.
    pub max_concurrent: usize,
    /// Checkpoints in a row that may fail before the job does.
    pub tolerable_failures: u32,
    /// How the inputs of a task wait for each other.
    pub alignment: Alignment,
    /// Checkpoints that are over of which the details are kept (`web.checkpoints.history`).
    pub history: usize,
}

impl Settings {
    /// True if barriers may overtake; then savepoints and checkpoints take turns.
    pub(super) fn may_overtake(&self) -> bool {
        matches!(self.alignment, Alignment::Timeout(_) | Alignment::Unaligned)
    }
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) request: u64,
    /// The folder of a savepoint; `None` for a checkpoint.
    pub(super) target: Option<String>,
    pub(super) stop: Option<Stop>,
}

/// The calendar of one attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// When the next periodic checkpoint is due.
    pub(super) next_ms: Option<i64>,
    /// When the last one completed.
    pub(super) completed_ms: Option<i64>,
    /// Savepoints before checkpoints, else in the order they came.
    queue: VecDeque<Request>,
    /// When silence becomes worth a warning.
    pub(super) alarm_ms: Option<i64>,
    /// No final checkpoint before this: the last one failed.
    pub(super) final_not_before_ms: i64,
}

impl Schedule {
    /// The attempt begins. A checkpoint more often than the pause allows makes no sense.
    pub(super) fn start(&mut self, settings: &Settings, now_ms: i64) {
        self.next_ms = settings.interval_ms.map(|interval| now_ms.saturating_add(interval.max(settings.min_pause_ms)));
        self.completed_ms = None;
        self.final_not_before_ms = now_ms;
        self.watch(settings, now_ms);
    }

    /// The attempt is over; requests are kept by the caller or refused.
    pub(super) fn halt(&mut self) -> impl Iterator<Item = Request> {
        self.next_ms = None;
        self.alarm_ms = None;
        std::mem::take(&mut self.queue).into_iter()
    }

    /// One more request waits; false if there are too many.
    pub(super) fn enqueue(&mut self, request: Request) -> bool {
        if self.queue.len() >= QUEUE_MAX {
            return false;
        }
        let savepoint = request.target.is_some();
        let place =
            if savepoint { self.queue.iter().take_while(|r| r.target.is_some()).count() } else { self.queue.len() };
        self.queue.insert(place, request);
        true
    }

    pub(super) fn peek(&self) -> Option<&Request> {
        self.queue.front()
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        self.queue.pop_front()
    }

    /// A periodic checkpoint was triggered: the next is an interval after it was due, not after now;
    /// those that were missed are not made up for.
    pub(super) fn triggered(&mut self, settings: &Settings, now_ms: i64) {
        if let (Some(interval), Some(due)) = (settings.interval_ms, self.next_ms) {
            let interval = interval.max(settings.min_pause_ms).max(1);
            let missed = (now_ms - due).max(0) / interval;
            self.next_ms = Some(due + (missed + 1) * interval);
        }
    }

    pub(super) fn completed(&mut self, settings: &Settings, now_ms: i64) {
        self.completed_ms = Some(now_ms);
        self.watch(settings, now_ms);
    }

    /// When the pause after the last completion is over.
    pub(super) fn pause_until_ms(&self, settings: &Settings) -> i64 {
        self.completed_ms.map_or(i64::MIN, |completed| completed.saturating_add(settings.min_pause_ms))
    }

    fn watch(&mut self, settings: &Settings, now_ms: i64) {
        self.alarm_ms = settings
            .interval_ms
            .map(|interval| now_ms.saturating_add(interval.max(settings.min_pause_ms).saturating_mul(STALL_INTERVALS)));
    }
}
