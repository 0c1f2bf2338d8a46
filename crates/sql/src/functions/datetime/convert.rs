//! Times to text and back: `DATE_FORMAT`, `TO_DATE`, `TO_TIMESTAMP`, `TO_TIMESTAMP_LTZ`,
//! `UNIX_TIMESTAMP`, `FROM_UNIXTIME`, `CONVERT_TZ`.

use arrow::array::{Array, ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array};
use jiff::tz::TimeZone;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind};

use super::columns::{PatternArg, Times, from_nanos};
use super::fields::Reading;
use super::parse::{self, UNREADABLE_DATE, UNREADABLE_SECONDS};
use super::pattern::{Dialect, Pattern};
use super::zone::{self, Overlap};
use super::{is_instant, parse::truncate};
use crate::functions::args::{any_nullable, count, demand, expect_bigint, expect_string, literal_int, literal_str};
use crate::functions::columns::{bigints, collect, strings, typed, write_strings};
use crate::functions::{CallInfo, Kernel};

type MadeKernel = Result<Box<dyn Kernel>, String>;

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";

fn kernel<F>(f: F) -> MadeKernel
where
    F: FnMut(&[ArrayRef], usize, &EvalContext) -> Result<ArrayRef, RowError> + Send + 'static,
{
    Ok(Box::new(f))
}

fn pattern_column(args: &[ArrayRef]) -> Result<Option<&arrow::array::StringArray>, RowError> {
    args.get(1).map(strings).transpose()
}

/// Type rule of `DATE_FORMAT(timestamp or string, pattern)`.
pub(super) fn resolve_date_format(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let fits = |t: &LogicalType| t.is_timestamp() || t.is_string();
    demand(args, 0, fits, &LogicalType::new(TypeKind::Timestamp(3)), "TIMESTAMP or CHARACTER STRING")?;
    expect_string(args, 1)?;
    Ok(LogicalType::string())
}

/// Code of `DATE_FORMAT`.
pub(super) fn date_format_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let ty = info.args[0].ty.clone();
    if ty.is_string() {
        return reformat_kernel(info);
    }
    let session = zone::session(info.zone)?;
    let instant = is_instant(&ty);
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Formatter)?;
    if literal_str(&info.args[1]).is_some() {
        refuse_zone(pattern.of(None)?)?;
    }
    kernel(move |args, rows, _| {
        let times = Times::of(&args[0], &ty)?;
        let patterns = strings(&args[1])?;
        write_strings(rows, |row, out| {
            if times.is_null(row) || patterns.is_null(row) {
                return Ok(false);
            }
            let pattern = pattern.of(Some(patterns.value(row)))?;
            refuse_zone(pattern)?;
            let nanos = times.nanos(row);
            let local = if instant { zone::to_local(&session, nanos) } else { nanos };
            pattern.format(&Reading::new(local, 0), "", out)?;
            Ok(true)
        })
    })
}

fn refuse_zone(pattern: &Pattern) -> Result<(), String> {
    if pattern.needs_zone() {
        return Err("DATE_FORMAT of a timestamp has no zone or offset to write: leave X, x, Z, z and V out.".into());
    }
    Ok(())
}

/// `DATE_FORMAT` of a string: reads `yyyy-MM-dd HH:mm:ss` and writes it anew, both in UTC.
fn reformat_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let source = Pattern::compile(DEFAULT_PATTERN, Dialect::Simple)?;
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Simple)?;
    kernel(move |args, rows, _| {
        let (texts, patterns) = (strings(&args[0])?, strings(&args[1])?);
        write_strings(rows, |row, out| {
            if texts.is_null(row) || patterns.is_null(row) {
                return Ok(false);
            }
            let Some(millis) = parse::lenient_millis(texts.value(row), &source, &TimeZone::UTC) else {
                return Ok(false);
            };
            let pattern = pattern.of(Some(patterns.value(row)))?;
            write_millis(millis, pattern, &TimeZone::UTC, "UTC", out)?;
            Ok(true)
        })
    })
}

