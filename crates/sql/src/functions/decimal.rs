//! Decimal arithmetic on unscaled 128-bit digits, rounding half up (away from zero), NULL (`None`)
//! when the result needs more digits than its type has.

use bigdecimal::num_bigint::BigInt;
use tidegate_api::text;

/// `10^n`, for `n` up to 38.
pub fn pow10(n: u8) -> i128 {
    10i128.pow(u32::from(n.min(38)))
}

/// `value` if it has at most `precision` digits.
pub fn fit(value: i128, precision: u8) -> Option<i128> {
    (value.unsigned_abs() < pow10(precision).unsigned_abs()).then_some(value)
}

/// `value / divisor`, half away from zero.
pub fn divide_half_up(value: i128, divisor: i128) -> Option<i128> {
    let (quotient, rest) = (value.checked_div(divisor)?, value.checked_rem(divisor)?);
    let up = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs() && rest != 0;
    let away = if (value < 0) == (divisor < 0) { 1 } else { -1 };
    if up { quotient.checked_add(away) } else { Some(quotient) }
}

/// Digits of scale `from` as digits of `DECIMAL(precision, scale)`.
pub fn rescale(value: i128, from: u8, precision: u8, scale: u8) -> Option<i128> {
    let value = if scale >= from {
        value.checked_mul(pow10(scale - from))?
    } else {
        divide_half_up(value, pow10(from - scale))?
    };
    fit(value, precision)
}

/// The sum of two decimals of scales `s` and `t` as a `DECIMAL(precision, scale)`.
pub fn add(a: i128, s: u8, b: i128, t: u8, precision: u8, scale: u8) -> Option<i128> {
    let common = s.max(t);
    let small = || a.checked_mul(pow10(common - s))?.checked_add(b.checked_mul(pow10(common - t))?);
    match small() {
        Some(sum) => rescale(sum, common, precision, scale),
        None => big_fit(big(a) * big_pow(common - s) + big(b) * big_pow(common - t), common, precision, scale),
    }
}

/// The product of two decimals.
pub fn multiply(a: i128, s: u8, b: i128, t: u8, precision: u8, scale: u8) -> Option<i128> {
    match a.checked_mul(b) {
        Some(product) if s + t <= 38 => rescale(product, s + t, precision, scale),
        _ => big_fit(big(a) * big(b), s + t, precision, scale),
    }
}

/// The quotient of two decimals; the caller has dealt with zero.
pub fn divide(a: i128, s: u8, b: i128, t: u8, precision: u8, scale: u8) -> Option<i128> {
    // a/10^s / (b/10^t) * 10^scale = a * 10^(scale + t - s) / b
    let shift = i32::from(scale) + i32::from(t) - i32::from(s);
    if (0..=38).contains(&shift)
        && let Some(dividend) = a.checked_mul(pow10(shift as u8))
    {
        return fit(divide_half_up(dividend, b)?, precision);
    }
    let (dividend, divisor) =
        if shift >= 0 { (big(a) * big_pow(shift as u8), big(b)) } else { (big(a), big(b) * big_pow((-shift) as u8)) };
    fit(big_divide(dividend, divisor)?, precision)
}

/// The remainder of two decimals, with the sign of the first.
pub fn remainder(a: i128, s: u8, b: i128, t: u8, precision: u8, scale: u8) -> Option<i128> {
    let common = s.max(t);
    let scaled = || Some((a.checked_mul(pow10(common - s))?, b.checked_mul(pow10(common - t))?));
    match scaled() {
        Some((a, b)) => rescale(a.checked_rem(b)?, common, precision, scale),
        None => big_fit((big(a) * big_pow(common - s)) % (big(b) * big_pow(common - t)), common, precision, scale),
    }
}

fn big(v: i128) -> BigInt {
    BigInt::from(v)
}

fn big_pow(n: u8) -> BigInt {
    BigInt::from(10).pow(u32::from(n))
}

fn big_fit(value: BigInt, from: u8, precision: u8, scale: u8) -> Option<i128> {
    let value = if scale >= from {
        i128::try_from(value * big_pow(scale - from)).ok()?
    } else {
        big_divide(value, big_pow(from - scale))?
    };
    fit(value, precision)
}

fn big_divide(dividend: BigInt, divisor: BigInt) -> Option<i128> {
    let (quotient, rest): (BigInt, BigInt) = (&dividend / &divisor, &dividend % &divisor);
    let negative = (dividend < BigInt::ZERO) != (divisor < BigInt::ZERO);
    let twice = BigInt::from(rest.magnitude().clone()) * 2;
    let up = twice >= BigInt::from(divisor.magnitude().clone());
    let quotient = match (up, negative) {
        (true, true) => quotient - 1,
        (true, false) => quotient + 1,
        _ => quotient,
    };
    i128::try_from(quotient).ok()
}

/// The nearest `DOUBLE`.
pub fn to_f64(value: i128, scale: u8) -> f64 {
    // Both are exact below 2^53 and 10^22, and one division rounds once.
    if value.unsigned_abs() < 1 << 53 && scale <= 22 {
        return value as f64 / 10f64.powi(i32::from(scale));
    }
    text::decimal_to_string(value, scale).parse().unwrap_or(f64::NAN)
}

/// The nearest `FLOAT`.
pub fn to_f32(value: i128, scale: u8) -> f32 {
    text::decimal_to_string(value, scale).parse().unwrap_or(f32::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_round_half_up_and_vanish_when_too_long() {
        assert_eq!(rescale(1255, 3, 10, 2), Some(126));
        assert_eq!(rescale(-25, 1, 5, 0), Some(-3));
        assert_eq!(rescale(12345, 1, 3, 1), None);
        assert_eq!(divide(100, 2, 700, 2, 23, 13), Some(1_428_571_428_571));
        assert_eq!(divide(-2, 0, 3, 0, 38, 6), Some(-666_667));
        assert_eq!(multiply(pow10(38) - 1, 0, 10, 0, 38, 0), None);
        assert_eq!(add(5, 1, 25, 2, 12, 2), Some(75));
        assert_eq!(remainder(-75, 1, 2, 0, 10, 1), Some(-15));
        let long = pow10(38) - 1;
        assert_eq!(divide(long, 38, long, 38, 38, 6), Some(1_000_000));
    }
}
