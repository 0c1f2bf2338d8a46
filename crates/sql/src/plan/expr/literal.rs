//! Constants and the types their spelling gives them.

use tidegate_api::error::Result;
use tidegate_api::expr::Expr;
use tidegate_api::text::{parse_date, parse_time_ms, parse_timestamp};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use crate::ast::{IntervalQualifier, Literal, Span, TimeUnit};
use crate::plan::error::invalid_at;

/// A literal other than `INTERVAL expr unit`. `zone` is the session's, for instants.
pub fn bind_literal(literal: &Literal, span: Span, zone: &str) -> Result<Expr> {
    let illegal = |what: &str, text: &str, form: &str| {
        invalid_at(span, format!("Illegal {what} literal '{text}': not in format '{form}'"))
    };
    let out_of_range = |text: &str| invalid_at(span, format!("Numeric literal '{text}' out of range"));
    let (value, kind) = match literal {
        Literal::Null | Literal::IntervalExpr { .. } => {
            return Ok(Expr::literal(Value::Null, LogicalType::new(TypeKind::Null)));
        }
        Literal::Unknown => return Ok(Expr::literal(Value::Null, LogicalType::new(TypeKind::Boolean))),
        Literal::Boolean(b) => (Value::Boolean(*b), TypeKind::Boolean),
        Literal::Integer(text) => {
            let n: i64 = text.parse().map_err(|_| out_of_range(text))?;
            (Value::Int(n), if i32::try_from(n).is_ok() { TypeKind::Int } else { TypeKind::BigInt })
        }
        Literal::Decimal(text) => bind_decimal(text).ok_or_else(|| out_of_range(text))?,
        Literal::Double(text) => {
            let v: f64 = text.parse().map_err(|_| out_of_range(text))?;
            (Value::Double(v), TypeKind::Double)
        }
        Literal::String(text) => (Value::String(text.clone()), TypeKind::Char(text.chars().count() as u32)),
        Literal::Binary(bytes) => (Value::Bytes(bytes.clone()), TypeKind::Binary(bytes.len() as u32)),
        Literal::Date(text) => {
            let days = parse_date(text.trim()).ok_or_else(|| illegal("DATE", text, "yyyy-MM-dd"))?;
            (Value::Int(i64::from(days)), TypeKind::Date)
        }
        Literal::Time(text) => {
            let ms = parse_time_ms(text.trim()).ok_or_else(|| illegal("TIME", text, "HH:mm:ss"))?;
            (Value::Int(i64::from(ms)), TypeKind::Time(fraction_digits(text)))
        }
        Literal::Timestamp(text) => {
            let nanos =
                parse_timestamp(text.trim(), ' ').ok_or_else(|| illegal("TIMESTAMP", text, "yyyy-MM-dd HH:mm:ss"))?;
            (Value::Timestamp(nanos), TypeKind::Timestamp(fraction_digits(text)))
        }
        Literal::TimestampLtz(text) => {
            let nanos = parse_timestamp(text.trim(), ' ')
                .and_then(|local| local_to_instant(local, zone))
                .ok_or_else(|| illegal("TIMESTAMP WITH LOCAL TIME ZONE", text, "yyyy-MM-dd HH:mm:ss"))?;
            (Value::Timestamp(nanos), TypeKind::TimestampLtz(fraction_digits(text)))
        }
        Literal::Interval { value, negative, qualifier } => {
            bind_interval(value, *negative, qualifier).ok_or_else(|| {
                let unit = qualifier_text(qualifier);
                invalid_at(span, format!("Illegal interval literal format '{value}' for INTERVAL {unit}"))
            })?
        }
    };
    Ok(Expr::literal(value, LogicalType::not_null(kind)))
}

/// `1.50` is DECIMAL(3, 2), `0.1` is DECIMAL(2, 1): every digit that was written counts.
fn bind_decimal(text: &str) -> Option<(Value, TypeKind)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let unscaled: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let (precision, scale) = (digits.len().max(1), fraction.len());
    if precision > 38 {
        return None;
    }
    Some((Value::Decimal(unscaled), TypeKind::Decimal(precision as u8, scale as u8)))
}

fn fraction_digits(text: &str) -> u8 {
    text.trim().rsplit_once('.').map_or(0, |(_, f)| f.len().min(9) as u8)
}

fn local_to_instant(local_nanos: i128, zone: &str) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    let zone = if zone.starts_with(['+', '-']) {
        jiff::tz::TimeZone::fixed(parse_offset(zone)?)
    } else {
        jiff::tz::TimeZone::get(zone).ok()?
    };
    // The same digits, read as UTC, give the wall clock that the zone is asked about.
    let utc = jiff::Timestamp::from_nanosecond(local_nanos).ok()?;
    let wall = jiff::tz::TimeZone::UTC.to_datetime(utc);
    let instant = zone.to_ambiguous_timestamp(wall).compatible().ok()?;
    Some(instant.as_nanosecond().div_euclid(SECOND) * SECOND + local_nanos.rem_euclid(SECOND))
}

fn parse_offset(text: &str) -> Option<jiff::tz::Offset> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (h, m) = text[1..].split_once(':').unwrap_or((&text[1..], "0"));
    let (h, m): (i32, i32) = (h.parse().ok()?, m.parse().ok()?);
    jiff::tz::Offset::from_seconds(sign * (h * 3600 + m * 60)).ok()
}

/// `DAY TO SECOND`, as messages show it.
pub fn qualifier_text(q: &IntervalQualifier) -> String {
    match q.end {
        Some(end) => format!("{} TO {}", q.start.name(), end.name()),
        None => q.start.name().to_string(),
    }
}

