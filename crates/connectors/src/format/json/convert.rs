//! What a JSON value means in a column: Flink's lenient rules.
//!
//! The parser cuts a message into the raw text of each wanted value; here that text becomes a value of the
//! column's type. Numbers keep their digits (`12.50` into a `STRING` is `12.50`, into a `DECIMAL` is exact).
//! Where Flink is lenient so are we: `"2"` is the `INT` 2, `3.7` is 3, an object in a `STRING` is its JSON text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sonic_rs::{Deserializer, LazyValue, Read};
use tidegate_api::{Field, TypeKind};

use super::TimestampStandard;
use crate::column::{Column, Data};
use crate::format::text::{self, DateCache, Days, DecimalText};

/// A value that a column cannot hold.
#[derive(Debug)]
pub(super) struct FieldError {
    /// Names from the outermost column in.
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

impl FieldError {
    pub(super) fn new(message: impl Into<String>) -> FieldError {
        FieldError { path: Vec::new(), message: message.into() }
    }

    pub(super) fn within(mut self, name: &str) -> FieldError {
        self.path.insert(0, name.to_owned());
        self
    }
}

/// Puts raw JSON values into columns.
pub(super) struct Converter {
    pub(super) ignore_errors: bool,
    pub(super) fail_on_missing: bool,
    pub(super) standard: TimestampStandard,
    /// The table has a `DECIMAL`: Jackson then reads all fractions as decimals, which shows where a number within
    /// an object is turned into text.
    pub(super) exact_fractions: bool,
    pub(super) dates: DateCache,
    /// Fields that became NULL because of `ignore-parse-errors`, in the current row.
    pub(super) field_errors: u64,
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl Converter {
    /// Appends one value; under `ignore-parse-errors` one that does not fit becomes NULL.
    pub(super) fn push(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        if raw == "null" {
            column.push_null();
            return Ok(());
        }
        let before = column.len();
        match self.push_value(column, raw) {
            Err(_) if self.ignore_errors => {
                column.truncate(before);
                column.push_null();
                self.field_errors += 1;
                Ok(())
            }
            result => result,
        }
    }

    fn push_value(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        match column.ty().kind {
            TypeKind::Array(_) => return self.push_array(column, raw),
            TypeKind::Map(..) | TypeKind::Multiset(_) => return self.push_map(column, raw),
            TypeKind::Row(_) => return self.push_row(column, raw),
            TypeKind::Char(_) | TypeKind::Varchar(_) => return self.push_string(column, raw),
            TypeKind::Null => {
                column.push_null();
                return Ok(());
            }
            _ => {}
        }
        if raw.starts_with(['{', '[']) {
            return Err(FieldError::new(format!("{} is no {}", shorten(raw), column.ty())));
        }
        let fits = if raw.starts_with('"') {
            let text = unquote(raw)?;
            self.push_text(column, &text, true)?
        } else {
            self.push_text(column, raw, false)?
        };
        if fits { Ok(()) } else { Err(misfit(column, raw)) }
    }

    /// A scalar: the content of a string (`quoted`), a number's digits, `true` or `false`.
    fn push_text(&mut self, column: &mut Column, text: &str, quoted: bool) -> Result<bool, FieldError> {
        let fits = match column.ty().kind {
            TypeKind::Boolean => column.push_bool(text::trim(text).eq_ignore_ascii_case("true")),
            TypeKind::TinyInt | TypeKind::SmallInt => {
                text::integer(text::trim(text)).is_some_and(|v| column.push_i64(v))
            }
            TypeKind::Int | TypeKind::BigInt | TypeKind::IntervalYearMonth | TypeKind::IntervalDayTime => {
                integer(text, quoted).is_some_and(|v| column.push_i64(v))
            }
            TypeKind::Float => float(text).is_some_and(|v| column.push_f32(v)),
            TypeKind::Double => text::double(text).is_some_and(|v| column.push_f64(v)),
            TypeKind::Decimal(precision, scale) => match text::decimal(text::trim(text), precision, scale) {
                DecimalText::Fits(v) => column.push_i128(v),
                DecimalText::TooLarge => {
                    column.push_null();
                    true
                }
                DecimalText::Malformed => false,
            },
            TypeKind::Date => self.dates.days(text.as_bytes(), Days::Strict).is_some_and(|v| column.push_i64(v)),
            TypeKind::Time(_) => text::clock(text.as_bytes(), false)
                .is_some_and(|(s, nano)| column.push_i64(s * 1000 + i64::from(nano / 1_000_000))),
            TypeKind::Timestamp(_) => return self.push_timestamp(column, text),
            TypeKind::TimestampLtz(_) => {
                self.instant(text).is_some_and(|(seconds, nano)| column.push_timestamp(seconds, nano))
            }
            TypeKind::Binary(_) | TypeKind::Varbinary(_) => {
                let compact: Vec<u8> = text.bytes().filter(|b| *b > b' ').collect();
                quoted && BASE64.decode(compact).is_ok_and(|bytes| column.push_bytes(&bytes))
            }
            _ => false,
        };
        Ok(fits)
    }

    fn push_timestamp(&mut self, column: &mut Column, text: &str) -> Result<bool, FieldError> {
        if let Some((seconds, nano)) = self.wall_clock(text) {
            return Ok(column.push_timestamp(seconds, nano));
        }
        if text::split_offset(text).is_some_and(|(local, _)| self.wall_clock(local).is_some()) {
            return Err(FieldError::new(format!(
                "'{text}' has a time zone, which a {} does not keep; declare the column as TIMESTAMP_LTZ",
                column.ty()
            )));
        }
        Ok(false)
    }

    /// A `TIMESTAMP` in the configured standard, as seconds and nanoseconds.
    fn wall_clock(&mut self, text: &str) -> Option<(i64, u32)> {
        match self.standard {
            TimestampStandard::Sql => text::timestamp(text.as_bytes(), b' ', false, Days::Clamped, &mut self.dates),
            TimestampStandard::Iso8601 => text::timestamp(text.as_bytes(), b'T', true, Days::Strict, &mut self.dates),
        }
    }

    /// The usual spelling of a `TIMESTAMP`, with no fraction or milliseconds, right before a closing quote: seconds,
    /// nanoseconds and where the value ends. `None` for any other spelling, which [`Self::push`] judges.
    #[inline]
    pub(super) fn short_timestamp(&mut self, bytes: &[u8], at: usize) -> Option<(i64, u32, usize)> {
        let (separator, days) = match self.standard {
            TimestampStandard::Sql => (b' ', Days::Clamped),
            TimestampStandard::Iso8601 => (b'T', Days::Strict),
        };
        let text = bytes.get(at..)?.first_chunk::<20>()?;
        let date = self.dates.days(&text[..10], days)?;
        let second = text::clock_of(text[11..19].first_chunk::<8>()?)?;
        if text[10] != separator {
            return None;
        }
        match text[19] {
            b'"' => Some((date * 86_400 + second, 0, at + 20)),
            b'.' => {
                let digits = bytes.get(at + 20..)?.first_chunk::<4>()?;
                let value = |d: u8| Some(u32::from(d.wrapping_sub(b'0'))).filter(|d| *d <= 9);
                let millis = value(digits[0])? * 100 + value(digits[1])? * 10 + value(digits[2])?;
                (digits[3] == b'"').then_some((date * 86_400 + second, millis * 1_000_000, at + 24))
            }
            _ => None,
        }
    }

    /// A `TIMESTAMP_LTZ` in the configured standard.
    pub(super) fn instant(&mut self, text: &str) -> Option<(i64, u32)> {
        match self.standard {
            TimestampStandard::Sql => {
                let local = text.strip_suffix('Z')?;
                text::timestamp(local.as_bytes(), b' ', false, Days::Clamped, &mut self.dates)
            }
            TimestampStandard::Iso8601 => {
                let (local, east) = text::split_offset(text)?;
                let (seconds, nano) = text::timestamp(local.as_bytes(), b'T', true, Days::Clamped, &mut self.dates)?;
                Some((seconds - east, nano))
            }
        }
    }

    fn push_string(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        let fits = match raw.as_bytes().first() {
            Some(b'"') => column.push_bytes(unquote(raw)?.as_bytes()),
            Some(b'{' | b'[') => {
                let text = super::encode::normalize(raw, self.exact_fractions)
                    .map_err(|e| FieldError::new(first_line(&e.to_string())))?;
                column.push_bytes(text.as_bytes())
            }
            _ => column.push_bytes(raw.as_bytes()),
        };
        if fits { Ok(()) } else { Err(FieldError::new("the column of this batch would pass 2 GiB")) }
    }

    fn push_array(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        if !raw.starts_with('[') {
            return Err(misfit(column, raw));
        }
        let Data::List { items, .. } = &mut column.data else { return Err(misfit(column, raw)) };
        let mut failure = None;
        let visitor = ItemsVisitor { converter: self, items, failure: &mut failure };
        let result = Deserializer::from_str(raw).deserialize_seq(visitor);
        ended(result, failure)?;
        if column.push_nested() { Ok(()) } else { Err(misfit(column, raw)) }
    }

    fn push_map(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        if !raw.starts_with('{') {
            return Err(misfit(column, raw));
        }
        let Data::Map { keys, values, .. } = &mut column.data else { return Err(misfit(column, raw)) };
        let result = Deserializer::from_str(raw).deserialize_map(EntriesVisitor);
        let entries = ended(result, None)?;
        for (key, value) in entries {
            if !keys.push_bytes(key.as_bytes()) {
                return Err(FieldError::new("the column of this batch would pass 2 GiB"));
            }
            self.push(values, value.as_raw_str()).map_err(|e| e.within(&key))?;
        }
        if column.push_nested() { Ok(()) } else { Err(misfit(column, raw)) }
    }

    fn push_row(&mut self, column: &mut Column, raw: &str) -> Result<(), FieldError> {
        if !raw.starts_with('{') {
            return Err(misfit(column, raw));
        }
        let row = column.len();
        let Some((fields, columns)) = column.row_parts() else { return Err(misfit(column, raw)) };
        self.read_object(&mut Deserializer::from_str(raw), fields, columns, row)?;
        if column.push_nested() { Ok(()) } else { Err(misfit(column, raw)) }
    }

    /// Reads an object into row `row` of `columns`: wanted fields in any order, the last of a repeated one wins,
    /// others are skipped, missing ones are NULL.
    pub(super) fn read_object(
        &mut self,
        parser: &mut Deserializer<Read<'_>>,
        fields: &[Field],
        columns: &mut [Column],
        row: usize,
    ) -> Result<(), FieldError> {
        self.read_fields(parser, fields, columns, row)?;
        for (field, column) in fields.iter().zip(columns) {
            if column.len() > row {
                continue;
            }
            if self.fail_on_missing {
                return Err(FieldError::new("the field is missing in the JSON data").within(&field.name));
            }
            column.push_null();
        }
        Ok(())
    }

    /// Reads the fields an object has into row `row`, over what stands there.
    pub(super) fn read_fields(
        &mut self,
        parser: &mut Deserializer<Read<'_>>,
        fields: &[Field],
        columns: &mut [Column],
        row: usize,
    ) -> Result<(), FieldError> {
        let mut failure = None;
        let visitor = FieldsVisitor { converter: self, fields, columns, row, failure: &mut failure };
        let result = parser.deserialize_map(visitor);
        ended(result, failure)
    }
}

/// A field's own failure goes before the parser's words for it.
fn ended<T>(result: sonic_rs::Result<T>, failure: Option<FieldError>) -> Result<T, FieldError> {
    match failure {
        Some(failure) => Err(failure),
        None => result.map_err(|e| FieldError::new(first_line(&e.to_string()))),
    }
}

/// The parser's errors go on with a picture of the input, which the caller shows anyway.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn misfit(column: &Column, raw: &str) -> FieldError {
    FieldError::new(format!("{} is no {}", shorten(raw), column.ty()))
}

fn shorten(raw: &str) -> String {
    let mut shown: String = raw.chars().take(60).collect();
    if shown.len() < raw.len() {
        shown.push_str("...");
    }
    shown
}

/// The content of a JSON string.
pub(super) fn unquote(raw: &str) -> Result<Cow<'_, str>, FieldError> {
    let inner = raw.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(raw);
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    let text: String = sonic_rs::from_str(raw).map_err(|e| FieldError::new(first_line(&e.to_string())))?;
    Ok(Cow::Owned(text))
}

