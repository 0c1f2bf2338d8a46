//! Types as written, with Flink's defaults and limits.

use tidegate_api::error::Result;
use tidegate_api::types::{Field, LogicalType, MAX_LENGTH, TypeKind};

use super::error::{invalid_at, unsupported_at};
use crate::ast::{DataType, DataTypeKind, RowField, Span, TimeUnit};

/// The logical type of a type in the script.
pub fn logical_type(ty: &DataType) -> Result<LogicalType> {
    Ok(LogicalType { kind: type_kind(ty)?, nullable: ty.nullable })
}

fn type_kind(ty: &DataType) -> Result<TypeKind> {
    let span = ty.span;
    Ok(match &ty.kind {
        DataTypeKind::Boolean => TypeKind::Boolean,
        DataTypeKind::TinyInt => TypeKind::TinyInt,
        DataTypeKind::SmallInt => TypeKind::SmallInt,
        DataTypeKind::Int => TypeKind::Int,
        DataTypeKind::BigInt => TypeKind::BigInt,
        DataTypeKind::Float => TypeKind::Float,
        DataTypeKind::Real | DataTypeKind::Double => TypeKind::Double,
        DataTypeKind::Decimal(p, s) => decimal(span, *p, *s)?,
        DataTypeKind::Char(n) => TypeKind::Char(length(span, "CHAR", n.unwrap_or(1))?),
        DataTypeKind::Varchar(n) => TypeKind::Varchar(length(span, "VARCHAR", n.unwrap_or(1))?),
        DataTypeKind::String => TypeKind::Varchar(MAX_LENGTH),
        DataTypeKind::Binary(n) => TypeKind::Binary(length(span, "BINARY", n.unwrap_or(1))?),
        DataTypeKind::Varbinary(n) => TypeKind::Varbinary(length(span, "VARBINARY", n.unwrap_or(1))?),
        DataTypeKind::Bytes => TypeKind::Varbinary(MAX_LENGTH),
        DataTypeKind::Date => TypeKind::Date,
        DataTypeKind::Time(p) => TypeKind::Time(fraction(span, "TIME", p.unwrap_or(0))?),
        DataTypeKind::Timestamp(p) => TypeKind::Timestamp(fraction(span, "TIMESTAMP", p.unwrap_or(6))?),
        DataTypeKind::TimestampLtz(p) => TypeKind::TimestampLtz(fraction(span, "TIMESTAMP_LTZ", p.unwrap_or(6))?),
        DataTypeKind::Interval(q) => match q.start {
            TimeUnit::Year | TimeUnit::Quarter | TimeUnit::Month => TypeKind::IntervalYearMonth,
            _ => TypeKind::IntervalDayTime,
        },
        DataTypeKind::Array(t) => TypeKind::Array(Box::new(logical_type(t)?)),
        DataTypeKind::Multiset(t) => TypeKind::Multiset(Box::new(logical_type(t)?)),
        DataTypeKind::Map(k, v) => TypeKind::Map(Box::new(logical_type(k)?), Box::new(logical_type(v)?)),
        DataTypeKind::Row(fields) => row(fields)?,
        DataTypeKind::Null => TypeKind::Null,
        DataTypeKind::TimestampTz(_) => return Err(unsupported_at(span, "Type TIMESTAMP WITH TIME ZONE")),
        DataTypeKind::Structured(class, _) => {
            return Err(unsupported_at(span, format!("Type STRUCTURED<'{class}', ...>")));
        }
        DataTypeKind::Raw(class, _) => return Err(unsupported_at(span, format!("Type RAW('{class}', ...)"))),
        DataTypeKind::Variant => return Err(unsupported_at(span, "Type VARIANT")),
        DataTypeKind::Bitmap => return Err(unsupported_at(span, "Type BITMAP")),
        DataTypeKind::Named(name) => return Err(invalid_at(span, format!("Unknown identifier '{name}'"))),
    })
}

fn decimal(span: Span, precision: Option<u32>, scale: Option<u32>) -> Result<TypeKind> {
    let (p, s) = (precision.unwrap_or(10), scale.unwrap_or(0));
    if !(1..=38).contains(&p) {
        return Err(invalid_at(span, "Decimal precision must be between 1 and 38 (both inclusive)."));
    }
    if s > p {
        let message = "Decimal scale must be between 0 and the precision 38 (both inclusive).";
        return Err(invalid_at(span, message.replace("38", &p.to_string())));
    }
    Ok(TypeKind::Decimal(p as u8, s as u8))
}

fn length(span: Span, name: &str, n: u32) -> Result<u32> {
    if (1..=MAX_LENGTH).contains(&n) {
        return Ok(n);
    }
    Err(invalid_at(span, format!("The length of {name} must be between 1 and {MAX_LENGTH} (both inclusive).")))
}

fn fraction(span: Span, name: &str, p: u32) -> Result<u8> {
    if p <= 9 {
        return Ok(p as u8);
    }
    Err(invalid_at(span, format!("{name} precision must be between 0 and 9 (both inclusive).")))
}

fn row(fields: &[RowField]) -> Result<TypeKind> {
    let fields: Result<Vec<Field>> =
        fields.iter().map(|f| Ok(Field::new(&f.name.value, logical_type(&f.ty)?))).collect();
    Ok(TypeKind::Row(fields?))
}
