//! Columns seen one value at a time: the slow path for literals, `VALUES` and nested types.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, ListArray, MapArray, NullArray, PrimitiveArray, StringArray,
    StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use tidegate_api::types::{LogicalType, TypeKind, list_field, row_fields};
use tidegate_api::value::Value;

const NANOS_PER_MS: i128 = 1_000_000;
const NANOS_PER_US: i128 = 1000;

/// The value of one row of a column of type `ty`; NULL also where the column does not fit the type.
pub fn value_at(array: &dyn Array, ty: &LogicalType, row: usize) -> Value {
    if row >= array.len() || array.is_null(row) {
        return Value::Null;
    }
    read(array, ty, row).unwrap_or(Value::Null)
}

fn int<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<T::Native> {
    array.as_primitive_opt::<T>().map(|a| a.value(row))
}

fn read(array: &dyn Array, ty: &LogicalType, row: usize) -> Option<Value> {
    Some(match &ty.kind {
        TypeKind::Null => Value::Null,
        TypeKind::Boolean => Value::Boolean(array.as_boolean_opt()?.value(row)),
        TypeKind::TinyInt => Value::Int(int::<Int8Type>(array, row)?.into()),
        TypeKind::SmallInt => Value::Int(int::<Int16Type>(array, row)?.into()),
        TypeKind::Int | TypeKind::IntervalYearMonth => Value::Int(int::<Int32Type>(array, row)?.into()),
        TypeKind::BigInt | TypeKind::IntervalDayTime => Value::Int(int::<Int64Type>(array, row)?),
        TypeKind::Float => Value::Double(int::<Float32Type>(array, row)?.into()),
        TypeKind::Double => Value::Double(int::<Float64Type>(array, row)?),
        TypeKind::Decimal(..) => Value::Decimal(int::<Decimal128Type>(array, row)?),
        TypeKind::Char(_) | TypeKind::Varchar(_) => Value::String(array.as_string_opt::<i32>()?.value(row).to_string()),
        TypeKind::Binary(_) | TypeKind::Varbinary(_) => Value::Bytes(array.as_binary_opt::<i32>()?.value(row).to_vec()),
        TypeKind::Date => Value::Int(int::<Date32Type>(array, row)?.into()),
        TypeKind::Time(_) => Value::Int(int::<Time32MillisecondType>(array, row)?.into()),
        TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => Value::Timestamp(nanos(array, *p, row)?),
        TypeKind::Array(t) => {
            let items = array.as_list_opt::<i32>()?.value(row);
            Value::Array((0..items.len()).map(|i| value_at(&items, t, i)).collect())
        }
        TypeKind::Map(k, v) => entries(array, k, v, row)?,
        TypeKind::Multiset(t) => entries(array, t, &LogicalType::new(TypeKind::Int), row)?,
        TypeKind::Row(fields) => {
            let columns = array.as_struct_opt()?;
            Value::Row(fields.iter().zip(columns.columns()).map(|(f, c)| value_at(c, &f.ty, row)).collect())
        }
    })
}

fn entries(array: &dyn Array, key: &LogicalType, value: &LogicalType, row: usize) -> Option<Value> {
    let entries = array.as_map_opt()?.value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    Some(Value::Map((0..entries.len()).map(|i| (value_at(keys, key, i), value_at(values, value, i))).collect()))
}

fn nanos(array: &dyn Array, precision: u8, row: usize) -> Option<i128> {
    Some(match precision {
        0..=3 => i128::from(int::<TimestampMillisecondType>(array, row)?) * NANOS_PER_MS,
        4..=6 => i128::from(int::<TimestampMicrosecondType>(array, row)?) * NANOS_PER_US,
        _ => int::<Decimal128Type>(array, row)?,
    })
}

/// A column of type `ty` of these values. A value that is not of that type becomes NULL.
pub fn array_from_values<'a, I>(values: I, ty: &LogicalType) -> ArrayRef
where
    I: IntoIterator<Item = &'a Value>,
{
    from_refs(&values.into_iter().collect::<Vec<_>>(), ty)
}

