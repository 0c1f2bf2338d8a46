//! `CAST` and `TRY_CAST`: one conversion per pair of types, over whole columns.
//!
//! A value that cannot be converted fails the row under `CAST` and is NULL under `TRY_CAST`. A
//! number too large for a `DECIMAL` is NULL under both, and integers wrap, as in Flink.

mod nested;
mod number;
mod parse;
mod time;
mod write;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, StringArray, new_null_array};
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};
use tidegate_window::{LocalClock, Zone};

use super::columns::{RowResult, binaries, map1, strings};

pub(crate) use time::{Instants, timestamps};
pub use write::write_value;

/// A conversion of a column.
pub type Cast = Box<dyn FnMut(&ArrayRef) -> Result<ArrayRef, RowError> + Send>;

/// The conversion from `from` to `to`; `lenient` is `TRY_CAST`.
pub fn kernel(from: &LogicalType, to: &LogicalType, lenient: bool, zone: &str) -> Result<Cast, String> {
    with_zone(from, to, lenient, Zone::parse(zone)?)
}

fn with_zone(from: &LogicalType, to: &LogicalType, lenient: bool, zone: Zone) -> Result<Cast, String> {
    use TypeKind::*;
    if from.kind == to.kind {
        return Ok(Box::new(|a| Ok(a.clone())));
    }
    let (source, target) = (from.clone(), to.clone());
    Ok(match (&from.kind, &to.kind) {
        (Null, _) => {
            let data_type = to.to_arrow();
            Box::new(move |a| Ok(new_null_array(&data_type, a.len())))
        }
        (Char(_) | Varchar(_), Char(_) | Varchar(_)) => fit_strings(from, to),
        (Char(_) | Varchar(_), Binary(_) | Varbinary(_)) => {
            let fit = byte_length(to);
            Box::new(move |a| {
                map1::<_, _, BinaryArray>(strings(a)?, |s| Ok(Some(fit_bytes(s.as_bytes().to_vec(), fit))))
            })
        }
        (Char(_) | Varchar(_), Timestamp(p) | TimestampLtz(p)) => {
            time::from_text(*p, matches!(to.kind, TimestampLtz(_)), lenient, zone)
        }
        (Char(_) | Varchar(_), _) => parse::kernel(target, lenient)?,
        (Binary(_) | Varbinary(_), Binary(_) | Varbinary(_)) => {
            let fit = byte_length(to);
            Box::new(move |a| map1::<_, _, BinaryArray>(binaries(a)?, |b| Ok(Some(fit_bytes(b.to_vec(), fit)))))
        }
        (_, Char(_) | Varchar(_)) => to_string(source, target, zone),
        (Array(_) | Map(..) | Multiset(_) | Row(_), _) => nested::kernel(from, to, lenient, zone)?,
        (Date | Time(_) | Timestamp(_) | TimestampLtz(_), _) => time::kernel(source, target, zone)?,
        _ => number::kernel(source, target, lenient)?,
    })
}

/// Under `TRY_CAST` a failure is NULL.
fn forgive<T>(result: RowResult<T>, lenient: bool) -> RowResult<T> {
    if lenient { result.or(Ok(None)) } else { result }
}

/// The words of a failed cast of `text`.
fn failure(text: &str, to: &LogicalType, why: &str) -> String {
    let to = to.with_nullable(true);
    format!("Cannot cast '{text}' to {to}: For input string: '{text}'.{why}")
}

/// The length a string type demands: how many characters at most, and whether to pad up to it.
#[derive(Clone, Copy)]
struct Length {
    most: Option<usize>,
    pad: bool,
}

fn string_length(to: &LogicalType) -> Length {
    match to.kind {
        TypeKind::Char(n) => Length { most: Some(n as usize), pad: true },
        TypeKind::Varchar(n) if n < MAX_LENGTH => Length { most: Some(n as usize), pad: false },
        _ => Length { most: None, pad: false },
    }
}

fn byte_length(to: &LogicalType) -> Length {
    match to.kind {
        TypeKind::Binary(n) => Length { most: Some(n as usize), pad: true },
        TypeKind::Varbinary(n) if n < MAX_LENGTH => Length { most: Some(n as usize), pad: false },
        _ => Length { most: None, pad: false },
    }
}

/// Cuts `text` to its type's length, and pads it with blanks if the type is `CHAR`.
fn fit(text: &mut String, length: Length) {
    let Some(most) = length.most else { return };
    match text.char_indices().nth(most) {
        Some((cut, _)) => text.truncate(cut),
        None if length.pad => {
            let missing = most - text.chars().count();
            text.extend(std::iter::repeat_n(' ', missing));
        }
        None => {}
    }
}

fn fit_bytes(mut bytes: Vec<u8>, length: Length) -> Vec<u8> {
    if let Some(most) = length.most
        && (bytes.len() > most || length.pad)
    {
        bytes.resize(most, 0);
    }
    bytes
}

fn fit_strings(from: &LogicalType, to: &LogicalType) -> Cast {
    let (have, want) = (string_length(from), string_length(to));
    let fits = match (have.most, want.most) {
        (_, None) => true,
        (Some(have), Some(want)) => have <= want && !want_pads(to),
        (None, Some(_)) => false,
    };
    if fits {
        return Box::new(|a| Ok(a.clone()));
    }
    Box::new(move |a| {
        let text = strings(a)?;
        let mut buffer = String::new();
        let cells = (0..text.len()).map(|i| {
            if text.is_null(i) {
                return None;
            }
            buffer.clear();
            buffer.push_str(text.value(i));
            fit(&mut buffer, want);
            Some(buffer.clone())
        });
        Ok(Arc::new(cells.collect::<StringArray>()))
    })
}

fn want_pads(to: &LogicalType) -> bool {
    matches!(to.kind, TypeKind::Char(_))
}

fn to_string(from: LogicalType, to: LogicalType, zone: Zone) -> Cast {
    let length = string_length(&to);
    let mut clock = LocalClock::new(zone);
    Box::new(move |a| {
        let nulls = a.logical_nulls();
        super::columns::write_strings(a.len(), |row, text| {
            if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                return Ok(false);
            }
            write_value(a.as_ref(), &from, row, &mut clock, text);
            fit(text, length);
            Ok(true)
        })
    })
}
