//! A task's part in checkpoints: it takes its state at a barrier, and writes it while it goes on.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use serde_json::Value;
use tidegate_api::{Error, Result, StreamElement};
use tidegate_checkpoint::coordinator::{AckMetrics, DeclineReason, Fact};
use tidegate_checkpoint::manifest::{
    Committable, FilePlace, FileRef, InFlight, KeyGroupRange, SplitPosition, SubtaskEntry, TaskSnapshot,
};
use tidegate_checkpoint::{Alignment, Barrier, CheckpointId, OperatorId, TaskId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::operator::{Operator, OperatorStates};
use crate::state::{NowMs, OpenStore, SnapshotFiles, encode_element, write_store};

/// Groups that an operator writes at one time after a barrier: some milliseconds.
const SLICE_GROUPS: usize = 32_768;

/// What the coordinator tells a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskCommand {
    /// Begin a checkpoint here; for a source with what its enumerator knew before any barrier was sent.
    Trigger { barrier: Barrier, enumerator: Value },
    /// A checkpoint is complete.
    Completed(CheckpointId),
    /// A checkpoint is over.
    Aborted(CheckpointId),
    /// A sink has published what it staged up to this checkpoint.
    Committed { link: usize, checkpoint: CheckpointId },
    /// A sink could not publish.
    CommitFailed(Error),
}

/// An operator of a chain, as checkpoints know it.
pub(crate) struct LinkIdentity {
    pub id: OperatorId,
    pub states: OperatorStates,
}

/// A task's link to the coordinator.
pub(crate) struct TaskCheckpoints {
    pub task: TaskId,
    pub facts: mpsc::UnboundedSender<Fact>,
    pub files: Arc<dyn SnapshotFiles>,
    /// By position in the chain.
    pub links: Vec<LinkIdentity>,
    pub key_groups: KeyGroupRange,
    /// For each channel: input of the head operator, and which of its senders it comes from.
    pub senders: Vec<(u32, u32)>,
    pub now_ms: NowMs,
    /// There are no checkpoints but those that a user asks for.
    pub on_demand: bool,
    /// Snapshots whose alignment is not over: who waits for what it has overtaken.
    aligning: BTreeMap<CheckpointId, oneshot::Sender<Aligned>>,
    writers: JoinSet<()>,
    /// Stores whose operators let state leave memory, so that they fill between checkpoints.
    filling: Vec<OpenStore>,
    /// Operators that have not written everything a barrier has noted, by position in the chain.
    saving: VecDeque<usize>,
    /// When they noted it, wall clock.
    noted_ms: i64,
}

/// The end of an alignment.
struct Aligned {
    at_ms: i64,
    overtaken: Vec<(usize, StreamElement)>,
}

/// What a source adds to a snapshot.
#[derive(Clone, Default)]
pub(crate) struct SourceSnapshot {
    pub splits: Vec<SplitPosition>,
    pub enumerator: Value,
    /// It has read everything, whatever else its task still owes.
    pub ended: bool,
}

/// What a sink has staged and nobody has published yet.
pub(crate) struct StagedOutput {
    pub committables: Vec<StagedCommittable>,
    pub writer: Value,
}

/// A committable, with its files where they are now.
#[derive(Clone, Debug)]
pub(crate) struct StagedCommittable {
    pub state: Value,
    pub rows: u64,
    pub files: Vec<PathBuf>,
}

/// One operator's part, before its files are written.
struct Taken {
    id: OperatorId,
    entry: SubtaskEntry,
    stores: Vec<OpenStore>,
    staged: Vec<StagedCommittable>,
}

/// A snapshot whose parts have been taken, in chain order.
pub(crate) struct TakenSnapshot {
    parts: Vec<Taken>,
    watermark_ms: Option<i64>,
}

impl TaskCheckpoints {
    pub(crate) fn new(
        task: TaskId,
        facts: mpsc::UnboundedSender<Fact>,
        files: Arc<dyn SnapshotFiles>,
        links: Vec<LinkIdentity>,
        key_groups: KeyGroupRange,
        senders: Vec<(u32, u32)>,
        now_ms: NowMs,
        on_demand: bool,
    ) -> TaskCheckpoints {
        let fills = |link: &&LinkIdentity| link.states.table_bytes().is_some();
        TaskCheckpoints {
            filling: links.iter().filter(fills).flat_map(|link| link.states.open()).collect(),
            task,
            facts,
            files,
            links,
            key_groups,
            senders,
            now_ms,
            on_demand,
            aligning: BTreeMap::new(),
            writers: JoinSet::new(),
            saving: VecDeque::new(),
            noted_ms: 0,
        }
    }

