//! Columns that grow by rows and can be cut back.
//!
//! Arrow's builders only append. A decoder must be able to take a half-read row back, so that a bad message
//! leaves nothing behind, and that is [`Column::truncate`]. A column knows its Flink type and travels as the
//! Arrow array of that type.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, ListArray, MapArray, NullArray,
    NullBufferBuilder, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
};
use tidegate_api::types::{list_field, map_field, row_fields};
use tidegate_api::{Error, Field, LogicalType, Result, TypeKind};

/// Rows reserved at the start of a batch.
const RESERVED_ROWS: usize = 8192;

/// The values of a column, by how they are stored.
pub(crate) enum Data {
    /// Nothing but NULL.
    Null,
    Boolean(BooleanBufferBuilder),
    I8(Vec<i8>),
    I16(Vec<i16>),
    /// `INT`, `DATE`, `TIME`, months.
    I32(Vec<i32>),
    /// `BIGINT`, timestamps up to microseconds, milliseconds of an interval.
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Decimals, timestamps in nanoseconds.
    I128(Vec<i128>),
    /// Character and byte strings.
    Bytes {
        ends: Vec<i32>,
        data: Vec<u8>,
    },
    List {
        ends: Vec<i32>,
        items: Box<Column>,
    },
    Map {
        ends: Vec<i32>,
        keys: Box<Column>,
        values: Box<Column>,
    },
    Row(Vec<Column>),
}

/// A column of one Flink type.
pub(crate) struct Column {
    ty: LogicalType,
    len: usize,
    nulls: NullBufferBuilder,
    pub(crate) data: Data,
}

impl Column {
    /// An empty column.
    pub(crate) fn new(ty: &LogicalType) -> Column {
        Column { ty: ty.clone(), len: 0, nulls: NullBufferBuilder::new(RESERVED_ROWS), data: empty(ty) }
    }

    pub(crate) fn ty(&self) -> &LogicalType {
        &self.ty
    }

    /// The fields of a `ROW` and their columns.
    pub(crate) fn row_parts(&mut self) -> Option<(&[Field], &mut [Column])> {
        match (&self.ty.kind, &mut self.data) {
            (TypeKind::Row(fields), Data::Row(columns)) => Some((fields, columns)),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Says that a value was just put into [`Self::data`].
    #[inline]
    pub(crate) fn pushed(&mut self) {
        self.nulls.append_non_null();
        self.len += 1;
    }

    /// Appends NULL.
    pub(crate) fn push_null(&mut self) {
        match &mut self.data {
            Data::Null => {}
            Data::Boolean(v) => v.append(false),
            Data::I8(v) => v.push(0),
            Data::I16(v) => v.push(0),
            Data::I32(v) => v.push(0),
            Data::I64(v) => v.push(0),
            Data::F32(v) => v.push(0.0),
            Data::F64(v) => v.push(0.0),
            Data::I128(v) => v.push(0),
            Data::Bytes { ends, .. } | Data::List { ends, .. } | Data::Map { ends, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
            }
            Data::Row(columns) => columns.iter_mut().for_each(Column::push_null),
        }
        self.nulls.append_null();
        self.len += 1;
    }

    /// Forgets all rows from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        if let Data::Row(columns) = &mut self.data {
            columns.iter_mut().for_each(|c| c.truncate(len));
        }
        let end = |ends: &mut Vec<i32>| {
            ends.truncate(len + 1);
            ends.last().map_or(0, |e| *e as usize)
        };
        match &mut self.data {
            // A list that failed half-way has elements beyond its last end.
            Data::List { ends, items } => items.truncate(end(ends)),
            Data::Map { ends, keys, values } => {
                let end = end(ends);
                keys.truncate(end);
                values.truncate(end);
            }
            _ if self.len <= len => return,
            Data::Null | Data::Row(_) => {}
            Data::Boolean(v) => v.truncate(len),
            Data::I8(v) => v.truncate(len),
            Data::I16(v) => v.truncate(len),
            Data::I32(v) => v.truncate(len),
            Data::I64(v) => v.truncate(len),
            Data::F32(v) => v.truncate(len),
            Data::F64(v) => v.truncate(len),
            Data::I128(v) => v.truncate(len),
            Data::Bytes { ends, data } => {
                let end = end(ends);
                data.truncate(end);
            }
        }
        if self.len > len {
            self.nulls.truncate(len);
            self.len = len;
        }
    }

