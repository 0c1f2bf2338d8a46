//! From expressions as written to typed expressions over the columns of one input.
//!
//! Names become column positions, operators and functions become calls that the function library
//! has typed, and aggregate calls become placeholders: columns past the scope's width, one per entry
//! of the [`Collector`], which the grouping step later puts in their place.

mod aggregate;
mod call;
mod json;
pub mod literal;

use std::cell::RefCell;

use tidegate_api::error::{Error, Result};
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

pub use aggregate::{Collector, Extra, LegacyWindow, PendingAggregate};

use super::error::{invalid_at, unsupported_at};
use super::rel::TimeAttribute;
use super::scope::{Scope, span_of};
use crate::ast::{self, BinaryOp, ExprKind, Ident, IsTest, LikeKind, Literal, Span, UnaryOp};
use crate::functions::{self, ResolveError};

/// Where an expression stands, which decides what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The select list, `HAVING`, `QUALIFY`: aggregates are welcome if there is a collector.
    Select,
    /// `WHERE`.
    Where,
    /// `GROUP BY`.
    GroupBy,
    /// `ON`.
    On,
    /// The argument of an aggregate.
    Aggregate,
    /// A computed column or a watermark.
    Declaration,
    /// Anything else without aggregates.
    Other,
}

/// A column that an expression named: for the message if it may not be used after all.
#[derive(Clone, Debug)]
pub struct NamedColumn {
    /// Its position.
    pub column: usize,
    /// As written.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// Binds expressions over one scope.
pub struct ExprBinder<'e> {
    /// The names it may use.
    pub scope: &'e Scope,
    /// The session's time zone.
    pub zone: &'e str,
    /// For `CURRENT_DATABASE()`.
    pub database: &'e str,
    /// Where the expression stands.
    pub clause: Clause,
    /// Takes aggregate calls, if the clause may have any.
    pub collector: Option<&'e RefCell<Collector>>,
    /// Columns named outside of aggregates, in order.
    pub named: RefCell<Vec<NamedColumn>>,
}

/// What a failed call of the function library says, at its place.
pub fn resolve_error(error: ResolveError, name: &str, args: &[LogicalType], span: Span) -> Error {
    match error {
        ResolveError::BadArguments(message) => invalid_at(span, message),
        ResolveError::UnknownFunction => {
            let families: Vec<String> = args.iter().map(|t| format!("<{}>", super::error::family(t))).collect();
            let message = format!("No match found for function signature {name}({})", families.join(", "));
            invalid_at(span, message)
        }
    }
}

/// A `CHAR` literal, for the units and clauses that functions take as arguments.
pub fn text_literal(text: &str) -> Expr {
    let ty = LogicalType::not_null(TypeKind::Char(text.chars().count() as u32));
    Expr::literal(Value::String(text.into()), ty)
}

/// A bare `NULL`.
pub fn null_literal() -> Expr {
    Expr::literal(Value::Null, LogicalType::new(TypeKind::Null))
}

impl<'e> ExprBinder<'e> {
    /// A binder without aggregates.
    pub fn new(scope: &'e Scope, zone: &'e str, database: &'e str, clause: Clause) -> Self {
        ExprBinder { scope, zone, database, clause, collector: None, named: RefCell::default() }
    }

