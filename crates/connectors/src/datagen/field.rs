//! What one column of `datagen` holds: its options, and its next value.

use rand::Rng;
use rand::rngs::StdRng;
use tidegate_api::{Error, LogicalType, Result, TypeKind};

use crate::column::{Column, Data};
use crate::format::text::{self, DecimalText};
use crate::option::{OptionReader, invalid_value};

/// Length of strings and bytes, if neither the options nor the type say.
const TEXT_LENGTH: usize = 100;
/// Elements of arrays and maps.
const COLLECTION_LENGTH: usize = 3;

/// Makes the values of a column.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    null_rate: f64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Boolean,
    /// Uniform between both ends.
    Integer(i64, i64),
    Float(f64, f64),
    /// Unscaled digits.
    Decimal(i128, i128),
    /// Hexadecimal characters; `var` is any length from 1.
    Text {
        length: usize,
        var: bool,
    },
    Bytes {
        length: usize,
        var: bool,
    },
    Date,
    Time,
    /// Milliseconds before now at most.
    Timestamp {
        max_past_ms: i64,
    },
    Array(usize, Box<Generator>),
    Map(usize, Box<Generator>, Box<Generator>),
    Row(Vec<Generator>),
    /// First and last value.
    Sequence(i64, i64),
}

/// Rows until a sequence ends.
pub(super) fn sequence_len(generator: &Generator) -> Option<u64> {
    match generator.kind {
        Kind::Sequence(start, end) => Some((i128::from(end) - i128::from(start) + 1).max(0) as u64),
        _ => None,
    }
}

/// Reads the options under `key` (`fields.id`).
pub(super) fn read_generator(options: &mut OptionReader<'_>, key: &str, ty: &LogicalType) -> Result<Generator> {
    let kind_key = format!("{key}.kind");
    let null_key = format!("{key}.null-rate");
    let rate = options.typed(&null_key, "a number from 0 to 1", |s| {
        s.trim().parse().ok().filter(|rate| (0.0..=1.0).contains(rate))
    })?;
    let null_rate: f64 = rate.unwrap_or(0.0);
    let kind = match options.choice(&kind_key, &["random", "sequence"])? {
        "sequence" => read_sequence(options, key, ty)?,
        _ => read_random(options, key, ty)?,
    };
    Ok(Generator { null_rate, kind })
}

fn read_sequence(options: &mut OptionReader<'_>, key: &str, ty: &LogicalType) -> Result<Kind> {
    let supported =
        ty.is_integer() || ty.is_approximate() || ty.is_string() || matches!(ty.kind, TypeKind::Decimal(..));
    if !supported {
        return Err(Error::unsupported(format!("The datagen column '{key}' of type {ty} cannot be a sequence.")));
    }
    let (start_key, end_key) = (format!("{key}.start"), format!("{key}.end"));
    options.require(&[&start_key, &end_key])?;
    let start = options.integer(&start_key)?.unwrap_or(0);
    let end = options.integer(&end_key)?.unwrap_or(0);
    if start > end {
        return Err(invalid_value(&end_key, &end.to_string(), &format!("a number from '{start_key}' ({start}) on")));
    }
    Ok(Kind::Sequence(start, end))
}

