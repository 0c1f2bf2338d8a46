//! Hashes of key columns, in the canonical form of `tidegate_state::KeyBytes`.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
    ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result, Schema};
use tidegate_state::KeyBytes;

/// What a key column holds, as far as hashing goes.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Null,
    Boolean,
    Int(DataType),
    Float32,
    Float64,
    Decimal,
    /// A timestamp in this many nanoseconds a unit.
    Timestamp(i128),
    String,
    Binary,
    List(Box<Shape>),
    Struct(Vec<Shape>),
    Map(Box<Shape>, Box<Shape>),
}

impl Shape {
    fn of(ty: &LogicalType) -> Shape {
        match &ty.kind {
            TypeKind::Null => Shape::Null,
            TypeKind::Boolean => Shape::Boolean,
            TypeKind::Float => Shape::Float32,
            TypeKind::Double => Shape::Float64,
            TypeKind::Decimal(..) => Shape::Decimal,
            TypeKind::Char(_) | TypeKind::Varchar(_) => Shape::String,
            TypeKind::Binary(_) | TypeKind::Varbinary(_) => Shape::Binary,
            TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => match ty.to_arrow() {
                DataType::Timestamp(TimeUnit::Millisecond, _) => Shape::Timestamp(1_000_000),
                DataType::Timestamp(_, _) => Shape::Timestamp(1_000),
                _ => Shape::Timestamp(1),
            },
            TypeKind::Array(element) => Shape::List(Box::new(Shape::of(element))),
            TypeKind::Map(key, value) => Shape::Map(Box::new(Shape::of(key)), Box::new(Shape::of(value))),
            TypeKind::Multiset(element) => {
                Shape::Map(Box::new(Shape::of(element)), Box::new(Shape::Int(DataType::Int32)))
            }
            TypeKind::Row(fields) => Shape::Struct(fields.iter().map(|f| Shape::of(&f.ty)).collect()),
            TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::BigInt
            | TypeKind::Date
            | TypeKind::Time(_)
            | TypeKind::IntervalYearMonth
            | TypeKind::IntervalDayTime => Shape::Int(ty.to_arrow()),
        }
    }
}

