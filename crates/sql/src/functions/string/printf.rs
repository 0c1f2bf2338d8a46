//! `PRINTF`: the part of Java's `Formatter` that SQL values can meet.

use std::fmt::Write;

/// An argument of `PRINTF`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PrintfArg {
    Null,
    Boolean(bool),
    /// A whole number and its width in bits, for `%x` of a negative one.
    Int(i64, u32),
    Float(f32),
    Double(f64),
    /// Any other value in its text form, decimals too: Java cannot put Flink's into `%f`.
    Text(String),
}

/// One conversion such as `%-8.3s`.
#[derive(Default)]
struct Spec {
    index: Option<usize>,
    flags: String,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

impl Spec {
    fn flag(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

/// `format` with `args` put in, or `None` where Java would refuse the format or an argument.
pub(super) fn printf(format: &str, args: &[PrintfArg]) -> Option<String> {
    let (mut out, mut rest, mut next) = (String::new(), format, 0);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (spec, len) = parse_spec(&rest[at + 1..])?;
        rest = &rest[at + 1 + len..];
        let text = match spec.conversion {
            'n' => "\n".to_string(),
            '%' => padded(&spec, "%".to_string()),
            _ => {
                let index = spec.index.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                convert(&spec, args.get(index)?)?
            }
        };
        out.push_str(&text);
    }
    out.push_str(rest);
    Some(out)
}

fn parse_spec(text: &str) -> Option<(Spec, usize)> {
    let mut spec = Spec::default();
    let mut chars = text.char_indices().peekable();
    let digits = |chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>| {
        let mut number = String::new();
        while let Some((_, c)) = chars.next_if(|(_, c)| c.is_ascii_digit()) {
            number.push(c);
        }
        number
    };
    let first = if chars.peek()?.1 == '0' { String::new() } else { digits(&mut chars) };
    if chars.next_if(|(_, c)| *c == '$').is_some() {
        spec.index = Some(first.parse::<usize>().ok()?.checked_sub(1)?);
    } else if !first.is_empty() {
        spec.width = first.parse().ok()?;
    }
    if spec.width == 0 {
        while let Some((_, flag)) = chars.next_if(|(_, c)| "-#+ 0,(".contains(*c)) {
            spec.flags.push(flag);
        }
        spec.width = digits(&mut chars).parse().unwrap_or(0);
    }
    if chars.next_if(|(_, c)| *c == '.').is_some() {
        spec.precision = Some(digits(&mut chars).parse().ok()?);
    }
    let (at, conversion) = chars.next()?;
    spec.conversion = conversion;
    Some((spec, at + conversion.len_utf8()))
}

fn convert(spec: &Spec, arg: &PrintfArg) -> Option<String> {
    let upper = spec.conversion.is_ascii_uppercase();
    let text = match spec.conversion.to_ascii_lowercase() {
        's' => padded(spec, cut(spec, text_of(arg))),
        'b' => padded(spec, cut(spec, (!matches!(arg, PrintfArg::Null | PrintfArg::Boolean(false))).to_string())),
        _ if *arg == PrintfArg::Null => padded(spec, cut(spec, "null".to_string())),
        'c' => padded(spec, character(arg)?),
        'd' if !upper => number(spec, &whole(arg)?),
        'x' => number(spec, &format!("{:x}", bits(arg)?)),
        'o' if !upper => number(spec, &format!("{:o}", bits(arg)?)),
        'f' if !upper => number(spec, &fixed(arg, spec.precision.unwrap_or(6))?),
        'e' => number(spec, &scientific(arg, spec.precision.unwrap_or(6))?),
        'g' => number(spec, &general(arg, spec.precision.unwrap_or(6).max(1))?),
        _ => return None,
    };
    Some(if upper { text.to_uppercase() } else { text })
}

fn cut(spec: &Spec, text: String) -> String {
    match spec.precision {
        Some(n) => text.chars().take(n).collect(),
        None => text,
    }
}

fn padded(spec: &Spec, text: String) -> String {
    let missing = spec.width.saturating_sub(text.chars().count());
    let blanks = " ".repeat(missing);
    if spec.flag('-') { text + &blanks } else { blanks + &text }
}

fn number(spec: &Spec, digits: &str) -> String {
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let mut body = if spec.flag(',') { grouped(digits) } else { digits.to_string() };
    let (before, after) = match (negative, spec.flag('(')) {
        (true, true) => ("(", ")"),
        (true, false) => ("-", ""),
        _ if spec.flag('+') => ("+", ""),
        _ if spec.flag(' ') => (" ", ""),
        _ => ("", ""),
    };
    if spec.flag('0') {
        let missing = spec.width.saturating_sub(body.len() + before.len() + after.len());
        body = "0".repeat(missing) + &body;
    }
    padded(spec, format!("{before}{body}{after}"))
}

fn grouped(digits: &str) -> String {
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |i| digits.split_at(i));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out + fraction
}

fn text_of(arg: &PrintfArg) -> String {
    match arg {
        PrintfArg::Null => "null".into(),
        PrintfArg::Boolean(b) => b.to_string(),
        PrintfArg::Int(i, _) => i.to_string(),
        PrintfArg::Float(f) => tidegate_api::text::java_float(*f),
        PrintfArg::Double(d) => tidegate_api::text::java_double(*d),
        PrintfArg::Text(s) => s.clone(),
    }
}

fn character(arg: &PrintfArg) -> Option<String> {
    match arg {
        PrintfArg::Int(i, 8..=32) => char::from_u32(u32::try_from(*i).ok()?).map(String::from),
        _ => None,
    }
}

fn whole(arg: &PrintfArg) -> Option<String> {
    match arg {
        PrintfArg::Int(i, _) => Some(i.to_string()),
        _ => None,
    }
}

fn bits(arg: &PrintfArg) -> Option<u64> {
    match arg {
        PrintfArg::Int(i, 64) => Some(*i as u64),
        PrintfArg::Int(i, width) => Some(*i as u64 & ((1 << width) - 1)),
        _ => None,
    }
}

/// The shortest decimal form of a number, rounded half up to `precision` places as Java does.
fn fixed(arg: &PrintfArg, precision: usize) -> Option<String> {
    use bigdecimal::{BigDecimal, RoundingMode};
    let value = as_double(arg)?;
    if !value.is_finite() {
        return Some(tidegate_api::text::java_double(value));
    }
    let exact = match arg {
        PrintfArg::Float(f) => format!("{f}"),
        _ => format!("{value}"),
    };
    let exact: BigDecimal = exact.parse().ok()?;
    Some(exact.with_scale_round(precision as i64, RoundingMode::HalfUp).to_plain_string())
}

fn scientific(arg: &PrintfArg, precision: usize) -> Option<String> {
    let value = as_double(arg)?;
    if !value.is_finite() {
        return Some(tidegate_api::text::java_double(value));
    }
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let mut out = String::from(mantissa);
    write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).ok()?;
    Some(out)
}

