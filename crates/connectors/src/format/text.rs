//! Reading values from text as Java does: the rules that JSON and CSV share.

use tidegate_api::text::days_from_civil;

/// `String.trim`: cuts characters up to the space at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// `Integer.parseInt` and its kin: digits with an optional sign.
pub(crate) fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// The part of `Double.parseDouble` that is no accident: decimal forms, `NaN`, `Infinity`, a trailing `d` or `f`.
pub(crate) fn double(text: &str) -> Option<f64> {
    let text = trim(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => Some(f64::NAN),
        "Infinity" if text.starts_with('-') => Some(f64::NEG_INFINITY),
        "Infinity" => Some(f64::INFINITY),
        // What Rust reads beyond Java: `inf`, `nan`, `infinity`.
        _ if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => None,
        _ => text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text).parse().ok(),
    }
}

/// What a text is as `DECIMAL(p, s)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecimalText {
    /// The unscaled digits, rounded half up to the scale.
    Fits(i128),
    /// A number with too many digits before the point; Flink makes it NULL.
    TooLarge,
    /// No number.
    Malformed,
}

/// `new BigDecimal(text)` made to fit `DECIMAL(precision, scale)`.
pub(crate) fn decimal(text: &str, precision: u8, scale: u8) -> DecimalText {
    let Some(parts) = NumberText::split(text) else { return DecimalText::Malformed };
    let digits = parts.whole.bytes().chain(parts.fraction.bytes()).map(|b| i128::from(b - b'0'));
    // Digits from this place on lie behind the scale.
    let keep = parts.whole.len() as i64 + i64::from(parts.exponent) + i64::from(scale);
    let (mut unscaled, mut round_up, mut read) = (0i128, false, 0i64);
    for digit in digits {
        if read >= keep {
            round_up = read == keep && digit >= 5;
            break;
        }
        read += 1;
        match unscaled.checked_mul(10).and_then(|u| u.checked_add(digit)) {
            Some(u) => unscaled = u,
            None => return DecimalText::TooLarge,
        }
    }
    unscaled += i128::from(round_up);
    if unscaled != 0 {
        for _ in read..keep {
            match unscaled.checked_mul(10) {
                Some(u) => unscaled = u,
                None => return DecimalText::TooLarge,
            }
        }
    }
    if unscaled >= 10i128.pow(u32::from(precision.min(38))) {
        return DecimalText::TooLarge;
    }
    DecimalText::Fits(if parts.negative { -unscaled } else { unscaled })
}

/// A decimal number in its parts.
pub(crate) struct NumberText<'a> {
    pub(crate) negative: bool,
    pub(crate) whole: &'a str,
    pub(crate) fraction: &'a str,
    pub(crate) exponent: i32,
}