/// Not generic, since it calls itself for nested types.
fn from_refs(values: &[&Value], ty: &LogicalType) -> ArrayRef {
    match &ty.kind {
        TypeKind::Null => Arc::new(NullArray::new(values.len())),
        TypeKind::Boolean => {
            let cells = values.iter().map(|v| if let Value::Boolean(b) = v { Some(*b) } else { None });
            Arc::new(cells.collect::<BooleanArray>())
        }
        TypeKind::TinyInt => ints::<Int8Type>(values, |i| i as i8),
        TypeKind::SmallInt => ints::<Int16Type>(values, |i| i as i16),
        TypeKind::Int | TypeKind::IntervalYearMonth => ints::<Int32Type>(values, |i| i as i32),
        TypeKind::BigInt | TypeKind::IntervalDayTime => ints::<Int64Type>(values, |i| i),
        TypeKind::Date => ints::<Date32Type>(values, |i| i as i32),
        TypeKind::Time(_) => ints::<Time32MillisecondType>(values, |i| i as i32),
        TypeKind::Float => doubles::<Float32Type>(values, |d| d as f32),
        TypeKind::Double => doubles::<Float64Type>(values, |d| d),
        TypeKind::Decimal(..) => {
            let cells = values.iter().map(|v| if let Value::Decimal(d) = v { Some(*d) } else { None });
            Arc::new(cells.collect::<PrimitiveArray<Decimal128Type>>().with_data_type(ty.to_arrow()))
        }
        TypeKind::Char(_) | TypeKind::Varchar(_) => {
            let cells = values.iter().map(|v| if let Value::String(s) = v { Some(s.as_str()) } else { None });
            Arc::new(cells.collect::<StringArray>())
        }
        TypeKind::Binary(_) | TypeKind::Varbinary(_) => {
            let cells = values.iter().map(|v| if let Value::Bytes(b) = v { Some(b.as_slice()) } else { None });
            Arc::new(cells.collect::<BinaryArray>())
        }
        TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => timestamps(values, *p),
        TypeKind::Array(t) => lists(values, t),
        TypeKind::Map(k, v) => maps(values, ty, k, v),
        TypeKind::Multiset(t) => maps(values, ty, t, &LogicalType::new(TypeKind::Int)),
        TypeKind::Row(fields) => {
            let columns = (0..fields.len()).map(|i| {
                let cells = values.iter().map(|v| match v {
                    Value::Row(cells) => cells.get(i).unwrap_or(&Value::Null),
                    _ => &Value::Null,
                });
                from_refs(&cells.collect::<Vec<_>>(), &fields[i].ty)
            });
            let valid: NullBuffer = values.iter().map(|v| matches!(v, Value::Row(_))).collect();
            structs(row_fields(fields), columns.collect(), valid, values.len())
        }
    }
}

/// A struct column; one without fields keeps its length.
pub(super) fn structs(
    fields: arrow::datatypes::Fields,
    columns: Vec<ArrayRef>,
    valid: NullBuffer,
    rows: usize,
) -> ArrayRef {
    let data_type = DataType::Struct(fields.clone());
    match StructArray::try_new_with_length(fields, columns, Some(valid), rows) {
        Ok(array) => Arc::new(array),
        Err(_) => new_null_array(&data_type, rows),
    }
}

fn ints<T: ArrowPrimitiveType>(values: &[&Value], narrow: impl Fn(i64) -> T::Native) -> ArrayRef {
    let cells = values.iter().map(|v| if let Value::Int(i) = v { Some(narrow(*i)) } else { None });
    Arc::new(cells.collect::<Vec<_>>().into_iter().collect::<PrimitiveArrayOf<T>>().0)
}

fn doubles<T: ArrowPrimitiveType>(values: &[&Value], narrow: impl Fn(f64) -> T::Native) -> ArrayRef {
    let cells = values.iter().map(|v| if let Value::Double(d) = v { Some(narrow(*d)) } else { None });
    Arc::new(cells.collect::<PrimitiveArrayOf<T>>().0)
}

/// Collects native values of any primitive type.
struct PrimitiveArrayOf<T: ArrowPrimitiveType>(PrimitiveArray<T>);

impl<T: ArrowPrimitiveType> FromIterator<Option<T::Native>> for PrimitiveArrayOf<T> {
    fn from_iter<I: IntoIterator<Item = Option<T::Native>>>(iter: I) -> Self {
        let mut builder = arrow::array::PrimitiveBuilder::<T>::new();
        for cell in iter {
            builder.append_option(cell);
        }
        PrimitiveArrayOf(builder.finish())
    }
}