    /// Appends a boolean; false if the column holds none.
    pub(crate) fn push_bool(&mut self, value: bool) -> bool {
        let Data::Boolean(v) = &mut self.data else { return false };
        v.append(value);
        self.pushed();
        true
    }

    /// Appends an integer (also days, milliseconds, months); false if it does not fit the column.
    pub(crate) fn push_i64(&mut self, value: i64) -> bool {
        let fits = match &mut self.data {
            Data::I8(v) => i8::try_from(value).map(|x| v.push(x)).is_ok(),
            Data::I16(v) => i16::try_from(value).map(|x| v.push(x)).is_ok(),
            Data::I32(v) => i32::try_from(value).map(|x| v.push(x)).is_ok(),
            Data::I64(v) => {
                v.push(value);
                true
            }
            _ => false,
        };
        if fits {
            self.pushed();
        }
        fits
    }

    /// Appends a float; narrowed for `FLOAT`.
    pub(crate) fn push_f64(&mut self, value: f64) -> bool {
        match &mut self.data {
            Data::F32(v) => v.push(value as f32),
            Data::F64(v) => v.push(value),
            _ => return false,
        }
        self.pushed();
        true
    }

    /// Appends a `FLOAT`.
    pub(crate) fn push_f32(&mut self, value: f32) -> bool {
        self.push_f64(f64::from(value))
    }

    /// Appends the unscaled digits of a decimal.
    pub(crate) fn push_i128(&mut self, value: i128) -> bool {
        let Data::I128(v) = &mut self.data else { return false };
        v.push(value);
        self.pushed();
        true
    }

    /// Appends a timestamp; digits beyond the type's precision are dropped (towards the past).
    #[inline]
    pub(crate) fn push_timestamp(&mut self, seconds: i64, nano: u32) -> bool {
        let (TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision)) = self.ty.kind else { return false };
        // Constant divisors, which the compiler turns into multiplications, where it matters.
        let nano = match precision {
            3 => nano / 1_000_000 * 1_000_000,
            6 => nano / 1000 * 1000,
            _ => nano - nano % 10u32.pow(u32::from(9 - precision.min(9))),
        };
        match (&mut self.data, precision) {
            (Data::I64(v), 0..=3) => v.push(seconds * 1000 + i64::from(nano / 1_000_000)),
            (Data::I64(v), _) => v.push(seconds * 1_000_000 + i64::from(nano / 1000)),
            (Data::I128(v), _) => v.push(i128::from(seconds) * 1_000_000_000 + i128::from(nano)),
            _ => return false,
        }
        self.pushed();
        true
    }

    /// Appends a character or byte string; false if the column would pass 2 GiB.
    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        let Data::Bytes { ends, data } = &mut self.data else { return false };
        let Ok(end) = i32::try_from(data.len() + bytes.len()) else { return false };
        data.extend_from_slice(bytes);
        ends.push(end);
        self.pushed();
        true
    }

    /// Ends a list or map whose elements were pushed into its child columns.
    pub(crate) fn push_nested(&mut self) -> bool {
        let end = match &self.data {
            Data::List { items, .. } => items.len,
            Data::Map { keys, .. } => keys.len,
            Data::Row(_) => 0,
            _ => return false,
        };
        let Ok(end) = i32::try_from(end) else { return false };
        if let Data::List { ends, .. } | Data::Map { ends, .. } = &mut self.data {
            ends.push(end);
        }
        self.pushed();
        true
    }

    /// Takes the rows as an Arrow array and starts again.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let len = std::mem::take(&mut self.len);
        let nulls = self.nulls.finish();
        let taken = std::mem::replace(&mut self.data, Data::Null);
        let ty = self.ty.clone();
        let (data, array) = rebuild(&ty, taken, len, nulls)?;
        self.data = data;
        Ok(array)
    }
}