fn write_millis(millis: i64, pattern: &Pattern, zone: &TimeZone, id: &str, out: &mut String) -> Result<(), String> {
    let offset = zone::offset_at(zone, millis);
    let local = (i128::from(millis) + i128::from(offset) * 1000) * 1_000_000;
    let name = if pattern.needs_zone() { zone::display_name(zone, id, millis) } else { String::new() };
    pattern.format(&Reading::new(local, offset), &name, out)
}

/// Type rule of `TO_DATE(text[, pattern])`.
pub(super) fn resolve_to_date(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 1..=2)?;
    Ok(LogicalType::new(TypeKind::Date))
}

fn all_strings(args: &mut [Expr], range: std::ops::RangeInclusive<usize>) -> Result<(), String> {
    count(args, range)?;
    (0..args.len()).try_for_each(|i| expect_string(args, i))
}

/// Code of `TO_DATE`.
pub(super) fn to_date_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = PatternArg::new(info.args.get(1), "yyyy-MM-dd", Dialect::Simple)?;
    kernel(move |args, rows, _| {
        let texts = strings(&args[0])?;
        let patterns = pattern_column(args)?;
        collect::<i32, Date32Array>(rows, |row| {
            let Some(patterns) = patterns else {
                return Ok(if texts.is_null(row) { None } else { parse::to_date(texts.value(row)) });
            };
            if texts.is_null(row) || patterns.is_null(row) {
                return Ok(None);
            }
            let pattern = pattern.of(Some(patterns.value(row)))?;
            let millis = parse::lenient_millis(texts.value(row), pattern, &TimeZone::UTC);
            Ok(Some(millis.map_or(UNREADABLE_DATE, |m| m.div_euclid(86_400_000) as i32)))
        })
    })
}

/// Type rule of `TO_TIMESTAMP(text[, pattern])`.
pub(super) fn resolve_to_timestamp(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 1..=2)?;
    Ok(LogicalType::new(TypeKind::Timestamp(3)))
}

/// Code of `TO_TIMESTAMP`: NULL for text it cannot read.
pub(super) fn to_timestamp_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Formatter)?;
    let ty = info.ty.clone();
    kernel(move |args, rows, _| {
        let texts = strings(&args[0])?;
        let patterns = pattern_column(args)?;
        from_nanos(&ty, rows, |row| {
            if texts.is_null(row) || patterns.is_some_and(|p| p.is_null(row)) {
                return Ok(None);
            }
            let text = texts.value(row);
            Ok(match patterns {
                None => parse::default_timestamp(text).ok(),
                Some(patterns) => match pattern.of(Some(patterns.value(row))) {
                    Ok(pattern) => parse::by_pattern_or_jdbc(text, pattern),
                    Err(_) => None,
                },
            })
        })
    })
}

/// Type rule of `TO_TIMESTAMP_LTZ(number[, digits])` and `TO_TIMESTAMP_LTZ(text[, pattern[, zone]])`.
pub(super) fn resolve_to_timestamp_ltz(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=3)?;
    if args[0].ty.is_string() || args.len() == 3 {
        all_strings(args, 1..=3)?;
        let pattern = args.get(1).and_then(literal_str).unwrap_or_default();
        let digits = Pattern::compile(pattern, Dialect::Formatter).map_or(3, |p| p.fraction_digits().max(3) as u8);
        if let Some(name) = args.get(2).and_then(literal_str) {
            ltz_zone(name)?;
        }
        return Ok(LogicalType::new(TypeKind::TimestampLtz(digits)));
    }
    let fits = |t: &LogicalType| t.is_numeric();
    demand(args, 0, fits, &LogicalType::new(TypeKind::BigInt), "NUMERIC or CHARACTER STRING")?;
    if args[0].ty.is_integer() {
        expect_bigint(args, 0)?;
    }
    let digits = match args.get(1) {
        None => 3,
        Some(expr) => literal_int(expr)
            .filter(|p| (0..=9).contains(p))
            .ok_or("The precision value must be a literal of 0 to 9.")?,
    };
    Ok(LogicalType::new(TypeKind::TimestampLtz(digits.max(3) as u8)))
}

