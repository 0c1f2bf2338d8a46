//! The types of what accumulators give away.
//!
//! A *partial state* goes from the first phase of an aggregate to the second and is merged there with others.
//! What is *saved* goes into a checkpoint and comes back to a group of its own: it has whatever taking rows back
//! needs, and stays as it is while jobs shall find their state again.

use tidegate_api::expr::AggregateCall;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result};

use super::{arg_type, ignores_distinct, moment};

fn bigint() -> LogicalType {
    LogicalType::new(TypeKind::BigInt)
}

fn list(element: LogicalType) -> LogicalType {
    LogicalType::new(TypeKind::Array(Box::new(element)))
}

/// The types of the partial state of `call`, for the exchange between the phases.
pub fn state_types(call: &AggregateCall) -> Result<Vec<LogicalType>> {
    if call.distinct && !ignores_distinct(call) {
        return Ok(vec![list(arg_type(call)?.clone())]);
    }
    plain_state_types(call)
}

fn plain_state_types(call: &AggregateCall) -> Result<Vec<LogicalType>> {
    Ok(match call.function.as_str() {
        "COUNT" => vec![bigint()],
        "SUM" | "MIN" | "MAX" => vec![call.ty.with_nullable(true)],
        "AVG" => vec![avg_total(arg_type(call)?), bigint()],
        name if moment(name).is_some() => {
            if let TypeKind::Decimal(_, scale) = arg_type(call)?.kind {
                let sum = |scale| LogicalType::new(TypeKind::Decimal(38, scale));
                return Ok(vec![sum(2 * scale), sum(scale), bigint()]);
            }
            let wide = if arg_type(call)?.is_integer() { TypeKind::BigInt } else { TypeKind::Double };
            vec![LogicalType::new(wide.clone()), LogicalType::new(wide), bigint()]
        }
        other => return Err(Error::internal(format!("{other} has no partial state to exchange"))),
    })
}

/// The type of the running total of `AVG`.
pub(super) fn avg_total(arg: &LogicalType) -> LogicalType {
    LogicalType::new(match &arg.kind {
        TypeKind::Decimal(_, s) => TypeKind::Decimal(38, *s),
        _ if arg.is_approximate() => TypeKind::Double,
        _ => TypeKind::BigInt,
    })
}

/// The types of what an accumulator of `call` saves; `retracts` as it was made with.
pub fn saved_types(call: &AggregateCall, retracts: bool) -> Result<Vec<LogicalType>> {
    let mut types = Vec::new();
    if call.distinct && !ignores_distinct(call) {
        // The set of values, with their counts if they may go again; the aggregate over them follows.
        types.push(list(arg_type(call)?.clone()));
        types.extend(retracts.then(|| list(bigint())));
    }
    match call.function.as_str() {
        "SUM" if retracts => types.extend([call.ty.with_nullable(true), bigint()]),
        "MIN" | "MAX" if retracts => types.extend([list(arg_type(call)?.clone()), list(bigint())]),
        "FIRST_VALUE" | "LAST_VALUE" | "SINGLE_VALUE" | "LISTAGG" | "COLLECT" | "ARRAY_AGG" => {
            types.push(list(arg_type(call)?.clone()));
        }
        "PERCENTILE" => types.extend([list(LogicalType::new(TypeKind::Double)), list(bigint())]),
        name if name.starts_with("JSON_") => types.extend([list(LogicalType::string()), list(LogicalType::string())]),
        _ => types.extend(plain_state_types(call)?),
    }
    Ok(types)
}
