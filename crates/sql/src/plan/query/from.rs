//! `FROM`: tables, views, derived tables, window functions and `UNNEST`.
//!
//! Which join a join is turns out when all of its conditions are known ([`crate::plan::joins`]). Joins that never run
//! are bound all the same, so that a query with a mistake hears of the mistake, and one without hears by name what
//! is missing.

use std::rc::Rc;

use tidegate_api::error::Result;
use tidegate_api::graph::{self, UnnestSpec};
use tidegate_api::types::{LogicalType, TypeKind};

use super::{Env, rename};
use crate::ast::{
    ExprKind, Hint, Join, JoinConstraint, JoinKind, Literal, MatchRecognize, ObjectName, Pattern, SetExpr, TableAlias,
    TableRef, TableRefKind,
};
use crate::plan::Planner;
use crate::plan::error::{invalid_at, refused_at, unsupported_at};
use crate::plan::expr::{Clause, ExprBinder};
use crate::plan::rel::{self as plan, Column, Rel, RelKind, TimeAttribute, join_columns};
use crate::plan::scope::Scope;

/// A relation and the names of its columns.
type Bound = (Rel, Scope);

impl Planner<'_> {
    pub(super) fn bind_from(&self, from: &[TableRef], env: &Env) -> Result<Bound> {
        let Some((first, others)) = from.split_first() else {
            return Ok((Rel::one_row(), Scope::default()));
        };
        let mut bound = self.bind_table_ref(first, env)?;
        for other in others {
            bound = match &other.kind {
                TableRefKind::Unnest { .. } => self.bind_unnest(bound, other, false, env)?,
                _ => self.bind_plain_join(bound, other, JoinKind::Cross, &JoinConstraint::None, env)?,
            };
        }
        Ok(bound)
    }

    fn bind_table_ref(&self, table: &TableRef, env: &Env) -> Result<Bound> {
        let alias = table.alias.as_ref();
        match &table.kind {
            TableRefKind::Table { name, hints, system_time } => {
                if let Some(time) = system_time {
                    return Err(unsupported_at(time.span, "FOR SYSTEM_TIME AS OF outside of a join"));
                }
                let (rel, full_name) = self.bind_table(name, hints, env)?;
                aliased(rel, full_name, alias)
            }
            TableRefKind::Derived { query, lateral: true } => {
                // Its query may name columns of its neighbours, which nothing here can see.
                Err(unsupported_at(query.span, "LATERAL (SELECT ...)"))
            }
            TableRefKind::Derived { query, lateral: false } => {
                let mut rel = self.bind_query(query, env)?;
                if let (Some(alias), SetExpr::Values(_), [only]) = (alias, &query.body, rel.columns.as_mut_slice()) {
                    only.name.clone_from(&alias.name.value);
                }
                aliased(rel, Vec::new(), alias)
            }
            TableRefKind::Function { call, .. } => aliased(self.bind_table_function(call, env)?, Vec::new(), alias),
            TableRefKind::Unnest { .. } => {
                let start = (Rel::one_row(), Scope::of(Vec::new(), Rel::one_row().columns));
                let (rel, mut scope) = self.bind_unnest(start, table, false, env)?;
                // The row that stood in for the missing left side has a column nobody asked for.
                let keep: Vec<usize> = (1..rel.columns.len()).collect();
                scope.tables.remove(0);
                scope.tables.iter_mut().for_each(|t| t.offset -= 1);
                Ok((rel.select(&keep), scope))
            }
            TableRefKind::Join(join) => self.bind_join(join, env),
            TableRefKind::MatchRecognize(m) => self.refuse_match_recognize(m, env),
            TableRefKind::Pivot { unpivot, .. } => {
                Err(unsupported_at(table.span, if *unpivot { "UNPIVOT" } else { "PIVOT" }))
            }
            TableRefKind::Sample(_) => Err(unsupported_at(table.span, "TABLESAMPLE")),
        }
    }

    /// A table, view or `WITH` table by name, and its full name.
    pub(super) fn bind_table(&self, name: &ObjectName, hints: &[Hint], env: &Env) -> Result<(Rel, Vec<String>)> {
        if let [only] = name.parts.as_slice()
            && let Some(rel) = env.cte(&only.value)
        {
            return Ok((rel.clone(), vec![only.value.clone()]));
        }
        self.bind_catalog_table(name, hints, env)
    }

    fn bind_join(&self, join: &Join, env: &Env) -> Result<Bound> {
        let left = self.bind_table_ref(&join.left, env)?;
        if join.natural {
            return Err(unsupported_at(join.right.span, "NATURAL JOIN"));
        }
        if !matches!(join.right.kind, TableRefKind::Unnest { .. }) {
            return self.bind_plain_join(left, &join.right, join.kind, &join.constraint, env);
        }
        let always = match &join.constraint {
            JoinConstraint::None => true,
            JoinConstraint::On(e) => matches!(e.kind, ExprKind::Literal(Literal::Boolean(true))),
            JoinConstraint::Using(_) => false,
        };
        match join.kind {
            JoinKind::Inner | JoinKind::Cross | JoinKind::CrossApply if always => {
                self.bind_unnest(left, &join.right, false, env)
            }
            JoinKind::Left | JoinKind::OuterApply if always => self.bind_unnest(left, &join.right, true, env),
            JoinKind::Inner => {
                let (rel, scope) = self.bind_unnest(left, &join.right, false, env)?;
                let JoinConstraint::On(on) = &join.constraint else {
                    return Err(unsupported_at(join.right.span, "JOIN UNNEST ... USING"));
                };
                let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::On);
                let filter = binder.condition(on, "ON")?;
                Ok((rel.filtered(filter), scope))
            }
            _ => {
                Err(unsupported_at(join.right.span, "This kind of join with UNNEST (only CROSS, INNER, LEFT ON TRUE)"))
            }
        }
    }

    /// A join of two inputs of which neither depends on the other.
    fn bind_plain_join(
        &self,
        left: Bound,
        right: &TableRef,
        kind: JoinKind,
        constraint: &JoinConstraint,
        env: &Env,
    ) -> Result<Bound> {
        if let JoinConstraint::Using(_) = constraint {
            // It merges columns, so that names in the rest of the query would mean something else.
            return Err(unsupported_at(right.span, "JOIN ... USING"));
        }
        let needs_condition = matches!(kind, JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full);
        if needs_condition && matches!(constraint, JoinConstraint::None) {
            let message = "INNER, LEFT, RIGHT or FULL join requires a condition (ON clause); CROSS JOIN has none.";
            return Err(invalid_at(right.span, message));
        }
        let (left_rel, mut scope) = left;
        let (right_rel, right_scope) = match &right.kind {
            TableRefKind::Table { name, hints, .. } => {
                let (rel, full_name) = self.bind_table(name, hints, env)?;
                aliased(rel, full_name, right.alias.as_ref())?
            }
            _ => self.bind_table_ref(right, env)?,
        };
        let right_from = scope.tables.len();
        for table in right_scope.tables {
            scope.push(table.name, table.columns);
        }
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::On);
        let condition = match constraint {
            JoinConstraint::On(on) => Some(crate::plan::fold(binder.condition(on, "ON")?, self.zone())),
            JoinConstraint::None | JoinConstraint::Using(_) => None,
        };
        if let TableRefKind::Table { system_time: Some(time), .. } = &right.kind {
            binder.bind(time)?;
            self.refuse_temporal_join(right, &right_rel)?;
        }
        let kind = match kind {
            JoinKind::Inner | JoinKind::Cross => graph::JoinKind::Inner,
            JoinKind::Left => graph::JoinKind::Left,
            JoinKind::Right => graph::JoinKind::Right,
            JoinKind::Full => graph::JoinKind::Full,
            JoinKind::LeftSemi => return Err(unsupported_at(right.span, "LEFT SEMI JOIN")),
            JoinKind::LeftAnti => return Err(unsupported_at(right.span, "LEFT ANTI JOIN")),
            JoinKind::CrossApply | JoinKind::OuterApply => return Err(unsupported_at(right.span, "APPLY")),
        };
        for (n, table) in scope.tables.iter_mut().enumerate() {
            let is_padded = if n < right_from { kind.keeps_right() } else { kind.keeps_left() };
            table.columns.iter_mut().for_each(|c| c.ty.nullable |= is_padded);
        }
        let columns = join_columns(&left_rel.columns, &right_rel.columns, kind);
        let (left, right_input) = (Box::new(left_rel), Box::new(right_rel));
        let join = plan::Join { left, right: right_input, kind, condition, span: right.span };
        Ok((Rel { columns, kind: RelKind::Join(join) }, scope))
    }

    /// Refuses a temporal join: with Flink's words if Flink refuses it too, else when the query has been read.
    fn refuse_temporal_join(&self, right: &TableRef, rel: &Rel) -> Result<()> {
        if let RelKind::Scan(table) = &rel.kind
            && table.primary_key.is_empty()
        {
            let message = "Temporal Table Join requires primary key in versioned table, but no primary key can be \
                           found.";
            return Err(refused_at(right.span, message));
        }
        self.refuse_later(unsupported_at(right.span, "A temporal join (FOR SYSTEM_TIME AS OF)"));
        Ok(())
    }

    /// `left, UNNEST(collection) AS u (a, b)`.
    fn bind_unnest(&self, left: Bound, right: &TableRef, outer: bool, env: &Env) -> Result<Bound> {
        let TableRefKind::Unnest { exprs, with_ordinality } = &right.kind else {
            return Err(invalid_at(right.span, "UNNEST expected"));
        };
        let [only] = exprs.as_slice() else {
            return Err(unsupported_at(right.span, "UNNEST of several collections"));
        };
        let (rel, mut scope) = left;
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Other);
        let collection = binder.bind(only)?;
        let mut elements = element_columns(&collection.ty).ok_or_else(|| {
            let ty = crate::plan::error::calcite_type(&collection.ty);
            invalid_at(only.span, format!("Cannot apply 'UNNEST' to arguments of type 'UNNEST(<{ty}>)'."))
        })?;
        if *with_ordinality {
            elements.push(Column::new("ORDINALITY", LogicalType::not_null(TypeKind::Int)));
        }
        if outer {
            elements.iter_mut().for_each(|c| c.ty = c.ty.with_nullable(true));
        }
        let mut name = Vec::new();
        if let Some(alias) = &right.alias {
            if let ([single], true) = (elements.as_mut_slice(), alias.columns.is_empty()) {
                single.name.clone_from(&alias.name.value);
            }
            rename(&mut elements, &alias.columns, alias.name.span)?;
            name.push(alias.name.value.clone());
        }
        let spec = UnnestSpec { collection, with_ordinality: *with_ordinality, outer };
        let mut columns = rel.columns.clone();
        columns.extend(elements.iter().cloned());
        scope.push(name, elements);
        Ok((Rel { columns, kind: RelKind::Unnest { input: Box::new(rel), spec } }, scope))
    }

    /// Says first what Flink would say, then that patterns are not supported.
    fn refuse_match_recognize(&self, m: &MatchRecognize, env: &Env) -> Result<Bound> {
        let (_, scope) = self.bind_table_ref(&m.input, env)?;
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Other);
        for e in &m.partition_by {
            binder.bind(e)?;
        }
        let by_time = match m.order_by.first() {
            None => false,
            Some(first) => {
                let bound = binder.bind(&first.expr)?;
                let time = binder.time_attribute(&first.expr, &bound);
                matches!(time, TimeAttribute::Rowtime | TimeAttribute::Proctime)
            }
        };
        if !by_time {
            let span = m.order_by.first().map_or(m.span, |o| o.expr.span);
            let message = "You must specify either rowtime or proctime for order by as the first one.";
            return Err(refused_at(span, message));
        }
        if m.all_rows == Some(true) {
            return Err(refused_at(m.span, "All rows per match mode is not supported yet."));
        }
        if ends_greedily(&m.pattern) {
            let message = "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your \
                           pattern with either a simple variable or reluctant quantifier.";
            return Err(refused_at(m.span, message));
        }
        Err(unsupported_at(m.span, "MATCH_RECOGNIZE"))
    }
}

