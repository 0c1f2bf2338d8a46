//! Numbers into each other and into booleans: integers wrap, doubles saturate into `INT` and
//! `BIGINT` as in Java, decimals round half up and are NULL when they do not fit.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::DataType;
use tidegate_api::function::RowError;
use tidegate_api::text;
use tidegate_api::types::{LogicalType, TypeKind};

use super::{Cast, forgive};
use crate::functions::columns::{collect, retyped, typed};
use crate::functions::decimal;

/// A number of any kind, as wide as its kind needs.
enum Numbers {
    Int(PrimitiveArray<Int64Type>),
    Float(PrimitiveArray<Float64Type>),
    Decimal(PrimitiveArray<Decimal128Type>, u8),
}

impl Numbers {
    fn of(array: &ArrayRef, ty: &LogicalType) -> Result<Numbers, RowError> {
        Ok(match &ty.kind {
            TypeKind::Boolean => {
                let bits: &BooleanArray = typed(array)?;
                Numbers::Int(bits.iter().map(|b| b.map(i64::from)).collect())
            }
            TypeKind::TinyInt => Numbers::Int(typed::<PrimitiveArray<Int8Type>>(array)?.unary(i64::from)),
            TypeKind::SmallInt => Numbers::Int(typed::<PrimitiveArray<Int16Type>>(array)?.unary(i64::from)),
            TypeKind::Float => Numbers::Float(typed::<PrimitiveArray<Float32Type>>(array)?.unary(f64::from)),
            TypeKind::Double => Numbers::Float(typed::<PrimitiveArray<Float64Type>>(array)?.clone()),
            TypeKind::Decimal(_, s) => Numbers::Decimal(typed::<PrimitiveArray<Decimal128Type>>(array)?.clone(), *s),
            _ if *array.data_type() == DataType::Int64 => Numbers::Int(array.as_primitive::<Int64Type>().clone()),
            _ => Numbers::Int(typed::<PrimitiveArray<Int32Type>>(array)?.unary(i64::from)),
        })
    }

    fn len(&self) -> usize {
        match self {
            Numbers::Int(a) => a.len(),
            Numbers::Float(a) => a.len(),
            Numbers::Decimal(a, _) => a.len(),
        }
    }

    /// As integers: toward zero, within `BIGINT`.
    fn integers(self) -> PrimitiveArray<Int64Type> {
        match self {
            Numbers::Int(a) => a,
            Numbers::Float(a) => a.unary(|v| v as i64),
            Numbers::Decimal(a, scale) => {
                let unit = 10i128.pow(u32::from(scale));
                a.unary(|v| (v / unit) as i64)
            }
        }
    }

    /// As integers the way Java narrows a floating number to less than `long`: through `int`.
    fn small_integers(self) -> PrimitiveArray<Int64Type> {
        match self {
            Numbers::Float(a) => a.unary(|v| i64::from(v as i32)),
            other => other.integers(),
        }
    }
}

/// The conversion of numbers, booleans and intervals to `to`.
pub fn kernel(from: LogicalType, to: LogicalType, lenient: bool) -> Result<Cast, String> {
    let floats = from.is_approximate();
    Ok(match to.kind {
        TypeKind::Boolean => Box::new(move |a| {
            Ok(match Numbers::of(a, &from)? {
                Numbers::Int(a) => Arc::new(BooleanArray::from_unary(&a, |v| v != 0)),
                Numbers::Float(a) => Arc::new(BooleanArray::from_unary(&a, |v| v != 0.0)),
                Numbers::Decimal(a, _) => Arc::new(BooleanArray::from_unary(&a, |v| v != 0)),
            })
        }),
        TypeKind::TinyInt => {
            Box::new(move |a| Ok(Arc::new(Numbers::of(a, &from)?.small_integers().unary::<_, Int8Type>(|v| v as i8))))
        }
        TypeKind::SmallInt => {
            Box::new(move |a| Ok(Arc::new(Numbers::of(a, &from)?.small_integers().unary::<_, Int16Type>(|v| v as i16))))
        }
        TypeKind::Int | TypeKind::IntervalYearMonth => {
            Box::new(move |a| Ok(Arc::new(Numbers::of(a, &from)?.small_integers().unary::<_, Int32Type>(|v| v as i32))))
        }
        TypeKind::BigInt | TypeKind::IntervalDayTime => {
            Box::new(move |a| Ok(Arc::new(Numbers::of(a, &from)?.integers())))
        }
        TypeKind::Double => Box::new(move |a| {
            Ok(match Numbers::of(a, &from)? {
                Numbers::Int(a) => Arc::new(a.unary::<_, Float64Type>(|v| v as f64)),
                Numbers::Float(a) => Arc::new(a),
                Numbers::Decimal(a, scale) => Arc::new(a.unary::<_, Float64Type>(|v| decimal::to_f64(v, scale))),
            })
        }),
        TypeKind::Float => Box::new(move |a| {
            Ok(match Numbers::of(a, &from)? {
                Numbers::Int(a) => Arc::new(a.unary::<_, Float32Type>(|v| v as f32)),
                Numbers::Float(a) => Arc::new(a.unary::<_, Float32Type>(|v| v as f32)),
                Numbers::Decimal(a, scale) => Arc::new(a.unary::<_, Float32Type>(|v| decimal::to_f32(v, scale))),
            })
        }),
        TypeKind::Decimal(p, s) => {
            let to_type = to.to_arrow();
            Box::new(move |a| {
                let cells = decimals(&Numbers::of(a, &from)?, p, s, floats && lenient)?;
                Ok(retyped(typed::<PrimitiveArray<Decimal128Type>>(&cells)?.clone(), &to_type))
            })
        }
        _ => return Err(format!("Cast function cannot convert value of type {from} to type {to}")),
    })
}

fn decimals(source: &Numbers, p: u8, s: u8, lenient: bool) -> Result<ArrayRef, RowError> {
    collect::<_, PrimitiveArray<Decimal128Type>>(source.len(), |row| match source {
        Numbers::Int(a) if a.is_valid(row) => Ok(decimal::rescale(i128::from(a.value(row)), 0, p, s)),
        Numbers::Decimal(a, scale) if a.is_valid(row) => Ok(decimal::rescale(a.value(row), *scale, p, s)),
        Numbers::Float(a) if a.is_valid(row) => {
            let v = a.value(row);
            if !v.is_finite() {
                return forgive(Err(format!("Cannot cast {} to DECIMAL({p}, {s})", text::java_double(v))), lenient);
            }
            Ok(text::parse_decimal(&text::java_double(v), p, s))
        }
        _ => Ok(None),
    })
}
