//! The JSON decoder: fast path first, then the meaning, then what to do about what is left.

use arrow::array::{ArrayRef, UInt8Array};
use sonic_rs::Deserializer;
use tidegate_api::{Field, Result, Schema};

use super::JsonFormat;
use super::convert::{Converter, FieldError, first_line};
use super::shape::Shapes;
use crate::column::{Column, finish_all};
use crate::format::{Chunk, ChunkError, DecodeError, DecodeMetrics, Decoder, decode_lines};

/// Bytes whose UTF-8 is checked together: enough to make the check free, little enough to be thrown away.
const CHECKED_BYTES: usize = 64 * 1024;

/// Decodes JSON objects into columns.
pub(super) struct JsonDecoder {
    fields: Vec<Field>,
    columns: Vec<Column>,
    rows: usize,
    converter: Converter,
    shapes: Shapes,
    ignore_errors: bool,
    metrics: DecodeMetrics,
}

impl JsonDecoder {
    pub(super) fn new(format: &JsonFormat, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Self {
        let fields: Vec<Field> = projection.iter().filter_map(|i| row.fields.get(*i).cloned()).collect();
        JsonDecoder {
            columns: fields.iter().map(|f| Column::new(&f.ty)).collect(),
            fields,
            rows: 0,
            converter: format.converter(row),
            shapes: Shapes::default(),
            ignore_errors: format.ignore_parse_errors,
            metrics,
        }
    }

    #[cfg(test)]
    pub(super) fn set_shapes(&mut self, shapes: Shapes) {
        self.shapes = shapes;
    }

    #[cfg(test)]
    pub(super) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// One message that is known to be UTF-8.
    fn decode_text(&mut self, text: &str) -> Result<usize, DecodeError> {
        if text.trim_ascii().is_empty() {
            self.metrics.blank.add(1);
            return Ok(0);
        }
        self.converter.field_errors = 0;
        if !self.shapes.try_row(text, &mut self.columns, self.rows, &mut self.converter, &self.fields) {
            self.roll_back();
            if let Err(error) = self.decode_meaning(text) {
                return self.reject(error);
            }
            self.shapes.learn(text, &self.fields);
        }
        if self.converter.field_errors > 0 {
            self.metrics.field_errors.add(self.converter.field_errors);
        }
        self.rows += 1;
        Ok(1)
    }

    fn decode_meaning(&mut self, text: &str) -> Result<(), FieldError> {
        let Err(error) = self.read_row(text) else { return Ok(()) };
        // Flink lets strings hold unescaped control characters; the parser does not.
        let Some(escaped) = escape_controls(text) else { return Err(error) };
        self.roll_back();
        self.read_row(&escaped)
    }

    fn read_row(&mut self, text: &str) -> Result<(), FieldError> {
        self.converter.field_errors = 0;
        let mut parser = Deserializer::from_str(text);
        self.converter.read_object(&mut parser, &self.fields, &mut self.columns, self.rows)?;
        // Without this, garbage after the object would pass.
        parser.end().map_err(|e| FieldError { path: Vec::new(), message: first_line(&e.to_string()) })
    }

    fn reject(&mut self, error: FieldError) -> Result<usize, DecodeError> {
        self.roll_back();
        if self.ignore_errors {
            self.metrics.errors.add(1);
            return Ok(0);
        }
        let field = (!error.path.is_empty()).then(|| error.path.join("."));
        Err(DecodeError { field, message: error.message })
    }

    fn roll_back(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
    }

    /// Lines of `bytes`, which end with a line; stops when the chunk has enough rows.
    fn decode_checked(&mut self, chunk: &mut Chunk<'_>, end: usize, target: usize) -> Result<(), ChunkError> {
        let bytes = &chunk.bytes[chunk.consumed..end];
        let Ok(text) = std::str::from_utf8(bytes) else {
            let mut part = Chunk { bytes: &chunk.bytes[..end], at_end: true, ..chunk.reborrow(target - self.rows) };
            let result = decode_lines(&mut part, |line| self.decode(Some(line)));
            let (line, consumed) = (part.line, part.consumed);
            (chunk.line, chunk.consumed) = (line, consumed);
            return result;
        };
        let mut start = 0;
        while start < text.len() && self.rows < target {
            let (line_end, next) = match memchr::memchr(b'\n', &text.as_bytes()[start..]) {
                Some(at) => (start + at, start + at + 1),
                None => (text.len(), text.len()),
            };
            let line = &text[start..line_end];
            let line = line.strip_suffix('\r').unwrap_or(line);
            let rows = self.decode_text(line).map_err(|error| ChunkError {
                line: chunk.line,
                record: line.as_bytes().to_vec(),
                error,
            })?;
            if rows > 0 {
                chunk.positions.push(chunk.line);
            }
            chunk.line += 1;
            chunk.consumed += next - start;
            start = next;
        }
        Ok(())
    }
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, message: Option<&[u8]>) -> Result<usize, DecodeError> {
        let Some(message) = message else {
            self.metrics.tombstones.add(1);
            return Ok(0);
        };
        match std::str::from_utf8(message) {
            Ok(text) => self.decode_text(text),
            Err(e) => self.reject(FieldError { path: Vec::new(), message: format!("invalid UTF-8: {e}") }),
        }
    }

    fn decode_chunk(&mut self, chunk: &mut Chunk<'_>) -> Result<(), ChunkError> {
        let target = self.rows + chunk.max_rows;
        while self.rows < target && chunk.consumed < chunk.bytes.len() {
            let Some(end) = lines_end(chunk) else { break };
            self.decode_checked(chunk, end, target)?;
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn finish(&mut self) -> Result<(Vec<ArrayRef>, Option<UInt8Array>)> {
        self.rows = 0;
        Ok((finish_all(&mut self.columns)?, None))
    }
}

/// Where the whole lines among the next bytes end.
fn lines_end(chunk: &Chunk<'_>) -> Option<usize> {
    let rest = &chunk.bytes[chunk.consumed..];
    let window = &rest[..rest.len().min(CHECKED_BYTES)];
    let newline = memchr::memrchr(b'\n', window).or_else(|| memchr::memchr(b'\n', rest));
    match newline {
        Some(at) => Some(chunk.consumed + at + 1),
        None => chunk.at_end.then_some(chunk.bytes.len()),
    }
}

/// The text with control characters inside strings escaped; `None` if there are none.
fn escape_controls(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut quoted, mut escaped, mut found) = (false, false, false);
    for c in text.chars() {
        if quoted && c < ' ' {
            out.push_str(&format!("\\u{:04x}", c as u32));
            (escaped, found) = (false, true);
            continue;
        }
        match c {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        out.push(c);
    }
    found.then_some(out)
}
