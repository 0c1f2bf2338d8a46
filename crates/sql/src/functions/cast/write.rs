//! Values as `CAST(... AS STRING)` shows them: `TRUE`, `2026-10-01 10:00:00.000`, `+1-02`,
//! `(Lin, (4, Elm))`, `[1, NULL]`, `{k=1}`.

use std::fmt::Write;

use arrow::array::{Array, AsArray, types::*};
use tidegate_api::text;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::LocalClock;

use crate::functions::value_array::value_at;

const NANOS_PER_MS: i128 = 1_000_000;

/// Appends the value at `row`; NULL (only inside another value) reads `NULL`.
pub fn write_value(array: &dyn Array, ty: &LogicalType, row: usize, clock: &mut LocalClock, out: &mut String) {
    // Strings and integers are frequent enough to be worth a way of their own.
    match &ty.kind {
        TypeKind::Int if array.is_valid(row) => {
            if let Some(ints) = array.as_primitive_opt::<Int32Type>() {
                let _ = write!(out, "{}", ints.value(row));
            }
        }
        TypeKind::BigInt if array.is_valid(row) => {
            if let Some(ints) = array.as_primitive_opt::<Int64Type>() {
                let _ = write!(out, "{}", ints.value(row));
            }
        }
        _ => write(&value_at(array, ty, row), ty, clock, out),
    }
}

fn write(value: &Value, ty: &LogicalType, clock: &mut LocalClock, out: &mut String) {
    match (value, &ty.kind) {
        (Value::Null, _) => out.push_str("NULL"),
        (Value::Boolean(b), _) => out.push_str(if *b { "TRUE" } else { "FALSE" }),
        (Value::Int(days), TypeKind::Date) => out.push_str(&text::format_date(*days as i32)),
        (Value::Int(ms), TypeKind::Time(p)) => out.push_str(&text::format_time_sql(*ms as i32, *p)),
        (Value::Int(months), TypeKind::IntervalYearMonth) => write_months(*months, out),
        (Value::Int(ms), TypeKind::IntervalDayTime) => write_millis(*ms, out),
        (Value::Int(i), _) => {
            let _ = write!(out, "{i}");
        }
        (Value::Double(d), TypeKind::Float) => out.push_str(&text::java_float(*d as f32)),
        (Value::Double(d), _) => out.push_str(&text::java_double(*d)),
        (Value::Decimal(d), TypeKind::Decimal(_, scale)) => out.push_str(&text::decimal_to_string(*d, *scale)),
        (Value::Decimal(d), _) => {
            let _ = write!(out, "{d}");
        }
        (Value::String(s), _) => out.push_str(s),
        (Value::Bytes(b), _) => out.push_str(&String::from_utf8_lossy(b)),
        (Value::Timestamp(t), TypeKind::TimestampLtz(p)) => {
            out.push_str(&text::format_timestamp_sql(local_nanos(*t, clock), *p));
        }
        (Value::Timestamp(t), TypeKind::Timestamp(p)) => out.push_str(&text::format_timestamp_sql(*t, *p)),
        (Value::Timestamp(t), _) => out.push_str(&text::format_timestamp_sql(*t, 9)),
        (Value::Array(items), kind) => {
            let element = if let TypeKind::Array(t) = kind { t.as_ref() } else { ty };
            list(items.iter().map(|i| (i, element)), '[', ']', clock, out);
        }
        (Value::Row(cells), TypeKind::Row(fields)) => {
            list(cells.iter().zip(fields.iter().map(|f| &f.ty)), '(', ')', clock, out);
        }
        (Value::Row(cells), _) => list(cells.iter().map(|c| (c, ty)), '(', ')', clock, out),
        (Value::Map(entries), kind) => write_map(entries, kind, clock, out),
    }
}

fn list<'a>(
    items: impl Iterator<Item = (&'a Value, &'a LogicalType)>,
    open: char,
    close: char,
    clock: &mut LocalClock,
    out: &mut String,
) {
    out.push(open);
    for (i, (item, ty)) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, ty, clock, out);
    }
    out.push(close);
}

fn write_map(entries: &[(Value, Value)], kind: &TypeKind, clock: &mut LocalClock, out: &mut String) {
    let count = LogicalType::new(TypeKind::Int);
    let (key, value) = match kind {
        TypeKind::Map(k, v) => (k.as_ref(), v.as_ref()),
        TypeKind::Multiset(t) => (t.as_ref(), &count),
        _ => (&count, &count),
    };
    out.push('{');
    for (i, (k, v)) in entries.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(k, key, clock, out);
        out.push('=');
        write(v, value, clock, out);
    }
    out.push('}');
}

/// The local reading of an instant, to the nanosecond.
pub(super) fn local_nanos(instant: i128, clock: &mut LocalClock) -> i128 {
    let ms = instant.div_euclid(NANOS_PER_MS);
    i128::from(clock.to_local(ms as i64)) * NANOS_PER_MS + instant.rem_euclid(NANOS_PER_MS)
}

fn write_months(months: i64, out: &mut String) {
    let sign = if months < 0 { '-' } else { '+' };
    let months = months.unsigned_abs();
    let _ = write!(out, "{sign}{}-{:02}", months / 12, months % 12);
}

fn write_millis(ms: i64, out: &mut String) {
    let sign = if ms < 0 { '-' } else { '+' };
    let ms = ms.unsigned_abs();
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (h, m, s) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let _ = write!(out, "{sign}{days} {h:02}:{m:02}:{s:02}.{:03}", of_day % 1000);
}
