//! `+ - * / % NEGATE` on numbers. Integers wrap around and divide toward zero; decimals get Flink's
//! derived precision; `DECIMAL` beside a floating number is `DOUBLE`. With dates, times and
//! intervals the same operators are in [`super::interval`].

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, Datum, PrimitiveArray, Scalar};
use arrow::compute::binary;
use arrow::compute::kernels::numeric::{add_wrapping, mul_wrapping, neg_wrapping, sub_wrapping};
use arrow::datatypes::ArrowNativeTypeOp;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind};

use super::args::{count, force, strict};
use super::coerce::{as_decimal, least_restrictive_type};
use super::columns::{arrow_failure, collect, retyped, typed};
use super::value_array::array_from_values;
use super::{CallInfo, Kernel, ScalarFunction, decimal, interval};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "+", resolve: |a| resolve(Operator::Add, a), kernel: |c| kernel(Operator::Add, c) },
    ScalarFunction {
        name: "-",
        resolve: |a| resolve(Operator::Subtract, a),
        kernel: |c| kernel(Operator::Subtract, c),
    },
    ScalarFunction {
        name: "*",
        resolve: |a| resolve(Operator::Multiply, a),
        kernel: |c| kernel(Operator::Multiply, c),
    },
    ScalarFunction { name: "/", resolve: |a| resolve(Operator::Divide, a), kernel: |c| kernel(Operator::Divide, c) },
    ScalarFunction { name: "%", resolve: |a| resolve(Operator::Modulo, a), kernel: |c| kernel(Operator::Modulo, c) },
    ScalarFunction { name: "MOD", resolve: |a| resolve(Operator::Modulo, a), kernel: |c| kernel(Operator::Modulo, c) },
    ScalarFunction { name: "NEGATE", resolve: negation, kernel: negate },
];

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`, `MOD`
    Modulo,
}

const BY_ZERO: &str = "Division by zero";

fn resolve(op: Operator, args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    if args.len() == 1 && matches!(op, Operator::Add) && args[0].ty.is_numeric() {
        return Ok(args[0].ty.clone());
    }
    count(args, 2..=2)?;
    if let Some(ty) = interval::resolve(op, args)? {
        return Ok(ty);
    }
    // A bare NULL takes the type of the other side.
    for (i, other) in [(0, 1), (1, 0)] {
        if args[i].ty.kind == TypeKind::Null && args[other].ty.is_numeric() {
            let kind = args[other].ty.kind.clone();
            force(args, i, kind)?;
        }
    }
    if !args.iter().all(|a| a.ty.is_numeric()) {
        return Err(supported(op).into());
    }
    if op == Operator::Modulo && args.iter().any(|a| a.ty.is_approximate()) {
        return Err(supported(op).into());
    }
    let kind = result_kind(op, &args[0].ty, &args[1].ty)?;
    for i in 0..2 {
        match (&kind, as_decimal(&args[i].ty.kind)) {
            (TypeKind::Decimal(..), Some((p, s))) => force(args, i, TypeKind::Decimal(p, s))?,
            // The remainder of integers is taken in the wider type and has the second's.
            _ if op == Operator::Modulo => {}
            _ => force(args, i, kind.clone())?,
        }
    }
    if op == Operator::Modulo && !matches!(kind, TypeKind::Decimal(..)) {
        super::coerce::unify(args)?;
    }
    Ok(strict(kind, args))
}

fn supported(op: Operator) -> &'static str {
    match op {
        Operator::Add => "Supported form(s): '<NUMERIC> + <NUMERIC>', '<DATETIME> + <INTERVAL>'",
        Operator::Subtract => "Supported form(s): '<NUMERIC> - <NUMERIC>', '<DATETIME> - <INTERVAL>'",
        Operator::Multiply => "Supported form(s): '<NUMERIC> * <NUMERIC>', '<NUMERIC> * <INTERVAL>'",
        Operator::Divide => "Supported form(s): '<NUMERIC> / <NUMERIC>', '<INTERVAL> / <NUMERIC>'",
        Operator::Modulo => "Supported form(s): 'MOD(<EXACT_NUMERIC>, <EXACT_NUMERIC>)'",
    }
}

fn result_kind(op: Operator, a: &LogicalType, b: &LogicalType) -> Result<TypeKind, String> {
    let has_decimal = [a, b].iter().any(|t| matches!(t.kind, TypeKind::Decimal(..)));
    if let (true, Some(x), Some(y)) = (has_decimal, as_decimal(&a.kind), as_decimal(&b.kind)) {
        let (p, s) = decimal_result(op, x, y);
        return Ok(TypeKind::Decimal(p, s));
    }
    if op == Operator::Modulo {
        return Ok(b.kind.clone());
    }
    least_restrictive_type(&[a.clone(), b.clone()]).map(|t| t.kind).ok_or_else(|| supported(op).to_string())
}

/// Precision and scale of a result, cut to 38 digits by giving up digits of the fraction, but not
/// more than down to six.
pub fn decimal_result(op: Operator, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> (u8, u8) {
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    let (p, s) = match op {
        Operator::Add | Operator::Subtract => (s1.max(s2) + (p1 - s1).max(p2 - s2) + 1, s1.max(s2)),
        Operator::Multiply => (p1 + p2 + 1, s1 + s2),
        Operator::Divide => {
            let scale = (s1 + p2 + 1).max(6);
            (p1 - s1 + s2 + scale, scale)
        }
        Operator::Modulo => ((p1 - s1).min(p2 - s2) + s1.max(s2), s1.max(s2)),
    };
    if p <= 38 {
        return (p.max(1) as u8, s as u8);
    }
    let scale = (38 - (p - s)).max(s.min(6));
    (38, scale as u8)
}

fn kernel(op: Operator, call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    if let Some(kernel) = interval::kernel(op, call)? {
        return Ok(kernel);
    }
    if call.args.len() == 1 {
        return Ok(Box::new(|args: &[ArrayRef], _: usize, _: &EvalContext| Ok(args[0].clone())));
    }
    let working = if op == Operator::Modulo { &call.args[0].ty } else { call.ty };
    if let TypeKind::Decimal(p, s) = call.ty.kind {
        return decimal_kernel(op, call, p, s);
    }
    if matches!(op, Operator::Add | Operator::Subtract | Operator::Multiply) {
        return Ok(wrapping(op, call.args));
    }
    let (from, to) = (working.clone(), call.ty.clone());
    let mut narrow = super::cast::kernel(&from, &to, false, "UTC")?;
    let mut divide: Box<dyn Kernel> = match working.kind {
        TypeKind::TinyInt => whole::<Int8Type>(op),
        TypeKind::SmallInt => whole::<Int16Type>(op),
        TypeKind::Int => whole::<Int32Type>(op),
        TypeKind::BigInt => whole::<Int64Type>(op),
        TypeKind::Float => quotient::<Float32Type>(),
        TypeKind::Double => quotient::<Float64Type>(),
        _ => return Err(format!("no arithmetic on {working}")),
    };
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, ctx: &EvalContext| narrow(&divide.eval(args, rows, ctx)?)))
}

/// `+ - *` without a check; a literal side is a scalar.
pub(super) fn wrapping(op: Operator, args: &[Expr]) -> Box<dyn Kernel> {
    let literal = |e: &Expr| e.as_literal().map(|v| Scalar::new(array_from_values([v], &e.ty)));
    let (left, right) = (literal(&args[0]), literal(&args[1]));
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        let (a, b): (&dyn Datum, &dyn Datum) = match (&left, &right) {
            (Some(l), None) => (l, &args[1]),
            (None, Some(r)) => (&args[0], r),
            _ => (&args[0], &args[1]),
        };
        let result = match op {
            Operator::Add => add_wrapping(a, b),
            Operator::Subtract => sub_wrapping(a, b),
            _ => mul_wrapping(a, b),
        };
        result.map_err(arrow_failure)
    })
}

/// Integer division and remainder.
fn whole<T>(op: Operator) -> Box<dyn Kernel>
where
    T: ArrowPrimitiveType,
    T::Native: ArrowNativeTypeOp,
{
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        let (a, b): (&PrimitiveArray<T>, &PrimitiveArray<T>) = (typed(&args[0])?, typed(&args[1])?);
        let zero = |i: &usize| b.value(*i).is_zero() && a.is_valid(*i) && b.is_valid(*i);
        if let Some(row) = (0..a.len()).find(zero) {
            return Err(RowError::new(row, BY_ZERO));
        }
        let divide = |x: T::Native, y: T::Native| match op {
            _ if y.is_zero() => T::Native::ZERO,
            Operator::Divide => x.div_wrapping(y),
            _ => x.mod_wrapping(y),
        };
        let result: PrimitiveArray<T> = binary(a, b, divide).map_err(arrow_failure)?;
        Ok(Arc::new(result) as ArrayRef)
    })
}

/// Floating division: by zero it is infinite or NaN.
fn quotient<T>() -> Box<dyn Kernel>
where
    T: ArrowPrimitiveType,
    T::Native: std::ops::Div<Output = T::Native>,
{
    Box::new(|args: &[ArrayRef], _: usize, _: &EvalContext| {
        let (a, b): (&PrimitiveArray<T>, &PrimitiveArray<T>) = (typed(&args[0])?, typed(&args[1])?);
        let result: PrimitiveArray<T> = binary(a, b, |x, y| x / y).map_err(arrow_failure)?;
        Ok(Arc::new(result) as ArrayRef)
    })
}

fn decimal_kernel(op: Operator, call: &CallInfo<'_>, p: u8, scale: u8) -> Result<Box<dyn Kernel>, String> {
    let scales: Vec<u8> = call.args.iter().filter_map(|a| as_decimal(&a.ty.kind)).map(|(_, s)| s).collect();
    let [s, t] = scales[..] else { return Err("decimal arithmetic needs decimals".into()) };
    let data_type = call.ty.to_arrow();
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let (a, b): (&PrimitiveArray<Decimal128Type>, &PrimitiveArray<Decimal128Type>) =
            (typed(&args[0])?, typed(&args[1])?);
        let cells = collect::<i128, PrimitiveArray<Decimal128Type>>(rows, |i| {
            if a.is_null(i) || b.is_null(i) {
                return Ok(None);
            }
            let (x, y) = (a.value(i), b.value(i));
            Ok(match op {
                Operator::Add => decimal::add(x, s, y, t, p, scale),
                Operator::Subtract => decimal::add(x, s, -y, t, p, scale),
                Operator::Multiply => decimal::multiply(x, s, y, t, p, scale),
                Operator::Divide | Operator::Modulo if y == 0 => return Err(BY_ZERO.into()),
                Operator::Divide => decimal::divide(x, s, y, t, p, scale),
                Operator::Modulo => decimal::remainder(x, s, y, t, p, scale),
            })
        })?;
        Ok(retyped(typed::<PrimitiveArray<Decimal128Type>>(&cells)?.clone(), &data_type))
    }))
}

fn negation(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    let ty = &args[0].ty;
    let interval = matches!(ty.kind, TypeKind::IntervalYearMonth | TypeKind::IntervalDayTime);
    if ty.is_numeric() || interval {
        Ok(ty.clone())
    } else {
        Err("Supported form(s): '-<NUMERIC>', '-<INTERVAL>'".into())
    }
}

fn negate(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], _: usize, _: &EvalContext| neg_wrapping(args[0].as_ref()).map_err(arrow_failure)))
}
