//! Rows as Flink's `print` connector writes them: the text of the Java objects.
//!
//! `+I[a, 1, 2026-10-01T10:00, [1, 2], {k=1}, null]`: strings raw, bytes as signed numbers, timestamps in ISO
//! form with zero parts dropped, `TIMESTAMP_LTZ` always in UTC, nested rows with their own `+I`, maps in the order of a
//! Java `HashMap`.

use tidegate_api::text::{
    decimal_to_java, format_date, format_time_iso, format_timestamp_iso, java_double, java_float,
};
use tidegate_api::{Batch, Result, RowKind, Schema};

use crate::java_map::hash_map_order;
use crate::view::{Cell, View, append};

/// The text of row `row` of a batch, with its row kind: `+I[a, 1]`.
pub fn format_row(batch: &Batch, schema: &Schema, row: usize) -> Result<String> {
    let mut text = String::new();
    format_rows(batch, schema, row..row + 1, |_, line| text = line.to_owned())?;
    Ok(text)
}

/// Gives `out` the number and the text of each of `rows`.
pub fn format_rows(
    batch: &Batch,
    schema: &Schema,
    rows: std::ops::Range<usize>,
    mut out: impl FnMut(usize, &str),
) -> Result<()> {
    let columns = batch.columns.columns().iter().zip(&schema.fields);
    let views = columns.map(|(array, field)| View::new(array, &field.ty)).collect::<Result<Vec<_>>>()?;
    let mut line = String::new();
    for row in rows {
        line.clear();
        write_row(&mut line, batch.kind(row), &views, row);
        out(row, &line);
    }
    Ok(())
}

fn write_row(out: &mut String, kind: RowKind, columns: &[View<'_>], row: usize) {
    out.push_str(kind.short());
    out.push('[');
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_cell(out, column.get(row));
    }
    out.push(']');
}

fn write_cell(out: &mut String, cell: Cell<'_>) {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Bool(v) => out.push_str(if v { "true" } else { "false" }),
        Cell::Int(v) => append(out, format_args!("{v}")),
        Cell::Float(v) => out.push_str(&java_float(v)),
        Cell::Double(v) => out.push_str(&java_double(v)),
        Cell::Decimal(v, scale) => out.push_str(&decimal_to_java(v, scale)),
        Cell::Text(v) => out.push_str(v),
        Cell::Bytes(v) => write_items(out, v.iter(), |out, byte| append(out, format_args!("{}", *byte as i8))),
        Cell::Date(v) => out.push_str(&format_date(v)),
        Cell::Time(v) => out.push_str(&format_time_iso(v)),
        Cell::Timestamp(v) => out.push_str(&format_timestamp_iso(v)),
        Cell::TimestampLtz(v) => write_instant(out, v),
        Cell::Months(v) => append(out, format_args!("{v}")),
        Cell::Millis(v) => append(out, format_args!("{v}")),
        Cell::List(items, start, end) => write_items(out, start..end, |out, i| write_cell(out, items.get(i))),
        Cell::Map(keys, values, start, end) => {
            out.push('{');
            for (n, i) in hash_map_order(keys, start, end).into_iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                write_cell(out, keys.get(i));
                out.push('=');
                write_cell(out, values.get(i));
            }
            out.push('}');
        }
        Cell::Row(_, columns, i) => write_row(out, RowKind::Insert, columns, i),
    }
}

/// `Instant.toString`: like `LocalDateTime`, but the seconds always stand.
fn write_instant(out: &mut String, nanos: i128) {
    let text = format_timestamp_iso(nanos);
    out.push_str(&text);
    if text.rfind(':') == text.find(':') {
        out.push_str(":00");
    }
    out.push('Z');
}

fn write_items<T>(out: &mut String, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_keep_their_seconds() {
        for (nanos, text) in [(0, "1970-01-01T00:00:00Z"), (1_500_000_000, "1970-01-01T00:00:01.500Z")] {
            let mut out = String::new();
            write_instant(&mut out, nanos);
            assert_eq!(out, text);
        }
    }
}
