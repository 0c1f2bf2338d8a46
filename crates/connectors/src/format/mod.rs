//! Formats: bytes of a message to columns, and back.
//!
//! A [`DecodingFormat`] is what the options say; a [`Decoder`] is one reader's working copy and owns the
//! columns it fills. A row is atomic: a message that fails leaves nothing behind, so the caller may go on with
//! the next one. The caller knows the place (topic and offset, file and line) and adds it with [`decode_failure`].

pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod raw;
pub(crate) mod text;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt8Array};
use arrow::datatypes::SchemaRef;
use tidegate_api::metrics::{Counter, MetricGroup};
use tidegate_api::{Batch, Error, Result, Schema};

use crate::option::OptionReader;

/// Why a message is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The column at fault, if it is one column's.
    pub field: Option<String>,
    /// What is wrong with it.
    pub message: String,
}

impl DecodeError {
    /// The message as a whole is wrong.
    pub fn message(message: impl Into<String>) -> Self {
        DecodeError { field: None, message: message.into() }
    }

    /// One field is wrong.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        DecodeError { field: Some(field.into()), message: message.into() }
    }
}

/// The counters of a decoder. Every message that gives no row is in one of them.
#[derive(Clone, Debug, Default)]
pub struct DecodeMetrics {
    /// `numRecordsInErrors`: messages dropped by `ignore-parse-errors`.
    pub errors: Counter,
    /// `numFieldsInErrors`: fields that became NULL by `ignore-parse-errors`.
    pub field_errors: Counter,
    /// `numBlankRecords`: empty messages and lines.
    pub blank: Counter,
    /// `numTombstones`: messages without a value.
    pub tombstones: Counter,
}

impl DecodeMetrics {
    /// The counters of an operator.
    pub fn of(group: &MetricGroup) -> Self {
        DecodeMetrics {
            errors: group.counter("numRecordsInErrors"),
            field_errors: group.counter("numFieldsInErrors"),
            blank: group.counter("numBlankRecords"),
            tombstones: group.counter("numTombstones"),
        }
    }
}

/// How bytes become rows, as the options of a table say.
pub trait DecodingFormat: Send + Sync {
    /// Its name in options: `json`.
    fn identifier(&self) -> &'static str;

    /// Whether rows may be other than `+I`.
    fn is_updating(&self) -> bool {
        false
    }

    /// Refuses at planning a row type this format cannot hold.
    fn check(&self, row: &Schema) -> Result<()>;

    /// A decoder of messages that hold the columns `row`, of which it delivers `projection`, in that order.
    fn decoder(&self, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Result<Box<dyn Decoder>>;
}

/// Fills columns from messages.
pub trait Decoder: Send {
    /// Appends the rows of one message and says how many these are; 0 for a message that was skipped and
    /// counted. `None` is a message without a value (a tombstone). After an error the columns are as before.
    fn decode(&mut self, message: Option<&[u8]>) -> Result<usize, DecodeError>;

    /// Appends rows of a piece of a file; see [`Chunk`]. Files whose records are lines need not override it.
    fn decode_chunk(&mut self, chunk: &mut Chunk<'_>) -> Result<(), ChunkError> {
        decode_lines(chunk, |line| self.decode(Some(line)))
    }

    /// Rows waiting in the columns.
    fn rows(&self) -> usize;

    /// Takes the columns (in the order of the projection) and the row kinds, if the format has such.
    fn finish(&mut self) -> Result<(Vec<ArrayRef>, Option<UInt8Array>)>;
}

/// A piece of a file that begins at the start of a record.
pub struct Chunk<'a> {
    /// The bytes; the last record may be cut unless `at_end`.
    pub bytes: &'a [u8],
    /// Nothing follows in the file.
    pub at_end: bool,
    /// Stop when this many rows were appended.
    pub max_rows: usize,
    /// In and out: the line number of the first byte not consumed, from 1.
    pub line: i64,
    /// Out: bytes consumed, whole records only. 0 means that more bytes are needed.
    pub consumed: usize,
    /// Out: the line of each row appended.
    pub positions: &'a mut Vec<i64>,
}

impl Chunk<'_> {
    /// The same place in the same bytes, for at most `max_rows` more rows.
    pub(crate) fn reborrow(&mut self, max_rows: usize) -> Chunk<'_> {
        Chunk {
            bytes: self.bytes,
            at_end: self.at_end,
            max_rows,
            line: self.line,
            consumed: self.consumed,
            positions: self.positions,
        }
    }
}

