//! `GROUP BY`: keys, grouping sets, and which kind of aggregate it becomes.
//!
//! The input is first projected to keys and arguments. Several grouping sets copy each row once per
//! set, absent keys NULL, plus the number of the set as one more key. If the keys hold both bounds
//! of a window the input carries, the aggregate is a window aggregate and final; else it is a
//! changelog that never ends.

use std::cell::RefCell;

use tidegate_api::error::Result;
use tidegate_api::expr::{AggregateCall, Expr, ExprNode};
use tidegate_api::graph::WindowInput;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::select::Item;
use super::{Env, named};
use crate::ast::{self, ExprKind, GroupItem, Span};
use crate::functions;
use crate::plan::Planner;
use crate::plan::error::{invalid_at, refused_at, unsupported_at};
use crate::plan::explain;
use crate::plan::expr::{Clause, Collector, ExprBinder, Extra, PendingAggregate};
use crate::plan::rel::{Column, Rel, RelKind, TimeAttribute, WindowAggregate};
use crate::plan::scope::Scope;
use crate::plan::window::{self, window_columns, window_properties};

/// The grouping sets of a `GROUP BY`: for each, the positions of its keys in the collector.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// At least one.
    pub sets: Vec<Vec<usize>>,
    /// Where.
    pub span: Span,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { sets: vec![Vec::new()], span: Span::default() }
    }
}

/// The aggregate's input and what of it is what.
struct Prepared {
    rel: Rel,
    /// Key columns; the set's number is the last of them if there are several sets.
    keys: Vec<usize>,
    aggregates: Vec<AggregateCall>,
    /// Rowtime column of a legacy window.
    time_column: Option<usize>,
}

/// The aggregate and where its results are.
struct Built {
    rel: Rel,
    /// Output column of each key of [`Prepared::keys`].
    keys: Vec<usize>,
    /// Output column of the first aggregate.
    aggregates: usize,
    /// Output column of `window_start`, if there is a window.
    window: Option<usize>,
}

