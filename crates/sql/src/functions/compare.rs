//! Comparison: `=` to `>=`, `IS [NOT] DISTINCT FROM`, `IN`, and the order of two values.
//!
//! Numbers compare as Java's primitives do: NaN equals nothing and is below and above nothing, and
//! `-0.0 = 0.0`. Strings compare by their bytes, without padding. Both sides first meet in a common
//! type; a string meets a number, a boolean or a point in time by becoming one.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::types::{Float32Type, Float64Type};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, Scalar};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::cmp;
use hashbrown::HashSet;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::args::{count, is_null_literal, strict};
use super::coerce::{cast, common_type, unify};
use super::columns::{arrow_failure, collect, strings};
use super::value_array::{array_from_values, value_at};
use super::{CallInfo, Kernel, ScalarFunction};
use crate::plan::error::calcite_type;

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "=", resolve: equality, kernel: |c| compare(c, Operator::Eq) },
    ScalarFunction { name: "<>", resolve: equality, kernel: |c| compare(c, Operator::Ne) },
    ScalarFunction { name: "<", resolve: comparison, kernel: |c| compare(c, Operator::Lt) },
    ScalarFunction { name: "<=", resolve: comparison, kernel: |c| compare(c, Operator::Le) },
    ScalarFunction { name: ">", resolve: comparison, kernel: |c| compare(c, Operator::Gt) },
    ScalarFunction { name: ">=", resolve: comparison, kernel: |c| compare(c, Operator::Ge) },
    ScalarFunction { name: "IS DISTINCT FROM", resolve: distinct, kernel: |c| distinct_kernel(c, true) },
    ScalarFunction { name: "IS NOT DISTINCT FROM", resolve: distinct, kernel: |c| distinct_kernel(c, false) },
    ScalarFunction { name: "IN", resolve: membership, kernel: in_kernel },
];

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Operator {
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Operator::Eq => order == Some(Ordering::Equal),
            Operator::Ne => order != Some(Ordering::Equal),
            Operator::Lt => order == Some(Ordering::Less),
            Operator::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Gt => order == Some(Ordering::Greater),
            Operator::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// A date and a timestamp do not compare.
fn mixes_dates(args: &[Expr]) -> bool {
    args.iter().any(|e| e.ty.kind == TypeKind::Date) && args.iter().any(|e| e.ty.is_timestamp())
}

/// Flink casts a text beside a number for `<` and `IN`, but not for `=`.
fn equality(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    let mixed = |a: &Expr, b: &Expr| a.ty.is_numeric() && b.ty.is_string();
    if let [a, b] = args.as_slice()
        && (mixed(a, b) || mixed(b, a))
    {
        let [a, b] = [a, b].map(|e| calcite_type(&e.ty).split('(').next().unwrap_or_default().to_owned());
        return Err(format!("implicit type conversion between {a} and {b} is not supported now"));
    }
    comparison(args)
}

fn comparison(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    if mixes_dates(args) {
        return Err("Supported form(s): '<COMPARABLE_TYPE> = <COMPARABLE_TYPE>'".into());
    }
    meet(args)?;
    Ok(strict(TypeKind::Boolean, args))
}

fn distinct(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    comparison(args)?;
    Ok(LogicalType::not_null(TypeKind::Boolean))
}

fn membership(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..)?;
    if mixes_dates(args) {
        return Err("Values passed to IN operator must have compatible types".into());
    }
    meet(args)?;
    Ok(strict(TypeKind::Boolean, args))
}

/// Makes operands comparable. A string beside another kind is cast to it.
pub fn meet(args: &mut [Expr]) -> Result<(), String> {
    let others: Vec<LogicalType> =
        args.iter().map(|a| a.ty.clone()).filter(|t| !t.is_string() && t.kind != TypeKind::Null).collect();
    let Some(other) = common_type(&others) else {
        return unify(args).map(|_| ());
    };
    let castable = other.is_numeric()
        || other.is_timestamp()
        || matches!(other.kind, TypeKind::Boolean | TypeKind::Date | TypeKind::Time(_));
    for arg in args.iter_mut().filter(|a| a.ty.is_string() && castable) {
        let text = std::mem::replace(arg, super::args::null_literal());
        // A text that is no point in time compares as NULL; one that is no number fails.
        let lenient = !other.is_numeric() && other.kind != TypeKind::Boolean;
        let to = if other.is_timestamp() { finest(&other) } else { other.clone() };
        *arg = cast(text, &to, lenient)?;
    }
    unify(args).map(|_| ())
}

