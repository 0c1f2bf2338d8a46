//! Joins of rows that carry the same window.

use tidegate_api::error::Result;
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::graph::JoinKind;
use tidegate_window::WindowKind;

use super::condition::{JoinCondition, KeyPair, TimeBounds, Times};
use super::{conjuncts, timed_join};
use crate::ast::Span;
use crate::plan::error::unsupported_at;
use crate::plan::rel::{Column, Join, JoinedWindow, Rel, RelKind, bare_input};
use crate::plan::window::{WindowProperties, window_properties};

/// The window of both inputs, if they have the same and the keys say that its bounds are equal.
pub(super) fn common_window(left: &Rel, right: &Rel, keys: &[KeyPair]) -> Option<JoinedWindow> {
    let (of_left, of_right) = (window_properties(left)?, window_properties(right)?);
    let find = |left: &dyn Fn(usize) -> bool, right: &dyn Fn(usize) -> bool| {
        keys.iter().position(|key| {
            bare_input(&key.left).is_some_and(left) && bare_input(&key.right).is_some_and(right) && !key.null_safe
        })
    };
    let start_key = find(&|i| of_left.start.contains(&i), &|i| of_right.start.contains(&i))?;
    let end_key = find(&|i| of_left.end.contains(&i), &|i| of_right.end.contains(&i))?;
    (of_left.window == of_right.window).then_some(JoinedWindow { window: of_left.window, start_key, end_key })
}

/// The join of rows in the same window.
pub(super) fn window_join(
    (left, right): (Rel, Rel),
    kind: JoinKind,
    mut condition: JoinCondition,
    window: JoinedWindow,
    columns: Vec<Column>,
    span: Span,
) -> Result<Rel> {
    if matches!(window.window.kind, WindowKind::Session { .. }) {
        return Err(unsupported_at(span, "A join of session windows"));
    }
    let widths = (left.columns.len(), right.columns.len());
    let (Some((left, left_time)), Some((right, right_time))) = (with_window_time(left), with_window_time(right)) else {
        return Err(unsupported_at(span, "A join of windows without window_time"));
    };
    // Row times are equal anyway; what else is said of them must hold too.
    condition.rest.append(&mut std::mem::take(&mut condition.times).parts);
    let bounds = TimeBounds { left_time, right_time, lower_ms: 0, upper_ms: 0 };
    condition.times = Times::default();
    Ok(timed_join((left, right), widths, kind, condition, bounds, Some(window), columns))
}

/// The relation with a `window_time` column, perhaps one more, and where it is.
fn with_window_time(rel: Rel) -> Option<(Rel, usize)> {
    if let Some(time) = window_properties(&rel)?.time.first() {
        return Some((rel, *time));
    }
    let Rel { mut columns, kind: RelKind::Calc { input, filter, mut projection } } = rel else { return None };
    let (input, time) = with_window_time(*input)?;
    projection.push(input.input_expr(time));
    columns.push(input.columns[time].clone());
    let at = projection.len() - 1;
    Some((Rel { columns, kind: RelKind::Calc { input: Box::new(input), filter, projection } }, at))
}

/// The window that the rows of a join carry, if it joins windows; `above` is a filter over it. Bounds of a side
/// that may be padded are no bounds.
pub fn join_window(join: &Join, above: Option<&Expr>) -> Option<WindowProperties> {
    // A filter over an inner join is one over its inputs; the left ones have the same places there.
    let of_left = match (&join.left.kind, join.kind) {
        (RelKind::Join(left), JoinKind::Inner) => join_window(left, above),
        _ => window_properties(&join.left),
    };
    let (left, right) = (of_left?, window_properties(&join.right)?);
    if left.window != right.window {
        return None;
    }
    let width = join.left.columns.len();
    let parts: Vec<Expr> = join.condition.iter().chain(above).cloned().flat_map(conjuncts).collect();
    let equal = |a: &dyn Fn(usize) -> bool, b: &dyn Fn(usize) -> bool| {
        parts.iter().any(|part| match &part.node {
            ExprNode::Call { function, args } if function == "=" => {
                match (bare_input(&args[0]), bare_input(&args[1])) {
                    (Some(x), Some(y)) => {
                        let (x, y) = (x.min(y), x.max(y));
                        x < width && y >= width && a(x) && b(y - width)
                    }
                    _ => false,
                }
            }
            _ => false,
        })
    };
    let start = equal(&|i| left.start.contains(&i), &|i| right.start.contains(&i));
    let end = equal(&|i| left.end.contains(&i), &|i| right.end.contains(&i));
    if !start || !end {
        return None;
    }
    let right = right.mapped(|i| vec![i + width])?;
    match join.kind {
        JoinKind::Inner => Some(left.and(right)),
        JoinKind::Left => Some(left),
        JoinKind::Right => Some(right),
        JoinKind::Full => None,
    }
}