    /// Wall clock in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    /// Has stores that fill between checkpoints write what they hold to files, and waits if they do not keep up.
    pub(crate) async fn keep_up(&self) -> Result<()> {
        for store in &self.filling {
            store.keep_up(&self.now_ms).await?;
        }
        Ok(())
    }

    /// Begins a snapshot; `watermark` is the task's input watermark.
    pub(crate) fn begin(&self, watermark: i64) -> TakenSnapshot {
        TakenSnapshot { parts: Vec::new(), watermark_ms: (watermark != i64::MIN).then_some(watermark) }
    }

    /// Adds the state of the operator at `link`, which notes what changed and writes it into its stores: a first slice
    /// at once, since a task that is held up may not come to a second one for long, and the rest later.
    pub(crate) fn add_operator(
        &mut self,
        snapshot: &mut TakenSnapshot,
        link: usize,
        checkpoint: CheckpointId,
        operator: &mut dyn Operator,
    ) -> Result<()> {
        let kept = operator.checkpoint()?;
        let LinkIdentity { id, states } = &self.links[link];
        let stores = states.open();
        stores.iter().for_each(|store| store.ask_for_snapshot(checkpoint.0));
        if operator.save_some(SLICE_GROUPS)? {
            stores.iter().try_for_each(OpenStore::begin_snapshot)?;
        } else {
            self.saving.push_back(link);
            self.noted_ms = (self.now_ms)();
        }
        let entry = SubtaskEntry {
            key_groups: (!stores.is_empty()).then_some(self.key_groups),
            operator_state: kept,
            ..SubtaskEntry::default()
        };
        snapshot.parts.push(Taken { id: id.clone(), entry, stores, staged: Vec::new() });
        Ok(())
    }

    /// The operator, by position in the chain, whose turn it is to write what a barrier has noted, and how many groups
    /// of it. A slice comes with each element; they grow with time, so that a task that is held up, and sees few
    /// elements, does not hold the checkpoint up for long.
    pub(crate) fn saving(&self) -> Option<(usize, usize)> {
        let link = self.saving.front()?;
        let seconds = ((self.now_ms)() - self.noted_ms) / 1000;
        Some((*link, SLICE_GROUPS << seconds.clamp(0, 16)))
    }

    /// The operator whose turn it is has written some of what a barrier has noted, or all of it.
    pub(crate) fn saved(&mut self, is_all: bool) -> Result<()> {
        let Some(link) = self.saving.front() else { return Ok(()) };
        for store in self.links[*link].states.open() {
            if is_all {
                store.begin_snapshot()?;
            } else {
                store.flush_full((self.now_ms)());
            }
        }
        if is_all {
            self.saving.pop_front();
        }
        Ok(())
    }

    /// Adds where a source stands.
    pub(crate) fn add_source(&self, snapshot: &mut TakenSnapshot, source: SourceSnapshot) {
        let entry = SubtaskEntry {
            finished: source.ended,
            splits: source.splits,
            operator_state: source.enumerator,
            ..SubtaskEntry::default()
        };
        let id = self.links[0].id.clone();
        snapshot.parts.push(Taken { id, entry, stores: Vec::new(), staged: Vec::new() });
    }

    /// Adds what the sink at `link` has staged.
    pub(crate) fn add_sink(&self, snapshot: &mut TakenSnapshot, link: usize, staged: StagedOutput) {
        let entry = SubtaskEntry { operator_state: staged.writer, ..SubtaskEntry::default() };
        let id = self.links[link].id.clone();
        snapshot.parts.push(Taken { id, entry, stores: Vec::new(), staged: staged.committables });
    }

