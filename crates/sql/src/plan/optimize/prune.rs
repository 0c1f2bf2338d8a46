//! Column pruning: nothing computes, shuffles or reads a column that nobody above uses.

use std::collections::BTreeSet;

use tidegate_api::expr::{AggregateCall, Expr};
use tidegate_api::graph::{UnnestSpec, WindowInput};

use crate::plan::rel::{IntervalJoin, Rel, RelKind, WindowAggregate, visit_inputs};

/// The columns an operator must get from below.
#[derive(Default)]
struct Needed(BTreeSet<usize>);

impl Needed {
    fn expr(&mut self, e: &Expr) {
        visit_inputs(e, &mut |i| {
            self.0.insert(i);
        });
    }

    fn columns(&mut self, columns: impl IntoIterator<Item = usize>) {
        self.0.extend(columns);
    }

    fn aggregates(&mut self, calls: &[AggregateCall]) {
        for call in calls {
            self.columns(call.args.iter().copied().chain(call.filter));
        }
    }

    /// Prunes `input` to these columns; the function maps an old column to its new place.
    fn prune(self, input: Rel) -> (Rel, impl Fn(usize) -> usize) {
        let kept: Vec<usize> = self.0.into_iter().collect();
        let rel = prune(input, &kept);
        // Everything that is mapped was needed, so that it is found.
        (rel, move |old: usize| kept.binary_search(&old).unwrap_or(0))
    }
}

/// `rel` with exactly the columns `wanted`, which ascend.
pub fn prune(rel: Rel, wanted: &[usize]) -> Rel {
    let Rel { columns, kind } = rel;
    let kept = wanted.iter().map(|&i| columns[i].clone()).collect();
    match kind {
        RelKind::Calc { input, filter, projection } => {
            let mut projection: Vec<Expr> = wanted.iter().map(|&i| projection[i].clone()).collect();
            let mut filter = filter;
            let mut needed = Needed::default();
            filter.iter().chain(&projection).for_each(|e| needed.expr(e));
            let (input, map) = needed.prune(*input);
            filter.iter_mut().chain(&mut projection).for_each(|e| e.map_inputs(&map));
            Rel { columns: kept, kind: RelKind::Calc { input: Box::new(input), filter, projection } }
        }
        RelKind::Values(rows) => {
            let rows = rows.into_iter().map(|row| wanted.iter().map(|&i| row[i].clone()).collect()).collect();
            Rel { columns: kept, kind: RelKind::Values(rows) }
        }
        RelKind::Union(inputs) => {
            let inputs = inputs.into_iter().map(|input| prune(input, wanted)).collect();
            Rel { columns: kept, kind: RelKind::Union(inputs) }
        }
        RelKind::Expand { input, projections } => {
            let mut projections: Vec<Vec<Expr>> =
                projections.iter().map(|list| wanted.iter().map(|&i| list[i].clone()).collect()).collect();
            let mut needed = Needed::default();
            projections.iter().flatten().for_each(|e| needed.expr(e));
            let (input, map) = needed.prune(*input);
            projections.iter_mut().flatten().for_each(|e| e.map_inputs(&map));
            Rel { columns: kept, kind: RelKind::Expand { input: Box::new(input), projections } }
        }
        RelKind::Scan(_) => exactly(Rel { columns, kind }, wanted),
        RelKind::WindowTvf { .. } => prune_tvf(Rel { columns, kind }, wanted),
        RelKind::WindowAggregate(aggregate) => {
            let (rel, positions) = prune_window_aggregate(aggregate, columns, wanted);
            exactly(rel, &positions)
        }
        RelKind::GroupAggregate { .. } => prune_group_aggregate(Rel { columns, kind }, wanted),
        RelKind::Unnest { .. } => prune_unnest(Rel { columns, kind }, wanted),
        RelKind::IntervalJoin(join) => prune_interval_join(join, wanted),
        // Which columns a join needs is known when it is known which join it is.
        RelKind::Join(_) => exactly(Rel { columns, kind }, wanted),
    }
}

