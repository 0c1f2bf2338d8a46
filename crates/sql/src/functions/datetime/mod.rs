//! Date and time functions: parts of a point in time, moving it, writing it and reading it.
//!
//! A `TIMESTAMP` holds the digits of a wall clock; a `TIMESTAMP_LTZ` an instant, which these
//! functions look at through the session time zone. Everything is computed on nanoseconds (or
//! milliseconds, where Flink drops the rest); `columns` hides the three physical forms.

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

mod calendar;
mod columns;
mod convert;
mod fields;
mod names;
mod parse;
mod pattern;
mod text;
mod units;
pub(crate) mod zone;

#[cfg(test)]
mod tests;

use tidegate_api::expr::Expr;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::ScalarFunction;
use super::args::literal_str;
use units::Unit;

/// `YEAR(x)` is `EXTRACT(YEAR FROM x)`: the unit becomes the first argument.
macro_rules! part {
    ($name:literal, $unit:literal) => {
        ScalarFunction {
            name: $name,
            resolve: |args| calendar::resolve_part(args, $unit),
            kernel: calendar::extract_kernel,
        }
    };
}

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "EXTRACT", resolve: calendar::resolve_extract, kernel: calendar::extract_kernel },
    part!("YEAR", "YEAR"),
    part!("QUARTER", "QUARTER"),
    part!("MONTH", "MONTH"),
    part!("WEEK", "WEEK"),
    part!("DAYOFYEAR", "DOY"),
    part!("DAYOFMONTH", "DAY"),
    part!("DAYOFWEEK", "DOW"),
    part!("HOUR", "HOUR"),
    part!("MINUTE", "MINUTE"),
    part!("SECOND", "SECOND"),
    ScalarFunction {
        name: "FLOOR_TO",
        resolve: calendar::resolve_round,
        kernel: |info| calendar::round_kernel(info, false),
    },
    ScalarFunction {
        name: "CEIL_TO",
        resolve: calendar::resolve_round,
        kernel: |info| calendar::round_kernel(info, true),
    },
    ScalarFunction { name: "TIMESTAMPADD", resolve: calendar::resolve_add, kernel: calendar::add_kernel },
    ScalarFunction { name: "TIMESTAMPDIFF", resolve: calendar::resolve_diff, kernel: calendar::diff_kernel },
    ScalarFunction { name: "OVERLAPS", resolve: calendar::resolve_overlaps, kernel: calendar::overlaps_kernel },
    ScalarFunction { name: "DATE_FORMAT", resolve: convert::resolve_date_format, kernel: convert::date_format_kernel },
    ScalarFunction { name: "TO_DATE", resolve: convert::resolve_to_date, kernel: convert::to_date_kernel },
    ScalarFunction {
        name: "TO_TIMESTAMP",
        resolve: convert::resolve_to_timestamp,
        kernel: convert::to_timestamp_kernel,
    },
    ScalarFunction {
        name: "TO_TIMESTAMP_LTZ",
        resolve: convert::resolve_to_timestamp_ltz,
        kernel: convert::to_timestamp_ltz_kernel,
    },
    ScalarFunction {
        name: "UNIX_TIMESTAMP",
        resolve: convert::resolve_unix_timestamp,
        kernel: convert::unix_timestamp_kernel,
    },
    ScalarFunction {
        name: "FROM_UNIXTIME",
        resolve: convert::resolve_from_unixtime,
        kernel: convert::from_unixtime_kernel,
    },
    ScalarFunction { name: "CONVERT_TZ", resolve: convert::resolve_convert_tz, kernel: convert::convert_tz_kernel },
];

/// The unit a literal argument names.
fn unit_of(expr: &Expr) -> Result<Unit, String> {
    let name = literal_str(expr).ok_or("The time unit must be a literal.")?;
    Unit::parse(name).ok_or_else(|| format!("'{name}' is no time unit."))
}

/// A literal that names a unit.
fn unit_literal(name: &str) -> Expr {
    let ty = LogicalType::not_null(TypeKind::Char(name.len() as u32));
    Expr::literal(Value::String(name.to_string()), ty)
}

/// True for `DATE`, `TIME`, `TIMESTAMP` and `TIMESTAMP_LTZ`.
fn is_datetime(ty: &LogicalType) -> bool {
    ty.is_timestamp() || matches!(ty.kind, TypeKind::Date | TypeKind::Time(_))
}

/// True for both kinds of interval.
fn is_interval(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::IntervalDayTime | TypeKind::IntervalYearMonth)
}

/// True for an instant, which is looked at through the session time zone.
fn is_instant(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::TimestampLtz(_))
}