/// A key column of one batch.
enum KeyColumn<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int64(&'a Int64Array),
    /// Narrower integers, widened once per batch.
    Widened(Int64Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Wide(&'a Decimal128Array),
    Timestamp(Int64Array, i128),
    String(&'a StringArray),
    Binary(&'a BinaryArray),
    List(&'a ListArray, Box<KeyColumn<'a>>),
    Struct(&'a StructArray, Vec<KeyColumn<'a>>),
    Map(&'a MapArray, Box<KeyColumn<'a>>, Box<KeyColumn<'a>>),
}

fn mismatch(shape: &Shape, array: &dyn Array) -> Error {
    Error::internal(format!("a key column of shape {shape:?} arrived as {}", array.data_type()))
}

fn widen<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Int64Array>
where
    T::Native: Into<i64>,
{
    array.as_primitive_opt::<T>().map(|a: &PrimitiveArray<T>| a.unary(Into::into))
}

fn timestamps(array: &dyn Array) -> Option<Int64Array> {
    widen::<TimestampMillisecondType>(array).or_else(|| widen::<TimestampMicrosecondType>(array))
}

impl<'a> KeyColumn<'a> {
    fn new(array: &'a ArrayRef, shape: &Shape) -> Result<KeyColumn<'a>> {
        let a: &'a dyn Array = array.as_ref();
        let column = match shape {
            Shape::Null => Some(KeyColumn::Null),
            Shape::Boolean => a.as_boolean_opt().map(KeyColumn::Boolean),
            Shape::Int(DataType::Int64) => a.as_primitive_opt::<Int64Type>().map(KeyColumn::Int64),
            Shape::Int(_) => widen::<Int32Type>(a)
                .or_else(|| widen::<Int16Type>(a))
                .or_else(|| widen::<Int8Type>(a))
                .or_else(|| widen::<Date32Type>(a))
                .or_else(|| widen::<Time32MillisecondType>(a))
                .map(KeyColumn::Widened),
            Shape::Float32 => a.as_primitive_opt::<Float32Type>().map(KeyColumn::Float32),
            Shape::Float64 => a.as_primitive_opt::<Float64Type>().map(KeyColumn::Float64),
            Shape::Decimal | Shape::Timestamp(1) => a.as_primitive_opt::<Decimal128Type>().map(KeyColumn::Wide),
            Shape::Timestamp(scale) => timestamps(a).map(|t| KeyColumn::Timestamp(t, *scale)),
            Shape::String => a.as_string_opt::<i32>().map(KeyColumn::String),
            Shape::Binary => a.as_binary_opt::<i32>().map(KeyColumn::Binary),
            Shape::List(element) => match a.as_list_opt::<i32>() {
                Some(list) => Some(KeyColumn::List(list, Box::new(KeyColumn::new(list.values(), element)?))),
                None => None,
            },
            Shape::Struct(fields) => match a.as_struct_opt() {
                Some(rows) => {
                    let columns = rows.columns().iter().zip(fields).map(|(c, s)| KeyColumn::new(c, s));
                    Some(KeyColumn::Struct(rows, columns.collect::<Result<_>>()?))
                }
                None => None,
            },
            Shape::Map(key, value) => match a.as_map_opt() {
                Some(map) => Some(KeyColumn::Map(
                    map,
                    Box::new(KeyColumn::new(map.keys(), key)?),
                    Box::new(KeyColumn::new(map.values(), value)?),
                )),
                None => None,
            },
        };
        column.ok_or_else(|| mismatch(shape, a))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            KeyColumn::Null => true,
            KeyColumn::Boolean(a) => a.is_null(row),
            KeyColumn::Int64(a) => a.is_null(row),
            KeyColumn::Widened(a) | KeyColumn::Timestamp(a, _) => a.is_null(row),
            KeyColumn::Float32(a) => a.is_null(row),
            KeyColumn::Float64(a) => a.is_null(row),
            KeyColumn::Wide(a) => a.is_null(row),
            KeyColumn::String(a) => a.is_null(row),
            KeyColumn::Binary(a) => a.is_null(row),
            KeyColumn::List(a, _) => a.is_null(row),
            KeyColumn::Struct(a, _) => a.is_null(row),
            KeyColumn::Map(a, _, _) => a.is_null(row),
        }
    }

    fn write(&self, row: usize, key: &mut KeyBytes) {
        if self.is_null(row) {
            return key.null();
        }
        key.present();
        match self {
            KeyColumn::Null => {}
            KeyColumn::Boolean(a) => key.boolean(a.value(row)),
            KeyColumn::Int64(a) => key.int(a.value(row)),
            KeyColumn::Widened(a) => key.int(a.value(row)),
            KeyColumn::Float32(a) => key.double(f64::from(a.value(row))),
            KeyColumn::Float64(a) => key.double(a.value(row)),
            KeyColumn::Wide(a) => key.wide(a.value(row)),
            KeyColumn::Timestamp(a, scale) => key.wide(i128::from(a.value(row)) * scale),
            KeyColumn::String(a) => key.bytes(a.value(row).as_bytes()),
            KeyColumn::Binary(a) => key.bytes(a.value(row)),
            KeyColumn::List(a, elements) => {
                let (from, to) = (a.value_offsets()[row] as usize, a.value_offsets()[row + 1] as usize);
                key.length(to - from);
                (from..to).for_each(|element| elements.write(element, key));
            }
            KeyColumn::Struct(_, fields) => fields.iter().for_each(|field| field.write(row, key)),
            KeyColumn::Map(a, keys, values) => {
                let (from, to) = (a.value_offsets()[row] as usize, a.value_offsets()[row + 1] as usize);
                key.length(to - from);
                let hashes = (from..to).map(|entry| {
                    let mut bytes = KeyBytes::default();
                    keys.write(entry, &mut bytes);
                    values.write(entry, &mut bytes);
                    bytes.hash()
                });
                key.hash_sum(hashes.fold(0, u64::wrapping_add));
            }
        }
    }
}

/// Hashes the key columns of batches.
pub(crate) struct KeyHasher {
    columns: Vec<(usize, Shape)>,
    key: KeyBytes,
}

impl KeyHasher {
    /// Hashes these columns of `schema`. Without columns every row has the same key.
    pub(crate) fn new(columns: &[usize], schema: &Schema) -> Result<Self> {
        let shapes = columns.iter().map(|column| match schema.fields.get(*column) {
            Some(field) => Ok((*column, Shape::of(&field.ty))),
            None => Err(Error::internal(format!("key column {column} of {} columns", schema.len()))),
        });
        Ok(KeyHasher { columns: shapes.collect::<Result<_>>()?, key: KeyBytes::default() })
    }

    /// Calls `f` with each row's hash, in order.
    pub(crate) fn each(&mut self, batch: &RecordBatch, mut f: impl FnMut(u64)) -> Result<()> {
        let columns = self.columns.iter().map(|(i, shape)| KeyColumn::new(batch.column(*i), shape));
        let columns: Vec<KeyColumn<'_>> = columns.collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            self.key.clear();
            for column in &columns {
                column.write(row, &mut self.key);
            }
            f(self.key.hash());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tidegate_api::Field;

    fn hashes(kind: TypeKind, array: ArrayRef) -> Vec<u64> {
        let schema = Schema::new(vec![Field::new("k", LogicalType::new(kind))]);
        let batch = RecordBatch::try_new(schema.to_arrow(), vec![array]).unwrap();
        let mut found = Vec::new();
        KeyHasher::new(&[0], &schema).unwrap().each(&batch, |hash| found.push(hash)).unwrap();
        found
    }

    #[test]
    fn a_key_hashes_by_value_whatever_its_width() {
        let ints = hashes(TypeKind::Int, Arc::new(arrow::array::Int32Array::from(vec![Some(42), None])));
        let longs = hashes(TypeKind::BigInt, Arc::new(Int64Array::from(vec![Some(42), None])));
        assert_eq!(ints, longs);
        assert_eq!(ints, [4435642637180117100, 14144645293874801883], "the vectors of KeyBytes");
        let ms = arrow::array::TimestampMillisecondArray::from(vec![1_001]);
        let us = arrow::array::TimestampMicrosecondArray::from(vec![1_001_000]);
        assert_eq!(hashes(TypeKind::Timestamp(3), Arc::new(ms)), hashes(TypeKind::TimestampLtz(6), Arc::new(us)));
    }

    #[test]
    fn a_slice_hashes_like_a_copy() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(9)]),
            Some(vec![Some(1), None]),
            None,
        ]);
        let kind = TypeKind::Array(Box::new(LogicalType::new(TypeKind::Int)));
        let whole = hashes(kind.clone(), Arc::new(list.clone()));
        assert_eq!(hashes(kind, Arc::new(list.slice(1, 2))), whole[1..]);
    }
}
