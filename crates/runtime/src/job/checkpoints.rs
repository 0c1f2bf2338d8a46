//! The checkpoints of a job, over all its attempts: storage, what is complete, where to go on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::coordinator::{Fact, InputEdge, JobPlan, OperatorPlan, RestoredFrom, VertexPlan};
use tidegate_checkpoint::identity::operator_ids;
use tidegate_checkpoint::manifest::{FilePlace, FileRef, Manifest, StateSchema};
use tidegate_checkpoint::mapping::{Mapping, NewOperator};
use tidegate_checkpoint::options::{Backend, CheckpointOptions, ClaimMode, JobEnd, StorageKind};
use tidegate_checkpoint::storage::{CheckpointStorage, Condemned, Loaded, Retained, StorageError, Stores};
use tidegate_checkpoint::{Barrier, CheckpointId, JobId as CheckpointJobId, OperatorId};
use tidegate_state::PageCache;
use tokio::sync::mpsc;

use super::attempt::{AttemptCheckpoints, RestoredJob, local_name};
use super::handle::JobId;
use super::memory::StateMemory;
use super::records::{JobRecords, ResumedJob, StopSavepoint};
use super::working_folder::WorkingFolder;
use crate::audit::OutputBoard;
use crate::plan::ExecutionPlan;
use crate::state::{SnapshotFiles, StoredRuns};

/// The number of key groups: fixed by the hash that spreads rows.
const MAX_PARALLELISM: u32 = tidegate_state::DEFAULT_MAX_PARALLELISM as u32;

/// Files that nobody names are left alone until they are this old: clocks differ.
const SWEPT_AGE_MS: i64 = 10 * 60 * 1000;

/// Checkpoints of one job.
pub(crate) struct JobCheckpoints {
    pub options: CheckpointOptions,
    pub files: Arc<StorageFiles>,
    /// Working folder of the job in this process.
    pub(super) folder: WorkingFolder,
    /// Stable ids, by node of the graph.
    pub ids: Vec<OperatorId>,
    pub next: CheckpointId,
    storage: CheckpointStorage,
    stores: Arc<Stores>,
    retained: Retained,
    /// Where a failed job goes on.
    latest: Option<Loaded>,
    /// A newer one may exist.
    is_latest_unsure: bool,
    /// The snapshot that was taken over from the user.
    claimed: Option<CheckpointId>,
    attempts: u64,
    id: JobId,
    records: Option<Arc<dyn JobRecords>>,
}

/// An error of storage as one of the job.
pub(crate) fn storage_failed(error: StorageError) -> Error {
    Error::job(error.to_string())
}

impl JobCheckpoints {
    /// The checkpoints of a job that has none yet and is to be restored from none.
    pub(crate) fn new(
        graph: &JobGraph,
        id: &JobId,
        options: CheckpointOptions,
        stores: Arc<Stores>,
        records: Option<Arc<dyn JobRecords>>,
    ) -> Result<JobCheckpoints> {
        let job = checkpoint_job(id)?;
        let folder = working_folder(graph, id)?;
        let dir = match (options.storage, &options.dir) {
            (StorageKind::FileSystem, Some(dir)) => stores.open(dir, &options.s3),
            // State that does not fit into memory does not fit there a second time; and what is taken once in a while
            // need not stay there.
            _ if options.backend == Backend::Disk || !options.is_enabled() => {
                stores.open(&folder.path().join("checkpoints").to_string_lossy(), &options.s3)
            }
            _ => stores.open("memory:///checkpoints", &options.s3),
        };
        let storage = CheckpointStorage::new(&dir.map_err(storage_failed)?, &job, options.create_subdir);
        Ok(JobCheckpoints {
            files: Arc::new(StorageFiles::new(storage.clone())),
            folder,
            ids: operator_ids(graph),
            next: CheckpointId(1),
            storage,
            stores,
            retained: Retained::restore(options.num_retained, &[]),
            latest: None,
            is_latest_unsure: false,
            claimed: None,
            attempts: 0,
            id: id.clone(),
            records,
            options,
        })
    }

