//! Flushes and merges as jobs: made by the store, run by the caller where it likes, applied by the store.
//!
//! Both read sorted sources and write runs into new files; neither touches the store meanwhile. A file
//! takes the runs of several namespaces (a pack) until it is full; a run that grows beyond a file is cut,
//! at the start of a key group where that is possible.

use super::Namespace;
use super::merge_cursor::{BatchCursor, Cursor, MergeCursor, MergeSource};
use crate::batch::WriteBatch;
use crate::error::{Result, StateError};
use crate::fold::Fold;
use crate::io::RunDir;
use crate::range::{KeyRange, group_of};
use crate::run::{Compression, FileWriter, Run, RunCursor, RunFile, WrittenRun};
use std::sync::Arc;

/// Writes sealed batches into runs.
pub struct FlushJob(pub(crate) Job);

/// Merges runs into fewer.
pub struct MergeJob(pub(crate) Job);

/// What a flush wrote; give it to [`RunStore::apply_flush`](super::RunStore::apply_flush).
pub struct FlushResult(pub(crate) JobResult);

/// What a merge wrote; give it to [`RunStore::apply_merge`](super::RunStore::apply_merge).
pub struct MergeResult(pub(crate) JobResult);

/// What a job read and wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCost {
    /// Entries read.
    pub entries_read: u64,
    /// Bytes read: in the file, of batches in memory.
    pub bytes_read: u64,
    /// Entries written.
    pub entries_written: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
}

impl FlushJob {
    /// Does the work. On an error nothing is left behind, and the store can make the job again.
    pub fn run(self) -> Result<FlushResult> {
        self.0.run().map(FlushResult)
    }

    /// Number for [`RunStore::abandon`](super::RunStore::abandon).
    pub fn id(&self) -> u64 {
        self.0.id
    }
}

impl MergeJob {
    /// Does the work. On an error nothing is left behind, and the store can make the job again.
    pub fn run(self) -> Result<MergeResult> {
        self.0.run().map(MergeResult)
    }

    /// Number for [`RunStore::abandon`](super::RunStore::abandon).
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// About how many bytes it will read.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }
}

impl FlushResult {
    /// What the flush read and wrote.
    pub fn cost(&self) -> JobCost {
        self.0.cost
    }
}

impl MergeResult {
    /// What the merge read and wrote.
    pub fn cost(&self) -> JobCost {
        self.0.cost
    }
}

pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) dir: Arc<dyn RunDir>,
    /// Files are named by this, a number and an ending.
    pub(crate) name_stem: String,
    pub(crate) compression: Compression,
    pub(crate) block_bytes: usize,
    pub(crate) file_bytes: u64,
    pub(crate) sync: bool,
    pub(crate) now_ms: i64,
    pub(crate) bytes: u64,
    pub(crate) tasks: Vec<Task>,
}

/// Sources of one namespace and key range that become one run.
pub(crate) struct Task {
    pub(crate) namespace: Namespace,
    /// Which run set of the namespace.
    pub(crate) created: u64,
    pub(crate) range: KeyRange,
    /// Newest first, each with the ranges deleted after it.
    pub(crate) sources: Vec<(TaskSource, Vec<KeyRange>)>,
    /// Whether nothing older exists for these keys: deletes need not be kept.
    pub(crate) is_bottom: bool,
    /// Sequence numbers of the oldest and newest batch in the sources.
    pub(crate) sequences: (u64, u64),
    /// The last range delete that has been worked into the output; 0 for none.
    pub(crate) deleted_through: u64,
}

#[derive(Clone)]
pub(crate) enum TaskSource {
    Batch(Arc<WriteBatch>),
    Run(Arc<Run>),
}

pub(crate) struct JobResult {
    pub(crate) id: u64,
    pub(crate) files: Vec<RunFile>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) cost: JobCost,
}

/// What became of a task.
pub(crate) struct Output {
    pub(crate) namespace: Namespace,
    pub(crate) created: u64,
    pub(crate) range: KeyRange,
    /// Names (in the cache) of the runs that were merged.
    pub(crate) inputs: Vec<u64>,
    pub(crate) sequences: (u64, u64),
    pub(crate) deleted_through: u64,
    pub(crate) runs: Vec<OutputRun>,
}

pub(crate) struct OutputRun {
    /// Index into the job's files.
    pub(crate) file: usize,
    pub(crate) run: WrittenRun,
    /// Where the run was cut from the one before it.
    pub(crate) cut: Option<Vec<u8>>,
}

/// Writes files one after the other.
struct Files<'j> {
    job: &'j Job,
    writer: Option<FileWriter>,
    /// Bytes of runs in the open file.
    bytes: u64,
    names: Vec<String>,
    done: Vec<RunFile>,
}

