//! What type rules are made of: counting arguments, demanding a type, reading literals.

use std::ops::RangeBounds;

use tidegate_api::expr::Expr;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::coerce::{cast, implicit_cast};

/// Demands a number of arguments within `range`.
pub fn count(args: &[Expr], range: impl RangeBounds<usize>) -> Result<(), String> {
    if range.contains(&args.len()) { Ok(()) } else { Err(format!("Invalid number of arguments: {}.", args.len())) }
}

/// True if one of `args` may be NULL, and so the result of most functions.
pub fn any_nullable(args: &[Expr]) -> bool {
    args.iter().any(|a| a.ty.nullable)
}

/// A result of `kind` that is NULL only if an argument is.
pub fn strict(kind: TypeKind, args: &[Expr]) -> LogicalType {
    LogicalType { kind, nullable: any_nullable(args) }
}

/// Casts argument `i` to `to` where Flink does so by itself; the argument keeps its nullability.
pub fn expect(args: &mut [Expr], i: usize, to: &LogicalType) -> Result<(), String> {
    let arg = std::mem::replace(&mut args[i], null_literal());
    args[i] = implicit_cast(arg, to)?;
    Ok(())
}

/// Demands a character string; a bare NULL becomes a NULL `STRING`.
pub fn expect_string(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, LogicalType::is_string, &LogicalType::string(), "CHARACTER STRING")
}

/// Demands a byte string.
pub fn expect_binary(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, LogicalType::is_binary, &LogicalType::bytes(), "BINARY STRING")
}

/// Demands any number.
pub fn expect_numeric(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, LogicalType::is_numeric, &LogicalType::new(TypeKind::Int), "NUMERIC")
}

/// Demands an integer and widens it to `INT` if it is smaller; `BIGINT` is narrowed (it wraps, as
/// Flink's codegen does).
pub fn expect_int(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, LogicalType::is_integer, &LogicalType::new(TypeKind::Int), "INTEGER")?;
    force(args, i, TypeKind::Int)
}

/// Demands an integer and widens it to `BIGINT`.
pub fn expect_bigint(args: &mut [Expr], i: usize) -> Result<(), String> {
    demand(args, i, LogicalType::is_integer, &LogicalType::new(TypeKind::BigInt), "INTEGER")?;
    force(args, i, TypeKind::BigInt)
}

/// Demands a number and makes a `DOUBLE` of it.
pub fn expect_double(args: &mut [Expr], i: usize) -> Result<(), String> {
    expect_numeric(args, i)?;
    force(args, i, TypeKind::Double)
}

/// Demands a `BOOLEAN`.
pub fn expect_boolean(args: &mut [Expr], i: usize) -> Result<(), String> {
    let is_boolean = |t: &LogicalType| t.kind == TypeKind::Boolean;
    demand(args, i, is_boolean, &LogicalType::new(TypeKind::Boolean), "BOOLEAN")
}

/// Demands a type that `fits`; a bare NULL becomes a NULL of `null_as`.
pub fn demand(
    args: &mut [Expr],
    i: usize,
    fits: impl Fn(&LogicalType) -> bool,
    null_as: &LogicalType,
    name: &str,
) -> Result<(), String> {
    if args[i].ty.kind == TypeKind::Null {
        args[i] = Expr::literal(Value::Null, null_as.with_nullable(true));
        return Ok(());
    }
    if fits(&args[i].ty) {
        return Ok(());
    }
    Err(format!("Argument {} must be {name}, but is {}.", i + 1, args[i].ty.with_nullable(true)))
}

/// Casts argument `i` to `kind`, explicit cast or not; it keeps its nullability.
pub fn force(args: &mut [Expr], i: usize, kind: TypeKind) -> Result<(), String> {
    let to = LogicalType { kind, nullable: args[i].ty.nullable };
    let arg = std::mem::replace(&mut args[i], null_literal());
    args[i] = cast(arg, &to, false)?;
    Ok(())
}

/// A bare NULL.
pub fn null_literal() -> Expr {
    Expr::literal(Value::Null, LogicalType::new(TypeKind::Null))
}

/// The text of a string literal.
pub fn literal_str(expr: &Expr) -> Option<&str> {
    match expr.as_literal() {
        Some(Value::String(s)) => Some(s),
        _ => None,
    }
}

/// The value of an integer literal.
pub fn literal_int(expr: &Expr) -> Option<i64> {
    match expr.as_literal() {
        Some(Value::Int(i)) => Some(*i),
        _ => None,
    }
}

/// True for a NULL literal of any type.
pub fn is_null_literal(expr: &Expr) -> bool {
    matches!(expr.as_literal(), Some(Value::Null))
}