    /// The same scope in another clause, without aggregates.
    fn within(&self, clause: Clause) -> ExprBinder<'e> {
        ExprBinder::new(self.scope, self.zone, self.database, clause)
    }

    /// Binds `e`.
    pub fn bind(&self, e: &ast::Expr) -> Result<Expr> {
        match &e.kind {
            ExprKind::Identifier(parts) => self.identifier(parts),
            ExprKind::Literal(Literal::IntervalExpr { count, qualifier }) => self.interval_of(count, qualifier, e.span),
            ExprKind::Literal(l) => literal::bind_literal(l, e.span, self.zone),
            ExprKind::Unary { op, expr } => self.unary(*op, expr, e.span),
            ExprKind::Binary { left, op, right } => self.binary(left, *op, right, e.span),
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), e.span)
            }
            ExprKind::Cast { expr, ty, lenient } => {
                let to = super::types::logical_type(ty)?;
                let input = self.bind(expr)?;
                functions::cast(input, &to, *lenient).map_err(|m| invalid_at(e.span, m))
            }
            ExprKind::Function(call) => self.function(call, e.span),
            ExprKind::Json(call) => self.json(call, e.span),
            ExprKind::Field { expr, name } => self.field(self.bind(expr)?, name),
            ExprKind::Index { expr, index } => self.index(expr, index, e.span),
            ExprKind::Array(items) if !items.is_empty() && items.iter().all(|e| refuse_null(e).is_err()) => {
                Err(invalid_at(e.span, "Parameters must be of the same type"))
            }
            ExprKind::Array(items) => self.call("ARRAY", self.bind_all(items)?, e.span),
            ExprKind::Map(entries) => {
                let mut args = Vec::with_capacity(entries.len() * 2);
                for (k, v) in entries {
                    args.push(self.bind(k)?);
                    args.push(self.bind(v)?);
                }
                self.call("MAP", args, e.span)
            }
            ExprKind::Row { fields, .. } => self.call("ROW", self.bind_typed(fields)?, e.span),
            _ => self.special(e),
        }
    }

    /// Binds each of `items`.
    pub fn bind_all(&self, items: &[ast::Expr]) -> Result<Vec<Expr>> {
        items.iter().map(|e| self.bind(e)).collect()
    }

    /// Binds each of `items` where nothing would give a bare `NULL` a type.
    pub fn bind_typed(&self, items: &[ast::Expr]) -> Result<Vec<Expr>> {
        items.iter().try_for_each(refuse_null)?;
        self.bind_all(items)
    }

    /// Binds a condition; `what` names the clause in the message.
    pub fn condition(&self, e: &ast::Expr, what: &str) -> Result<Expr> {
        let bound = self.bind(e)?;
        match bound.ty.kind {
            TypeKind::Boolean => Ok(bound),
            TypeKind::Null => Ok(Expr::literal(Value::Null, LogicalType::new(TypeKind::Boolean))),
            _ => Err(invalid_at(e.span, format!("{what} clause must be a condition"))),
        }
    }

    /// The typed call of a function or operator.
    pub fn call(&self, name: &str, args: Vec<Expr>, span: Span) -> Result<Expr> {
        let types: Vec<LogicalType> = args.iter().map(|a| a.ty.clone()).collect();
        functions::resolve(name, args).map_err(|e| resolve_error(e, name, &types, span))
    }

    fn identifier(&self, parts: &[Ident]) -> Result<Expr> {
        let resolved = self.scope.resolve(parts)?;
        let ty = self.scope.column(resolved.column).ty.clone();
        let text: Vec<&str> = parts.iter().map(|p| p.value.as_str()).collect();
        self.named.borrow_mut().push(NamedColumn {
            column: resolved.column,
            text: text.join("."),
            span: span_of(parts),
        });
        let mut expr = Expr::input(resolved.column, ty);
        for part in &parts[resolved.parts..] {
            expr = self.field(expr, part)?;
        }
        Ok(expr)
    }

    /// Field `name` of a row.
    fn field(&self, row: Expr, name: &Ident) -> Result<Expr> {
        let TypeKind::Row(fields) = &row.ty.kind else {
            let message = format!("Column '{}' not found in any table", name.value);
            return Err(invalid_at(name.span, message));
        };
        let Some(index) = fields.iter().position(|f| f.name == name.value) else {
            let known: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
            let message = format!("Field '{}' not found; the row has: {}", name.value, known.join(", "));
            return Err(invalid_at(name.span, message));
        };
        let ty = &fields[index].ty;
        let ty = ty.with_nullable(ty.nullable || row.ty.nullable);
        Ok(Expr { ty, node: ExprNode::Field { input: Box::new(row), index } })
    }

    /// `row['name']`, `row[1]`, or an element of an array or map.
    fn index(&self, expr: &ast::Expr, index: &ast::Expr, span: Span) -> Result<Expr> {
        let collection = self.bind(expr)?;
        if let TypeKind::Row(fields) = &collection.ty.kind {
            let name = match &index.kind {
                ExprKind::Literal(Literal::String(name)) => Some(name.clone()),
                ExprKind::Literal(Literal::Integer(n)) => {
                    let i = n.parse::<usize>().unwrap_or(0).wrapping_sub(1);
                    fields.get(i).map(|f| f.name.clone())
                }
                _ => None,
            };
            let Some(name) = name else {
                return Err(invalid_at(index.span, "Cannot infer the field of a ROW from this index"));
            };
            return self.field(collection, &Ident { value: name, span: index.span, quoted: true });
        }
        let index = self.bind(index)?;
        self.call("ITEM", vec![collection, index], span)
    }

    fn unary(&self, op: UnaryOp, expr: &ast::Expr, span: Span) -> Result<Expr> {
        refuse_null(expr)?;
        let input = self.bind(expr)?;
        match op {
            UnaryOp::Not => self.call("NOT", vec![input], span),
            UnaryOp::Plus if input.ty.is_numeric() => Ok(input),
            UnaryOp::Plus => {
                let form = super::error::signature("+", &[input.ty]);
                Err(invalid_at(span, format!("Cannot apply '+' to arguments of type '{form}'.")))
            }
            // A negative constant is a constant: `-1` is INT, `-2147483648` too.
            UnaryOp::Minus => match negated(&expr.kind, &input) {
                Some(literal) => Ok(literal),
                None => self.call("NEGATE", vec![input], span),
            },
        }
    }

    fn binary(&self, left: &ast::Expr, op: BinaryOp, right: &ast::Expr, span: Span) -> Result<Expr> {
        let name = match op {
            BinaryOp::Or
            | BinaryOp::And
            | BinaryOp::Eq
            | BinaryOp::NotEq
            | BinaryOp::Lt
            | BinaryOp::LtEq
            | BinaryOp::Gt
            | BinaryOp::GtEq
            | BinaryOp::Plus
            | BinaryOp::Minus
            | BinaryOp::Multiply
            | BinaryOp::Divide
            | BinaryOp::Modulo
            | BinaryOp::Concat => op.symbol(),
            BinaryOp::Overlaps => return self.overlaps(left, right, span),
            _ => return Err(unsupported_at(span, format!("Operator {}", op.symbol()))),
        };
        if !matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=") {
            refuse_null(left)?;
            refuse_null(right)?;
        }
        let args = vec![self.bind(left)?, self.bind(right)?];
        self.call(name, args, span)
    }

    /// `(start, end) OVERLAPS (start, length)`.
    fn overlaps(&self, left: &ast::Expr, right: &ast::Expr, span: Span) -> Result<Expr> {
        let mut args = Vec::with_capacity(4);
        for side in [left, right] {
            match &side.kind {
                ExprKind::Row { fields, .. } if fields.len() == 2 => args.extend(self.bind_typed(fields)?),
                _ => return Err(invalid_at(side.span, "OVERLAPS needs (start, end) or (start, length) on both sides")),
            }
        }
        self.call("OVERLAPS", args, span)
    }

    /// `INTERVAL e unit`.
    fn interval_of(&self, count: &ast::Expr, q: &ast::IntervalQualifier, span: Span) -> Result<Expr> {
        let (kind, size) = match (literal::months_of(q.start), literal::millis_of(q.start)) {
            (Some(months), _) => (TypeKind::IntervalYearMonth, months),
            (_, Some(ms)) => (TypeKind::IntervalDayTime, ms),
            _ => return Err(unsupported_at(span, format!("INTERVAL of {}", q.start.name()))),
        };
        if q.end.is_some() {
            let unit = literal::qualifier_text(q);
            return Err(unsupported_at(span, format!("INTERVAL with an expression in {unit}")));
        }
        let unit = Expr::literal(Value::Int(size), LogicalType::not_null(kind.clone()));
        let count = self.bind(count)?;
        if let Some(n) = as_int(&count).and_then(|n| n.checked_mul(size)) {
            return Ok(Expr::literal(Value::Int(n), LogicalType::not_null(kind)));
        }
        self.call("*", vec![count, unit], span)
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        branches: &[(Vec<ast::Expr>, ast::Expr)],
        otherwise: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Expr> {
        let results = branches.iter().map(|(_, then)| then).chain(otherwise);
        if results.clone().all(|e| refuse_null(e).is_err()) {
            return Err(invalid_at(span, "ELSE clause or at least one THEN clause must be non-NULL"));
        }
        let mut bound = Vec::with_capacity(branches.len());
        for (whens, then) in branches {
            let mut condition: Option<Expr> = None;
            for when in whens {
                let one = match operand {
                    None => self.condition(when, "WHEN")?,
                    Some(o) => self.call("=", vec![self.bind(o)?, self.bind(when)?], when.span)?,
                };
                condition = Some(match condition {
                    None => one,
                    Some(before) => self.call("OR", vec![before, one], when.span)?,
                });
            }
            let condition = condition.ok_or_else(|| invalid_at(span, "CASE without a condition"))?;
            bound.push((condition, self.bind(then)?));
        }
        let otherwise = otherwise.map(|e| self.bind(e)).transpose()?;
        functions::coerce::case(bound, otherwise).map_err(|m| invalid_at(span, m))
    }

    /// Predicates and calls with a syntax of their own.
    fn special(&self, e: &ast::Expr) -> Result<Expr> {
        let span = e.span;
        match &e.kind {
            ExprKind::Is { expr, test, negated } => self.is(expr, *test, *negated, span),
            ExprKind::IsDistinctFrom { left, right, negated } => {
                let name = if *negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" };
                self.call(name, vec![self.bind(left)?, self.bind(right)?], span)
            }
            ExprKind::Between { expr, low, high, symmetric, negated } => {
                let (x, low, high) = (self.bind(expr)?, self.bind(low)?, self.bind(high)?);
                let mut result = self.between(&x, &low, &high, span)?;
                if *symmetric {
                    let swapped = self.between(&x, &high, &low, span)?;
                    result = self.call("OR", vec![result, swapped], span)?;
                }
                self.negate_if(*negated, result, span)
            }
            ExprKind::InList { expr, list, negated } => {
                let mut args = vec![self.bind(expr)?];
                args.extend(self.bind_all(list)?);
                let result = self.call("IN", args, span)?;
                self.negate_if(*negated, result, span)
            }
            ExprKind::Like { kind, expr, pattern, escape, negated } => {
                let name = match kind {
                    LikeKind::Like => "LIKE",
                    LikeKind::Similar => "SIMILAR TO",
                    LikeKind::ILike => return Err(unsupported_at(span, "ILIKE")),
                    LikeKind::RLike => return Err(unsupported_at(span, "RLIKE")),
                };
                let mut args = vec![self.bind(expr)?, self.bind(pattern)?];
                if let Some(escape) = escape {
                    args.push(self.bind(escape)?);
                }
                let result = self.call(name, args, span)?;
                self.negate_if(*negated, result, span)
            }
            ExprKind::Quantified { left, op, all, right } => match right.as_ref() {
                ast::QuantifiedSet::List(list) => self.quantified(left, *op, *all, list, span),
                ast::QuantifiedSet::Query(_) => {
                    Err(unsupported_at(span, format!("Subquery in {} ANY or ALL", op.symbol())))
                }
            },
            _ => self.datetime_or_string(e),
        }
    }

    fn is(&self, expr: &ast::Expr, test: IsTest, negated: bool, span: Span) -> Result<Expr> {
        if !matches!(test, IsTest::Null | IsTest::Unknown) {
            refuse_null(expr)?;
        }
        let input = self.bind(expr)?;
        let name = match (test, negated) {
            (IsTest::Null, false) => "IS NULL",
            (IsTest::Null, true) => "IS NOT NULL",
            (IsTest::True, false) => "IS TRUE",
            (IsTest::True, true) => "IS NOT TRUE",
            (IsTest::False, false) => "IS FALSE",
            (IsTest::False, true) => "IS NOT FALSE",
            (IsTest::Unknown, _) => {
                let unknown = self.call("IS UNKNOWN", vec![input], span)?;
                return self.negate_if(negated, unknown, span);
            }
            (IsTest::JsonValue, _) => return self.is_json(input, "VALUE", negated, span),
            (IsTest::JsonObject, _) => return self.is_json(input, "OBJECT", negated, span),
            (IsTest::JsonArray, _) => return self.is_json(input, "ARRAY", negated, span),
            (IsTest::JsonScalar, _) => return self.is_json(input, "SCALAR", negated, span),
            (IsTest::ASet, _) => return Err(unsupported_at(span, "IS A SET")),
            (IsTest::Empty, _) => return Err(unsupported_at(span, "IS EMPTY")),
        };
        self.call(name, vec![input], span)
    }

    fn is_json(&self, input: Expr, kind: &str, negated: bool, span: Span) -> Result<Expr> {
        let result = self.call("IS JSON", vec![input, text_literal(kind)], span)?;
        self.negate_if(negated, result, span)
    }

    fn between(&self, x: &Expr, low: &Expr, high: &Expr, span: Span) -> Result<Expr> {
        let above = self.call(">=", vec![x.clone(), low.clone()], span)?;
        let below = self.call("<=", vec![x.clone(), high.clone()], span)?;
        self.call("AND", vec![above, below], span)
    }

    fn negate_if(&self, negated: bool, expr: Expr, span: Span) -> Result<Expr> {
        if negated { self.call("NOT", vec![expr], span) } else { Ok(expr) }
    }

    /// `x op ANY (a, b)` is `x op a OR x op b`; `ALL` joins by AND.
    fn quantified(&self, left: &ast::Expr, op: BinaryOp, all: bool, list: &[ast::Expr], span: Span) -> Result<Expr> {
        let joined_by = if all { "AND" } else { "OR" };
        let mut result: Option<Expr> = None;
        for item in list {
            let one = self.binary(left, op, item, span)?;
            result = Some(match result {
                None => one,
                Some(before) => self.call(joined_by, vec![before, one], span)?,
            });
        }
        result.ok_or_else(|| invalid_at(span, "ANY or ALL of nothing"))
    }

    fn datetime_or_string(&self, e: &ast::Expr) -> Result<Expr> {
        let span = e.span;
        let optional = |args: &mut Vec<Expr>, e: &Option<Box<ast::Expr>>| -> Result<()> {
            if let Some(e) = e {
                args.push(self.bind(e)?);
            }
            Ok(())
        };
        match &e.kind {
            ExprKind::Extract { expr, .. } | ExprKind::Trim { expr, .. } | ExprKind::Substring { expr, .. }
                if refuse_null(expr).is_err() =>
            {
                Err(invalid_at(expr.span, "Illegal use of 'NULL'"))
            }
            ExprKind::Extract { unit, expr } => {
                self.call("EXTRACT", vec![text_literal(unit.name()), self.bind(expr)?], span)
            }
            ExprKind::RoundTo { ceil, expr, unit } => {
                let name = if *ceil { "CEIL_TO" } else { "FLOOR_TO" };
                self.call(name, vec![self.bind(expr)?, text_literal(unit.name())], span)
            }
            ExprKind::TimestampAdd { unit, count, expr } => {
                let args = vec![text_literal(unit.name()), self.bind(count)?, self.bind(expr)?];
                self.call("TIMESTAMPADD", args, span)
            }
            ExprKind::TimestampDiff { unit, from, to } => {
                let args = vec![text_literal(unit.name()), self.bind(from)?, self.bind(to)?];
                self.call("TIMESTAMPDIFF", args, span)
            }
            ExprKind::Trim { side, chars, expr } => {
                let side = match side {
                    ast::TrimSide::Both => "BOTH",
                    ast::TrimSide::Leading => "LEADING",
                    ast::TrimSide::Trailing => "TRAILING",
                };
                let chars = match chars {
                    Some(chars) => self.bind(chars)?,
                    None => text_literal(" "),
                };
                self.call("TRIM", vec![text_literal(side), chars, self.bind(expr)?], span)
            }
            ExprKind::Substring { expr, start, length } => {
                let mut args = vec![self.bind(expr)?, self.bind(start)?];
                optional(&mut args, length)?;
                self.call("SUBSTRING", args, span)
            }
            ExprKind::Position { needle, expr, start } => {
                let mut args = vec![self.bind(needle)?, self.bind(expr)?];
                optional(&mut args, start)?;
                self.call("POSITION", args, span)
            }
            ExprKind::Overlay { expr, placing, start, length } => {
                let mut args = vec![self.bind(expr)?, self.bind(placing)?, self.bind(start)?];
                optional(&mut args, length)?;
                self.call("OVERLAY", args, span)
            }
            _ => Err(self.refused(e)),
        }
    }

    /// Names what cannot be bound.
    fn refused(&self, e: &ast::Expr) -> Error {
        let construct = match &e.kind {
            ExprKind::InSubquery { negated: false, .. } => "IN (SELECT ...)",
            ExprKind::InSubquery { .. } => "NOT IN (SELECT ...)",
            ExprKind::Exists(_) => "EXISTS (SELECT ...)",
            ExprKind::Unique(_) => "UNIQUE (SELECT ...)",
            ExprKind::Subquery(_) => "A subquery as a value",
            ExprKind::ArrayQuery(_) => "ARRAY(SELECT ...)",
            ExprKind::MapQuery(_) => "MAP(SELECT ...)",
            ExprKind::Multiset(_) => "MULTISET[...]",
            ExprKind::DateTimeDifference { .. } => "(end - start) as an interval",
            ExprKind::AtTimeZone { .. } => "AT TIME ZONE",
            ExprKind::Collate { .. } => "COLLATE",
            ExprKind::Sequence(_) => "NEXT VALUE FOR",
            ExprKind::Default => return invalid_at(e.span, "DEFAULT is not allowed here"),
            ExprKind::Descriptor(_) => return invalid_at(e.span, "DESCRIPTOR is only allowed in a table function"),
            ExprKind::TableArgument(_) => {
                return invalid_at(e.span, "A TABLE argument is only allowed in a table function");
            }
            _ => "This expression",
        };
        unsupported_at(e.span, construct)
    }

    /// Whether `expr`, bound from `e`, is still the time attribute it names. Any call, a CAST to the
    /// same type included, makes plain data of it.
    pub fn time_attribute(&self, e: &ast::Expr, expr: &Expr) -> TimeAttribute {
        match (&e.kind, &expr.node) {
            (ExprKind::Identifier(_), ExprNode::Input(i)) if *i < self.scope.width() => self.scope.column(*i).time,
            (ExprKind::Function(call), _) => match call.name.last().to_uppercase().as_str() {
                "PROCTIME" => TimeAttribute::Proctime,
                "TUMBLE_ROWTIME" | "HOP_ROWTIME" | "SESSION_ROWTIME" => TimeAttribute::Rowtime,
                _ => TimeAttribute::None,
            },
            _ => TimeAttribute::None,
        }
    }
}

