//! `ROUND`, `TRUNCATE`, `CEIL`, `FLOOR`. Rounding is half away from zero on the decimal digits that
//! Java prints, so `ROUND(2.675E0, 2)` is 2.68.

use std::str::FromStr;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use bigdecimal::{BigDecimal, RoundingMode};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::args::{any_nullable, count, expect_int, expect_numeric};
use super::columns::{collect, typed};
use super::math::keeping_type;
use super::{CallInfo, Kernel, ScalarFunction, decimal};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "ROUND", resolve: rounding, kernel: |c| round_kernel(c, RoundingMode::HalfUp) },
    ScalarFunction { name: "TRUNCATE", resolve: rounding, kernel: |c| round_kernel(c, RoundingMode::Down) },
    ScalarFunction { name: "CEIL", resolve: whole, kernel: |c| whole_kernel(c, true) },
    ScalarFunction { name: "CEILING", resolve: whole, kernel: |c| whole_kernel(c, true) },
    ScalarFunction { name: "FLOOR", resolve: whole, kernel: |c| whole_kernel(c, false) },
];

fn rounding(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    expect_numeric(args, 0)?;
    if args.len() == 2 {
        expect_int(args, 1)?;
    }
    let TypeKind::Decimal(p, s) = args[0].ty.kind else {
        return Ok(LogicalType { kind: args[0].ty.kind.clone(), nullable: any_nullable(args) });
    };
    let places = match args.get(1).map(Expr::as_literal) {
        None => Some(0),
        Some(Some(Value::Int(n))) => Some(*n),
        _ => None,
    };
    let (p, s) = places.map_or((p, s), |n| rounded_decimal(p, s, n));
    Ok(LogicalType { kind: TypeKind::Decimal(p, s), nullable: any_nullable(args) })
}

/// The decimal type of a value rounded to a known number of places; a carry may add a digit.
fn rounded_decimal(p: u8, s: u8, places: i64) -> (u8, u8) {
    if places >= i64::from(s) {
        (p, s)
    } else if places < 0 {
        ((p - s + 1).min(38), 0)
    } else {
        ((p - s + 1 + places as u8).min(38), places as u8)
    }
}

fn round_kernel(call: &CallInfo<'_>, mode: RoundingMode) -> Result<Box<dyn Kernel>, String> {
    let (from, to) = (call.args[0].ty.clone(), call.ty.clone());
    let scale = if let TypeKind::Decimal(_, s) = from.kind { s } else { 0 };
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let places = |row: usize| match args.get(1) {
            None => Some(0),
            Some(a) => a.as_primitive_opt::<Int32Type>().filter(|a| a.is_valid(row)).map(|a| i64::from(a.value(row))),
        };
        round_column(&args[0], rows, &to, scale, &places, mode)
    }))
}

fn round_column(
    array: &ArrayRef,
    rows: usize,
    to: &LogicalType,
    scale: u8,
    places: &dyn Fn(usize) -> Option<i64>,
    mode: RoundingMode,
) -> Result<ArrayRef, RowError> {
    macro_rules! rounded {
        ($t:ty, $round:expr) => {{
            let a: &PrimitiveArray<$t> = typed(array)?;
            collect::<_, PrimitiveArray<$t>>(rows, |row| {
                Ok(places(row).filter(|_| a.is_valid(row)).and_then(|n| $round(a.value(row), n)))
            })
        }};
    }
    let int = |v: i64, n: i64| round_digits(i128::from(v), 0, n, mode);
    match to.kind {
        TypeKind::TinyInt => rounded!(Int8Type, |v: i8, n| int(v.into(), n).map(|v| v as i8)),
        TypeKind::SmallInt => rounded!(Int16Type, |v: i16, n| int(v.into(), n).map(|v| v as i16)),
        TypeKind::Int => rounded!(Int32Type, |v: i32, n| int(v.into(), n).map(|v| v as i32)),
        TypeKind::BigInt => rounded!(Int64Type, |v: i64, n| int(v, n).map(|v| v as i64)),
        TypeKind::Float => rounded!(Float32Type, |v: f32, n| Some(round_float(&v.to_string(), n, mode).unwrap_or(v))),
        TypeKind::Double => rounded!(Float64Type, |v: f64, n| Some(round_float(&v.to_string(), n, mode).unwrap_or(v))),
        TypeKind::Decimal(p, s) => {
            let cells = rounded!(Decimal128Type, |v: i128, n| {
                round_digits(v, scale, n, mode).and_then(|v| decimal::rescale(v, scale, p, s))
            })?;
            Ok(super::columns::retyped(typed::<PrimitiveArray<Decimal128Type>>(&cells)?.clone(), &to.to_arrow()))
        }
        _ => Err(RowError::new(0, format!("{to} is no number"))),
    }
}

/// `value` of `scale` digits with all digits beyond `places` zero.
fn round_digits(value: i128, scale: u8, places: i64, mode: RoundingMode) -> Option<i128> {
    let drop = i64::from(scale) - places;
    if drop <= 0 {
        return Some(value);
    }
    if drop > 38 {
        return Some(0);
    }
    let unit = decimal::pow10(drop as u8);
    let kept = if mode == RoundingMode::Down { value / unit } else { decimal::divide_half_up(value, unit)? };
    kept.checked_mul(unit)
}

/// The shortest digits of a floating number, rounded; `None` if it is no finite number.
fn round_float<T: FromStr>(digits: &str, places: i64, mode: RoundingMode) -> Option<T> {
    let exact = BigDecimal::from_str(digits).ok()?;
    exact.with_scale_round(places, mode).to_plain_string().parse().ok()
}

/// `CEIL(x)`, `FLOOR(x)`; rounding of a point in time to a unit has its own name.
fn whole(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_numeric(args, 0)?;
    Ok(match args[0].ty.kind {
        TypeKind::Decimal(p, s) if s > 0 => {
            LogicalType { kind: TypeKind::Decimal(p, 0), nullable: args[0].ty.nullable }
        }
        _ => args[0].ty.clone(),
    })
}

fn whole_kernel(call: &CallInfo<'_>, up: bool) -> Result<Box<dyn Kernel>, String> {
    let unit = match call.args[0].ty.kind {
        TypeKind::Decimal(_, s) => decimal::pow10(s),
        _ => 1,
    };
    let digits = move |v: i128| v.div_euclid(unit) + i128::from(up && v.rem_euclid(unit) != 0);
    keeping_type(call.ty, |v| v, if up { f64::ceil } else { f64::floor }, digits)
}