fn general(arg: &PrintfArg, precision: usize) -> Option<String> {
    let value = as_double(arg)?;
    if value != 0.0 && !(1e-4..10f64.powi(precision as i32)).contains(&value.abs()) {
        return scientific(arg, precision - 1);
    }
    let exponent = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    fixed(arg, (precision as i32 - 1 - exponent).max(0) as usize)
}

fn as_double(arg: &PrintfArg) -> Option<f64> {
    match arg {
        PrintfArg::Float(f) => Some(f64::from(*f)),
        PrintfArg::Double(d) => Some(*d),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_follow_java() {
        let text = |s: &str| PrintfArg::Text(s.into());
        let int = |i| PrintfArg::Int(i, 32);
        for (format, args, expected) in [
            (
                "%s-%d-%5.2f|%x|%b|%%|",
                vec![text("a"), int(5), PrintfArg::Double(1.255), int(255), PrintfArg::Boolean(true)],
                Some("a-5- 1.26|ff|true|%|"),
            ),
            ("%s", vec![PrintfArg::Null], Some("null")),
            ("%d", vec![text("x")], None),
            ("%d %d", vec![int(1)], None),
            (
                "%5s|%-5s|%05d|%,d|%+d",
                vec![text("a"), text("b"), int(42), int(1_234_567), int(7)],
                Some("    a|b    |00042|1,234,567|+7"),
            ),
            ("%.3s|%S", vec![text("abcdef"), text("up")], Some("abc|UP")),
            ("%1$s %1$s %2$s", vec![text("a"), text("b")], Some("a a b")),
            ("%o %X", vec![int(8), int(-1)], Some("10 FFFFFFFF")),
            ("%e", vec![PrintfArg::Double(12345.678)], Some("1.234568e+04")),
            ("%f", vec![text("1.5")], None),
            ("100%", vec![], None),
        ] {
            assert_eq!(printf(format, &args).as_deref(), expected, "{format}");
        }
    }
}