impl Job {
    fn run(self) -> Result<JobResult> {
        let mut files = Files { job: &self, writer: None, bytes: 0, names: Vec::new(), done: Vec::new() };
        match self.run_tasks(&mut files) {
            Ok((outputs, cost)) => Ok(JobResult { id: self.id, files: std::mem::take(&mut files.done), outputs, cost }),
            Err(error) => {
                for name in &files.names {
                    // Best effort: what cannot be removed now is reported as an orphan at the next start.
                    let _ = self.dir.remove(name);
                }
                Err(error)
            }
        }
    }

    fn run_tasks(&self, files: &mut Files<'_>) -> Result<(Vec<Output>, JobCost)> {
        let mut cost = JobCost { bytes_read: self.bytes, ..JobCost::default() };
        let mut outputs = Vec::new();
        for task in &self.tasks {
            let runs = task.run(files, self.now_ms, &mut cost)?;
            outputs.push(Output {
                namespace: task.namespace,
                created: task.created,
                range: task.range.clone(),
                inputs: task.sources.iter().filter_map(|(source, _)| source.uid()).collect(),
                sequences: task.sequences,
                deleted_through: task.deleted_through,
                runs,
            });
        }
        files.close()?;
        cost.bytes_written = files.done.iter().map(|file| file.written.bytes).sum();
        Ok((outputs, cost))
    }
}

impl TaskSource {
    fn uid(&self) -> Option<u64> {
        match self {
            TaskSource::Run(run) => Some(run.uid),
            TaskSource::Batch(_) => None,
        }
    }

    fn cursor(&self, range: &KeyRange) -> Result<Cursor> {
        Ok(match self {
            TaskSource::Batch(batch) => Cursor::Batch(BatchCursor::new(batch, range)),
            TaskSource::Run(run) => Cursor::Run(Box::new(RunCursor::new(run, range, None)?)),
        })
    }
}

impl Task {
    fn run(&self, files: &mut Files<'_>, now_ms: i64, cost: &mut JobCost) -> Result<Vec<OutputRun>> {
        let mut sources = Vec::new();
        for (source, hidden) in &self.sources {
            sources.push(MergeSource { cursor: source.cursor(&self.range)?, hidden: hidden.clone() });
        }
        let mut merged = MergeCursor::new(sources);
        let mut fold = Fold::default();
        let mut runs = Vec::new();
        let mut cut = None;
        while merged.next()? {
            cost.entries_read += merged.visible() as u64;
            let sole = merged.sole(now_ms)?;
            let entry = match sole {
                Some(entry) => Some(entry),
                None => {
                    merged.fold(&mut fold, now_ms)?;
                    fold.entry(self.is_bottom)
                }
            };
            let Some(entry) = entry else { continue };
            let file_bytes = files.job.file_bytes;
            if let Some(at) = cut_at(files.writer()?, merged.key(), file_bytes) {
                let file = files.index();
                let run = files.end_run(self.namespace)?;
                runs.extend(run.map(|run| OutputRun { file, run, cut: cut.take() }));
                cut = Some(at);
            }
            files.writer()?.push(merged.key(), &entry)?;
            cost.entries_written += 1;
        }
        if files.writer.is_some() {
            let file = files.index();
            let run = files.end_run(self.namespace)?;
            runs.extend(run.map(|run| OutputRun { file, run, cut }));
        }
        Ok(runs)
    }
}

/// Where to cut the run before `key`: at a key group's start once the run fills a file, anywhere when it
/// is half as large again.
fn cut_at(writer: &FileWriter, key: &[u8], file_bytes: u64) -> Option<Vec<u8>> {
    let bytes = writer.run_bytes();
    if bytes < file_bytes {
        return None;
    }
    let group = group_of(key)?;
    if Some(group) != group_of(writer.last_key()) {
        return Some(group.to_be_bytes().to_vec());
    }
    (bytes >= file_bytes + file_bytes / 2).then(|| key.to_vec())
}

impl Files<'_> {
    /// Index of the open file.
    fn index(&self) -> usize {
        self.done.len()
    }

    fn writer(&mut self) -> Result<&mut FileWriter> {
        if self.writer.is_none() {
            let name = format!("{}-{}.{}", self.job.name_stem, self.names.len(), super::run_store::FILE_ENDING);
            let writer = FileWriter::create(self.job.dir.as_ref(), &name, self.job.compression, self.job.block_bytes)?;
            self.names.push(name);
            self.writer = Some(writer);
            self.bytes = 0;
        }
        self.writer.as_mut().ok_or_else(|| StateError::Misuse("no file is open".into()))
    }

    /// Ends the run, and the file when it is full.
    fn end_run(&mut self, namespace: Namespace) -> Result<Option<WrittenRun>> {
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let run = writer.end_run(namespace.0)?;
        self.bytes += run.as_ref().map_or(0, |run| run.counts.data_bytes);
        if self.bytes >= self.job.file_bytes {
            self.close()?;
        }
        Ok(run)
    }

    fn close(&mut self) -> Result<()> {
        if let (Some(writer), Some(name)) = (self.writer.take(), self.names.last()) {
            let written = writer.finish(self.job.sync)?;
            self.done.push(RunFile::just_written(self.job.dir.as_ref(), name, written)?);
        }
        Ok(())
    }
}
