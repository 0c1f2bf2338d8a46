//! Tables of SQL expressions and the text Flink gives for their values and types. Each is evaluated
//! twice, as it stands and constant-folded, and must come out the same.

mod arithmetic;
mod casts;
mod collections;
mod conditional;
mod lazy;
mod time;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, Evaluator};
use tidegate_api::types::Schema;
use tidegate_window::{LocalClock, Zone};

use super::{cast, eval};
use crate::parser::parse_expression;
use crate::plan::expr::{Clause, ExprBinder};
use crate::plan::scope::Scope;

pub const CTX: EvalContext = EvalContext { watermark: Some(5000), now_ms: 1_900_000_000_123 };

/// The bound expression, or the words of the refusal.
pub fn bind(sql: &str, zone: &str) -> Result<Expr, String> {
    let parsed = parse_expression(sql).map_err(|e| e.to_string())?;
    let scope = Scope::default();
    ExprBinder::new(&scope, zone, "default_database", Clause::Select).bind(&parsed).map_err(|e| e.to_string())
}

/// One row without columns.
pub fn one_row() -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::empty()), Vec::new(), &options).expect("empty batch")
}

fn text(result: &ArrayRef, expr: &Expr, zone: &str) -> String {
    assert_eq!(result.len(), 1);
    assert_eq!(result.data_type(), &expr.ty.to_arrow(), "array type of {}", expr.ty);
    let mut clock = LocalClock::new(Zone::parse(zone).expect("zone"));
    let mut out = String::new();
    cast::write_value(result.as_ref(), &expr.ty, 0, &mut clock, &mut out);
    out
}

fn run(mut node: Box<dyn Evaluator>, expr: &Expr, zone: &str) -> Result<String, String> {
    node.evaluate(&one_row(), &CTX).map(|a| text(&a, expr, zone)).map_err(|e| e.message)
}

/// What `sql` evaluates to, or fails with.
pub fn value_in(sql: &str, zone: &str) -> Result<String, String> {
    let expr = bind(sql, zone)?;
    let schema = Schema::default();
    let plain = eval::compile_unfolded(&expr, &schema, zone).map_err(|e| e.to_string())?;
    let folded = eval::compile(&expr, &schema, zone).map_err(|e| e.to_string())?;
    let (plain, folded) = (run(plain, &expr, zone), run(folded, &expr, zone));
    assert_eq!(plain, folded, "folding changed {sql}");
    plain
}

/// Checks a table of expression and value; a value that starts with `!` is part of the error.
#[track_caller]
pub fn check(table: &[(&str, &str)]) {
    check_in("UTC", table);
}

/// [`check`] in a time zone.
#[track_caller]
pub fn check_in(zone: &str, table: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, want) in table {
        let got = value_in(sql, zone);
        let right = match (&got, want.strip_prefix('!')) {
            (Err(e), Some(part)) => e.contains(part),
            (Ok(v), None) => v == want,
            _ => false,
        };
        if !right {
            wrong.push(format!("{sql}\n    want {want}\n    got  {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Checks a table of expression and the type `TYPEOF` prints.
#[track_caller]
pub fn check_types(table: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, want) in table {
        let got = bind(sql, "UTC").map(|e| e.ty.to_string());
        if got.as_deref() != Ok(want) {
            wrong.push(format!("{sql}\n    want {want}\n    got  {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
