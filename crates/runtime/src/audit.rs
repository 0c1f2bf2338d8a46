//! The account of a job's exactly-once sinks: which piece of output is published, which is pending, and which was
//! published again after a restart.
//!
//! A piece enters the account when it is staged at a barrier, or when a restart finds it in the checkpoint it goes on
//! from, and is settled when its committer says so. Settled ones are remembered up to a bound, pending ones all: there
//! are no more of them than the checkpoint holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tidegate_api::audit::{Auditor, Finding, OutputName, OutputUnit};
use tidegate_checkpoint::manifest::Manifest;
use tidegate_time::Clock;

/// Settled pieces that are remembered.
const SETTLED_MAX: usize = 1_000;
/// Restarts that are remembered.
const RESTARTS_MAX: usize = 100;

/// The account at one moment.
#[derive(Clone, Debug, Default)]
pub struct OutputsView {
    /// The pieces, in the order they were staged.
    pub outputs: Vec<OutputRecord>,
    /// What each checkpoint that they name had read.
    pub checkpoints: BTreeMap<u64, Vec<SourcePosition>>,
    /// The restarts, oldest first.
    pub restarts: Vec<Restart>,
    /// Settled pieces that are not remembered any more.
    pub forgotten: u64,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRecord {
    /// The sink operator's name.
    pub sink: String,
    /// Its subtask.
    pub subtask: usize,
    /// What it is.
    pub unit: OutputUnit,
    /// Whether it is published.
    pub state: OutputState,
    /// The last restart that found it pending in its checkpoint, by number.
    pub restart: Option<u64>,
    /// When it was staged, milliseconds since the epoch; `None` if that was before this process.
    pub staged_ms: Option<i64>,
    /// When it was settled, milliseconds since the epoch.
    pub settled_ms: Option<i64>,
}

/// Whether a piece is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// It waits for its checkpoint, or for the external system.
    Pending,
    /// It was published after its checkpoint.
    Committed,
    /// A restart found it unpublished, and published it.
    Replayed,
    /// A restart found that it had been published.
    FoundCommitted,
}

impl OutputState {
    /// The name REST shows.
    pub fn name(self) -> &'static str {
        match self {
            OutputState::Pending => "PENDING",
            OutputState::Committed => "COMMITTED",
            OutputState::Replayed => "REPLAYED",
            OutputState::FoundCommitted => "FOUND_COMMITTED",
        }
    }
}

/// How far a source had come.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcePosition {
    /// The source operator's name.
    pub source: String,
    /// The split's name.
    pub split: String,
    /// The connector's own data: for Kafka the offset of the next record, as `start`. Null for one read to its end.
    pub position: Value,
    /// Read to its end.
    pub finished: bool,
}

/// A restart of the job, in this process or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The how-manieth, over the job's whole life; 0 if it was started from a snapshot.
    pub number: u64,
    /// The checkpoint it went on from; `None` if there was none.
    pub checkpoint: Option<u64>,
    /// When, milliseconds since the epoch.
    pub at_ms: i64,
}

/// The account of a job, over all its attempts in this process.
pub(crate) struct OutputBoard {
    clock: Arc<dyn Clock>,
    account: Mutex<Account>,
}

#[derive(Default)]
struct Account {
    pending: Vec<OutputRecord>,
    settled: VecDeque<OutputRecord>,
    checkpoints: BTreeMap<u64, Vec<SourcePosition>>,
    restarts: VecDeque<Restart>,
    forgotten: u64,
}