impl Planner<'_> {
    /// Binds the keys into the collector and lists the grouping sets.
    pub(super) fn bind_group_by(
        &self,
        group_by: &ast::GroupBy,
        scope: &Scope,
        collector: &RefCell<Collector>,
        env: &Env,
    ) -> Result<Groups> {
        let binder = ExprBinder::new(scope, self.zone(), &env.database, Clause::GroupBy);
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for item in &group_by.items {
            let alternatives = self.group_item(item, &binder, collector)?;
            sets = sets.iter().flat_map(|set| alternatives.iter().map(move |more| merged(set, more))).collect();
        }
        if group_by.quantifier == Some(ast::SetQuantifier::Distinct) {
            let mut seen = Vec::new();
            sets.retain(|set| {
                !seen.contains(set) && {
                    seen.push(set.clone());
                    true
                }
            });
        }
        Ok(Groups { sets, span: group_by.span })
    }

    fn group_item(
        &self,
        item: &GroupItem,
        binder: &ExprBinder<'_>,
        collector: &RefCell<Collector>,
    ) -> Result<Vec<Vec<usize>>> {
        let key = |e: &ast::Expr| -> Result<usize> {
            let expr = binder.bind(e)?;
            let keys = &mut collector.borrow_mut().keys;
            Ok(keys.iter().position(|k| *k == expr).unwrap_or_else(|| {
                keys.push(expr);
                keys.len() - 1
            }))
        };
        let tuple = |exprs: &[ast::Expr]| -> Result<Vec<usize>> { exprs.iter().map(&key).collect() };
        Ok(match item {
            GroupItem::Expr(e) => {
                if let Some(legacy) = self.legacy_window(e, binder)? {
                    if collector.borrow_mut().legacy.replace(legacy).is_some() {
                        let message = "Multiple window functions in GROUP BY are not supported.";
                        return Err(refused_at(e.span, message));
                    }
                    return Ok(vec![Vec::new()]);
                }
                match &e.kind {
                    ExprKind::Row { fields, explicit: false } => vec![tuple(fields)?],
                    _ => vec![vec![key(e)?]],
                }
            }
            GroupItem::Empty(_) => vec![Vec::new()],
            GroupItem::Tuple(exprs, _) => vec![tuple(exprs)?],
            GroupItem::GroupingSets(items, _) => {
                let mut sets = Vec::new();
                for item in items {
                    sets.extend(self.group_item(item, binder, collector)?);
                }
                sets
            }
            GroupItem::Rollup(elements, _) => {
                let elements: Vec<Vec<usize>> = elements.iter().map(|e| tuple(e)).collect::<Result<_>>()?;
                (0..=elements.len()).rev().map(|n| elements[..n].concat()).collect()
            }
            GroupItem::Cube(elements, span) => {
                let elements: Vec<Vec<usize>> = elements.iter().map(|e| tuple(e)).collect::<Result<_>>()?;
                if elements.len() > 12 {
                    return Err(invalid_at(*span, "CUBE of more than 12 elements"));
                }
                let n = elements.len();
                // The first element is the highest bit, so that the full set comes first.
                let chosen = |mask: usize| {
                    let parts = (0..n).filter(|i| mask >> (n - 1 - i) & 1 == 1).map(|i| elements[i].clone());
                    parts.collect::<Vec<_>>().concat()
                };
                (0..1usize << n).rev().map(chosen).collect()
            }
        })
    }

    /// `SELECT DISTINCT`, `UNION`.
    pub(super) fn distinct(&self, rel: Rel) -> Result<Rel> {
        let width = rel.columns.len();
        let collector = Collector { width, keys: rel.identity(), ..Collector::default() };
        let items = (0..width)
            .map(|i| Item {
                expr: rel.input_expr(i),
                name: rel.columns[i].name.clone(),
                time: rel.columns[i].time,
                named: Vec::new(),
            })
            .collect();
        let groups = Groups { sets: vec![(0..width).collect()], span: Span::default() };
        self.aggregate(rel, collector, groups, items, None)
    }

    /// Aggregates `rel`, then filters by `having` and projects to `items`.
    pub(super) fn aggregate(
        &self,
        rel: Rel,
        collector: Collector,
        groups: Groups,
        items: Vec<Item>,
        having: Option<Item>,
    ) -> Result<Rel> {
        let prepared = self.prepare(rel, &collector, &groups)?;
        let set_key = prepared.keys.len() > collector.keys.len();
        let built = self.build_aggregate(prepared, &collector, &groups)?;
        let keys: Vec<Expr> = built.keys.iter().map(|&c| built.rel.input_expr(c)).collect();
        let set_number = if set_key { keys.last().cloned() } else { None };
        let mut extras = Vec::with_capacity(collector.extras.len());
        let mut next = built.aggregates;
        for extra in &collector.extras {
            let window = |offset: usize| built.window.map(|w| built.rel.input_expr(w + offset));
            extras.push(match extra {
                Extra::Aggregate(_) => {
                    next += 1;
                    built.rel.input_expr(next - 1)
                }
                Extra::Grouping(args) => self.grouping_value(args, &groups, set_number.as_ref())?,
                Extra::WindowStart => window(0).unwrap_or_else(crate::plan::expr::null_literal),
                Extra::WindowEnd => window(1).unwrap_or_else(crate::plan::expr::null_literal),
                Extra::WindowTime => window(2).unwrap_or_else(crate::plan::expr::null_literal),
            });
        }
        let lift = |item: &Item| lift(item, &collector, &keys, &extras);
        let mut rel = built.rel;
        if let Some(having) = &having {
            let filter = crate::plan::fold(lift(having)?, self.zone());
            rel = rel.filtered(filter);
        }
        let mut projection = Vec::with_capacity(items.len());
        for item in &items {
            let expr = crate::plan::fold(lift(item)?, self.zone());
            let time = match expr.node {
                ExprNode::Input(i) if item.time == TimeAttribute::Rowtime => rel.columns[i].time,
                _ => TimeAttribute::None,
            };
            let column = Column { name: item.name.clone(), ty: expr.ty.clone(), time };
            projection.push((expr, column));
        }
        let (exprs, columns): (Vec<Expr>, Vec<Column>) = projection.into_iter().unzip();
        Ok(rel.calc(None, exprs.into_iter().zip(named(columns)).collect()))
    }

    /// Projects to keys and arguments, and expands grouping sets.
    fn prepare(&self, rel: Rel, collector: &Collector, groups: &Groups) -> Result<Prepared> {
        let key_count = collector.keys.len();
        let several = groups.sets.len() > 1 || groups.sets[0].len() < key_count;
        let mut pre: Vec<(Expr, Column)> = Vec::new();
        for (i, key) in collector.keys.iter().enumerate() {
            pre.push(pre_column(&rel, crate::plan::fold(key.clone(), self.zone()), i));
        }
        // A key is NULL in the sets it is not in, an argument never: they share no column then.
        let shared_from = if several { key_count } else { 0 };
        let mut column_of = |rel: &Rel, expr: &Expr| -> usize {
            let expr = crate::plan::fold(expr.clone(), self.zone());
            let found = pre.iter().skip(shared_from).position(|(e, _)| *e == expr);
            found.map_or_else(
                || {
                    pre.push(pre_column(rel, expr, pre.len()));
                    pre.len() - 1
                },
                |i| i + shared_from,
            )
        };
        let time_column = collector
            .legacy
            .as_ref()
            .map(|legacy| column_of(&rel, &Expr::input(legacy.time_column, legacy.time_type.clone())));
        let mut aggregates = Vec::new();
        for extra in &collector.extras {
            let Extra::Aggregate(call) = extra else { continue };
            let args: Vec<usize> = call.args.iter().map(|a| column_of(&rel, a)).collect();
            let filter = call.filter.as_ref().map(|f| column_of(&rel, f));
            let meaning = explain::meaning(call, &rel.columns);
            aggregates.push(aggregate_call(call, args, filter, aggregates.len(), meaning));
        }
        let mut keys: Vec<usize> = (0..key_count).collect();
        let mut rel = rel.calc(None, pre);
        if several {
            if collector.legacy.is_some() {
                return Err(unsupported_at(groups.span, "GROUPING SETS with a legacy group window"));
            }
            keys.push(rel.columns.len());
            rel = expand(rel, &groups.sets, key_count);
        }
        Ok(Prepared { rel, keys, aggregates, time_column })
    }

    fn build_aggregate(&self, prepared: Prepared, collector: &Collector, groups: &Groups) -> Result<Built> {
        let Prepared { rel, keys, aggregates, time_column } = prepared;
        if let (Some(legacy), Some(time)) = (&collector.legacy, time_column) {
            window::check_emit_options(self.config, true, groups.span)?;
            let aggregate = WindowAggregate {
                input: Box::new(rel),
                window: legacy.window.clone(),
                source: WindowInput::TimeColumn(time),
                keys,
                aggregates,
                legacy: true,
            };
            return Ok(window_built(aggregate, None));
        }
        if let Some(properties) = window_properties(&rel) {
            let start = keys.iter().copied().find(|k| properties.start.contains(k));
            let end = keys.iter().copied().find(|k| properties.end.contains(k));
            if let (Some(start), Some(end)) = (start, end) {
                window::check_emit_options(self.config, false, groups.span)?;
                window::check_multiples(&properties.window, groups.span)?;
                let aggregate = WindowAggregate {
                    input: Box::new(rel),
                    window: properties.window.clone(),
                    source: WindowInput::Attached { start, end },
                    keys,
                    aggregates,
                    legacy: false,
                };
                return Ok(window_built(aggregate, Some(&properties)));
            }
        }
        let mut columns: Vec<Column> =
            keys.iter().map(|&k| Column::new(&rel.columns[k].name, rel.columns[k].ty.clone())).collect();
        columns.extend(aggregates.iter().map(|a| Column::new(&a.name, a.ty.clone())));
        let out_keys = (0..keys.len()).collect();
        let count = keys.len();
        let kind = RelKind::GroupAggregate { input: Box::new(rel), keys, aggregates };
        Ok(Built { rel: Rel { columns, kind }, keys: out_keys, aggregates: count, window: None })
    }

    /// `GROUPING(a, b)`: one bit per argument, the first the highest, set where the key is absent.
    fn grouping_value(&self, args: &[usize], groups: &Groups, set_number: Option<&Expr>) -> Result<Expr> {
        let ty = LogicalType::not_null(TypeKind::BigInt);
        let value = |set: &Vec<usize>| {
            let bits = args.iter().fold(0i64, |bits, key| bits << 1 | i64::from(!set.contains(key)));
            Expr::literal(Value::Int(bits), ty.clone())
        };
        let Some(number) = set_number else { return Ok(value(&groups.sets[0])) };
        let internal = |e: String| tidegate_api::error::Error::internal(e);
        let mut branches = Vec::new();
        for (i, set) in groups.sets.iter().enumerate() {
            let id = Expr::literal(Value::Int(i as i64), ty.clone());
            let condition = functions::resolve("=", vec![number.clone(), id])
                .map_err(|e| internal(format!("comparing grouping sets: {e:?}")))?;
            branches.push((condition, value(set)));
        }
        let otherwise = branches.pop().map(|(_, value)| value);
        if branches.is_empty() {
            return otherwise.ok_or_else(|| internal("no grouping set".into()));
        }
        functions::coerce::case(branches, otherwise).map_err(internal)
    }
}

