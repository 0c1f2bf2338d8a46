//! COUNT, SUM and AVG: running numbers per group.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::{Error, Result};

use super::rows::{column, counting, for_each, primitive_state, update_and_retract};

/// One more than the largest 38-digit number.
pub(super) const DECIMAL_LIMIT: i128 = 10_i128.pow(38);

/// `COUNT(*)` and `COUNT(x)`.
#[derive(Default)]
pub(super) struct Count {
    counts: Vec<i64>,
}

impl Count {
    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        self.counts.resize(n.max(self.counts.len()), 0);
        let nulls = args.first().and_then(|a| a.logical_nulls());
        let mask = counting(selected, nulls.as_ref());
        let (counts, step) = (&mut self.counts[..], if back { -1 } else { 1 });
        for_each(groups, mask.as_ref(), |_, g| counts[g] += step);
        Ok(())
    }
}

impl GroupedAccumulator for Count {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.counts.resize(n.max(self.counts.len()), 0);
        let counts = primitive_state::<Int64Type>(states, 0)?;
        for (g, c) in groups.iter().zip(counts.values()) {
            self.counts[*g as usize] += c;
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(groups.iter().map(|g| self.counts[*g as usize]))))
    }

    fn clear(&mut self) {
        self.counts.clear();
    }
}

/// A number that sums into `Total`, by Flink's arithmetic: integers wrap around, decimals leave 38
/// digits as NULL.
pub(super) trait Addend: ArrowPrimitiveType {
    /// What the running total is kept in.
    type Total: ArrowPrimitiveType;

    /// The number as a total.
    fn widen(value: Self::Native) -> <Self::Total as ArrowPrimitiveType>::Native;
}

/// Sums keep the type of their argument.
pub(super) trait Total: ArrowPrimitiveType {
    /// Nothing added yet.
    const ZERO: Self::Native;

    /// `a + b`, or `None` if it has too many digits.
    fn plus(a: Self::Native, b: Self::Native) -> Option<Self::Native>;

    /// `a - b`, or `None` if it has too many digits.
    fn minus(a: Self::Native, b: Self::Native) -> Option<Self::Native>;
}

macro_rules! wrapping_total {
    ($($t:ty),*) => {$(
        impl Total for $t {
            const ZERO: Self::Native = 0;
            #[inline(always)]
            fn plus(a: Self::Native, b: Self::Native) -> Option<Self::Native> { Some(a.wrapping_add(b)) }
            #[inline(always)]
            fn minus(a: Self::Native, b: Self::Native) -> Option<Self::Native> { Some(a.wrapping_sub(b)) }
        }
    )*};
}
macro_rules! float_total {
    ($($t:ty),*) => {$(
        impl Total for $t {
            const ZERO: Self::Native = 0.0;
            #[inline(always)]
            fn plus(a: Self::Native, b: Self::Native) -> Option<Self::Native> { Some(a + b) }
            #[inline(always)]
            fn minus(a: Self::Native, b: Self::Native) -> Option<Self::Native> { Some(a - b) }
        }
    )*};
}
wrapping_total!(Int8Type, Int16Type, Int32Type, Int64Type);
float_total!(Float32Type, Float64Type);

impl Total for Decimal128Type {
    const ZERO: i128 = 0;
    #[inline(always)]
    fn plus(a: i128, b: i128) -> Option<i128> {
        a.checked_add(b).filter(|s| s.unsigned_abs() < DECIMAL_LIMIT.unsigned_abs())
    }
    #[inline(always)]
    fn minus(a: i128, b: i128) -> Option<i128> {
        a.checked_sub(b).filter(|s| s.unsigned_abs() < DECIMAL_LIMIT.unsigned_abs())
    }
}

macro_rules! addend {
    ($($t:ty => $total:ty),*) => {$(
        impl Addend for $t {
            type Total = $total;
            #[inline(always)]
            fn widen(value: Self::Native) -> <$total as ArrowPrimitiveType>::Native { value.into() }
        }
    )*};
}
addend!(Int8Type => Int64Type, Int16Type => Int64Type, Int32Type => Int64Type, Int64Type => Int64Type,
        Float32Type => Float64Type, Float64Type => Float64Type, Decimal128Type => Decimal128Type);

/// Totals with the number of values in them.
struct Totals<T: Total> {
    sums: Vec<T::Native>,
    counts: Vec<i64>,
    /// Decimals only: without retraction an overflow makes the total NULL and the next value starts
    /// anew; with retraction the total stays NULL. Both are Flink's generated arithmetic.
    retracts: bool,
    overflowed: Vec<u32>,
}

impl<T: Total> Totals<T> {
    fn new(retracts: bool) -> Self {
        Totals { sums: Vec::new(), counts: Vec::new(), retracts, overflowed: Vec::new() }
    }

