//! JSON_ARRAYAGG and JSON_OBJECTAGG.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::types::LogicalType;
use tidegate_api::{Error, Result};

use super::rows::{counting, for_each, list_of, list_state, update_and_retract};
use crate::functions::json::{write_json, write_json_string};
use crate::functions::value_array::value_at;

/// An object with its keys sorted as Java sorts strings, which is how Flink prints it.
fn object(entries: &[(String, String)]) -> String {
    let mut sorted: Vec<&(String, String)> = entries.iter().collect();
    sorted.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
    let mut out = String::from("{");
    for (i, (key, text)) in sorted.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_json_string(key, &mut out);
        out.push(':');
        out.push_str(text);
    }
    out.push('}');
    out
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

    /// Adds an entry; an object has a key once.
    fn put(&mut self, group: usize, key: String, text: String) -> Result<(), String> {
        let list = &mut self.groups[group];
        if self.object && list.iter().any(|(k, _)| *k == key) {
            return Err(format!(
                "Key '{key}' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure \
                 that keys are unique."
            ));
        }
        list.push((key, text));
        Ok(())
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
            let mut text = String::new();
            write_json(&value_at(values, &self.ty, row), &self.ty, &mut text);
            if back {
                let is_it = |e: &(String, String)| e.0 == key && (self.object || e.1 == text);
                if let Some(at) = self.groups[g].iter().position(is_it) {
                    self.groups[g].remove(at);
                }
            } else if let Err(why) = self.put(g, key, text) {
                failed = Err(RowError::new(row, why));
            }
        });
        failed
    }
}

impl GroupedAccumulator for JsonAggregate {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let (keys, texts) = (list_state(states, 0)?, list_state(states, 1)?);
        for (row, group) in groups.iter().enumerate() {
            let (keys, texts) = (keys.value(row), texts.value(row));
            let (keys, texts) = (keys.as_string::<i32>(), texts.as_string::<i32>());
            for i in 0..keys.len() {
                self.put(*group as usize, keys.value(i).to_owned(), texts.value(i).to_owned()).map_err(Error::job)?;
            }
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| &self.groups[*g as usize]);
        let lists = |pick: fn(&(String, String)) -> &String| -> Result<ArrayRef> {
            let values = StringArray::from_iter_values(held().flat_map(|l| l.iter().map(pick)));
            Ok(Arc::new(list_of(Arc::new(values), held().map(Vec::len), None)?))
        };
        Ok(vec![lists(|e| &e.0)?, lists(|e| &e.1)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let texts = groups.iter().map(|g| {
            let list = &self.groups[*g as usize];
            if self.object {
                object(list)
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
