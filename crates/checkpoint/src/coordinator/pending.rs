//! A checkpoint that is not complete yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::barrier::Barrier;
use crate::coordinator::schedule::Request;
use crate::ids::TaskId;
use crate::manifest::TaskSnapshot;

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) barrier: Barrier,
    /// Tasks that have not acknowledged.
    pub(super) missing: BTreeSet<TaskId>,
    pub(super) acknowledged: BTreeMap<TaskId, TaskSnapshot>,
    /// Tasks that were finished when it was triggered, or finished since without acknowledging.
    pub(super) finished: BTreeMap<TaskId, TaskSnapshot>,
    /// Tasks the barrier was sent to directly.
    pub(super) triggered: BTreeSet<TaskId>,
    /// Tasks that had ended when it was triggered: they have nothing more to stage, so when it is complete
    /// they commit and finish.
    pub(super) ended: BTreeSet<TaskId>,
    /// Who asked for it.
    pub(super) request: Option<Request>,
    /// Its manifest is being stored.
    pub(super) storing: bool,
    /// Its manifest may exist though storing it failed.
    pub(super) keeps_files: bool,
    /// Every task had ended when it was triggered.
    pub(super) is_final: bool,
}

impl Pending {
    pub(super) fn is_savepoint(&self) -> bool {
        self.barrier.kind.is_savepoint()
    }

    /// True if it ends the job.
    pub(super) fn stops(&self) -> bool {
        self.barrier.kind.stop().is_some()
    }
}
