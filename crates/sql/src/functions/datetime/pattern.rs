//! Java's date patterns, compiled once: `yyyy-MM-dd HH:mm:ss.SSS`.
//!
//! Flink uses both of Java's dialects. `DateTimeFormatter` (`DATE_FORMAT` and `TO_TIMESTAMP` of
//! timestamps) is strict and exact to the nanosecond. `SimpleDateFormat` (`FROM_UNIXTIME`,
//! `UNIX_TIMESTAMP`, `TO_DATE` with a pattern, `CONVERT_TZ`, `DATE_FORMAT` of a string) is lenient,
//! knows milliseconds only and means something else by `u` and `S`.

/// Which of Java's two formatters reads the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `java.time.format.DateTimeFormatter`, locale en-US.
    Formatter,
    /// `java.text.SimpleDateFormat`, locale en-US.
    Simple,
}

/// One part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Text that stands for itself.
    Literal(String),
    /// A field written as a number.
    Number(Number),
    /// A field written as a name.
    Text(Field, Style),
    /// `S` of the formatter: this many digits of a second.
    Fraction(usize),
    /// `X`, `x`, `Z`: an offset.
    Offset(OffsetStyle),
    /// `z`, `VV`: a zone.
    Zone(bool),
    /// `[`...`]`: parsed if it is there.
    Optional(Vec<Item>),
}

/// A numeric field with Java's rules of width and sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub field: Field,
    /// Least digits, zero-padded.
    pub min: usize,
    /// Most digits.
    pub max: usize,
    pub sign: Sign,
    /// The number is followed directly by fixed-width ones of this many digits.
    pub reserved: usize,
    /// Fixed width, because of its neighbours.
    pub fixed: bool,
}

/// Java's sign styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Normal,
    NotNegative,
    ExceedsPad,
}

/// What a letter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Field {
    Era,
    Year,
    YearOfEra,
    /// Two digits of a year.
    ShortYear,
    WeekYear,
    ShortWeekYear,
    Quarter,
    Month,
    WeekOfYear,
    WeekOfMonth,
    DayOfYear,
    Day,
    /// `F` (Simple): the how manieth of its weekday a day is in the month.
    DayOfWeekInMonth,
    /// `F` (Formatter): the place in weeks that start on the first of the month.
    AlignedDayOfWeek,
    /// From Sunday = 1.
    LocalDayOfWeek,
    /// From Monday = 1.
    IsoDayOfWeek,
    AmPm,
    /// 0 to 23.
    Hour,
    /// 1 to 24.
    ClockHour,
    /// 0 to 11.
    HourOfAmPm,
    /// 1 to 12.
    ClockHourOfAmPm,
    Minute,
    Second,
    /// `S` of `SimpleDateFormat`: a number of milliseconds.
    Milli,
    MilliOfDay,
    Nano,
    NanoOfDay,
}

/// How long a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Short,
    Full,
    Narrow,
}

/// How an offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffsetStyle {
    /// `X`: `Z`, `+01`, `+0130`; `colon` for `XXX`; `minutes` says whether they always come.
    Iso { zulu: bool, colon: bool, minutes: Minutes },
    /// `Z`: `+0100`.
    Rfc822,
}

/// Whether an offset has minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Minutes {
    /// Never (`X` of `SimpleDateFormat`).
    Never,
    /// If they are not zero.
    IfAny,
    /// Always.
    Always,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub dialect: Dialect,
    pub items: Vec<Item>,
}

impl Pattern {
    /// Compiles `text`; the error is Java's sentence.
    pub(super) fn compile(text: &str, dialect: Dialect) -> Result<Pattern, String> {
        let mut stack: Vec<Vec<Item>> = vec![Vec::new()];
        let chars: Vec<char> = text.chars().collect();
        let mut i = 0;
        while i < chars.len() {
            let c = chars[i];
            let items = stack.last_mut().ok_or("Pattern invalid")?;
            if c.is_ascii_alphabetic() {
                let count = chars[i..].iter().take_while(|x| **x == c).count();
                items.push(letter(c, count, dialect)?);
                i += count;
                continue;
            }
            match c {
                '\'' => i = quoted(&chars, i, items, text, dialect)?,
                '[' if dialect == Dialect::Formatter => stack.push(Vec::new()),
                ']' if dialect == Dialect::Formatter => close_optional(&mut stack)?,
                '{' | '}' | '#' if dialect == Dialect::Formatter => {
                    return Err(format!("Pattern includes reserved character: '{c}'"));
                }
                _ => push_literal(items, c),
            }
            i += 1;
        }
        while stack.len() > 1 {
            close_optional(&mut stack)?;
        }
        let mut items = stack.pop().unwrap_or_default();
        link_adjacent(&mut items);
        Ok(Pattern { dialect, items })
    }

