//! Columns of dates and times: the three physical forms of a timestamp behind one reader, and
//! compiled patterns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use tidegate_api::expr::Expr;
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, TypeKind};

use super::pattern::{Dialect, Pattern};
use super::units::DAY_MS;
use crate::functions::args::literal_str;
use crate::functions::columns::typed;

/// A column of points in time or of lengths of it.
pub(super) enum Times<'a> {
    Date(&'a Date32Array),
    Time(&'a Time32MillisecondArray),
    Millis(&'a TimestampMillisecondArray),
    Micros(&'a TimestampMicrosecondArray),
    Nanos(&'a Decimal128Array),
    Months(&'a Int32Array),
    IntervalMillis(&'a Int64Array),
}

impl<'a> Times<'a> {
    /// `array` of a column of type `ty`.
    pub(super) fn of(array: &'a ArrayRef, ty: &LogicalType) -> Result<Times<'a>, RowError> {
        Ok(match &ty.kind {
            TypeKind::Date => Times::Date(typed(array)?),
            TypeKind::Time(_) => Times::Time(typed(array)?),
            TypeKind::Timestamp(0..=3) | TypeKind::TimestampLtz(0..=3) => Times::Millis(typed(array)?),
            TypeKind::Timestamp(4..=6) | TypeKind::TimestampLtz(4..=6) => Times::Micros(typed(array)?),
            TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => Times::Nanos(typed(array)?),
            TypeKind::IntervalYearMonth => Times::Months(typed(array)?),
            TypeKind::IntervalDayTime => Times::IntervalMillis(typed(array)?),
            _ => return Err(RowError::new(0, format!("internal error (please report it): {ty} is no time"))),
        })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Times::Date(a) => a.is_null(row),
            Times::Time(a) => a.is_null(row),
            Times::Millis(a) => a.is_null(row),
            Times::Micros(a) => a.is_null(row),
            Times::Nanos(a) => a.is_null(row),
            Times::Months(a) => a.is_null(row),
            Times::IntervalMillis(a) => a.is_null(row),
        }
    }

    /// Nanoseconds since the epoch, of the day, or of the interval; months for months.
    pub(super) fn nanos(&self, row: usize) -> i128 {
        match self {
            Times::Date(a) => i128::from(a.value(row)) * i128::from(DAY_MS) * 1_000_000,
            Times::Time(a) => i128::from(a.value(row)) * 1_000_000,
            Times::Millis(a) => i128::from(a.value(row)) * 1_000_000,
            Times::Micros(a) => i128::from(a.value(row)) * 1000,
            Times::Nanos(a) => a.value(row),
            Times::Months(a) => i128::from(a.value(row)),
            Times::IntervalMillis(a) => i128::from(a.value(row)) * 1_000_000,
        }
    }

    /// Milliseconds, rounded down; months for months.
    pub(super) fn millis(&self, row: usize) -> i64 {
        match self {
            Times::Date(a) => i64::from(a.value(row)) * DAY_MS,
            Times::Time(a) => i64::from(a.value(row)),
            Times::Millis(a) => a.value(row),
            Times::Micros(a) => a.value(row).div_euclid(1000),
            Times::Nanos(a) => a.value(row).div_euclid(1_000_000) as i64,
            Times::Months(a) => i64::from(a.value(row)),
            Times::IntervalMillis(a) => a.value(row),
        }
    }
}

/// A column of type `ty` from nanoseconds since the epoch (of the day for `TIME`); what is finer
/// than the type's column is cut off, towards the past.
pub(super) fn from_nanos(
    ty: &LogicalType,
    rows: usize,
    mut f: impl FnMut(usize) -> Result<Option<i128>, String>,
) -> Result<ArrayRef, RowError> {
    let mut nanos = Vec::with_capacity(rows);
    for row in 0..rows {
        nanos.push(f(row).map_err(|message| RowError::new(row, message))?);
    }
    let scaled = |unit: i128| nanos.iter().map(move |n| n.map(|n| n.div_euclid(unit) as i64));
    Ok(match &ty.kind {
        TypeKind::Date => {
            let days = scaled(i128::from(DAY_MS) * 1_000_000).map(|d| d.map(|d| d as i32));
            Arc::new(days.collect::<Date32Array>())
        }
        TypeKind::Time(_) => {
            let millis = scaled(1_000_000).map(|m| m.map(|m| m.rem_euclid(DAY_MS) as i32));
            Arc::new(millis.collect::<Time32MillisecondArray>())
        }
        TypeKind::Timestamp(0..=3) | TypeKind::TimestampLtz(0..=3) => {
            Arc::new(scaled(1_000_000).collect::<TimestampMillisecondArray>())
        }
        TypeKind::Timestamp(4..=6) | TypeKind::TimestampLtz(4..=6) => {
            Arc::new(scaled(1000).collect::<TimestampMicrosecondArray>())
        }
        _ => Arc::new(nanos.into_iter().collect::<Decimal128Array>().with_data_type(ty.to_arrow())),
    })
}

/// The pattern argument of a call: compiled once if it is a literal, otherwise when it changes.
pub(super) struct PatternArg {
    dialect: Dialect,
    text: String,
    pattern: Result<Pattern, String>,
}

impl PatternArg {
    /// For the argument `expr`, or for `default` where the call has none. A literal that is no
    /// pattern fails the plan.
    pub(super) fn new(expr: Option<&Expr>, default: &str, dialect: Dialect) -> Result<PatternArg, String> {
        let literal = expr.map_or(Some(default), literal_str);
        let text = literal.unwrap_or(default).to_string();
        let pattern = Pattern::compile(&text, dialect);
        if let (Some(text), Err(why)) = (literal, &pattern) {
            return Err(format!("The date pattern '{text}' is not usable: {why}."));
        }
        Ok(PatternArg { dialect, text, pattern })
    }

    /// The compiled form of `text`, this row's pattern.
    pub(super) fn of(&mut self, text: Option<&str>) -> Result<&Pattern, String> {
        if let Some(text) = text
            && text != self.text
        {
            self.text = text.to_string();
            self.pattern = Pattern::compile(text, self.dialect);
        }
        self.pattern.as_ref().map_err(|why| format!("The date pattern '{}' is not usable: {why}.", self.text))
    }
}
