//! The string functions over single values, without columns or types.
//!
//! Flink evaluates some functions on its UTF-8 rows (there a position counts characters) and others
//! on Java strings (there it counts UTF-16 units, and half of a surrogate pair becomes `?`). Each
//! function here says which by using [`utf16`] or not.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Text of UTF-16 units; a lone surrogate becomes `?`, as Java encodes it.
pub(super) fn from_utf16(units: &[u16]) -> String {
    char::decode_utf16(units.iter().copied()).map(|c| c.unwrap_or('?')).collect()
}

pub(super) fn utf16(s: &str) -> Vec<u16> {
    s.encode_utf16().collect()
}

/// Byte offset of character `n`, or the length if there are fewer.
fn offset(s: &str, n: usize) -> usize {
    if s.is_ascii() {
        return n.min(s.len());
    }
    s.char_indices().nth(n).map_or(s.len(), |(i, _)| i)
}

/// `CHAR_LENGTH`: characters.
pub(super) fn char_length(s: &str) -> i32 {
    s.chars().count() as i32
}

/// `SUBSTRING(s FROM position FOR length)`: from 1; 0 is as 1; a negative position counts from the
/// end. NULL if the length is negative.
pub(super) fn substring(s: &str, position: i32, length: i32) -> Option<Cow<'_, str>> {
    if length < 0 {
        return None;
    }
    let start = match position {
        1.. => position as usize - 1,
        0 => 0,
        _ => match (char_length(s) as i64) + i64::from(position) {
            before if before < 0 => return Some(Cow::Borrowed("")),
            start => start as usize,
        },
    };
    let rest = &s[offset(s, start)..];
    Some(Cow::Borrowed(&rest[..offset(rest, length as usize)]))
}

/// `LEFT(s, n)`.
pub(super) fn left(s: &str, n: i32) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(&s[..offset(s, n.max(0) as usize)]))
}

/// `RIGHT(s, n)`.
pub(super) fn right(s: &str, n: i32) -> Option<Cow<'_, str>> {
    let skip = char_length(s).saturating_sub(n.max(0)).max(0);
    Some(Cow::Borrowed(&s[offset(s, skip as usize)..]))
}

/// `LPAD` and `RPAD` count UTF-16 units. NULL if the length is negative or the pad is empty, even
/// where nothing has to be padded.
pub(super) fn pad(s: &str, length: i32, pad: &str, at_left: bool) -> Option<String> {
    if length < 0 || pad.is_empty() {
        return None;
    }
    let (text, pad) = (utf16(s), utf16(pad));
    let length = length as usize;
    let kept = &text[..text.len().min(length)];
    let filling = pad.iter().copied().cycle().take(length - kept.len());
    let mut units = Vec::with_capacity(length);
    if at_left {
        units.extend(filling);
        units.extend_from_slice(kept);
    } else {
        units.extend_from_slice(kept);
        units.extend(filling);
    }
    Some(from_utf16(&units))
}

/// `INITCAP`: ASCII letters only; anything else than an ASCII letter or digit breaks a word.
pub(super) fn initcap(s: &str, out: &mut String) {
    let mut at_start = true;
    for c in s.chars() {
        let part_of_word = c.is_ascii_alphanumeric();
        out.push(if at_start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
        at_start = !part_of_word;
    }
}

/// `TRIM`: takes characters of `chars` off either side.
pub(super) fn trim<'a>(s: &'a str, chars: &str, leading: bool, trailing: bool) -> &'a str {
    let listed = |c: char| chars.contains(c);
    let s = if leading { s.trim_start_matches(listed) } else { s };
    if trailing { s.trim_end_matches(listed) } else { s }
}

/// `OVERLAY(s PLACING r FROM start FOR length)`, by UTF-16 units. Out of range it is `s`; a length
/// that is not positive, or reaches the end, drops the rest.
pub(super) fn overlay(s: &str, replacement: &str, start: i32, length: Option<i32>) -> String {
    let text = utf16(s);
    let length = length.unwrap_or_else(|| replacement.encode_utf16().count() as i32);
    if start <= 0 || start as usize > text.len() {
        return s.to_string();
    }
    let start = start as usize;
    let mut result = from_utf16(&text[..start - 1]);
    result.push_str(replacement);
    if length > 0 && start + length as usize <= text.len() {
        result.push_str(&from_utf16(&text[start - 1 + length as usize..]));
    }
    result
}

