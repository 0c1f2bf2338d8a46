//! A job that writes files, run by hand as the engine runs it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use tidegate_api::connector::{
    Committable, CommitterContext, Notifier, Sink, SinkCommitter, SinkWriter, TableDescriptor, WriterContext,
};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, Result, TypeKind, Watermark, WatermarkStatus};
use tidegate_time::{Clock, ManualClock};

use super::super::disk::Disk;
use super::super::file_sink;
use super::memory::MemoryDisk;
use super::table;
use crate::testing::{STRING, schema};

pub(super) const ROOT: &str = "/t";

/// What a checkpoint holds of one subtask.
#[derive(Clone, Default)]
pub(super) struct Kept {
    pub staged: Vec<Committable>,
    pub writer: serde_json::Value,
}

/// The job over its lives.
pub(super) struct Job {
    pub table: TableDescriptor,
    pub disk: MemoryDisk,
    pub clock: Arc<ManualClock>,
    pub checkpoint: u64,
    /// The last complete checkpoint.
    pub complete: Vec<Kept>,
}

/// One life of a subtask.
struct Subtask {
    writer: Option<Box<dyn SinkWriter>>,
    committer: Box<dyn SinkCommitter>,
    staged: VecDeque<(u64, Vec<Committable>)>,
    watermark: Watermark,
    status: WatermarkStatus,
}

/// One life of a job.
pub(super) struct Run {
    subtasks: Vec<Subtask>,
    _sink: Arc<dyn Sink>,
}

impl Job {
    /// A table of numbers `v` with a day `dt` each, by default partitioned by the day.
    pub(super) fn new(options: &[(&str, &str)]) -> Job {
        let columns = schema(&[("v", TypeKind::Int), ("dt", STRING)]);
        let mut all = vec![("format", "csv")];
        all.extend(options);
        Job {
            table: table(Path::new(ROOT), &all, columns, vec![1]),
            disk: MemoryDisk::default(),
            clock: Arc::new(ManualClock::new(1_000_000)),
            checkpoint: 0,
            complete: Vec::new(),
        }
    }

    /// Goes on from the last complete checkpoint.
    pub(super) async fn start(&self, parallelism: usize) -> Result<Run> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let sink: Arc<dyn Sink> = Arc::new(file_sink(&self.table, disk)?);
        let mut subtasks = Vec::new();
        for subtask in 0..parallelism {
            let mine = self.complete.iter().enumerate().filter(|(old, _)| old % parallelism == subtask);
            let mine: Vec<Kept> = mine.map(|(_, kept)| kept.clone()).collect();
            let metrics = Arc::new(MetricGroup::default());
            let ctx = CommitterContext {
                subtask,
                parallelism,
                metrics: Arc::clone(&metrics),
                notices: Notifier::silent(),
                audit: tidegate_api::audit::Auditor::silent(),
            };
            let mut committer = sink.committer(ctx)?.expect("one that publishes");
            committer.recover(mine.iter().flat_map(|kept| kept.staged.clone()).collect()).await?;
            let restored = mine.into_iter().map(|kept| kept.writer).filter(|writer| !writer.is_null()).collect();
            let clock: Arc<dyn Clock> = self.clock.clone();
            let staging = Some(PathBuf::from("unused"));
            let ctx = WriterContext { subtask, parallelism, rowtime: None, metrics, staging, restored, clock };
            subtasks.push(Subtask {
                writer: Some(sink.writer(ctx)?),
                committer,
                staged: VecDeque::new(),
                watermark: Watermark::MIN,
                status: WatermarkStatus::Active,
            });
        }
        Ok(Run { subtasks, _sink: sink })
    }

    /// A barrier in all subtasks; the checkpoint is complete when this is kept in [`Job::complete`].
    pub(super) async fn barrier(&mut self, run: &mut Run) -> Result<Vec<Kept>> {
        self.checkpoint += 1;
        let mut kept = Vec::new();
        for subtask in &mut run.subtasks {
            let Some(writer) = &mut subtask.writer else {
                kept.push(Kept::default());
                continue;
            };
            writer.input_watermark(subtask.watermark, subtask.status);
            let staged = writer.pre_commit(self.checkpoint).await?;
            let writer = writer.snapshot()?;
            subtask.staged.push_back((self.checkpoint, staged));
            let staged = subtask.staged.iter().flat_map(|(_, staged)| staged.clone()).collect();
            kept.push(Kept { staged, writer });
        }
        Ok(kept)
    }

    /// A barrier that becomes a checkpoint, and its output is published.
    pub(super) async fn checkpoint(&mut self, run: &mut Run) -> Result<()> {
        self.complete = self.barrier(run).await?;
        run.commit().await
    }

    /// All inputs end: what is left is published by a last checkpoint.
    pub(super) async fn end(&mut self, mut run: Run) -> Result<()> {
        for subtask in 0..run.subtasks.len() {
            if run.subtasks[subtask].writer.is_some() {
                run.finish(subtask).await?;
            }
        }
        self.checkpoint(&mut run).await
    }

    /// The values in finished files, by day.
    pub(super) fn rows(&self) -> BTreeMap<String, Vec<i32>> {
        let mut rows: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (path, bytes) in self.disk.seen() {
            rows.entry(day_of(&path)).or_default().extend(values(&bytes));
        }
        rows.values_mut().for_each(|values| values.sort_unstable());
        rows
    }

    /// Rows of each finished file, in the order of their names.
    pub(super) fn files(&self) -> Vec<usize> {
        self.disk.seen().values().map(|bytes| values(bytes).len()).collect()
    }

    /// Days that were announced since this was asked last.
    pub(super) fn announced(&self) -> Vec<String> {
        self.disk.announced().iter().map(|(path, _)| day_of(path)).collect()
    }
}