    /// The most digits of a second any `S` of the pattern has.
    pub(super) fn fraction_digits(&self) -> usize {
        fn most(items: &[Item]) -> usize {
            let digits = |item: &Item| match item {
                Item::Fraction(n) => *n,
                Item::Optional(inner) => most(inner),
                _ => 0,
            };
            items.iter().map(digits).max().unwrap_or(0)
        }
        most(&self.items)
    }
}

fn push_literal(items: &mut Vec<Item>, c: char) {
    match items.last_mut() {
        Some(Item::Literal(text)) => text.push(c),
        _ => items.push(Item::Literal(c.to_string())),
    }
}

/// Reads a quoted text that opens at `start`; gives the index of its last quote.
fn quoted(chars: &[char], start: usize, items: &mut Vec<Item>, text: &str, dialect: Dialect) -> Result<usize, String> {
    if chars.get(start + 1) == Some(&'\'') {
        push_literal(items, '\'');
        return Ok(start + 1);
    }
    let mut i = start + 1;
    loop {
        match (chars.get(i), chars.get(i + 1)) {
            (Some('\''), Some('\'')) => {
                push_literal(items, '\'');
                i += 2;
            }
            (Some('\''), _) => return Ok(i),
            (Some(c), _) => {
                push_literal(items, *c);
                i += 1;
            }
            (None, _) if dialect == Dialect::Simple => return Err("Unterminated quote".into()),
            (None, _) => return Err(format!("Pattern ends with an incomplete string literal: {text}")),
        }
    }
}

fn close_optional(stack: &mut Vec<Vec<Item>>) -> Result<(), String> {
    let mut inner = stack.pop().unwrap_or_default();
    link_adjacent(&mut inner);
    match stack.last_mut() {
        Some(outer) => {
            outer.push(Item::Optional(inner));
            Ok(())
        }
        None => Err("Pattern invalid as it contains ] without previous [".into()),
    }
}

/// Numbers that touch share their digits: the first, of variable width, leaves the following
/// fixed-width ones enough (`yyyyMMdd`).
fn link_adjacent(items: &mut [Item]) {
    let mut active: Option<usize> = None;
    for i in 0..items.len() {
        let width = match &items[i] {
            Item::Number(n) if n.min == n.max && n.sign == Sign::NotNegative => Some(n.max),
            Item::Number(_) => None,
            Item::Fraction(n) => Some(*n),
            _ => {
                active = None;
                continue;
            }
        };
        match (active, width) {
            (Some(base), Some(width)) => {
                if let Item::Number(n) = &mut items[base] {
                    n.reserved += width;
                }
                if let Item::Number(n) = &mut items[i] {
                    n.fixed = true;
                }
            }
            (base, _) => {
                if let Some(Item::Number(n)) = base.map(|b| &mut items[b]) {
                    n.fixed = true;
                }
                active = Some(i);
            }
        }
    }
}

fn letter(c: char, count: usize, dialect: Dialect) -> Result<Item, String> {
    match dialect {
        Dialect::Formatter => formatter_letter(c, count),
        Dialect::Simple => simple_letter(c, count),
    }
}

fn number(field: Field, min: usize, max: usize, sign: Sign) -> Item {
    Item::Number(Number { field, min, max, sign, reserved: 0, fixed: false })
}

fn too_many(c: char) -> String {
    format!("Too many pattern letters: {c}")
}

/// Text of 1 to 3 letters short, 4 full, 5 narrow.
fn text(field: Field, c: char, count: usize) -> Result<Item, String> {
    match count {
        1..=3 => Ok(Item::Text(field, Style::Short)),
        4 => Ok(Item::Text(field, Style::Full)),
        5 => Ok(Item::Text(field, Style::Narrow)),
        _ => Err(too_many(c)),
    }
}

fn year(field: Field, short: Field, count: usize) -> Item {
    match count {
        2 => number(short, 2, 2, Sign::NotNegative),
        1 => number(field, 1, 19, Sign::Normal),
        3 => number(field, 3, 19, Sign::Normal),
        n => number(field, n, 19, Sign::ExceedsPad),
    }
}