/// Months of a year-month unit.
pub fn months_of(unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Millennium => Some(12_000),
        TimeUnit::Century => Some(1200),
        TimeUnit::Decade => Some(120),
        TimeUnit::Year => Some(12),
        TimeUnit::Quarter => Some(3),
        TimeUnit::Month => Some(1),
        _ => None,
    }
}

/// Milliseconds of a day-time unit.
pub fn millis_of(unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Week => Some(604_800_000),
        TimeUnit::Day => Some(86_400_000),
        TimeUnit::Hour => Some(3_600_000),
        TimeUnit::Minute => Some(60_000),
        TimeUnit::Second => Some(1000),
        TimeUnit::Millisecond => Some(1),
        _ => None,
    }
}

fn bind_interval(text: &str, negative: bool, q: &IntervalQualifier) -> Option<(Value, TypeKind)> {
    let text = text.trim();
    let (minus, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let sign = if minus != negative { -1 } else { 1 };
    if let Some(months) = months_of(q.start) {
        let total = match q.end {
            None => digits(body)?.checked_mul(months)?,
            Some(TimeUnit::Month) => {
                let (years, rest) = body.split_once('-')?;
                let rest = digits(rest).filter(|m| *m < 12)?;
                digits(years)?.checked_mul(12)?.checked_add(rest)?
            }
            Some(_) => return None,
        };
        return Some((Value::Int(sign * total), TypeKind::IntervalYearMonth));
    }
    let total = match q.end {
        None => single_unit_ms(body, q.start)?,
        Some(end) => range_ms(body, q.start, end)?,
    };
    Some((Value::Int(sign * total), TypeKind::IntervalDayTime))
}

fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn single_unit_ms(body: &str, unit: TimeUnit) -> Option<i64> {
    if unit == TimeUnit::Second {
        return seconds_ms(body);
    }
    digits(body)?.checked_mul(millis_of(unit)?)
}

/// `12` or `12.345`; digits after the millisecond are cut.
fn seconds_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    digits(fraction)?;
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    digits(whole)?.checked_mul(1000)?.checked_add(millis)
}

/// `1 02:03:04.005` and its shorter forms. Every part but the first must lie below its carry.
fn range_ms(body: &str, start: TimeUnit, end: TimeUnit) -> Option<i64> {
    const UNITS: [TimeUnit; 4] = [TimeUnit::Day, TimeUnit::Hour, TimeUnit::Minute, TimeUnit::Second];
    let from = UNITS.iter().position(|u| *u == start)?;
    let to = UNITS.iter().position(|u| *u == end)?;
    if from >= to {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = body;
    if start == TimeUnit::Day {
        let (days, clock) = body.split_once(' ')?;
        parts.push(days);
        rest = clock.trim();
    }
    parts.extend(rest.split(':'));
    if parts.len() != to - from + 1 {
        return None;
    }
    let mut total = 0i64;
    for (part, unit) in parts.iter().zip(&UNITS[from..=to]) {
        let ms = single_unit_ms(part, *unit)?;
        let carry = match unit {
            TimeUnit::Hour => 24 * 3_600_000,
            TimeUnit::Minute => 3_600_000,
            _ => 60_000,
        };
        if *unit != start && ms >= carry {
            return None;
        }
        total = total.checked_add(ms)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(text: &str, start: TimeUnit, end: Option<TimeUnit>) -> Option<i64> {
        let q = IntervalQualifier { start, precision: None, end, fraction: None };
        match bind_interval(text, false, &q)?.0 {
            Value::Int(n) => Some(n),
            _ => None,
        }
    }

    #[test]
    fn intervals_are_read_in_all_their_units() {
        assert_eq!(interval("10", TimeUnit::Second, None), Some(10_000));
        assert_eq!(interval("0.001", TimeUnit::Second, None), Some(1));
        assert_eq!(interval("-15", TimeUnit::Second, None), Some(-15_000));
        assert_eq!(interval("2", TimeUnit::Week, None), Some(1_209_600_000));
        assert_eq!(interval("1-2", TimeUnit::Year, Some(TimeUnit::Month)), Some(14));
        assert_eq!(interval("1 02:03:04.005", TimeUnit::Day, Some(TimeUnit::Second)), Some(93_784_005));
        assert_eq!(interval("02:03", TimeUnit::Hour, Some(TimeUnit::Minute)), Some(7_380_000));
        assert_eq!(interval("1 25:00:00", TimeUnit::Day, Some(TimeUnit::Second)), None);
        assert_eq!(interval("1.5", TimeUnit::Day, None), None);
        assert_eq!(interval("", TimeUnit::Second, None), None);
    }

    #[test]
    fn a_decimal_has_the_digits_that_were_written() {
        assert_eq!(bind_decimal("1.50"), Some((Value::Decimal(150), TypeKind::Decimal(3, 2))));
        assert_eq!(bind_decimal("0.1"), Some((Value::Decimal(1), TypeKind::Decimal(2, 1))));
        assert_eq!(bind_decimal(".5"), Some((Value::Decimal(5), TypeKind::Decimal(1, 1))));
        assert_eq!(bind_decimal(&format!("{}.0", "9".repeat(40))), None);
    }

    #[test]
    fn an_instant_literal_is_read_in_the_session_zone() {
        let local = parse_timestamp("2031-01-01 10:00:00.5", ' ').unwrap();
        assert_eq!(local_to_instant(local, "+08:00"), Some(local - 8 * 3_600_000_000_000));
        assert_eq!(local_to_instant(local, "UTC"), Some(local));
    }
}
