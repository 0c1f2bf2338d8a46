//! Messages with their place in the script, worded as Flink words them.

use std::fmt::Display;

use tidegate_api::error::Error;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};

use crate::ast::Span;

/// A mistake in a query: `SQL validation failed. From line 1, column 8 to line 1, column 11: ...`.
pub fn invalid_at(span: Span, message: impl Display) -> Error {
    if span == Span::default() {
        return Error::invalid(format!("SQL validation failed. {message}"));
    }
    Error::invalid(format!("SQL validation failed. {span}: {message}"))
}

/// Something Flink itself refuses in streaming mode, or Tidegate does not run; the message names it.
pub fn refused_at(span: Span, message: impl Display) -> Error {
    if span == Span::default() {
        return Error::unsupported(message.to_string());
    }
    Error::unsupported(format!("{span}: {message}"))
}

/// A construct of Flink SQL that Tidegate does not run yet.
pub fn unsupported_at(span: Span, construct: impl Display) -> Error {
    refused_at(span, format!("{construct} is not supported by Tidegate yet."))
}

/// The name Calcite uses for a type in its messages: `INTEGER`, `VARCHAR(2147483647)`.
pub fn calcite_type(ty: &LogicalType) -> String {
    match &ty.kind {
        TypeKind::Int => "INTEGER".into(),
        TypeKind::Varchar(n) => format!("VARCHAR({n})"),
        TypeKind::Varbinary(MAX_LENGTH) => format!("VARBINARY({MAX_LENGTH})"),
        TypeKind::TimestampLtz(p) => format!("TIMESTAMP_WITH_LOCAL_TIME_ZONE({p})"),
        TypeKind::IntervalDayTime => "INTERVAL SECOND".into(),
        TypeKind::IntervalYearMonth => "INTERVAL MONTH".into(),
        TypeKind::Array(t) => format!("{} ARRAY", calcite_type(t)),
        TypeKind::Multiset(t) => format!("{} MULTISET", calcite_type(t)),
        TypeKind::Map(k, v) => format!("({}, {}) MAP", calcite_type(k), calcite_type(v)),
        _ => ty.with_nullable(true).to_string(),
    }
}

/// `(<VARCHAR(2147483647)>, <CHAR(1)>)` around the right name or operator.
pub fn signature(name: &str, args: &[LogicalType]) -> String {
    let args: Vec<String> = args.iter().map(|t| format!("<{}>", calcite_type(t))).collect();
    let is_word = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    match args.as_slice() {
        [left, right] if !is_word || matches!(name, "AND" | "OR") => format!("{left} {name} {right}"),
        [only] if !is_word || name == "NOT" => format!("{name}{only}"),
        [only] if name.starts_with("IS ") => format!("{only} {name}"),
        _ => format!("{name}({})", args.join(", ")),
    }
}

/// The family Calcite names where it knows no function: `<CHARACTER>`, `<NUMERIC>`.
pub fn family(ty: &LogicalType) -> &'static str {
    match &ty.kind {
        TypeKind::Null => "NULL",
        TypeKind::Boolean => "BOOLEAN",
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Float
        | TypeKind::Double
        | TypeKind::Decimal(..) => "NUMERIC",
        TypeKind::Char(_) | TypeKind::Varchar(_) => "CHARACTER",
        TypeKind::Binary(_) | TypeKind::Varbinary(_) => "BINARY",
        TypeKind::Date => "DATE",
        TypeKind::Time(_) => "TIME",
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => "TIMESTAMP",
        TypeKind::IntervalYearMonth => "INTERVAL_YEAR_MONTH",
        TypeKind::IntervalDayTime => "INTERVAL_DAY_TIME",
        TypeKind::Array(_) => "ARRAY",
        TypeKind::Map(..) => "MAP",
        TypeKind::Multiset(_) => "MULTISET",
        TypeKind::Row(_) => "STRUCT",
    }
}