fn ltz_zone(name: &str) -> Result<TimeZone, String> {
    zone::parse(name).ok_or_else(|| format!("Invalid timezone for parsing TIMESTAMP_LTZ: Unknown time-zone ID: {name}"))
}

/// Code of `TO_TIMESTAMP_LTZ`.
pub(super) fn to_timestamp_ltz_kernel(info: &CallInfo<'_>) -> MadeKernel {
    if info.args[0].ty.is_string() {
        return ltz_from_text_kernel(info);
    }
    let digits = info.args.get(1).and_then(literal_int).unwrap_or(3).clamp(0, 9);
    let (ty, from) = (info.ty.clone(), info.args[0].ty.clone());
    let unit = 10i128.pow(9 - digits as u32);
    kernel(move |args, rows, _| {
        let scaled = |value: i64| {
            let nanos = i128::from(value) * unit;
            if parse::within_years(nanos) { Some(nanos) } else { None }
        };
        match &from.kind {
            TypeKind::Decimal(_, scale) => {
                let (numbers, divisor) = (typed::<Decimal128Array>(&args[0])?, 10i128.pow(u32::from(*scale)));
                from_nanos(&ty, rows, |row| {
                    Ok(if numbers.is_null(row) { None } else { scaled((numbers.value(row) / divisor) as i64) })
                })
            }
            TypeKind::Double | TypeKind::Float => {
                let double = double_reader(&args[0], &from)?;
                from_nanos(&ty, rows, |row| Ok(double(row).and_then(|v| from_double(v, digits, &scaled))))
            }
            _ => {
                let numbers = bigints(&args[0])?;
                from_nanos(&ty, rows, |row| Ok(if numbers.is_null(row) { None } else { scaled(numbers.value(row)) }))
            }
        }
    })
}

fn double_reader<'a>(
    array: &'a ArrayRef,
    ty: &LogicalType,
) -> Result<Box<dyn Fn(usize) -> Option<f64> + 'a>, RowError> {
    if ty.kind == TypeKind::Float {
        let floats = typed::<Float32Array>(array)?;
        return Ok(Box::new(move |row| (!floats.is_null(row)).then(|| f64::from(floats.value(row)))));
    }
    let doubles = typed::<Float64Array>(array)?;
    Ok(Box::new(move |row| (!doubles.is_null(row)).then(|| doubles.value(row))))
}

/// Seconds keep their milliseconds; other units are cut to whole ones.
fn from_double(value: f64, digits: i64, scaled: &dyn Fn(i64) -> Option<i128>) -> Option<i128> {
    if digits == 0 {
        let nanos = i128::from((value * 1000.0) as i64) * 1_000_000;
        return parse::within_years(nanos).then_some(nanos);
    }
    scaled(value as i64)
}

/// `TO_TIMESTAMP_LTZ` of text, in UTC unless a zone is given. Without a pattern bad text fails the
/// job; with one it is NULL.
fn ltz_from_text_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Formatter)?;
    let ty = info.ty.clone();
    let digits = match ty.kind {
        TypeKind::TimestampLtz(p) => p,
        _ => 3,
    };
    let mut named: (String, TimeZone) = ("UTC".into(), TimeZone::UTC);
    kernel(move |args, rows, _| {
        let texts = strings(&args[0])?;
        let patterns = pattern_column(args)?;
        let zones = args.get(2).map(strings).transpose()?;
        from_nanos(&ty, rows, |row| {
            let null = [Some(texts), patterns, zones].iter().flatten().any(|a| a.is_null(row));
            if null {
                return Ok(None);
            }
            let text = texts.value(row);
            let local = match patterns {
                None => parse::default_timestamp(text)
                    .map_err(|at| format!("Text '{text}' could not be parsed at index {at}"))?,
                Some(patterns) => match parse::by_pattern_or_jdbc(text, pattern.of(Some(patterns.value(row)))?) {
                    Some(local) => local,
                    None => return Ok(None),
                },
            };
            if let Some(zones) = zones
                && zones.value(row) != named.0
            {
                named = (zones.value(row).to_string(), ltz_zone(zones.value(row))?);
            }
            Ok(Some(truncate(zone::to_instant(&named.1, local, Overlap::Earlier), digits)))
        })
    })
}

