//! All transactional ids of one subtask: its own, and those it finishes for others.

use crate::ids::CheckpointId;
use crate::sequences::lane::{Doubt, Lane};
use crate::sequences::{Admission, Caps, Command, Committed, LaneState, Segment, SequenceError, SinkName, Staged};

/// What a subtask gets back from a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// Its share of the ids; see [`super::spread`].
    pub lanes: Vec<LaneState>,
    /// When the checkpoint was triggered, milliseconds since the epoch.
    pub taken_ms: i64,
    /// The time now.
    pub now_ms: i64,
    /// How long the cluster keeps committed offsets (`offsets.retention.minutes`), milliseconds.
    pub retention_ms: i64,
    /// Go on whatever the offsets say.
    pub forced: bool,
}

/// The sequences of one sink subtask.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// Ids to finish, in order; the subtask's own is the last.
    lanes: Vec<Lane>,
    caps: Caps,
    /// True once the subtask's own id is open: from then on rows can be staged.
    open: bool,
}

impl Sequences {
    /// A subtask that writes under `own`, after what it was given back.
    pub fn new(own: SinkName, caps: Caps, restored: Option<Restored>) -> Sequences {
        let mut lanes: Vec<Lane> = Vec::new();
        if let Some(Restored { lanes: states, taken_ms, now_ms, retention_ms, forced }) = restored {
            let doubt = Doubt { taken_ms, now_ms, retention_ms, forced };
            lanes.extend(states.into_iter().map(|state| Lane::restored(state, doubt)));
        }
        let own = match lanes.iter().position(|lane| *lane.name() == own) {
            Some(index) => lanes.remove(index),
            None => Lane::new(own),
        };
        lanes.push(own);
        Sequences { lanes, caps, open: false }
    }

    /// True once everything pending is written and the subtask's own id is open: rows may be taken.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// What to do next with Kafka; `None` until something changes or the last command is reported on.
    pub fn next_command(&mut self) -> Option<Command> {
        let own = self.lanes.len() - 1;
        for lane in &mut self.lanes[..own] {
            // A lane that is being finished holds up those after it: an order is easier to believe.
            if let Some(command) = lane.next(false) {
                return Some(command);
            }
            if lane.released().next().is_some() {
                return None;
            }
        }
        self.lanes[own].next(true)
    }

    /// A producer of this id was initialised.
    pub fn fenced(&mut self, name: &SinkName) {
        self.lane(name).into_iter().for_each(Lane::fenced);
    }

    /// The committed sequence of this id's group was read; `None` if there is none.
    pub fn read(&mut self, name: &SinkName, committed: Option<Committed>) -> Result<(), SequenceError> {
        match self.lane(name) {
            Some(lane) => lane.read(committed)?,
            None => return Ok(()),
        }
        self.settle();
        Ok(())
    }

    /// The transaction of this segment was committed, for certain, by `now_ms`.
    pub fn written(&mut self, name: &SinkName, sequence: u64, now_ms: i64) {
        self.lane(name).into_iter().for_each(|lane| lane.written(sequence, now_ms));
        self.settle();
    }

    /// A command for this id failed, or it is not known how it went.
    pub fn failed(&mut self, name: &SinkName) {
        self.lane(name).into_iter().for_each(Lane::failed);
    }

    /// Sequences up to `highest` were given away in an earlier life, as a checkpoint remembers: they are not
    /// given away again, though Kafka may have forgotten them.
    pub fn raise(&mut self, name: &SinkName, highest: u64) {
        self.lane(name).into_iter().for_each(|lane| lane.raise(highest));
    }

    /// Rows staged before the barrier of `checkpoint` get their place in the order. `token` is random.
    /// Only once [`Sequences::is_open`].
    pub fn stage(&mut self, checkpoint: CheckpointId, token: u64, staged: Staged) -> Segment {
        debug_assert!(self.open, "no sequence can be given away before the committed one is known");
        let own = self.lanes.len() - 1;
        self.lanes[own].stage(checkpoint, token, staged)
    }

    /// A checkpoint is complete: what was staged up to it may be written.
    pub fn complete(&mut self, checkpoint: CheckpointId) {
        self.lanes.iter_mut().for_each(|lane| lane.release(checkpoint));
    }

    /// What goes into a checkpoint. Ids that are finished stay in it, with their highest sequence.
    pub fn state(&self) -> Vec<LaneState> {
        self.lanes.iter().map(Lane::state).collect()
    }

    /// Segments not known to be written.
    pub fn pending(&self) -> impl Iterator<Item = &Segment> {
        self.lanes.iter().flat_map(Lane::pending)
    }

    /// Whether more rows may be taken while `open_bytes` of them are staged for the next barrier.
    pub fn admit(&self, open_bytes: u64) -> Admission {
        let released = self.lanes.iter().flat_map(Lane::released);
        self.caps.admit(self.pending(), released.count(), open_bytes)
    }

    /// True if what is staged should become a segment of its own now (rule 6).
    pub fn is_segment_full(&self, rows: u64, bytes: u64) -> bool {
        rows >= self.caps.segment_rows || bytes >= self.caps.segment_bytes
    }

    fn lane(&mut self, name: &SinkName) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.name() == name)
    }

    fn settle(&mut self) {
        let own = self.lanes.len() - 1;
        let drained = self.lanes.iter().all(|lane| lane.released().next().is_none());
        self.open |= drained && self.lanes[own].is_known();
    }
}
