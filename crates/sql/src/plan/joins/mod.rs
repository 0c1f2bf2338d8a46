//! Which join a join is.
//!
//! A query says what is joined and on what condition, in `ON` and `WHERE`, perhaps outside of a derived table. Once
//! Calcs are melted together, everything that is known stands on the join or right above it: what concerns one input
//! goes below the join, and what is left says which keys are equal, how far the row times may be apart, and what else
//! must hold. A join of rows in the same window is a window join; one whose row times are bounded on both sides is an
//! interval join. No other join runs yet: each is refused, with what is missing.

mod condition;
mod windows;

use tidegate_api::error::{Error, Result};
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::graph::JoinKind;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::error::refused_at;
use super::rel::{Column, IntervalJoin, Join, JoinedWindow, Key, Rel, RelKind, is_nondeterministic, visit_inputs};
use crate::ast::Span;
use condition::{Comparison, JoinCondition, TimeBounds};
pub use windows::join_window;

/// Decides on every join of a plan whose Calcs are melted together. `zone` is the session's.
pub fn decide(rel: Rel, zone: &str) -> Result<Rel> {
    let Rel { columns, kind } = rel;
    match kind {
        RelKind::Join(join) => decide_join(join, columns, Vec::new(), zone).map(|(rel, _)| rel),
        RelKind::Calc { input, filter, projection } => {
            let (input, filter) = match *input {
                Rel { columns, kind: RelKind::Join(join) } => {
                    let above = filter.map(conjuncts).unwrap_or_default();
                    let (rel, left_over) = decide_join(join, columns, above, zone)?;
                    (rel, conjunction(left_over))
                }
                other => (decide(other, zone)?, filter),
            };
            Ok(Rel { columns, kind: RelKind::Calc { input: Box::new(input), filter, projection } })
        }
        kind => {
            let mut outcome = Ok(());
            let rel = Rel { columns, kind }.map_inputs(&mut |input| match decide(input, zone) {
                Ok(rel) => rel,
                Err(error) => {
                    outcome = Err(error);
                    Rel::empty()
                }
            });
            outcome.map(|()| rel)
        }
    }
}

/// Decides on a join below a filter, given in parts; returns what of the filter must stay above.
fn decide_join(join: Join, columns: Vec<Column>, above: Vec<Expr>, zone: &str) -> Result<(Rel, Vec<Expr>)> {
    let Join { left, right, kind, condition, span } = join;
    let width = left.columns.len();
    let sides = |expr: &Expr| sides_of(expr, width);
    let kind = strengthened(kind, &above, width);
    let mut on: Vec<Expr> = condition.map(conjuncts).unwrap_or_default();
    let (mut below_left, mut below_right, mut left_over) = (Vec::new(), Vec::new(), Vec::new());
    for part in above {
        match (kind, sides(&part)) {
            (JoinKind::Inner, _) => on.push(part),
            // Rows of a kept side pass the join whatever it holds against them.
            (JoinKind::Left, (true, false)) if !is_nondeterministic(&part) => below_left.push(part),
            (JoinKind::Right, (false, true)) if !is_nondeterministic(&part) => below_right.push(part),
            _ => left_over.push(part),
        }
    }
    let mut both = Vec::new();
    for part in on {
        match sides(&part) {
            _ if is_true(&part) => {}
            _ if is_nondeterministic(&part) => both.push(part),
            (true, false) if !kind.keeps_left() => below_left.push(part),
            (false, true) if !kind.keeps_right() => below_right.push(part),
            _ => both.push(part),
        }
    }
    below_right.iter_mut().for_each(|part| part.map_inputs(&|i| i - width));
    let left = decide(filtered(*left, below_left), zone)?;
    let right = decide(filtered(*right, below_right), zone)?;
    let condition = JoinCondition::of(both, &left.columns, &right.columns, zone);
    let rel = match windows::common_window(&left, &right, &condition.keys) {
        Some(window) => windows::window_join((left, right), kind, condition, window, columns, span)?,
        None => interval_join((left, right), kind, condition, columns, span)?,
    };
    Ok((rel, left_over))
}

