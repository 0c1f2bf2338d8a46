//! The fast path: lines of one stream tend to repeat one key order, byte for byte.
//!
//! A *shape* is what stands between the values of a line (`{"user_id":`, `,"ts":`, ..., `}`), learned from a line
//! that the parser has read. A later line is compared with it piece by piece, and only the values are looked at.
//! Anything unexpected (an escape, a nested value, another order) gives the row up, and the parser decides.
//! So this path may refuse as it likes, but what it accepts must be what the parser would have given.

use tidegate_api::{Field, TypeKind};

use super::convert::Converter;
use crate::column::Column;

/// Shapes kept at the same time.
const SHAPES: usize = 4;
/// Fields a shape may have.
const SHAPE_FIELDS: usize = 256;
/// Rows after which hits and misses are weighed.
const WINDOW: u32 = 512;
/// Rows without speculation after a window that mostly missed.
const PAUSE: u32 = 16_384;

/// Bytes that a line is expected to have at some place. Up to sixteen are compared as two words: the
/// pieces between values are short, and a call of `memcmp` for each of them costs more than the compare.
struct Piece {
    bytes: Box<[u8]>,
    words: [u64; 2],
    masks: [u64; 2],
}

impl Piece {
    fn new(bytes: &[u8]) -> Piece {
        let word = |from: usize| {
            let mut word = [0u8; 8];
            let mut mask = [0u8; 8];
            for (i, byte) in bytes.iter().skip(from).take(8).enumerate() {
                (word[i], mask[i]) = (*byte, 0xff);
            }
            (u64::from_le_bytes(word), u64::from_le_bytes(mask))
        };
        let (low, high) = (word(0), word(8));
        Piece { bytes: bytes.into(), words: [low.0, high.0], masks: [low.1, high.1] }
    }

    /// Whether `line` has these bytes at `at`.
    #[inline(always)]
    fn is_at(&self, line: &[u8], at: usize) -> bool {
        let Some(rest) = line.get(at..) else { return false };
        let Some(first) = rest.first_chunk::<16>() else { return rest.starts_with(&self.bytes) };
        let both = u128::from_le_bytes(*first);
        let differs =
            ((both as u64) ^ self.words[0]) & self.masks[0] | (((both >> 64) as u64) ^ self.words[1]) & self.masks[1];
        differs == 0 && (self.bytes.len() <= 16 || rest.starts_with(&self.bytes))
    }
}

/// What stands before one value.
struct Part {
    before: Piece,
    /// The column that takes the value; `None` skips it.
    column: Option<usize>,
}

struct Shape {
    parts: Vec<Part>,
    after: Box<[u8]>,
}

/// The shapes of one stream.
#[derive(Default)]
pub(super) struct Shapes {
    shapes: Vec<Shape>,
    /// The shape that fitted last.
    last: usize,
    /// The shape that the next new one replaces.
    oldest: usize,
    hits: u32,
    misses: u32,
    /// Rows to go without speculation.
    pause: u32,
}

impl Shapes {
    /// Never speculates.
    #[cfg(test)]
    pub(super) fn off() -> Shapes {
        Shapes { pause: u32::MAX, ..Shapes::default() }
    }

    /// Lines read and given up in this window.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.hits, self.misses)
    }

    /// Reads a line into row `row`. False: not read; the columns may hold parts of it.
    #[inline]
    pub(super) fn try_row(
        &mut self,
        line: &str,
        columns: &mut [Column],
        row: usize,
        converter: &mut Converter,
        fields: &[Field],
    ) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        for turn in 0..self.shapes.len() {
            let i = (self.last + turn) % self.shapes.len();
            if self.shapes[i].read(line, columns, converter) && fill_missing(columns, row, converter, fields) {
                self.last = i;
                self.hits += 1;
                self.weigh();
                return true;
            }
            columns.iter_mut().for_each(|c| c.truncate(row));
            converter.field_errors = 0;
        }
        self.misses += 1;
        self.weigh();
        false
    }

    fn weigh(&mut self) {
        if self.hits + self.misses >= WINDOW {
            if self.misses > self.hits {
                self.pause = PAUSE;
            }
            (self.hits, self.misses) = (0, 0);
        }
    }

    /// Learns the shape of a line that the parser has accepted.
    pub(super) fn learn(&mut self, line: &str, fields: &[Field]) {
        if self.pause > 0 {
            return;
        }
        let Some(shape) = Shape::of(line, fields) else { return };
        let known = self.shapes.iter().any(|s| s.is_same(&shape));
        if known {
            return;
        }
        if self.shapes.len() < SHAPES {
            self.last = self.shapes.len();
            self.shapes.push(shape);
        } else {
            self.shapes[self.oldest] = shape;
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % SHAPES;
        }
    }
}

/// Columns the shape does not have are NULL, or the row is given up if a field may not be missing.
#[inline]
fn fill_missing(columns: &mut [Column], row: usize, converter: &Converter, fields: &[Field]) -> bool {
    debug_assert_eq!(columns.len(), fields.len());
    for column in columns {
        if column.len() == row {
            if converter.fail_on_missing {
                return false;
            }
            column.push_null();
        }
    }
    true
}