/// `INT` and `BIGINT`: unlike the content of strings, JSON numbers may have a fraction or exponent, which is cut.
fn integer(text: &str, quoted: bool) -> Option<i64> {
    if quoted {
        return text::integer(text::trim(text));
    }
    if !text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return text::integer(text);
    }
    let value: f64 = text.parse().ok()?;
    // The cast saturates; what it would change is out of range.
    (value > -9.3e18 && value < 9.223_372_036_854_776e18).then_some(value as i64)
}

fn float(text: &str) -> Option<f32> {
    // Straight from the digits: going through a double would round twice.
    match text.parse::<f32>() {
        Ok(v) if v.is_finite() && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => Some(v),
        _ => text::double(text).map(|v| v as f32),
    }
}

struct FieldsVisitor<'c> {
    converter: &'c mut Converter,
    fields: &'c [Field],
    columns: &'c mut [Column],
    row: usize,
    failure: &'c mut Option<FieldError>,
}

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut next = 0;
        while let Some(Key(key)) = map.next_key()? {
            let expected = self.fields.get(next).filter(|f| f.name == key).map(|_| next);
            let Some(i) = expected.or_else(|| self.fields.iter().position(|f| f.name == key)) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            next = i + 1;
            let value: LazyValue<'_> = map.next_value()?;
            let column = &mut self.columns[i];
            column.truncate(self.row);
            if let Err(failure) = self.converter.push(column, value.as_raw_str()) {
                *self.failure = Some(failure.within(&self.fields[i].name));
                return Err(A::Error::custom("a field does not fit"));
            }
        }
        Ok(())
    }
}