fn formatter_letter(c: char, count: usize) -> Result<Item, String> {
    let one_or_two = |field| match count {
        1 => Ok(number(field, 1, 19, Sign::Normal)),
        2 => Ok(number(field, 2, 2, Sign::NotNegative)),
        _ => Err(too_many(c)),
    };
    let number_or_text = |field| match count {
        1 | 2 => one_or_two(field),
        _ => text(field, c, count),
    };
    match c {
        'G' => text(Field::Era, c, count),
        'u' => Ok(year(Field::Year, Field::ShortYear, count)),
        'y' => Ok(year(Field::YearOfEra, Field::ShortYear, count)),
        'Y' => Ok(year(Field::WeekYear, Field::ShortWeekYear, count)),
        'Q' | 'q' => number_or_text(Field::Quarter),
        'M' | 'L' => number_or_text(Field::Month),
        'w' => one_or_two(Field::WeekOfYear),
        'W' | 'F' if count > 1 => Err(too_many(c)),
        'W' => Ok(number(Field::WeekOfMonth, 1, 1, Sign::NotNegative)),
        'F' => Ok(number(Field::AlignedDayOfWeek, 1, 19, Sign::Normal)),
        'D' if count > 3 => Err(too_many(c)),
        'D' if count == 1 => Ok(number(Field::DayOfYear, 1, 19, Sign::Normal)),
        'D' => Ok(number(Field::DayOfYear, count, 3, Sign::NotNegative)),
        'd' => one_or_two(Field::Day),
        'E' => text(Field::IsoDayOfWeek, c, count),
        'e' => number_or_text(Field::LocalDayOfWeek),
        'c' if count == 2 => Err("Invalid pattern \"cc\"".into()),
        'c' => number_or_text(Field::LocalDayOfWeek),
        'a' if count > 1 => Err(too_many(c)),
        'a' => Ok(Item::Text(Field::AmPm, Style::Short)),
        'H' => one_or_two(Field::Hour),
        'k' => one_or_two(Field::ClockHour),
        'K' => one_or_two(Field::HourOfAmPm),
        'h' => one_or_two(Field::ClockHourOfAmPm),
        'm' => one_or_two(Field::Minute),
        's' => one_or_two(Field::Second),
        'S' if count > 9 => Err(format!("Minimum width must be from 0 to 9 inclusive but was {count}")),
        'S' => Ok(Item::Fraction(count)),
        'A' => Ok(number(Field::MilliOfDay, count, 19, Sign::NotNegative)),
        'n' => Ok(number(Field::Nano, count, 19, Sign::NotNegative)),
        'N' => Ok(number(Field::NanoOfDay, count, 19, Sign::NotNegative)),
        'X' | 'x' if count <= 3 => Ok(iso_offset(c == 'X', count)),
        'Z' if count <= 3 => Ok(Item::Offset(OffsetStyle::Rfc822)),
        'z' if count <= 3 => Ok(Item::Zone(false)),
        'V' if count == 2 => Ok(Item::Zone(true)),
        'B' | 'O' | 'p' | 'v' | 'V' | 'x' | 'X' | 'z' | 'Z' | 'g' => {
            Err(format!("Pattern letters '{}' are not supported", c.to_string().repeat(count)))
        }
        _ => Err(format!("Unknown pattern letter: {c}")),
    }
}

fn iso_offset(zulu: bool, count: usize) -> Item {
    let minutes = if count == 1 { Minutes::IfAny } else { Minutes::Always };
    Item::Offset(OffsetStyle::Iso { zulu, colon: count == 3, minutes })
}

fn simple_letter(c: char, count: usize) -> Result<Item, String> {
    let numeric = |field| Ok(number(field, count, 19, Sign::Normal));
    let named = |field| Ok(Item::Text(field, if count >= 4 { Style::Full } else { Style::Short }));
    match c {
        'G' => Ok(Item::Text(Field::Era, Style::Short)),
        'y' if count == 2 => numeric(Field::ShortYear),
        'y' => numeric(Field::YearOfEra),
        'Y' if count == 2 => numeric(Field::ShortWeekYear),
        'Y' => numeric(Field::WeekYear),
        'M' | 'L' if count >= 3 => named(Field::Month),
        'M' | 'L' => numeric(Field::Month),
        'w' => numeric(Field::WeekOfYear),
        'W' => numeric(Field::WeekOfMonth),
        'D' => numeric(Field::DayOfYear),
        'd' => numeric(Field::Day),
        'F' => numeric(Field::DayOfWeekInMonth),
        'E' => named(Field::IsoDayOfWeek),
        'u' => numeric(Field::IsoDayOfWeek),
        'a' => Ok(Item::Text(Field::AmPm, Style::Short)),
        'H' => numeric(Field::Hour),
        'k' => numeric(Field::ClockHour),
        'K' => numeric(Field::HourOfAmPm),
        'h' => numeric(Field::ClockHourOfAmPm),
        'm' => numeric(Field::Minute),
        's' => numeric(Field::Second),
        'S' => numeric(Field::Milli),
        'z' => Ok(Item::Zone(false)),
        'Z' => Ok(Item::Offset(OffsetStyle::Rfc822)),
        'X' if count > 3 => Err("invalid ISO 8601 format: length=".to_string() + &count.to_string()),
        'X' => {
            let minutes = if count == 1 { Minutes::Never } else { Minutes::Always };
            Ok(Item::Offset(OffsetStyle::Iso { zulu: true, colon: count == 3, minutes }))
        }
        _ => Err(format!("Illegal pattern character '{c}'")),
    }
}
