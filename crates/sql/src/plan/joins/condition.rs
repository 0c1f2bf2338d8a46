//! The parts of a join's condition: equal keys, bounds of the row times, and the rest.
//!
//! Expressions are over the left columns followed by the right ones. What counts as a bound is what Flink's planner
//! takes for one, except that an expression which is not a row time moved by a constant (such as its hour) is no
//! bound here.

use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::graph::JoinKind;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::{Unbounded, sides_of};
use crate::functions::{self, fold};
use crate::plan::explain::expr_text;
use crate::plan::rel::{Column, TimeAttribute, join_columns, visit_inputs};

const NANOS_PER_MS: i128 = 1_000_000;

/// A comparison of two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Operator {
    fn named(name: &str) -> Option<Operator> {
        Some(match name {
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            "=" => Operator::Equal,
            ">=" => Operator::GreaterOrEqual,
            ">" => Operator::Greater,
            _ => return None,
        })
    }

    /// The same with its operands exchanged.
    fn flipped(self) -> Operator {
        match self {
            Operator::Less => Operator::Greater,
            Operator::LessOrEqual => Operator::GreaterOrEqual,
            Operator::Equal => Operator::Equal,
            Operator::GreaterOrEqual => Operator::LessOrEqual,
            Operator::Greater => Operator::Less,
        }
    }

    /// What holds of known values if this does not.
    fn opposite(self) -> Option<Operator> {
        match self {
            Operator::Less => Some(Operator::GreaterOrEqual),
            Operator::LessOrEqual => Some(Operator::Greater),
            Operator::Equal => None,
            Operator::GreaterOrEqual => Some(Operator::Less),
            Operator::Greater => Some(Operator::LessOrEqual),
        }
    }
}

/// `left operator right`.
pub(super) struct Comparison<'e> {
    pub(super) left: &'e Expr,
    operator: Operator,
    pub(super) right: &'e Expr,
}

impl<'e> Comparison<'e> {
    /// The comparison that an expression is, if it is one.
    pub(super) fn of(expr: &'e Expr) -> Option<Comparison<'e>> {
        let ExprNode::Call { function, args } = &expr.node else { return None };
        match args.as_slice() {
            [left, right] => Some(Comparison { left, operator: Operator::named(function)?, right }),
            [inner] if function == "NOT" => {
                let inner = Comparison::of(inner)?;
                Some(Comparison { operator: inner.operator.opposite()?, ..inner })
            }
            _ => None,
        }
    }
}

/// Two expressions, one over each input, that must be equal.
#[derive(Debug)]
pub(super) struct KeyPair {
    /// Over the left input.
    pub(super) left: Expr,
    /// Over the right input.
    pub(super) right: Expr,
    /// Whether NULL equals NULL.
    pub(super) null_safe: bool,
}

/// `left time - right time operator offset_ms`, for row times in these columns of their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeBound {
    left_time: usize,
    right_time: usize,
    operator: Operator,
    offset_ms: i64,
}

/// What a condition says of the row times.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The conditions that bound them.
    pub(super) parts: Vec<Expr>,
    found: Vec<TimeBound>,
    proctime: bool,
}

/// The bounds of an interval join: `lower <= left time - right time <= upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeBounds {
    pub(super) left_time: usize,
    pub(super) right_time: usize,
    pub(super) lower_ms: i64,
    pub(super) upper_ms: i64,
}

/// A join's condition in its parts.
#[derive(Debug)]
pub(super) struct JoinCondition {
    pub(super) keys: Vec<KeyPair>,
    pub(super) times: Times,
    /// What else must hold.
    pub(super) rest: Vec<Expr>,
}

impl JoinCondition {
    /// Takes a condition apart, which is given in parts that all must hold.
    pub(super) fn of(parts: Vec<Expr>, left: &[Column], right: &[Column], zone: &str) -> JoinCondition {
        let inputs = Inputs { left, right, zone };
        let mut condition = JoinCondition { keys: Vec::new(), times: Times::default(), rest: Vec::new() };
        for part in parts {
            if let Some(bound) = inputs.time_bound(&part) {
                condition.times.found.push(bound);
                condition.times.parts.push(part);
            } else if let Some(key) = inputs.key(&part) {
                condition.keys.push(key);
            } else {
                condition.times.proctime |= inputs.compares_proctime(&part);
                condition.rest.push(part);
            }
        }
        condition.set_other_times_aside();
        condition
    }