/// Flink gives `NULL` a type only where a neighbour has one: in comparisons, `CASE`, `COALESCE`, arrays.
/// Elsewhere it wants `CAST(NULL AS ...)`.
pub fn refuse_null(e: &ast::Expr) -> Result<()> {
    match e.kind {
        ExprKind::Literal(Literal::Null) => Err(invalid_at(e.span, "Illegal use of 'NULL'")),
        _ => Ok(()),
    }
}

/// The value of an integer literal.
pub fn as_int(expr: &Expr) -> Option<i64> {
    match expr.as_literal() {
        Some(Value::Int(n)) => Some(*n),
        _ => None,
    }
}

fn negated(written: &ExprKind, literal: &Expr) -> Option<Expr> {
    let ExprKind::Literal(_) = written else { return None };
    let (value, kind) = match literal.as_literal()? {
        Value::Int(n) => {
            let n = n.checked_neg()?;
            let kind = match literal.ty.kind {
                TypeKind::BigInt if i32::try_from(n).is_ok() => TypeKind::Int,
                ref kind => kind.clone(),
            };
            (Value::Int(n), kind)
        }
        // Digits have no negative zero: `-0e0` is 0.0.
        Value::Double(v) => (Value::Double(0.0 - v), literal.ty.kind.clone()),
        Value::Decimal(v) => (Value::Decimal(-v), literal.ty.kind.clone()),
        _ => return None,
    };
    Some(Expr::literal(value, LogicalType::not_null(kind)))
}