/// The columns of one element of a collection.
fn element_columns(collection: &LogicalType) -> Option<Vec<Column>> {
    let of_element = |element: &LogicalType| match &element.kind {
        TypeKind::Row(fields) => {
            fields.iter().map(|f| Column::new(&f.name, f.ty.with_nullable(f.ty.nullable || element.nullable))).collect()
        }
        _ => vec![Column::new("EXPR$0", element.clone())],
    };
    Some(match &collection.kind {
        TypeKind::Array(element) | TypeKind::Multiset(element) => of_element(element),
        TypeKind::Map(key, value) => {
            vec![Column::new("KEY", key.as_ref().clone()), Column::new("VALUE", value.as_ref().clone())]
        }
        _ => return None,
    })
}

/// Names a relation by its alias, else by its own name.
fn aliased(mut rel: Rel, own_name: Vec<String>, alias: Option<&TableAlias>) -> Result<Bound> {
    let mut name = own_name;
    if let Some(alias) = alias {
        rename(&mut rel.columns, &alias.columns, alias.name.span)?;
        name = vec![alias.name.value.clone()];
    }
    let scope = Scope::of(name, rel.columns.clone());
    Ok((rel, scope))
}

fn ends_greedily(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Concat(parts) => parts.last().is_some_and(ends_greedily),
        Pattern::Group(inner) => ends_greedily(inner),
        Pattern::Quantified { min, max, reluctant, .. } => !reluctant && *max != Some(*min),
        _ => false,
    }
}

impl Planner<'_> {
    /// A scan of a table that has been looked up.
    pub(in crate::plan) fn scan(&self, table: Rc<crate::plan::table::ResolvedTable>) -> Rel {
        let columns = table.columns.iter().map(|c| Column { name: c.name.clone(), ty: c.ty.clone(), time: c.time });
        Rel { columns: columns.collect(), kind: RelKind::Scan(table) }
    }
}
