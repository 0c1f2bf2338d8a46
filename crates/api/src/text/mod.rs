//! The text forms of values that several crates share: Java's numbers, Flink's timestamps.
//!
//! `print`, `CAST(... AS STRING)`, JSON and CSV each have their own conventions for rows; they are
//! built on these pieces.

mod datetime;
mod number;

pub use datetime::{
    DateTime, civil_from_days, days_from_civil, format_date, format_time_iso, format_time_sql, format_timestamp_iso,
    format_timestamp_sql, parse_date, parse_time_ms, parse_timestamp,
};
pub use number::{decimal_to_java, decimal_to_string, java_double, java_float, parse_decimal};