    /// Opens the job's folder of checkpoints, and what it is to be restored from.
    pub(crate) async fn open(
        graph: &JobGraph,
        id: &JobId,
        options: CheckpointOptions,
        stores: Arc<Stores>,
        resumed: Option<&ResumedJob>,
        records: Option<Arc<dyn JobRecords>>,
    ) -> Result<JobCheckpoints> {
        let mut checkpoints = JobCheckpoints::new(graph, id, options, stores, records)?;
        match resumed {
            Some(resumed) => checkpoints.resume(resumed).await?,
            None => checkpoints.restore_from_option().await?,
        }
        let restored = checkpoints.latest.as_ref().map(|loaded| loaded.manifest.checkpoint);
        checkpoints.next = checkpoints.storage.next_id(restored).await.map_err(storage_failed)?;
        Ok(checkpoints)
    }

    /// Goes on from the newest checkpoint that the job has taken in whatever process, or from what it was started
    /// from if there is none.
    async fn resume(&mut self, resumed: &ResumedJob) -> Result<()> {
        let mut own = self.storage.resume(&checkpoint_job(&self.id)?).await.map_err(storage_failed)?;
        self.retained = Retained::restore(self.options.num_retained, &own);
        let newest = own.last().map_or(0, |newest| newest.manifest.checkpoint.0);
        if let Some(savepoint) = resumed.savepoint.as_ref().filter(|savepoint| savepoint.checkpoint > newest) {
            // Its sinks may have published with it.
            let place = self.stores.open(&savepoint.location, &self.options.s3).map_err(storage_failed)?;
            self.latest = Some(CheckpointStorage::load(&place).await.map_err(storage_failed)?);
            return Ok(());
        }
        let Some(newest) = own.pop() else { return self.restore_from_option().await };
        self.files.known(&newest.manifest);
        self.latest = Some(newest);
        Ok(())
    }

    /// A savepoint that stops the job is about to be published.
    pub(crate) fn stopping(&self, loaded: &Loaded) -> Result<()> {
        let is_last = loaded.manifest.is_savepoint() && loaded.manifest.kind.stop().is_some();
        match &self.records {
            Some(records) if is_last => {
                let (checkpoint, location) = (loaded.manifest.checkpoint.0, loaded.location());
                records.stopping(&self.id, &StopSavepoint { checkpoint, location })
            }
            _ => Ok(()),
        }
    }

    /// `execution.state-recovery.path`.
    async fn restore_from_option(&mut self) -> Result<()> {
        let Some(restore) = self.options.restore.clone() else { return Ok(()) };
        let place = self.stores.open(&restore.path, &self.options.s3).map_err(storage_failed)?;
        let mut loaded = CheckpointStorage::load(&place).await.map_err(storage_failed)?;
        if restore.claim == ClaimMode::Claim {
            loaded.manifest = loaded.claimed(&self.storage).map_err(storage_failed)?;
            self.retained = Retained::restore(self.options.num_retained, std::slice::from_ref(&loaded));
            self.files.known(&loaded.manifest);
            self.claimed = Some(loaded.manifest.checkpoint);
        }
        self.latest = Some(loaded);
        Ok(())
    }

    /// Which state of the snapshot to restore goes to which operator, and where the snapshot is. `states` are what
    /// operators keep, by node.
    pub(crate) fn mapping(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        states: &BTreeMap<usize, BTreeMap<String, StateSchema>>,
    ) -> Result<(Mapping, String)> {
        let Some(loaded) = &self.latest else { return Err(Error::internal("there is nothing to restore")) };
        let operators: Vec<NewOperator> = plan
            .vertices
            .iter()
            .flat_map(|vertex| vertex.links.iter().map(move |link| (link.node, vertex.parallelism)))
            .map(|(node, parallelism)| NewOperator {
                id: self.ids[node].clone(),
                name: graph.nodes[node].name.clone(),
                parallelism: parallelism as u32,
                max_parallelism: None,
                states: states.get(&node).cloned().unwrap_or_default(),
            })
            .collect();
        Ok((Mapping::new(&loaded.manifest, &operators), loaded.location()))
    }

