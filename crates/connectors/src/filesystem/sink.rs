//! Writing part files.
//!
//! A file is written under a hidden name (`.part-....inprogress...`, which readers skip). With checkpoints it
//! stays open across barriers until it is large or old enough, and gets its own name when the checkpoint is
//! complete that it was finished before; without, when the job has finished. A failed job leaves no half file
//! that looks whole, and a restarted one neither loses nor doubles a row.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_api::audit::{OutputName, OutputUnit};
use tidegate_api::connector::{
    Committable, CommitterContext, Sink, SinkCommitter, SinkMode, SinkWriter, TableDescriptor, WriterContext,
};
use tidegate_api::{Batch, Error, Result, Watermark, WatermarkStatus};
use tidegate_time::Clock;

use super::commit::{FileCommitter, Staged};
use super::disk::Disk;
use super::partition_commit::{PartitionBook, PartitionCommits, UncommittedPartition};
use super::parts::{Parts, PartsPlace, PartsSnapshot};
use super::path::TablePath;
use super::rolling::RollingPolicy;
use super::{partition, physical_in_files};
use crate::format::{Encoder, EncodingFormat};
use crate::view::View;

/// A table that is written as files.
pub(super) struct FileSink {
    pub(super) table: TableDescriptor,
    pub(super) path: TablePath,
    pub(super) parallelism: Option<usize>,
    pub(super) default_partition: String,
    pub(super) policy: RollingPolicy,
    pub(super) format: Arc<dyn EncodingFormat>,
    pub(super) disk: Arc<dyn Disk>,
    /// One for the writers and committers of all subtasks.
    pub(super) partitions: Option<Arc<PartitionCommits>>,
}

/// What a writer's part of a checkpoint says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WriterSnapshot {
    #[serde(flatten)]
    parts: PartsSnapshot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uncommitted: Vec<UncommittedPartition>,
}

impl Sink for FileSink {
    fn mode(&self) -> SinkMode {
        if self.format.takes_changes() { SinkMode::Changelog } else { SinkMode::Append }
    }

    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        let restored = ctx.restored.iter().map(|state| serde_json::from_value(state.clone()));
        let restored: Vec<WriterSnapshot> = restored
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| Error::job(format!("What the checkpoint remembers of a file sink cannot be read: {e}.")))?;
        let in_files = physical_in_files(&self.table);
        let place = PartsPlace {
            disk: Arc::clone(&self.disk),
            root: self.path.path().to_owned(),
            policy: self.policy.clone(),
            format: self.written_as(),
        };
        let (parts, uncommitted): (Vec<_>, Vec<_>) = restored.into_iter().map(|w| (w.parts, w.uncommitted)).unzip();
        let partitions = self.partitions.as_ref().map(|commits| {
            let uncommitted = uncommitted.into_iter().flatten();
            PartitionBook::new(Arc::clone(commits), ctx.subtask, ctx.parallelism, uncommitted)
        });
        let all = 0..self.table.physical.len();
        Ok(Box::new(FileWriter {
            encoder: self.format.encoder(&in_files)?,
            columns_in_files: all.filter(|i| !self.table.partition_keys.contains(i)).collect(),
            table: self.table.clone(),
            default_partition: self.default_partition.clone(),
            parts: Parts::new(place, ctx.subtask, &parts, ctx.clock.now_ms())?,
            partitions,
            clock: ctx.clock,
            is_over: false,
            holds_output: false,
        }))
    }

    fn committer(&self, _: CommitterContext) -> Result<Option<Box<dyn SinkCommitter>>> {
        let (disk, partitions) = (Arc::clone(&self.disk), self.partitions.clone());
        Ok(Some(Box::new(FileCommitter { disk, partitions })))
    }

    fn describe(&self, committable: &Committable) -> Option<OutputUnit> {
        let staged: Staged = serde_json::from_value(committable.state.clone()).ok()?;
        let part = staged.part()?;
        let name = OutputName::File { path: part.visible.display().to_string() };
        Some(OutputUnit { name, rows: part.rows, bytes: None, checkpoint: None })
    }

    fn parallelism(&self) -> Option<usize> {
        self.parallelism
    }
}

