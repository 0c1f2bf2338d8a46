//! Reading files: one split each, line by line, in large pieces.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use regex::Regex;
use serde::{Deserialize, Serialize};
use tidegate_api::connector::{
    EnumeratorContext, ReadColumn, ReaderContext, Source, SourceBatch, SourceEvent, SourceReader, Split,
    SplitAssignment, SplitEnumerator, TableDescriptor,
};
use tidegate_api::{Error, Field, Result, Schema};

use super::path::TablePath;
use super::{partition, physical_in_files};
use crate::column::Column;
use crate::format::{Chunk, ChunkError, DecodeMetrics, Decoder, DecodingFormat, decode_failure, to_batch};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// A record longer than this is a mistake (a missing line end, an open quote).
const MAX_RECORD_BYTES: usize = 256 << 20;

/// A table of files.
pub(super) struct FileSource {
    pub(super) table: TableDescriptor,
    pub(super) path: TablePath,
    pub(super) pattern: Option<Regex>,
    pub(super) monitor_ms: Option<i64>,
    pub(super) default_partition: String,
    pub(super) parallelism: Option<usize>,
    pub(super) format: Arc<dyn DecodingFormat>,
}

impl Source for FileSource {
    fn is_bounded(&self) -> bool {
        self.monitor_ms.is_none()
    }

    fn is_updating(&self) -> bool {
        self.format.is_updating()
    }

    fn enumerator(&self, _ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(FileEnumerator {
            path: self.path.clone(),
            pattern: self.pattern.clone(),
            monitor_ms: self.monitor_ms,
            seen: BTreeSet::new(),
        }))
    }

    fn reader(&self, columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        let in_files = physical_in_files(&self.table);
        let (mut origins, mut projection, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            let (origin, field) = self.origin(column, &in_files)?;
            if let Origin::Decoded(position) = &origin {
                projection.push(*position);
            }
            origins.push(origin);
            fields.push(field);
        }
        let decoder = self.format.decoder(&in_files, &projection, DecodeMetrics::of(&ctx.metrics))?;
        Ok(Box::new(FileReader {
            format: self.format.identifier(),
            default_partition: self.default_partition.clone(),
            batch_rows: ctx.batch_rows.max(1),
            schema: Schema::new(fields).to_arrow(),
            origins,
            decoder,
            paths: Vec::new(),
            open: Vec::new(),
            turn: 0,
            failure: None,
        }))
    }

    fn parallelism(&self) -> Option<usize> {
        self.parallelism
    }
}

impl FileSource {
    fn origin(&self, column: &ReadColumn, in_files: &Schema) -> Result<(Origin, Field)> {
        match column {
            ReadColumn::Physical(i) => {
                let field = self.table.physical.fields.get(*i).ok_or_else(|| Error::internal("no such column"))?;
                match in_files.index_of(&field.name) {
                    Some(position) => Ok((Origin::Decoded(position), field.clone())),
                    None => Ok((Origin::Partition(field.clone()), field.clone())),
                }
            }
            ReadColumn::Metadata(i) => {
                let column = self.table.metadata.get(*i).ok_or_else(|| Error::internal("no such column"))?;
                let field = Field::new(&column.name, column.ty.clone());
                Ok((Origin::Metadata(column.key.clone(), field.clone()), field))
            }
        }
    }
}

/// Where a column of the output comes from.
enum Origin {
    /// The file's column at this position.
    Decoded(usize),
    Partition(Field),
    Metadata(String, Field),
}

struct FileEnumerator {
    path: TablePath,
    pattern: Option<Regex>,
    monitor_ms: Option<i64>,
    seen: BTreeSet<PathBuf>,
}

#[async_trait]
impl SplitEnumerator for FileEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let mut splits = Vec::new();
        for path in self.path.files()? {
            let wanted = self.pattern.as_ref().is_none_or(|p| p.is_match(&absolute(&path)));
            if !wanted || self.seen.contains(&path) {
                continue;
            }
            let Some(id) = path.to_str() else {
                return Err(Error::job(format!("The file name '{}' is no UTF-8.", path.display())));
            };
            let owner = self.seen.len() as u64;
            splits.push(Split { id: id.to_owned(), owner, state: serde_json::Value::Null });
            self.seen.insert(path);
        }
        Ok(splits)
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.monitor_ms.map(|ms| Duration::from_millis(ms.max(1) as u64))
    }

    fn assignment(&self) -> SplitAssignment {
        SplitAssignment::OnDemand
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        serde_json::to_value(&self.seen).map_err(|e| Error::internal(e.to_string()))
    }

    fn restore(&mut self, state: serde_json::Value) -> Result<()> {
        self.seen = serde_json::from_value(state)
            .map_err(|e| Error::job(format!("The checkpoint's list of files cannot be read: {e}.")))?;
        Ok(())
    }
}

