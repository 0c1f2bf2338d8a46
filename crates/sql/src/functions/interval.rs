//! Dates, times, timestamps and intervals under `+ - * /`. Months clamp to the end of the month
//! (Jan 31 + 1 month = Feb 28 or 29), a `TIME` goes round the clock.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::text::{civil_from_days, days_from_civil};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::args::{force, strict};
use super::arithmetic::{Operator, wrapping};
use super::cast::{Instants, timestamps};
use super::columns::typed;
use super::{CallInfo, Kernel};

const MS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;

fn is_interval(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::IntervalYearMonth | TypeKind::IntervalDayTime)
}

fn is_point(ty: &LogicalType) -> bool {
    ty.is_timestamp() || matches!(ty.kind, TypeKind::Date | TypeKind::Time(_))
}

/// The result type if an interval or a point in time takes part; a point comes first afterwards.
pub fn resolve(op: Operator, args: &mut [Expr]) -> Result<Option<LogicalType>, String> {
    let (a, b) = (args[0].ty.clone(), args[1].ty.clone());
    let any = |f: fn(&LogicalType) -> bool| f(&a) || f(&b);
    if !any(is_interval) && !any(is_point) {
        return Ok(None);
    }
    let additive = matches!(op, Operator::Add | Operator::Subtract);
    if is_point(&b) && is_interval(&a) && op == Operator::Add {
        args.swap(0, 1);
        return resolve(op, args);
    }
    if is_point(&a) && is_interval(&b) && additive {
        return point_result(args).map(Some);
    }
    if is_interval(&a) && a.kind == b.kind && additive {
        return Ok(Some(strict(a.kind, args)));
    }
    if op == Operator::Multiply && is_interval(&b) && a.is_numeric() {
        args.swap(0, 1);
        return resolve(op, args);
    }
    if is_interval(&a) && b.is_numeric() && matches!(op, Operator::Multiply | Operator::Divide) {
        let months = a.kind == TypeKind::IntervalYearMonth;
        force(args, 1, if months { TypeKind::Int } else { TypeKind::BigInt })?;
        return Ok(Some(strict(a.kind, args)));
    }
    if is_point(&a) && is_point(&b) && op == Operator::Subtract {
        return Err("Use TIMESTAMPDIFF(unit, from, to) for the time between two points.".into());
    }
    Err("Supported form(s): '<DATETIME> + <INTERVAL>', '<DATETIME> - <INTERVAL>', '<INTERVAL> + <INTERVAL>', \
         '<NUMERIC> * <INTERVAL>'"
        .into())
}

fn point_result(args: &[Expr]) -> Result<LogicalType, String> {
    let part_of_day = matches!(args[1].as_literal(), Some(Value::Int(ms)) if ms % MS_PER_DAY != 0);
    let day_time = args[1].ty.kind == TypeKind::IntervalDayTime;
    match args[0].ty.kind {
        TypeKind::Date if day_time && part_of_day => {
            Err("A DATE takes intervals of whole days; cast it to TIMESTAMP first.".into())
        }
        TypeKind::Time(_) if !day_time => Err("A TIME takes intervals of days to seconds only.".into()),
        ref kind => Ok(strict(kind.clone(), args)),
    }
}

/// The kernel if an interval takes part.
pub fn kernel(op: Operator, call: &CallInfo<'_>) -> Result<Option<Box<dyn Kernel>>, String> {
    let [a, b] = call.args else { return Ok(None) };
    if is_point(&a.ty) && is_interval(&b.ty) {
        return Ok(Some(shift(op == Operator::Subtract, call)));
    }
    if !is_interval(&a.ty) {
        return Ok(None);
    }
    if op != Operator::Divide {
        return Ok(Some(wrapping(op, call.args)));
    }
    let months = a.ty.kind == TypeKind::IntervalYearMonth;
    Ok(Some(Box::new(
        move |args: &[ArrayRef], _: usize, _: &EvalContext| {
            if months { divided::<Int32Type>(args) } else { divided::<Int64Type>(args) }
        },
    )))
}