/// A record of a file that is no row.
#[derive(Debug)]
pub struct ChunkError {
    /// Line the record starts at.
    pub line: i64,
    /// The record.
    pub record: Vec<u8>,
    /// What is wrong with it.
    pub error: DecodeError,
}

/// Cuts a chunk at line ends (`\n` or `\r\n`) and gives each line to `decode`.
pub fn decode_lines(
    chunk: &mut Chunk<'_>,
    mut decode: impl FnMut(&[u8]) -> Result<usize, DecodeError>,
) -> Result<(), ChunkError> {
    let mut rows = 0;
    while rows < chunk.max_rows && chunk.consumed < chunk.bytes.len() {
        let rest = &chunk.bytes[chunk.consumed..];
        let (end, next) = match memchr::memchr(b'\n', rest) {
            Some(end) => (end, end + 1),
            None if chunk.at_end => (rest.len(), rest.len()),
            None => break,
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let n = decode(line).map_err(|error| ChunkError { line: chunk.line, record: line.to_vec(), error })?;
        for _ in 0..n {
            chunk.positions.push(chunk.line);
        }
        rows += n;
        chunk.line += 1;
        chunk.consumed += next;
    }
    Ok(())
}

/// How rows become bytes, as the options of a table say.
pub trait EncodingFormat: Send + Sync {
    /// Its name in options: `json`.
    fn identifier(&self) -> &'static str;

    /// Whether it can write `-U` and `-D` rows.
    fn takes_changes(&self) -> bool {
        false
    }

    /// An encoder of rows of this schema; refuses types it cannot write.
    fn encoder(&self, schema: &Schema) -> Result<Box<dyn Encoder>>;
}

/// Writes rows as messages.
pub trait Encoder: Send {
    /// Gives `out` the number and the bytes of each row of `rows`, in order. The bytes have no line end.
    fn encode(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        out: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()>;
}

/// A format for both directions, as all of them are.
trait Format: DecodingFormat + EncodingFormat {}

impl<F: DecodingFormat + EncodingFormat> Format for F {}

/// The decoding format that option `key` (`format`, `value.format`, `key.format`) names, with its own options
/// read from `json.*`, `value.json.*`, `key.json.*`.
pub fn decoding_format(options: &mut OptionReader<'_>, key: &str) -> Result<Arc<dyn DecodingFormat>> {
    Ok(format_named(options, key)?)
}

/// The encoding format that option `key` names; see [`decoding_format`].
pub fn encoding_format(options: &mut OptionReader<'_>, key: &str) -> Result<Arc<dyn EncodingFormat>> {
    Ok(format_named(options, key)?)
}

fn format_named(options: &mut OptionReader<'_>, key: &str) -> Result<Arc<dyn Format>> {
    let name = options.required(key)?;
    let prefix = option_prefix(key, name);
    match name {
        "csv" => Ok(Arc::new(csv::CsvFormat::read(options, &prefix)?)),
        "json" => Ok(Arc::new(json::JsonFormat::read(options, &prefix)?)),
        "raw" => Ok(Arc::new(raw::RawFormat::read(options, &prefix)?)),
        name => match json::changes::ChangeFormat::read(name, options, &prefix)? {
            Some(format) => Ok(Arc::new(format)),
            None => Err(unknown_format(name)),
        },
    }
}

/// `format` = json: `json.`; `value.format` = json: `value.json.`.
fn option_prefix(key: &str, name: &str) -> String {
    format!("{}{name}.", key.strip_suffix("format").unwrap_or_default())
}

fn unknown_format(name: &str) -> Error {
    Error::invalid(format!(
        "Could not find any format factory for identifier '{name}' in the classpath. Available formats are: \
         canal-json, csv, debezium-json, json, maxwell-json, ogg-json, raw."
    ))
}

/// The job error of a message that is no row. `place` is the connector's: `topic clicks, partition 0, offset 12`.
pub fn decode_failure(format: &str, record: &[u8], place: &str, error: &DecodeError) -> Error {
    let text = String::from_utf8_lossy(record);
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    let field = error.field.as_ref().map_or(String::new(), |f| format!("field '{f}': "));
    Error::job(format!(
        "Failed to deserialize {} '{shown}' at {place}: {field}{}",
        format.to_ascii_uppercase(),
        error.message
    ))
}

/// A batch of these columns; the row count is said for the case that there are no columns.
pub fn to_batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
