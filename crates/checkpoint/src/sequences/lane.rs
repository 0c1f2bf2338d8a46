//! One transactional id: fence, read, write what is newer.

use std::collections::VecDeque;

use crate::ids::CheckpointId;
use crate::sequences::{Committed, LaneState, Segment, SequenceError, SinkName, Staged};

/// What to do with Kafka next. Report how it went before asking for the next one.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Drop any producer of this id and initialise a new one.
    Fence(SinkName),
    /// Read the committed sequence of the group (read committed, stable offsets only).
    Read(SinkName),
    /// Write this segment and its sequence in one transaction.
    Write(Box<Segment>),
    /// Nothing more is written under this id: drop its producer. Needs no report.
    Close(SinkName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The producer must be made anew.
    Fence,
    /// Fenced; what is written is not known.
    Read,
    /// Known; segments can be written.
    Ready,
}

/// What a restored lane needs to judge the offset it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// When the checkpoint was taken.
    pub(super) taken_ms: i64,
    pub(super) now_ms: i64,
    pub(super) retention_ms: i64,
    pub(super) forced: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    name: SinkName,
    highest: u64,
    confirmed: u64,
    confirmed_ms: Option<i64>,
    pending: VecDeque<Segment>,
    /// Segments up to this checkpoint may be written.
    released: Option<CheckpointId>,
    phase: Phase,
    /// A command was given and not reported on.
    waiting: bool,
    /// A producer exists.
    open: bool,
    /// Until the first read after a restore.
    doubt: Option<Doubt>,
    /// It has been read at least once: sequences can be given away.
    known: bool,
}

impl Lane {
    pub(super) fn new(name: SinkName) -> Lane {
        Lane {
            name,
            highest: 0,
            confirmed: 0,
            confirmed_ms: None,
            pending: VecDeque::new(),
            released: None,
            phase: Phase::Fence,
            waiting: false,
            open: false,
            doubt: None,
            known: false,
        }
    }

    /// A lane of a complete checkpoint: all its segments may be written.
    pub(super) fn restored(state: LaneState, doubt: Doubt) -> Lane {
        let mut pending: VecDeque<Segment> = state.pending.into();
        pending.make_contiguous().sort_by_key(|segment| segment.sequence);
        let last = pending.back().map_or(0, |segment| segment.sequence);
        Lane {
            highest: state.highest.max(state.confirmed).max(last),
            confirmed: state.confirmed,
            confirmed_ms: state.confirmed_ms,
            released: pending.iter().map(|segment| segment.checkpoint).max(),
            pending,
            doubt: Some(doubt),
            ..Lane::new(state.name)
        }
    }

    pub(super) fn name(&self) -> &SinkName {
        &self.name
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Segment> {
        self.pending.iter()
    }

    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    pub(super) fn released(&self) -> impl Iterator<Item = &Segment> {
        self.pending.iter().filter(|segment| Some(segment.checkpoint) <= self.released)
    }

    pub(super) fn state(&self) -> LaneState {
        LaneState {
            name: self.name.clone(),
            highest: self.highest,
            confirmed: self.confirmed,
            confirmed_ms: self.confirmed_ms,
            pending: self.pending.iter().cloned().collect(),
        }
    }

    pub(super) fn raise(&mut self, highest: u64) {
        self.highest = self.highest.max(highest);
    }

    pub(super) fn stage(&mut self, checkpoint: CheckpointId, token: u64, staged: Staged) -> Segment {
        self.highest += 1;
        let segment = Segment { name: self.name.clone(), sequence: self.highest, checkpoint, token, staged };
        self.pending.push_back(segment.clone());
        segment
    }

    pub(super) fn release(&mut self, checkpoint: CheckpointId) {
        self.released = self.released.max(Some(checkpoint));
    }

    /// The next command, given that this lane is to be kept open or is only to be finished.
    pub(super) fn next(&mut self, keep_open: bool) -> Option<Command> {
        if self.waiting {
            return None;
        }
        let work = self.released().next().is_some();
        if !work && !keep_open {
            return std::mem::take(&mut self.open).then(|| {
                self.phase = Phase::Fence;
                Command::Close(self.name.clone())
            });
        }
        let command = match self.phase {
            Phase::Fence => Command::Fence(self.name.clone()),
            Phase::Read => Command::Read(self.name.clone()),
            // Released segments come first: sequences and checkpoints rise together.
            Phase::Ready if work => Command::Write(Box::new(self.pending.front()?.clone())),
            Phase::Ready => return None,
        };
        self.waiting = true;
        Some(command)
    }

    pub(super) fn fenced(&mut self) {
        self.waiting = false;
        self.open = true;
        self.phase = Phase::Read;
    }

    /// What the group has committed.
    pub(super) fn read(&mut self, committed: Option<Committed>) -> Result<(), SequenceError> {
        self.waiting = false;
        self.judge(committed)?;
        let doubt = self.doubt.take();
        let found = committed.map_or(0, |committed| committed.sequence);
        if found > self.confirmed {
            self.confirmed = found;
            // It was written after the checkpoint; when exactly does not matter, so long as it is not
            // taken for later than it was.
            self.confirmed_ms = self.confirmed_ms.max(doubt.map(|doubt| doubt.taken_ms));
        }
        self.highest = self.highest.max(found);
        self.pending.retain(|segment| segment.sequence > found);
        self.phase = Phase::Ready;
        self.known = true;
        Ok(())
    }

    /// Whether what was read can be true.
    fn judge(&self, committed: Option<Committed>) -> Result<(), SequenceError> {
        let (transactional_id, group) = (self.name.transactional_id.clone(), self.name.group.clone());
        let found = committed.map_or(0, |committed| committed.sequence);
        let regressed = SequenceError::Regressed {
            transactional_id: transactional_id.clone(),
            group: group.clone(),
            found,
            confirmed: self.confirmed,
        };
        let Some(Doubt { taken_ms, now_ms, retention_ms, forced }) = self.doubt else {
            // Read again in the life of this writer: had the last transaction been committed, there
            // would be a fresh offset, so none at all means that it was not.
            return if committed.is_some() && found < self.confirmed { Err(regressed) } else { Ok(()) };
        };
        if forced {
            return Ok(());
        }
        if let Some(token) = committed.and_then(|committed| committed.token)
            && self.pending.iter().any(|segment| segment.sequence == found && segment.token != token)
        {
            return Err(SequenceError::Forked { transactional_id, sequence: found });
        }
        if committed.is_some() {
            return if found < self.confirmed { Err(regressed) } else { Ok(()) };
        }
        let age_ms = now_ms.saturating_sub(taken_ms);
        if age_ms > retention_ms {
            // Pending segments may have been written after the checkpoint and the offset be gone since.
            let pending = self.pending.len();
            return match pending {
                0 => Ok(()),
                _ => Err(SequenceError::Expired { transactional_id, group, age_ms, retention_ms, pending }),
            };
        }
        let idle_ms = now_ms.saturating_sub(self.confirmed_ms.unwrap_or(taken_ms));
        if self.confirmed > 0 && idle_ms <= retention_ms { Err(regressed) } else { Ok(()) }
    }

    pub(super) fn written(&mut self, sequence: u64, now_ms: i64) {
        self.waiting = false;
        self.confirmed = self.confirmed.max(sequence);
        self.confirmed_ms = Some(now_ms);
        self.pending.retain(|segment| segment.sequence > sequence);
    }

    /// Anything went wrong: nothing is known of the outcome.
    pub(super) fn failed(&mut self) {
        self.waiting = false;
        self.open = false;
        self.phase = Phase::Fence;
    }
}
