//! `SELECT`: from the `FROM` clause to the named columns of the result.

use std::cell::RefCell;

use tidegate_api::error::Result;
use tidegate_api::expr::Expr;
use tidegate_api::types::TypeKind;

use super::{Env, named};
use crate::ast::{self, ExprKind, Ident, SelectItem, SetQuantifier};
use crate::plan::Planner;
use crate::plan::error::{invalid_at, refused_at, unsupported_at};
use crate::plan::expr::{Clause, Collector, ExprBinder, NamedColumn, refuse_null};
use crate::plan::rel::{Column, Rel, TimeAttribute};
use crate::plan::scope::Scope;

/// An item of the select list, bound over the `FROM` clause and the collector's placeholders.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The value.
    pub expr: Expr,
    /// Its name.
    pub name: String,
    /// Its time attribute, as far as the `FROM` clause decides it.
    pub time: TimeAttribute,
    /// Columns it named outside of aggregates.
    pub named: Vec<NamedColumn>,
}

impl Planner<'_> {
    pub(super) fn bind_select(&self, select: &ast::Select, env: &Env) -> Result<Rel> {
        if let Some(hint) = select.hints.iter().find(|hint| hint.name.value.eq_ignore_ascii_case("STATE_TTL")) {
            let message = "The STATE_TTL hint is not supported by Tidegate yet. 'table.exec.state.ttl' sets one time for \
                           all operators.";
            return Err(refused_at(hint.name.span, message));
        }
        if let Some(qualify) = &select.qualify {
            return Err(unsupported_at(qualify.span, "QUALIFY"));
        }
        if let Some((name, _)) = select.windows.first() {
            return Err(unsupported_at(name.span, "The WINDOW clause"));
        }
        let (mut rel, scope) = self.bind_from(&select.from, env)?;
        if let Some(condition) = &select.selection {
            let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Where);
            let filter = binder.condition(condition, "WHERE")?;
            rel = rel.filtered(crate::plan::fold(filter, self.zone()));
        }
        let collector = RefCell::new(Collector { width: scope.width(), ..Collector::default() });
        let groups = match &select.group_by {
            Some(group_by) => Some(self.bind_group_by(group_by, &scope, &collector, env)?),
            None => None,
        };
        let items = self.bind_items(&select.projection, &scope, &collector, env)?;
        let having = match &select.having {
            Some(condition) => Some(self.bind_having(condition, &scope, &collector, env)?),
            None => None,
        };
        let collector = collector.into_inner();
        let aggregated = groups.is_some() || having.is_some() || !collector.extras.is_empty();
        let result = if aggregated {
            self.aggregate(rel, collector, groups.unwrap_or_default(), items, having)?
        } else {
            project(rel, items, self.zone())
        };
        match select.quantifier {
            Some(SetQuantifier::Distinct) => self.distinct(result),
            _ => Ok(result),
        }
    }

    fn bind_having(
        &self,
        condition: &ast::Expr,
        scope: &Scope,
        collector: &RefCell<Collector>,
        env: &Env,
    ) -> Result<Item> {
        let binder = self.collecting(scope, collector, env);
        let expr = binder.condition(condition, "HAVING")?;
        let named = binder.named.take();
        Ok(Item { expr, name: String::new(), time: TimeAttribute::None, named })
    }

    /// A binder for the select list and `HAVING`.
    fn collecting<'e>(&'e self, scope: &'e Scope, collector: &'e RefCell<Collector>, env: &'e Env) -> ExprBinder<'e> {
        let mut binder = ExprBinder::new(scope, self.zone(), &env.database, Clause::Select);
        binder.collector = Some(collector);
        binder
    }

    fn bind_items(
        &self,
        projection: &[SelectItem],
        scope: &Scope,
        collector: &RefCell<Collector>,
        env: &Env,
    ) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for item in projection {
            let ordinal = items.len();
            match item {
                SelectItem::Wildcard(span) => {
                    if scope.tables.is_empty() {
                        return Err(invalid_at(*span, "SELECT * requires a FROM clause"));
                    }
                    items.extend((0..scope.width()).map(|i| column_item(scope, i, *span)));
                }
                SelectItem::QualifiedWildcard(name, span) => {
                    items.extend(self.qualified_wildcard(name, *span, scope, env)?);
                }
                SelectItem::Expr { expr, alias } => {
                    let binder = self.collecting(scope, collector, env);
                    refuse_null(expr)?;
                    let bound = binder.bind(expr)?;
                    let time = binder.time_attribute(expr, &bound);
                    let name = match alias {
                        Some(alias) => alias.value.clone(),
                        None => derived_name(expr).unwrap_or_else(|| format!("EXPR${ordinal}")),
                    };
                    items.push(Item { expr: bound, name, time, named: binder.named.take() });
                }
            }
        }
        Ok(items)
    }

    /// `t.*`, or the fields of a row column.
    fn qualified_wildcard(
        &self,
        name: &ast::ObjectName,
        span: ast::Span,
        scope: &Scope,
        env: &Env,
    ) -> Result<Vec<Item>> {
        if let Some(table) = scope.table(&name.parts) {
            let columns = table.offset..table.offset + table.columns.len();
            return Ok(columns.map(|i| column_item(scope, i, span)).collect());
        }
        let binder = ExprBinder::new(scope, self.zone(), &env.database, Clause::Select);
        let unknown = || invalid_at(name.span(), format!("Unknown identifier '{name}'"));
        let row = ast::Expr::new(ExprKind::Identifier(name.parts.clone()), name.span());
        let TypeKind::Row(fields) = binder.bind(&row).map_err(|_| unknown())?.ty.kind else {
            return Err(unknown());
        };
        let mut items = Vec::new();
        for field in fields {
            let mut parts = name.parts.clone();
            parts.push(Ident { value: field.name.clone(), span, quoted: true });
            let binder = ExprBinder::new(scope, self.zone(), &env.database, Clause::Select);
            let expr = binder.bind(&ast::Expr::new(ExprKind::Identifier(parts), span))?;
            let named = binder.named.take();
            items.push(Item { expr, name: field.name, time: TimeAttribute::None, named });
        }
        Ok(items)
    }
}

/// Column `i` of the scope as an item, for `*`.
fn column_item(scope: &Scope, i: usize, span: ast::Span) -> Item {
    let column = scope.column(i);
    Item {
        expr: Expr::input(i, column.ty.clone()),
        name: column.name.clone(),
        time: column.time,
        named: vec![NamedColumn { column: i, text: column.name.clone(), span }],
    }
}

/// The name an expression gives to its column: the last part of a name, else none.
fn derived_name(e: &ast::Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Identifier(parts) => parts.last().map(|p| p.value.clone()),
        ExprKind::Field { name, .. } => Some(name.value.clone()),
        _ => None,
    }
}

/// A projection without aggregates.
fn project(rel: Rel, items: Vec<Item>, zone: &str) -> Rel {
    let columns =
        named(items.iter().map(|i| Column { name: i.name.clone(), ty: i.expr.ty.clone(), time: i.time }).collect());
    let projection: Vec<(Expr, Column)> = items
        .into_iter()
        .zip(columns)
        .map(|(item, mut column)| {
            let expr = crate::plan::fold(item.expr, zone);
            column.ty = expr.ty.clone();
            (expr, column)
        })
        .collect();
    rel.calc(None, projection)
}
