//! What one attempt to run a job keeps and goes on from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tidegate_api::connector::Committable;
use tidegate_api::{Error, Result, Schema, StreamElement, Watermark};
use tidegate_checkpoint::OperatorId;
use tidegate_checkpoint::coordinator::Fact;
use tidegate_checkpoint::manifest::{FileRef, KeyGroupRange, Manifest, OperatorEntry, SubtaskEntry};
use tidegate_checkpoint::storage::{Place, resolve};
use tidegate_state::{KeyGroupRange as StoreKeyGroups, LocalDir, PageCache, RunDir, RunSetDescriptor, RunStore};
use tokio::sync::mpsc;

use super::memory::StateMemory;
use crate::audit::{OutputBoard, SinkAccount};
use crate::operator::OperatorStates;
use crate::source::{AssignedSplit, RestoredSplits};
use crate::state::{
    KeyedLayout, OpenedStore, Origin, SnapshotFiles, StoreFactory, StoredRuns, Tracking, decode_elements, unreadable,
};

/// What the tasks of an attempt share to take checkpoints.
pub(crate) struct AttemptCheckpoints {
    /// To the coordinator.
    pub facts: mpsc::UnboundedSender<Fact>,
    pub files: Arc<dyn SnapshotFiles>,
    /// Stable ids, by node of the graph.
    pub ids: Vec<OperatorId>,
    /// Working folder of the attempt.
    pub folder: PathBuf,
    pub cache: Arc<PageCache>,
    pub memory: StateMemory,
    /// There are no checkpoints but those that a user asks for.
    pub on_demand: bool,
    /// Names of files begin with this; no other attempt's do.
    pub file_prefix: String,
    pub max_parallelism: u32,
    pub restored: Option<Arc<RestoredJob>>,
    /// The account of what sinks publish.
    pub outputs: Arc<OutputBoard>,
    /// The how-manieth restart of the job this is.
    pub restart: u64,
}

impl AttemptCheckpoints {
    /// A sink's part in the account.
    pub(crate) fn account(&self, sink: &str, subtask: usize) -> SinkAccount {
        SinkAccount {
            board: Arc::clone(&self.outputs),
            sink: sink.to_owned(),
            subtask,
            restart: self.restored.as_ref().map(|restored| (self.restart, restored.manifest.checkpoint.0)),
        }
    }

    /// The states of an operator in one subtask.
    pub(crate) fn states(&self, node: usize, subtask: usize, parallelism: usize) -> OperatorStates {
        let stores = TaskStores {
            operator: self.ids[node].clone(),
            folder: self.operator_folder(node, subtask),
            prefix: format!("{}-{node}-{subtask}", self.file_prefix),
            cache: self.cache.clone(),
            memory: self.memory,
            key_groups: self.key_groups(subtask, parallelism),
            restored: self.restored.clone(),
        };
        let tables = self.memory.share.map(|share| share.tables);
        // Groups that are in their stores alone cannot be written anew.
        let tracking = if self.on_demand && tables.is_none() { Tracking::Whole } else { Tracking::Changed };
        OperatorStates::new(Box::new(stores), tables, tracking)
    }

    /// The key groups of a subtask.
    pub(crate) fn key_groups(&self, subtask: usize, parallelism: usize) -> KeyGroupRange {
        KeyGroupRange::of(subtask as u32, parallelism as u32, self.max_parallelism)
    }

    /// Where a subtask of an operator keeps its files.
    pub(crate) fn operator_folder(&self, node: usize, subtask: usize) -> PathBuf {
        self.folder.join(format!("operator-{node}-{subtask}"))
    }

    /// Where a sink's subtask stages rows; made if it is not there.
    pub(crate) fn staging(&self, node: usize, subtask: usize) -> Result<PathBuf> {
        let folder = self.operator_folder(node, subtask).join("staged");
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|e| Error::job(format!("The folder '{}' cannot be made: {e}.", folder.display())))?;
        Ok(folder)
    }
}

/// Opens the stores of one operator in one subtask.
struct TaskStores {
    operator: OperatorId,
    folder: PathBuf,
    prefix: String,
    cache: Arc<PageCache>,
    memory: StateMemory,
    key_groups: KeyGroupRange,
    restored: Option<Arc<RestoredJob>>,
}

