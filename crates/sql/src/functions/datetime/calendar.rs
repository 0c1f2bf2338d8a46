//! `EXTRACT`, `FLOOR`/`CEIL` to a unit, `TIMESTAMPADD`, `TIMESTAMPDIFF`, `OVERLAPS`.

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind};

use super::columns::{Times, from_nanos};
use super::units::{self, DAY_MS, Unit};
use super::{is_datetime, is_instant, is_interval, unit_literal, unit_of, zone};
use crate::functions::args::{self, count, demand, expect_bigint, literal_str, strict};
use crate::functions::columns::{bigints, collect};
use crate::functions::{CallInfo, Kernel};

type MadeKernel = Result<Box<dyn Kernel>, String>;

fn kernel<F>(f: F) -> MadeKernel
where
    F: FnMut(&[ArrayRef], usize, &EvalContext) -> Result<ArrayRef, RowError> + Send + 'static,
{
    Ok(Box::new(f))
}

fn expect_datetime(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, is_datetime, &LogicalType::new(TypeKind::Timestamp(3)), "DATETIME")
}

/// Type rule of `YEAR(x)` and its like.
pub(super) fn resolve_part(args: &mut Vec<Expr>, unit: &str) -> Result<LogicalType, String> {
    if !(args.len() == 2 && literal_str(&args[0]) == Some(unit)) {
        count(args, 1..=1)?;
        args.insert(0, unit_literal(unit));
    }
    resolve_extract(args)
}

/// Type rule of `EXTRACT(unit, x)`.
pub(super) fn resolve_extract(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let unit = unit_of(&args[0])?;
    let fits = |t: &LogicalType| is_datetime(t) || is_interval(t);
    demand(args, 1, fits, &LogicalType::new(TypeKind::Timestamp(3)), "DATETIME or INTERVAL")?;
    let name = literal_str(&args[0]).unwrap_or_default();
    match args[1].ty.kind {
        TypeKind::Time(_) if !unit.is_clock() => Err(format!("unit {name} can not be applied to time variable")),
        TypeKind::IntervalYearMonth if unit.months().is_none() => {
            Err(format!("Unit {name} cannot be extracted from INTERVAL YEAR TO MONTH."))
        }
        TypeKind::IntervalDayTime if !unit.is_clock() && !matches!(unit, Unit::Day | Unit::Epoch) => {
            Err(format!("Unit {name} cannot be extracted from INTERVAL DAY TO SECOND."))
        }
        _ => Ok(strict(TypeKind::BigInt, &args[1..])),
    }
}

/// Code of `EXTRACT`.
pub(super) fn extract_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let unit = unit_of(&info.args[0])?;
    let ty = info.args[1].ty.clone();
    let session = zone::session(info.zone)?;
    let instant = is_instant(&ty);
    kernel(move |args, rows, _| {
        let times = Times::of(&args[1], &ty)?;
        let value = |row: usize| match &times {
            Times::Date(a) => units::extract_date_part(unit, i64::from(a.value(row))),
            Times::Time(a) => units::extract_time(unit, i64::from(a.value(row))),
            Times::Months(a) => units::extract_months(unit, i64::from(a.value(row))),
            Times::IntervalMillis(a) => units::extract_interval(unit, a.value(row)),
            timestamps if instant => units::extract_timestamp(unit, zone::to_local(&session, timestamps.nanos(row))),
            timestamps => units::extract_timestamp(unit, timestamps.nanos(row)),
        };
        collect::<i64, Int64Array>(rows, |row| Ok(if times.is_null(row) { None } else { Some(value(row)) }))
    })
}

/// Type rule of `FLOOR_TO(x, unit)` and `CEIL_TO(x, unit)`.
pub(super) fn resolve_round(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_datetime(args, 0)?;
    let unit = unit_of(&args[1])?;
    let name = literal_str(&args[1]).unwrap_or_default();
    let usable = (unit.millis().is_some() || unit.months().is_some())
        && (unit.is_clock() || !matches!(args[0].ty.kind, TypeKind::Time(_)));
    if !usable {
        return Err(format!("FLOOR and CEIL of {} TO {name} are not supported.", args[0].ty.with_nullable(true)));
    }
    Ok(args[0].ty.clone())
}

/// Code of `FLOOR_TO` and `CEIL_TO`.
pub(super) fn round_kernel(info: &CallInfo<'_>, up: bool) -> MadeKernel {
    let unit = unit_of(&info.args[1])?;
    let (from, to) = (info.args[0].ty.clone(), info.ty.clone());
    let session = zone::session(info.zone)?;
    let instant = is_instant(&from);
    let round = if up { units::ceil_millis } else { units::floor_millis };
    kernel(move |args, rows, _| {
        let times = Times::of(&args[0], &from)?;
        from_nanos(&to, rows, |row| {
            if times.is_null(row) {
                return Ok(None);
            }
            let millis = times.millis(row);
            let rounded = if instant {
                // Flink takes back the offset it has added, even if the start had another one.
                let offset = i64::from(zone::offset_at(&session, millis)) * 1000;
                round(unit, millis + offset) - offset
            } else if matches!(times, Times::Date(_)) && unit.is_clock() {
                millis
            } else {
                round(unit, millis)
            };
            Ok(Some(i128::from(rounded) * 1_000_000))
        })
    })
}

