//! What every accumulator needs: which rows count, values as bytes, and lists in its state.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int64Type};
use arrow::row::{RowConverter, Rows, SortField};
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::function::RowError;
use tidegate_api::{Error, Result};

/// `update` and `retract` of an accumulator with one method for both: `add`, whose last argument says that
/// the rows are taken back.
macro_rules! update_and_retract {
    () => {
        fn update(
            &mut self,
            args: &[ArrayRef],
            selected: Option<&BooleanArray>,
            groups: &[u32],
            n: usize,
        ) -> Result<(), RowError> {
            self.add(args, selected, groups, n, false)
        }

        fn retract(
            &mut self,
            args: &[ArrayRef],
            selected: Option<&BooleanArray>,
            groups: &[u32],
            n: usize,
        ) -> Result<(), RowError> {
            self.add(args, selected, groups, n, true)
        }
    };
}
pub(super) use update_and_retract;

/// The rows that count: `selected` is TRUE and the value is not NULL. `None` means all.
pub(super) fn counting(selected: Option<&BooleanArray>, nulls: Option<&NullBuffer>) -> Option<BooleanBuffer> {
    let selected = selected.map(|s| match s.nulls() {
        Some(known) => s.values() & known.inner(),
        None => s.values().clone(),
    });
    match (selected, nulls.filter(|n| n.null_count() > 0)) {
        (None, None) => None,
        (Some(mask), None) => Some(mask),
        (None, Some(nulls)) => Some(nulls.inner().clone()),
        (Some(mask), Some(nulls)) => Some(&mask & nulls.inner()),
    }
}

/// Calls `f(row, group)` for each row that counts, in order.
#[inline(always)]
pub(super) fn for_each(groups: &[u32], mask: Option<&BooleanBuffer>, mut f: impl FnMut(usize, usize)) {
    match mask {
        None => groups.iter().enumerate().for_each(|(row, group)| f(row, *group as usize)),
        Some(mask) => mask.set_indices().for_each(|row| f(row, groups[row] as usize)),
    }
}

/// The first argument, a column of numbers.
pub(super) fn column<T: ArrowPrimitiveType>(args: &[ArrayRef]) -> Result<&PrimitiveArray<T>, RowError> {
    args.first()
        .and_then(|a| a.as_primitive_opt::<T>())
        .ok_or_else(|| RowError::new(0, "internal error: an aggregate got a column of another type"))
}

/// Values of one type as byte strings that are equal when the values are, and sort as they do.
pub(super) struct RowCodec {
    converter: RowConverter,
    ty: DataType,
}

impl RowCodec {
    /// A codec for this type; refused for types that cannot be compared.
    pub(super) fn new(ty: &DataType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(ty.clone())])
            .map_err(|e| Error::unsupported(format!("values of this type cannot be kept by an aggregate: {e}")))?;
        Ok(RowCodec { converter, ty: ty.clone() })
    }

    /// The bytes of each value.
    pub(super) fn encode(&self, values: &ArrayRef) -> Result<Rows> {
        Ok(self.converter.convert_columns(&[canonical(values)])?)
    }

    /// The values of these bytes.
    pub(super) fn decode<'a>(&self, bytes: impl IntoIterator<Item = &'a [u8]>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let mut columns = self.converter.convert_rows(bytes.into_iter().map(|b| parser.parse(b)))?;
        columns.pop().ok_or_else(|| Error::internal("a row codec has one column"))
    }

    /// One list for each item of `lists`.
    pub(super) fn decode_lists<'a, L>(&self, lists: impl IntoIterator<Item = Option<L>>) -> Result<ListArray>
    where
        L: IntoIterator<Item = &'a [u8]>,
    {
        let mut all: Vec<&[u8]> = Vec::new();
        let mut lengths = Vec::new();
        let mut valid = Vec::new();
        for list in lists {
            let before = all.len();
            valid.push(list.is_some());
            all.extend(list.into_iter().flatten());
            lengths.push(all.len() - before);
        }
        let nulls = NullBuffer::from(valid);
        list_of(self.decode(all)?, lengths, (nulls.null_count() > 0).then_some(nulls))
    }

    /// The Arrow type of the values.
    pub(super) fn data_type(&self) -> &DataType {
        &self.ty
    }
}

/// One NaN instead of many, so that NaN equals NaN and is the largest number, as in Java.
fn canonical(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let v = values.as_primitive::<Float64Type>();
            let v: PrimitiveArray<Float64Type> = v.unary(|x| if x.is_nan() { f64::NAN } else { x });
            Arc::new(v)
        }
        DataType::Float32 => {
            let v = values.as_primitive::<Float32Type>();
            let v: PrimitiveArray<Float32Type> = v.unary(|x| if x.is_nan() { f32::NAN } else { x });
            Arc::new(v)
        }
        _ => values.clone(),
    }
}

/// Lists of these lengths over `values`.
pub(super) fn list_of(
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
    nulls: Option<NullBuffer>,
) -> Result<ListArray> {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    Ok(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?)
}

/// Where the items of list `row` lie among the values of `lists`.
pub(super) fn items(lists: &ListArray, row: usize) -> Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The list column at `index` of some partial states.
pub(super) fn list_state(states: &[ArrayRef], index: usize) -> Result<&ListArray> {
    states
        .get(index)
        .and_then(|s| s.as_list_opt::<i32>())
        .ok_or_else(|| Error::internal("a partial state is not the list it should be"))
}

/// The column at `index` of some partial states, lists of numbers: the lists, and all their numbers.
pub(super) fn count_state(states: &[ArrayRef], index: usize) -> Result<(&ListArray, &PrimitiveArray<Int64Type>)> {
    let lists = list_state(states, index)?;
    let counts = lists.values().as_primitive_opt::<Int64Type>();
    Ok((lists, counts.ok_or_else(|| Error::internal("a partial state has no numbers where it should"))?))
}

/// The primitive column at `index` of some partial states.
pub(super) fn primitive_state<T: ArrowPrimitiveType>(states: &[ArrayRef], index: usize) -> Result<&PrimitiveArray<T>> {
    states
        .get(index)
        .and_then(|s| s.as_primitive_opt::<T>())
        .ok_or_else(|| Error::internal("a partial state is not the number it should be"))
}