/// Puts a projection on top unless `positions` are all columns in order.
fn exactly(rel: Rel, positions: &[usize]) -> Rel {
    if positions.len() == rel.columns.len() && positions.iter().enumerate().all(|(n, &i)| n == i) {
        return rel;
    }
    rel.select(positions)
}

fn prune_tvf(rel: Rel, wanted: &[usize]) -> Rel {
    let Rel { columns, kind: RelKind::WindowTvf { input, window, time_column, keys } } = rel else { return rel };
    let width = input.columns.len();
    let mut needed = Needed::default();
    needed.columns(wanted.iter().copied().filter(|&i| i < width));
    needed.columns(keys.iter().copied().chain([time_column]));
    let kept: Vec<usize> = needed.0.iter().copied().collect();
    let (input, map) = needed.prune(*input);
    let new_width = input.columns.len();
    let positions: Vec<usize> =
        wanted.iter().map(|&i| if i < width { map(i) } else { i - width + new_width }).collect();
    let columns = kept.into_iter().chain(width..width + 3).map(|i| columns[i].clone()).collect();
    let kind = RelKind::WindowTvf {
        window,
        time_column: map(time_column),
        keys: keys.iter().map(|&k| map(k)).collect(),
        input: Box::new(input),
    };
    exactly(Rel { columns, kind }, &positions)
}

/// Keeps the aggregates that are wanted, at their new places.
fn remap_aggregates(
    aggregates: Vec<AggregateCall>,
    keep: impl Fn(usize) -> bool,
) -> (Vec<AggregateCall>, Vec<Option<usize>>) {
    let mut kept = Vec::new();
    let mut places = Vec::with_capacity(aggregates.len());
    for (n, call) in aggregates.into_iter().enumerate() {
        if keep(n) {
            places.push(Some(kept.len()));
            kept.push(call);
        } else {
            places.push(None);
        }
    }
    (kept, places)
}

fn map_calls(calls: &mut [AggregateCall], map: &impl Fn(usize) -> usize) {
    for call in calls {
        call.args.iter_mut().for_each(|a| *a = map(*a));
        call.filter = call.filter.map(map);
    }
}

fn prune_window_aggregate(
    aggregate: WindowAggregate,
    columns: Vec<crate::plan::rel::Column>,
    wanted: &[usize],
) -> (Rel, Vec<usize>) {
    let WindowAggregate { input, window, source, keys, aggregates, legacy } = aggregate;
    let (first, old_window) = (keys.len(), keys.len() + aggregates.len());
    let (mut aggregates, places) = remap_aggregates(aggregates, |n| wanted.contains(&(first + n)));
    let mut needed = Needed::default();
    needed.columns(keys.iter().copied());
    needed.aggregates(&aggregates);
    match source {
        WindowInput::TimeColumn(t) => needed.columns([t]),
        WindowInput::Attached { start, end } => needed.columns([start, end]),
    }
    let (input, map) = needed.prune(*input);
    map_calls(&mut aggregates, &map);
    let source = match source {
        WindowInput::TimeColumn(t) => WindowInput::TimeColumn(map(t)),
        WindowInput::Attached { start, end } => WindowInput::Attached { start: map(start), end: map(end) },
    };
    let new_window = first + aggregates.len();
    let place = |i: usize| match i {
        _ if i < first => i,
        _ if i < old_window => first + places[i - first].unwrap_or(0),
        _ => i - old_window + new_window,
    };
    let positions = wanted.iter().map(|&i| place(i)).collect();
    let kept = (0..columns.len()).filter(|&i| i < first || i >= old_window || places[i - first].is_some());
    let columns = kept.map(|i| columns[i].clone()).collect();
    let keys = keys.iter().map(|&k| map(k)).collect();
    let aggregate = WindowAggregate { input: Box::new(input), window, source, keys, aggregates, legacy };
    (Rel { columns, kind: RelKind::WindowAggregate(aggregate) }, positions)
}