/// Type rule of `TIMESTAMPADD(unit, n, x)`.
pub(super) fn resolve_add(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    let unit = unit_of(&args[0])?;
    expect_bigint(args, 1)?;
    expect_datetime(args, 2)?;
    let name = literal_str(&args[0]).unwrap_or_default();
    if unit.millis().is_none() && unit.months().is_none() {
        return Err(format!("TIMESTAMPADD of {name} is not supported."));
    }
    let kind = match args[2].ty.kind {
        TypeKind::Date if unit.is_clock() => TypeKind::Timestamp(6),
        TypeKind::Timestamp(p) if unit == Unit::Millisecond => TypeKind::Timestamp(p.max(3)),
        TypeKind::TimestampLtz(p) if unit == Unit::Millisecond => TypeKind::TimestampLtz(p.max(3)),
        ref kind => kind.clone(),
    };
    Ok(strict(kind, &args[1..]))
}

/// Code of `TIMESTAMPADD`. Months are added to the instant's UTC digits, as Flink does.
pub(super) fn add_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let unit = unit_of(&info.args[0])?;
    let (from, to) = (info.args[2].ty.clone(), info.ty.clone());
    kernel(move |args, rows, _| {
        let amounts = bigints(&args[1])?;
        let times = Times::of(&args[2], &from)?;
        from_nanos(&to, rows, |row| {
            if times.is_null(row) || amounts.is_null(row) {
                return Ok(None);
            }
            let (nanos, amount) = (times.nanos(row), amounts.value(row));
            Ok(Some(match (unit.millis(), unit.months()) {
                (Some(size), _) => nanos + i128::from(amount.wrapping_mul(size)) * 1_000_000,
                (None, months) => add_months(nanos, amount.wrapping_mul(months.unwrap_or(0))),
            }))
        })
    })
}

fn add_months(nanos: i128, months: i64) -> i128 {
    let day = i128::from(DAY_MS) * 1_000_000;
    let days = units::add_months(nanos.div_euclid(day) as i64, months);
    i128::from(days) * day + nanos.rem_euclid(day)
}

/// Type rule of `TIMESTAMPDIFF(unit, from, to)`.
pub(super) fn resolve_diff(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    let unit = unit_of(&args[0])?;
    for i in 1..=2 {
        expect_datetime(args, i)?;
    }
    let is_time = |e: &Expr| matches!(e.ty.kind, TypeKind::Time(_));
    if is_time(&args[1]) != is_time(&args[2]) || units::difference(unit, 0, 0).is_none() {
        return Err(String::new());
    }
    let kind = if unit == Unit::Nanosecond { TypeKind::BigInt } else { TypeKind::Int };
    Ok(strict(kind, &args[1..]))
}

/// Code of `TIMESTAMPDIFF`; the result wraps at the width of its type.
pub(super) fn diff_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let unit = unit_of(&info.args[0])?;
    let (from, to) = (info.args[1].ty.clone(), info.args[2].ty.clone());
    let wide = info.ty.kind == TypeKind::BigInt;
    kernel(move |args, rows, _| {
        let (from, to) = (Times::of(&args[1], &from)?, Times::of(&args[2], &to)?);
        let value = |row: usize| {
            if from.is_null(row) || to.is_null(row) {
                return Ok(None);
            }
            Ok(units::difference(unit, from.millis(row), to.millis(row)))
        };
        if wide {
            return collect::<i64, Int64Array>(rows, value);
        }
        collect::<i32, Int32Array>(rows, |row| value(row).map(|v| v.map(|v| v as i32)))
    })
}

/// Type rule of `OVERLAPS(start, end or length, start, end or length)`.
pub(super) fn resolve_overlaps(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 4..=4)?;
    for i in [0, 2] {
        expect_datetime(args, i)?;
        if !is_datetime(&args[i + 1].ty) && !is_interval(&args[i + 1].ty) {
            return Err(format!("Argument {} must be DATETIME or INTERVAL.", i + 2));
        }
    }
    Ok(LogicalType { kind: TypeKind::Boolean, nullable: args::any_nullable(args) })
}

/// Code of `OVERLAPS`: both ends belong to a period; ends in the wrong order are swapped.
pub(super) fn overlaps_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let types: Vec<LogicalType> = info.args.iter().map(|a| a.ty.clone()).collect();
    kernel(move |args, rows, _| {
        let times = [0, 1, 2, 3].map(|i| Times::of(&args[i], &types[i]));
        let [a, b, c, d] = times;
        let times = [a?, b?, c?, d?];
        let period = |i: usize, row: usize| {
            let start = times[i].nanos(row);
            let end = match &types[i + 1].kind {
                TypeKind::IntervalYearMonth => add_months(start, times[i + 1].millis(row)),
                TypeKind::IntervalDayTime => start + times[i + 1].nanos(row),
                _ => times[i + 1].nanos(row),
            };
            (start.min(end), start.max(end))
        };
        collect::<bool, BooleanArray>(rows, |row| {
            if times.iter().any(|t| t.is_null(row)) {
                return Ok(None);
            }
            let ((from, to), (other_from, other_to)) = (period(0, row), period(2, row));
            Ok(Some(to >= other_from && other_to >= from))
        })
    })
}
