//! Aggregate functions: their types, and accumulators over many groups at once.
//!
//! One [`GroupedAccumulator`] serves all groups of an operator: groups are dense numbers, rows come as
//! columns, and the type is looked at once per batch. `DISTINCT` is a wrapper around any of them.
//! Result types and arithmetic are Flink's: sums keep the type of their argument and wrap around,
//! integer averages truncate, decimals leave 38 digits as NULL.

use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use tidegate_api::expr::AggregateCall;
use tidegate_api::function::GroupedAccumulator;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result, Value};

use crate::functions::ResolveError;
use crate::functions::json::check_json;

mod counted;
mod decimal_moments;
mod distinct;
mod extreme;
mod gather;
mod json;
mod moments;
mod numeric;
mod percentile;
mod rows;
mod state;

use decimal_moments::{DecimalMoments, SCALE};
use distinct::Distinct;
use extreme::{BooleanExtreme, Extreme, RetractableExtreme, StringExtreme};
use gather::{Gather, Gathering};
use json::JsonAggregate;
use moments::{Moment, Moments};
use numeric::{Avg, Count, Sum};
use percentile::Percentile;
use state::avg_total;
pub use state::{saved_types, state_types};

/// The names this module knows.
const NAMES: [&str; 20] = [
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "FIRST_VALUE",
    "LAST_VALUE",
    "LISTAGG",
    "COLLECT",
    "ARRAY_AGG",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
    "JSON_OBJECTAGG",
    "JSON_ARRAYAGG",
    "PERCENTILE",
    "SINGLE_VALUE",
];

/// The names of the aggregate functions, in upper case.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// True for the name of an aggregate function, in upper case.
pub fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The moment a name stands for.
fn moment(name: &str) -> Option<Moment> {
    Some(match name {
        "STDDEV" | "STDDEV_SAMP" => Moment { sample: true, root: true },
        "STDDEV_POP" => Moment { sample: false, root: true },
        "VARIANCE" | "VAR_SAMP" => Moment { sample: true, root: false },
        "VAR_POP" => Moment { sample: false, root: false },
        _ => return None,
    })
}

/// `NULL ON NULL` or `ABSENT ON NULL` of a JSON aggregate: from a parameter that says so in words, else
/// the default (arrays leave NULL out, objects keep it).
fn json_skips_nulls(name: &str, params: &[Value]) -> bool {
    let said = params.iter().find_map(|p| match p {
        Value::String(s) if s.to_ascii_uppercase().contains("ABSENT") => Some(true),
        Value::String(s) if s.to_ascii_uppercase().contains("NULL") => Some(false),
        _ => None,
    });
    said.unwrap_or(name == "JSON_ARRAYAGG")
}

fn bad<T>(text: impl Into<String>) -> Result<T, ResolveError> {
    Err(ResolveError::BadArguments(text.into()))
}

/// The result type of `name` over these argument types; `params` are its constant parameters.
pub fn resolve(
    name: &str,
    arg_types: &[LogicalType],
    params: &[Value],
    distinct: bool,
) -> Result<LogicalType, ResolveError> {
    if !is_aggregate(name) {
        return Err(ResolveError::UnknownFunction);
    }
    if distinct && arg_types.len() != 1 && name != "COUNT" {
        return bad(format!("{name}(DISTINCT ...) takes one argument"));
    }
    let arity = match name {
        "COUNT" => 0..=1,
        "PERCENTILE" => 1..=2,
        _ if name.starts_with("JSON_OBJECTAGG") => 2..=2,
        _ => 1..=1,
    };
    if !arity.contains(&arg_types.len()) {
        let most = arity.end();
        return bad(format!("{name} takes {most} argument(s), but got {}", arg_types.len()));
    }
    let Some(arg) = arg_types.last() else {
        return Ok(LogicalType::not_null(TypeKind::BigInt));
    };
    match name {
        "COUNT" => Ok(LogicalType::not_null(TypeKind::BigInt)),
        "SUM" | "AVG" => resolve_numeric(name, arg),
        "MIN" | "MAX" => {
            if is_comparable(arg) {
                Ok(arg.with_nullable(true))
            } else {
                bad(format!("{name} does not support the type {arg}"))
            }
        }
        "FIRST_VALUE" | "LAST_VALUE" | "SINGLE_VALUE" => Ok(arg.with_nullable(true)),
        "LISTAGG" => match (arg.is_string(), params) {
            (true, [] | [Value::String(_)]) => Ok(LogicalType::string()),
            (true, _) => bad("the separator of LISTAGG must be a string literal"),
            (false, _) => bad(format!("LISTAGG takes strings, but got {arg}; cast it to STRING")),
        },
        "COLLECT" => Ok(LogicalType::not_null(TypeKind::Multiset(Box::new(arg.clone())))),
        "ARRAY_AGG" => Ok(LogicalType::new(TypeKind::Array(Box::new(arg.clone())))),
        "PERCENTILE" => resolve_percentile(arg_types, params),
        _ if name.starts_with("JSON_") => resolve_json(name, arg_types),
        _ => match arg.kind {
            TypeKind::Decimal(_, scale) if scale <= SCALE => Ok(LogicalType::new(TypeKind::Decimal(38, SCALE))),
            TypeKind::Decimal(..) => bad(format!("{name} does not support the type {arg}; cast it to DOUBLE")),
            _ if arg.is_numeric() => Ok(arg.with_nullable(true)),
            _ => bad(format!("{name} does not support the type {arg}; cast it to DOUBLE")),
        },
    }
}