    fn grow(&mut self, n: usize) {
        if n > self.sums.len() {
            self.sums.resize(n, T::ZERO);
            self.counts.resize(n, 0);
        }
    }

    /// Gives `step` the group and value of each row that counts.
    #[inline(always)]
    fn each<A: ArrowPrimitiveType>(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        step: impl Fn(&mut Self, usize, A::Native),
    ) -> Result<(), RowError> {
        self.grow(n);
        let column = column::<A>(args)?;
        let values = column.values();
        let mask = counting(selected, column.nulls());
        for_each(groups, mask.as_ref(), |row, g| step(self, g, values[row]));
        Ok(())
    }

    #[inline(always)]
    fn set(&mut self, group: usize, sum: Option<T::Native>, count: i64) {
        match sum {
            Some(sum) => {
                self.sums[group] = sum;
                self.counts[group] = self.counts[group].wrapping_add(count);
            }
            None => self.overflow(group, count),
        }
    }

    #[cold]
    fn overflow(&mut self, group: usize, count: i64) {
        if self.retracts {
            self.overflowed.push(group as u32);
            self.counts[group] += count;
        } else {
            self.sums[group] = T::ZERO;
            self.counts[group] = 0;
        }
    }

    #[inline(always)]
    fn add(&mut self, group: usize, value: T::Native, count: i64) {
        self.set(group, T::plus(self.sums[group], value), count);
    }

    #[inline(always)]
    fn subtract(&mut self, group: usize, value: T::Native) {
        self.set(group, T::minus(self.sums[group], value), -1);
    }

    fn is_null(&self, group: u32) -> bool {
        self.counts[group as usize] == 0 || (!self.overflowed.is_empty() && self.overflowed.contains(&group))
    }

    fn sum_array(&self, groups: &[u32], ty: &DataType) -> Result<ArrayRef> {
        let values: ScalarBuffer<T::Native> = groups.iter().map(|g| self.sums[*g as usize]).collect();
        let nulls: NullBuffer = groups.iter().map(|g| !self.is_null(*g)).collect();
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(ty.clone())))
    }

    fn count_array(&self, groups: &[u32]) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(groups.iter().map(|g| self.counts[*g as usize])))
    }

    /// All of these groups, for a checkpoint: the sum, NULL only where it overflowed for good, and the count. A
    /// sum of no values is not always zero: adding and taking back floats leaves rests.
    fn save(&self, groups: &[u32], ty: &DataType) -> Result<Vec<ArrayRef>> {
        let sums = groups.iter().map(|g| (!self.overflowed.contains(g)).then(|| self.sums[*g as usize]));
        let sums: PrimitiveArray<T> = sums.collect();
        Ok(vec![Arc::new(sums.with_data_type(ty.clone())), self.count_array(groups)])
    }

    /// Fills empty groups with what was saved.
    fn load(&mut self, saved: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let (sums, counts) = (primitive_state::<T>(saved, 0)?, primitive_state::<Int64Type>(saved, 1)?);
        for (row, group) in groups.iter().enumerate() {
            self.counts[*group as usize] = counts.value(row);
            if sums.is_null(row) {
                self.overflowed.push(*group);
            } else {
                self.sums[*group as usize] = sums.value(row);
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.counts.clear();
        self.overflowed.clear();
    }
}

/// `SUM(x)`. Its state is the sum alone; with retraction, also how many values are in it.
pub(super) struct Sum<T: Total> {
    totals: Totals<T>,
    ty: DataType,
}

impl<T: Total> Sum<T> {
    /// A sum of the Arrow type `ty`.
    pub(super) fn new(ty: DataType, retracts: bool) -> Self {
        Sum { totals: Totals::new(retracts), ty }
    }
}

impl<T: Total> GroupedAccumulator for Sum<T> {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.totals.each::<T>(args, selected, groups, n, |totals, g, v| totals.add(g, v, 1))
    }

    fn retract(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.totals.each::<T>(args, selected, groups, n, |totals, g, v| totals.subtract(g, v))
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.totals.grow(n);
        let sums = primitive_state::<T>(states, 0)?;
        let counts = states.get(1).map(|_| primitive_state::<Int64Type>(states, 1)).transpose()?;
        let totals = &mut self.totals;
        let mask = counting(None, sums.nulls());
        for_each(groups, mask.as_ref(), |row, g| {
            totals.add(g, sums.value(row), counts.map_or(1, |c| c.value(row)));
        });
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut state = vec![self.totals.sum_array(groups, &self.ty)?];
        if self.totals.retracts {
            state.push(self.totals.count_array(groups));
        }
        Ok(state)
    }

    fn save(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        if self.totals.retracts { self.totals.save(groups, &self.ty) } else { self.state(groups) }
    }

    fn load(&mut self, saved: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        if self.totals.retracts { self.totals.load(saved, groups, n) } else { self.merge(saved, groups, n) }
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        self.totals.sum_array(groups, &self.ty)
    }

    fn clear(&mut self) {
        self.totals.clear();
    }
}

