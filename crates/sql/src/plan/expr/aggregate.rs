//! Aggregate calls on their way out of an expression.
//!
//! `SUM(a) / COUNT(*) + 1` is one expression and two aggregates. The binder puts each aggregate into
//! the [`Collector`] and leaves a placeholder, column `width + n` of the scope, in the expression.

use std::cell::RefCell;

use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::WindowSpec;

use super::{Clause, ExprBinder, resolve_error};
use crate::aggregates;
use crate::ast::{self, Span};
use crate::functions::{self, ResolveError};
use crate::plan::error::{invalid_at, signature};

/// An aggregate call whose arguments are still expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingAggregate {
    /// Upper-case name.
    pub function: String,
    /// Arguments over the scope.
    pub args: Vec<Expr>,
    /// Constant parameters.
    pub params: Vec<Value>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER (WHERE ..)`.
    pub filter: Option<Expr>,
    /// Result type.
    pub ty: LogicalType,
}

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Extra {
    /// The result of an aggregate.
    Aggregate(PendingAggregate),
    /// `GROUPING(a, b)`: keys by position.
    Grouping(Vec<usize>),
    /// `TUMBLE_START(..)` and its kin.
    WindowStart,
    /// `TUMBLE_END(..)` and its kin.
    WindowEnd,
    /// `TUMBLE_ROWTIME(..)` and its kin.
    WindowTime,
}

/// `GROUP BY TUMBLE(ts, INTERVAL ..)`.
#[derive(Clone, Debug, PartialEq)]
pub struct LegacyWindow {
    /// `TUMBLE`, `HOP` or `SESSION`.
    pub name: String,
    /// The arguments, which the auxiliary functions must repeat.
    pub args: Vec<Expr>,
    /// The window.
    pub window: WindowSpec,
    /// The rowtime column.
    pub time_column: usize,
    /// Its type.
    pub time_type: LogicalType,
}

/// The aggregates of one `SELECT`, and what it groups by.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    /// Columns of the scope; placeholders start here.
    pub width: usize,
    /// Group keys over the scope.
    pub keys: Vec<Expr>,
    /// The window in `GROUP BY`, in the legacy form.
    pub legacy: Option<LegacyWindow>,
    /// What the placeholders stand for.
    pub extras: Vec<Extra>,
}

impl Collector {
    /// The placeholder of `extra`; equal ones share it.
    pub fn placeholder(&mut self, extra: Extra, ty: LogicalType) -> Expr {
        let n = self.extras.iter().position(|e| *e == extra).unwrap_or_else(|| {
            self.extras.push(extra);
            self.extras.len() - 1
        });
        Expr::input(self.width + n, ty)
    }
}

impl ExprBinder<'_> {
    /// The collector, or Flink's words for why there can be none here.
    pub(super) fn collector(&self, span: Span) -> Result<&RefCell<Collector>> {
        let message = match (self.collector, self.clause) {
            (Some(collector), _) => return Ok(collector),
            (None, Clause::Where) => "Aggregate expression is illegal in WHERE clause",
            (None, Clause::GroupBy) => "Aggregate expression is illegal in GROUP BY clause",
            (None, Clause::On) => "Aggregate expression is illegal in ON clause",
            (None, Clause::Aggregate) => "Aggregate expressions cannot be nested",
            (None, _) => "Aggregate expression is illegal here",
        };
        Err(invalid_at(span, message))
    }

    /// `f([DISTINCT] args) [FILTER ..]`.
    pub(super) fn aggregate(&self, name: &str, call: &ast::FunctionCall, span: Span) -> Result<Expr> {
        let distinct = call.quantifier == Some(ast::SetQuantifier::Distinct);
        let args: Vec<&ast::Expr> = call.args.iter().map(|a| &a.value).collect();
        if args.is_empty() && !call.star && name == "COUNT" {
            let message = "Invalid number of arguments to function 'COUNT'. Was expecting 1 arguments";
            return Err(invalid_at(span, message));
        }
        self.collect_aggregate(name, &args, Vec::new(), distinct, call.filter.as_ref(), span)
    }

    /// Puts an aggregate into the collector.
    pub(super) fn collect_aggregate(
        &self,
        name: &str,
        args: &[&ast::Expr],
        mut params: Vec<Value>,
        distinct: bool,
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Expr> {
        let collector = self.collector(span)?;
        let inner = self.within(Clause::Aggregate);
        let mut bound = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            super::refuse_null(arg)?;
            let expr = inner.bind(arg)?;
            if i == 1 && matches!(name, "LISTAGG" | "PERCENTILE") {
                params.push(self.parameter(name, expr, arg.span)?);
            } else {
                bound.push(crate::plan::fold(expr, self.zone));
            }
        }
        let filter = filter.map(|f| inner.condition(f, "FILTER")).transpose()?;
        let types: Vec<LogicalType> = bound.iter().map(|e| e.ty.clone()).collect();
        let ty =
            aggregates::resolve(name, &types, &params, distinct).map_err(|e| aggregate_error(e, name, &types, span))?;
        // Over no rows, or with a filter that no row passes, everything but a count is NULL.
        let no_rows = collector.borrow().keys.is_empty() && collector.borrow().legacy.is_none();
        let ty = match name {
            "COUNT" => ty,
            "COLLECT" | "ARRAY_AGG" => ty.with_nullable(filter.is_some()),
            _ if no_rows || filter.is_some() => ty.with_nullable(true),
            "SUM" | "MIN" | "MAX" | "AVG" | "STDDEV_POP" | "VAR_POP" | "VAR_SAMP" | "FIRST_VALUE" | "LAST_VALUE" => {
                let of_nullable = types.first().is_none_or(|t| t.nullable);
                ty.with_nullable(of_nullable)
            }
            _ => ty,
        };
        let pending = PendingAggregate { function: name.into(), args: bound, params, distinct, filter, ty: ty.clone() };
        Ok(collector.borrow_mut().placeholder(Extra::Aggregate(pending), ty))
    }

    /// The constant second argument of `LISTAGG` and `PERCENTILE`; fractions become DOUBLE.
    fn parameter(&self, name: &str, expr: Expr, span: Span) -> Result<Value> {
        let double = LogicalType::new(TypeKind::Double);
        let expr = match (name, &expr.ty.kind) {
            ("PERCENTILE", TypeKind::Array(_)) => {
                let doubles = LogicalType::new(TypeKind::Array(Box::new(double)));
                functions::cast(expr, &doubles, false)
            }
            ("PERCENTILE", _) => functions::cast(expr, &double, false),
            _ => Ok(expr),
        };
        let expr = crate::plan::fold(expr.map_err(|m| invalid_at(span, m))?, self.zone);
        let what = if name == "LISTAGG" { "separator" } else { "fraction" };
        let constant = expr.as_literal().cloned();
        constant.ok_or_else(|| invalid_at(span, format!("The {what} of {name} must be a literal")))
    }

    /// `GROUPING(a, b)` and `GROUPING_ID(a, b)`.
    pub(super) fn grouping(&self, call: &ast::FunctionCall, span: Span) -> Result<Expr> {
        let collector = self.collector(span)?;
        let inner = self.within(Clause::Aggregate);
        let mut keys = Vec::new();
        for arg in &call.args {
            let expr = inner.bind(&arg.value)?;
            let Some(key) = collector.borrow().keys.iter().position(|k| *k == expr) else {
                let name = call.name.last().to_uppercase();
                let message = format!("Argument to operator '{name}' must be a grouped expression");
                return Err(invalid_at(arg.value.span, message));
            };
            keys.push(key);
        }
        let ty = LogicalType::not_null(TypeKind::BigInt);
        Ok(collector.borrow_mut().placeholder(Extra::Grouping(keys), ty))
    }

    /// `TUMBLE_START(ts, INTERVAL ..)` and its kin.
    pub(super) fn window_auxiliary(&self, name: &str, call: &ast::FunctionCall, span: Span) -> Result<Expr> {
        let (window, part) = name.split_once('_').unwrap_or((name, ""));
        let mismatch = || {
            let message = format!(
                "Call to auxiliary group function '{name}' must have matching call to group function '${window}' \
                 in GROUP BY clause"
            );
            invalid_at(span, message)
        };
        let Some(collector) = self.collector else { return Err(mismatch()) };
        let inner = self.within(Clause::Aggregate);
        let args: Result<Vec<Expr>> = call.args.iter().map(|a| inner.bind(&a.value)).collect();
        let args = args?;
        let legacy = collector.borrow().legacy.clone();
        let legacy = legacy.filter(|l| l.name == window && l.args == args).ok_or_else(mismatch)?;
        let local = LogicalType::not_null(TypeKind::Timestamp(3));
        let (extra, ty) = match part {
            "START" => (Extra::WindowStart, local),
            "END" => (Extra::WindowEnd, local),
            "ROWTIME" => (Extra::WindowTime, window_time_type(&legacy.time_type)),
            _ => return Err(crate::plan::error::unsupported_at(span, format!("{name} (processing time)"))),
        };
        Ok(collector.borrow_mut().placeholder(extra, ty))
    }
}

fn aggregate_error(error: ResolveError, name: &str, args: &[LogicalType], span: Span) -> Error {
    match error {
        ResolveError::BadArguments(why) => {
            let form = signature(name, args);
            invalid_at(span, format!("Cannot apply '{name}' to arguments of type '{form}'. {why}"))
        }
        unknown => resolve_error(unknown, name, args, span),
    }
}

/// The type of `window_time` for a rowtime of this type: millisecond precision, same family.
pub fn window_time_type(rowtime: &LogicalType) -> LogicalType {
    match rowtime.kind {
        TypeKind::TimestampLtz(_) => LogicalType::not_null(TypeKind::TimestampLtz(3)),
        _ => LogicalType::not_null(TypeKind::Timestamp(3)),
    }
}
