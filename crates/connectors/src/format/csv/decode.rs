//! CSV fields to columns. Only the columns the query reads are looked at, so a bad value elsewhere harms nobody.

use arrow::array::{ArrayRef, UInt8Array};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_api::text::days_from_civil;
use tidegate_api::{Field, LogicalType, Result, Schema, TypeKind};

use super::CsvFormat;
use super::record::{Found, RecordReader};
use crate::column::{Column, Data, finish_all};
use crate::format::text::{self, DateCache, Days, DecimalText};
use crate::format::{Chunk, ChunkError, DecodeError, DecodeMetrics, Decoder};

/// Decodes CSV records into columns.
pub(super) struct CsvDecoder {
    format: CsvFormat,
    reader: RecordReader,
    /// The wanted fields with their place in a record.
    fields: Vec<(usize, Field)>,
    /// Fields a record must have to hold all wanted ones.
    last_wanted: usize,
    columns: Vec<Column>,
    /// Columns a record has.
    width: usize,
    rows: usize,
    dates: DateCache,
    metrics: DecodeMetrics,
}

impl CsvDecoder {
    pub(super) fn new(format: &CsvFormat, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Self {
        let wanted = projection.iter().filter_map(|i| Some((*i, row.fields.get(*i)?.clone())));
        let fields: Vec<(usize, Field)> = wanted.collect();
        CsvDecoder {
            format: format.clone(),
            reader: RecordReader::new(format),
            columns: fields.iter().map(|(_, f)| Column::new(&f.ty)).collect(),
            last_wanted: fields.iter().map(|(i, _)| i + 1).max().unwrap_or(0),
            fields,
            width: row.len(),
            rows: 0,
            dates: DateCache::default(),
            metrics,
        }
    }

    /// The record in the reader becomes a row.
    fn push_record(&mut self) -> Result<usize, DecodeError> {
        match self.read_fields() {
            Ok(()) => {
                self.rows += 1;
                Ok(1)
            }
            Err(error) => self.reject(error),
        }
    }

    fn reject(&mut self, error: DecodeError) -> Result<usize, DecodeError> {
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
        if self.format.ignore_parse_errors {
            self.metrics.errors.add(1);
            return Ok(0);
        }
        Err(error)
    }

    fn read_fields(&mut self) -> Result<(), DecodeError> {
        let found = self.reader.len();
        let hanging = found == self.width + 1 && self.reader.field(self.width).is_some_and(<[u8]>::is_empty);
        let surplus = found > self.width && !(hanging && self.format.allow_trailing_comma);
        if surplus && !self.format.ignore_trailing_unmappable {
            return Err(DecodeError::message(format!(
                "Too many entries: expected at most {} but was {found}.",
                self.width
            )));
        }
        let lenient = self.format.ignore_parse_errors && !self.format.fail_on_missing_columns;
        if (found < self.last_wanted || (self.format.fail_on_missing_columns && found < self.width)) && !lenient {
            return Err(DecodeError::message(format!(
                "Row length mismatch. {} fields expected but was {found}.",
                self.width
            )));
        }
        let mut push = Push { format: &self.format, dates: &mut self.dates, nulled: 0 };
        for ((place, field), column) in self.fields.iter().zip(&mut self.columns) {
            match self.reader.field(*place) {
                Some(bytes) => push.field(column, bytes).map_err(|m| DecodeError::field(&field.name, m))?,
                None => column.push_null(),
            }
        }
        if push.nulled > 0 {
            self.metrics.field_errors.add(push.nulled);
        }
        Ok(())
    }
}

impl Decoder for CsvDecoder {
    fn decode(&mut self, message: Option<&[u8]>) -> Result<usize, DecodeError> {
        let Some(message) = message else {
            self.metrics.tombstones.add(1);
            return Ok(0);
        };
        match self.reader.read(message, true) {
            Found::Record(end) if message[end..].trim_ascii().is_empty() => self.push_record(),
            Found::Record(_) => self.reject(DecodeError::message("the message holds more than one CSV record")),
            Found::Malformed(_, reason) => self.reject(DecodeError::message(reason)),
            Found::Blank(_) | Found::NeedMore => {
                self.metrics.blank.add(1);
                Ok(0)
            }
            Found::Comment(_) => Ok(0),
        }
    }