    /// Writes a snapshot while the task goes on and its operators write what they have noted, and acknowledges it once
    /// its alignment is over too. The first barrier was seen at `seen_ms`; the state was begun to be taken at `begun_ms`.
    pub(crate) fn write(&mut self, barrier: Barrier, snapshot: TakenSnapshot, seen_ms: i64, begun_ms: i64) {
        let (overtaken, aligned) = oneshot::channel();
        self.aligning.insert(barrier.id, overtaken);
        let writer = Writer {
            barrier,
            task: self.task,
            files: self.files.clone(),
            senders: self.senders.clone(),
            now_ms: self.now_ms.clone(),
            stages: Stages { seen_ms, begun_ms, taken_ms: (self.now_ms)() },
        };
        let facts = self.facts.clone();
        self.writers.spawn(async move {
            let (checkpoint, task) = (writer.barrier.id, writer.task);
            let fact = match writer.write(snapshot, aligned).await {
                Ok(Some((snapshot, aligned_ms))) => {
                    let metrics = writer.stages.metrics(writer.barrier, &snapshot, aligned_ms, (writer.now_ms)());
                    Fact::Acknowledged { checkpoint, task, snapshot, metrics }
                }
                // Whoever gave it up has said so.
                Ok(None) => return,
                Err(e) => Fact::Declined { checkpoint, task, reason: DeclineReason::SnapshotFailed(e.to_string()) },
            };
            // A coordinator that is gone needs no answer.
            let _ = facts.send(fact);
        });
        while self.writers.try_join_next().is_some() {}
    }

    /// A snapshot's alignment is over; this is what it has overtaken.
    pub(crate) fn aligned(&mut self, checkpoint: CheckpointId, overtaken: Vec<(usize, StreamElement)>) {
        if let Some(waiting) = self.aligning.remove(&checkpoint) {
            // A writer that is gone has failed and said so.
            let _ = waiting.send(Aligned { at_ms: self.now_ms(), overtaken });
        }
    }

    /// A checkpoint is given up.
    pub(crate) fn abandoned(&mut self, checkpoint: CheckpointId, reason: DeclineReason) {
        self.aligning.remove(&checkpoint);
        let _ = self.facts.send(Fact::Declined { checkpoint, task: self.task, reason });
    }

    /// Stores need not keep what only older checkpoints name.
    pub(crate) fn completed(&self, checkpoint: CheckpointId) -> Result<()> {
        for store in self.links.iter().flat_map(|link| link.states.open()) {
            let mut store = store.store.lock().unwrap_or_else(PoisonError::into_inner);
            for old in store.retained_snapshots().into_iter().filter(|id| *id < checkpoint.0) {
                store.release(old).map_err(|e| Error::job(format!("State cannot be kept: {e}")))?;
            }
        }
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) async fn written(&mut self) {
        while self.writers.join_next().await.is_some() {}
    }

    /// Tells the coordinator that the task has read its inputs to the end.
    pub(crate) fn ended(&self) {
        let _ = self.facts.send(Fact::TaskEnded { task: self.task });
    }

    /// Tells the coordinator that the task owes nothing; a source with the splits that ended since the last
    /// barrier.
    pub(crate) fn finished(&self, splits: Vec<SplitPosition>) {
        let done = SubtaskEntry { finished: true, ..SubtaskEntry::default() };
        let mut operators: BTreeMap<_, _> = self.links.iter().map(|link| (link.id.clone(), done.clone())).collect();
        if let Some(head) = self.links.first().and_then(|head| operators.get_mut(&head.id)) {
            head.splits = splits;
        }
        let last = TaskSnapshot { operators };
        let _ = self.facts.send(Fact::TaskFinished { task: self.task, last });
    }
}

/// Writes one snapshot.
struct Writer {
    barrier: Barrier,
    task: TaskId,
    files: Arc<dyn SnapshotFiles>,
    senders: Vec<(u32, u32)>,
    now_ms: NowMs,
    stages: Stages,
}

/// When the first barrier was seen, when the state was begun to be taken, and when it had been.
#[derive(Clone, Copy)]
struct Stages {
    seen_ms: i64,
    begun_ms: i64,
    taken_ms: i64,
}

impl Stages {
    /// How a task fared with a checkpoint whose last barrier was seen at `aligned_ms` and whose files were written at
    /// `written_ms`.
    fn metrics(self, barrier: Barrier, snapshot: &TaskSnapshot, aligned_ms: i64, written_ms: i64) -> AckMetrics {
        let own = format!("{}-", barrier.id);
        let bytes = |counts: &dyn Fn(&FileRef) -> bool| snapshot.files().filter(|f| counts(f)).map(|f| f.bytes).sum();
        let in_flight = snapshot.operators.values().flat_map(|entry| &entry.in_flight);
        let unaligned = barrier.kind.alignment() == Alignment::Unaligned;
        // Aligned, the state is taken when the last barrier is there; unaligned, barriers come after it.
        let last_seen_ms = if unaligned { aligned_ms } else { self.begun_ms };
        AckMetrics {
            start_delay_ms: (self.seen_ms - barrier.timestamp_ms).max(0),
            alignment_ms: (last_seen_ms - self.seen_ms).max(0),
            sync_ms: (self.taken_ms - self.begun_ms).max(0),
            async_ms: (written_ms - self.taken_ms).max(0),
            state_bytes: bytes(&|_| true),
            written_bytes: bytes(&|f| f.path.starts_with(&own) || f.place == FilePlace::Exclusive),
            processed_bytes: 0,
            persisted_bytes: in_flight.map(|part| part.bytes).sum(),
            unaligned,
        }
    }
}