/// Whether an expression reads columns of the left and of the right input.
fn sides_of(expr: &Expr, width: usize) -> (bool, bool) {
    let mut sides = (false, false);
    visit_inputs(expr, &mut |i| {
        sides.0 |= i < width;
        sides.1 |= i >= width;
    });
    sides
}

/// The kind of a join if the filter above takes padded rows out: as in Flink, a comparison with a column of the
/// other side does.
fn strengthened(kind: JoinKind, above: &[Expr], width: usize) -> JoinKind {
    let refuses = |left: bool| {
        above.iter().any(|part| {
            let Some(Comparison { left: a, right: b, .. }) = Comparison::of(part) else { return false };
            let is_null = |side: &Expr| {
                let (reads_left, reads_right) = sides_of(side, width);
                is_strict(side) && if left { reads_left } else { reads_right }
            };
            is_null(a) || is_null(b)
        })
    };
    // A padded row has NULL on the side that is not kept for it.
    let (keeps_left, keeps_right) = (kind.keeps_left() && !refuses(false), kind.keeps_right() && !refuses(true));
    match (keeps_left, keeps_right) {
        (false, false) => JoinKind::Inner,
        (true, false) => JoinKind::Left,
        (false, true) => JoinKind::Right,
        (true, true) => JoinKind::Full,
    }
}

/// True if the value is NULL when any column is.
fn is_strict(expr: &Expr) -> bool {
    match &expr.node {
        ExprNode::Input(_) | ExprNode::Literal(_) => true,
        ExprNode::Cast { input, .. } => is_strict(input),
        ExprNode::Call { function, args } => {
            matches!(function.as_str(), "+" | "-" | "*" | "/" | "NEGATE") && args.iter().all(is_strict)
        }
        _ => false,
    }
}

fn is_true(expr: &Expr) -> bool {
    matches!(expr.as_literal(), Some(Value::Boolean(true)))
}

/// The parts that `AND` joins.
fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr.node {
        ExprNode::Call { function, args } if function == "AND" => args.into_iter().flat_map(conjuncts).collect(),
        _ => vec![expr],
    }
}

/// All of these; `None` if there are none.
fn conjunction(parts: Vec<Expr>) -> Option<Expr> {
    parts.into_iter().reduce(|a, b| {
        let ty = LogicalType { kind: TypeKind::Boolean, nullable: a.ty.nullable || b.ty.nullable };
        Expr::call("AND", vec![a, b], ty)
    })
}

/// A filter that melts into the Calc it meets, so that a join below sees it.
fn filtered(rel: Rel, parts: Vec<Expr>) -> Rel {
    match conjunction(parts) {
        Some(filter) => super::optimize::fuse(rel.filtered(filter)),
        None => rel,
    }
}

/// The interval join of these inputs, or why it is none.
fn interval_join(
    (left, right): (Rel, Rel),
    kind: JoinKind,
    condition: JoinCondition,
    columns: Vec<Column>,
    span: Span,
) -> Result<Rel> {
    let bounds = condition.times.bounds(&left.columns, &right.columns).map_err(|why| why.error(kind, span))?;
    let widths = (left.columns.len(), right.columns.len());
    Ok(timed_join((left, right), widths, kind, condition, bounds, None, columns))
}

/// A join of these inputs, of which the first columns, so many of each, are those of the join.
fn timed_join(
    (left, right): (Rel, Rel),
    (old_left, old_right): (usize, usize),
    kind: JoinKind,
    condition: JoinCondition,
    bounds: TimeBounds,
    window: Option<JoinedWindow>,
    columns: Vec<Column>,
) -> Rel {
    let JoinCondition { keys, times, rest } = condition;
    let (mut left_keys, mut right_keys) = (Vec::new(), Vec::new());
    let mut null_safe = Vec::new();
    for key in keys {
        left_keys.push(key.left);
        right_keys.push(key.right);
        null_safe.push(key.null_safe);
    }
    let (left, left_keys) = with_columns(left, left_keys);
    let (right, right_keys) = with_columns(right, right_keys);
    let moved = left.columns.len() - old_left;
    let place = |i: usize| if i < old_left { i } else { i + moved };
    let move_all = |mut parts: Vec<Expr>| {
        parts.iter_mut().for_each(|part| part.map_inputs(&place));
        parts
    };
    let keys = left_keys.into_iter().zip(right_keys).zip(null_safe);
    let join = IntervalJoin {
        kind,
        keys: keys.map(|((left, right), null_safe)| Key { left, right, null_safe }).collect(),
        left_time: bounds.left_time,
        right_time: bounds.right_time,
        lower_ms: bounds.lower_ms,
        upper_ms: bounds.upper_ms,
        within: move_all(times.parts),
        residual: conjunction(move_all(rest)),
        window,
        left: Box::new(left),
        right: Box::new(right),
    };
    let kept: Vec<usize> = (0..old_left + old_right).map(place).collect();
    let rel = join.into_rel();
    if kept.len() == rel.columns.len() {
        return Rel { columns, ..rel };
    }
    let projection = kept.into_iter().zip(columns).map(|(i, column)| (rel.input_expr(i), column)).collect();
    rel.calc(None, projection)
}