/// Where in a file reading goes on.
#[derive(Serialize, Deserialize)]
struct FilePlace {
    /// Bytes before the next record.
    offset: u64,
    /// Line of the next record, from 1.
    line: i64,
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

struct FileReader {
    format: &'static str,
    default_partition: String,
    batch_rows: usize,
    schema: SchemaRef,
    origins: Vec<Origin>,
    decoder: Box<dyn Decoder>,
    /// Paths of all splits ever added.
    paths: Vec<String>,
    open: Vec<OpenFile>,
    /// Which of the open files is next.
    turn: usize,
    /// An error found behind rows that had to go out first.
    failure: Option<Error>,
}

/// A file being read. Between events the decoder holds no rows, so this is all there is to remember.
struct OpenFile {
    split: usize,
    path: PathBuf,
    file: File,
    size: i64,
    modified_ms: i64,
    buffer: Vec<u8>,
    start: usize,
    /// Where the buffer begins in the file.
    buffer_offset: u64,
    at_end: bool,
    line: i64,
}

impl OpenFile {
    fn open(split: usize, path: &str, place: &FilePlace) -> Result<OpenFile> {
        let cannot = |e: std::io::Error| Error::job(format!("Cannot open file '{path}': {e}."));
        let mut file = File::open(path).map_err(cannot)?;
        let facts = file.metadata().map_err(cannot)?;
        if facts.len() < place.offset {
            return Err(Error::job(format!(
                "Cannot go on reading file '{path}' at byte {}: it has only {} bytes now, so it is not the file that \
                 the checkpoint was taken of.",
                place.offset,
                facts.len()
            )));
        }
        file.seek(SeekFrom::Start(place.offset)).map_err(cannot)?;
        let modified = facts.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        Ok(OpenFile {
            split,
            path: PathBuf::from(path),
            file,
            size: facts.len() as i64,
            modified_ms: modified.map_or(0, |d| d.as_millis() as i64),
            buffer: Vec::new(),
            start: 0,
            buffer_offset: place.offset,
            at_end: false,
            line: place.line,
        })
    }

    /// Reads more bytes behind those not consumed yet.
    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.start);
        self.buffer_offset += self.start as u64;
        self.start = 0;
        if self.buffer.len() > MAX_RECORD_BYTES {
            return Err(Error::job(format!(
                "The record at file {}, line {} is longer than {} MiB. Is there an open quote or no line end?",
                self.path.display(),
                self.line,
                MAX_RECORD_BYTES >> 20
            )));
        }
        let wanted = READ_BYTES as u64;
        let read = (&mut self.file)
            .take(wanted)
            .read_to_end(&mut self.buffer)
            .map_err(|e| Error::job(format!("Cannot read file '{}': {e}.", self.path.display())))?;
        self.at_end = (read as u64) < wanted;
        Ok(())
    }
}

impl FileReader {
    /// Reads from one file until the batch is full or the file ends.
    fn read(&mut self, which: usize) -> Result<SourceEvent> {
        let mut positions = Vec::with_capacity(self.batch_rows);
        loop {
            let file = &mut self.open[which];
            let mut chunk = Chunk {
                bytes: &file.buffer[file.start..],
                at_end: file.at_end,
                max_rows: self.batch_rows.saturating_sub(self.decoder.rows()),
                line: file.line,
                consumed: 0,
                positions: &mut positions,
            };
            let result = self.decoder.decode_chunk(&mut chunk);
            let (line, consumed) = (chunk.line, chunk.consumed);
            file.line = line;
            file.start += consumed;
            if let Err(error) = result {
                return self.fail(which, positions, &error);
            }
            if self.decoder.rows() >= self.batch_rows {
                return self.rows(which, positions);
            }
            if !self.open[which].at_end {
                self.open[which].fill()?;
                continue;
            }
            if self.decoder.rows() > 0 {
                return self.rows(which, positions);
            }
            let file = self.open.remove(which);
            return Ok(SourceEvent::SplitFinished(file.split));
        }
    }

