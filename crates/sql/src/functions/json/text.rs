//! JSON text: reading it as leniently as Jackson does, writing it as Flink's mapper does.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

/// Reads the first JSON value of `text`; what follows it is not looked at.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Value::deserialize(&mut reader).map_err(|e| format!("not valid JSON: {e}"))
}

/// Writes `value` without blanks, the fields of every object sorted by name.
pub(super) fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => write_number(&n.to_string(), out),
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, (name, item)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

/// Writes `text` in double quotes with Jackson's escapes.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// True for a number that Java reads as an integer type.
pub(super) fn is_whole(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
}

/// Writes the text of a JSON number as Java's `Long` or `BigDecimal` prints it: `1.50`, `1E+3`.
pub(super) fn write_number(number: &str, out: &mut String) {
    if is_whole(number) {
        return out.push_str(if number == "-0" { "0" } else { number });
    }
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(i) => (&unsigned[..i], unsigned[i + 1..].parse::<i64>().unwrap_or(0)),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let trimmed = all.trim_start_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    let sign = if trimmed.is_empty() { "" } else { sign };
    let scale = fraction.len() as i64 - exponent;
    let adjusted = digits.len() as i64 - 1 - scale;
    out.push_str(sign);
    if scale == 0 {
        out.push_str(digits);
    } else if scale > 0 && adjusted >= -6 {
        let padded = format!("{digits:0>width$}", width = scale as usize + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
        let _ = write!(out, "{whole}.{fraction}");
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let _ = write!(out, "{first}{point}{rest}E{adjusted:+}");
    }
}

/// `JSON_QUOTE`: escapes everything that is not printable ASCII, and `/`. A character outside the
/// basic plane comes out as Flink writes it, its code point and then its second surrogate.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '/' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                let _ = write!(out, "\\u{:04x}", c as u32);
                let mut units = [0; 2];
                if let [_, second] = c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{second:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// `JSON_UNQUOTE`: takes off the quotes and resolves escapes; text that is not quoted, or has a bad
/// escape, stays as it is.
pub(super) fn unquote(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.and_then(unescape).unwrap_or_else(|| text.to_string())
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = if c != '\\' {
            c
        } else {
            match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\u{8}',
                'f' => '\u{c}',
                c @ ('"' | '\\' | '/') => c,
                'u' => {
                    let hex: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 4)?);
                    continue;
                }
                _ => return None,
            }
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}