impl FileSink {
    /// Format, its options, and the columns: two files of which these are the same can be one.
    fn written_as(&self) -> String {
        let prefix = format!("{}.", self.format.identifier());
        let options = self.table.options.iter().filter(|(key, _)| key.starts_with(&prefix));
        let options = options.map(|(key, value)| format!("{key}={value}"));
        let in_files = physical_in_files(&self.table);
        let columns = in_files.fields.iter().map(|field| format!("{} {}", field.name, field.ty));
        let all: Vec<String> =
            std::iter::once(self.format.identifier().to_owned()).chain(options).chain(columns).collect();
        all.join(", ")
    }
}

struct FileWriter {
    encoder: Box<dyn Encoder>,
    columns_in_files: Vec<usize>,
    table: TableDescriptor,
    default_partition: String,
    parts: Parts,
    /// Absent if nobody wants to know when a partition is whole.
    partitions: Option<PartitionBook>,
    clock: Arc<dyn Clock>,
    /// Event time has come to its end, so the rows have: what this barrier hands over is the last.
    is_over: bool,
    holds_output: bool,
}

impl FileWriter {
    /// The directory of each row, as runs of equal ones.
    fn runs(&self, batch: &Batch) -> Result<Vec<(String, Range<usize>)>> {
        if self.table.partition_keys.is_empty() {
            return Ok(vec![(String::new(), 0..batch.num_rows())]);
        }
        let mut views = Vec::new();
        for key in &self.table.partition_keys {
            let field = self.table.physical.fields.get(*key).ok_or_else(|| Error::internal("no such column"))?;
            views.push((partition::escape(&field.name), View::new(batch.columns.column(*key), &field.ty)?));
        }
        let mut runs: Vec<(String, Range<usize>)> = Vec::new();
        let mut directory = String::new();
        for row in 0..batch.num_rows() {
            directory.clear();
            for (name, view) in &views {
                directory.push_str(name);
                directory.push('=');
                match partition::name_of(view.get(row)) {
                    Some(value) => directory.push_str(&value),
                    None => directory.push_str(&partition::escape(&self.default_partition)),
                }
                directory.push('/');
            }
            match runs.last_mut() {
                Some((last, rows)) if *last == directory => rows.end = row + 1,
                _ => runs.push((directory.clone(), row..row + 1)),
            }
        }
        Ok(runs)
    }
}

#[async_trait]
impl SinkWriter for FileWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        let now_ms = self.clock.now_ms();
        self.parts.check(now_ms)?;
        let runs = self.runs(&batch)?;
        let columns = Batch { columns: batch.columns.project(&self.columns_in_files)?, kinds: batch.kinds };
        for (directory, rows) in runs {
            if let Some(partitions) = &mut self.partitions {
                partitions.wrote(&directory, now_ms);
            }
            let encoder = &mut self.encoder;
            self.parts
                .write(&directory, now_ms, |append| encoder.encode(&columns, rows, &mut |_, record| append(record)))?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.parts.flush()
    }

    fn input_watermark(&mut self, watermark: Watermark, status: WatermarkStatus) {
        if let Some(partitions) = &mut self.partitions {
            partitions.input_watermark(watermark, status);
        }
        self.is_over = watermark == Watermark::MAX;
    }

    async fn pre_commit(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        let now_ms = self.clock.now_ms();
        self.parts.check(now_ms)?;
        if self.is_over {
            self.parts.finish_all()?;
        }
        if let Some(partitions) = &mut self.partitions {
            for directory in partitions.due(now_ms)? {
                self.parts.finish_directory(&directory)?;
            }
        }
        let mut staged: Vec<Staged> = self.parts.hand_over()?.into_iter().map(Staged::Part).collect();
        if let Some(partitions) = &mut self.partitions {
            let parts = &self.parts;
            let report = partitions.report(checkpoint, now_ms, |directory| parts.is_in_progress(directory));
            staged.push(Staged::Report { report });
        }
        staged.iter().map(Staged::committable).collect()
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        let uncommitted = self.partitions.as_ref().map(PartitionBook::snapshot).unwrap_or_default();
        let snapshot = WriterSnapshot { parts: self.parts.snapshot(), uncommitted };
        serde_json::to_value(snapshot).map_err(|e| Error::internal(e.to_string()))
    }

    async fn finish(&mut self) -> Result<()> {
        self.parts.finish_all()?;
        let holds_files = !self.parts.is_empty();
        self.holds_output = match &mut self.partitions {
            Some(partitions) => partitions.finish(holds_files),
            None => holds_files,
        };
        Ok(())
    }

    fn holds_output(&self) -> bool {
        self.holds_output
    }
}