impl Writer {
    async fn write(
        &self,
        snapshot: TakenSnapshot,
        aligned: oneshot::Receiver<Aligned>,
    ) -> Result<Option<(TaskSnapshot, i64)>> {
        let mut operators = BTreeMap::new();
        let mut head = None;
        for Taken { id, mut entry, stores, staged } in snapshot.parts {
            let mut runs = serde_json::Map::new();
            for store in stores {
                let (before, now_ms) = (entry.files.len(), (self.now_ms)());
                let (run_set, files) = write_store(&store, self.barrier, &self.files, before, now_ms).await?;
                runs.insert(store.layout.name.to_owned(), run_set);
                entry.files.extend(files);
            }
            if !runs.is_empty() {
                entry.runs = Value::Object(runs);
            }
            for committable in staged {
                entry.committables.push(self.put_committable(committable).await?);
            }
            head.get_or_insert_with(|| id.clone());
            operators.insert(id, entry);
        }
        let Ok(Aligned { at_ms, overtaken }) = aligned.await else { return Ok(None) };
        let in_flight = self.put_overtaken(&overtaken).await?;
        if let Some(head) = head.and_then(|id| operators.get_mut(&id)) {
            head.watermark_ms = snapshot.watermark_ms;
            head.in_flight = in_flight;
        }
        Ok(Some((TaskSnapshot { operators }, at_ms)))
    }

    async fn put_committable(&self, staged: StagedCommittable) -> Result<Committable> {
        let mut files: Vec<FileRef> = Vec::with_capacity(staged.files.len());
        for path in &staged.files {
            files.push(self.files.put_staged(self.barrier, path).await?);
        }
        Ok(Committable { state: serde_json::json!({ "rows": staged.rows, "sink": staged.state }), files })
    }

    /// One file for all channels.
    async fn put_overtaken(&self, overtaken: &[(usize, StreamElement)]) -> Result<Vec<InFlight>> {
        let mut channels: BTreeMap<usize, (Vec<u8>, u64)> = BTreeMap::new();
        for (channel, element) in overtaken {
            let (bytes, elements) = channels.entry(*channel).or_default();
            encode_element(element, bytes)?;
            *elements += 1;
        }
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let whole: Vec<u8> = channels.values().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        let name = format!("in-flight-{}-{}", self.task.vertex, self.task.subtask);
        let file = self.files.put_bytes(self.barrier, &name, whole).await?;
        let mut offset = 0;
        Ok(channels
            .into_iter()
            .map(|(channel, (bytes, elements))| {
                let (input, sender) = self.senders[channel];
                let bytes = bytes.len() as u64;
                offset += bytes;
                InFlight { input, sender, file: file.clone(), offset: offset - bytes, bytes, elements }
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_checkpoint::BarrierKind;

    use super::*;

    #[test]
    fn each_stage_of_a_checkpoint_has_its_time() {
        let stages = Stages { seen_ms: 107, begun_ms: 120, taken_ms: 121 };
        let barrier =
            |alignment| Barrier { id: CheckpointId(7), timestamp_ms: 100, kind: BarrierKind::Checkpoint(alignment) };
        let entry = SubtaskEntry {
            files: vec![FileRef::new(FilePlace::Shared, "6-a", 1000), FileRef::new(FilePlace::Shared, "7-b", 10)],
            ..SubtaskEntry::default()
        };
        let snapshot = TaskSnapshot::of("op", entry);
        let of = |alignment| stages.metrics(barrier(alignment), &snapshot, 150, 160);
        let aligned = of(Alignment::Aligned);
        assert_eq!((aligned.start_delay_ms, aligned.alignment_ms, aligned.sync_ms, aligned.async_ms), (7, 13, 1, 39));
        assert_eq!((aligned.state_bytes, aligned.written_bytes, aligned.unaligned), (1010, 10, false));
        let unaligned = of(Alignment::Unaligned);
        assert_eq!((unaligned.alignment_ms, unaligned.unaligned), (43, true));
    }
}