/// `POSITION`, `LOCATE`: the first place of `sought` at or after character `from`, counted from 1;
/// 0 if there is none. An empty `sought` is at 1.
pub(super) fn position(sought: &str, s: &str, from: i32) -> i32 {
    if sought.is_empty() {
        return 1;
    }
    let skipped = offset(s, (i64::from(from) - 1).max(0) as usize);
    match s[skipped..].find(sought) {
        Some(at) => char_length(&s[..skipped + at]) + 1,
        None => 0,
    }
}

/// `INSTR(s, sought, start, nth)`; a negative start searches backwards from the end.
pub(super) fn instr(s: &str, sought: &str, start: i32, nth: i32) -> Result<i32, String> {
    if nth <= 0 {
        return Err("nthAppearance must be positive!".into());
    }
    if start == 0 {
        return Ok(0);
    }
    if start < 0 {
        let (backward, sought_backward) = (reverse(s), reverse(sought));
        let found = instr(&backward, &sought_backward, start.saturating_neg(), nth)?;
        return Ok(if found == 0 { 0 } else { char_length(s) + 2 - found - char_length(sought) });
    }
    let (mut from, mut found) = (start, 0);
    for _ in 0..nth {
        found = position(sought, s, from);
        if found == 0 {
            return Ok(0);
        }
        from = found + 1;
    }
    Ok(found)
}

/// `REVERSE`, by characters.
pub(super) fn reverse(s: &str) -> String {
    s.chars().rev().collect()
}

/// `ASCII`: the first byte of the UTF-8 form, signed; 0 for an empty string.
pub(super) fn ascii(s: &str) -> i32 {
    s.as_bytes().first().map_or(0, |b| i32::from(*b as i8))
}

/// `CHR`: the character of the low eight bits; empty for a negative number.
pub(super) fn chr(n: i64) -> String {
    if n < 0 { String::new() } else { char::from((n & 0xFF) as u8).to_string() }
}

/// `REPLACE` on UTF-16 units: an empty search text matches before, between and after them all.
pub(super) fn replace(s: &str, sought: &str, replacement: &str) -> String {
    if !sought.is_empty() || s.is_ascii() {
        return s.replace(sought, replacement);
    }
    let mut result = replacement.to_string();
    for unit in s.encode_utf16() {
        result.push_str(&from_utf16(&[unit]));
        result.push_str(replacement);
    }
    result
}

/// `TRANSLATE`: each character of `from` becomes the one at the same place in `to`, or nothing if
/// `to` is shorter; the first mention of a character counts.
pub(super) fn translate(s: &str, from: &str, to: &str, out: &mut String) {
    let to: Vec<char> = to.chars().collect();
    for c in s.chars() {
        match from.chars().position(|f| f == c) {
            Some(i) => out.extend(to.get(i)),
            None => out.push(c),
        }
    }
}

/// `IS_DIGIT`: not empty and only decimal digits of any script.
pub(super) fn is_digit(s: &str) -> bool {
    static DIGITS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").ok());
    let ascii = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    ascii || (!s.is_ascii() && DIGITS.as_ref().is_some_and(|digits| digits.is_match(s)))
}

/// `IS_ALPHA`: not empty and only letters.
pub(super) fn is_alpha(s: &str) -> bool {
    !s.is_empty() && s.chars().all(char::is_alphabetic)
}