/// Type rule of `UNIX_TIMESTAMP([text[, pattern]])`.
pub(super) fn resolve_unix_timestamp(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 0..=2)?;
    Ok(LogicalType { kind: TypeKind::BigInt, nullable: any_nullable(args) })
}

/// Code of `UNIX_TIMESTAMP`.
pub(super) fn unix_timestamp_kernel(info: &CallInfo<'_>) -> MadeKernel {
    if info.args.is_empty() {
        return kernel(|_, rows, ctx| {
            let seconds = ctx.now_ms.div_euclid(1000);
            collect::<i64, Int64Array>(rows, |_| Ok(Some(seconds)))
        });
    }
    let session = zone::session(info.zone)?;
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Simple)?;
    kernel(move |args, rows, _| {
        let texts = strings(&args[0])?;
        let patterns = pattern_column(args)?;
        collect::<i64, Int64Array>(rows, |row| {
            if texts.is_null(row) || patterns.is_some_and(|p| p.is_null(row)) {
                return Ok(None);
            }
            let pattern = pattern.of(patterns.map(|p| p.value(row)))?;
            let millis = parse::lenient_millis(texts.value(row), pattern, &session);
            Ok(Some(millis.map_or(UNREADABLE_SECONDS, |m| m / 1000)))
        })
    })
}

/// Type rule of `FROM_UNIXTIME(seconds[, pattern])`.
pub(super) fn resolve_from_unixtime(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    expect_bigint(args, 0)?;
    if args.len() == 2 {
        expect_string(args, 1)?;
    }
    Ok(LogicalType::string())
}

/// Code of `FROM_UNIXTIME`.
pub(super) fn from_unixtime_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let (session, id) = (zone::session(info.zone)?, info.zone.to_string());
    let mut pattern = PatternArg::new(info.args.get(1), DEFAULT_PATTERN, Dialect::Simple)?;
    kernel(move |args, rows, _| {
        let seconds = bigints(&args[0])?;
        let patterns = pattern_column(args)?;
        write_strings(rows, |row, out| {
            if seconds.is_null(row) || patterns.is_some_and(|p| p.is_null(row)) {
                return Ok(false);
            }
            let pattern = pattern.of(patterns.map(|p| p.value(row)))?;
            write_millis(seconds.value(row).wrapping_mul(1000), pattern, &session, &id, out)?;
            Ok(true)
        })
    })
}

/// Type rule of `CONVERT_TZ(text, from, to)`.
pub(super) fn resolve_convert_tz(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 3..=3)?;
    Ok(LogicalType::string())
}

/// Code of `CONVERT_TZ`; as in Flink an unknown zone is GMT.
pub(super) fn convert_tz_kernel(_: &CallInfo<'_>) -> MadeKernel {
    let pattern = Pattern::compile(DEFAULT_PATTERN, Dialect::Simple)?;
    let mut zones = [(String::new(), TimeZone::UTC), (String::new(), TimeZone::UTC)];
    kernel(move |args, rows, _| {
        let (texts, from, to) = (strings(&args[0])?, strings(&args[1])?, strings(&args[2])?);
        write_strings(rows, |row, out| {
            if texts.is_null(row) || from.is_null(row) || to.is_null(row) {
                return Ok(false);
            }
            for (known, name) in zones.iter_mut().zip([from.value(row), to.value(row)]) {
                if known.0 != name {
                    *known = (name.to_string(), zone::lenient(name));
                }
            }
            let Some(millis) = parse::lenient_millis(texts.value(row), &pattern, &zones[0].1) else {
                return Ok(false);
            };
            write_millis(millis, &pattern, &zones[1].1, "", out)?;
            Ok(true)
        })
    })
}