    /// Keeps the bounds of one pair of row times. A row of a join has several times; those of another pair are
    /// conditions like any other.
    fn set_other_times_aside(&mut self) {
        let Times { parts, found, .. } = &mut self.times;
        let pair = |bound: &TimeBound| (bound.left_time, bound.right_time);
        let chosen = found.iter().map(pair).find(|wanted| {
            let of_pair: Vec<TimeBound> = found.iter().filter(|bound| pair(bound) == *wanted).copied().collect();
            limits(&of_pair).is_some()
        });
        let Some(chosen) = chosen else { return };
        let all = std::mem::take(parts).into_iter().zip(std::mem::take(found));
        for (part, bound) in all {
            if pair(&bound) == chosen {
                parts.push(part);
                found.push(bound);
            } else {
                self.rest.push(part);
            }
        }
    }
}

/// The lower and the upper bound that these are together: one equality, or one of each, as in Flink.
fn limits(bounds: &[TimeBound]) -> Option<(i64, i64)> {
    let lower = |bound: &TimeBound| match bound.operator {
        Operator::GreaterOrEqual => Some(bound.offset_ms),
        Operator::Greater => Some(bound.offset_ms.saturating_add(1)),
        _ => None,
    };
    let upper = |bound: &TimeBound| match bound.operator {
        Operator::LessOrEqual => Some(bound.offset_ms),
        Operator::Less => Some(bound.offset_ms.saturating_sub(1)),
        _ => None,
    };
    match bounds {
        [only] if only.operator == Operator::Equal => Some((only.offset_ms, only.offset_ms)),
        [a, b] => lower(a).zip(upper(b)).or_else(|| lower(b).zip(upper(a))),
        _ => None,
    }
}

impl Times {
    /// The bounds they are together, for inputs with these columns.
    pub(super) fn bounds(&self, left: &[Column], right: &[Column]) -> Result<TimeBounds, Unbounded> {
        let Some(first) = self.found.first() else {
            return Err(if self.proctime { Unbounded::Proctime } else { Unbounded::NoTimes });
        };
        let Some((lower_ms, upper_ms)) = limits(&self.found) else {
            let one_side = match self.found.as_slice() {
                [_] => true,
                [a, b] => a.operator != Operator::Equal && b.operator != Operator::Equal,
                _ => false,
            };
            let columns = join_columns(left, right, JoinKind::Inner);
            let said = || self.parts.iter().map(|part| expr_text(part, &columns)).collect::<Vec<_>>().join(" AND ");
            return Err(if one_side { Unbounded::OneSide(said()) } else { Unbounded::TooMany });
        };
        let TimeBound { left_time, right_time, .. } = *first;
        let (left, right) = (&left[left_time].ty, &right[right_time].ty);
        if std::mem::discriminant(&left.kind) != std::mem::discriminant(&right.kind) {
            return Err(Unbounded::Mixed(left.with_nullable(true), right.with_nullable(true)));
        }
        Ok(TimeBounds { left_time, right_time, lower_ms, upper_ms })
    }
}

/// The inputs of a join.
struct Inputs<'a> {
    left: &'a [Column],
    right: &'a [Column],
    zone: &'a str,
}

