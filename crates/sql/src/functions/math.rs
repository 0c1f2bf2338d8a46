//! Numeric functions. Domain errors are NaN or infinite, as in Java; nothing here fails a row.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{ArrayRef, PrimitiveArray, StringArray};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};

use super::args::{any_nullable, count, expect_bigint, expect_double, expect_numeric, expect_string, strict};
use super::columns::{bigints, binaries, map1, strings, typed};
use super::{CallInfo, Kernel, ScalarFunction};

macro_rules! double_functions {
    ($($name:literal => $f:expr),* $(,)?) => {
        &[$(ScalarFunction { name: $name, resolve: one_double, kernel: |_| Ok(doubles($f)) }),*]
    };
}

/// Functions of one `DOUBLE`.
pub static DOUBLE_FUNCTIONS: &[ScalarFunction] = double_functions![
    "SQRT" => f64::sqrt,
    "LN" => f64::ln,
    "LOG10" => super::log10::log10,
    "LOG2" => |v| v.ln() / std::f64::consts::LN_2,
    "EXP" => f64::exp,
    "SIN" => f64::sin,
    "COS" => f64::cos,
    "TAN" => f64::tan,
    "COT" => |v| 1.0 / v.tan(),
    "ASIN" => f64::asin,
    "ACOS" => f64::acos,
    "ATAN" => f64::atan,
    "SINH" => f64::sinh,
    "COSH" => f64::cosh,
    "TANH" => f64::tanh,
    "DEGREES" => |v| v * (180.0 / std::f64::consts::PI),
    "RADIANS" => |v| v / 180.0 * std::f64::consts::PI,
];

/// The other functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "POWER", resolve: two_doubles, kernel: |_| Ok(double_pairs(f64::powf)) },
    ScalarFunction { name: "ATAN2", resolve: two_doubles, kernel: |_| Ok(double_pairs(f64::atan2)) },
    ScalarFunction { name: "LOG", resolve: logarithm, kernel: logarithm_kernel },
    ScalarFunction { name: "PI", resolve: constant, kernel: |_| Ok(constants(std::f64::consts::PI)) },
    ScalarFunction { name: "E", resolve: constant, kernel: |_| Ok(constants(std::f64::consts::E)) },
    ScalarFunction { name: "ABS", resolve: same_number, kernel: absolute },
    ScalarFunction { name: "SIGN", resolve: same_number, kernel: sign },
    ScalarFunction { name: "BIN", resolve: binary_text, kernel: |_| Ok(texts_of_bigint(|v| format!("{v:b}"))) },
    ScalarFunction { name: "HEX", resolve: hex_text, kernel: hex_kernel },
    ScalarFunction { name: "UNHEX", resolve: unhex, kernel: unhex_kernel },
];

fn one_double(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_double(args, 0)?;
    Ok(strict(TypeKind::Double, args))
}

fn two_doubles(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_double(args, 0)?;
    expect_double(args, 1)?;
    Ok(strict(TypeKind::Double, args))
}

fn logarithm(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    if args.len() == 1 { one_double(args) } else { two_doubles(args) }
}

fn constant(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 0..=0)?;
    Ok(LogicalType::not_null(TypeKind::Double))
}

fn same_number(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_numeric(args, 0)?;
    Ok(args[0].ty.clone())
}

fn doubles(f: fn(f64) -> f64) -> Box<dyn Kernel> {
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        let a: &PrimitiveArray<Float64Type> = typed(&args[0])?;
        Ok(Arc::new(a.unary::<_, Float64Type>(f)) as ArrayRef)
    })
}

fn double_pairs(f: fn(f64, f64) -> f64) -> Box<dyn Kernel> {
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        let (a, b): (&PrimitiveArray<Float64Type>, &PrimitiveArray<Float64Type>) = (typed(&args[0])?, typed(&args[1])?);
        super::columns::map2::<_, _, _, PrimitiveArray<Float64Type>>(a, b, |x, y| Ok(Some(f(x, y))))
    })
}

fn logarithm_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(if call.args.len() == 1 { doubles(f64::ln) } else { double_pairs(|base, x| x.ln() / base.ln()) })
}