    /// Rows before a bad record go out first, as they would if rows came one by one.
    fn fail(&mut self, which: usize, positions: Vec<i64>, error: &ChunkError) -> Result<SourceEvent> {
        let place = self.locate(self.open[which].split, error.line);
        let failure = decode_failure(self.format, &error.record, &place, &error.error);
        if self.decoder.rows() == 0 {
            return Err(failure);
        }
        self.failure = Some(failure);
        self.rows(which, positions)
    }

    fn rows(&mut self, which: usize, positions: Vec<i64>) -> Result<SourceEvent> {
        let rows = self.decoder.rows();
        let (decoded, kinds) = self.decoder.finish()?;
        let file = &self.open[which];
        let mut decoded = decoded.into_iter();
        let mut columns = Vec::with_capacity(self.origins.len());
        for origin in &self.origins {
            columns.push(match origin {
                Origin::Decoded(_) => decoded.next().ok_or_else(|| Error::internal("a column was not decoded"))?,
                Origin::Partition(field) => self.partition_column(file, field, rows)?,
                Origin::Metadata(key, field) => metadata_column(file, key, field, rows)?,
            });
        }
        let columns = to_batch(self.schema.clone(), columns, rows)?;
        Ok(SourceEvent::Rows(SourceBatch { split: file.split, columns, kinds, positions }))
    }

    fn partition_column(&self, file: &OpenFile, field: &Field, rows: usize) -> Result<ArrayRef> {
        let value = partition::value_of(&file.path, &field.name).ok_or_else(|| {
            Error::job(format!(
                "No directory in the path of file '{}' names the partition column '{}'.",
                file.path.display(),
                field.name
            ))
        })?;
        repeat(field, rows, |column| {
            if value == self.default_partition {
                column.push_null();
                return Ok(());
            }
            partition::push(column, &value)
        })
    }
}

fn metadata_column(file: &OpenFile, key: &str, field: &Field, rows: usize) -> Result<ArrayRef> {
    let path = file.path.to_string_lossy();
    let name = file.path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    repeat(field, rows, |column| {
        let pushed = match key {
            "file.path" => column.push_bytes(path.as_bytes()),
            "file.name" => column.push_bytes(name.as_bytes()),
            "file.size" => column.push_i64(file.size),
            "file.modification-time" => column.push_timestamp(
                file.modified_ms.div_euclid(1000),
                file.modified_ms.rem_euclid(1000) as u32 * 1_000_000,
            ),
            _ => false,
        };
        if pushed { Ok(()) } else { Err(Error::internal(format!("metadata column '{key}' of type {}", field.ty))) }
    })
}

fn repeat(field: &Field, rows: usize, mut push: impl FnMut(&mut Column) -> Result<()>) -> Result<ArrayRef> {
    let mut column = Column::new(&field.ty);
    for _ in 0..rows {
        push(&mut column)?;
    }
    column.finish()
}

#[async_trait]
impl SourceReader for FileReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let number = self.paths.len();
        let place = match split.state {
            serde_json::Value::Null => FilePlace { offset: 0, line: 1 },
            state => serde_json::from_value(state)
                .map_err(|e| Error::job(format!("The place in file '{}' cannot be read: {e}.", split.id)))?,
        };
        self.open.push(OpenFile::open(number, &split.id, &place)?);
        self.paths.push(split.id);
        Ok(())
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        // Reading a local file never waits; without this it would keep its thread for itself.
        tokio::task::yield_now().await;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.open.is_empty() {
            return std::future::pending().await;
        }
        self.turn = (self.turn + 1) % self.open.len();
        self.read(self.turn)
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let split = |file: &OpenFile| {
            let place = FilePlace { offset: file.buffer_offset + file.start as u64, line: file.line };
            let state = serde_json::to_value(place).map_err(|e| Error::internal(e.to_string()))?;
            Ok((file.split, Split { id: self.paths[file.split].clone(), owner: file.split as u64, state }))
        };
        self.open.iter().map(split).collect()
    }

    fn locate(&self, split: usize, position: i64) -> String {
        let path = self.paths.get(split).map_or("?", String::as_str);
        format!("file {path}, line {position}")
    }
}