impl Inputs<'_> {
    fn time_of(&self, column: usize) -> TimeAttribute {
        match column.checked_sub(self.left.len()) {
            None => self.left[column].time,
            Some(column) => self.right[column].time,
        }
    }

    /// What a condition says of the row times of both inputs, if it compares them.
    fn time_bound(&self, part: &Expr) -> Option<TimeBound> {
        let Comparison { left, operator, right } = Comparison::of(part)?;
        let ((a, a_ms), (b, b_ms)) = (self.moved_time(left)?, self.moved_time(right)?);
        let width = self.left.len();
        match (a < width, b < width) {
            (true, false) => {
                let offset_ms = b_ms.checked_sub(a_ms)?;
                Some(TimeBound { left_time: a, right_time: b - width, operator, offset_ms })
            }
            (false, true) => {
                let offset_ms = a_ms.checked_sub(b_ms)?;
                Some(TimeBound { left_time: b, right_time: a - width, operator: operator.flipped(), offset_ms })
            }
            _ => None,
        }
    }

    /// The row time that an expression is, and by how many milliseconds it is moved.
    fn moved_time(&self, expr: &Expr) -> Option<(usize, i64)> {
        match &expr.node {
            ExprNode::Input(column) if self.time_of(*column) == TimeAttribute::Rowtime => Some((*column, 0)),
            // Milliseconds are left as they are.
            ExprNode::Cast { input, lenient: false } => match expr.ty.kind {
                TypeKind::Timestamp(3..) | TypeKind::TimestampLtz(3..) => self.moved_time(input),
                _ => None,
            },
            ExprNode::Call { function, args } => {
                let time = match (function.as_str(), args.as_slice()) {
                    ("+" | "-", [time, _]) => time,
                    ("TIMESTAMPADD", [_, _, time]) => time,
                    _ => return None,
                };
                let (column, before) = self.moved_time(time)?;
                Some((column, before.checked_add(self.shift_of(expr, time)?)?))
            }
            _ => None,
        }
    }

    /// By how many milliseconds an expression moves the time in it: as in Flink, by what it makes of the epoch.
    fn shift_of(&self, expr: &Expr, time: &Expr) -> Option<i64> {
        let epoch = Expr::literal(Value::Timestamp(0), time.ty.with_nullable(false));
        let mut moved = expr.clone();
        for child in moved.children_mut() {
            if *child == *time {
                *child = epoch.clone();
            }
        }
        match fold(moved, self.zone).as_literal()? {
            Value::Timestamp(nanos) if nanos % NANOS_PER_MS == 0 => i64::try_from(nanos / NANOS_PER_MS).ok(),
            _ => None,
        }
    }

    /// The two expressions that a condition wants to be equal, if each is over one input.
    fn key(&self, part: &Expr) -> Option<KeyPair> {
        let ExprNode::Call { function, args } = &part.node else { return None };
        let null_safe = match function.as_str() {
            "=" => false,
            "IS NOT DISTINCT FROM" => true,
            _ => return None,
        };
        let [a, b] = args.as_slice() else { return None };
        let width = self.left.len();
        let (mut left, mut right) = match (sides_of(a, width), sides_of(b, width)) {
            ((true, false), (false, true)) => (a.clone(), b.clone()),
            ((false, true), (true, false)) => (b.clone(), a.clone()),
            _ => return None,
        };
        if left.ty.to_arrow() != right.ty.to_arrow() {
            let common = functions::least_restrictive_type(&[left.ty.clone(), right.ty.clone()])?;
            let cast = |key: Expr| functions::cast(key, &common, false).ok();
            (left, right) = (cast(left)?, cast(right)?);
        }
        right.map_inputs(&|i| i - width);
        (can_be_key(&left.ty) && left.ty.to_arrow() == right.ty.to_arrow()).then_some(KeyPair {
            left,
            right,
            null_safe,
        })
    }

    fn compares_proctime(&self, part: &Expr) -> bool {
        let Some(Comparison { left, right, .. }) = Comparison::of(part) else { return false };
        let reads = |side: &Expr| {
            let mut found = false;
            visit_inputs(side, &mut |i| found |= self.time_of(i) == TimeAttribute::Proctime);
            found
        };
        reads(left) && reads(right)
    }
}

/// Whether equal values of this type are one key. A map is not: its entries have no order.
fn can_be_key(ty: &LogicalType) -> bool {
    match &ty.kind {
        TypeKind::Map(..) | TypeKind::Multiset(_) => false,
        TypeKind::Array(element) => can_be_key(element),
        TypeKind::Row(fields) => fields.iter().all(|field| can_be_key(&field.ty)),
        _ => true,
    }
}
