//! `COALESCE`, `IFNULL`, `IF`, `NULLIF`, `GREATEST`, `LEAST`, `TYPEOF`. The first three are run by
//! the evaluator, which looks only at the branch a row takes.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use tidegate_api::expr::Expr;
use tidegate_api::function::EvalContext;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};
use tidegate_api::value::Value;

use super::args::{any_nullable, count, expect_boolean};
use super::coerce::{least_restrictive, unify};
use super::columns::arrow_failure;
use super::compare::order_values;
use super::value_array::{array_from_values, value_at};
use super::{CallInfo, Kernel, ResolveError, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "COALESCE", resolve: first_of, kernel: in_the_evaluator },
    ScalarFunction { name: "IFNULL", resolve: if_null, kernel: in_the_evaluator },
    ScalarFunction { name: "IF", resolve: if_then_else, kernel: in_the_evaluator },
    ScalarFunction { name: "NULLIF", resolve: null_if, kernel: null_if_kernel },
    ScalarFunction { name: "GREATEST", resolve: extreme, kernel: |c| extreme_kernel(c, Ordering::Greater) },
    ScalarFunction { name: "LEAST", resolve: extreme, kernel: |c| extreme_kernel(c, Ordering::Less) },
    ScalarFunction { name: "TYPEOF", resolve: type_of, kernel: type_of_kernel },
];

fn in_the_evaluator(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Err("internal error: this call is evaluated lazily".into())
}

fn first_of(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    let common = unify(args)?;
    Ok(common.with_nullable(args.iter().all(|a| a.ty.nullable)))
}

fn if_null(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    first_of(args)
}

fn if_then_else(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    expect_boolean(args, 0)?;
    let common = least_restrictive(&mut args[1..])?;
    Ok(common.with_nullable(any_nullable(args)))
}

/// Keeps the value and what it is compared by: `NULLIF(a, b)` is `NULLIF(a, a = b)` inside.
fn null_if(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let same = super::resolve("=", args.clone()).map_err(|e| match e {
        ResolveError::BadArguments(why) => why,
        ResolveError::UnknownFunction => String::new(),
    })?;
    args[1] = same;
    Ok(args[0].ty.with_nullable(true))
}

fn null_if_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], _: usize, _: &EvalContext| {
        arrow::compute::nullif(args[0].as_ref(), args[1].as_boolean()).map_err(arrow_failure)
    }))
}

fn extreme(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    let common = unify(args)?;
    match common.kind {
        TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_) | TypeKind::Row(_) => {
            Err(format!("{} has no order.", common.with_nullable(true)))
        }
        _ => Ok(common),
    }
}

fn extreme_kernel(call: &CallInfo<'_>, wanted: Ordering) -> Result<Box<dyn Kernel>, String> {
    let ty = call.ty.clone();
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let best = |row: usize| {
            let mut best = value_at(&args[0], &ty, row);
            for arg in &args[1..] {
                let next = value_at(arg, &ty, row);
                if best == Value::Null || next == Value::Null {
                    return Value::Null;
                }
                if order_values(&next, &best) == Some(wanted) {
                    best = next;
                }
            }
            best
        };
        let values: Vec<Value> = (0..rows).map(best).collect();
        Ok(array_from_values(&values, &ty))
    }))
}

fn type_of(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    if args.len() == 2 && !matches!(args[1].as_literal(), Some(Value::Boolean(_))) {
        return Err("The second argument must be TRUE or FALSE.".into());
    }
    Ok(LogicalType::string())
}

fn type_of_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let serializable = call.args.get(1).and_then(Expr::as_literal) == Some(&Value::Boolean(true));
    let name = if serializable { serializable_name(&call.args[0].ty) } else { call.args[0].ty.to_string() };
    Ok(Box::new(move |_: &[ArrayRef], rows: usize, _: &EvalContext| {
        Ok(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&name, rows))) as ArrayRef)
    }))
}

/// The name that can be parsed again; it differs for the unbounded strings.
fn serializable_name(ty: &LogicalType) -> String {
    let null = if ty.nullable { "" } else { " NOT NULL" };
    let inner = match &ty.kind {
        TypeKind::Varchar(MAX_LENGTH) => format!("VARCHAR({MAX_LENGTH})"),
        TypeKind::Varbinary(MAX_LENGTH) => format!("VARBINARY({MAX_LENGTH})"),
        TypeKind::TimestampLtz(p) => format!("TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
        TypeKind::Array(t) => format!("ARRAY<{}>", serializable_name(t)),
        TypeKind::Multiset(t) => format!("MULTISET<{}>", serializable_name(t)),
        TypeKind::Map(k, v) => format!("MAP<{}, {}>", serializable_name(k), serializable_name(v)),
        TypeKind::Row(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("`{}` {}", f.name, serializable_name(&f.ty))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        _ => return ty.to_string(),
    };
    inner + null
}