fn divided<T>(args: &[ArrayRef]) -> Result<ArrayRef, RowError>
where
    T: arrow::array::ArrowPrimitiveType,
    T::Native: arrow::datatypes::ArrowNativeTypeOp,
    PrimitiveArray<T>: FromIterator<Option<T::Native>>,
{
    use arrow::datatypes::ArrowNativeTypeOp;
    let (a, b): (&PrimitiveArray<T>, &PrimitiveArray<T>) = (typed(&args[0])?, typed(&args[1])?);
    super::columns::map2::<_, _, _, PrimitiveArray<T>>(a, b, |x, y| {
        if y.is_zero() { Err("Division by zero".into()) } else { Ok(Some(x.div_wrapping(y))) }
    })
}

/// A point in time moved by an interval.
fn shift(back: bool, call: &CallInfo<'_>) -> Box<dyn Kernel> {
    let sign = if back { -1 } else { 1 };
    let months = call.args[1].ty.kind == TypeKind::IntervalYearMonth;
    let literal = match call.args[1].as_literal() {
        Some(Value::Int(by)) => Some(*by),
        _ => None,
    };
    let ty = call.ty.clone();
    Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        if let (Some(by), false) = (literal, months)
            && let Some(moved) = shift_all(&args[0], sign * by)
        {
            return Ok(moved);
        }
        let by = |row: usize| -> Option<i64> {
            let amount = if months {
                let a = args[1].as_primitive_opt::<Int32Type>()?;
                a.is_valid(row).then(|| i64::from(a.value(row)))
            } else {
                let a = args[1].as_primitive_opt::<Int64Type>()?;
                a.is_valid(row).then(|| a.value(row))
            };
            amount.map(|a| sign * a)
        };
        let source = Instants::of(&args[0])?;
        let moved = |row: usize| {
            let (at, by) = (source.nanos(row)?, by(row)?);
            Some(if months { add_months(at, by) } else { at + i128::from(by) * 1_000_000 })
        };
        match ty.kind {
            TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => timestamps(rows, p, |row| Ok(moved(row))),
            TypeKind::Date => {
                let days = (0..rows).map(|row| {
                    let days = (source.nanos(row)?, by(row)?);
                    let whole = |n: i128| n.div_euclid(NANOS_PER_DAY) as i32;
                    // Hours short of a day do not count, in either direction.
                    Some(if months { whole(moved(row)?) } else { whole(days.0) + (days.1 / MS_PER_DAY) as i32 })
                });
                Ok(Arc::new(days.collect::<PrimitiveArray<Date32Type>>()) as ArrayRef)
            }
            _ => {
                let clock = (0..rows).map(|row| Some((moved(row)?.rem_euclid(NANOS_PER_DAY) / 1_000_000) as i32));
                Ok(Arc::new(clock.collect::<PrimitiveArray<Time32MillisecondType>>()) as ArrayRef)
            }
        }
    })
}

/// A whole column of timestamps moved by the same milliseconds.
fn shift_all(array: &ArrayRef, ms: i64) -> Option<ArrayRef> {
    if let Some(a) = array.as_primitive_opt::<TimestampMillisecondType>() {
        return Some(Arc::new(a.unary::<_, TimestampMillisecondType>(|t| t.wrapping_add(ms))));
    }
    let a = array.as_primitive_opt::<TimestampMicrosecondType>()?;
    Some(Arc::new(a.unary::<_, TimestampMicrosecondType>(|t| t.wrapping_add(ms.wrapping_mul(1000)))))
}

/// Nanoseconds moved by months; a day the month does not have becomes its last.
pub fn add_months(nanos: i128, months: i64) -> i128 {
    let (days, of_day) = (nanos.div_euclid(NANOS_PER_DAY) as i64, nanos.rem_euclid(NANOS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let index = year * 12 + month - 1 + months;
    let (year, month) = (index.div_euclid(12), index.rem_euclid(12) + 1);
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let length = days_from_civil(next.0, next.1, 1) - days_from_civil(year, month, 1);
    i128::from(days_from_civil(year, month, day.min(length))) * NANOS_PER_DAY + of_day
}
