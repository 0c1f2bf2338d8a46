//! Changelogs in JSON: the envelopes of Debezium, Canal, Maxwell and OGG.
//!
//! Each message says what happened to rows; it becomes `+I`, `-U` and `+U`, or `-D`. A Debezium or OGG message holds
//! the row before and after; Canal and Maxwell hold the new row and, for an update, the old values of what changed.
//! As in Flink, updates are written as a deletion and an insertion.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt8Array};
use regex::Regex;
use sonic_rs::{Deserializer, LazyValue};
use tidegate_api::{Batch, Field, Result, RowKind, Schema};

use super::JsonFormat;
use super::convert::{Converter, FieldError, elements, entries, unquote};
use super::encode::Writer;
use crate::column::{Column, finish_all};
use crate::format::{DecodeError, DecodeMetrics, Decoder, DecodingFormat, Encoder, EncodingFormat};
use crate::option::{OptionReader, invalid_value};
use crate::view::View;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Envelope {
    Debezium,
    Canal,
    Maxwell,
    Ogg,
}

/// One of the changelog formats with its options.
#[derive(Clone, Debug)]
pub(crate) struct ChangeFormat {
    envelope: Envelope,
    json: JsonFormat,
    /// Debezium: the change stands in `payload`, beside its schema.
    schema_include: bool,
    /// Canal: only messages of databases and tables that match.
    filters: Arc<Vec<(&'static str, Regex)>>,
}

impl ChangeFormat {
    /// The format of this name; `None` if it is no changelog format.
    pub(crate) fn read(name: &str, options: &mut OptionReader<'_>, prefix: &str) -> Result<Option<ChangeFormat>> {
        let envelope = match name {
            "debezium-json" => Envelope::Debezium,
            "canal-json" => Envelope::Canal,
            "maxwell-json" => Envelope::Maxwell,
            "ogg-json" => Envelope::Ogg,
            _ => return Ok(None),
        };
        let json = JsonFormat::read_common(options, prefix)?;
        let schema_include =
            envelope == Envelope::Debezium && options.bool(&format!("{prefix}schema-include"), false)?;
        let mut filters = Vec::new();
        if envelope == Envelope::Canal {
            for field in ["database", "table"] {
                let key = format!("{prefix}{field}.include");
                let Some(text) = options.text(&key) else { continue };
                let pattern = Regex::new(&format!("^(?:{text})$"))
                    .map_err(|e| invalid_value(&key, text, &format!("a regular expression ({e})")))?;
                filters.push((field, pattern));
            }
        }
        Ok(Some(ChangeFormat { envelope, json, schema_include, filters: Arc::new(filters) }))
    }

    fn name(&self) -> &'static str {
        match self.envelope {
            Envelope::Debezium => "debezium-json",
            Envelope::Canal => "canal-json",
            Envelope::Maxwell => "maxwell-json",
            Envelope::Ogg => "ogg-json",
        }
    }
}

impl DecodingFormat for ChangeFormat {
    fn identifier(&self) -> &'static str {
        self.name()
    }

    fn is_updating(&self) -> bool {
        true
    }

    fn check(&self, row: &Schema) -> Result<()> {
        DecodingFormat::check(&self.json, row)
    }

    fn decoder(&self, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Result<Box<dyn Decoder>> {
        DecodingFormat::check(&self.json, row)?;
        let fields: Vec<Field> = projection.iter().filter_map(|i| row.fields.get(*i).cloned()).collect();
        Ok(Box::new(ChangeDecoder {
            converter: self.json.converter(row),
            columns: fields.iter().map(|f| Column::new(&f.ty)).collect(),
            format: self.clone(),
            fields,
            kinds: Vec::new(),
            metrics,
        }))
    }
}

struct ChangeDecoder {
    format: ChangeFormat,
    fields: Vec<Field>,
    columns: Vec<Column>,
    kinds: Vec<u8>,
    converter: Converter,
    metrics: DecodeMetrics,
}

/// The values of an envelope by name.
type Message<'m> = [(std::borrow::Cow<'m, str>, LazyValue<'m>)];

/// A value that is there and not `null`.
fn part<'m>(message: &'m Message<'m>, name: &str) -> Option<&'m str> {
    let found = message.iter().find(|(key, _)| key == name)?;
    Some(found.1.as_raw_str()).filter(|raw| *raw != "null")
}

