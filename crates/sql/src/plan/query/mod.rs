//! Queries: common table expressions, set operations, `VALUES`, and what streaming mode refuses.

mod from;
mod grouping;
mod select;
mod tvf;
mod values;

use tidegate_api::error::Result;
use tidegate_api::types::LogicalType;

use super::Planner;
use super::error::{invalid_at, refused_at, unsupported_at};
use super::rel::{Column, Rel, RelKind, TimeAttribute};
use super::scope::uniquify;
use crate::ast::{self, ExprKind, SetExpr, SetOp, Span};
use crate::functions;

/// What a query can see besides its own `FROM`: where names start, and the tables of `WITH`.
#[derive(Clone, Debug)]
pub struct Env {
    /// Catalog of names without one.
    pub catalog: String,
    /// Database of names without one.
    pub database: String,
    /// `WITH` tables, the innermost last.
    pub ctes: Vec<(String, Rel)>,
    /// Views being expanded, against views that read themselves.
    pub views: Vec<String>,
}

impl Env {
    /// The `WITH` table of that name.
    pub fn cte(&self, name: &str) -> Option<&Rel> {
        self.ctes.iter().rev().find(|(n, _)| n == name).map(|(_, rel)| rel)
    }
}

impl Planner<'_> {
    /// A whole query.
    pub(super) fn bind_query(&self, query: &ast::Query, env: &Env) -> Result<Rel> {
        if query.recursive {
            return Err(unsupported_at(query.span, "WITH RECURSIVE"));
        }
        let mut inner = env.clone();
        for cte in &query.ctes {
            let mut rel = self.bind_query(&cte.query, &inner)?;
            rename(&mut rel.columns, &cte.columns, cte.name.span)?;
            inner.ctes.push((cte.name.value.clone(), rel));
        }
        let rel = self.bind_set_expr(&query.body, &inner)?;
        self.refuse_ordering(query, &rel)?;
        Ok(rel)
    }

    fn bind_set_expr(&self, body: &SetExpr, env: &Env) -> Result<Rel> {
        match body {
            SetExpr::Select(select) => self.bind_select(select, env),
            SetExpr::Values(values) => self.bind_values(values, env),
            SetExpr::Table(name) => Ok(self.bind_table(name, &[], env)?.0),
            SetExpr::Nested(query) => self.bind_query(query, env),
            SetExpr::SetOp { left, op, all, right, span } => {
                let name = match (op, all) {
                    (SetOp::Union, true) => "UNION ALL",
                    (SetOp::Union, false) => "UNION",
                    (SetOp::Intersect, true) => "INTERSECT ALL",
                    (SetOp::Intersect, false) => "INTERSECT",
                    (SetOp::Except, true) => "EXCEPT ALL",
                    (SetOp::Except, false) => "EXCEPT",
                };
                let left = self.bind_set_expr(left, env)?;
                let right = self.bind_set_expr(right, env)?;
                if *op != SetOp::Union {
                    return Err(unsupported_at(*span, name));
                }
                let union = union_all(left, right, name, *span)?;
                if *all { Ok(union) } else { self.distinct(union) }
            }
        }
    }

    /// `ORDER BY`, `LIMIT` and `OFFSET`: none of them runs yet; most orders Flink refuses as well.
    fn refuse_ordering(&self, query: &ast::Query, rel: &Rel) -> Result<()> {
        let limited = query.limit.as_ref().or(query.offset.as_ref());
        if let Some(first) = query.order_by.first() {
            if limited.is_some() {
                return Err(unsupported_at(first.expr.span, "ORDER BY with LIMIT or OFFSET (Top-N)"));
            }
            let by_rowtime = match &first.expr.kind {
                ExprKind::Identifier(parts) => {
                    let name = parts.last().map_or("", |p| p.value.as_str());
                    rel.columns.iter().any(|c| c.name == name && c.time == TimeAttribute::Rowtime)
                }
                _ => false,
            };
            return Err(if by_rowtime && !first.descending {
                unsupported_at(first.expr.span, "ORDER BY a time attribute (temporal sort)")
            } else {
                refused_at(first.expr.span, "Sort on a non-time-attribute field is not supported.")
            });
        }
        match limited {
            Some(e) => Err(unsupported_at(e.span, "LIMIT or OFFSET")),
            None => Ok(()),
        }
    }
}

/// Gives columns the names of an alias list, which must name all of them.
pub(super) fn rename(columns: &mut [Column], names: &[ast::Ident], span: Span) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != columns.len() {
        let have: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let message = format!(
            "List of column aliases must have same degree as table; table has {} columns ('{}'), whereas alias \
             list has {} columns",
            columns.len(),
            have.join("', '"),
            names.len()
        );
        return Err(invalid_at(span, message));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(&name.value);
    }
    Ok(())
}

/// `left UNION ALL right`: each column in the type both sides can have. A column stays a rowtime if
/// it is one on both sides.
fn union_all(left: Rel, right: Rel, name: &str, span: Span) -> Result<Rel> {
    if left.columns.len() != right.columns.len() {
        return Err(invalid_at(span, format!("Column count mismatch in {name}")));
    }
    let mut columns = Vec::with_capacity(left.columns.len());
    for (i, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
        let types: [LogicalType; 2] = [l.ty.clone(), r.ty.clone()];
        let Some(ty) = functions::least_restrictive_type(&types) else {
            return Err(invalid_at(span, format!("Type mismatch in column {} of {name}", i + 1)));
        };
        let time = if l.time == r.time { l.time } else { TimeAttribute::None };
        columns.push(Column { name: l.name.clone(), ty, time });
    }
    let left = coerce(left, &columns, span)?;
    let right = coerce(right, &columns, span)?;
    let mut inputs = Vec::new();
    for side in [left, right] {
        match side.kind {
            RelKind::Union(parts) => inputs.extend(parts),
            _ => inputs.push(side),
        }
    }
    Ok(Rel { columns, kind: RelKind::Union(inputs) })
}

/// `rel` with each column cast to the type it has in `columns`.
pub(super) fn coerce(rel: Rel, columns: &[Column], span: Span) -> Result<Rel> {
    let same = rel.columns.iter().zip(columns).all(|(have, want)| have.ty.kind == want.ty.kind);
    if same {
        return Ok(rel);
    }
    if let RelKind::Union(inputs) = rel.kind {
        let inputs = inputs.into_iter().map(|input| coerce(input, columns, span)).collect::<Result<_>>()?;
        let retyped = rel.columns.into_iter().zip(columns);
        let columns = retyped.map(|(have, want)| Column { ty: want.ty.with_nullable(have.ty.nullable), ..have });
        return Ok(Rel { columns: columns.collect(), kind: RelKind::Union(inputs) });
    }
    let mut projection = Vec::with_capacity(columns.len());
    for (i, want) in columns.iter().enumerate() {
        let expr = rel.input_expr(i);
        let nullable = expr.ty.nullable;
        let expr = functions::cast(expr, &want.ty, false).map_err(|m| invalid_at(span, m))?;
        let column = Column { ty: expr.ty.with_nullable(nullable), ..want.clone() };
        projection.push((expr, column));
    }
    Ok(rel.calc(None, projection))
}

/// Named, unique columns of a projection.
pub(super) fn named(mut columns: Vec<Column>) -> Vec<Column> {
    uniquify(&mut columns);
    columns
}