    /// Refuses a restore that does not fit the job.
    pub(crate) fn check_mapping(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        states: &BTreeMap<usize, BTreeMap<String, StateSchema>>,
    ) -> Result<()> {
        let Some(restore) = &self.options.restore else { return Ok(()) };
        let (mapping, snapshot) = self.mapping(graph, plan, states)?;
        mapping.check(&snapshot, restore.allow_non_restored)
    }

    /// What the tasks of an attempt share. `account` is that of what sinks publish, and the how-manieth restart of
    /// the job this is.
    pub(crate) fn attempt(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        facts: mpsc::UnboundedSender<Fact>,
        folder: PathBuf,
        file_prefix: String,
        restored: Option<Arc<RestoredJob>>,
        (outputs, restart): (Arc<OutputBoard>, u64),
    ) -> AttemptCheckpoints {
        let memory = StateMemory::new(&self.options, graph, plan);
        AttemptCheckpoints {
            facts,
            files: self.files.clone(),
            ids: self.ids.clone(),
            folder,
            cache: Arc::new(PageCache::new(memory.page_cache)),
            memory,
            on_demand: !self.options.is_enabled(),
            file_prefix,
            max_parallelism: MAX_PARALLELISM,
            restored,
            outputs,
            restart,
        }
    }

    /// The folder and file prefix of the next attempt. The last one's folder goes: nobody works there any more,
    /// and a job that starts again and again must not fill the disk.
    pub(crate) fn begin_attempt(&mut self) -> (PathBuf, String) {
        // What cannot be removed goes with the job's folder.
        let _ = std::fs::remove_dir_all(self.folder.path().join(format!("attempt-{}", self.attempts)));
        self.attempts += 1;
        let folder = self.folder.path().join(format!("attempt-{}", self.attempts));
        (folder, format!("{}-{}", self.files.random, self.attempts))
    }

    /// What the next attempt goes on from, with its files fetched into `folder`.
    pub(crate) async fn restored(&self, folder: &Path) -> Result<Option<Arc<RestoredJob>>> {
        let Some(loaded) = &self.latest else { return Ok(None) };
        let folder = folder.join("restored");
        make_folder(&folder)?;
        let mut fetched = BTreeSet::new();
        for file in loaded.manifest.files() {
            let name = local_name(file);
            if !fetched.insert(name.clone()) {
                continue;
            }
            let path = folder.join(name);
            let lies = loaded.folder.local_path(file).filter(|_| is_run(&file.path));
            if lies.is_some_and(|lies| std::fs::hard_link(lies, &path).is_ok()) {
                continue;
            }
            let bytes = read_file(loaded, file).await?;
            let written = std::fs::write(&path, bytes);
            written.map_err(|e| Error::job(format!("The file '{}' cannot be written: {e}.", path.display())))?;
        }
        Ok(Some(Arc::new(RestoredJob { manifest: loaded.manifest.clone(), folder, place: loaded.folder.clone() })))
    }

    /// What the attempt that begins now was restored from.
    pub(crate) fn restored_from(&self, now_ms: i64) -> Option<RestoredFrom> {
        self.latest.as_ref().map(|loaded| RestoredFrom {
            checkpoint: loaded.manifest.checkpoint,
            restored_ms: now_ms,
            is_savepoint: loaded.manifest.is_savepoint(),
            location: loaded.location(),
        })
    }