fn resolve_numeric(name: &str, arg: &LogicalType) -> Result<LogicalType, ResolveError> {
    let ty = match &arg.kind {
        TypeKind::Decimal(_, s) if name == "AVG" => LogicalType::new(TypeKind::Decimal(38, (*s).max(6))),
        TypeKind::Decimal(_, s) => LogicalType::new(TypeKind::Decimal(38, *s)),
        _ if arg.is_numeric() => arg.with_nullable(true),
        _ => return bad(format!("{name} takes numbers, but got {arg}")),
    };
    Ok(ty)
}

fn resolve_json(name: &str, arg_types: &[LogicalType]) -> Result<LogicalType, ResolveError> {
    let object = name.starts_with("JSON_OBJECTAGG");
    if object && !arg_types[0].is_string() {
        return bad(format!("the key of {name} must be a string, but is {}", arg_types[0]));
    }
    arg_types.iter().try_for_each(check_json).map_err(ResolveError::BadArguments)?;
    Ok(LogicalType::not_null(LogicalType::string().kind))
}

fn resolve_percentile(arg_types: &[LogicalType], params: &[Value]) -> Result<LogicalType, ResolveError> {
    if !arg_types[0].is_numeric() || !arg_types.get(1).is_none_or(LogicalType::is_integer) {
        return bad("PERCENTILE takes a number, a fraction and optionally an integer frequency");
    }
    match fractions(params) {
        Some((_, true)) => Ok(LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::Double))))),
        Some((_, false)) => Ok(LogicalType::new(TypeKind::Double)),
        None => bad("the fraction of PERCENTILE must be a literal between 0 and 1, or an array of them"),
    }
}

/// The fractions of `PERCENTILE`, and whether they came as an array.
fn fractions(params: &[Value]) -> Option<(Vec<f64>, bool)> {
    // A decimal literal carries no scale of its own; a fraction's only sensible reading is below one,
    // so the binder is asked to pass DOUBLE.
    let one = |v: &Value| match v {
        Value::Double(d) if (0.0..=1.0).contains(d) => Some(*d),
        Value::Int(i) if (0..=1).contains(i) => Some(*i as f64),
        _ => None,
    };
    match params.first()? {
        Value::Array(items) => Some((items.iter().map(one).collect::<Option<_>>()?, true)),
        other => Some((vec![one(other)?], false)),
    }
}

fn is_comparable(ty: &LogicalType) -> bool {
    ty.is_numeric()
        || ty.is_string()
        || ty.is_timestamp()
        || matches!(
            ty.kind,
            TypeKind::Boolean
                | TypeKind::Date
                | TypeKind::Time(_)
                | TypeKind::IntervalDayTime
                | TypeKind::IntervalYearMonth
                | TypeKind::Null
        )
}

/// True if partial results of `call` over parts of the input can be merged whatever the order of the
/// parts, so that it may be computed in two phases.
pub fn can_merge(call: &AggregateCall) -> bool {
    let base =
        matches!(call.function.as_str(), "COUNT" | "SUM" | "AVG" | "MIN" | "MAX") || moment(&call.function).is_some();
    base && call.args.len() <= 1
}

/// True if rows can be taken back from `call`.
pub fn can_retract(call: &AggregateCall) -> bool {
    is_aggregate(&call.function)
}

fn arg_type(call: &AggregateCall) -> Result<&LogicalType> {
    call.arg_types.last().ok_or_else(|| Error::internal(format!("{} without an argument", call.function)))
}

/// Duplicates cannot change a minimum.
fn ignores_distinct(call: &AggregateCall) -> bool {
    matches!(call.function.as_str(), "MIN" | "MAX")
}

/// A fresh accumulator for `call`; `retracts` says whether rows will be taken back.
pub fn accumulator(call: &AggregateCall, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
    let inner = plain(call, retracts)?;
    if !call.distinct || ignores_distinct(call) {
        return Ok(inner);
    }
    if call.arg_types.len() != 1 {
        return Err(Error::unsupported(format!(
            "{}(DISTINCT ...) over several columns is not supported",
            call.function
        )));
    }
    Ok(Box::new(Distinct::new(inner, &arg_type(call)?.to_arrow(), retracts)?))
}