impl ChangeDecoder {
    fn read(&mut self, text: &str) -> Result<(), FieldError> {
        let message = entries(text)?;
        match self.format.envelope {
            Envelope::Debezium if self.format.schema_include => {
                let payload = part(&message, "payload")
                    .ok_or_else(|| FieldError::new("the message has no \"payload\" (option 'schema-include')"))?;
                self.before_and_after(&entries(payload)?, "op")
            }
            Envelope::Debezium => self.before_and_after(&message, "op"),
            Envelope::Ogg => self.before_and_after(&message, "op_type"),
            Envelope::Canal => self.canal(&message),
            Envelope::Maxwell => self.maxwell(&message),
        }
    }

    fn before_and_after(&mut self, message: &Message<'_>, op_name: &str) -> Result<(), FieldError> {
        let raw_op = part(message, op_name).unwrap_or_default();
        let op = unquote(raw_op)?;
        let name = if self.format.envelope == Envelope::Debezium { "Debezium" } else { "OGG" };
        let side = |side: &str, kind: &str| {
            part(message, side).ok_or_else(|| {
                let advice = match (self.format.envelope, side) {
                    (Envelope::Debezium, "before") => {
                        ", if you are using Debezium Postgres Connector, please check the Postgres table has been set \
                         REPLICA IDENTITY to FULL level"
                    }
                    _ => "",
                };
                FieldError::new(format!("The \"{side}\" field of {kind} message is null{advice}."))
            })
        };
        match &*op {
            "c" | "r" | "I" => self.row(RowKind::Insert, side("after", "INSERT")?, None),
            "u" | "U" => {
                let (before, after) = (side("before", "UPDATE")?, side("after", "UPDATE")?);
                self.row(RowKind::UpdateBefore, before, None)?;
                self.row(RowKind::UpdateAfter, after, None)
            }
            "d" | "D" => self.row(RowKind::Delete, side("before", "DELETE")?, None),
            // OGG: a truncation says nothing about rows.
            "T" if self.format.envelope == Envelope::Ogg => Ok(()),
            _ => Err(FieldError::new(format!(
                "Unknown \"{op_name}\" value \"{op}\". The {name} JSON message is not usable."
            ))),
        }
    }

    fn canal(&mut self, message: &Message<'_>) -> Result<(), FieldError> {
        for (name, pattern) in self.format.filters.clone().iter() {
            let value = unquote(part(message, name).unwrap_or_default())?;
            if !pattern.is_match(&value) {
                return Ok(());
            }
        }
        let kind = unquote(part(message, "type").unwrap_or_default())?;
        let data = || part(message, "data").map_or(Ok(Vec::new()), elements);
        match &*kind {
            "INSERT" => data()?.iter().try_for_each(|row| self.row(RowKind::Insert, row.as_raw_str(), None)),
            "DELETE" => data()?.iter().try_for_each(|row| self.row(RowKind::Delete, row.as_raw_str(), None)),
            "UPDATE" => {
                let old = part(message, "old").map_or(Ok(Vec::new()), elements)?;
                for (i, row) in data()?.iter().enumerate() {
                    let old = old.get(i).map(LazyValue::as_raw_str).filter(|raw| *raw != "null");
                    self.row(RowKind::UpdateBefore, row.as_raw_str(), old)?;
                    self.row(RowKind::UpdateAfter, row.as_raw_str(), None)?;
                }
                Ok(())
            }
            "" => Err(FieldError::new("the message has no \"type\"")),
            // Statements such as CREATE and ALTER say nothing about rows.
            "CREATE" | "ALTER" | "ERASE" | "TRUNCATE" | "RENAME" | "CINDEX" | "DINDEX" | "QUERY" => Ok(()),
            other => Err(FieldError::new(format!(
                "Unknown \"type\" value \"{other}\". The Canal JSON message is not usable."
            ))),
        }
    }

    fn maxwell(&mut self, message: &Message<'_>) -> Result<(), FieldError> {
        let kind = unquote(part(message, "type").unwrap_or_default())?;
        let data = part(message, "data").ok_or_else(|| FieldError::new("the message has no \"data\""))?;
        match &*kind {
            "insert" | "bootstrap-insert" => self.row(RowKind::Insert, data, None),
            "update" => {
                self.row(RowKind::UpdateBefore, data, part(message, "old"))?;
                self.row(RowKind::UpdateAfter, data, None)
            }
            "delete" => self.row(RowKind::Delete, data, None),
            other => Err(FieldError::new(format!(
                "Unknown \"type\" value \"{other}\". The Maxwell JSON message is not usable."
            ))),
        }
    }

