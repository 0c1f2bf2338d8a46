//! Walking expressions.

use super::{
    Expr, ExprKind, FunctionArg, FunctionCall, JsonCall, JsonValueBehavior, Literal, OrderItem, Over, QuantifiedSet,
};

/// Calls `f` on the expression and all expressions in it, the outer one first; not on those inside
/// subqueries.
pub fn visit(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(expr);
    children(expr, &mut |child| visit(child, f));
}

/// Calls `f` on the direct operands.
fn children(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    match &expr.kind {
        ExprKind::Literal(Literal::IntervalExpr { count, .. }) => f(count),
        ExprKind::Unary { expr, .. }
        | ExprKind::Is { expr, .. }
        | ExprKind::InSubquery { expr, .. }
        | ExprKind::Cast { expr, .. }
        | ExprKind::Extract { expr, .. }
        | ExprKind::RoundTo { expr, .. }
        | ExprKind::Field { expr, .. }
        | ExprKind::Collate { expr, .. } => f(expr),
        ExprKind::Binary { left, right, .. } | ExprKind::IsDistinctFrom { left, right, .. } => each(f, [left, right]),
        ExprKind::Between { expr, low, high, .. } => each(f, [expr, low, high]),
        ExprKind::InList { expr, list, .. } => {
            f(expr);
            list.iter().for_each(f);
        }
        ExprKind::Quantified { left, right, .. } => {
            f(left);
            if let QuantifiedSet::List(list) = &**right {
                list.iter().for_each(f);
            }
        }
        ExprKind::Like { expr, pattern, escape, .. } => {
            each(f, [expr, pattern]);
            escape.iter().for_each(|e| f(e));
        }
        ExprKind::Case { operand, branches, otherwise } => {
            operand.iter().for_each(|e| f(e));
            for (conditions, result) in branches {
                conditions.iter().for_each(&mut *f);
                f(result);
            }
            otherwise.iter().for_each(|e| f(e));
        }
        ExprKind::Array(items) | ExprKind::Multiset(items) | ExprKind::Row { fields: items, .. } => {
            items.iter().for_each(f);
        }
        ExprKind::Map(pairs) => pairs.iter().for_each(|(k, v)| {
            f(k);
            f(v);
        }),
        ExprKind::Index { expr, index } => each(f, [expr, index]),
        ExprKind::AtTimeZone { expr, zone } => {
            f(expr);
            zone.iter().for_each(|e| f(e));
        }
        ExprKind::Function(call) => function(call, f),
        ExprKind::TableArgument(table) => {
            table.partition_by.iter().for_each(&mut *f);
            order(&table.order_by, f);
        }
        ExprKind::Json(call) => json(call, f),
        ExprKind::TimestampAdd { .. }
        | ExprKind::TimestampDiff { .. }
        | ExprKind::DateTimeDifference { .. }
        | ExprKind::Trim { .. }
        | ExprKind::Substring { .. }
        | ExprKind::Position { .. }
        | ExprKind::Overlay { .. } => special(&expr.kind, f),
        ExprKind::Identifier(_)
        | ExprKind::Literal(_)
        | ExprKind::Exists(_)
        | ExprKind::Unique(_)
        | ExprKind::Subquery(_)
        | ExprKind::ArrayQuery(_)
        | ExprKind::MapQuery(_)
        | ExprKind::Descriptor(_)
        | ExprKind::Default
        | ExprKind::Sequence(_) => {}
    }
}

fn function(call: &FunctionCall, f: &mut dyn FnMut(&Expr)) {
    call.args.iter().for_each(|FunctionArg { value, .. }| f(value));
    order(&call.order_by, f);
    order(&call.within_group, f);
    call.filter.iter().for_each(&mut *f);
    if let Some(Over::Spec(window)) = &call.over {
        window.partition_by.iter().for_each(&mut *f);
        order(&window.order_by, f);
    }
}

/// The functions with a syntax of their own.
fn special(kind: &ExprKind, f: &mut dyn FnMut(&Expr)) {
    match kind {
        ExprKind::TimestampAdd { count, expr, .. } => each(f, [count, expr]),
        ExprKind::TimestampDiff { from, to, .. } => each(f, [from, to]),
        ExprKind::DateTimeDifference { end, start, .. } => each(f, [end, start]),
        ExprKind::Trim { chars, expr, .. } => {
            chars.iter().for_each(|e| f(e));
            f(expr);
        }
        ExprKind::Substring { expr, start, length } => {
            each(f, [expr, start]);
            length.iter().for_each(|e| f(e));
        }
        ExprKind::Position { needle, expr, start } => {
            each(f, [needle, expr]);
            start.iter().for_each(|e| f(e));
        }
        ExprKind::Overlay { expr, placing, start, length } => {
            each(f, [expr, placing, start]);
            length.iter().for_each(|e| f(e));
        }
        _ => {}
    }
}

fn each<const N: usize>(f: &mut dyn FnMut(&Expr), exprs: [&Expr; N]) {
    exprs.into_iter().for_each(f);
}

fn order(items: &[OrderItem], f: &mut dyn FnMut(&Expr)) {
    items.iter().for_each(|item| f(&item.expr));
}

fn json(call: &JsonCall, f: &mut dyn FnMut(&Expr)) {
    match call {
        JsonCall::Exists { input, path, .. } | JsonCall::Query { input, path, .. } => each(f, [input, path]),
        JsonCall::Value { input, path, on_empty, on_error, .. } => {
            each(f, [input, path]);
            for behavior in [on_empty, on_error].into_iter().flatten() {
                if let JsonValueBehavior::Default(value) = behavior {
                    f(value);
                }
            }
        }
        JsonCall::Object { entries, .. } => entries.iter().for_each(|(k, v)| {
            f(k);
            f(v);
        }),
        JsonCall::Array { items, .. } => items.iter().for_each(f),
        JsonCall::ObjectAgg { key, value, filter, .. } => {
            each(f, [key, value]);
            filter.iter().for_each(f);
        }
        JsonCall::ArrayAgg { value, order_by, filter, .. } => {
            f(value);
            order(order_by, f);
            filter.iter().for_each(f);
        }
    }
}
