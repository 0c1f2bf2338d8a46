//! Writing part files.
//!
//! A file is written under a hidden name (`.part-....inprogress`, which readers skip). With checkpoints it is
//! closed at the next barrier at the latest and gets its own name when that checkpoint is complete; without,
//! when the job has finished. A failed job leaves no half file that looks whole, and a restarted one neither
//! loses nor doubles a row.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_api::audit::{OutputName, OutputUnit};
use tidegate_api::connector::{
    Committable, CommitterContext, Sink, SinkCommitter, SinkMode, SinkWriter, TableDescriptor, WriterContext,
};
use tidegate_api::{Batch, Error, Result};

use super::commit::{FileCommitter, FinishedPart, WriterSnapshot, remove_leftovers};
use super::path::TablePath;
use super::{partition, physical_in_files};
use crate::format::{Encoder, EncodingFormat};
use crate::view::View;

/// Files a writer holds open: for one more partition, the part that was not written to for the longest is
/// finished.
const OPEN_PARTS: usize = 128;

/// A table that is written as files.
pub(super) struct FileSink {
    pub(super) table: TableDescriptor,
    pub(super) path: TablePath,
    pub(super) parallelism: Option<usize>,
    pub(super) default_partition: String,
    pub(super) roll_bytes: u64,
    pub(super) format: Arc<dyn EncodingFormat>,
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
        if !restored.is_empty() {
            remove_leftovers(self.path.path(), &restored);
        }
        let in_files = physical_in_files(&self.table);
        let all = 0..self.table.physical.len();
        Ok(Box::new(FileWriter {
            name: format!("part-{}-{}", random_uuid(), ctx.subtask),
            encoder: self.format.encoder(&in_files)?,
            columns_in_files: all.filter(|i| !self.table.partition_keys.contains(i)).collect(),
            table: self.table.clone(),
            root: self.path.path().to_owned(),
            default_partition: self.default_partition.clone(),
            roll_bytes: self.roll_bytes,
            parts: 0,
            open: BTreeMap::new(),
            written: Vec::new(),
            has_checkpoints: ctx.staging.is_some(),
            turn: 0,
        }))
    }

    fn committer(&self, _: CommitterContext) -> Result<Option<Box<dyn SinkCommitter>>> {
        Ok(Some(Box::new(FileCommitter)))
    }

    fn describe(&self, committable: &Committable) -> Option<OutputUnit> {
        let part: FinishedPart = serde_json::from_value(committable.state.clone()).ok()?;
        let name = OutputName::File { path: part.visible.display().to_string() };
        Some(OutputUnit { name, rows: part.rows, bytes: None, checkpoint: None })
    }

    fn parallelism(&self) -> Option<usize> {
        self.parallelism
    }
}

/// A random version 4 UUID: part files of different jobs must never meet.
fn random_uuid() -> String {
    let bits: u128 = rand::random();
    let bits = bits & !(0xf << 76) | 4 << 76;
    let bits = bits & !(0b11 << 62) | 0b10 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

struct FileWriter {
    name: String,
    encoder: Box<dyn Encoder>,
    columns_in_files: Vec<usize>,
    table: TableDescriptor,
    root: PathBuf,
    default_partition: String,
    roll_bytes: u64,
    parts: u64,
    /// Files being written, by directory below the root.
    open: BTreeMap<String, PartFile>,
    /// Whole files that still have their hidden names.
    written: Vec<FinishedPart>,
    /// Files are published by checkpoints, and not at the end.
    has_checkpoints: bool,
    /// Counts uses of parts.
    turn: u64,
}

struct PartFile {
    hidden: PathBuf,
    visible: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    rows: u64,
    /// The turn it was written to last.
    used: u64,
}

impl PartFile {
    /// Makes sure that all is on disk and closes the file.
    fn close(mut self) -> Result<FinishedPart> {
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|e| cannot_write(&self.hidden, &e))?;
        Ok(FinishedPart { hidden: self.hidden, visible: self.visible, rows: self.rows })
    }
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
        for row in 0..batch.num_rows() {
            let mut directory = String::new();
            for (name, view) in &views {
                let value = partition::name_of(view.get(row)).unwrap_or_else(|| self.default_partition.clone());
                directory.push_str(&format!("{name}={value}/"));
            }
            match runs.last_mut() {
                Some((last, rows)) if *last == directory => rows.end = row + 1,
                _ => runs.push((directory, row..row + 1)),
            }
        }
        Ok(runs)
    }

    fn start_part(&mut self, directory: &str) -> Result<PartFile> {
        let directory = self.root.join(directory);
        let name = format!("{}-{}", self.name, self.parts);
        self.parts += 1;
        let (hidden, visible) = (directory.join(format!(".{name}.inprogress")), directory.join(name));
        let created = fs::create_dir_all(&directory).and_then(|()| File::create(&hidden));
        let file = created.map_err(|e| cannot_write(&hidden, &e))?;
        Ok(PartFile { hidden, visible, out: BufWriter::with_capacity(256 * 1024, file), bytes: 0, rows: 0, used: 0 })
    }

    fn write_run(&mut self, directory: String, columns: &Batch, rows: Range<usize>) -> Result<()> {
        let mut part = match self.open.remove(&directory) {
            Some(part) => part,
            None => self.start_part(&directory)?,
        };
        let PartFile { hidden, out, bytes, rows: count, .. } = &mut part;
        self.encoder.encode(columns, rows, &mut |_, record| {
            *bytes += record.len() as u64 + 1;
            *count += 1;
            out.write_all(record).and_then(|()| out.write_all(b"\n")).map_err(|e| cannot_write(hidden, &e))
        })?;
        if part.bytes >= self.roll_bytes {
            self.written.push(part.close()?);
            return Ok(());
        }
        self.turn += 1;
        part.used = self.turn;
        self.open.insert(directory, part);
        if self.open.len() > OPEN_PARTS {
            let idle = self.open.iter().min_by_key(|(_, part)| part.used).map(|(directory, _)| directory.clone());
            let idle = idle.and_then(|directory| self.open.remove(&directory));
            self.written.extend(idle.map(PartFile::close).transpose()?);
        }
        Ok(())
    }
}

impl FileWriter {
    fn close_parts(&mut self) -> Result<()> {
        for part in std::mem::take(&mut self.open).into_values() {
            self.written.push(part.close()?);
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, e: &std::io::Error) -> Error {
    Error::job(format!("Cannot write file '{}': {e}.", path.display()))
}

#[async_trait]
impl SinkWriter for FileWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        let runs = self.runs(&batch)?;
        let columns = Batch { columns: batch.columns.project(&self.columns_in_files)?, kinds: batch.kinds };
        for (directory, rows) in runs {
            self.write_run(directory, &columns, rows)?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        for part in self.open.values_mut() {
            part.out.flush().map_err(|e| cannot_write(&part.hidden, &e))?;
        }
        Ok(())
    }

    async fn pre_commit(&mut self, _: u64) -> Result<Vec<Committable>> {
        self.close_parts()?;
        let committables = self.written.iter().map(FinishedPart::committable).collect::<Result<_>>()?;
        self.written.clear();
        Ok(committables)
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        let snapshot = WriterSnapshot { name: self.name.clone(), parts: self.parts };
        serde_json::to_value(snapshot).map_err(|e| Error::internal(e.to_string()))
    }

    async fn finish(&mut self) -> Result<()> {
        self.close_parts()?;
        if !self.has_checkpoints {
            self.written.drain(..).try_for_each(|part| part.publish())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_say_that_they_are_random_ones() {
        let uuid = random_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uuid}");
    }
}
