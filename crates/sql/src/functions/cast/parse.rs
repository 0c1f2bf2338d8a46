//! Text into numbers, booleans, dates and times, by the rules of Flink's string utilities: blanks
//! around a number do not count, `12.7` is the integer 12, a date may lack its day or month.

use arrow::array::types::*;
use arrow::array::{BooleanArray, PrimitiveArray};
use tidegate_api::text;
use tidegate_api::types::{LogicalType, TypeKind};

use super::{Cast, failure, forgive};
use crate::functions::columns::{RowResult, map1, retyped, strings, typed};

/// The conversion of strings to `to`, which is neither a string nor a timestamp.
pub fn kernel(to: LogicalType, lenient: bool) -> Result<Cast, String> {
    macro_rules! parsed {
        ($array:ty, $parse:expr) => {
            Box::new(move |a| {
                map1::<_, _, $array>(strings(a)?, |s| forgive($parse(s).map_err(|why| failure(s, &to, &why)), lenient))
            })
        };
    }
    Ok(match to.kind {
        TypeKind::Boolean => parsed!(BooleanArray, boolean),
        TypeKind::TinyInt => parsed!(PrimitiveArray<Int8Type>, |s| integer(s, 1).map(|v| v.map(|v| v as i8))),
        TypeKind::SmallInt => parsed!(PrimitiveArray<Int16Type>, |s| integer(s, 2).map(|v| v.map(|v| v as i16))),
        TypeKind::Int => parsed!(PrimitiveArray<Int32Type>, |s| integer(s, 4).map(|v| v.map(|v| v as i32))),
        TypeKind::BigInt => parsed!(PrimitiveArray<Int64Type>, |s| integer(s, 8)),
        TypeKind::Float => parsed!(PrimitiveArray<Float32Type>, floating::<f32>),
        TypeKind::Double => parsed!(PrimitiveArray<Float64Type>, floating::<f64>),
        TypeKind::Date => parsed!(PrimitiveArray<Date32Type>, |s| date(s).map(Some).ok_or(String::new())),
        TypeKind::Time(p) => {
            parsed!(PrimitiveArray<Time32MillisecondType>, |s| clock(s).map(|t| Some(cut(t, p))).ok_or(String::new()))
        }
        TypeKind::Decimal(p, scale) => {
            let data_type = to.to_arrow();
            Box::new(move |a| {
                let parse = |s: &str| {
                    let value = decimal(s, p, scale).map_err(|why| failure(s, &to, &why));
                    forgive(value, lenient)
                };
                let cells = map1::<_, _, PrimitiveArray<Decimal128Type>>(strings(a)?, parse)?;
                Ok(retyped(typed::<PrimitiveArray<Decimal128Type>>(&cells)?.clone(), &data_type))
            })
        }
        _ => return Err(format!("Cast function cannot convert value of type STRING to type {to}")),
    })
}

/// Milliseconds of the day cut to `precision` digits of a second.
pub(super) fn cut(ms: i32, precision: u8) -> i32 {
    match precision {
        0 => ms - ms.rem_euclid(1000),
        1 => ms - ms.rem_euclid(100),
        2 => ms - ms.rem_euclid(10),
        _ => ms,
    }
}

fn boolean(s: &str) -> RowResult<bool> {
    let text = s.trim().to_ascii_lowercase();
    match text.as_str() {
        "t" | "true" | "y" | "yes" | "1" => Ok(Some(true)),
        "f" | "false" | "n" | "no" | "0" => Ok(Some(false)),
        _ => Err(format!(" Cannot parse '{s}' as BOOLEAN.")),
    }
}

/// An integer of `bytes` bytes. Digits after a point are checked and dropped.
fn integer(s: &str, bytes: u32) -> RowResult<i64> {
    let text = s.trim();
    let (negative, digits) = match text.as_bytes().first() {
        None => return Err(" Input is empty.".into()),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    if digits.is_empty() {
        return Err(" Input has only positive or negative symbol.".into());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(" Invalid character found.".into());
    }
    // Counted downwards: the smallest integer has no positive twin.
    let least = i64::MIN >> (64 - 8 * bytes);
    let mut value: i64 = 0;
    for digit in whole.bytes() {
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_sub(i64::from(digit - b'0')))
            .filter(|v| *v >= least)
            .ok_or(" Overflow.")?;
    }
    if negative {
        return Ok(Some(value));
    }
    value.checked_neg().filter(|v| *v <= !least).map(Some).ok_or_else(|| " Overflow.".into())
}