/// `AVG(x)`: the total in a wider type, divided when asked. State: total and count.
pub(super) struct Avg<A: Addend>
where
    A::Total: Total,
{
    totals: Totals<A::Total>,
    /// The Arrow type of the total.
    total_ty: DataType,
    /// The Arrow type of the result.
    ty: DataType,
    argument: PhantomData<fn(A)>,
}

impl<A: Addend> Avg<A>
where
    A::Total: Total,
{
    /// An average with totals and results of these Arrow types.
    pub(super) fn new(total_ty: DataType, ty: DataType, retracts: bool) -> Self {
        Avg { totals: Totals::new(retracts), total_ty, ty, argument: PhantomData }
    }
}

impl<A: Addend> GroupedAccumulator for Avg<A>
where
    A::Total: Total,
{
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.totals.each::<A>(args, selected, groups, n, |totals, g, v| totals.add(g, A::widen(v), 1))
    }

    fn retract(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.totals.each::<A>(args, selected, groups, n, |totals, g, v| totals.subtract(g, A::widen(v)))
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.totals.grow(n);
        let sums = primitive_state::<A::Total>(states, 0)?;
        let counts = primitive_state::<Int64Type>(states, 1)?;
        let totals = &mut self.totals;
        let mask = counting(None, sums.nulls());
        for_each(groups, mask.as_ref(), |row, g| totals.add(g, sums.value(row), counts.value(row)));
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.totals.sum_array(groups, &self.total_ty)?, self.totals.count_array(groups)])
    }

    fn save(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.totals.save(groups, &self.total_ty)
    }

    fn load(&mut self, saved: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.totals.load(saved, groups, n)
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let sums = self.totals.sum_array(groups, &self.total_ty)?;
        let counts = self.totals.counts.as_slice();
        let count = |row: usize| counts[groups[row] as usize];
        divide(&sums, count, &self.ty)
    }

    fn clear(&mut self) {
        self.totals.clear();
    }
}

/// `sums[i] / count(i)`: integers truncate, decimals round half up to the result's scale.
fn divide(sums: &ArrayRef, count: impl Fn(usize) -> i64, ty: &DataType) -> Result<ArrayRef> {
    macro_rules! integers {
        ($t:ty) => {{
            let sums = sums.as_primitive::<Int64Type>();
            Arc::new(map_rows::<Int64Type, $t>(sums, |row, s| Some(s.wrapping_div(count(row)) as _))) as ArrayRef
        }};
    }
    Ok(match ty {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::Float32 => {
            let sums = sums.as_primitive::<Float64Type>();
            Arc::new(map_rows::<Float64Type, Float32Type>(sums, |row, s| Some((s / count(row) as f64) as f32)))
        }
        DataType::Float64 => {
            let sums = sums.as_primitive::<Float64Type>();
            Arc::new(map_rows::<Float64Type, Float64Type>(sums, |row, s| Some(s / count(row) as f64)))
        }
        DataType::Decimal128(_, scale) => {
            let sums = sums.as_primitive::<Decimal128Type>();
            let up = u32::try_from(i16::from(*scale) - i16::from(sums.scale())).unwrap_or(0);
            let quotient = |row, s| divide_decimal(s, up, count(row).into());
            let values = map_rows::<Decimal128Type, Decimal128Type>(sums, quotient);
            Arc::new(values.with_data_type(ty.clone()))
        }
        other => return Err(Error::internal(format!("AVG cannot give {other}"))),
    })
}

fn map_rows<T: ArrowPrimitiveType, R: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    f: impl Fn(usize, T::Native) -> Option<R::Native>,
) -> PrimitiveArray<R> {
    values.iter().enumerate().map(|(row, v)| v.and_then(|v| f(row, v))).collect()
}

/// `value * 10^up / by`, rounded half up (away from zero); `None` beyond 38 digits.
pub(super) fn divide_decimal(value: i128, up: u32, by: i128) -> Option<i128> {
    let (whole, rest) = (value / by, value % by);
    let scale = 10_i128.checked_pow(up)?;
    // The rest is smaller than the divisor (a count), so scaling it by a few digits cannot overflow.
    let rest = rest.checked_mul(scale)?;
    let mut fraction = rest / by;
    if (rest % by).unsigned_abs() * 2 >= by.unsigned_abs() {
        fraction += if (value < 0) == (by < 0) { 1 } else { -1 };
    }
    let quotient = whole.checked_mul(scale)?.checked_add(fraction)?;
    (quotient.unsigned_abs() < DECIMAL_LIMIT.unsigned_abs()).then_some(quotient)
}