impl StoreFactory for TaskStores {
    fn open(&self, layout: &KeyedLayout) -> Result<OpenedStore> {
        let folder = self.folder.join(layout.name);
        let dir = LocalDir::new(&folder)
            .map_err(|e| Error::job(format!("The folder '{}' cannot be used for state: {e}.", folder.display())))?;
        let dir: Arc<dyn RunDir> = Arc::new(dir);
        let options = self.memory.store_options(format!("{}-{}", self.prefix, layout.name));
        let groups = StoreKeyGroups::new(self.key_groups.start, self.key_groups.end + 1);
        let old = match &self.restored {
            Some(restored) => restored.state(&self.operator, layout.name, self.key_groups, &folder)?,
            None => None,
        };
        let Some(RestoredState { runs, value, origin }) = old else {
            let store = RunStore::new(dir, options, self.cache.clone(), groups);
            return Ok(OpenedStore { store, folder, restored: None, origin: None });
        };
        let opened = RunStore::restore(dir, options, self.cache.clone(), &runs, groups);
        let (store, _) = opened.map_err(|e| unreadable(&e, Some(&origin)).context(self.operator.to_string()))?;
        Ok(OpenedStore { store, folder, restored: value, origin: Some(origin) })
    }
}

/// A checkpoint that an attempt goes on from, with its files at hand.
pub(crate) struct RestoredJob {
    pub manifest: Manifest,
    /// The checkpoint's files, under [`local_name`].
    pub folder: PathBuf,
    /// Where the checkpoint lies.
    pub place: Place,
}

struct RestoredState {
    runs: Vec<RunSetDescriptor>,
    /// The value columns they were written with.
    value: Option<Schema>,
    origin: Origin,
}

/// The name of a checkpoint's file in [`RestoredJob::folder`].
pub(crate) fn local_name(file: &FileRef) -> String {
    format!("{:?}-{}", file.place, file.path).replace('/', "+")
}

impl RestoredJob {
    fn operator(&self, id: &OperatorId) -> Option<&OperatorEntry> {
        self.manifest.operators.get(id)
    }

    /// Subtasks whose key groups overlap these.
    fn overlapping(&self, id: &OperatorId, range: KeyGroupRange) -> impl Iterator<Item = &SubtaskEntry> {
        let subtasks = self.operator(id).map(|operator| operator.subtasks.as_slice()).unwrap_or_default();
        subtasks.iter().filter(move |s| s.key_groups.is_none_or(|own| own.intersection(range).is_some()))
    }