fn plain(call: &AggregateCall, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
    if call.function == "COUNT" {
        return Ok(Box::<Count>::default());
    }
    let arg = arg_type(call)?;
    let ty = arg.to_arrow();
    let gather = |what| -> Result<Box<dyn GroupedAccumulator>> { Ok(Box::new(Gather::new(what, &ty, retracts)?)) };
    match call.function.as_str() {
        "SUM" => sum(call, arg, retracts),
        "AVG" => avg(call, arg, retracts),
        "MIN" | "MAX" => extreme(call.function == "MAX", &ty, retracts),
        "FIRST_VALUE" => gather(Gathering::First),
        "LAST_VALUE" => gather(Gathering::Last),
        "SINGLE_VALUE" => gather(Gathering::Single),
        "ARRAY_AGG" => gather(Gathering::Array),
        "COLLECT" => gather(Gathering::Multiset),
        "LISTAGG" => {
            let separator = match call.params.first() {
                Some(Value::String(s)) => s.clone(),
                _ => ",".to_owned(),
            };
            gather(Gathering::Joined(separator))
        }
        "PERCENTILE" => {
            let (fractions, as_list) = fractions(&call.params)
                .ok_or_else(|| Error::invalid("the fraction of PERCENTILE must be a literal between 0 and 1"))?;
            Ok(Box::new(Percentile::new(fractions, as_list)))
        }
        name if name.starts_with("JSON_OBJECTAGG") || name.starts_with("JSON_ARRAYAGG") => {
            let object = name.starts_with("JSON_OBJECTAGG");
            Ok(Box::new(JsonAggregate::new(object, json_skips_nulls(name, &call.params), arg.clone())))
        }
        name => match (moment(name), &arg.kind) {
            (Some(moment), TypeKind::Decimal(_, scale)) => Ok(Box::new(DecimalMoments::new(moment, *scale))),
            (Some(moment), _) if arg.is_integer() => Ok(Box::new(Moments::<Int64Type>::new(moment, ty))),
            (Some(moment), _) if arg.is_approximate() => Ok(Box::new(Moments::<Float64Type>::new(moment, ty))),
            _ => Err(Error::unsupported(format!("the aggregate {name}({arg}) is not supported"))),
        },
    }
}

fn sum(call: &AggregateCall, arg: &LogicalType, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
    let ty = call.ty.to_arrow();
    Ok(match arg.kind {
        TypeKind::TinyInt => Box::new(Sum::<Int8Type>::new(ty, retracts)),
        TypeKind::SmallInt => Box::new(Sum::<Int16Type>::new(ty, retracts)),
        TypeKind::Int => Box::new(Sum::<Int32Type>::new(ty, retracts)),
        TypeKind::BigInt => Box::new(Sum::<Int64Type>::new(ty, retracts)),
        TypeKind::Float => Box::new(Sum::<Float32Type>::new(ty, retracts)),
        TypeKind::Double => Box::new(Sum::<Float64Type>::new(ty, retracts)),
        TypeKind::Decimal(..) => Box::new(Sum::<Decimal128Type>::new(ty, retracts)),
        _ => return Err(Error::unsupported(format!("SUM({arg}) is not supported"))),
    })
}

fn avg(call: &AggregateCall, arg: &LogicalType, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
    let (total, ty) = (avg_total(arg).to_arrow(), call.ty.to_arrow());
    Ok(match arg.kind {
        TypeKind::TinyInt => Box::new(Avg::<Int8Type>::new(total, ty, retracts)),
        TypeKind::SmallInt => Box::new(Avg::<Int16Type>::new(total, ty, retracts)),
        TypeKind::Int => Box::new(Avg::<Int32Type>::new(total, ty, retracts)),
        TypeKind::BigInt => Box::new(Avg::<Int64Type>::new(total, ty, retracts)),
        TypeKind::Float => Box::new(Avg::<Float32Type>::new(total, ty, retracts)),
        TypeKind::Double => Box::new(Avg::<Float64Type>::new(total, ty, retracts)),
        TypeKind::Decimal(..) => Box::new(Avg::<Decimal128Type>::new(total, ty, retracts)),
        _ => return Err(Error::unsupported(format!("AVG({arg}) is not supported"))),
    })
}

fn extreme(max: bool, ty: &DataType, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
    if retracts {
        return Ok(Box::new(RetractableExtreme::new(max, ty)?));
    }
    macro_rules! of {
        ($t:ty) => {
            Box::new(Extreme::<$t>::new(max, ty.clone()))
        };
    }
    Ok(match ty {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        DataType::Decimal128(..) => of!(Decimal128Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Time32(TimeUnit::Millisecond) => of!(Time32MillisecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
        DataType::Boolean => Box::new(BooleanExtreme::new(max)),
        DataType::Utf8 => Box::new(StringExtreme::new(max)),
        other => return Err(Error::unsupported(format!("MIN and MAX of {other} are not supported"))),
    })
}

#[cfg(test)]
mod tests;
