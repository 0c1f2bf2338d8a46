//! Variance and standard deviation.
//!
//! Flink computes them from `SUM(x * x)`, `SUM(x)` and `COUNT(x)` *in the type of the argument*:
//! `(SUM(x*x) - SUM(x)*SUM(x)/n) / n`. So the variance of a BIGINT column is a truncated BIGINT, and an
//! INT one wraps around. That is kept: a job moved here must give the same numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use tidegate_api::Result;
use tidegate_api::function::{GroupedAccumulator, RowError};

use super::rows::{counting, for_each, primitive_state, update_and_retract};

/// Which moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Divides by `n - 1` instead of `n`.
    pub(super) sample: bool,
    /// Square root of the variance.
    pub(super) root: bool,
}

/// Sums of values and of their squares.
struct Sums<T> {
    squares: Vec<T>,
    sums: Vec<T>,
    counts: Vec<i64>,
}

/// The arithmetic of one family of types.
pub(super) trait Arithmetic: arrow::datatypes::ArrowPrimitiveType {
    /// `a + b`, wrapping.
    fn plus(a: Self::Native, b: Self::Native) -> Self::Native;
    /// `a - b`, wrapping.
    fn minus(a: Self::Native, b: Self::Native) -> Self::Native;
    /// `a * b`, wrapping to the width of `ty`.
    fn times(a: Self::Native, b: Self::Native, ty: &DataType) -> Self::Native;
    /// `a / n`, truncating for integers.
    fn over(a: Self::Native, n: i64) -> Self::Native;
    /// The square root in this type.
    fn root(a: Self::Native) -> Self::Native;
    /// The value in the range of `ty`.
    fn fit(a: Self::Native, ty: &DataType) -> Self::Native;
}

impl Arithmetic for Int64Type {
    fn plus(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    fn minus(a: i64, b: i64) -> i64 {
        a.wrapping_sub(b)
    }
    fn times(a: i64, b: i64, ty: &DataType) -> i64 {
        Self::fit(a.wrapping_mul(b), ty)
    }
    fn over(a: i64, n: i64) -> i64 {
        a.wrapping_div(n)
    }
    fn root(a: i64) -> i64 {
        (a as f64).sqrt() as i64
    }
    fn fit(a: i64, ty: &DataType) -> i64 {
        match ty {
            DataType::Int8 => i64::from(a as i8),
            DataType::Int16 => i64::from(a as i16),
            DataType::Int32 => i64::from(a as i32),
            _ => a,
        }
    }
}

impl Arithmetic for Float64Type {
    fn plus(a: f64, b: f64) -> f64 {
        a + b
    }
    fn minus(a: f64, b: f64) -> f64 {
        a - b
    }
    fn times(a: f64, b: f64, ty: &DataType) -> f64 {
        Self::fit(a * b, ty)
    }
    fn over(a: f64, n: i64) -> f64 {
        a / n as f64
    }
    fn root(a: f64) -> f64 {
        a.sqrt()
    }
    fn fit(a: f64, ty: &DataType) -> f64 {
        if *ty == DataType::Float32 { f64::from(a as f32) } else { a }
    }
}

/// `VAR_POP`, `VAR_SAMP`, `STDDEV_POP`, `STDDEV_SAMP` over integers (`T` = 64-bit integers) or floats.
pub(super) struct Moments<T: Arithmetic> {
    moment: Moment,
    /// The Arrow type of argument and result.
    ty: DataType,
    held: Sums<T::Native>,
}

impl<T: Arithmetic> Moments<T> {
    /// A moment of values of the Arrow type `ty`.
    pub(super) fn new(moment: Moment, ty: DataType) -> Self {
        Moments { moment, ty, held: Sums { squares: Vec::new(), sums: Vec::new(), counts: Vec::new() } }
    }

    fn grow(&mut self, n: usize) {
        if n > self.held.sums.len() {
            self.held.squares.resize(n, T::Native::default());
            self.held.sums.resize(n, T::Native::default());
            self.held.counts.resize(n, 0);
        }
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
        let wide = cast(&args[0], &T::DATA_TYPE).map_err(|e| RowError::new(0, e.to_string()))?;
        let column = wide.as_primitive::<T>();
        let mask = counting(selected, column.nulls());
        let (held, ty) = (&mut self.held, &self.ty);
        let (step, one) = if back { (T::minus as fn(_, _) -> _, -1) } else { (T::plus as fn(_, _) -> _, 1) };
        for_each(groups, mask.as_ref(), |row, g| {
            let v = column.value(row);
            held.squares[g] = T::fit(step(held.squares[g], T::times(v, v, ty)), ty);
            held.sums[g] = T::fit(step(held.sums[g], v), ty);
            held.counts[g] += one;
        });
        Ok(())
    }

    fn value(&self, group: usize) -> Option<T::Native> {
        let (count, sum) = (self.held.counts[group], self.held.sums[group]);
        let divisor = if self.moment.sample { count - 1 } else { count };
        if count <= 0 || divisor <= 0 {
            return None;
        }
        let mean_part = T::over(T::times(sum, sum, &self.ty), count);
        let variance = T::over(T::minus(self.held.squares[group], mean_part), divisor);
        Some(if self.moment.root { T::root(variance) } else { variance })
    }
}

impl<T: Arithmetic> GroupedAccumulator for Moments<T>
where
    PrimitiveArray<T>: From<Vec<T::Native>>,
{
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let (squares, sums) = (primitive_state::<T>(states, 0)?, primitive_state::<T>(states, 1)?);
        let counts = primitive_state::<Int64Type>(states, 2)?;
        let (held, ty) = (&mut self.held, &self.ty);
        for (row, group) in groups.iter().enumerate() {
            let g = *group as usize;
            held.squares[g] = T::fit(T::plus(held.squares[g], squares.value(row)), ty);
            held.sums[g] = T::fit(T::plus(held.sums[g], sums.value(row)), ty);
            held.counts[g] += counts.value(row);
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let pick = |v: &[T::Native]| -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::from(groups.iter().map(|g| v[*g as usize]).collect::<Vec<_>>()))
        };
        let counts = Int64Array::from_iter_values(groups.iter().map(|g| self.held.counts[*g as usize]));
        Ok(vec![pick(&self.held.squares), pick(&self.held.sums), Arc::new(counts)])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = groups.iter().map(|g| self.value(*g as usize)).collect();
        Ok(cast(&values, &self.ty)?)
    }

    fn clear(&mut self) {
        self.held.squares.clear();
        self.held.sums.clear();
        self.held.counts.clear();
    }
}