fn empty(ty: &LogicalType) -> Data {
    let ends = || {
        let mut ends = Vec::with_capacity(RESERVED_ROWS + 1);
        ends.push(0);
        ends
    };
    let boxed = |ty: &LogicalType| Box::new(Column::new(ty));
    match &ty.kind {
        TypeKind::Null => Data::Null,
        TypeKind::Boolean => Data::Boolean(BooleanBufferBuilder::new(RESERVED_ROWS)),
        TypeKind::TinyInt => Data::I8(Vec::with_capacity(RESERVED_ROWS)),
        TypeKind::SmallInt => Data::I16(Vec::with_capacity(RESERVED_ROWS)),
        TypeKind::Int | TypeKind::Date | TypeKind::Time(_) | TypeKind::IntervalYearMonth => {
            Data::I32(Vec::with_capacity(RESERVED_ROWS))
        }
        TypeKind::BigInt | TypeKind::Timestamp(0..=6) | TypeKind::TimestampLtz(0..=6) | TypeKind::IntervalDayTime => {
            Data::I64(Vec::with_capacity(RESERVED_ROWS))
        }
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) | TypeKind::Decimal(..) => {
            Data::I128(Vec::with_capacity(RESERVED_ROWS))
        }
        TypeKind::Float => Data::F32(Vec::with_capacity(RESERVED_ROWS)),
        TypeKind::Double => Data::F64(Vec::with_capacity(RESERVED_ROWS)),
        TypeKind::Char(_) | TypeKind::Varchar(_) | TypeKind::Binary(_) | TypeKind::Varbinary(_) => {
            Data::Bytes { ends: ends(), data: Vec::new() }
        }
        TypeKind::Array(t) => Data::List { ends: ends(), items: boxed(t) },
        TypeKind::Map(k, v) => Data::Map { ends: ends(), keys: boxed(k), values: boxed(v) },
        TypeKind::Multiset(t) => {
            Data::Map { ends: ends(), keys: boxed(t), values: boxed(&LogicalType::not_null(TypeKind::Int)) }
        }
        TypeKind::Row(fields) => Data::Row(fields.iter().map(|f| Column::new(&f.ty)).collect()),
    }
}