fn prune_group_aggregate(rel: Rel, wanted: &[usize]) -> Rel {
    let Rel { columns, kind: RelKind::GroupAggregate { input, keys, aggregates } } = rel else { return rel };
    let first = keys.len();
    let any = wanted.iter().any(|&i| i >= first);
    // A global aggregate must stay one, and a count must not become a DISTINCT.
    let keep = |n: usize| wanted.contains(&(first + n)) || (!any && n == 0);
    let (mut aggregates, places) = remap_aggregates(aggregates, keep);
    let mut needed = Needed::default();
    needed.columns(keys.iter().copied());
    needed.aggregates(&aggregates);
    let (input, map) = needed.prune(*input);
    map_calls(&mut aggregates, &map);
    let positions: Vec<usize> =
        wanted.iter().map(|&i| if i < first { i } else { first + places[i - first].unwrap_or(0) }).collect();
    let kept = (0..columns.len()).filter(|&i| i < first || places[i - first].is_some());
    let columns = kept.map(|i| columns[i].clone()).collect();
    let keys = keys.iter().map(|&k| map(k)).collect();
    let kind = RelKind::GroupAggregate { input: Box::new(input), keys, aggregates };
    exactly(Rel { columns, kind }, &positions)
}

fn prune_unnest(rel: Rel, wanted: &[usize]) -> Rel {
    let Rel { columns, kind: RelKind::Unnest { input, spec } } = rel else { return rel };
    let width = input.columns.len();
    let mut needed = Needed::default();
    needed.columns(wanted.iter().copied().filter(|&i| i < width));
    needed.expr(&spec.collection);
    let kept: Vec<usize> = needed.0.iter().copied().collect();
    let (input, map) = needed.prune(*input);
    let mut collection = spec.collection;
    collection.map_inputs(&map);
    let new_width = input.columns.len();
    let positions: Vec<usize> =
        wanted.iter().map(|&i| if i < width { map(i) } else { i - width + new_width }).collect();
    let columns = kept.into_iter().chain(width..columns.len()).map(|i| columns[i].clone()).collect();
    let spec = UnnestSpec { collection, ..spec };
    exactly(Rel { columns, kind: RelKind::Unnest { input: Box::new(input), spec } }, &positions)
}

fn prune_interval_join(join: IntervalJoin, wanted: &[usize]) -> Rel {
    let width = join.left.columns.len();
    let (mut left, mut right) = (Needed::default(), Needed::default());
    let mut need = |i: usize| if i < width { left.columns([i]) } else { right.columns([i - width]) };
    wanted.iter().for_each(|&i| need(i));
    join.within.iter().chain(&join.residual).for_each(|e| visit_inputs(e, &mut need));
    left.columns(join.keys.iter().map(|key| key.left).chain([join.left_time]));
    right.columns(join.keys.iter().map(|key| key.right).chain([join.right_time]));
    let (left, left_map) = left.prune(*join.left);
    let (right, right_map) = right.prune(*join.right);
    let new_width = left.columns.len();
    let map = |i: usize| if i < width { left_map(i) } else { right_map(i - width) + new_width };
    let (mut within, mut residual, mut keys) = (join.within, join.residual, join.keys);
    within.iter_mut().chain(&mut residual).for_each(|e| e.map_inputs(&map));
    keys.iter_mut().for_each(|key| (key.left, key.right) = (left_map(key.left), right_map(key.right)));
    let (left_time, right_time) = (left_map(join.left_time), right_map(join.right_time));
    let positions: Vec<usize> = wanted.iter().map(|&i| map(i)).collect();
    let (left, right) = (Box::new(left), Box::new(right));
    let join = IntervalJoin { left, right, keys, left_time, right_time, within, residual, ..join };
    exactly(join.into_rel(), &positions)
}
