//! Three-valued logic: `NOT`, `IS [NOT] NULL`, `IS [NOT] TRUE`, ... `AND` and `OR` live in the
//! evaluator, since they look at their right side only where they must.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::boolean::not;
use tidegate_api::expr::Expr;
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, TypeKind};

use super::args::{count, expect_boolean, strict};
use super::columns::{arrow_failure, booleans};
use super::{CallInfo, Kernel, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "AND", resolve: connective, kernel: in_the_evaluator },
    ScalarFunction { name: "OR", resolve: connective, kernel: in_the_evaluator },
    ScalarFunction { name: "NOT", resolve: negation, kernel: not_kernel },
    ScalarFunction { name: "IS NULL", resolve: null_test, kernel: |_| null_kernel(true) },
    ScalarFunction { name: "IS NOT NULL", resolve: null_test, kernel: |_| null_kernel(false) },
    ScalarFunction { name: "IS TRUE", resolve: truth_test, kernel: |_| truth_kernel(true, true) },
    ScalarFunction { name: "IS NOT TRUE", resolve: truth_test, kernel: |_| truth_kernel(true, false) },
    ScalarFunction { name: "IS FALSE", resolve: truth_test, kernel: |_| truth_kernel(false, true) },
    ScalarFunction { name: "IS NOT FALSE", resolve: truth_test, kernel: |_| truth_kernel(false, false) },
    ScalarFunction { name: "IS UNKNOWN", resolve: truth_test, kernel: |_| null_kernel(true) },
    ScalarFunction { name: "IS NOT UNKNOWN", resolve: truth_test, kernel: |_| null_kernel(false) },
];

fn connective(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    for i in 0..args.len() {
        expect_boolean(args, i)?;
    }
    Ok(strict(TypeKind::Boolean, args))
}

fn in_the_evaluator(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Err("internal error: this call is evaluated lazily".into())
}

fn negation(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_boolean(args, 0)?;
    Ok(strict(TypeKind::Boolean, args))
}

fn null_test(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    Ok(LogicalType::not_null(TypeKind::Boolean))
}

fn truth_test(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    negation(args)?;
    Ok(LogicalType::not_null(TypeKind::Boolean))
}

fn not_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], _: usize, _: &_| -> Result<ArrayRef, RowError> {
        Ok(Arc::new(not(booleans(&args[0])?).map_err(arrow_failure)?))
    }))
}

fn null_kernel(when_null: bool) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &_| -> Result<ArrayRef, RowError> {
        let bits = match args[0].logical_nulls() {
            None if when_null => BooleanBuffer::new_unset(rows),
            None => BooleanBuffer::new_set(rows),
            Some(valid) if when_null => !valid.inner(),
            Some(valid) => valid.inner().clone(),
        };
        Ok(Arc::new(BooleanArray::new(bits, None)))
    }))
}

/// Whether the argument is (or, unless `wanted`, is not) exactly `truth`; NULL is neither.
fn truth_kernel(truth: bool, wanted: bool) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(move |args: &[ArrayRef], _: usize, _: &_| -> Result<ArrayRef, RowError> {
        let arg = booleans(&args[0])?;
        let same = if truth { arg.values().clone() } else { !arg.values() };
        let same = match arg.nulls() {
            Some(valid) => &same & valid.inner(),
            None => same,
        };
        let bits = if wanted { same } else { !&same };
        Ok(Arc::new(BooleanArray::new(bits, None)))
    }))
}