fn read_random(options: &mut OptionReader<'_>, key: &str, ty: &LogicalType) -> Result<Kind> {
    Ok(match &ty.kind {
        TypeKind::Boolean => Kind::Boolean,
        TypeKind::TinyInt => integers(options, key, i64::from(i8::MIN), i64::from(i8::MAX))?,
        TypeKind::SmallInt => integers(options, key, i64::from(i16::MIN), i64::from(i16::MAX))?,
        TypeKind::Int => integers(options, key, i64::from(i32::MIN), i64::from(i32::MAX))?,
        TypeKind::BigInt => integers(options, key, i64::MIN, i64::MAX)?,
        TypeKind::Float => floats(options, key, f64::from(f32::MAX))?,
        TypeKind::Double => floats(options, key, f64::MAX)?,
        TypeKind::Decimal(precision, scale) => decimals(options, key, *precision, *scale)?,
        TypeKind::Char(n) => Kind::Text { length: *n as usize, var: false },
        TypeKind::Binary(n) => Kind::Bytes { length: *n as usize, var: false },
        TypeKind::Varchar(n) => {
            let (length, var) = lengths(options, key, *n)?;
            Kind::Text { length, var }
        }
        TypeKind::Varbinary(n) => {
            let (length, var) = lengths(options, key, *n)?;
            Kind::Bytes { length, var }
        }
        TypeKind::Date => Kind::Date,
        TypeKind::Time(_) => Kind::Time,
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => {
            Kind::Timestamp { max_past_ms: options.duration_ms(&format!("{key}.max-past"))?.unwrap_or(0) }
        }
        TypeKind::Array(element) => {
            let length = options.integer(&format!("{key}.length"))?.unwrap_or(COLLECTION_LENGTH);
            Kind::Array(length, Box::new(read_generator(options, &format!("{key}.element"), element)?))
        }
        TypeKind::Map(k, v) => {
            let length = options.integer(&format!("{key}.length"))?.unwrap_or(COLLECTION_LENGTH);
            let keys = read_generator(options, &format!("{key}.key"), k)?;
            Kind::Map(length, Box::new(keys), Box::new(read_generator(options, &format!("{key}.value"), v)?))
        }
        TypeKind::Row(fields) => {
            let generators = fields.iter().map(|f| read_generator(options, &format!("{key}.{}", f.name), &f.ty));
            Kind::Row(generators.collect::<Result<_>>()?)
        }
        _ => {
            return Err(Error::unsupported(format!(
                "The datagen connector cannot make values of type {ty} ('{key}')."
            )));
        }
    })
}

fn integers(options: &mut OptionReader<'_>, key: &str, lowest: i64, highest: i64) -> Result<Kind> {
    let (min_key, max_key) = (format!("{key}.min"), format!("{key}.max"));
    let wanted = format!("a whole number from {lowest} to {highest}");
    let parse = |s: &str| s.trim().parse().ok().filter(|n| (lowest..=highest).contains(n));
    let min = options.typed(&min_key, &wanted, parse)?.unwrap_or(lowest);
    let max = options.typed(&max_key, &wanted, parse)?.unwrap_or(highest);
    if min > max {
        return Err(invalid_value(&max_key, &max.to_string(), &format!("a number from '{min_key}' ({min}) on")));
    }
    Ok(Kind::Integer(min, max))
}

fn floats(options: &mut OptionReader<'_>, key: &str, highest: f64) -> Result<Kind> {
    let (min_key, max_key) = (format!("{key}.min"), format!("{key}.max"));
    let parse = |s: &str| text::double(s).filter(|n| n.abs() <= highest);
    let min = options.typed(&min_key, "a number", parse)?.unwrap_or(0.0);
    let max = options.typed(&max_key, "a number", parse)?.unwrap_or(highest);
    if min > max {
        return Err(invalid_value(&max_key, &max.to_string(), &format!("a number from '{min_key}' ({min}) on")));
    }
    Ok(Kind::Float(min, max))
}

fn decimals(options: &mut OptionReader<'_>, key: &str, precision: u8, scale: u8) -> Result<Kind> {
    let (min_key, max_key) = (format!("{key}.min"), format!("{key}.max"));
    let parse = |s: &str| match text::decimal(s.trim(), precision, scale) {
        DecimalText::Fits(v) => Some(v),
        _ => None,
    };
    let wanted = format!("a number that fits DECIMAL({precision}, {scale})");
    let largest = 10i128.pow(u32::from(precision.min(38))) - 1;
    let min = options.typed(&min_key, &wanted, parse)?.unwrap_or(0);
    let max = options.typed(&max_key, &wanted, parse)?.unwrap_or(largest);
    if min > max {
        let shown = tidegate_api::text::decimal_to_string(max, scale);
        return Err(invalid_value(&max_key, &shown, &format!("a number not below '{min_key}'")));
    }
    Ok(Kind::Decimal(min, max))
}

/// `length` and `var-len`; a type with a length of its own may not be exceeded.
fn lengths(options: &mut OptionReader<'_>, key: &str, of_type: u32) -> Result<(usize, bool)> {
    let length_key = format!("{key}.length");
    let unlimited = of_type == tidegate_api::types::MAX_LENGTH;
    let default = if unlimited { TEXT_LENGTH } else { of_type as usize };
    let length = options.integer(&length_key)?.unwrap_or(default);
    if length > of_type as usize {
        return Err(invalid_value(&length_key, &length.to_string(), &format!("at most the {of_type} of the type")));
    }
    Ok((length, options.bool(&format!("{key}.var-len"), false)?))
}