    /// The checkpoint a failed job goes on from.
    pub(crate) fn restart_point(&self) -> Option<CheckpointId> {
        self.latest.as_ref().map(|loaded| loaded.manifest.checkpoint)
    }

    /// Stores a manifest: a checkpoint's, or with a target a savepoint's. Not part of `self`, so that it can run
    /// beside everything else.
    pub(crate) fn storing(
        &self,
        manifest: Manifest,
        target: Option<String>,
    ) -> Result<impl Future<Output = Result<Loaded, StorageError>> + Send + 'static> {
        let (storage, retained) = (self.storage.clone(), self.retained.clone());
        let target = target.map(|url| self.stores.open(&url, &self.options.s3).map_err(storage_failed)).transpose()?;
        let random = uuid::Uuid::new_v4().as_u64_pair().0;
        Ok(async move {
            match target {
                Some(place) => storage.store_savepoint(&manifest, &place, random).await,
                None => storage.store(&manifest, &retained).await,
            }
        })
    }

    /// A checkpoint begins.
    pub(crate) fn begun(&mut self, id: CheckpointId) {
        self.retained.begun(id);
    }

    /// A task has acknowledged files of a checkpoint.
    pub(crate) fn acknowledged<'a>(&mut self, id: CheckpointId, files: impl Iterator<Item = &'a FileRef>) {
        let folder = self.storage.folder(id).path;
        self.retained.acknowledged(id, &folder, files);
    }

    /// A checkpoint is stored: a failed job goes on from it.
    pub(crate) fn stored(&mut self, loaded: Loaded, is_savepoint: bool) -> Condemned {
        let id = loaded.manifest.checkpoint;
        if is_savepoint && loaded.manifest.kind.stop().is_some() {
            // Sinks publish with it, so nothing before it may be gone back to.
            self.latest = Some(loaded);
            return Condemned::default();
        }
        if is_savepoint {
            let folder = self.storage.folder(id).path;
            return self.retained.discarded(id, &folder, std::iter::empty());
        }
        self.files.complete(id);
        let condemned = self.retained.stored(&loaded);
        if self.latest.as_ref().is_none_or(|latest| latest.manifest.checkpoint < id) {
            self.latest = Some(loaded);
        }
        condemned
    }

    /// The checkpoints that are kept, oldest first.
    pub(crate) fn complete_ids(&self) -> Vec<CheckpointId> {
        self.retained.complete().collect()
    }

    /// A checkpoint will never exist.
    pub(crate) fn discarded<'a>(&mut self, id: CheckpointId, files: impl Iterator<Item = &'a FileRef>) -> Condemned {
        let folder = self.storage.folder(id).path;
        self.retained.discarded(id, &folder, files)
    }

    /// It is not known whether a checkpoint exists.
    pub(crate) fn unknown(&mut self, id: CheckpointId) {
        self.retained.unknown(id);
        self.is_latest_unsure = true;
    }

    /// Before another attempt: makes sure of where to go on, and removes what the last one left over.
    pub(crate) async fn settle(&mut self, now_ms: i64) -> Result<()> {
        if std::mem::take(&mut self.is_latest_unsure) {
            let found = self.storage.latest().await.map_err(storage_failed)?;
            // A snapshot the job was restored from, or a savepoint it stopped with, lies elsewhere.
            let known = self.restart_point();
            if found.as_ref().is_some_and(|found| known.is_none_or(|known| found.manifest.checkpoint > known)) {
                self.latest = found;
            }
        }
        if self.options.create_subdir {
            // What cannot be removed now is looked for again after the next failure.
            let _ = self.storage.sweep(now_ms - SWEPT_AGE_MS).await;
        }
        Ok(())
    }

    /// Deletes what is condemned, in the background: what cannot be deleted now is swept later.
    pub(crate) fn delete(&self, condemned: Condemned) {
        if condemned == Condemned::default() {
            return;
        }
        let storage = self.storage.clone();
        let deleting: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let _ = storage.delete(&condemned).await;
        });
        tokio::spawn(deleting);
    }

    /// The job is over. Gives the checkpoints that are kept no longer.
    pub(crate) async fn end(&mut self, end: JobEnd) -> Vec<CheckpointId> {
        let gone = self.complete_ids();
        // What was taken over and not replaced yet is all the user has.
        let is_untouched = self.claimed.is_some_and(|claimed| gone == [claimed]) && end != JobEnd::Finished;
        if is_untouched || self.options.retention.keeps(end) {
            return Vec::new();
        }
        let condemned = self.retained.all();
        // What cannot be deleted is garbage that its user will find; the job is over all the same.
        let _ = self.storage.delete(&condemned).await;
        gone
    }

    /// The running job as the coordinator needs to know it.
    pub(crate) fn plan(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        id: &JobId,
        states: &BTreeMap<usize, BTreeMap<String, StateSchema>>,
    ) -> Result<JobPlan> {
        let vertex = |position: usize| {
            let planned = &plan.vertices[position];
            let operators = planned.links.iter().map(|link| OperatorPlan {
                id: self.ids[link.node].clone(),
                name: graph.nodes[link.node].name.clone(),
                states: states.get(&link.node).cloned().unwrap_or_default(),
            });
            let inputs = plan.edges.iter().filter(|edge| edge.to == position).map(|edge| InputEdge {
                vertex: edge.from.0 as u32,
                forward: edge.partitioner == tidegate_api::graph::Partitioner::Forward,
            });
            VertexPlan {
                operators: operators.collect(),
                parallelism: planned.parallelism as u32,
                max_parallelism: MAX_PARALLELISM,
                inputs: inputs.collect(),
            }
        };
        Ok(JobPlan {
            job: checkpoint_job(id)?,
            job_name: graph.name.clone(),
            engine: format!("tidegate {}", env!("CARGO_PKG_VERSION")),
            vertices: (0..plan.vertices.len()).map(vertex).collect(),
        })
    }
}

