//! Branches run only on rows that take them, and errors name the row of the whole batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::function::RowError;
use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};
use tidegate_api::value::Value;

use super::CTX;
use crate::functions::{eval, resolve};

fn int() -> LogicalType {
    LogicalType::new(TypeKind::Int)
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    resolve(name, args).expect(name)
}

fn number(i: i64) -> Expr {
    Expr::literal(Value::Int(i), LogicalType::not_null(TypeKind::Int))
}

fn run(expr: &Expr, column: Int32Array) -> Result<ArrayRef, RowError> {
    let schema = Schema::new(vec![Field::new("n", int())]);
    let batch = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(column)]).expect("batch");
    eval::compile(expr, &schema, "UTC").expect("compiles").evaluate(&batch, &CTX)
}

/// `10 / n`
fn share() -> Expr {
    call("/", vec![number(10), Expr::input(0, int())])
}

#[test]
fn a_branch_not_taken_does_not_fail() {
    let is_zero = call("=", vec![Expr::input(0, int()), number(0)]);
    let case = Expr {
        ty: int(),
        node: ExprNode::Case { branches: vec![(is_zero.clone(), number(-1))], otherwise: Some(Box::new(share())) },
    };
    let column = || Int32Array::from(vec![Some(5), Some(0), None, Some(2)]);
    let want: ArrayRef = Arc::new(Int32Array::from(vec![Some(2), Some(-1), None, Some(5)]));
    assert_eq!(&run(&case, column()).expect("runs"), &want);
    let branch = call("IF", vec![is_zero.clone(), number(-1), share()]);
    assert_eq!(&run(&branch, column()).expect("runs"), &want);
    let guarded = call("AND", vec![call("NOT", vec![is_zero]), call("=", vec![share(), number(2)])]);
    let found = run(&guarded, column()).expect("runs");
    let want: ArrayRef = Arc::new(arrow::array::BooleanArray::from(vec![Some(true), Some(false), None, Some(false)]));
    assert_eq!(&found, &want);
    assert_eq!(run(&share(), column()).expect_err("fails").row, 1);
}

#[test]
fn an_error_names_its_row_in_the_whole_batch() {
    let negative = call("<", vec![Expr::input(0, int()), number(0)]);
    let case = call("IF", vec![negative, number(0), share()]);
    let error = run(&case, Int32Array::from(vec![-1, -2, 4, 0])).expect_err("fails");
    assert_eq!(error, RowError::new(3, "Division by zero"));
}

#[test]
fn coalesce_looks_no_further_than_it_must() {
    let first = call("COALESCE", vec![Expr::input(0, int()), call("/", vec![number(1), number(0)])]);
    let found = run(&first, Int32Array::from(vec![1, 2])).expect("runs");
    assert_eq!(&found, &(Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef));
    assert_eq!(run(&first, Int32Array::from(vec![Some(1), None])).expect_err("fails").row, 1);
}

#[test]
fn literals_fill_batches_of_any_length() {
    let sum = call("+", vec![Expr::input(0, int()), number(1)]);
    for rows in [0usize, 3, 1, 5] {
        let found = run(&sum, (0..rows as i32).collect()).expect("runs");
        assert_eq!(found.len(), rows);
    }
}
