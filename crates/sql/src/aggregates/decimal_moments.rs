//! Variance and standard deviation of DECIMAL values.
//!
//! Like the other moments they come from `SUM(x * x)`, `SUM(x)` and `COUNT(x)`, each step in the decimal type Flink
//! derives for it: squares are exact, products of sums keep at most six digits, quotients have six, all rounded half up.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array};
use arrow::datatypes::{Decimal128Type, Int64Type};
use tidegate_api::Result;
use tidegate_api::function::{GroupedAccumulator, RowError};

use super::moments::Moment;
use super::rows::{column, counting, for_each, primitive_state, update_and_retract};

/// Digits of the result, and the most that the argument may have.
pub(super) const SCALE: u8 = 6;

/// Sums of one group; `None` where 38 digits do not hold them.
#[derive(Clone, Copy)]
struct Held {
    squares: Option<i128>,
    sum: Option<i128>,
    count: i64,
}

/// `VAR_*` and `STDDEV_*` over `DECIMAL(p, scale)`.
pub(super) struct DecimalMoments {
    moment: Moment,
    scale: u8,
    held: Vec<Held>,
}

/// `a / b`, half away from zero.
fn divide(a: i128, b: i128) -> Option<i128> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let up = rest.unsigned_abs() >= b.unsigned_abs() - rest.unsigned_abs();
    Some(if rest != 0 && up { quotient + a.signum() * b.signum() } else { quotient })
}

/// Digits of scale `from` as digits of scale `to`.
fn rescale(v: i128, from: u8, to: u8) -> Option<i128> {
    let unit = 10i128.pow(u32::from(from.abs_diff(to)));
    if from <= to { v.checked_mul(unit) } else { divide(v, unit) }
}

impl DecimalMoments {
    /// A moment of decimals with `scale` digits.
    pub(super) fn new(moment: Moment, scale: u8) -> Self {
        DecimalMoments { moment, scale, held: Vec::new() }
    }

    fn grow(&mut self, n: usize) {
        let none = Held { squares: Some(0), sum: Some(0), count: 0 };
        self.held.resize(n.max(self.held.len()), none);
    }

    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        self.grow(n);
        let column = column::<Decimal128Type>(args)?;
        let mask = counting(selected, column.nulls());
        let one = if back { -1 } else { 1 };
        for_each(groups, mask.as_ref(), |row, g| {
            let (v, held) = (column.value(row), &mut self.held[g]);
            let step = |total: Option<i128>, by: Option<i128>| total?.checked_add(by?.checked_mul(i128::from(one))?);
            held.squares = step(held.squares, v.checked_mul(v));
            held.sum = step(held.sum, Some(v));
            held.count += one;
        });
        Ok(())
    }

    fn value(&self, held: Held) -> Option<i128> {
        let divisor = if self.moment.sample { held.count - 1 } else { held.count };
        if held.count <= 0 || divisor <= 0 {
            return None;
        }
        let (squared, kept) = (2 * self.scale, (2 * self.scale).min(SCALE));
        let product = rescale(held.sum?.checked_mul(held.sum?)?, squared, kept)?;
        let mean_part = divide(rescale(product, kept, SCALE)?, i128::from(held.count))?;
        let wide = squared.max(SCALE);
        let difference = rescale(held.squares?, squared, wide)?.checked_sub(rescale(mean_part, SCALE, wide)?)?;
        let variance = divide(rescale(difference, wide, SCALE)?, i128::from(divisor))?;
        if !self.moment.root {
            return Some(variance);
        }
        let unit = 10f64.powi(i32::from(SCALE));
        Some(((variance as f64 / unit).sqrt() * unit).round() as i128)
    }
}

fn decimals(values: impl Iterator<Item = Option<i128>>, scale: u8) -> Result<ArrayRef> {
    let array: Decimal128Array = values.collect();
    Ok(Arc::new(array.with_precision_and_scale(38, scale as i8)?))
}

impl GroupedAccumulator for DecimalMoments {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let (squares, sums) =
            (primitive_state::<Decimal128Type>(states, 0)?, primitive_state::<Decimal128Type>(states, 1)?);
        let counts = primitive_state::<Int64Type>(states, 2)?;
        let plus = |a: Option<i128>, array: &Decimal128Array, row: usize| {
            if array.is_null(row) { None } else { a?.checked_add(array.value(row)) }
        };
        for (row, group) in groups.iter().enumerate() {
            let held = &mut self.held[*group as usize];
            held.squares = plus(held.squares, squares, row);
            held.sum = plus(held.sum, sums, row);
            held.count += counts.value(row);
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| self.held[*g as usize]);
        let counts = Int64Array::from_iter_values(held().map(|h| h.count));
        let squares = decimals(held().map(|h| h.squares), 2 * self.scale)?;
        Ok(vec![squares, decimals(held().map(|h| h.sum), self.scale)?, Arc::new(counts)])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        decimals(groups.iter().map(|g| self.value(self.held[*g as usize])), SCALE)
    }

    fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    fn of(sample: bool, root: bool, values: &[i128]) -> Option<i128> {
        let mut moments = DecimalMoments::new(Moment { sample, root }, 2);
        let column = decimals(values.iter().map(|v| Some(*v)), 2).unwrap();
        moments.update(&[column], None, &vec![0; values.len()], 1).unwrap();
        moments.evaluate(&[0]).unwrap().as_primitive::<Decimal128Type>().iter().next().flatten()
    }

    #[test]
    fn decimals_keep_six_digits() {
        assert_eq!(of(true, false, &[150, 225, 150]), Some(187_500));
        assert_eq!(of(true, true, &[150, 225, 150]), Some(433_013));
        assert_eq!(of(true, false, &[150, 999, 0]), Some(29_021_700));
        assert_eq!(of(true, true, &[150]), None);
        assert_eq!(of(false, false, &[150]), Some(0));
    }
}