impl<'a> NumberText<'a> {
    /// Splits `[+-]digits[.digits][e[+-]digits]`; `None` if it is something else.
    pub(crate) fn split(text: &'a str) -> Option<NumberText<'a>> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(i) => (&text[..i], text[i + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let negative = mantissa.starts_with('-');
        let mantissa = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        let is_number = whole.len() + fraction.len() > 0 && digits(whole) && digits(fraction);
        is_number.then_some(NumberText { negative, whole, fraction, exponent })
    }
}

/// `BigDecimal.stripTrailingZeros().toString()`: `12.5`, `1E+2`, `1.5E-9`.
pub(crate) fn java_decimal(number: &NumberText<'_>) -> String {
    let all: String = [number.whole, number.fraction].concat();
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return "0".to_owned();
    }
    let stripped = digits.trim_end_matches('0');
    // The value is `stripped` times ten to this power.
    let power = i64::from(number.exponent) - number.fraction.len() as i64 + (digits.len() - stripped.len()) as i64;
    let sign = if number.negative { "-" } else { "" };
    let adjusted = power + stripped.len() as i64 - 1;
    if power > 0 || adjusted < -6 {
        let (first, rest) = stripped.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}E{adjusted:+}");
    }
    let places = -power as usize;
    if places == 0 {
        return format!("{sign}{stripped}");
    }
    let padded = format!("{stripped:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// How strictly a date's day is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Days {
    /// A day the month does not have is an error (`ISO_LOCAL_DATE` by itself).
    Strict,
    /// Days up to the 31st become the month's last (Java's `SMART` resolver, which Flink's timestamp formats use).
    Clamped,
}

/// The last date read and its day number: neighbouring rows share their date.
#[derive(Default)]
pub(crate) struct DateCache {
    text: [u8; 10],
    days: i64,
}

impl DateCache {
    /// Days since the epoch of `yyyy-MM-dd`.
    #[inline]
    pub(crate) fn days(&mut self, text: &[u8], days: Days) -> Option<i64> {
        if text.len() != 10 {
            return None;
        }
        if text == self.text {
            return Some(self.days);
        }
        let (read, exists) = date(text, days)?;
        if exists {
            // A clamped date is not kept: the same text is an error elsewhere.
            self.text.copy_from_slice(text);
            self.days = read;
        }
        Some(read)
    }
}

fn date(text: &[u8], days: Days) -> Option<(i64, bool)> {
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let year = two(text, 0)? * 100 + two(text, 2)?;
    let (month, day) = (two(text, 5)?, two(text, 8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > last && days == Days::Strict {
        return None;
    }
    Some((days_from_civil(year, month, day.min(last)), day <= last))
}

/// Two digits at `i`.
#[inline]
fn two(text: &[u8], i: usize) -> Option<i64> {
    let (a, b) = (text.get(i)?.wrapping_sub(b'0'), text.get(i + 1)?.wrapping_sub(b'0'));
    (a <= 9 && b <= 9).then_some(i64::from(a) * 10 + i64::from(b))
}

/// A clock time: second of the day and nanoseconds.
///
/// `HH:mm:ss[.fraction]`, with `short` also `HH:mm`. Digits of the fraction after the ninth are dropped.
#[inline]
pub(crate) fn clock(text: &[u8], short: bool) -> Option<(i64, u32)> {
    if text.len() < 5 || text[2] != b':' {
        return None;
    }
    let (hour, minute) = (two(text, 0)?, two(text, 3)?);
    let mut second = 0;
    let mut nano = 0;
    if text.len() > 5 {
        if text[5] != b':' {
            return None;
        }
        second = two(text, 6)?;
        nano = fraction(&text[8..])?;
    } else if !short {
        return None;
    }
    (hour < 24 && minute < 60 && second < 60).then_some(((hour * 60 + minute) * 60 + second, nano))
}

/// The second of the day of `HH:mm:ss`, its eight bytes read as one word.
#[inline]
pub(crate) fn clock_of(text: &[u8; 8]) -> Option<i64> {
    const COLONS: u64 = 0x0000_ff00_00ff_0000;
    let word = u64::from_le_bytes(*text);
    if word & COLONS != 0x0000_3a00_003a_0000 {
        return None;
    }
    // Each remaining byte must be a digit: subtracting '0' leaves 0 to 9, and adding 0x76 then sets no high bit.
    let digits = (word & !COLONS).wrapping_sub(0x3030_0030_3000_3030 & !COLONS);
    if (digits | digits.wrapping_add(0x7676_0076_7600_7676)) & 0x8080_0080_8000_8080 != 0 {
        return None;
    }
    let byte = |i: u32| ((digits >> (i * 8)) & 0xff) as i64;
    let (hour, minute, second) = (byte(0) * 10 + byte(1), byte(3) * 10 + byte(4), byte(6) * 10 + byte(7));
    (hour < 24 && minute < 60 && second < 60).then_some((hour * 60 + minute) * 60 + second)
}

#[inline]
fn fraction(text: &[u8]) -> Option<u32> {
    let Some((point, digits)) = text.split_first() else { return Some(0) };
    if *point != b'.' || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = &digits[..digits.len().min(9)];
    let value = kept.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0'));
    Some(value * 10u32.pow(9 - kept.len() as u32))
}

/// A wall-clock timestamp `date<separator>time` as seconds since the epoch and nanoseconds.
#[inline]
pub(crate) fn timestamp(
    text: &[u8],
    separator: u8,
    short: bool,
    days: Days,
    dates: &mut DateCache,
) -> Option<(i64, u32)> {
    if text.len() < 11 || text[10] != separator {
        return None;
    }
    let date = dates.days(&text[..10], days)?;
    let (second, nano) = clock(&text[11..], short)?;
    Some((date * 86_400 + second, nano))
}

/// Splits a zone off the end of a timestamp: `Z`, `+05:00`, `-0700`, `+05`; seconds east of Greenwich.
pub(crate) fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, 0));
    }
    let at = text.rfind(['+', '-']).filter(|at| *at > 10)?;
    let (local, zone) = text.split_at(at);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let well_formed = matches!((zone.len(), digits.len()), (3, 2) | (5, 4) | (6, 4));
    if !well_formed || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let hours = two(digits.as_bytes(), 0)?;
    let minutes = if digits.len() == 4 { two(digits.as_bytes(), 2)? } else { 0 };
    (hours <= 18 && minutes < 60).then_some((local, sign * (hours * 3600 + minutes * 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_half_up_and_overflow_is_not_malformed() {
        assert_eq!(decimal("123.456", 8, 2), DecimalText::Fits(12346));
        assert_eq!(decimal("-2.5", 5, 0), DecimalText::Fits(-3));
        assert_eq!(decimal("9.995", 8, 2), DecimalText::Fits(1000));
        assert_eq!(decimal("1e3", 10, 2), DecimalText::Fits(100_000));
        assert_eq!(decimal("5e-1", 3, 0), DecimalText::Fits(1));
        assert_eq!(decimal("5e-2", 3, 0), DecimalText::Fits(0));
        assert_eq!(decimal("1234.5", 3, 1), DecimalText::TooLarge);
        assert_eq!(decimal("0e2000000000", 3, 1), DecimalText::Fits(0));
        assert_eq!(decimal("1e2000000000", 3, 1), DecimalText::TooLarge);
        for bad in ["", ".", "-", "1.x", "e5", "1e", "0x1"] {
            assert_eq!(decimal(bad, 10, 2), DecimalText::Malformed, "{bad}");
        }
    }

    #[test]
    fn stripped_decimals_are_java_s() {
        for (text, expected) in [
            ("12.500", "12.5"),
            ("100.00", "1E+2"),
            ("-0.05", "-0.05"),
            ("0.0", "0"),
            ("0.0000000015", "1.5E-9"),
            ("123000", "1.23E+5"),
            ("1e3", "1E+3"),
            ("7", "7"),
        ] {
            assert_eq!(java_decimal(&NumberText::split(text).expect(text)), expected);
        }
    }

    #[test]
    fn doubles_are_java_s() {
        assert_eq!(double(" 1e3 "), Some(1000.0));
        assert_eq!(double("-.5"), Some(-0.5));
        assert_eq!(double("1.5f"), Some(1.5));
        assert_eq!(double("-Infinity"), Some(f64::NEG_INFINITY));
        for bad in ["inf", "nan", "infinity", "", "x", "1,5", "ff"] {
            assert_eq!(double(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_clock_read_as_a_word_is_the_clock() {
        for hour in [0, 9, 10, 23, 24] {
            for minute in [0, 59, 60] {
                for second in [0, 7, 59, 61] {
                    let text = format!("{hour:02}:{minute:02}:{second:02}");
                    let word = text.as_bytes().first_chunk::<8>().expect("eight bytes");
                    assert_eq!(clock_of(word), clock(text.as_bytes(), false).map(|(s, _)| s), "{text}");
                }
            }
        }
        for bad in [b"1a:00:00", b"10:0/:00", b"10-00:00", b"10:00:0:", b"\xff0:00:00", b"1 :00:00"] {
            assert_eq!(clock_of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn timestamps_and_their_zones() {
        let mut dates = DateCache::default();
        let mut sql = |text: &str, days| timestamp(text.as_bytes(), b' ', false, days, &mut dates);
        assert_eq!(sql("1970-01-02 00:00:01.5", Days::Strict), Some((86_401, 500_000_000)));
        assert_eq!(sql("2031-02-29 00:00:00", Days::Clamped), sql("2031-02-28 00:00:00", Days::Strict));
        assert_eq!(sql("2031-02-29 00:00:00", Days::Strict), None);
        assert_eq!(sql("1970-01-01 00:00:00.3873440209", Days::Strict), Some((0, 387_344_020)));
        for bad in
            ["1970-01-01T00:00:00", "1970-1-1 00:00:00", "1970-01-01", "1970-01-01 24:00:00", "1970-01-01 00:00:00Z"]
        {
            assert_eq!(sql(bad, Days::Clamped), None, "{bad}");
        }
        assert_eq!(split_offset("2024-02-12T21:31:21-05:00"), Some(("2024-02-12T21:31:21", -18_000)));
        assert_eq!(split_offset("2020-03-26T11:03:29.98-0700"), Some(("2020-03-26T11:03:29.98", -25_200)));
        assert_eq!(split_offset("2020-03-26T11:03:29"), None);
    }
}