    /// The runs of a state, with their files linked into `folder`.
    fn state(&self, id: &OperatorId, name: &str, range: KeyGroupRange, folder: &Path) -> Result<Option<RestoredState>> {
        let mut runs = Vec::new();
        let mut origin = Origin { snapshot: self.place.url(&self.place.path), ..Origin::default() };
        for subtask in self.overlapping(id, range) {
            let Some(stored) = subtask.runs.get(name) else { continue };
            let stored: StoredRuns = serde_json::from_value(stored.clone())
                .map_err(|e| Error::job(format!("State '{name}' of {id} cannot be restored: {e}.")))?;
            for (i, file) in stored.snapshot.files.iter().enumerate() {
                let kept = subtask.files.get(stored.first_file + i);
                let kept = kept.ok_or_else(|| Error::job(format!("State '{name}' of {id} names a missing file.")))?;
                link(&self.folder.join(local_name(kept)), &folder.join(&file.name))?;
                origin.files.insert(file.name.clone(), self.place.url(&resolve(&self.place.path, kept)));
            }
            runs.push(stored.snapshot);
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let schema = self.operator(id).and_then(|operator| operator.states.get(name));
        Ok(Some(RestoredState { runs, value: schema.map(|schema| schema.value.clone()), origin }))
    }

    /// What operators returned of the subtasks that a new one takes over from.
    pub(crate) fn kept(&self, id: &OperatorId, range: KeyGroupRange) -> Vec<Value> {
        self.overlapping(id, range).map(|subtask| subtask.operator_state.clone()).collect()
    }

    /// The watermark a task had reached, by its head. Where several are taken over, the least of those that go on.
    pub(crate) fn watermark(&self, head: &OperatorId, subtask: usize, parallelism: usize) -> Watermark {
        let Some(operator) = self.operator(head) else { return Watermark::MIN };
        let reached = |s: &SubtaskEntry| s.watermark_ms.map_or(Watermark::MIN, Watermark);
        match operator.subtasks.len() == parallelism {
            true => operator.subtasks.get(subtask).map_or(Watermark::MIN, reached),
            false => {
                let going_on = operator.subtasks.iter().filter(|s| !s.finished);
                going_on.map(reached).min().unwrap_or(Watermark::MIN)
            }
        }
    }

    /// Where a source goes on.
    pub(crate) fn splits(&self, source: &OperatorId) -> Result<Option<RestoredSplits>> {
        let Some(operator) = self.operator(source) else { return Ok(None) };
        let mut restored = RestoredSplits { ended: operator.is_finished(), ..RestoredSplits::default() };
        for subtask in &operator.subtasks {
            // All that were still reading were given the same.
            if !subtask.operator_state.is_null() {
                restored.said = subtask.operator_state.clone();
            }
            for position in &subtask.splits {
                restored.given.insert(position.split.clone());
                if !position.finished {
                    let split = serde_json::from_value(position.position.clone());
                    let split = split.map_err(|e| {
                        Error::job(format!("The place of split '{}' cannot be restored: {e}.", position.split))
                    })?;
                    restored.open.push(AssignedSplit { split, watermark: position.watermark_ms.map(Watermark) });
                }
            }
        }
        Ok(Some(restored))
    }

    /// What a sink's subtask goes on from: what writers returned, and what is staged.
    pub(crate) fn sink(&self, id: &OperatorId, subtask: usize, parallelism: usize) -> (Vec<Value>, Vec<Committable>) {
        let subtasks = self.operator(id).map(|operator| operator.subtasks.as_slice()).unwrap_or_default();
        let mine = subtasks.iter().enumerate().filter(|(old, _)| old % parallelism == subtask);
        let (mut writers, mut staged) = (Vec::new(), Vec::new());
        for (_, entry) in mine {
            if !entry.operator_state.is_null() {
                writers.push(entry.operator_state.clone());
            }
            staged.extend(entry.committables.iter().map(|c| Committable {
                state: c.state.get("sink").cloned().unwrap_or_default(),
                rows: c.state.get("rows").and_then(Value::as_u64).unwrap_or_default(),
                files: c.files.iter().map(|file| self.folder.join(local_name(file))).collect(),
            }));
        }
        (writers, staged)
    }

    /// What barriers had overtaken on the way to a task; `schemas` by input, `channel` finds the channel of
    /// an input and a sender.
    pub(crate) fn in_flight(
        &self,
        head: &OperatorId,
        subtask: usize,
        parallelism: usize,
        schemas: &[Schema],
        channel: impl Fn(u32, u32) -> Option<usize>,
    ) -> Result<Vec<(usize, StreamElement)>> {
        let Some(operator) = self.operator(head) else { return Ok(Vec::new()) };
        let any = operator.subtasks.iter().any(|s| !s.in_flight.is_empty());
        if any && operator.subtasks.len() != parallelism {
            return Err(Error::job(format!(
                "Checkpoint {} was taken while rows were on their way (unaligned), so {head} can only go on with its \
                 old parallelism of {}. Restore with that, take a savepoint, and change the parallelism from there.",
                self.manifest.checkpoint,
                operator.subtasks.len()
            )));
        }
        let mut elements = Vec::new();
        for part in operator.subtasks.get(subtask).map(|s| s.in_flight.as_slice()).unwrap_or_default() {
            let path = self.folder.join(local_name(&part.file));
            let bytes = std::fs::read(&path).map_err(|e| {
                Error::job(format!("The file '{}' of a checkpoint cannot be read: {e}.", path.display()))
            })?;
            let end = part.offset.saturating_add(part.bytes) as usize;
            let bytes = bytes.get(part.offset as usize..end);
            let bytes = bytes.ok_or_else(|| Error::job(format!("The file '{}' is too short.", path.display())))?;
            let schema = schemas.get(part.input as usize).ok_or_else(|| no_channel(head))?;
            let channel = channel(part.input, part.sender).ok_or_else(|| no_channel(head))?;
            elements.extend(decode_elements(bytes, schema)?.into_iter().map(|e| (channel, e)));
        }
        Ok(elements)
    }
}

fn no_channel(head: &OperatorId) -> Error {
    Error::job(format!(
        "The checkpoint holds rows on their way to {head} from an operator that does not send there any more. Restore \
         with the old script, take a savepoint, and change the script from there."
    ))
}

/// Makes a file available under another name.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() || std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let copied = std::fs::copy(from, to).map(|_| ());
    copied
        .map_err(|e| Error::job(format!("The file '{}' cannot be copied to '{}': {e}.", from.display(), to.display())))
}
