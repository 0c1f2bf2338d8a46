//! Writing JSON as Jackson does for Flink.
//!
//! Fields stand in the schema's order; decimals lose trailing zeros and may take an exponent (`1E+2`) unless
//! `encode.decimal-as-plain-number`; timestamps drop trailing zeros of the fraction; instants end in `Z`.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_api::text::{decimal_to_string, format_date, format_timestamp_sql, java_double, java_float};
use tidegate_api::{Batch, Error, Field, Result, Schema};

use super::{JsonFormat, NullKey, TimestampStandard};
use crate::format::Encoder;
use crate::format::text::{NumberText, java_decimal};
use crate::view::{Cell, View, append};

/// Writes rows as JSON objects.
pub(super) struct JsonEncoder {
    format: JsonFormat,
    fields: Vec<Field>,
    out: String,
}

impl JsonEncoder {
    pub(super) fn new(format: &JsonFormat, schema: &Schema) -> Self {
        JsonEncoder { format: format.clone(), fields: schema.fields.clone(), out: String::new() }
    }
}

impl Encoder for JsonEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        out: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let columns = batch.columns.columns().iter().zip(&self.fields);
        let views = columns.map(|(array, field)| View::new(array, &field.ty)).collect::<Result<Vec<_>>>()?;
        for row in rows {
            self.out.clear();
            Writer { format: &self.format, out: &mut self.out }.object(&self.fields, &views, row)?;
            out(row, self.out.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes values into a text.
pub(super) struct Writer<'w> {
    pub(super) format: &'w JsonFormat,
    pub(super) out: &'w mut String,
}

impl Writer<'_> {
    /// A row as an object.
    pub(super) fn object(&mut self, fields: &[Field], columns: &[View<'_>], row: usize) -> Result<()> {
        self.out.push('{');
        let mut first = true;
        for (field, column) in fields.iter().zip(columns) {
            let cell = column.get(row);
            if self.format.skip_nulls && matches!(cell, Cell::Null) {
                continue;
            }
            self.separate(&mut first);
            write_string(self.out, &field.name);
            self.out.push(':');
            self.value(cell)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn separate(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
    }

    fn value(&mut self, cell: Cell<'_>) -> Result<()> {
        match cell {
            Cell::Null => self.out.push_str("null"),
            Cell::Bool(v) => self.out.push_str(if v { "true" } else { "false" }),
            Cell::Int(v) | Cell::Millis(v) => append(self.out, format_args!("{v}")),
            Cell::Months(v) => append(self.out, format_args!("{v}")),
            Cell::Float(v) => write_float(self.out, &java_float(v), v.is_finite()),
            Cell::Double(v) => write_float(self.out, &java_double(v), v.is_finite()),
            Cell::Decimal(v, scale) => self.decimal(v, scale),
            Cell::Text(v) => write_string(self.out, v),
            Cell::Bytes(v) => {
                self.out.push('"');
                STANDARD.encode_string(v, self.out);
                self.out.push('"');
            }
            Cell::Date(v) => append(self.out, format_args!("\"{}\"", format_date(v))),
            // Flink writes whole seconds only.
            Cell::Time(v) => {
                let s = v / 1000;
                append(self.out, format_args!("\"{:02}:{:02}:{:02}\"", s / 3600, s / 60 % 60, s % 60));
            }
            Cell::Timestamp(v) => self.timestamp(v, ""),
            Cell::TimestampLtz(v) => self.timestamp(v, "Z"),
            Cell::List(items, start, end) => {
                self.out.push('[');
                let mut first = true;
                for i in start..end {
                    self.separate(&mut first);
                    self.value(items.get(i))?;
                }
                self.out.push(']');
            }
            Cell::Map(keys, values, start, end) => self.map(keys, values, start..end)?,
            Cell::Row(fields, columns, i) => self.object(fields, columns, i)?,
        }
        Ok(())
    }

    fn decimal(&mut self, unscaled: i128, scale: u8) {
        let text = decimal_to_string(unscaled, scale);
        if self.format.plain_decimals {
            let shown = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            self.out.push_str(if unscaled == 0 { "0" } else { shown });
        } else if let Some(parts) = NumberText::split(&text) {
            self.out.push_str(&java_decimal(&parts));
        }
    }

    fn timestamp(&mut self, nanos: i128, zone: &str) {
        let text = format_timestamp_sql(nanos, 9);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = match self.format.standard {
            TimestampStandard::Sql => text.to_owned(),
            TimestampStandard::Iso8601 => text.replacen(' ', "T", 1),
        };
        append(self.out, format_args!("\"{text}{zone}\""));
    }

    fn map(&mut self, keys: &View<'_>, values: &View<'_>, entries: Range<usize>) -> Result<()> {
        self.out.push('{');
        let mut first = true;
        for i in entries {
            let key = match (keys.get(i), &self.format.null_key) {
                (Cell::Text(key), _) => key,
                (_, NullKey::Literal(key)) => key.as_str(),
                (_, NullKey::Drop) => continue,
                (_, NullKey::Fail) => {
                    return Err(Error::job(
                        "JSON format doesn't support to serialize map data with null keys. You can drop null key \
                         entries or encode null in literals by specifying map-null-key.mode option.",
                    ));
                }
            };
            self.separate(&mut first);
            write_string(self.out, key);
            self.out.push(':');
            self.value(values.get(i))?;
        }
        self.out.push('}');
        Ok(())
    }
}

fn write_float(out: &mut String, text: &str, finite: bool) {
    if finite {
        out.push_str(text);
    } else {
        append(out, format_args!("\"{text}\""));
    }
}

/// A JSON string with Jackson's escapes: `"`, `\` and control characters only.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            other => append(out, format_args!("\\u{other:04X}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// The JSON text of an object or array as Jackson prints its tree: no spaces, plain escapes, fractions as Java's
/// `double` (or as stripped decimals where the table has a `DECIMAL`).
pub(super) fn normalize(raw: &str, exact_fractions: bool) -> serde_json::Result<String> {
    let value: serde_json::Value = serde_json::from_str(raw)?;
    let mut out = String::with_capacity(raw.len());
    write_tree(&mut out, &value, exact_fractions);
    Ok(out)
}

fn write_tree(out: &mut String, value: &serde_json::Value, exact: bool) {
    match value {
        serde_json::Value::String(text) => write_string(out, text),
        serde_json::Value::Number(number) => write_number(out, &number.to_string(), exact),
        serde_json::Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_tree(out, item, exact);
            }
            out.push(']');
        }
        serde_json::Value::Object(entries) => {
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_tree(out, item, exact);
            }
            out.push('}');
        }
        serde_json::Value::Null => out.push_str("null"),
        serde_json::Value::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
    }
}

fn write_number(out: &mut String, text: &str, exact: bool) {
    let is_fraction = text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    match (is_fraction, exact) {
        (false, _) => out.push_str(if text == "-0" { "0" } else { text }),
        (true, true) => match NumberText::split(text) {
            Some(parts) => out.push_str(&java_decimal(&parts)),
            None => out.push_str(text),
        },
        (true, false) => match text.parse::<f64>() {
            Ok(v) => write_float(out, &java_double(v), v.is_finite()),
            Err(_) => out.push_str(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_print_as_jackson_prints_them() {
        let text = normalize(r#"{ "a" : [1, 2.50, "x\u00e9\n", 1e10, -0], "b": {"c": null} }"#, false);
        assert_eq!(text.expect("json"), r#"{"a":[1,2.5,"xé\n",1.0E10,0],"b":{"c":null}}"#);
        assert_eq!(normalize("[2.50,100.0,0.00]", true).expect("json"), "[2.5,1E+2,0]");
    }
}