/// The numbers in a file.
pub(super) fn values(bytes: &[u8]) -> Vec<i32> {
    let text = std::str::from_utf8(bytes).expect("text");
    assert!(text.is_empty() || text.ends_with('\n'), "a torn line: {text:?}");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// The day that a file's folder is of.
pub(super) fn day_of(path: &Path) -> String {
    let folder = path.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
    folder.and_then(|name| name.strip_prefix("dt=")).unwrap_or_default().to_owned()
}

impl Run {
    pub(super) fn parallelism(&self) -> usize {
        self.subtasks.len()
    }

    /// Whether a subtask has not ended.
    pub(super) fn is_live(&self, subtask: usize) -> bool {
        self.subtasks[subtask].writer.is_some()
    }

    /// Rows of one day come to a subtask.
    pub(super) async fn write(&mut self, subtask: usize, day: &str, values: &[i32]) -> Result<()> {
        let schema = schema(&[("v", TypeKind::Int), ("dt", STRING)]);
        let days = StringArray::from(vec![Some(day).filter(|day| !day.is_empty()); values.len()]);
        let columns: Vec<Arc<dyn arrow::array::Array>> =
            vec![Arc::new(Int32Array::from(values.to_vec())), Arc::new(days)];
        let rows = RecordBatch::try_new(schema.to_arrow(), columns).expect("rows");
        self.writer(subtask).write(Batch::inserts(rows)).await
    }

    fn writer(&mut self, subtask: usize) -> &mut Box<dyn SinkWriter> {
        self.subtasks[subtask].writer.as_mut().expect("it goes on")
    }

    pub(super) fn watermark(&mut self, subtask: usize, watermark: i64) {
        let of = &mut self.subtasks[subtask].watermark;
        *of = Watermark(watermark).max(*of);
    }

    pub(super) fn idle(&mut self, subtask: usize, is_idle: bool) {
        self.subtasks[subtask].status = if is_idle { WatermarkStatus::Idle } else { WatermarkStatus::Active };
    }

    /// Publishes everything that is staged, subtask after subtask.
    pub(super) async fn commit(&mut self) -> Result<()> {
        for subtask in 0..self.subtasks.len() {
            self.commit_of(subtask).await?;
        }
        Ok(())
    }

    /// Publishes what one subtask has staged.
    pub(super) async fn commit_of(&mut self, subtask: usize) -> Result<()> {
        let Subtask { committer, staged, .. } = &mut self.subtasks[subtask];
        while let Some((_, committables)) = staged.front() {
            committer.commit(committables.clone()).await?;
            staged.pop_front();
        }
        Ok(())
    }

    /// The input of a subtask ends. True if a last barrier is needed.
    pub(super) async fn finish(&mut self, subtask: usize) -> Result<bool> {
        self.subtasks[subtask].watermark = Watermark::MAX;
        let writer = self.writer(subtask);
        writer.finish().await?;
        Ok(writer.holds_output())
    }

    /// A subtask that has finished and published everything goes.
    pub(super) fn leave(&mut self, subtask: usize) {
        assert!(self.subtasks[subtask].staged.is_empty(), "it has more to publish");
        self.subtasks[subtask].writer = None;
    }
}