fn merged(set: &[usize], more: &[usize]) -> Vec<usize> {
    let mut out = set.to_vec();
    out.extend(more.iter().filter(|k| !set.contains(k)));
    out.dedup();
    out
}

/// A column of the projection below an aggregate.
fn pre_column(rel: &Rel, expr: Expr, position: usize) -> (Expr, Column) {
    let column = match expr.node {
        ExprNode::Input(i) => rel.columns[i].clone(),
        _ => Column::new(format!("$f{position}"), expr.ty.clone()),
    };
    (expr, column)
}

fn aggregate_call(
    call: &PendingAggregate,
    args: Vec<usize>,
    filter: Option<usize>,
    position: usize,
    meaning: String,
) -> AggregateCall {
    AggregateCall {
        function: call.function.clone(),
        args,
        arg_types: call.args.iter().map(|a| a.ty.clone()).collect(),
        params: call.params.clone(),
        distinct: call.distinct,
        filter,
        ty: call.ty.clone(),
        name: format!("EXPR${position}"),
        meaning,
    }
}

/// Copies rows per grouping set; the last column is the set's number.
fn expand(rel: Rel, sets: &[Vec<usize>], key_count: usize) -> Rel {
    let mut columns = rel.columns.clone();
    for (i, column) in columns.iter_mut().enumerate().take(key_count) {
        if sets.iter().any(|set| !set.contains(&i)) {
            column.ty = column.ty.with_nullable(true);
            column.time = TimeAttribute::None;
        }
    }
    let number = LogicalType::not_null(TypeKind::BigInt);
    columns.push(Column::new("$e", number.clone()));
    let projections = sets
        .iter()
        .enumerate()
        .map(|(n, set)| {
            let mut projection = rel.identity();
            for (i, expr) in projection.iter_mut().enumerate().take(key_count) {
                if !set.contains(&i) {
                    *expr = Expr::literal(Value::Null, columns[i].ty.clone());
                }
            }
            projection.push(Expr::literal(Value::Int(n as i64), number.clone()));
            projection
        })
        .collect();
    Rel { columns, kind: RelKind::Expand { input: Box::new(rel), projections } }
}

