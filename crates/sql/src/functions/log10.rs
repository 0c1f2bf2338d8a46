//! `LOG10` to the last digit. The C library's is off by one place now and then (1600), Java's is not,
//! so the logarithm is summed in pairs of doubles and rounded once.

/// A number as an unevaluated sum, the second part below the first one's last place.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

impl Pair {
    /// An exact sum of two doubles.
    fn sum(a: f64, b: f64) -> Pair {
        let s = a + b;
        let t = s - a;
        Pair(s, (a - (s - t)) + (b - t))
    }

    fn plus(self, o: Pair) -> Pair {
        let s = Pair::sum(self.0, o.0);
        Pair::sum(s.0, s.1 + self.1 + o.1)
    }

    fn times(self, o: Pair) -> Pair {
        let p = self.0 * o.0;
        let rest = self.0.mul_add(o.0, -p) + self.0 * o.1 + self.1 * o.0;
        Pair::sum(p, rest)
    }

    fn over(self, o: Pair) -> Pair {
        let q = self.0 / o.0;
        let rest = self.plus(o.times(Pair(-q, 0.0)));
        Pair::sum(q, rest.0 / o.0)
    }
}

const LOG10_OF_2: Pair = Pair(std::f64::consts::LOG10_2, -2.803_728_127_785_170_5e-18);
const TWO_OVER_LN_10: Pair = Pair(0.868_588_963_806_503_6, 2.196_639_300_433_53e-17);

/// The decimal logarithm; NaN below zero, negative infinity at zero.
pub fn log10(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 || x.is_infinite() || x < f64::MIN_POSITIVE {
        return x.log10();
    }
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i64 - 1023) as f64;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 atanh s with s = (m - 1) / (m + 1)
    let s = Pair(m - 1.0, 0.0).over(Pair::sum(m, 1.0));
    let square = s.times(s);
    let mut sum = Pair(0.0, 0.0);
    for k in (0..24).rev() {
        let term = Pair(1.0, 0.0).over(Pair(f64::from(2 * k + 1), 0.0));
        sum = sum.times(square).plus(term);
    }
    let mantissa = sum.times(s).times(TWO_OVER_LN_10);
    LOG10_OF_2.times(Pair(exponent, 0.0)).plus(mantissa).0
}

#[cfg(test)]
mod tests {
    use super::log10;

    #[test]
    fn the_last_digit_is_right() {
        for (x, want) in [
            (1600.0, 3.2041199826559246),
            (25.0, 1.3979400086720377),
            (100.0, 2.0),
            (1e15, 15.0),
            (0.001, -3.0),
            (1.0, 0.0),
            (3.0, 0.47712125471966244),
            (2.0, std::f64::consts::LOG10_2),
        ] {
            assert_eq!(log10(x), want, "{x}");
        }
        assert!(log10(-1.0).is_nan());
        assert_eq!(log10(0.0), f64::NEG_INFINITY);
    }
}