/// A timestamp type that keeps all digits a text may have.
fn finest(ty: &LogicalType) -> LogicalType {
    let kind = match ty.kind {
        TypeKind::Timestamp(p) => TypeKind::Timestamp(p.max(3)),
        TypeKind::TimestampLtz(p) => TypeKind::TimestampLtz(p.max(3)),
        ref kind => kind.clone(),
    };
    LogicalType { kind, nullable: ty.nullable }
}

fn nested(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_) | TypeKind::Row(_))
}

/// A literal side is compared as a scalar.
fn scalar(expr: &Expr) -> Option<ArrayRef> {
    expr.as_literal().map(|v| array_from_values([v], &expr.ty))
}

fn compare(call: &CallInfo<'_>, op: Operator) -> Result<Box<dyn Kernel>, String> {
    let [left, right] = call.args else { return Err("a comparison has two sides".into()) };
    let ty = left.ty.clone();
    if nested(&ty) {
        return Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
            compare_nested(&ty, op, args, rows)
        }));
    }
    Ok(match ty.kind {
        TypeKind::Double => float_kernel::<Float64Type>(op),
        TypeKind::Float => float_kernel::<Float32Type>(op),
        TypeKind::Null => Box::new(|_: &[ArrayRef], rows: usize, _: &EvalContext| Ok(unknown(rows))),
        _ => {
            let (left, right) = (scalar(left), scalar(right));
            Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
                let found = match (&left, &right) {
                    (None, Some(r)) => ordered(op, &args[0], &Scalar::new(r.clone())),
                    (Some(l), None) => ordered(op, &Scalar::new(l.clone()), &args[1]),
                    _ => ordered(op, &args[0], &args[1]),
                };
                Ok(Arc::new(found.map_err(arrow_failure)?) as ArrayRef)
            })
        }
    })
}

fn ordered(
    op: Operator,
    a: &dyn arrow::array::Datum,
    b: &dyn arrow::array::Datum,
) -> Result<BooleanArray, arrow::error::ArrowError> {
    match op {
        Operator::Eq => cmp::eq(a, b),
        Operator::Ne => cmp::neq(a, b),
        Operator::Lt => cmp::lt(a, b),
        Operator::Le => cmp::lt_eq(a, b),
        Operator::Gt => cmp::gt(a, b),
        Operator::Ge => cmp::gt_eq(a, b),
    }
}

fn unknown(rows: usize) -> ArrayRef {
    Arc::new(BooleanArray::new_null(rows))
}

fn float_kernel<T>(op: Operator) -> Box<dyn Kernel>
where
    T: ArrowPrimitiveType,
    T::Native: PartialOrd,
{
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        let a: &PrimitiveArray<T> = super::columns::typed(&args[0])?;
        let b: &PrimitiveArray<T> = super::columns::typed(&args[1])?;
        let (x, y) = (a.values(), b.values());
        let bits = match op {
            Operator::Eq => BooleanBuffer::collect_bool(a.len(), |i| x[i] == y[i]),
            Operator::Ne => BooleanBuffer::collect_bool(a.len(), |i| x[i] != y[i]),
            Operator::Lt => BooleanBuffer::collect_bool(a.len(), |i| x[i] < y[i]),
            Operator::Le => BooleanBuffer::collect_bool(a.len(), |i| x[i] <= y[i]),
            Operator::Gt => BooleanBuffer::collect_bool(a.len(), |i| x[i] > y[i]),
            Operator::Ge => BooleanBuffer::collect_bool(a.len(), |i| x[i] >= y[i]),
        };
        let valid = NullBuffer::union(a.nulls(), b.nulls());
        Ok(Arc::new(BooleanArray::new(bits, valid)) as ArrayRef)
    })
}

fn compare_nested(ty: &LogicalType, op: Operator, args: &[ArrayRef], rows: usize) -> Result<ArrayRef, RowError> {
    if !matches!(op, Operator::Eq | Operator::Ne) && !matches!(ty.kind, TypeKind::Row(_)) {
        return Err(RowError::new(0, format!("{ty} can be compared for equality only")));
    }
    collect::<bool, BooleanArray>(rows, |i| {
        let (a, b) = (value_at(&args[0], ty, i), value_at(&args[1], ty, i));
        if a == Value::Null || b == Value::Null {
            return Ok(None);
        }
        let order = if same_value(&a, &b) { Some(Ordering::Equal) } else { order_values(&a, &b) };
        Ok(Some(match op {
            Operator::Eq => same_value(&a, &b),
            Operator::Ne => !same_value(&a, &b),
            op => op.holds(order),
        }))
    })
}