/// Appends the value of row number `row` of the table.
pub(super) fn push(generator: &Generator, column: &mut Column, rng: &mut StdRng, row: u64, now_ms: i64) -> Result<()> {
    if generator.null_rate > 0.0 && rng.random_bool(generator.null_rate) {
        column.push_null();
        return Ok(());
    }
    let pushed = match &generator.kind {
        Kind::Boolean => column.push_bool(rng.random()),
        Kind::Integer(min, max) => column.push_i64(rng.random_range(*min..=*max)),
        Kind::Float(min, max) => column.push_f64(between(rng, *min, *max)),
        Kind::Decimal(min, max) => column.push_i128(rng.random_range(*min..=*max)),
        Kind::Text { length, var } => {
            let text: Vec<u8> = (0..some_length(rng, *length, *var)).map(|_| hex_digit(rng)).collect();
            column.push_bytes(&text)
        }
        Kind::Bytes { length, var } => {
            let bytes: Vec<u8> = (0..some_length(rng, *length, *var)).map(|_| rng.random()).collect();
            column.push_bytes(&bytes)
        }
        Kind::Date => column.push_i64(now_ms.div_euclid(86_400_000)),
        Kind::Time => column.push_i64(now_ms.rem_euclid(86_400_000)),
        Kind::Timestamp { max_past_ms } => {
            let ms = now_ms - if *max_past_ms > 0 { rng.random_range(0..=*max_past_ms) } else { 0 };
            column.push_timestamp(ms.div_euclid(1000), ms.rem_euclid(1000) as u32 * 1_000_000)
        }
        Kind::Sequence(start, _) => push_number(column, i128::from(*start) + i128::from(row)),
        Kind::Array(..) | Kind::Map(..) | Kind::Row(_) => push_nested(generator, column, rng, row, now_ms)?,
    };
    if pushed {
        Ok(())
    } else {
        Err(Error::job(format!("A value does not fit a datagen column of type {}.", column.ty())))
    }
}

fn push_nested(generator: &Generator, column: &mut Column, rng: &mut StdRng, row: u64, now_ms: i64) -> Result<bool> {
    match (&generator.kind, &mut column.data) {
        (Kind::Array(length, element), Data::List { items, .. }) => {
            for _ in 0..*length {
                push(element, items, rng, row, now_ms)?;
            }
        }
        (Kind::Map(length, key, value), Data::Map { keys, values, .. }) => {
            for _ in 0..*length {
                push(key, keys, rng, row, now_ms)?;
                push(value, values, rng, row, now_ms)?;
            }
        }
        (Kind::Row(generators), Data::Row(columns)) => {
            for (generator, column) in generators.iter().zip(columns) {
                push(generator, column, rng, row, now_ms)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(column.push_nested())
}

fn push_number(column: &mut Column, value: i128) -> bool {
    match column.ty().kind {
        TypeKind::Char(_) | TypeKind::Varchar(_) => column.push_bytes(value.to_string().as_bytes()),
        TypeKind::Float | TypeKind::Double => column.push_f64(value as f64),
        TypeKind::Decimal(precision, scale) => {
            let limit = 10i128.pow(u32::from(precision.min(38)));
            let unscaled = value.checked_mul(10i128.pow(u32::from(scale))).filter(|v| v.abs() < limit);
            unscaled.is_some_and(|v| column.push_i128(v))
        }
        _ => i64::try_from(value).is_ok_and(|v| column.push_i64(v)),
    }
}

/// Uniform, also where the width of the range passes the largest double.
fn between(rng: &mut StdRng, min: f64, max: f64) -> f64 {
    let share: f64 = rng.random();
    min * (1.0 - share) + max * share
}

fn some_length(rng: &mut StdRng, length: usize, var: bool) -> usize {
    if var && length > 1 { rng.random_range(1..=length) } else { length }
}

fn hex_digit(rng: &mut StdRng) -> u8 {
    b"0123456789abcdef"[rng.random_range(0..16)]
}