fn timestamps(values: &[&Value], precision: u8) -> ArrayRef {
    let cells = values.iter().map(|v| if let Value::Timestamp(t) = v { Some(*t) } else { None });
    match precision {
        0..=3 => Arc::new(
            cells
                .map(|t| t.map(|t| t.div_euclid(NANOS_PER_MS) as i64))
                .collect::<PrimitiveArrayOf<TimestampMillisecondType>>()
                .0,
        ),
        4..=6 => Arc::new(
            cells
                .map(|t| t.map(|t| t.div_euclid(NANOS_PER_US) as i64))
                .collect::<PrimitiveArrayOf<TimestampMicrosecondType>>()
                .0,
        ),
        _ => {
            Arc::new(cells.collect::<PrimitiveArrayOf<Decimal128Type>>().0.with_data_type(DataType::Decimal128(38, 0)))
        }
    }
}

fn lists(values: &[&Value], element: &LogicalType) -> ArrayRef {
    let lengths = values.iter().map(|v| if let Value::Array(items) = v { items.len() } else { 0 });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let items = values.iter().flat_map(|v| if let Value::Array(items) = v { items.as_slice() } else { &[] });
    let items = from_refs(&items.collect::<Vec<_>>(), element);
    let valid: NullBuffer = values.iter().map(|v| matches!(v, Value::Array(_))).collect();
    Arc::new(ListArray::new(list_field(element), offsets, items, Some(valid)))
}

fn maps(values: &[&Value], ty: &LogicalType, key: &LogicalType, value: &LogicalType) -> ArrayRef {
    let entries_of = |v: &&'_ Value| if let Value::Map(entries) = v { entries.len() } else { 0 };
    let offsets = OffsetBuffer::from_lengths(values.iter().map(entries_of));
    let flat = || values.iter().flat_map(|v| if let Value::Map(entries) = v { entries.as_slice() } else { &[] });
    let keys = from_refs(&flat().map(|(k, _)| k).collect::<Vec<_>>(), key);
    let cells = from_refs(&flat().map(|(_, v)| v).collect::<Vec<_>>(), value);
    let valid: NullBuffer = values.iter().map(|v| matches!(v, Value::Map(_))).collect();
    map_array(ty, offsets, keys, cells, Some(valid)).unwrap_or_else(|_| new_null_array(&ty.to_arrow(), values.len()))
}

/// A map column of type `ty` from its flattened entries. Fails on a NULL key, which Arrow's maps
/// cannot hold.
pub fn map_array(
    ty: &LogicalType,
    offsets: OffsetBuffer<i32>,
    keys: ArrayRef,
    values: ArrayRef,
    valid: Option<NullBuffer>,
) -> Result<ArrayRef, arrow::error::ArrowError> {
    let DataType::Map(field, sorted) = ty.to_arrow() else {
        return Err(arrow::error::ArrowError::SchemaError(format!("{ty} is no map")));
    };
    let DataType::Struct(fields) = field.data_type() else {
        return Err(arrow::error::ArrowError::SchemaError(format!("{ty} has no entries")));
    };
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, valid, sorted)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::types::Field;

    #[test]
    fn nested_values_survive_the_trip_through_columns() {
        let row = LogicalType::new(TypeKind::Row(vec![
            Field::new("a", LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::Decimal(10, 2)))))),
            Field::new(
                "m",
                LogicalType::new(TypeKind::Map(
                    Box::new(LogicalType::string()),
                    Box::new(LogicalType::new(TypeKind::Timestamp(9))),
                )),
            ),
        ]));
        let values = [
            Value::Row(vec![
                Value::Array(vec![Value::Decimal(150), Value::Null]),
                Value::Map(vec![(Value::String("k".into()), Value::Timestamp(-1))]),
            ]),
            Value::Null,
            Value::Row(vec![Value::Null, Value::Map(vec![])]),
        ];
        let array = array_from_values(&values, &row);
        assert_eq!(array.data_type(), &row.to_arrow());
        let back: Vec<Value> = (0..3).map(|i| value_at(&array, &row, i)).collect();
        assert_eq!(back, values);
    }
}
