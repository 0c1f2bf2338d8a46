//! MIN and MAX.
//!
//! Without retraction one value per group is enough. With it, a group keeps all its values sorted,
//! because taking back the smallest must bring the next one up.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int8Array, PrimitiveArray, StringArray,
};
use arrow::datatypes::{DataType, Int8Type};
use tidegate_api::Result;
use tidegate_api::function::{GroupedAccumulator, RowError};

use super::counted::Counted;
use super::rows::{RowCodec, count_state, counting, for_each, items, list_state, update_and_retract};

fn no_retraction() -> RowError {
    RowError::new(0, "internal error: this MIN or MAX was not planned for retraction")
}

/// MIN or MAX of a number, date or time.
pub(super) struct Extreme<T: ArrowPrimitiveType> {
    max: bool,
    ty: DataType,
    values: Vec<T::Native>,
    seen: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Extreme<T> {
    /// The largest (`max`) or smallest value; results have the Arrow type `ty`.
    pub(super) fn new(max: bool, ty: DataType) -> Self {
        Extreme { max, ty, values: Vec::new(), seen: Vec::new() }
    }

    fn add(&mut self, column: &PrimitiveArray<T>, selected: Option<&BooleanArray>, groups: &[u32], n: usize) {
        if n > self.values.len() {
            self.values.resize(n, T::Native::default());
            self.seen.resize(n, false);
        }
        let mask = counting(selected, column.nulls());
        let (values, held, seen, max) = (column.values(), &mut self.values[..], &mut self.seen[..], self.max);
        // Java's comparison of primitives: a NaN replaces nothing and is replaced by nothing.
        for_each(groups, mask.as_ref(), |row, g| {
            let v = values[row];
            let better = if max { v > held[g] } else { v < held[g] };
            if better || !seen[g] {
                held[g] = v;
                seen[g] = true;
            }
        });
    }
}

impl<T: ArrowPrimitiveType> GroupedAccumulator for Extreme<T> {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.add(args[0].as_primitive::<T>(), selected, groups, n);
        Ok(())
    }

    fn retract(&mut self, _: &[ArrayRef], _: Option<&BooleanArray>, _: &[u32], _: usize) -> Result<(), RowError> {
        Err(no_retraction())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.add(states[0].as_primitive::<T>(), None, groups, n);
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let values = groups.iter().map(|g| self.seen[*g as usize].then(|| self.values[*g as usize]));
        Ok(Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(self.ty.clone())))
    }

    fn clear(&mut self) {
        self.values.clear();
        self.seen.clear();
    }
}

/// MIN or MAX of a BOOLEAN: FALSE is smaller than TRUE.
pub(super) struct BooleanExtreme(Extreme<Int8Type>);

impl BooleanExtreme {
    /// The largest (`max`) or smallest value.
    pub(super) fn new(max: bool) -> Self {
        BooleanExtreme(Extreme::new(max, DataType::Int8))
    }
}

fn bits(array: &ArrayRef) -> Int8Array {
    array.as_boolean().iter().map(|b| b.map(i8::from)).collect()
}

impl GroupedAccumulator for BooleanExtreme {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.0.add(&bits(&args[0]), selected, groups, n);
        Ok(())
    }

    fn retract(&mut self, _: &[ArrayRef], _: Option<&BooleanArray>, _: &[u32], _: usize) -> Result<(), RowError> {
        Err(no_retraction())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.0.add(&bits(&states[0]), None, groups, n);
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let held = groups.iter().map(|g| self.0.seen[*g as usize].then(|| self.0.values[*g as usize] != 0));
        Ok(Arc::new(held.collect::<BooleanArray>()))
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// MIN or MAX of a string: by the bytes of its UTF-8.
pub(super) struct StringExtreme {
    max: bool,
    values: Vec<Option<String>>,
}

impl StringExtreme {
    /// The largest (`max`) or smallest value.
    pub(super) fn new(max: bool) -> Self {
        StringExtreme { max, values: Vec::new() }
    }

    fn add(&mut self, column: &StringArray, selected: Option<&BooleanArray>, groups: &[u32], n: usize) {
        self.values.resize(n.max(self.values.len()), None);
        let mask = counting(selected, column.nulls());
        let (held, max) = (&mut self.values, self.max);
        for_each(groups, mask.as_ref(), |row, g| {
            let v = column.value(row);
            match &mut held[g] {
                Some(best) if (if max { v > best.as_str() } else { v < best.as_str() }) => {
                    best.clear();
                    best.push_str(v);
                }
                Some(_) => {}
                empty => *empty = Some(v.to_owned()),
            }
        });
    }
}

impl GroupedAccumulator for StringExtreme {
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.add(args[0].as_string(), selected, groups, n);
        Ok(())
    }

    fn retract(&mut self, _: &[ArrayRef], _: Option<&BooleanArray>, _: &[u32], _: usize) -> Result<(), RowError> {
        Err(no_retraction())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.add(states[0].as_string(), None, groups, n);
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        Ok(Arc::new(groups.iter().map(|g| self.values[*g as usize].as_deref()).collect::<StringArray>()))
    }

    fn clear(&mut self) {
        self.values.clear();
    }
}

/// MIN or MAX of any comparable type, with retraction.
pub(super) struct RetractableExtreme {
    max: bool,
    codec: RowCodec,
    held: Counted<Box<[u8]>>,
    null: Box<[u8]>,
}

impl RetractableExtreme {
    /// The largest (`max`) or smallest value of the Arrow type `ty`.
    pub(super) fn new(max: bool, ty: &DataType) -> Result<Self> {
        let codec = RowCodec::new(ty)?;
        let null = codec.encode(&arrow::array::new_null_array(ty, 1))?.row(0).data().into();
        Ok(RetractableExtreme { max, codec, held: Counted::new(), null })
    }

    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        self.held.grow(n);
        let rows = self.codec.encode(&args[0]).map_err(|e| RowError::new(0, e.to_string()))?;
        let mask = counting(selected, args[0].logical_nulls().as_ref());
        let (held, step) = (&mut self.held, if back { -1 } else { 1 });
        for_each(groups, mask.as_ref(), |row, g| held.add(g, rows.row(row).data(), step));
        Ok(())
    }
}

impl GroupedAccumulator for RetractableExtreme {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.held.grow(n);
        let (values, (lists, counts)) = (list_state(states, 0)?, count_state(states, 1)?);
        let rows = self.codec.encode(values.values())?;
        for (row, group) in groups.iter().enumerate() {
            for (value, count) in items(values, row).zip(items(lists, row)) {
                self.held.add(*group as usize, rows.row(value).data(), counts.value(count));
            }
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = groups.iter().map(|g| Some(self.held.of(*g).keys().map(|k| &k[..])));
        Ok(vec![Arc::new(self.codec.decode_lists(held)?), self.held.counts(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        self.codec.decode(groups.iter().map(|g| {
            let mut held = self.held.of(*g).iter().filter(|(_, c)| **c > 0);
            let best = if self.max { held.next_back() } else { held.next() };
            best.map_or(&self.null[..], |(k, _)| &k[..])
        }))
    }

    fn clear(&mut self) {
        self.held.clear();
    }
}
