//! Reading dates and times from text the ways Flink's conversions do.

use tidegate_api::text::{DateTime, days_from_civil};

use super::fields::last_day;
use super::pattern::Pattern;
use super::zone::{self, Overlap};

/// What `UNIX_TIMESTAMP` gives for text it cannot read.
pub(super) const UNREADABLE_SECONDS: i64 = i64::MIN;

/// Days of 5471-09-27: what Flink's `TO_DATE` with a pattern gives for text it cannot read (its
/// "no value", the smallest number of milliseconds, wraps into this day).
pub(super) const UNREADABLE_DATE: i32 = 1_278_983;

/// A cursor over bytes of digits and separators.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// A number of `min` to `max` digits.
    fn number(&mut self, min: usize, max: usize) -> Result<i64, usize> {
        let digits = self.bytes[self.at..].iter().take(max).take_while(|b| b.is_ascii_digit());
        let (len, value) = digits.fold((0, 0), |(n, v), b| (n + 1, v * 10 + i64::from(b - b'0')));
        if len < min {
            return Err(self.at);
        }
        self.at += len;
        Ok(value)
    }

    fn take(&mut self, byte: u8) -> Result<(), usize> {
        if self.bytes.get(self.at) == Some(&byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.at)
    }
}

/// Reads `yyyy-[M]M-[d]d[ [H]H:[m]m:[s]s[.fraction]]`, Flink's default for timestamps, into
/// nanoseconds of wall-clock time. Days up to 31 are moved back into their month, `24:00:00` is the
/// next day. The error is the byte where reading failed.
pub(super) fn default_timestamp(text: &str) -> Result<i128, usize> {
    let mut c = Cursor { bytes: text.as_bytes(), at: 0 };
    let year = c.number(4, 4)?;
    c.take(b'-')?;
    let month = c.number(1, 2)?;
    c.take(b'-')?;
    let day = c.number(1, 2)?;
    let date_end = c.at;
    let (mut hour, mut minute, mut second, mut nano) = (0, 0, 0, 0);
    if c.at < text.len() {
        (hour, minute, second, nano) = default_clock(&mut c).map_err(|_| date_end)?;
    }
    if c.at < text.len() {
        return Err(c.at);
    }
    let in_range = year > 0 && (1..=12).contains(&month) && (1..=31).contains(&day);
    let end_of_day = hour == 24 && (minute, second, nano) == (0, 0, 0);
    if !in_range || minute > 59 || second > 59 || (hour > 23 && !end_of_day) {
        return Err(0);
    }
    let days = days_from_civil(year, month, day.min(last_day(year, month)));
    let seconds = days * 86_400 + (hour * 60 + minute) * 60 + second;
    Ok(i128::from(seconds) * 1_000_000_000 + i128::from(nano))
}

fn default_clock(c: &mut Cursor<'_>) -> Result<(i64, i64, i64, i64), usize> {
    c.take(b' ')?;
    let hour = c.number(1, 2)?;
    c.take(b':')?;
    let minute = c.number(1, 2)?;
    c.take(b':')?;
    let second = c.number(1, 2)?;
    let mut nano = 0;
    if c.take(b'.').is_ok() {
        let start = c.at;
        nano = c.number(0, 9)? * 10i64.pow(9 - (c.at - start) as u32);
    }
    Ok((hour, minute, second, nano))
}

/// Reads `text` by `pattern`; where that fails, as `java.sql.Timestamp.valueOf` does, as Flink's
/// `TO_TIMESTAMP` with a pattern: `2031-02-30 25:61:00` is then 2031-03-03 02:01.
pub(super) fn by_pattern_or_jdbc(text: &str, pattern: &Pattern) -> Option<i128> {
    match pattern.parse(text) {
        Ok(parsed) => match parsed.resolve() {
            Some(nanos) => Some(nanos),
            None => jdbc(text),
        },
        Err(_) => jdbc(text),
    }
}

fn jdbc(text: &str) -> Option<i128> {
    let text = text.trim();
    let mut c = Cursor { bytes: text.as_bytes(), at: 0 };
    let year = c.number(4, 4).ok()?;
    c.take(b'-').ok()?;
    let month = c.number(1, 2).ok()?;
    c.take(b'-').ok()?;
    let day = c.number(1, 2).ok()?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = i128::from(days_from_civil(year, month, 1) + day - 1);
    if c.at == text.len() {
        return Some(days * 86_400_000_000_000);
    }
    c.take(b' ').ok()?;
    let hour = c.number(1, 9).ok()?;
    c.take(b':').ok()?;
    let minute = c.number(1, 9).ok()?;
    c.take(b':').ok()?;
    let second = c.number(1, 9).ok()?;
    let mut nano = 0;
    if c.take(b'.').is_ok() {
        let start = c.at;
        nano = c.number(1, 9).ok()? * 10i64.pow(9 - (c.at - start) as u32);
    }
    if c.at != text.len() {
        return None;
    }
    let seconds = days * 86_400 + i128::from((hour * 60 + minute) * 60 + second);
    Some(seconds * 1_000_000_000 + i128::from(nano))
}

/// `TO_DATE(text)`: `2031-4-3`, also with a clock after a blank, without a day, or a bare year.
/// NULL if the day does not exist.
pub(super) fn to_date(text: &str) -> Option<i32> {
    let text = match text.find(' ') {
        Some(blank) if blank > 0 => &text[..blank],
        _ => text,
    };
    let mut parts = text.splitn(3, '-').map(|part| {
        let part = part.trim();
        let digits = !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
        if digits { part.parse::<i64>().ok() } else { None }
    });
    let year = parts.next()??;
    let month = parts.next().unwrap_or(Some(1))?;
    let day = parts.next().unwrap_or(Some(1))?;
    let exists = (0..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1 && day <= last_day(year, month);
    exists.then(|| days_from_civil(year, month, day) as i32)
}

/// The instant in milliseconds that `text` names by a lenient pattern, in `session` unless the text
/// has its own zone.
pub(super) fn lenient_millis(text: &str, pattern: &Pattern, session: &jiff::tz::TimeZone) -> Option<i64> {
    let parsed = pattern.parse(text).ok()?;
    let local = parsed.resolve_lenient();
    let offset = match (parsed.offset, &parsed.zone) {
        (Some(offset), _) => offset,
        (None, Some(name)) => zone::offset_of_local(&zone::lenient(name), local, Overlap::Later),
        (None, None) => zone::offset_of_local(session, local, Overlap::Later),
    };
    Some(local - i64::from(offset) * 1000)
}

/// Nanoseconds of wall-clock time, cut to `digits` digits of a second.
pub(super) fn truncate(nanos: i128, digits: u8) -> i128 {
    let unit = 10i128.pow(9 - u32::from(digits.min(9)));
    nanos - nanos.rem_euclid(unit)
}

/// Seconds of the first and the last moment a numeric `TO_TIMESTAMP_LTZ` accepts: the years 0000 to
/// 9999.
pub(super) fn within_years(nanos: i128) -> bool {
    let first = DateTime { year: 0, month: 1, day: 1, hour: 0, minute: 0, second: 0, nano: 0 }.to_nanos();
    let after = DateTime { year: 10_000, month: 1, day: 1, hour: 0, minute: 0, second: 0, nano: 0 }.to_nanos();
    (first..after).contains(&nanos)
}