/// The array of `data`, and the empty store that follows it (child columns are used again).
fn rebuild(ty: &LogicalType, data: Data, len: usize, nulls: Option<NullBuffer>) -> Result<(Data, ArrayRef)> {
    let array: ArrayRef = match data {
        Data::Null => Arc::new(NullArray::new(len)),
        Data::Boolean(mut v) => Arc::new(BooleanArray::new(v.finish(), nulls)),
        Data::I8(v) => primitive::<Int8Type>(v, nulls)?,
        Data::I16(v) => primitive::<Int16Type>(v, nulls)?,
        Data::I32(v) => match ty.kind {
            TypeKind::Date => primitive::<Date32Type>(v, nulls)?,
            TypeKind::Time(_) => primitive::<Time32MillisecondType>(v, nulls)?,
            _ => primitive::<Int32Type>(v, nulls)?,
        },
        Data::I64(v) => match ty.to_arrow() {
            DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, _) => {
                primitive::<TimestampMillisecondType>(v, nulls)?
            }
            DataType::Timestamp(..) => primitive::<TimestampMicrosecondType>(v, nulls)?,
            _ => primitive::<Int64Type>(v, nulls)?,
        },
        Data::F32(v) => primitive::<Float32Type>(v, nulls)?,
        Data::F64(v) => primitive::<Float64Type>(v, nulls)?,
        Data::I128(v) => {
            let array = PrimitiveArray::<Decimal128Type>::try_new(ScalarBuffer::from(v), nulls)?;
            let (precision, scale) = match ty.kind {
                TypeKind::Decimal(p, s) => (p, s as i8),
                _ => (38, 0),
            };
            let array: Decimal128Array = array.with_precision_and_scale(precision, scale)?;
            Arc::new(array)
        }
        Data::Bytes { ends, data } => {
            let next = Data::Bytes { ends: restart(&ends), data: Vec::with_capacity(data.len()) };
            let (ends, data) = (offsets(ends), Buffer::from_vec(data));
            let array: ArrayRef = if ty.is_string() {
                Arc::new(StringArray::try_new(ends, data, nulls)?)
            } else {
                Arc::new(BinaryArray::try_new(ends, data, nulls)?)
            };
            return Ok((next, array));
        }
        Data::List { ends, mut items } => {
            let element = items.finish()?;
            let array = ListArray::try_new(list_field(&items.ty), offsets(ends), element, nulls)?;
            return Ok((Data::List { ends: vec![0], items }, Arc::new(array)));
        }
        Data::Map { ends, mut keys, mut values } => {
            return rebuild_map(ends, &mut keys, &mut values, nulls)
                .map(|array| (Data::Map { ends: vec![0], keys, values }, array));
        }
        Data::Row(mut columns) => {
            let arrays = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
            let TypeKind::Row(fields) = &ty.kind else { return Err(Error::internal("a row column of another type")) };
            let array = if fields.is_empty() {
                StructArray::new_empty_fields(len, nulls)
            } else {
                StructArray::try_new(row_fields(fields), arrays, nulls)?
            };
            return Ok((Data::Row(columns), Arc::new(array)));
        }
    };
    Ok((empty(ty), array))
}

fn rebuild_map(ends: Vec<i32>, keys: &mut Column, values: &mut Column, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let field = map_field(&keys.ty, &values.ty);
    let DataType::Struct(fields) = field.data_type() else { return Err(Error::internal("map entries are a struct")) };
    let fields: Fields = fields.clone();
    let entries = StructArray::try_new(fields, vec![keys.finish()?, values.finish()?], None)?;
    Ok(Arc::new(MapArray::try_new(field, offsets(ends), entries, nulls, false)?))
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?))
}

fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn restart(ends: &[i32]) -> Vec<i32> {
    let mut fresh = Vec::with_capacity(ends.len().max(RESERVED_ROWS + 1));
    fresh.push(0);
    fresh
}

/// Takes all columns.
pub(crate) fn finish_all(columns: &mut [Column]) -> Result<Vec<ArrayRef>> {
    columns.iter_mut().map(Column::finish).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;

    use super::*;

    #[test]
    fn a_truncated_row_leaves_nothing_behind() {
        let ty = LogicalType::new(TypeKind::Array(Box::new(LogicalType::string())));
        let mut column = Column::new(&ty);
        for half_read in [false, true] {
            if let Data::List { items, .. } = &mut column.data {
                assert!(items.push_bytes(b"kept?"));
            }
            if !half_read {
                assert!(column.push_nested());
            }
        }
        column.truncate(1);
        column.push_null();
        let array = column.finish().expect("array");
        assert_eq!(array.len(), 2);
        assert_eq!(array.null_count(), 1);
        assert_eq!(array.data_type(), &ty.to_arrow());
        let list = array.as_any().downcast_ref::<ListArray>().expect("list");
        assert_eq!(list.values().len(), 1);
    }

    #[test]
    fn timestamps_drop_what_the_type_cannot_hold() {
        for (kind, expected) in [
            (TypeKind::Timestamp(3), -1000 + 387),
            (TypeKind::Timestamp(0), -1000),
            (TypeKind::TimestampLtz(6), -1_000_000 + 387_344),
        ] {
            let mut column = Column::new(&LogicalType::new(kind));
            assert!(column.push_timestamp(-1, 387_344_020));
            let Data::I64(values) = &column.data else { panic!("stored as i64") };
            assert_eq!(values, &[expected]);
        }
    }
}