/// `Double.parseDouble`: `NaN`, `Infinity`, a trailing `d` or `f`; but not Rust's `inf`.
fn floating<T: std::str::FromStr + FromNan>(s: &str) -> RowResult<T> {
    let text = s.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    match unsigned {
        "NaN" => return Ok(Some(T::special(f64::NAN))),
        "Infinity" => return Ok(Some(T::special(if negative { f64::NEG_INFINITY } else { f64::INFINITY }))),
        _ => {}
    }
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !plain {
        return Err(String::new());
    }
    digits.parse().map(Some).map_err(|_| String::new())
}

trait FromNan {
    fn special(v: f64) -> Self;
}

impl FromNan for f64 {
    fn special(v: f64) -> f64 {
        v
    }
}

impl FromNan for f32 {
    fn special(v: f64) -> f32 {
        v as f32
    }
}

/// A decimal; NULL if it has too many digits, a failure if it is no number.
fn decimal(s: &str, precision: u8, scale: u8) -> RowResult<i128> {
    if let Some(value) = text::parse_decimal(s, precision, scale) {
        return Ok(Some(value));
    }
    match floating::<f64>(s) {
        Ok(Some(v)) if v.is_finite() || s.bytes().any(|b| b.is_ascii_digit()) => Ok(None),
        _ => Err(String::new()),
    }
}

/// `y`, `y-M`, `y-M-d`, each also with a time behind a blank, which is dropped.
pub(super) fn date(s: &str) -> Option<i32> {
    let day = match s.find(' ') {
        Some(blank) if blank > 0 => &s[..blank],
        _ => s,
    };
    let mut parts = day.splitn(3, '-').map(|p| {
        let p = p.trim();
        let digits = !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
        if digits { p.parse::<i32>().ok() } else { None }
    });
    let year = i64::from(parts.next()??);
    let month = i64::from(parts.next().unwrap_or(Some(1))?);
    let day = i64::from(parts.next().unwrap_or(Some(1))?);
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = text::days_from_civil(year, month, day);
    (text::civil_from_days(days) == (year, month, day)).then_some(days as i32)
}

/// `H[:m[:s[.fraction]]]` as milliseconds of the day.
pub(super) fn clock(s: &str) -> Option<i32> {
    let number = |p: &str| {
        let p = p.trim();
        let digits = !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
        if digits { p.parse::<i32>().ok() } else { None }
    };
    let mut parts = s.splitn(3, ':');
    let hour = number(parts.next()?)?;
    let minute = parts.next().map_or(Some(0), number)?;
    let (second, milli) = match parts.next() {
        None => (0, 0),
        Some(rest) => {
            let (second, fraction) = rest.split_once('.').unwrap_or((rest, ""));
            let fraction = fraction.trim();
            if !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let three: String = format!("{fraction:0<3}").chars().take(3).collect();
            (number(second)?, three.parse::<i32>().ok()?)
        }
    };
    let fits = hour < 24 && minute < 60 && second < 60;
    fits.then_some(((hour * 60 + minute) * 60 + second) * 1000 + milli)
}

/// `yyyy-M-d[ H:m:s[.fraction]]` as nanoseconds; a day from 29 to 31 that the month lacks is its
/// last day, as Java's smart resolver has it.
pub(super) fn timestamp(s: &str) -> Option<i128> {
    let (day, time) = match s.split_once(' ') {
        Some((day, time)) => (day, Some(time)),
        None => (s, None),
    };
    let mut parts = day.splitn(3, '-');
    let (year, month, date) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |p: &str, least: usize, most: usize| {
        let fits = (least..=most).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
        if fits { p.parse::<i64>().ok() } else { None }
    };
    let (year, month, date) = (number(year, 4, 4)?, number(month, 1, 2)?, number(date, 1, 2)?);
    if year < 1 || !(1..=12).contains(&month) || !(1..=31).contains(&date) {
        return None;
    }
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let length = text::days_from_civil(next.0, next.1, 1) - text::days_from_civil(year, month, 1);
    let days = text::days_from_civil(year, month, date.min(length));
    let nanos = time.map_or(Some(0), |time| {
        let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
        let mut parts = clock.splitn(3, ':');
        let h = number(parts.next()?, 1, 2)?;
        let m = number(parts.next()?, 1, 2)?;
        let s = number(parts.next()?, 1, 2)?;
        let nano = if fraction.is_empty() { 0 } else { number(&format!("{fraction:0<9}"), 9, 9)? };
        (h < 24 && m < 60 && s < 60).then_some(((h * 60 + m) * 60 + s) * 1_000_000_000 + nano)
    })?;
    Some(i128::from(days) * 86_400_000_000_000 + i128::from(nanos))
}
