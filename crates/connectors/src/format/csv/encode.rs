//! Writing CSV as Jackson does for Flink.
//!
//! A text is quoted if it is longer than 24 characters or has a character at or below the highest special one
//! (delimiter, quote): that is Jackson's quick test, and so the bytes are the same.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_api::text::{decimal_to_string, format_date, format_timestamp_sql, java_double, java_float};
use tidegate_api::{Batch, Field, Result, Schema};

use super::CsvFormat;
use crate::format::Encoder;
use crate::format::text::{NumberText, java_decimal};
use crate::view::{Cell, View, append};

/// Longer texts are quoted unseen.
const CHECKED_CHARS: usize = 24;

/// Writes rows as CSV records.
pub(super) struct CsvEncoder {
    format: CsvFormat,
    fields: Vec<Field>,
    /// The lowest character that never needs quotes.
    safe: char,
    out: String,
    value: String,
}

impl CsvEncoder {
    pub(super) fn new(format: &CsvFormat, schema: &Schema) -> Self {
        let specials = [Some(format.delimiter), format.quote, format.escape, Some('\r')];
        let highest = specials.into_iter().flatten().max().unwrap_or('"');
        CsvEncoder {
            format: format.clone(),
            fields: schema.fields.clone(),
            safe: char::from_u32(highest as u32 + 1).unwrap_or(highest),
            out: String::new(),
            value: String::new(),
        }
    }

    fn write_row(&mut self, views: &[View<'_>], row: usize) {
        self.out.clear();
        for (i, view) in views.iter().enumerate() {
            if i > 0 {
                self.out.push(self.format.delimiter);
            }
            self.value.clear();
            let is_text = write_cell(&mut self.value, view.get(row), &self.format);
            if is_text && self.needs_quotes() {
                self.write_quoted();
            } else {
                self.out.push_str(&self.value);
            }
        }
    }

    fn needs_quotes(&self) -> bool {
        let long = self.value.chars().nth(CHECKED_CHARS).is_some();
        self.format.quote.is_some()
            && (long || self.value.chars().any(|c| c < self.safe || Some(c) == self.format.escape))
    }

    fn write_quoted(&mut self) {
        let Some(quote) = self.format.quote else { return };
        self.out.push(quote);
        for c in self.value.chars() {
            if c == quote || Some(c) == self.format.escape {
                self.out.push(self.format.escape.unwrap_or(quote));
            }
            self.out.push(c);
        }
        self.out.push(quote);
    }
}

impl Encoder for CsvEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        out: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let fields = self.fields.clone();
        let columns = batch.columns.columns().iter().zip(&fields);
        let views = columns.map(|(array, field)| View::new(array, &field.ty)).collect::<Result<Vec<_>>>()?;
        for row in rows {
            self.write_row(&views, row);
            out(row, self.out.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes a value without quotes; true if it is text, which may need them.
fn write_cell(out: &mut String, cell: Cell<'_>, format: &CsvFormat) -> bool {
    match cell {
        Cell::Null => out.push_str(format.null_literal.as_deref().unwrap_or_default()),
        Cell::Bool(v) => out.push_str(if v { "true" } else { "false" }),
        Cell::Int(v) | Cell::Millis(v) => append(out, format_args!("{v}")),
        Cell::Months(v) => append(out, format_args!("{v}")),
        Cell::Float(v) => out.push_str(&java_float(v)),
        Cell::Double(v) => out.push_str(&java_double(v)),
        Cell::Decimal(v, scale) => write_decimal(out, v, scale, format.scientific_decimals),
        Cell::Text(v) => {
            out.push_str(v);
            return true;
        }
        Cell::Bytes(v) => {
            STANDARD.encode_string(v, out);
            return true;
        }
        Cell::Date(v) => {
            out.push_str(&format_date(v));
            return true;
        }
        Cell::Time(v) => {
            let (second, ms) = (v / 1000, v % 1000);
            append(out, format_args!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60));
            if ms > 0 {
                out.push_str(format!(".{ms:03}").trim_end_matches('0'));
            }
            return true;
        }
        Cell::Timestamp(v) => {
            write_timestamp(out, v);
            return true;
        }
        Cell::TimestampLtz(v) => {
            write_timestamp(out, v);
            out.push('Z');
            return true;
        }
        Cell::List(items, start, end) => {
            write_elements(out, (start..end).map(|i| items.get(i)), format);
            return true;
        }
        Cell::Row(_, columns, row) => {
            write_elements(out, columns.iter().map(|c| c.get(row)), format);
            return true;
        }
        // Refused at planning.
        Cell::Map(..) => {}
    }
    false
}

fn write_elements<'v>(out: &mut String, elements: impl Iterator<Item = Cell<'v>>, format: &CsvFormat) {
    for (i, element) in elements.enumerate() {
        if i > 0 {
            out.push_str(&format.element_delimiter);
        }
        write_cell(out, element, format);
    }
}

fn write_decimal(out: &mut String, unscaled: i128, scale: u8, scientific: bool) {
    let text = decimal_to_string(unscaled, scale);
    match NumberText::split(&text) {
        Some(parts) if scientific => out.push_str(&java_decimal(&parts)),
        _ if unscaled == 0 => out.push('0'),
        _ if text.contains('.') => out.push_str(text.trim_end_matches('0').trim_end_matches('.')),
        _ => out.push_str(&text),
    }
}

fn write_timestamp(out: &mut String, nanos: i128) {
    let text = format_timestamp_sql(nanos, 9);
    out.push_str(text.trim_end_matches('0').trim_end_matches('.'));
}