/// `IS_DECIMAL`: what Java reads as an integer or a double (`1e5`, `1.`, `.5`, `1d`, ` 1 `, `NaN`).
pub(super) fn is_decimal(s: &str) -> bool {
    let trimmed = s.trim_matches(|c: char| c <= ' ');
    let number = trimmed.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(trimmed);
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    if matches!(trimmed.trim_start_matches(['+', '-']), "NaN" | "Infinity") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(i) => (&unsigned[..i], Some(&unsigned[i + 1..])),
        None => (unsigned, None),
    };
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_ok = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    mantissa_ok && exponent_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substring_counts_from_one_and_from_the_end() {
        let sub = |s, p, n| substring(s, p, n).map(Cow::into_owned);
        for (position, length, expected) in
            [(3, 4, "llow"), (0, 3, "Hol"), (-4, i32::MAX, "Reed"), (-4, 2, "Re"), (50, i32::MAX, ""), (-50, 3, "")]
        {
            assert_eq!(sub("Hollow Reed", position, length).as_deref(), Some(expected), "{position} {length}");
        }
        assert_eq!(sub("🙂🙃x", 2, i32::MAX).as_deref(), Some("🙃x"));
        assert_eq!(sub("Straße Ünïcode", -4, 2).as_deref(), Some("co"));
        assert_eq!(sub("hello", 2, -1), None);
        assert_eq!(left("hello", -1).as_deref(), Some(""));
        assert_eq!(right("  padded  ", 3).as_deref(), Some("d  "));
        assert_eq!(right("é", 9).as_deref(), Some("é"));
    }

    #[test]
    fn pads_count_utf16_units() {
        assert_eq!(pad("🙂🙃x", 4, "*", true).as_deref(), Some("🙂🙃"));
        assert_eq!(pad("🙂🙃x", 7, "ab", false).as_deref(), Some("🙂🙃xab"));
        assert_eq!(pad("a-b--c", 7, "ab", false).as_deref(), Some("a-b--ca"));
        assert_eq!(pad("", 4, "*", true).as_deref(), Some("****"));
        assert_eq!(pad("hello", 3, "", true), None);
        assert_eq!(pad("hello", -1, "x", true), None);
    }

    #[test]
    fn case_and_trim() {
        let initcap = |s| {
            let mut out = String::new();
            initcap(s, &mut out);
            out
        };
        assert_eq!(initcap("Straße Ünïcode"), "StraßE ÜNïCode");
        assert_eq!(initcap("100% sure_thing"), "100% Sure_Thing");
        assert_eq!(trim("abcab", "ab", true, true), "c");
        assert_eq!(trim("xxa ", "x", true, false), "a ");
        assert_eq!(trim("abc", "", true, true), "abc");
    }

    #[test]
    fn overlay_drops_the_rest_where_flink_does() {
        for (r, start, length, expected) in [
            ("XX", 2, None, "hXXlo"),
            ("XX", 2, Some(0), "hXX"),
            ("XX", 0, Some(1), "hello"),
            ("XX", 6, Some(1), "hello"),
            ("XXXX", 4, None, "helXXXX"),
            ("X", 5, Some(1), "hellX"),
            ("X", 4, Some(2), "helX"),
        ] {
            assert_eq!(overlay("hello", r, start, length), expected);
        }
    }

    #[test]
    fn positions() {
        assert_eq!(position("l", "hello", 4), 4);
        assert_eq!(position("l", "hello", -3), 3);
        assert_eq!(position("", "hello", 1), 1);
        assert_eq!(position("x", "hello", 30), 0);
        assert_eq!(instr("hello", "l", 1, 2), Ok(4));
        assert_eq!(instr("hello", "l", -1, 1), Ok(4));
        assert_eq!(instr("hello", "l", -1, 2), Ok(3));
        assert_eq!(instr("hello", "l", 0, 1), Ok(0));
        assert!(instr("hello", "l", 1, 0).is_err());
    }

    #[test]
    fn characters_and_bytes() {
        assert_eq!(ascii("🙂"), -16);
        assert_eq!(ascii(""), 0);
        assert_eq!((chr(233).as_str(), chr(-1).as_str(), chr(321).as_str()), ("é", "", "A"));
        assert_eq!(replace("aé🙂", "", "-"), "-a-é-?-?-");
        let translate = |s, f, t| {
            let mut out = String::new();
            translate(s, f, t, &mut out);
            out
        };
        assert_eq!(translate("a-b--c", "-x", "_"), "a_b__c");
        assert_eq!(translate("abc", "aab", "xyz"), "xzc");
    }

    #[test]
    fn decimals_as_java_reads_them() {
        for good in ["1", "-1.5", "1e5", ".5", "1.", "1d", " 1", "NaN"] {
            assert!(is_decimal(good), "{good}");
        }
        for bad in ["", "x", ".", "1e", "1 2", "--1"] {
            assert!(!is_decimal(bad), "{bad}");
        }
    }
}
