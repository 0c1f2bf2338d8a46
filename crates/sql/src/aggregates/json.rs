//! JSON_ARRAYAGG and JSON_OBJECTAGG.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use base64::Engine;
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::text::{decimal_to_string, format_date, java_double, java_float};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Result, Value};

use super::rows::{counting, for_each, list_state};
use crate::functions::value_array::value_at;

/// True if a value of this type has a JSON text here.
pub(super) fn has_json_text(ty: &LogicalType) -> bool {
    match &ty.kind {
        TypeKind::Array(t) | TypeKind::Multiset(t) => has_json_text(t),
        TypeKind::Map(k, v) => k.is_string() && has_json_text(v),
        TypeKind::Row(fields) => fields.iter().all(|f| has_json_text(&f.ty)),
        TypeKind::Boolean | TypeKind::Date | TypeKind::Null => true,
        _ => ty.is_numeric() || ty.is_string() || ty.is_binary(),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

fn json_text(value: &Value, ty: &LogicalType) -> String {
    match (value, &ty.kind) {
        (Value::Null, _) => "null".to_owned(),
        (Value::Boolean(b), _) => b.to_string(),
        (Value::Int(days), TypeKind::Date) => quoted(&format_date(*days as i32)),
        (Value::Int(i), _) => i.to_string(),
        (Value::Double(d), TypeKind::Float) => java_float(*d as f32),
        (Value::Double(d), _) => java_double(*d),
        (Value::Decimal(d), TypeKind::Decimal(_, scale)) => decimal_to_string(*d, *scale),
        (Value::String(s), _) => quoted(s),
        (Value::Bytes(b), _) => quoted(&base64::engine::general_purpose::STANDARD.encode(b)),
        (Value::Array(items), TypeKind::Array(t)) => {
            format!("[{}]", items.iter().map(|v| json_text(v, t)).collect::<Vec<_>>().join(","))
        }
        (Value::Row(values), TypeKind::Row(fields)) => {
            object(fields.iter().zip(values).map(|(f, v)| (f.name.clone(), json_text(v, &f.ty))).collect())
        }
        (Value::Map(entries), TypeKind::Map(_, v)) => object(
            entries
                .iter()
                .map(|(key, value)| match key {
                    Value::String(k) => (k.clone(), json_text(value, v)),
                    _ => ("null".to_owned(), json_text(value, v)),
                })
                .collect(),
        ),
        // Excluded by `has_json_text`.
        _ => "null".to_owned(),
    }
}

/// An object with its keys sorted, as Flink prints it.
fn object(mut entries: Vec<(String, String)>) -> String {
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let texts: Vec<String> = entries.iter().map(|(k, v)| format!("{}:{v}", quoted(k))).collect();
    format!("{{{}}}", texts.join(","))
}

/// `JSON_OBJECTAGG(key VALUE value)` or `JSON_ARRAYAGG(value)`.
pub(super) struct JsonAggregate {
    object: bool,
    /// `ABSENT ON NULL`.
    skips_nulls: bool,
    /// The type of the value.
    ty: LogicalType,
    /// Key (empty for an array) and JSON text of each value.
    groups: Vec<Vec<(String, String)>>,
}

impl JsonAggregate {
    /// An object or an array of values of type `ty`.
    pub(super) fn new(object: bool, skips_nulls: bool, ty: LogicalType) -> Self {
        JsonAggregate { object, skips_nulls, ty, groups: Vec::new() }
    }

    fn grow(&mut self, n: usize) {
        self.groups.resize_with(n.max(self.groups.len()), Vec::new);
    }

    fn put(&mut self, group: usize, key: String, text: String) {
        let list = &mut self.groups[group];
        match list.iter_mut().find(|(k, _)| self.object && *k == key) {
            Some(entry) => entry.1 = text,
            None => list.push((key, text)),
        }
    }

    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        self.grow(n);
        let keys = if self.object { args[0].as_string_opt::<i32>() } else { None };
        let values = &args[usize::from(self.object)];
        let nulls = if self.skips_nulls { values.logical_nulls() } else { None };
        let mask = counting(selected, nulls.as_ref());
        let mut failed = Ok(());
        for_each(groups, mask.as_ref(), |row, g| {
            let key = match keys {
                Some(keys) if keys.is_null(row) => {
                    failed = Err(RowError::new(row, "the key of JSON_OBJECTAGG must not be NULL"));
                    return;
                }
                Some(keys) => keys.value(row).to_owned(),
                None => String::new(),
            };
            let text = json_text(&value_at(values, &self.ty, row), &self.ty);
            if back {
                let is_it = |e: &(String, String)| e.0 == key && (self.object || e.1 == text);
                if let Some(at) = self.groups[g].iter().position(is_it) {
                    self.groups[g].remove(at);
                }
            } else {
                self.put(g, key, text);
            }
        });
        failed
    }
}

impl GroupedAccumulator for JsonAggregate {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.add(args, selected, groups, n, false)
    }

    fn retract(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.add(args, selected, groups, n, true)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let (keys, texts) = (list_state(states, 0)?, list_state(states, 1)?);
        for (row, group) in groups.iter().enumerate() {
            let (keys, texts) = (keys.value(row), texts.value(row));
            let (keys, texts) = (keys.as_string::<i32>(), texts.as_string::<i32>());
            for i in 0..keys.len() {
                self.put(*group as usize, keys.value(i).to_owned(), texts.value(i).to_owned());
            }
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| &self.groups[*g as usize]);
        let lists = |pick: fn(&(String, String)) -> &String| -> Result<ArrayRef> {
            let values = StringArray::from_iter_values(held().flat_map(|l| l.iter().map(pick)));
            let field = Arc::new(Field::new("item", DataType::Utf8, true));
            let offsets = OffsetBuffer::from_lengths(held().map(Vec::len));
            Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(values), None)?))
        };
        Ok(vec![lists(|e| &e.0)?, lists(|e| &e.1)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let texts = groups.iter().map(|g| {
            let list = &self.groups[*g as usize];
            if self.object {
                object(list.clone())
            } else {
                format!("[{}]", list.iter().map(|e| e.1.as_str()).collect::<Vec<_>>().join(","))
            }
        });
        Ok(Arc::new(StringArray::from_iter_values(texts)))
    }

    fn clear(&mut self) {
        self.groups.clear();
    }
}
