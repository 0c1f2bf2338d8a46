//! Constant folding: what does not depend on a row is computed while planning.
//!
//! A constant that fails (`1 / 0`, `CAST('x' AS INT)`) stays as it is and fails on the first row that
//! needs it, like any other expression. Clocks, randomness and the watermark are no constants.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::function::EvalContext;
use tidegate_api::types::{LogicalType, Schema, TypeKind};
use tidegate_api::value::Value;

use super::eval;
use super::value_array::value_at;

/// Calls whose value is not settled by their arguments.
const UNSETTLED: &[&str] = &[
    "RAND",
    "RAND_INTEGER",
    "UUID",
    "PROCTIME",
    "CURRENT_TIMESTAMP",
    "NOW",
    "CURRENT_ROW_TIMESTAMP",
    "LOCALTIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "LOCALTIME",
    "CURRENT_WATERMARK",
    "UNIX_TIMESTAMP",
    "SOURCE_WATERMARK",
];

/// `expr` with its constant parts replaced by literals of the same type.
pub fn fold(expr: Expr, zone: &str) -> Expr {
    let mut expr = expr;
    if matches!(expr.node, ExprNode::Input(_) | ExprNode::Literal(_)) {
        return expr;
    }
    for child in expr.children_mut() {
        let whole = std::mem::replace(child, super::args::null_literal());
        *child = fold(whole, zone);
    }
    let expr = same_on_both_sides(expr);
    if expr.children().iter().any(|c| c.as_literal().is_none()) || unsettled(&expr) {
        return expr;
    }
    match constant(&expr, zone) {
        Some(value) => Expr::literal(value, expr.ty),
        None => expr,
    }
}

fn unsettled(expr: &Expr) -> bool {
    match &expr.node {
        ExprNode::Call { function, args } => match function.as_str() {
            // With a text argument it is a plain conversion.
            "UNIX_TIMESTAMP" => args.is_empty(),
            name => UNSETTLED.contains(&name),
        },
        _ => false,
    }
}

fn constant(expr: &Expr, zone: &str) -> Option<Value> {
    let mut node = eval::compile_unfolded(expr, &Schema::default(), zone).ok()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(ArrowSchema::empty()), Vec::new(), &options).ok()?;
    let ctx = EvalContext { watermark: None, now_ms: 0 };
    let column = node.evaluate(&batch, &ctx).ok()?;
    let value = value_at(&column, &expr.ty, 0);
    match (&value, &expr.ty.kind) {
        // Flink's planner holds numbers as decimals, which know neither of these.
        (Value::Double(d), _) if !d.is_finite() => None,
        (Value::Double(d), _) if *d == 0.0 => Some(Value::Double(0.0)),
        (Value::Null, TypeKind::Null) => Some(value),
        (Value::Null, _) if !expr.ty.nullable => None,
        _ => Some(value),
    }
}

/// `x = x` is TRUE and `x < x` FALSE wherever `x` is not NULL, even for NaN: Flink's planner
/// decides it without looking at the value.
fn same_on_both_sides(expr: Expr) -> Expr {
    let ExprNode::Call { function, args } = &expr.node else { return expr };
    let answer = match function.as_str() {
        "=" | "<=" | ">=" => true,
        "<>" | "<" | ">" => false,
        _ => return expr,
    };
    let [left, right] = args.as_slice() else { return expr };
    if left != right || left.as_literal().is_some() || UNSETTLED.iter().any(|name| left.calls(name)) {
        return expr;
    }
    let literal = Expr::literal(Value::Boolean(answer), LogicalType::not_null(TypeKind::Boolean));
    if !left.ty.nullable {
        return Expr { ty: expr.ty, ..literal };
    }
    let known = Expr::call("IS NOT NULL", vec![left.clone()], LogicalType::not_null(TypeKind::Boolean));
    Expr { ty: expr.ty, node: ExprNode::Case { branches: vec![(known, literal)], otherwise: None } }
}