pub(super) fn checkpoint_job(id: &JobId) -> Result<CheckpointJobId> {
    CheckpointJobId::parse(id.as_str()).map_err(|e| Error::internal(e.to_string()))
}

/// Reads a file of a snapshot, wherever it lies.
async fn read_file(loaded: &Loaded, file: &FileRef) -> Result<bytes::Bytes> {
    let reader = CheckpointStorage::new(&loaded.folder, &loaded.manifest.job, false);
    reader.read_file(&loaded.folder.path, file).await.map_err(storage_failed)
}

/// `io.tmp.dirs`, or the machine's folder for temporary files. What killed processes left there goes; the machine's is
/// swept when the process starts.
fn working_folder(graph: &JobGraph, id: &JobId) -> Result<WorkingFolder> {
    let configured = graph.config.get("io.tmp.dirs").and_then(|dirs| dirs.split([',', ':']).next()).map(PathBuf::from);
    if let Some(parent) = &configured {
        super::working_folder::sweep(parent);
    }
    WorkingFolder::make(&configured.unwrap_or_else(std::env::temp_dir), id)
}

fn make_folder(folder: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|e| Error::job(format!("The folder '{}' cannot be made: {e}. Set 'io.tmp.dirs'.", folder.display())))
}

/// Runs never change, so a storage on the same disk may share them; what sinks stage may still grow.
fn is_run(name: &str) -> bool {
    name.ends_with(".run")
}

/// Puts files of snapshots into the job's storage.
pub(crate) struct StorageFiles {
    storage: CheckpointStorage,
    /// Makes names of files unlike those of other processes.
    random: String,
    /// Files that were put, as long as checkpoints go on naming them.
    put: Mutex<HashMap<String, PutFile>>,
    /// Only files of checkpoints that exist may be named by others: those of one that is given up are deleted.
    complete: Mutex<BTreeSet<CheckpointId>>,
}