impl OutputBoard {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> OutputBoard {
        OutputBoard { clock, account: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another attempt begins. What was staged after the checkpoint it goes on from will never be published; what is
    /// pending in it is said again by its sinks.
    pub(crate) fn restarted(&self, number: u64, manifest: Option<&Manifest>) {
        let restart =
            Restart { number, checkpoint: manifest.map(|manifest| manifest.checkpoint.0), at_ms: self.clock.now_ms() };
        let mut account = self.lock();
        account.pending.clear();
        account.restarts.push_back(restart);
        if account.restarts.len() > RESTARTS_MAX {
            account.restarts.pop_front();
        }
        drop(account);
        if let Some(manifest) = manifest {
            self.completed(manifest);
        }
    }

    /// A checkpoint is complete: notes what it had read.
    pub(crate) fn completed(&self, manifest: &Manifest) {
        let mut account = self.lock();
        account.checkpoints.insert(manifest.checkpoint.0, positions(manifest));
        account.forget_checkpoints();
    }

    /// The account at this moment.
    pub(crate) fn view(&self) -> OutputsView {
        let account = self.lock();
        OutputsView {
            outputs: account.settled.iter().chain(&account.pending).cloned().collect(),
            checkpoints: account.checkpoints.clone(),
            restarts: account.restarts.iter().cloned().collect(),
            forgotten: account.forgotten,
        }
    }

    fn enter(&self, record: OutputRecord) {
        let mut account = self.lock();
        // One that was restored is staged again in the eyes of the next checkpoint.
        account.pending.retain(|known| known.unit.name != record.unit.name);
        account.pending.push(record);
    }

    fn settle(&self, name: &OutputName, finding: Finding) {
        let now_ms = self.clock.now_ms();
        let mut account = self.lock();
        // Whoever settles the rest of a commit says what a committer has said already.
        let Some(position) = account.pending.iter().position(|record| record.unit.name == *name) else { return };
        let mut record = account.pending.remove(position);
        record.settled_ms = Some(now_ms);
        record.state = match (record.restart, finding) {
            (Some(_), Finding::Published) => OutputState::Replayed,
            (_, Finding::WasThere) => OutputState::FoundCommitted,
            (None, Finding::Published) => OutputState::Committed,
        };
        account.settled.push_back(record);
        if account.settled.len() > SETTLED_MAX {
            account.settled.pop_front();
            account.forgotten += 1;
        }
    }
}

impl Account {
    /// Keeps the positions of checkpoints that some piece names, and of the newest.
    fn forget_checkpoints(&mut self) {
        let Some(newest) = self.checkpoints.last_key_value().map(|(id, _)| *id) else { return };
        let named: std::collections::BTreeSet<u64> =
            self.settled.iter().chain(&self.pending).filter_map(|record| record.unit.checkpoint).collect();
        let restarts: Vec<u64> = self.restarts.iter().filter_map(|restart| restart.checkpoint).collect();
        self.checkpoints.retain(|id, _| *id == newest || named.contains(id) || restarts.contains(id));
    }
}

fn positions(manifest: &Manifest) -> Vec<SourcePosition> {
    let mut positions = Vec::new();
    for operator in manifest.operators.values() {
        for split in operator.subtasks.iter().flat_map(|subtask| &subtask.splits) {
            positions.push(SourcePosition {
                source: operator.name.clone(),
                split: split.split.clone(),
                position: split.position.get("state").cloned().unwrap_or_default(),
                finished: split.finished,
            });
        }
    }
    positions.sort_by(|a, b| (&a.source, &a.split).cmp(&(&b.source, &b.split)));
    positions
}

/// The part of a sink's subtask in the account, in one attempt.
#[derive(Clone)]
pub(crate) struct SinkAccount {
    pub board: Arc<OutputBoard>,
    pub sink: String,
    pub subtask: usize,
    /// What the attempt goes on from: number of the restart and checkpoint.
    pub restart: Option<(u64, u64)>,
}

impl SinkAccount {
    /// Pending in the checkpoint that the attempt goes on from.
    pub(crate) fn restored(&self, mut unit: OutputUnit) {
        let (restart, checkpoint) = self.restart.unzip();
        unit.checkpoint = unit.checkpoint.or(checkpoint);
        self.enter(unit, restart, None);
    }

    /// Staged at the barrier of a checkpoint.
    pub(crate) fn staged(&self, mut unit: OutputUnit, checkpoint: u64) {
        unit.checkpoint = Some(checkpoint);
        self.enter(unit, None, Some(self.board.clock.now_ms()));
    }

