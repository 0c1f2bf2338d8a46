//! Writing and reading wall-clock time by a compiled [`Pattern`].

use std::fmt::Write;

use super::fields::{Parsed, Reading};
use super::names;
use super::pattern::{Dialect, Field, Item, Minutes, Number, OffsetStyle, Pattern, Sign};

impl Pattern {
    /// Writes `reading`; `zone_name` stands for `z`. Fails where Java does: a number too wide for
    /// its field.
    pub(super) fn format(&self, reading: &Reading, zone_name: &str, out: &mut String) -> Result<(), String> {
        self.items.iter().try_for_each(|item| write_item(item, self.dialect, reading, zone_name, out))
    }

    /// True if the pattern asks for a zone or an offset.
    pub(super) fn needs_zone(&self) -> bool {
        fn any(items: &[Item]) -> bool {
            items.iter().any(|item| match item {
                Item::Offset(_) | Item::Zone(_) => true,
                Item::Optional(inner) => any(inner),
                _ => false,
            })
        }
        any(&self.items)
    }

    /// Reads all of `text` (`DateTimeFormatter`), or its start (`SimpleDateFormat`). The error is
    /// the byte where it failed.
    pub(super) fn parse(&self, text: &str) -> Result<Parsed, usize> {
        let mut parsed = Parsed::default();
        let end = parse_items(&self.items, self.dialect, text, 0, &mut parsed)?;
        if self.dialect == Dialect::Formatter && end < text.len() {
            return Err(end);
        }
        Ok(parsed)
    }
}

fn write_item(item: &Item, dialect: Dialect, r: &Reading, zone_name: &str, out: &mut String) -> Result<(), String> {
    match item {
        Item::Literal(text) => out.push_str(text),
        Item::Number(n) => write_number(n, dialect, r.get(n.field), out)?,
        Item::Text(Field::LocalDayOfWeek, style) => {
            out.push_str(names::name(Field::IsoDayOfWeek, *style, r.iso_day_of_week()));
        }
        Item::Text(field, style) => out.push_str(names::name(*field, *style, r.get(*field))),
        Item::Fraction(digits) => {
            let _ = write!(out, "{:0digits$}", r.at.nano / 10i64.pow(9 - *digits as u32));
        }
        Item::Offset(style) => write_offset(*style, r.offset, out),
        Item::Zone(_) => out.push_str(zone_name),
        Item::Optional(items) => {
            for item in items {
                write_item(item, dialect, r, zone_name, out)?;
            }
        }
    }
    Ok(())
}

fn write_number(n: &Number, dialect: Dialect, value: i64, out: &mut String) -> Result<(), String> {
    let min = n.min;
    if dialect == Dialect::Formatter {
        let digits = value.unsigned_abs().checked_ilog10().map_or(1, |d| d as usize + 1);
        if digits > n.max {
            return Err(format!("a value of {value} exceeds the {} digits its pattern letter has", n.max));
        }
        if n.sign == Sign::ExceedsPad && value >= 0 && min < 19 && digits > min {
            out.push('+');
        }
    }
    if value < 0 {
        out.push('-');
    }
    let _ = write!(out, "{:0min$}", value.unsigned_abs());
    Ok(())
}

fn write_offset(style: OffsetStyle, seconds: i32, out: &mut String) {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let (colon, show) = match style {
        OffsetStyle::Rfc822 => (false, true),
        OffsetStyle::Iso { zulu: true, .. } if seconds == 0 => return out.push('Z'),
        OffsetStyle::Iso { colon, minutes: Minutes::Always, .. } => (colon, true),
        OffsetStyle::Iso { colon, minutes: Minutes::IfAny, .. } => (colon, minutes % 60 != 0),
        OffsetStyle::Iso { colon, minutes: Minutes::Never, .. } => (colon, false),
    };
    let _ = write!(out, "{sign}{:02}", minutes / 60);
    if show {
        let _ = write!(out, "{}{:02}", if colon { ":" } else { "" }, minutes % 60);
    }
}

fn parse_items(
    items: &[Item],
    dialect: Dialect,
    text: &str,
    start: usize,
    parsed: &mut Parsed,
) -> Result<usize, usize> {
    let mut at = start;
    for (i, item) in items.iter().enumerate() {
        at = match (item, dialect) {
            (Item::Optional(inner), _) => {
                let mut attempt = parsed.clone();
                match parse_items(inner, dialect, text, at, &mut attempt) {
                    Ok(end) => {
                        *parsed = attempt;
                        end
                    }
                    Err(_) => at,
                }
            }
            (Item::Literal(literal), _) if text[at..].starts_with(literal.as_str()) => at + literal.len(),
            (Item::Literal(_), _) => return Err(at),
            (Item::Number(n), Dialect::Formatter) => parse_number(n, text, at, parsed)?,
            (Item::Number(n), Dialect::Simple) => parse_lenient_number(n, items.get(i + 1), text, at, parsed)?,
            (Item::Text(field, style), _) => {
                let at = if dialect == Dialect::Simple { skip_blanks(text, at) } else { at };
                let (value, len) = names::find(*field, *style, &text[at..], dialect == Dialect::Simple).ok_or(at)?;
                let field = if *field == Field::LocalDayOfWeek { Field::IsoDayOfWeek } else { *field };
                store(parsed, field, value, dialect, at)?;
                at + len
            }
            (Item::Fraction(digits), _) => {
                let end = at + digits;
                let digits_read = text.get(at..end).filter(|t| t.bytes().all(|b| b.is_ascii_digit())).ok_or(at)?;
                let nanos = format!("{digits_read:0<9}").parse().map_err(|_| at)?;
                store(parsed, Field::Nano, nanos, dialect, at)?;
                end
            }
            (Item::Offset(style), _) => parse_offset(*style, dialect, text, at, parsed)?,
            (Item::Zone(_), _) => parse_zone(text, at, parsed)?,
        };
    }
    Ok(at)
}

