//! Points in time into each other. Zone-less and local-zone timestamps meet in the session zone; a
//! local time that a clock change skips moves later, one that happens twice is its first happening.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::DataType;
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_window::{LocalClock, Zone};

use super::parse::{self, cut};
use super::write::local_nanos;
use super::{Cast, forgive};
use crate::functions::columns::{collect, strings, typed};

const NANOS_PER_MS: i128 = 1_000_000;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// A column of points in time, read as nanoseconds.
pub(crate) enum Instants<'a> {
    Millis(&'a PrimitiveArray<TimestampMillisecondType>),
    Micros(&'a PrimitiveArray<TimestampMicrosecondType>),
    Nanos(&'a PrimitiveArray<Decimal128Type>),
    Days(&'a PrimitiveArray<Date32Type>),
    Clock(&'a PrimitiveArray<Time32MillisecondType>),
}

impl<'a> Instants<'a> {
    pub(crate) fn of(array: &'a ArrayRef) -> Result<Instants<'a>, RowError> {
        Ok(match array.data_type() {
            DataType::Date32 => Instants::Days(array.as_primitive()),
            DataType::Time32(_) => Instants::Clock(typed(array)?),
            DataType::Decimal128(..) => Instants::Nanos(array.as_primitive()),
            DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => Instants::Micros(typed(array)?),
            _ => Instants::Millis(typed(array)?),
        })
    }

    pub(crate) fn nanos(&self, row: usize) -> Option<i128> {
        match self {
            Instants::Millis(a) => a.is_valid(row).then(|| i128::from(a.value(row)) * NANOS_PER_MS),
            Instants::Micros(a) => a.is_valid(row).then(|| i128::from(a.value(row)) * 1000),
            Instants::Nanos(a) => a.is_valid(row).then(|| a.value(row)),
            Instants::Days(a) => a.is_valid(row).then(|| i128::from(a.value(row)) * NANOS_PER_DAY),
            Instants::Clock(a) => a.is_valid(row).then(|| i128::from(a.value(row)) * NANOS_PER_MS),
        }
    }
}

/// Nanoseconds with the digits beyond `precision` dropped: fractions of a millisecond downwards, but whole
/// milliseconds toward the epoch, as Flink does.
pub(crate) fn truncate(nanos: i128, precision: u8) -> i128 {
    let unit = 10i128.pow(9 - u32::from(precision.min(9)));
    if precision < 3 {
        return nanos.div_euclid(NANOS_PER_MS) * NANOS_PER_MS / unit * unit;
    }
    nanos.div_euclid(unit) * unit
}

/// A timestamp column of `precision` from nanoseconds per row.
pub(crate) fn timestamps(
    rows: usize,
    precision: u8,
    mut f: impl FnMut(usize) -> Result<Option<i128>, String>,
) -> Result<ArrayRef, RowError> {
    match precision {
        0..=3 => collect::<_, PrimitiveArray<TimestampMillisecondType>>(rows, |i| {
            Ok(f(i)?.map(|n| truncate(n, precision).div_euclid(NANOS_PER_MS) as i64))
        }),
        4..=6 => collect::<_, PrimitiveArray<TimestampMicrosecondType>>(rows, |i| {
            Ok(f(i)?.map(|n| truncate(n, precision).div_euclid(1000) as i64))
        }),
        _ => {
            let cells =
                collect::<_, PrimitiveArray<Decimal128Type>>(rows, |i| Ok(f(i)?.map(|n| truncate(n, precision))))?;
            Ok(crate::functions::columns::retyped(
                typed::<PrimitiveArray<Decimal128Type>>(&cells)?.clone(),
                &DataType::Decimal128(38, 0),
            ))
        }
    }
}

/// Text into timestamps.
pub fn from_text(precision: u8, ltz: bool, lenient: bool, zone: Zone) -> Cast {
    Box::new(move |a| {
        let text = strings(a)?;
        timestamps(text.len(), precision, |row| {
            if text.is_null(row) {
                return Ok(None);
            }
            let s = text.value(row);
            let local = parse::timestamp(s).ok_or_else(|| {
                let kind = if ltz { "TIMESTAMP_LTZ" } else { "TIMESTAMP" };
                format!("Cannot cast '{s}' to {kind}({precision}): Text '{s}' could not be parsed")
            });
            forgive(local.map(|n| Some(if ltz { instant_nanos(n, &zone) } else { n })), lenient)
        })
    })
}

/// The instant of a local reading, to the nanosecond.
pub(crate) fn instant_nanos(local: i128, zone: &Zone) -> i128 {
    let ms = local.div_euclid(NANOS_PER_MS) as i64;
    i128::from(zone.to_epoch(ms)) * NANOS_PER_MS + local.rem_euclid(NANOS_PER_MS)
}

/// The conversion between two types of points in time.
pub fn kernel(from: LogicalType, to: LogicalType, zone: Zone) -> Result<Cast, String> {
    let ltz = matches!(from.kind, TypeKind::TimestampLtz(_));
    let mut clock = LocalClock::new(zone.clone());
    Ok(match to.kind {
        TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => {
            let to_ltz = matches!(to.kind, TypeKind::TimestampLtz(_));
            if same_digits(&from.kind, p, ltz == to_ltz) {
                return Ok(Box::new(|a| Ok(a.clone())));
            }
            Box::new(move |a| {
                let source = Instants::of(a)?;
                timestamps(a.len(), p, |row| {
                    Ok(source.nanos(row).map(|n| match (ltz, to_ltz) {
                        (true, false) => local_nanos(n, &mut clock),
                        (false, true) => instant_nanos(n, &zone),
                        _ => n,
                    }))
                })
            })
        }
        TypeKind::Date => Box::new(move |a| {
            let source = Instants::of(a)?;
            // Flink divides a zone-less timestamp's milliseconds toward zero, so the day before the
            // epoch is the epoch's; an instant goes through the calendar.
            let cells = (0..a.len()).map(|row| {
                let n = source.nanos(row)?;
                Some(if ltz {
                    local_nanos(n, &mut clock).div_euclid(NANOS_PER_DAY) as i32
                } else {
                    (n.div_euclid(NANOS_PER_MS) / (NANOS_PER_DAY / NANOS_PER_MS)) as i32
                })
            });
            Ok(Arc::new(cells.collect::<PrimitiveArray<Date32Type>>()))
        }),
        TypeKind::Time(p) => Box::new(move |a| {
            let source = Instants::of(a)?;
            let of_day = |n: i128| (n.rem_euclid(NANOS_PER_DAY) / NANOS_PER_MS) as i32;
            let cells = (0..a.len())
                .map(|row| source.nanos(row).map(|n| cut(of_day(if ltz { local_nanos(n, &mut clock) } else { n }), p)));
            Ok(Arc::new(cells.collect::<PrimitiveArray<Time32MillisecondType>>()))
        }),
        _ => return Err(format!("Cast function cannot convert value of type {from} to type {to}")),
    })
}

/// True if a value of `from` has no digit that precision `p` lacks and travels in the same array.
fn same_digits(from: &TypeKind, p: u8, same_kind: bool) -> bool {
    let unit = |p: u8| p.saturating_sub(1) / 3;
    match from {
        TypeKind::Timestamp(q) | TypeKind::TimestampLtz(q) => {
            same_kind && *q <= p && (unit((*q).max(1)) == unit(p.max(1)))
        }
        _ => false,
    }
}