    fn enter(&self, unit: OutputUnit, restart: Option<u64>, staged_ms: Option<i64>) {
        let (sink, subtask) = (self.sink.clone(), self.subtask);
        let state = OutputState::Pending;
        self.board.enter(OutputRecord { sink, subtask, unit, state, restart, staged_ms, settled_ms: None });
    }

    /// A commit has returned: what its committer has said nothing of is published.
    pub(crate) fn published(&self, names: &[OutputName]) {
        names.iter().for_each(|name| self.board.settle(name, Finding::Published));
    }

    /// What the committer tells.
    pub(crate) fn auditor(&self) -> Auditor {
        let board = Arc::clone(&self.board);
        Auditor::new(move |name, finding| board.settle(name, finding))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_time::ManualClock;

    use super::*;

    fn unit(sequence: u64) -> OutputUnit {
        let name = OutputName::Sequence { transactional_id: "t-0".into(), group: "eos.t-0".into(), sequence };
        OutputUnit { name, rows: 10, bytes: Some(100), checkpoint: None }
    }

    fn account(board: &Arc<OutputBoard>, restart: Option<(u64, u64)>) -> SinkAccount {
        SinkAccount { board: Arc::clone(board), sink: "out[1]: Writer".into(), subtask: 0, restart }
    }

    fn states(board: &OutputBoard) -> Vec<(String, &'static str, Option<u64>)> {
        let view = board.view();
        view.outputs.iter().map(|r| (r.unit.name.to_string(), r.state.name(), r.restart)).collect()
    }

    #[test]
    fn a_piece_goes_from_staged_to_settled_and_a_restart_is_named() {
        let board = Arc::new(OutputBoard::new(Arc::new(ManualClock::new(1_000))));
        let first = account(&board, None);
        first.staged(unit(1), 7);
        first.staged(unit(2), 8);
        first.staged(unit(3), 9);
        let OutputUnit { name, .. } = unit(1);
        first.auditor().found(&name, Finding::Published);
        first.published(&[name]);
        assert_eq!(
            states(&board),
            [
                ("t-0 sequence 1".to_owned(), "COMMITTED", None),
                ("t-0 sequence 2".to_owned(), "PENDING", None),
                ("t-0 sequence 3".to_owned(), "PENDING", None),
            ]
        );
        // It dies; checkpoint 8 holds 2 and 3 was staged after it.
        board.restarted(4, None);
        let second = account(&board, Some((4, 8)));
        second.restored(unit(1));
        second.restored(unit(2));
        second.auditor().found(&unit(1).name, Finding::WasThere);
        second.auditor().found(&unit(2).name, Finding::Published);
        second.staged(unit(3), 9);
        let found = states(&board);
        assert_eq!(
            found[1..3],
            [
                ("t-0 sequence 1".to_owned(), "FOUND_COMMITTED", Some(4)),
                ("t-0 sequence 2".to_owned(), "REPLAYED", Some(4)),
            ]
        );
        assert_eq!(found[3], ("t-0 sequence 3".to_owned(), "PENDING", None));
        let view = board.view();
        assert_eq!(view.outputs[2].unit.checkpoint, Some(8), "the checkpoint it was found in");
        assert_eq!(view.restarts, [Restart { number: 4, checkpoint: None, at_ms: 1_000 }]);
    }

    #[test]
    fn only_so_much_is_remembered_but_everything_that_is_pending() {
        let board = Arc::new(OutputBoard::new(Arc::new(ManualClock::new(0))));
        let sink = account(&board, None);
        for sequence in 1..=SETTLED_MAX as u64 + 5 {
            sink.staged(unit(sequence), sequence);
            sink.published(&[unit(sequence).name]);
        }
        for sequence in 2_000..4_000 {
            sink.staged(unit(sequence), 1);
        }
        let view = board.view();
        assert_eq!((view.outputs.len(), view.forgotten), (SETTLED_MAX + 2_000, 5));
    }
}
