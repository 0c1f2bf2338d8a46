//! Partition columns: values that stand in directory names (`day=2026-10-01/hour=10/`).

use std::path::Path;

use tidegate_api::connector::TableDescriptor;
use tidegate_api::text::{format_date, format_time_sql, format_timestamp_sql, java_double, java_float};
use tidegate_api::{Error, LogicalType, Result, TypeKind};

use crate::column::Column;
use crate::format::text::{self, DateCache, Days, DecimalText};
use crate::view::Cell;

/// Refuses partition columns of types that have no name.
pub(super) fn check(table: &TableDescriptor) -> Result<()> {
    for key in &table.partition_keys {
        let Some(field) = table.physical.fields.get(*key) else { continue };
        let nested =
            matches!(field.ty.kind, TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_) | TypeKind::Row(_));
        if nested || field.ty.is_binary() {
            return Err(Error::unsupported(format!(
                "Partition column '{}' of type {} cannot stand in a directory name.",
                field.name, field.ty
            )));
        }
    }
    if table.partition_keys.len() == table.physical.len() && !table.partition_keys.is_empty() {
        return Err(Error::invalid("A partitioned table needs at least one column that is no partition column."));
    }
    Ok(())
}

/// The text a partition column has in a file's path; `None` if no directory names it.
pub(super) fn value_of(path: &Path, column: &str) -> Option<String> {
    let directories = path.parent()?.components().rev();
    let names = directories.filter_map(|c| c.as_os_str().to_str());
    names.filter_map(|name| name.split_once('=')).find(|(key, _)| unescape(key) == column).map(|(_, v)| unescape(v))
}

/// Appends the value that a directory name stands for.
pub(super) fn push(column: &mut Column, value: &str) -> Result<()> {
    let ty = column.ty().clone();
    let pushed = match ty.kind {
        TypeKind::Char(_) | TypeKind::Varchar(_) => column.push_bytes(value.as_bytes()),
        TypeKind::Boolean => column.push_bool(value.eq_ignore_ascii_case("true")),
        TypeKind::Float | TypeKind::Double => text::double(value).is_some_and(|v| column.push_f64(v)),
        TypeKind::Decimal(p, s) => match text::decimal(value, p, s) {
            DecimalText::Fits(v) => column.push_i128(v),
            _ => false,
        },
        TypeKind::Date => DateCache::default().days(value.as_bytes(), Days::Strict).is_some_and(|v| column.push_i64(v)),
        TypeKind::Time(_) => text::clock(value.as_bytes(), true)
            .is_some_and(|(s, nano)| column.push_i64(s * 1000 + i64::from(nano / 1_000_000))),
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => {
            let separator = if value.contains('T') { b'T' } else { b' ' };
            text::timestamp(value.as_bytes(), separator, true, Days::Strict, &mut DateCache::default())
                .is_some_and(|(s, nano)| column.push_timestamp(s, nano))
        }
        _ => text::integer(value).is_some_and(|v| column.push_i64(v)),
    };
    if pushed { Ok(()) } else { Err(bad_value(value, &ty)) }
}

fn bad_value(value: &str, ty: &LogicalType) -> Error {
    Error::job(format!("The partition value '{value}' of a directory name is no {ty}."))
}

/// The directory name of a value, without `key=`; `None` for NULL and empty text.
pub(super) fn name_of(cell: Cell<'_>) -> Option<String> {
    let text = match cell {
        Cell::Bool(v) => v.to_string(),
        Cell::Int(v) | Cell::Millis(v) => v.to_string(),
        Cell::Months(v) => v.to_string(),
        Cell::Float(v) => java_float(v),
        Cell::Double(v) => java_double(v),
        Cell::Decimal(v, scale) => tidegate_api::text::decimal_to_string(v, scale),
        Cell::Text(v) => v.to_owned(),
        Cell::Date(v) => format_date(v),
        Cell::Time(v) => format_time_sql(v, 0),
        Cell::Timestamp(v) | Cell::TimestampLtz(v) => format_timestamp_sql(v, 3),
        _ => String::new(),
    };
    (!text.is_empty()).then(|| escape(&text))
}

/// Hive's escapes: what a path cannot hold becomes `%XX`.
pub(super) fn escape(text: &str) -> String {
    let special = |c: char| c < ' ' || c == '\u{7f}' || "\"#%'*/:=?\\{[]^".contains(c);
    text.chars().map(|c| if special(c) { format!("%{:02X}", c as u32) } else { c.to_string() }).collect()
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_paths() {
        let path = Path::new("/t/day=2026-10-01/place=a%2Fb/part-1");
        assert_eq!(value_of(path, "place").as_deref(), Some("a/b"));
        assert_eq!(value_of(path, "day").as_deref(), Some("2026-10-01"));
        assert_eq!(value_of(path, "hour"), None);
        assert_eq!(unescape(&escape("a/b=c%")), "a/b=c%");
    }
}
