//! What time it is: the runtime's clock and the operator's watermark, handed in with each batch.

use arrow::array::ArrayRef;
use tidegate_api::expr::Expr;
use tidegate_api::function::EvalContext;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::Zone;

use super::args::count;
use super::value_array::array_from_values;
use super::{CallInfo, Kernel, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "PROCTIME", resolve: instant, kernel: now },
    ScalarFunction { name: "CURRENT_TIMESTAMP", resolve: instant, kernel: now },
    ScalarFunction { name: "CURRENT_ROW_TIMESTAMP", resolve: instant, kernel: now },
    ScalarFunction { name: "NOW", resolve: instant, kernel: now },
    ScalarFunction { name: "LOCALTIMESTAMP", resolve: local_timestamp, kernel: now },
    ScalarFunction { name: "CURRENT_DATE", resolve: date, kernel: now },
    ScalarFunction { name: "CURRENT_TIME", resolve: time, kernel: now },
    ScalarFunction { name: "LOCALTIME", resolve: time, kernel: now },
    ScalarFunction { name: "CURRENT_WATERMARK", resolve: watermark, kernel: watermark_kernel },
];

fn no_args(args: &[Expr], kind: TypeKind) -> Result<LogicalType, String> {
    count(args, 0..=0)?;
    Ok(LogicalType::not_null(kind))
}

fn instant(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    no_args(args, TypeKind::TimestampLtz(3))
}

fn local_timestamp(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    no_args(args, TypeKind::Timestamp(3))
}

fn date(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    no_args(args, TypeKind::Date)
}

fn time(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    no_args(args, TypeKind::Time(0))
}

fn watermark(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    if args[0].ty.is_timestamp() {
        return Ok(args[0].ty.with_nullable(true));
    }
    Err(format!("The argument of CURRENT_WATERMARK() must be a rowtime attribute, but was '{}'.", args[0].ty))
}

fn now(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let ty = call.ty.clone();
    let zone = Zone::parse(call.zone)?;
    Ok(Box::new(move |_: &[ArrayRef], rows: usize, ctx: &EvalContext| {
        let local = zone.to_local(ctx.now_ms);
        let value = match ty.kind {
            TypeKind::TimestampLtz(_) => Value::Timestamp(i128::from(ctx.now_ms) * 1_000_000),
            TypeKind::Timestamp(_) => Value::Timestamp(i128::from(local) * 1_000_000),
            TypeKind::Date => Value::Int(local.div_euclid(86_400_000)),
            _ => Value::Int(local.rem_euclid(86_400_000) / 1000 * 1000),
        };
        Ok(array_from_values(std::iter::repeat_n(&value, rows), &ty))
    }))
}

fn watermark_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let ty = call.ty.clone();
    Ok(Box::new(move |_: &[ArrayRef], rows: usize, ctx: &EvalContext| {
        let value = match ctx.watermark {
            Some(at) => Value::Timestamp(i128::from(at) * 1_000_000),
            None => Value::Null,
        };
        Ok(array_from_values(std::iter::repeat_n(&value, rows), &ty))
    }))
}