    fn decode_chunk(&mut self, chunk: &mut Chunk<'_>) -> Result<(), ChunkError> {
        let target = self.rows + chunk.max_rows;
        while self.rows < target && chunk.consumed < chunk.bytes.len() {
            let rest = &chunk.bytes[chunk.consumed..];
            let (len, result) = match self.reader.read(rest, chunk.at_end) {
                Found::NeedMore => break,
                Found::Record(len) => (len, self.push_record()),
                Found::Malformed(len, reason) => (len, self.reject(DecodeError::message(reason))),
                Found::Blank(len) if self.format.allow_comments => {
                    self.metrics.blank.add(1);
                    (len, Ok(0))
                }
                // Without comments to skip, Jackson makes a record of one empty field of a blank line in a file.
                Found::Blank(len) => (len, self.push_record()),
                Found::Comment(len) => (len, Ok(0)),
            };
            let rows = result.map_err(|error| ChunkError {
                line: chunk.line,
                record: rest[..len].trim_ascii_end().to_vec(),
                error,
            })?;
            if rows > 0 {
                chunk.positions.push(chunk.line);
            }
            chunk.line += memchr::memchr_iter(b'\n', &rest[..len]).count() as i64;
            chunk.consumed += len;
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

/// Gives text a type, by the rules of the Java classes Flink uses.
struct Push<'p> {
    format: &'p CsvFormat,
    dates: &'p mut DateCache,
    nulled: u64,
}

impl Push<'_> {
    fn field(&mut self, column: &mut Column, bytes: &[u8]) -> Result<(), String> {
        // Jackson reads an empty field for an array as no elements before anybody looks for the null literal.
        let no_elements = bytes.is_empty() && matches!(column.ty().kind, TypeKind::Array(_));
        let literal = self.format.null_literal.as_ref().filter(|_| !no_elements);
        let is_null = literal.is_some_and(|literal| literal.as_bytes() == bytes)
            || (bytes.is_empty() && self.format.empty_as_null);
        if is_null {
            column.push_null();
            return Ok(());
        }
        let before = column.len();
        match self.value(column, bytes) {
            Err(_) if self.format.ignore_parse_errors => {
                column.truncate(before);
                column.push_null();
                self.nulled += 1;
                Ok(())
            }
            result => result,
        }
    }

    fn value(&mut self, column: &mut Column, bytes: &[u8]) -> Result<(), String> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Err("invalid UTF-8".to_owned()) };
        match &column.ty().kind {
            TypeKind::Array(_) => return self.array(column, text),
            TypeKind::Row(_) => return self.row(column, text),
            _ => {}
        }
        if self.scalar(column, text) { Ok(()) } else { Err(misfit(text, column.ty())) }
    }

    fn scalar(&mut self, column: &mut Column, text: &str) -> bool {
        match column.ty().kind {
            TypeKind::Char(_) | TypeKind::Varchar(_) => column.push_bytes(text.as_bytes()),
            TypeKind::Boolean => column.push_bool(text::trim(text).eq_ignore_ascii_case("true")),
            TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::BigInt
            | TypeKind::IntervalYearMonth
            | TypeKind::IntervalDayTime => text::integer(text::trim(text)).is_some_and(|v| column.push_i64(v)),
            TypeKind::Float | TypeKind::Double => text::double(text).is_some_and(|v| column.push_f64(v)),
            TypeKind::Decimal(precision, scale) => match text::decimal(text, precision, scale) {
                DecimalText::Fits(v) => column.push_i128(v),
                DecimalText::TooLarge => {
                    column.push_null();
                    true
                }
                DecimalText::Malformed => false,
            },
            TypeKind::Date => date(text).is_some_and(|v| column.push_i64(v)),
            TypeKind::Time(precision) => text::clock(text.as_bytes(), true).is_some_and(|(second, nano)| {
                let unit = 10i64.pow(u32::from(3 - precision.min(3)));
                let ms = second * 1000 + i64::from(nano / 1_000_000);
                column.push_i64(ms / unit * unit)
            }),
            TypeKind::Timestamp(_) => {
                self.timestamp(text::trim(text)).is_some_and(|(second, nano)| column.push_timestamp(second, nano))
            }
            TypeKind::TimestampLtz(_) => {
                let parsed = text
                    .strip_suffix('Z')
                    .and_then(|local| text::timestamp(local.as_bytes(), b' ', false, Days::Clamped, self.dates));
                parsed.is_some_and(|(second, nano)| column.push_timestamp(second, nano))
            }
            TypeKind::Binary(_) | TypeKind::Varbinary(_) => {
                STANDARD.decode(text).is_ok_and(|bytes| column.push_bytes(&bytes))
            }
            TypeKind::Null => {
                column.push_null();
                true
            }
            _ => false,
        }
    }