struct ItemsVisitor<'c> {
    converter: &'c mut Converter,
    items: &'c mut Column,
    failure: &'c mut Option<FieldError>,
}

impl<'de> Visitor<'de> for ItemsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element::<LazyValue<'_>>()? {
            if let Err(failure) = self.converter.push(self.items, value.as_raw_str()) {
                *self.failure = Some(failure);
                return Err(A::Error::custom("an element does not fit"));
            }
        }
        Ok(())
    }
}

/// The entries of the object a text consists of.
pub(super) fn entries(text: &str) -> Result<Vec<(Cow<'_, str>, LazyValue<'_>)>, FieldError> {
    let mut parser = Deserializer::from_str(text);
    let entries = ended(parser.deserialize_map(EntriesVisitor), None)?;
    ended(parser.end(), None)?;
    Ok(entries)
}

/// The elements of the array a text consists of.
pub(super) fn elements(text: &str) -> Result<Vec<LazyValue<'_>>, FieldError> {
    ended(sonic_rs::from_str(text), None)
}

/// The entries of an object; the last of a repeated key wins, in the place of the first.
struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Vec<(Cow<'de, str>, LazyValue<'de>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Self::Value = Vec::new();
        let mut places: HashMap<Cow<'de, str>, usize> = HashMap::new();
        while let Some(Key(key)) = map.next_key()? {
            let value = map.next_value()?;
            match places.get(&key) {
                Some(place) => entries[*place].1 = value,
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value));
                }
            }
        }
        Ok(entries)
    }
}

/// An object's key, borrowed unless it has escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(text.to_owned())))
    }
}