    /// Appends a row; `old` are values that replace some of it.
    fn row(&mut self, kind: RowKind, raw: &str, old: Option<&str>) -> Result<(), FieldError> {
        let row = self.kinds.len();
        let (fields, columns) = (&self.fields, &mut self.columns);
        self.converter.read_object(&mut Deserializer::from_str(raw), fields, columns, row)?;
        if let Some(old) = old {
            self.converter.read_fields(&mut Deserializer::from_str(old), fields, columns, row)?;
        }
        self.kinds.push(kind.to_byte());
        Ok(())
    }
}

impl Decoder for ChangeDecoder {
    fn decode(&mut self, message: Option<&[u8]>) -> Result<usize, DecodeError> {
        let Some(message) = message else {
            self.metrics.tombstones.add(1);
            return Ok(0);
        };
        if message.trim_ascii().is_empty() {
            self.metrics.blank.add(1);
            return Ok(0);
        }
        let before = self.kinds.len();
        self.converter.field_errors = 0;
        let result = match std::str::from_utf8(message) {
            Ok(text) => self.read(text),
            Err(e) => Err(FieldError::new(format!("invalid UTF-8: {e}"))),
        };
        let Err(error) = result else {
            self.metrics.field_errors.add(self.converter.field_errors);
            return Ok(self.kinds.len() - before);
        };
        self.kinds.truncate(before);
        self.columns.iter_mut().for_each(|c| c.truncate(before));
        if self.format.json.ignore_parse_errors {
            self.metrics.errors.add(1);
            return Ok(0);
        }
        let field = (!error.path.is_empty()).then(|| error.path.join("."));
        Err(DecodeError { field, message: error.message })
    }

    fn rows(&self) -> usize {
        self.kinds.len()
    }

    fn finish(&mut self) -> Result<(Vec<ArrayRef>, Option<UInt8Array>)> {
        let kinds = UInt8Array::from(std::mem::take(&mut self.kinds));
        Ok((finish_all(&mut self.columns)?, Some(kinds)))
    }
}

impl EncodingFormat for ChangeFormat {
    fn identifier(&self) -> &'static str {
        self.name()
    }

    fn takes_changes(&self) -> bool {
        true
    }

    fn encoder(&self, schema: &Schema) -> Result<Box<dyn Encoder>> {
        DecodingFormat::check(&self.json, schema)?;
        Ok(Box::new(ChangeEncoder { format: self.clone(), fields: schema.fields.clone(), out: String::new() }))
    }
}

struct ChangeEncoder {
    format: ChangeFormat,
    fields: Vec<Field>,
    out: String,
}

impl ChangeEncoder {
    /// What stands before and after the row.
    fn envelope(&self, is_addition: bool) -> (&'static str, &'static str) {
        match (self.format.envelope, is_addition) {
            (Envelope::Debezium, true) => ("{\"before\":null,\"after\":", ",\"op\":\"c\"}"),
            (Envelope::Debezium, false) => ("{\"before\":", ",\"after\":null,\"op\":\"d\"}"),
            (Envelope::Ogg, true) => ("{\"before\":null,\"after\":", ",\"op_type\":\"I\"}"),
            (Envelope::Ogg, false) => ("{\"before\":", ",\"after\":null,\"op_type\":\"D\"}"),
            (Envelope::Canal, true) => ("{\"data\":[", "],\"type\":\"INSERT\"}"),
            (Envelope::Canal, false) => ("{\"data\":[", "],\"type\":\"DELETE\"}"),
            (Envelope::Maxwell, true) => ("{\"data\":", ",\"type\":\"insert\"}"),
            (Envelope::Maxwell, false) => ("{\"data\":", ",\"type\":\"delete\"}"),
        }
    }
}

