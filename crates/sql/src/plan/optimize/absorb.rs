//! Melts a window function into the aggregate above it.
//!
//! An aggregate on `window_start, window_end` first takes each row's window from those columns. If
//! nothing between it and the window function looks at the window, the function need not run: the
//! aggregate assigns windows itself, from the time column, which is what lets it share slices and
//! work in two phases. A filter on `window_start` in between keeps the function where it is.

use std::collections::BTreeSet;

use tidegate_api::expr::Expr;
use tidegate_api::graph::{UnnestSpec, WindowInput};
use tidegate_window::{WindowKind, WindowSpec};

use crate::plan::rel::{Column, Rel, RelKind, WindowAggregate, bare_input, visit_inputs};

/// The input of a window function with what stood between it and the aggregate, and no window.
struct Stripped {
    rel: Rel,
    /// Where each old column is now; `None` for those of the window.
    map: Vec<Option<usize>>,
    time_column: usize,
    window: WindowSpec,
    /// `PARTITION BY` of a session.
    keys: Vec<usize>,
}

/// Rewrites every aggregate that allows it.
pub fn absorb(rel: Rel) -> Rel {
    let Rel { columns, kind } = rel.map_inputs(&mut absorb);
    let RelKind::WindowAggregate(aggregate) = kind else { return Rel { columns, kind } };
    let kind = RelKind::WindowAggregate(absorbed(&aggregate).unwrap_or(aggregate));
    Rel { columns, kind }
}

fn absorbed(aggregate: &WindowAggregate) -> Option<WindowAggregate> {
    let WindowInput::Attached { .. } = aggregate.source else { return None };
    let stripped = strip(&aggregate.input)?;
    let at = |i: usize| stripped.map[i];
    let keys: Vec<usize> = aggregate.keys.iter().map(|&k| at(k)).collect::<Option<_>>()?;
    if matches!(stripped.window.kind, WindowKind::Session { .. }) {
        // Sessions are cut per partition of the function; only then per group.
        let partition: BTreeSet<usize> = stripped.keys.iter().copied().collect();
        if partition != keys.iter().copied().collect() {
            return None;
        }
    }
    let mut aggregates = aggregate.aggregates.clone();
    for call in &mut aggregates {
        call.args = call.args.iter().map(|&a| at(a)).collect::<Option<_>>()?;
        call.filter = match call.filter {
            Some(f) => Some(at(f)?),
            None => None,
        };
    }
    Some(WindowAggregate {
        input: Box::new(stripped.rel),
        window: stripped.window,
        source: WindowInput::TimeColumn(stripped.time_column),
        keys,
        aggregates,
        legacy: aggregate.legacy,
    })
}

fn strip(rel: &Rel) -> Option<Stripped> {
    match &rel.kind {
        RelKind::WindowTvf { input, window, time_column, keys } => {
            let width = input.columns.len();
            Some(Stripped {
                rel: input.as_ref().clone(),
                map: (0..width).map(Some).chain([None; 3]).collect(),
                time_column: *time_column,
                window: window.clone(),
                keys: keys.clone(),
            })
        }
        RelKind::Calc { input, filter, projection } => strip_calc(rel, input, filter.as_ref(), projection),
        RelKind::Expand { input, projections } => strip_expand(rel, input, projections),
        RelKind::Unnest { input, spec } => strip_unnest(rel, input, spec),
        _ => None,
    }
}

/// `expr` over the stripped columns, if it reads none of the window's.
fn moved(expr: &Expr, map: &[Option<usize>]) -> Option<Expr> {
    let mut free = true;
    visit_inputs(expr, &mut |i| free &= map[i].is_some());
    if !free {
        return None;
    }
    let mut expr = expr.clone();
    expr.map_inputs(&|i| map[i].unwrap_or(i));
    Some(expr)
}

/// Adds the columns `wanted` of `below` to a projection where they are not in it yet, and says where
/// they are.
fn ensure(below: &Rel, wanted: &[usize], projection: &mut Vec<Expr>, columns: &mut Vec<Column>) -> Vec<usize> {
    let place = |&i: &usize| {
        if let Some(n) = projection.iter().position(|e| bare_input(e) == Some(i)) {
            columns[n].time = below.columns[i].time;
            return n;
        }
        projection.push(below.input_expr(i));
        columns.push(below.columns[i].clone());
        projection.len() - 1
    };
    wanted.iter().map(place).collect()
}

fn strip_calc(rel: &Rel, input: &Rel, filter: Option<&Expr>, projection: &[Expr]) -> Option<Stripped> {
    let below = strip(input)?;
    let filter = match filter {
        Some(f) => Some(moved(f, &below.map)?),
        None => None,
    };
    let (mut exprs, mut columns, mut map) = (Vec::new(), Vec::new(), Vec::new());
    for (expr, column) in projection.iter().zip(&rel.columns) {
        if bare_input(expr).is_some_and(|i| below.map[i].is_none()) {
            map.push(None);
            continue;
        }
        map.push(Some(exprs.len()));
        exprs.push(moved(expr, &below.map)?);
        columns.push(column.clone());
    }
    let mut carried = below.keys.clone();
    carried.push(below.time_column);
    let mut keys = ensure(&below.rel, &carried, &mut exprs, &mut columns);
    let time_column = keys.pop()?;
    let kind = RelKind::Calc { input: Box::new(below.rel), filter, projection: exprs };
    Some(Stripped { rel: Rel { columns, kind }, map, time_column, window: below.window, keys })
}

fn strip_expand(rel: &Rel, input: &Rel, projections: &[Vec<Expr>]) -> Option<Stripped> {
    let below = strip(input)?;
    let of_window = |n: usize| {
        let mut lists = projections.iter();
        lists.all(|list| bare_input(&list[n]).is_some_and(|i| below.map[i].is_none()))
    };
    let (mut columns, mut map, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (n, column) in rel.columns.iter().enumerate() {
        if of_window(n) {
            map.push(None);
        } else {
            map.push(Some(kept.len()));
            kept.push(n);
            columns.push(column.clone());
        }
    }
    let mut out = Vec::with_capacity(projections.len());
    for list in projections {
        out.push(kept.iter().map(|&n| moved(&list[n], &below.map)).collect::<Option<Vec<Expr>>>()?);
    }
    // Copies of keys may be NULL in a list, so that time and keys get columns of their own.
    let mut place = |i: usize| {
        out.iter_mut().for_each(|list| list.push(below.rel.input_expr(i)));
        columns.push(below.rel.columns[i].clone());
        columns.len() - 1
    };
    let keys = below.keys.iter().map(|&k| place(k)).collect();
    let time_column = place(below.time_column);
    let kind = RelKind::Expand { input: Box::new(below.rel), projections: out };
    Some(Stripped { rel: Rel { columns, kind }, map, time_column, window: below.window, keys })
}

fn strip_unnest(rel: &Rel, input: &Rel, spec: &UnnestSpec) -> Option<Stripped> {
    let below = strip(input)?;
    let collection = moved(&spec.collection, &below.map)?;
    let (old, new) = (input.columns.len(), below.rel.columns.len());
    let mut map = below.map;
    map.extend((old..rel.columns.len()).map(|i| Some(i - old + new)));
    let mut columns = below.rel.columns.clone();
    columns.extend_from_slice(&rel.columns[old..]);
    let kind = RelKind::Unnest { input: Box::new(below.rel), spec: UnnestSpec { collection, ..spec.clone() } };
    let rel = Rel { columns, kind };
    Some(Stripped { rel, map, time_column: below.time_column, window: below.window, keys: below.keys })
}