    /// `java.sql.Timestamp.valueOf`: the common form fast, then its lenient ones (`2031-1-5 7:0:0`).
    fn timestamp(&mut self, text: &str) -> Option<(i64, u32)> {
        if let Some(found) = text::timestamp(text.as_bytes(), b' ', false, Days::Strict, self.dates) {
            return Some(found);
        }
        let (day, clock) = text.split_once(' ')?;
        let (clock, fraction) = match clock.split_once('.') {
            Some((_, "")) => return None,
            Some((clock, fraction)) => (clock, fraction),
            None => (clock, ""),
        };
        let mut parts = clock.trim().splitn(3, ':').map(|p| small_number(p, 2));
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let nano = if fraction.is_empty() { 0 } else { small_number(fraction, 9)? };
        let nano = nano * 10i64.pow(9 - fraction.len() as u32);
        let seconds = date(day)? * 86_400 + (hour * 60 + minute) * 60 + second;
        Some((seconds, if fraction.is_empty() { 0 } else { nano as u32 }))
    }

    fn array(&mut self, column: &mut Column, text: &str) -> Result<(), String> {
        let Data::List { items, .. } = &mut column.data else { return Err(misfit(text, column.ty())) };
        if !text.trim().is_empty() {
            for element in text.split(self.format.element_delimiter.as_str()) {
                self.field(items, element.as_bytes())?;
            }
        }
        if column.push_nested() { Ok(()) } else { Err(misfit(text, column.ty())) }
    }

    fn row(&mut self, column: &mut Column, text: &str) -> Result<(), String> {
        let Some((fields, columns)) = column.row_parts() else { return Err(misfit(text, column.ty())) };
        let mut elements = text.split(self.format.element_delimiter.as_str());
        let mut found = 0;
        for child in columns {
            match elements.next() {
                Some(element) => {
                    found += 1;
                    self.field(child, element.as_bytes())?;
                }
                None => child.push_null(),
            }
        }
        found += elements.count();
        if found != fields.len() && !self.format.ignore_parse_errors {
            return Err(format!("Row length mismatch. {} fields expected but was {found}.", fields.len()));
        }
        if column.push_nested() { Ok(()) } else { Err(misfit(text, column.ty())) }
    }
}

fn misfit(text: &str, ty: &LogicalType) -> String {
    if text.is_empty() {
        return format!("an empty text is no {ty}; set the option 'null-literal' to '' to read it as NULL");
    }
    let shown: String = text.chars().take(60).collect();
    format!("'{shown}' is no {ty}")
}

/// `java.sql.Date.valueOf`: `yyyy-[M]M-[d]d`; a day the month does not have runs on into the next month.
fn date(text: &str) -> Option<i64> {
    let mut parts = text.trim().splitn(3, '-');
    let year = parts.next().filter(|y| y.len() == 4).and_then(|y| small_number(y, 4))?;
    let month = parts.next().and_then(|m| small_number(m, 2)).filter(|m| (1..=12).contains(m))?;
    let day = parts.next().and_then(|d| small_number(d, 2)).filter(|d| (1..=31).contains(d))?;
    Some(days_from_civil(year, month, 1) + day - 1)
}

fn small_number(text: &str, max_digits: usize) -> Option<i64> {
    let fits = (1..=max_digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}