fn constants(v: f64) -> Box<dyn Kernel> {
    Box::new(move |_: &[ArrayRef], rows: usize, _: &EvalContext| {
        Ok(Arc::new(PrimitiveArray::<Float64Type>::from_value(v, rows)) as ArrayRef)
    })
}

/// A kernel that keeps the type of a number: one function for integers (seen as `i64`, the result
/// wraps back), one for floats, one for the digits of decimals.
pub(super) fn keeping_type(
    ty: &LogicalType,
    whole: fn(i64) -> i64,
    float: fn(f64) -> f64,
    digits: impl Fn(i128) -> i128 + Send + 'static,
) -> Result<Box<dyn Kernel>, String> {
    macro_rules! unary {
        ($t:ty, $f:expr) => {
            Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| -> Result<ArrayRef, RowError> {
                let a: &PrimitiveArray<$t> = typed(&args[0])?;
                Ok(Arc::new(a.unary::<_, $t>($f)))
            })
        };
    }
    let data_type = ty.to_arrow();
    Ok(match ty.kind {
        TypeKind::TinyInt => unary!(Int8Type, |v| whole(v.into()) as i8),
        TypeKind::SmallInt => unary!(Int16Type, |v| whole(v.into()) as i16),
        TypeKind::Int => unary!(Int32Type, |v| whole(v.into()) as i32),
        TypeKind::BigInt => unary!(Int64Type, whole),
        TypeKind::Float => unary!(Float32Type, |v| float(v.into()) as f32),
        TypeKind::Double => unary!(Float64Type, float),
        TypeKind::Decimal(..) => Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
            let a: &PrimitiveArray<Decimal128Type> = typed(&args[0])?;
            Ok(Arc::new(a.unary::<_, Decimal128Type>(&digits).with_data_type(data_type.clone())) as ArrayRef)
        }),
        _ => return Err(format!("{ty} is no number")),
    })
}

fn absolute(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    keeping_type(call.ty, i64::wrapping_abs, f64::abs, i128::abs)
}

fn sign(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let unit = match call.ty.kind {
        TypeKind::Decimal(_, s) => super::decimal::pow10(s),
        _ => 1,
    };
    // Math.signum keeps zeros and NaN as they are.
    let float = |v: f64| if v == 0.0 || v.is_nan() { v } else { v.signum() };
    keeping_type(call.ty, i64::signum, float, move |v| v.signum() * unit)
}

fn text_result(args: &[Expr]) -> LogicalType {
    LogicalType { kind: TypeKind::Varchar(MAX_LENGTH), nullable: any_nullable(args) }
}

fn binary_text(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_bigint(args, 0)?;
    Ok(text_result(args))
}

fn texts_of_bigint(f: fn(i64) -> String) -> Box<dyn Kernel> {
    Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        map1::<_, _, StringArray>(bigints(&args[0])?, |v| Ok(Some(f(v))))
    })
}

fn hex_text(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    if args[0].ty.is_integer() {
        expect_bigint(args, 0)?;
    } else if !args[0].ty.is_binary() {
        expect_string(args, 0)?;
    }
    Ok(text_result(args))
}

fn hex_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    if call.args[0].ty.is_integer() {
        return Ok(texts_of_bigint(|v| format!("{v:X}")));
    }
    let bytes = call.args[0].ty.is_binary();
    Ok(Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        if bytes {
            return map1::<_, _, StringArray>(binaries(&args[0])?, |b| Ok(Some(hex::encode_upper(b))));
        }
        map1::<_, _, StringArray>(strings(&args[0])?, |s| Ok(Some(hex::encode_upper(s))))
    }))
}

fn unhex(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(LogicalType::bytes())
}

/// Digits of odd number: the first one is dropped and a zero byte comes first. NULL if one is no digit.
fn unhex_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], _: usize, _: &EvalContext| {
        map1::<_, _, arrow::array::BinaryArray>(strings(&args[0])?, |s| {
            if !s.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Ok(None);
            }
            let (mut bytes, even) = if s.len() % 2 == 1 { (vec![0], &s[1..]) } else { (Vec::new(), s) };
            bytes.extend(hex::decode(even).unwrap_or_default());
            Ok(Some(bytes))
        })
    }))
}