/// A file in the storage.
struct PutFile {
    file: FileRef,
    /// The checkpoint it was put for.
    first: CheckpointId,
    /// The last one that named it.
    last: CheckpointId,
}

impl StorageFiles {
    fn new(storage: CheckpointStorage) -> StorageFiles {
        let random = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        StorageFiles { storage, random, put: Mutex::default(), complete: Mutex::default() }
    }

    fn complete(&self, checkpoint: CheckpointId) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        put.retain(|_, put| put.last >= checkpoint);
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        complete.insert(checkpoint);
        let named: BTreeSet<CheckpointId> = put.values().map(|put| put.first).collect();
        complete.retain(|id| *id >= checkpoint || named.contains(id));
    }

    /// The files of a snapshot that the job has taken over need not be put again.
    fn known(&self, manifest: &Manifest) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        for subtask in manifest.operators.values().flat_map(|operator| &operator.subtasks) {
            let stores = subtask.runs.as_object().into_iter().flatten();
            for (_, stored) in stores {
                let Ok(stored) = serde_json::from_value::<StoredRuns>(stored.clone()) else { continue };
                for (i, file) in stored.snapshot.files.iter().enumerate() {
                    if let Some(kept) = subtask.files.get(stored.first_file + i) {
                        let (first, last) = (manifest.checkpoint, manifest.checkpoint);
                        put.insert(file.name.clone(), PutFile { file: kept.clone(), first, last });
                    }
                }
            }
        }
        drop(put);
        self.complete(manifest.checkpoint);
    }

    fn reusable(&self, name: &str, checkpoint: CheckpointId) -> Option<FileRef> {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        let put = put.get_mut(name)?;
        let complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if !complete.contains(&put.first) {
            return None;
        }
        put.last = put.last.max(checkpoint);
        Some(put.file.clone())
    }

    fn note(&self, name: &str, file: &FileRef, checkpoint: CheckpointId) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        put.insert(name.to_owned(), PutFile { file: file.clone(), first: checkpoint, last: checkpoint });
    }

    async fn put(&self, barrier: Barrier, place: FilePlace, name: &str, bytes: Vec<u8>) -> Result<FileRef> {
        let put = self.storage.put_file(barrier.id, place, name, bytes.into()).await.map_err(storage_failed)?;
        fail_point::reached(FailPoint::AfterUpload);
        Ok(put)
    }
}

#[async_trait]
impl SnapshotFiles for StorageFiles {
    async fn put_file(&self, barrier: Barrier, name: &str, path: &Path) -> Result<FileRef> {
        if let Some(file) = self.reusable(name, barrier.id) {
            return Ok(file);
        }
        let stored_name = format!("{}-{name}", barrier.id);
        if is_run(name) {
            let (storage, stored_name, path) = (self.storage.clone(), stored_name.clone(), path.to_owned());
            let link = move || storage.link_file(barrier.id, FilePlace::Shared, &stored_name, &path);
            let linked = tokio::task::spawn_blocking(link).await;
            if let Some(file) = linked.map_err(|e| Error::internal(format!("keeping a file of state broke: {e}")))? {
                self.note(name, &file, barrier.id);
                return Ok(file);
            }
        }
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking(move || std::fs::read(&path).map_err(|e| (path, e))).await;
        let read = read.map_err(|e| Error::internal(format!("reading a file of state broke: {e}")))?;
        let bytes =
            read.map_err(|(path, e)| Error::job(format!("The file '{}' cannot be read: {e}.", path.display())))?;
        let file = self.put(barrier, FilePlace::Shared, &stored_name, bytes).await?;
        self.note(name, &file, barrier.id);
        Ok(file)
    }

    async fn put_bytes(&self, barrier: Barrier, name: &str, bytes: Vec<u8>) -> Result<FileRef> {
        self.put(barrier, FilePlace::Exclusive, name, bytes).await
    }
}
