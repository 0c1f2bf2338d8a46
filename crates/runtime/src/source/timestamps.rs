//! Event-time columns as milliseconds.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType};
use tidegate_api::{Error, Result, Timestamp};

/// Writes each value of a timestamp column as milliseconds into `into`; finer digits are cut off
/// towards the past, also before 1970. NULL becomes `null`.
pub(crate) fn milliseconds(column: &ArrayRef, null: Timestamp, into: &mut Vec<Timestamp>) -> Result<()> {
    into.clear();
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            into.extend_from_slice(column.as_primitive::<TimestampMillisecondType>().values());
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().values();
            into.extend(micros.iter().map(|us| us.div_euclid(1_000)));
        }
        DataType::Decimal128(_, 0) => {
            let nanos = column.as_primitive::<Decimal128Type>().values();
            into.extend(nanos.iter().map(|ns| ns.div_euclid(1_000_000).clamp(i64::MIN.into(), i64::MAX.into()) as i64));
        }
        DataType::Null => into.resize(column.len(), null),
        other => return Err(Error::internal(format!("an event time of type {other}"))),
    }
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        for (value, valid) in into.iter_mut().zip(nulls.iter()) {
            if !valid {
                *value = null;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, TimestampMicrosecondArray};
    use std::sync::Arc;

    #[test]
    fn finer_digits_are_cut_off_towards_the_past() {
        let mut into = Vec::new();
        let micros: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1_999), Some(-1), None, Some(-6795364578871000)]));
        milliseconds(&micros, i64::MIN, &mut into).unwrap();
        assert_eq!(into, [1, -1, i64::MIN, -6795364578871]);
        let nanos: ArrayRef =
            Arc::new(Decimal128Array::from(vec![1_999_999, -1]).with_precision_and_scale(38, 0).unwrap());
        milliseconds(&nanos, i64::MIN, &mut into).unwrap();
        assert_eq!(into, [1, -1]);
    }
}