/// Drops the window's own columns from the keys and says where every key is found in the output.
fn window_built(mut aggregate: WindowAggregate, properties: Option<&window::WindowProperties>) -> Built {
    let all_keys = std::mem::take(&mut aggregate.keys);
    let part = |k: usize| -> Option<usize> {
        let p = properties?;
        [&p.start, &p.end, &p.time].iter().position(|columns| columns.contains(&k))
    };
    aggregate.keys = all_keys.iter().copied().filter(|&k| part(k).is_none()).collect();
    let first_aggregate = aggregate.keys.len();
    let window = first_aggregate + aggregate.aggregates.len();
    let mut next = 0;
    let keys = all_keys
        .iter()
        .map(|&k| match part(k) {
            Some(offset) => window + offset,
            None => {
                next += 1;
                next - 1
            }
        })
        .collect();
    let input = &aggregate.input.columns;
    let mut columns: Vec<Column> =
        aggregate.keys.iter().map(|&k| Column::new(&input[k].name, input[k].ty.clone())).collect();
    columns.extend(aggregate.aggregates.iter().map(|a| Column::new(&a.name, a.ty.clone())));
    columns.extend(window_columns(&aggregate.window));
    let rel = Rel { columns, kind: RelKind::WindowAggregate(aggregate) };
    Built { rel, keys, aggregates: first_aggregate, window: Some(window) }
}

/// Moves an expression from over the aggregate's input to over its output.
fn lift(item: &Item, collector: &Collector, keys: &[Expr], extras: &[Expr]) -> Result<Expr> {
    let mut expr = item.expr.clone();
    lift_into(&mut expr, collector, keys, extras).map_err(|column| {
        let named = item.named.iter().find(|n| n.column == column);
        let (text, span) = named.map_or(("*", Span::default()), |n| (n.text.as_str(), n.span));
        invalid_at(span, format!("Expression '{text}' is not being grouped"))
    })?;
    Ok(expr)
}

fn lift_into(expr: &mut Expr, collector: &Collector, keys: &[Expr], extras: &[Expr]) -> Result<(), usize> {
    if let Some(k) = collector.keys.iter().position(|key| key == expr) {
        *expr = keys[k].clone();
        return Ok(());
    }
    if let ExprNode::Input(i) = expr.node {
        let extra = i.checked_sub(collector.width).and_then(|n| extras.get(n));
        *expr = extra.ok_or(i)?.clone();
        return Ok(());
    }
    expr.children_mut().into_iter().try_for_each(|child| lift_into(child, collector, keys, extras))
}