/// A relation with a column for each of these expressions over it, and where they are.
fn with_columns(rel: Rel, exprs: Vec<Expr>) -> (Rel, Vec<usize>) {
    let mut projection: Vec<(Expr, Column)> =
        (0..rel.columns.len()).map(|i| (rel.input_expr(i), rel.columns[i].clone())).collect();
    let width = projection.len();
    let mut places = Vec::with_capacity(exprs.len());
    for expr in exprs {
        if let ExprNode::Input(i) = expr.node {
            places.push(i);
            continue;
        }
        let name = format!("$f{}", projection.len());
        let column = Column::new(name, expr.ty.clone());
        places.push(projection.len());
        projection.push((expr, column));
    }
    if projection.len() == width { (rel, places) } else { (rel.calc(None, projection), places) }
}

/// Why a join is no interval join.
#[derive(Clone, Debug, PartialEq)]
enum Unbounded {
    /// No condition compares row times of both sides.
    NoTimes,
    /// They are bounded on one side only, as this condition says.
    OneSide(String),
    /// There are more bounds than two, or an equality beside others.
    TooMany,
    /// They are times of processing.
    Proctime,
    /// The row times are of these types.
    Mixed(LogicalType, LogicalType),
}

impl Unbounded {
    fn error(self, kind: JoinKind, span: Span) -> Error {
        let example = "a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts + INTERVAL '1' HOUR";
        let join = match kind {
            JoinKind::Inner => "INNER JOIN",
            JoinKind::Left => "LEFT JOIN",
            JoinKind::Right => "RIGHT JOIN",
            JoinKind::Full => "FULL JOIN",
        };
        match self {
            Unbounded::NoTimes => unsupported_with(
                span,
                &format!("{join} without time bounds (a regular join)"),
                &format!(
                    "An interval join runs: let the condition say how far apart the row times of both sides may be, \
                     for instance {example}. Both must be time attributes: columns with a WATERMARK, not computed \
                     from them. A window join runs too: of one window function over both sides, on window_start and \
                     window_end."
                ),
            ),
            Unbounded::OneSide(bound) => unsupported_with(
                span,
                &format!("{join} with row times that are bounded on one side only, by {bound},"),
                &format!("Its state would grow for ever. Bound them on both sides, for instance {example}."),
            ),
            Unbounded::TooMany => unsupported_with(
                span,
                &format!("{join} with more than a lower and an upper bound of the row times"),
                "Flink runs it as a regular join. Leave two comparisons (or one equality) of the row times.",
            ),
            Unbounded::Proctime => unsupported_with(
                span,
                &format!("{join} on processing time"),
                "Declare a row time with WATERMARK in CREATE TABLE, and compare the row times.",
            ),
            Unbounded::Mixed(left, right) => refused_at(
                span,
                format!(
                    "Interval join with rowtime attribute requires same rowtime types, but the types are {left} and \
                     {right}. Declare both with one type in CREATE TABLE, for instance by a computed column \
                     `rt AS CAST(ts AS TIMESTAMP_LTZ(3))` with the WATERMARK on it."
                ),
            ),
        }
    }
}

fn unsupported_with(span: Span, what: &str, then: &str) -> Error {
    refused_at(span, format!("{what} is not supported by Tidegate yet. {then}"))
}