impl Encoder for ChangeEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        out: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let columns = batch.columns.columns().iter().zip(&self.fields);
        let views = columns.map(|(array, field)| View::new(array, &field.ty)).collect::<Result<Vec<_>>>()?;
        for row in rows {
            let (before, after) = self.envelope(batch.kind(row).is_addition());
            self.out.clear();
            self.out.push_str(before);
            Writer { format: &self.format.json, out: &mut self.out }.object(&self.fields, &views, row)?;
            self.out.push_str(after);
            out(row, self.out.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_api::TypeKind;

    use crate::testing::{STRING, decode_file, encode, schema};

    fn rows(format: &str, options: &[(&str, &str)], text: &str) -> Result<Vec<String>, String> {
        let row = schema(&[("sku", STRING), ("qty", TypeKind::Int)]);
        decode_file(format, options, &row, text).0.map_err(|e| e.to_string())
    }

    #[test]
    fn debezium_and_ogg_hold_both_rows() {
        let text = "{\"before\":null,\"after\":{\"sku\":\"nut\",\"qty\":5},\"op\":\"r\"}\n\
                    {\"before\":{\"sku\":\"nut\",\"qty\":5},\"after\":{\"sku\":\"nut\",\"qty\":4},\"op\":\"u\"}\n\n\
                    {\"before\":{\"sku\":\"nut\",\"qty\":4},\"after\":null,\"op\":\"d\",\"ts_ms\":1}";
        let expected = ["+I[nut, 5]", "-U[nut, 5]", "+U[nut, 4]", "-D[nut, 4]"].map(str::to_owned).to_vec();
        assert_eq!(rows("debezium-json", &[], text), Ok(expected.clone()));
        let ogg = text.replace("\"op\":\"r\"", "\"op_type\":\"I\"").replace("\"op\":\"u\"", "\"op_type\":\"U\"");
        assert_eq!(rows("ogg-json", &[], &ogg.replace("\"op\":\"d\"", "\"op_type\":\"D\"")), Ok(expected));
        let wrapped = "{\"schema\":{},\"payload\":{\"after\":{\"sku\":\"a\"},\"op\":\"c\"}}";
        assert_eq!(rows("debezium-json", &[("schema-include", "true")], wrapped), Ok(vec!["+I[a, null]".to_owned()]));
        let message = rows("debezium-json", &[], "{\"after\":{},\"op\":\"u\"}").expect_err("no before");
        assert!(message.contains("REPLICA IDENTITY to FULL"), "{message}");
        assert!(rows("debezium-json", &[], "{\"op\":\"x\"}").expect_err("op").contains("Unknown \"op\" value \"x\""));
        assert_eq!(rows("debezium-json", &[("ignore-parse-errors", "true")], "{\"op\":\"x\"}"), Ok(vec![]));
    }

    #[test]
    fn canal_and_maxwell_hold_what_changed() {
        let text = "{\"data\":[{\"sku\":\"nut\",\"qty\":\"6\"},{\"sku\":\"b\",\"qty\":\"1\"}],\
                    \"old\":[{\"qty\":\"5\"},{\"qty\":null}],\"type\":\"UPDATE\",\"table\":\"stock\"}\n\
                    {\"data\":null,\"type\":\"CREATE\",\"table\":\"stock\"}\n\
                    {\"data\":[{\"sku\":\"x\"}],\"type\":\"INSERT\",\"table\":\"other\"}";
        let expected = ["-U[nut, 5]", "+U[nut, 6]", "-U[b, null]", "+U[b, 1]"].map(str::to_owned).to_vec();
        assert_eq!(rows("canal-json", &[("table.include", "st.*")], text), Ok(expected));
        let text = "{\"data\":{\"sku\":\"nut\",\"qty\":6},\"old\":{\"qty\":5},\"type\":\"update\"}";
        let expected = ["-U[nut, 5]", "+U[nut, 6]"].map(str::to_owned).to_vec();
        assert_eq!(rows("maxwell-json", &[], text), Ok(expected));
    }

    #[test]
    fn changes_are_written_in_their_envelopes() {
        let row = schema(&[("sku", STRING)]);
        for (format, expected) in [
            ("debezium-json", "{\"before\":null,\"after\":{\"sku\":\"a\"},\"op\":\"c\"}"),
            ("canal-json", "{\"data\":[{\"sku\":\"a\"}],\"type\":\"INSERT\"}"),
            ("maxwell-json", "{\"data\":{\"sku\":\"a\"},\"type\":\"insert\"}"),
            ("ogg-json", "{\"before\":null,\"after\":{\"sku\":\"a\"},\"op_type\":\"I\"}"),
        ] {
            assert_eq!(encode(format, &[], &row, "{\"sku\":\"a\"}").expect("text"), [expected]);
        }
    }
}