impl Shape {
    fn is_same(&self, other: &Shape) -> bool {
        self.after == other.after
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(a, b)| a.before.bytes == b.before.bytes)
    }

    /// The shape of a line; `None` for one that could never be read fast, or whose keys repeat.
    fn of(line: &str, fields: &[Field]) -> Option<Shape> {
        let bytes = line.as_bytes();
        let mut parts: Vec<Part> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut end = 0;
        let mut at = skip_space(bytes, 0);
        if bytes.get(at) != Some(&b'{') {
            return None;
        }
        loop {
            // At `{` or `,`.
            let quote = skip_space(bytes, at + 1);
            if bytes.get(quote) != Some(&b'"') {
                return None;
            }
            let key_end = plain_string_end(bytes, quote + 1)?;
            let name = &line[quote + 1..key_end];
            let colon = skip_space(bytes, key_end + 1);
            if bytes.get(colon) != Some(&b':') || names.contains(&name) || parts.len() == SHAPE_FIELDS {
                return None;
            }
            let start = skip_space(bytes, colon + 1);
            names.push(name);
            parts.push(Part {
                before: Piece::new(&bytes[end..start]),
                column: fields.iter().position(|f| f.name == name),
            });
            end = value_end(bytes, start)?;
            at = skip_space(bytes, end);
            match bytes.get(at) {
                Some(b',') => {}
                Some(b'}') => return Some(Shape { parts, after: bytes[end..].into() }),
                _ => return None,
            }
        }
    }

    #[inline]
    fn read(&self, line: &str, columns: &mut [Column], converter: &mut Converter) -> bool {
        let bytes = line.as_bytes();
        let mut at = 0;
        for part in &self.parts {
            if !part.before.is_at(bytes, at) {
                return false;
            }
            at += part.before.bytes.len();
            let end = match part.column {
                None => value_end(bytes, at),
                Some(i) => read_value(&mut columns[i], line, at, converter),
            };
            match end {
                Some(end) => at = end,
                None => return false,
            }
        }
        bytes.get(at..) == Some(&*self.after)
    }
}

/// Reads the value at `at` and says where it ends.
#[inline]
fn read_value(column: &mut Column, line: &str, at: usize, converter: &mut Converter) -> Option<usize> {
    let bytes = line.as_bytes();
    let quoted = bytes.get(at) == Some(&b'"');
    match column.ty().kind {
        TypeKind::Varchar(_) | TypeKind::Char(_) if quoted => {
            let end = plain_string_end(bytes, at + 1)?;
            return column.push_bytes(&bytes[at + 1..end]).then_some(end + 1);
        }
        TypeKind::Int | TypeKind::BigInt if !quoted => {
            if let Some((value, end)) = short_integer(bytes, at) {
                return column.push_i64(value).then_some(end);
            }
        }
        TypeKind::Double if !quoted => {
            if let Some((value, end)) = short_decimal(bytes, at) {
                return column.push_f64(value).then_some(end);
            }
        }
        TypeKind::Timestamp(_) if quoted => {
            if let Some((seconds, nano, end)) = converter.short_timestamp(bytes, at + 1) {
                return column.push_timestamp(seconds, nano).then_some(end);
            }
        }
        _ => {}
    }
    let end = value_end(bytes, at)?;
    converter.push(column, &line[at..end]).ok()?;
    Some(end)
}

/// An integer of up to 18 digits that is nothing longer.
#[inline]
fn short_integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let (value, end) = digits(bytes, start, 0);
    let count = end - start;
    if count == 0 || count > 18 || (count > 1 && bytes[start] == b'0') || continues(bytes, end) {
        return None;
    }
    let value = value as i64;
    Some((if negative { -value } else { value }, end))
}

/// A decimal whose digits stay below 2^53 and whose power of ten is exact: their quotient is then correctly rounded.
#[inline]
fn short_decimal(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    const POWERS: [f64; 17] =
        [1., 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let (mut mantissa, mut end) = digits(bytes, start, 0);
    if end == start || (end - start > 1 && bytes[start] == b'0') {
        return None;
    }
    let mut places = 0;
    if bytes.get(end) == Some(&b'.') {
        let from = end + 1;
        (mantissa, end) = digits(bytes, from, mantissa);
        places = end - from;
        if places == 0 {
            return None;
        }
    }
    if end - start > 16 || mantissa > 1 << 53 || continues(bytes, end) {
        return None;
    }
    let value = mantissa as f64 / POWERS[places];
    Some((if negative { -value } else { value }, end))
}

#[inline(always)]
fn digits(bytes: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// A number that goes on after its digits is not read here.
#[inline(always)]
fn continues(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), Some(b'.' | b'e' | b'E'))
}

/// Where a scalar ends; `None` for escapes, nested values and what is no JSON.
#[inline]
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => plain_string_end(bytes, at + 1).map(|end| end + 1),
        b't' if bytes[at..].starts_with(b"true") => Some(at + 4),
        b'f' if bytes[at..].starts_with(b"false") => Some(at + 5),
        b'n' if bytes[at..].starts_with(b"null") => Some(at + 4),
        _ => number_end(bytes, at),
    }
}

/// Where a JSON number ends.
fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let (_, mut end) = digits(bytes, start, 0);
    if end == start || (end - start > 1 && bytes[start] == b'0') {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        let (_, after) = digits(bytes, end + 1, 0);
        if after == end + 1 {
            return None;
        }
        end = after;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let (_, after) = digits(bytes, end + 1 + sign, 0);
        if after == end + 1 + sign {
            return None;
        }
        end = after;
    }
    Some(end)
}

/// Where a string without escapes and control characters ends (its closing quote), eight bytes at a time.
#[inline]
fn plain_string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // A byte of `x` that is zero sets its high bit here (higher ones may be wrong, the first never is).
    let zero_bytes = |x: u64| x.wrapping_sub(ONES) & !x;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let quotes = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let escapes = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (quotes | escapes | controls) & HIGHS;
        if found != 0 {
            at += (found.trailing_zeros() / 8) as usize;
            return (bytes[at] == b'"').then_some(at);
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(at),
            b'\\' | 0..=0x1f => return None,
            _ => at += 1,
        }
    }
    None
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}
