//! What every accumulator needs: which rows count, and values as bytes.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use std::sync::Arc;
use tidegate_api::{Error, Result};

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
        let values = self.decode(all)?;
        let field = Arc::new(Field::new("item", self.ty.clone(), true));
        let nulls = NullBuffer::from(valid);
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        Ok(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?)
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

/// The list column at `index` of some partial states.
pub(super) fn list_state(states: &[ArrayRef], index: usize) -> Result<&ListArray> {
    states
        .get(index)
        .and_then(|s| s.as_list_opt::<i32>())
        .ok_or_else(|| Error::internal("a partial state is not the list it should be"))
}

/// The primitive column at `index` of some partial states.
pub(super) fn primitive_state<T: arrow::datatypes::ArrowPrimitiveType>(
    states: &[ArrayRef],
    index: usize,
) -> Result<&PrimitiveArray<T>> {
    states
        .get(index)
        .and_then(|s| s.as_primitive_opt::<T>())
        .ok_or_else(|| Error::internal("a partial state is not the number it should be"))
}