fn store(parsed: &mut Parsed, field: Field, value: i64, dialect: Dialect, at: usize) -> Result<(), usize> {
    if parsed.set(field, value, dialect == Dialect::Formatter) { Ok(()) } else { Err(at) }
}

fn skip_blanks(text: &str, at: usize) -> usize {
    at + text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len()
}

fn digits_at(text: &str, at: usize, most: usize) -> usize {
    text.as_bytes()[at..].iter().take(most).take_while(|b| b.is_ascii_digit()).count()
}

/// Java's `NumberPrinterParser.parse` in strict mode.
fn parse_number(n: &Number, text: &str, start: usize, parsed: &mut Parsed) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let (mut at, mut negative, mut positive) = (start, false, false);
    match bytes.get(at) {
        Some(b'+') if n.sign == Sign::ExceedsPad => {
            positive = true;
            at += 1;
        }
        Some(b'-') if n.sign != Sign::NotNegative => {
            negative = true;
            at += 1;
        }
        _ => {}
    }
    let max = if n.fixed && n.sign != Sign::NotNegative { n.min.max(1) } else { n.max };
    let mut len = digits_at(text, at, max + n.reserved);
    if n.reserved > 0 {
        len = n.min.max(len.saturating_sub(n.reserved)).min(len);
    }
    if len < n.min || len == 0 {
        return Err(start);
    }
    let value: i64 = text[at..at + len].parse().map_err(|_| start)?;
    if negative && value == 0 {
        return Err(start);
    }
    if n.sign == Sign::ExceedsPad && !negative && positive != (len > n.min) {
        return Err(start);
    }
    let value = if negative { -value } else { value };
    let value = match n.field {
        Field::ShortYear | Field::ShortWeekYear => 2000 + value,
        _ => value,
    };
    store(parsed, n.field, value, Dialect::Formatter, start)?;
    Ok(at + len)
}

/// A number as `SimpleDateFormat` reads it: after blanks, of any width unless another number
/// follows at once; two digits of `yy` are a year within 80 years before and 20 after the present.
fn parse_lenient_number(
    n: &Number,
    next: Option<&Item>,
    text: &str,
    start: usize,
    parsed: &mut Parsed,
) -> Result<usize, usize> {
    let mut at = skip_blanks(text, start);
    let obey_width = matches!(next, Some(Item::Number(_)));
    let negative = text.as_bytes().get(at) == Some(&b'-');
    at += usize::from(negative);
    let len = digits_at(text, at, if obey_width { n.min - usize::from(negative) } else { 18 });
    if len == 0 {
        return Err(start);
    }
    let mut value: i64 = text[at..at + len].parse().map_err(|_| start)?;
    if negative {
        value = -value;
    }
    let two_digits = matches!(n.field, Field::ShortYear | Field::ShortWeekYear) && len == 2 && !negative;
    let (field, value) = match n.field {
        Field::ShortYear | Field::ShortWeekYear => {
            (Field::YearOfEra, if two_digits { full_year(value) } else { value })
        }
        field => (field, value),
    };
    store(parsed, field, value, Dialect::Simple, start)?;
    Ok(at + len)
}

/// The century of a two-digit year. Java's pivot moves with the wall clock; the parse must not, so
/// the 80 years before and 20 after are those of the 2020s.
fn full_year(two_digits: i64) -> i64 {
    if two_digits < 46 { 2000 + two_digits } else { 1900 + two_digits }
}

fn parse_offset(
    style: OffsetStyle,
    dialect: Dialect,
    text: &str,
    at: usize,
    parsed: &mut Parsed,
) -> Result<usize, usize> {
    let zulu = matches!(style, OffsetStyle::Iso { zulu: true, .. });
    if zulu && text[at..].starts_with('Z') {
        parsed.offset = Some(0);
        return Ok(at + 1);
    }
    let sign = match text.as_bytes().get(at) {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ if dialect == Dialect::Simple && style == OffsetStyle::Rfc822 => return parse_zone(text, at, parsed),
        _ => return Err(at),
    };
    let (colon, optional) = match style {
        OffsetStyle::Iso { colon, minutes, .. } => (colon, minutes != Minutes::Always),
        OffsetStyle::Rfc822 => (false, false),
    };
    let two = |from: usize| {
        let part = text.get(from..from + 2).filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
        part.parse::<i32>().ok()
    };
    let hours = two(at + 1).ok_or(at)?;
    let minutes_at = at + 3 + usize::from(colon);
    let colon_ok = !colon || text.as_bytes().get(at + 3) == Some(&b':');
    let (minutes, end) = match two(minutes_at).filter(|_| colon_ok) {
        Some(minutes) => (minutes, minutes_at + 2),
        None if optional => (0, at + 3),
        None => return Err(at),
    };
    parsed.offset = Some(sign * (hours * 3600 + minutes * 60));
    Ok(end)
}

/// A zone by name or offset (`CET`, `Europe/Paris`, `GMT+02:00`).
fn parse_zone(text: &str, at: usize, parsed: &mut Parsed) -> Result<usize, usize> {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || "/_+-:".contains(c);
    let mut len = text[at..].find(|c| !part_of_name(c)).unwrap_or(text.len() - at);
    while len > 0 {
        if super::zone::parse(&text[at..at + len]).is_some() {
            parsed.zone = Some(text[at..at + len].to_string());
            return Ok(at + len);
        }
        len -= 1;
    }
    Err(at)
}
