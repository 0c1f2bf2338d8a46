//! Java's date patterns as far as partitions need them: numbers of date and time in a fixed order.

use tidegate_api::text::days_from_civil;

/// What a letter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year,
    /// Two digits, from 2000 on.
    ShortYear,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Fraction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Literal(String),
    Number { field: Field, min: usize, max: usize },
}

/// A compiled `java.time.format.DateTimeFormatter` pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formatter {
    text: String,
    items: Vec<Item>,
}

#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millis: i64,
}

impl Formatter {
    /// The error says what is expected instead.
    pub(super) fn compile(text: &str) -> Result<Formatter, String> {
        let wanted =
            "a pattern of year, month and day, and perhaps hour, minute and second, as yyyy, MM, dd, HH, mm, ss";
        let chars: Vec<char> = text.chars().collect();
        let (mut items, mut at) = (Vec::new(), 0);
        while at < chars.len() {
            let c = chars[at];
            if c == '\'' {
                at = quoted(&chars, at + 1, &mut items).ok_or("a pattern whose quotes are closed")?;
            } else if c.is_ascii_alphabetic() {
                let count = chars[at..].iter().take_while(|x| **x == c).count();
                items.push(letter(c, count).ok_or_else(|| format!("{wanted}, without '{c}' of {count}"))?);
                at += count;
            } else if "[]{}#".contains(c) {
                return Err(format!("{wanted}, without '{c}'"));
            } else {
                push_literal(&mut items, c);
                at += 1;
            }
        }
        let has = |wanted: &[Field]| {
            items.iter().any(|item| matches!(item, Item::Number { field, .. } if wanted.contains(field)))
        };
        if !has(&[Field::Year, Field::ShortYear]) || !has(&[Field::Month]) || !has(&[Field::Day]) {
            return Err(wanted.to_owned());
        }
        Ok(Formatter { text: text.to_owned(), items })
    }

    /// The pattern.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Milliseconds of local time; a pattern without a time means midnight.
    pub(super) fn parse(&self, text: &str) -> Option<i64> {
        let (mut rest, mut fields) = (text, Fields::default());
        for (index, item) in self.items.iter().enumerate() {
            match item {
                Item::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Item::Number { field, min, max } => {
                    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                    // Numbers that touch share their digits: the fixed ones behind get theirs.
                    let reserved = if min == max { 0 } else { self.reserved_behind(index) };
                    let taken = digits.saturating_sub(reserved).min(*max);
                    if taken < *min {
                        return None;
                    }
                    let (number, behind) = rest.split_at(taken);
                    fields.set(*field, number)?;
                    rest = behind;
                }
            }
        }
        if rest.is_empty() { fields.local_ms() } else { None }
    }

    fn reserved_behind(&self, index: usize) -> usize {
        let behind = self.items[index + 1..].iter().map_while(|item| match item {
            Item::Number { min, max, .. } if min == max => Some(*max),
            _ => None,
        });
        behind.sum()
    }
}

impl Fields {
    fn set(&mut self, field: Field, digits: &str) -> Option<()> {
        let value: i64 = digits.parse().ok()?;
        let within = |most: i64| (value <= most).then_some(value);
        match field {
            Field::Year => self.year = Some(value).filter(|year| (1..=999_999_999).contains(year)),
            Field::ShortYear => self.year = Some(2000 + value),
            Field::Month => self.month = Some(within(12).filter(|month| *month > 0)?),
            Field::Day => self.day = Some(within(31).filter(|day| *day > 0)?),
            Field::Hour => self.hour = within(24)?,
            Field::Minute => self.minute = within(59)?,
            Field::Second => self.second = within(59)?,
            Field::Fraction => self.millis = format!("{digits:0<3}").get(..3)?.parse().ok()?,
        }
        Some(())
    }

    /// Java's smart rules: a day up to 31 moves back into its month, and 24:00:00 is the next midnight.
    fn local_ms(&self) -> Option<i64> {
        let (year, month, day) = (self.year?, self.month?, self.day?);
        let of_day = ((self.hour * 60 + self.minute) * 60 + self.second) * 1000 + self.millis;
        if self.hour == 24 && of_day != 86_400_000 {
            return None;
        }
        let next_month = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        let length = days_from_civil(next_month.0, next_month.1, 1) - days_from_civil(year, month, 1);
        Some(days_from_civil(year, month, day.min(length)) * 86_400_000 + of_day)
    }
}

fn letter(c: char, count: usize) -> Option<Item> {
    let one_or_two = |field| match count {
        1 => Some(Item::Number { field, min: 1, max: 19 }),
        2 => Some(Item::Number { field, min: 2, max: 2 }),
        _ => None,
    };
    match c {
        'y' | 'u' if count == 2 => Some(Item::Number { field: Field::ShortYear, min: 2, max: 2 }),
        'y' | 'u' => Some(Item::Number { field: Field::Year, min: count, max: 19 }),
        'M' => one_or_two(Field::Month),
        'd' => one_or_two(Field::Day),
        'H' => one_or_two(Field::Hour),
        'm' => one_or_two(Field::Minute),
        's' => one_or_two(Field::Second),
        'S' if count <= 9 => Some(Item::Number { field: Field::Fraction, min: count, max: count }),
        _ => None,
    }
}

fn push_literal(items: &mut Vec<Item>, c: char) {
    match items.last_mut() {
        Some(Item::Literal(text)) => text.push(c),
        _ => items.push(Item::Literal(c.to_string())),
    }
}

/// Reads a quoted text from behind its first quote; gives the place behind its last one.
fn quoted(chars: &[char], start: usize, items: &mut Vec<Item>) -> Option<usize> {
    if chars.get(start) == Some(&'\'') {
        push_literal(items, '\'');
        return Some(start + 1);
    }
    let mut at = start;
    loop {
        match (chars.get(at)?, chars.get(at + 1)) {
            ('\'', Some('\'')) => {
                push_literal(items, '\'');
                at += 2;
            }
            ('\'', _) => return Some(at + 1),
            (c, _) => {
                push_literal(items, *c);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 20_727 * 86_400_000;

    #[test]
    fn patterns_read_as_java_reads_them() {
        let cases = [
            ("yyyy-MM-dd", "2026-10-01", Some(DAY)),
            ("yyyy-MM-dd", "2026-10-1", None),
            ("yyyy-M-d", "2026-10-1", Some(DAY)),
            ("yyyyMMdd", "20261001", Some(DAY)),
            ("yyyyMMddHHmmss", "20261001010203", Some(DAY + 3_723_000)),
            ("yyMMdd", "261001", Some(DAY)),
            ("dd.MM.yyyy", "01.10.2026", Some(DAY)),
            ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-10-01T00:00:00.250", Some(DAY + 250)),
            ("yyyy-MM-dd HH", "2026-10-01 24", Some(DAY + 86_400_000)),
            ("yyyy-MM-dd", "2026-09-31", Some(DAY - 86_400_000)),
            ("yyyy-MM-dd", "2026-13-01", None),
            ("yyyy-MM-dd", "2026-10-01x", None),
            ("''yyyyMMdd", "'20261001", Some(DAY)),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Formatter::compile(pattern).expect("a pattern").parse(text), expected, "{pattern}: {text}");
        }
    }

    #[test]
    fn what_says_no_date_is_refused() {
        for pattern in ["", "yyyy-MM", "HH:mm", "yyyy-MMM-dd", "yyyy-MM-dd'T", "yyyy-MM-dd[ HH]", "yyyy-MM-ddX"] {
            assert!(Formatter::compile(pattern).is_err(), "{pattern}");
        }
    }
}