/// Whether two values of one type are the same; NULL is the same as NULL, maps ignore order.
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Double(x), Value::Double(y)) => x == y || (x.is_nan() && y.is_nan()),
        (Value::Array(x), Value::Array(y)) | (Value::Row(x), Value::Row(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(a, b)| same_value(a, b))
        }
        (Value::Map(x), Value::Map(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.iter().any(|(l, w)| same_value(k, l) && same_value(v, w)))
        }
        _ => a == b,
    }
}

/// The order of two values of one type, NULL first; `None` for what has no order.
/// Doubles go by `Double.compare`: `-0.0` before `0.0`, NaN last.
pub fn order_values(a: &Value, b: &Value) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Boolean(x), Value::Boolean(y)) => x.cmp(y),
        (Value::Int(x), Value::Int(y)) => x.cmp(y),
        (Value::Double(x), Value::Double(y)) => java_order(*x, *y),
        (Value::Decimal(x), Value::Decimal(y)) | (Value::Timestamp(x), Value::Timestamp(y)) => x.cmp(y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bytes(x), Value::Bytes(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) | (Value::Row(x), Value::Row(y)) => {
            for (a, b) in x.iter().zip(y) {
                let order = order_values(a, b)?;
                if order != Ordering::Equal {
                    return Some(order);
                }
            }
            x.len().cmp(&y.len())
        }
        _ => return None,
    })
}

/// `Double.compare`.
pub fn java_order(x: f64, y: f64) -> Ordering {
    match x.partial_cmp(&y) {
        Some(Ordering::Equal) => y.is_sign_negative().cmp(&x.is_sign_negative()),
        Some(order) => order,
        None => x.is_nan().cmp(&y.is_nan()),
    }
}

fn distinct_kernel(call: &CallInfo<'_>, wanted: bool) -> Result<Box<dyn Kernel>, String> {
    let mut equal = compare(call, Operator::Eq)?;
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, ctx: &EvalContext| {
        let same = equal.eval(args, rows, ctx)?;
        let same = same.as_boolean();
        let (a, b) = (args[0].logical_nulls(), args[1].logical_nulls());
        let null = |n: &Option<NullBuffer>, i: usize| n.as_ref().is_some_and(|n| n.is_null(i));
        let bits = BooleanBuffer::collect_bool(rows, |i| {
            let not_distinct =
                if null(&a, i) || null(&b, i) { null(&a, i) && null(&b, i) } else { same.is_valid(i) && same.value(i) };
            not_distinct != wanted
        });
        Ok(Arc::new(BooleanArray::new(bits, None)) as ArrayRef)
    }))
}

/// `value IN (items)`: with literal strings or integers a set lookup, else comparison by comparison.
fn in_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let (value, items) = call.args.split_first().ok_or("IN has a value")?;
    let literal = items.iter().all(|i| i.as_literal().is_some());
    let has_null = items.iter().any(is_null_literal);
    if literal && value.ty.is_string() {
        let set: HashSet<String> = items.iter().filter_map(super::args::literal_str).map(String::from).collect();
        return Ok(Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
            super::columns::map1::<_, _, BooleanArray>(strings(&args[0])?, |s| Ok(member(set.contains(s), has_null)))
        }));
    }
    if literal && value.ty.is_integer() {
        let set: HashSet<i64> = items.iter().filter_map(super::args::literal_int).collect();
        let ty = value.ty.clone();
        return Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
            collect::<bool, BooleanArray>(rows, |i| {
                Ok(match value_at(&args[0], &ty, i) {
                    Value::Int(v) => member(set.contains(&v), has_null),
                    _ => None,
                })
            })
        }));
    }
    let mut tests = Vec::new();
    for item in items {
        let pair = [value.clone(), item.clone()];
        tests.push(compare(&CallInfo { args: &pair, ty: call.ty, zone: call.zone }, Operator::Eq)?);
    }
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, ctx: &EvalContext| {
        let mut found = BooleanArray::new(BooleanBuffer::new_unset(rows), None);
        for (i, test) in tests.iter_mut().enumerate() {
            let same = test.eval(&[args[0].clone(), args[i + 1].clone()], rows, ctx)?;
            found = arrow::compute::kernels::boolean::or_kleene(&found, same.as_boolean()).map_err(arrow_failure)?;
        }
        Ok(Arc::new(found) as ArrayRef)
    }))
}

fn member(found: bool, has_null: bool) -> Option<bool> {
    if found { Some(true) } else { (!has_null).then_some(false) }
}
