//! Constants: literals of a plan, `VALUES` rows and defaults.

use serde::{Deserialize, Serialize};

/// One value of a Flink type. The type itself stands beside it wherever a value is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `BOOLEAN`.
    Boolean(bool),
    /// `TINYINT` to `BIGINT`, `DATE` (days), `TIME` (ms of day), intervals (months or ms).
    Int(i64),
    /// `FLOAT`, `DOUBLE`.
    Double(f64),
    /// `DECIMAL`: the unscaled digits; the scale is the type's.
    Decimal(i128),
    /// Character strings.
    String(String),
    /// Byte strings.
    Bytes(Vec<u8>),
    /// `TIMESTAMP`, `TIMESTAMP_LTZ` of any precision: nanoseconds since the epoch.
    Timestamp(i128),
    /// `ARRAY` elements.
    Array(Vec<Value>),
    /// `MAP` (or `MULTISET`) entries in order.
    Map(Vec<(Value, Value)>),
    /// `ROW` fields in order.
    Row(Vec<Value>),
}
