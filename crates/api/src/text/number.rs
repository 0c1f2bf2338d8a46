//! Numbers as Java writes them.

/// `Double.toString`: `1.5`, `1.0E10`, `1.0E-5`, `NaN`, `-Infinity`; the shortest digits that read
/// back to the same value, but for large whole numbers (see `whole_digits` below).
pub fn java_double(v: f64) -> String {
    let scientific = whole_digits(v.abs(), 53).unwrap_or_else(|| format!("{v:e}"));
    java_float_digits(v.is_nan(), v.is_infinite(), v.is_sign_negative(), v == 0.0, &scientific)
}

/// `Float.toString`.
pub fn java_float(v: f32) -> String {
    let scientific = whole_digits(f64::from(v.abs()), 24).unwrap_or_else(|| format!("{v:e}"));
    java_float_digits(v.is_nan(), v.is_infinite(), v.is_sign_negative(), v == 0.0, &scientific)
}

/// Java before 19, which Flink's answers come from, writes a whole number that fits a `long` by its
/// exact digits, less those that lie two bits below its precision: the float 123456792 reads
/// `1.23456792E8` although `1.2345679E8` would do. `None` where the shortest digits are right.
fn whole_digits(v: f64, significant_bits: i32) -> Option<String> {
    if v.fract() != 0.0 || !(16_777_216.0..9_223_372_036_854_775_808.0).contains(&v) {
        return None;
    }
    let mut whole = v as u64;
    let excess = 63 - whole.leading_zeros() as i32 - significant_bits - 1;
    let dropped = if excess > 1 { (f64::from(excess) * std::f64::consts::LOG10_2) as u32 } else { 0 };
    let unit = 10u64.pow(dropped);
    whole = whole / unit + u64::from(dropped > 0 && whole % unit >= unit / 2);
    let digits = whole.to_string();
    let exponent = digits.len() as u32 - 1 + dropped;
    let digits = digits.trim_end_matches('0');
    let (first, rest) = digits.split_at(1);
    Some(format!("{first}.{rest}e{exponent}"))
}

fn java_float_digits(nan: bool, infinite: bool, negative: bool, zero: bool, scientific: &str) -> String {
    let sign = if negative { "-" } else { "" };
    if nan {
        return "NaN".into();
    }
    if infinite {
        return format!("{sign}Infinity");
    }
    if zero {
        return format!("{sign}0.0");
    }
    let (mantissa, exponent) = scientific.trim_start_matches('-').split_once('e').unwrap_or(("0", "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    // Java switches to scientific form outside 10^-3 <= |v| < 10^7.
    if (-3..7).contains(&exponent) {
        return format!("{sign}{}", plain(&digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    format!("{sign}{first}.{rest}E{exponent}")
}

fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

/// A decimal with all digits of its scale: `1.5000`, `-0.05`.
pub fn decimal_to_string(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs().to_string();
    let scale = scale as usize;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = if digits.len() <= scale { format!("{digits:0>width$}", width = scale + 1) } else { digits };
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// `BigDecimal.toString`: plain, unless the adjusted exponent is below -6 (`0E-10`, `1.5E-9`).
pub fn decimal_to_java(unscaled: i128, scale: u8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let adjusted = digits.len() as i32 - 1 - scale as i32;
    if adjusted >= -6 {
        return decimal_to_string(unscaled, scale);
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { String::new() } else { format!(".{rest}") };
    format!("{sign}{first}{point}E{adjusted}")
}

/// Reads a decimal in plain or exponent form and rounds it half up to `scale`; `None` if it is no
/// number or has more than `precision` digits.
pub fn parse_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let text = text.trim();
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(i) => (&text[..i], text[i + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // The value is digits * 10^(exponent - fraction.len()); keep `scale` places of it.
    let keep = digits.len() as i64 + exponent as i64 - fraction.len() as i64 + scale as i64;
    let mut unscaled: i128 = 0;
    for i in 0..keep.max(0) {
        let digit = digits.get(i as usize).copied().unwrap_or(0);
        unscaled = unscaled.checked_mul(10)?.checked_add(digit as i128)?;
        if unscaled != 0 && i > digits.len() as i64 + 40 {
            return None;
        }
    }
    if keep >= 0 && digits.get(keep as usize).is_some_and(|d| *d >= 5) {
        unscaled = unscaled.checked_add(1)?;
    }
    if unscaled >= 10i128.checked_pow(precision as u32)? {
        return None;
    }
    Some(if negative { -unscaled } else { unscaled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_read_like_java() {
        for (v, text) in [
            (1.5, "1.5"),
            (1e10, "1.0E10"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (0.001, "0.001"),
            (0.0009, "9.0E-4"),
            (100.0, "100.0"),
            (123456789.125, "1.23456789125E8"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-0.0, "-0.0"),
            (1_152_921_504_606_846_976.0, "1.15292150460684698E18"),
            (1e18, "1.0E18"),
            (1e-5, "1.0E-5"),
        ] {
            assert_eq!(java_double(v), text);
        }
        assert_eq!(java_float(1.0 / 3.0), "0.33333334");
    }

    #[test]
    fn floats_read_like_java() {
        for (v, text) in [
            (123_456_789.125f32, "1.23456792E8"),
            (1e10, "1.0E10"),
            (16_777_216.0, "1.6777216E7"),
            (0.1, "0.1"),
            (3.4e38, "3.4E38"),
        ] {
            assert_eq!(java_float(v), text);
        }
    }

    #[test]
    fn decimals_keep_their_scale_and_round_half_up() {
        assert_eq!(decimal_to_string(15000, 4), "1.5000");
        assert_eq!(decimal_to_string(-5, 2), "-0.05");
        assert_eq!(decimal_to_java(0, 10), "0E-10");
        assert_eq!(parse_decimal("1.005", 10, 2), Some(101));
        assert_eq!(parse_decimal("-2.5", 5, 0), Some(-3));
        assert_eq!(parse_decimal("1e3", 10, 2), Some(100_000));
        assert_eq!(parse_decimal("0.0004", 10, 2), Some(0));
        assert_eq!(parse_decimal("5e-1", 3, 0), Some(1));
        assert_eq!(parse_decimal("1234.5", 3, 1), None);
        assert_eq!(parse_decimal("", 3, 1), None);
        assert_eq!(parse_decimal("1.x", 3, 1), None);
        assert_eq!(parse_decimal("1e999999999", 38, 0), None);
    }
}
