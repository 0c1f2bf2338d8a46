//! Reading Arrow columns value by value, for everything that writes text.
//!
//! A [`View`] looks a column's array up once per batch; [`View::get`] then gives plain values. Printing, JSON and
//! CSV differ only in how they spell these.

use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use tidegate_api::{Error, Field, LogicalType, Result, TypeKind};

/// One value.
pub(crate) enum Cell<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f32),
    Double(f64),
    /// Unscaled digits and scale.
    Decimal(i128, u8),
    Text(&'v str),
    Bytes(&'v [u8]),
    Date(i32),
    /// Milliseconds of the day.
    Time(i32),
    /// Nanoseconds since the epoch.
    Timestamp(i128),
    /// Nanoseconds since the epoch.
    TimestampLtz(i128),
    /// Months.
    Months(i32),
    /// Milliseconds.
    Millis(i64),
    /// Elements `start..end` of the view.
    List(&'v View<'v>, usize, usize),
    /// Entries `start..end` of the key and value views.
    Map(&'v View<'v>, &'v View<'v>, usize, usize),
    /// One value of each field's view.
    Row(&'v [Field], &'v [View<'v>], usize),
}

enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    I128(&'a [i128]),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    List(&'a OffsetBuffer<i32>, Box<View<'a>>),
    Map(&'a OffsetBuffer<i32>, Box<View<'a>>, Box<View<'a>>),
    Row(Vec<View<'a>>),
}

/// A column of one batch.
pub(crate) struct View<'a> {
    kind: &'a TypeKind,
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

const COUNT: TypeKind = TypeKind::Int;

impl<'a> View<'a> {
    /// Looks up the array of a column of type `ty`.
    pub(crate) fn new(array: &'a dyn Array, ty: &'a LogicalType) -> Result<View<'a>> {
        Self::of_kind(array, &ty.kind)
    }

    fn of_kind(array: &'a dyn Array, kind: &'a TypeKind) -> Result<View<'a>> {
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int8 => Values::I8(primitive::<Int8Type>(array)),
            DataType::Int16 => Values::I16(primitive::<Int16Type>(array)),
            DataType::Int32 => Values::I32(primitive::<Int32Type>(array)),
            DataType::Date32 => Values::I32(primitive::<Date32Type>(array)),
            DataType::Time32(TimeUnit::Millisecond) => Values::I32(primitive::<Time32MillisecondType>(array)),
            DataType::Int64 => Values::I64(primitive::<Int64Type>(array)),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Values::I64(primitive::<TimestampMillisecondType>(array)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Values::I64(primitive::<TimestampMicrosecondType>(array)),
            DataType::Float32 => Values::F32(primitive::<Float32Type>(array)),
            DataType::Float64 => Values::F64(primitive::<Float64Type>(array)),
            DataType::Decimal128(..) => Values::I128(primitive::<Decimal128Type>(array)),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::Binary => Values::Bytes(array.as_binary()),
            DataType::List(_) => Self::list(array.as_list(), kind)?,
            DataType::Map(..) => Self::map(array.as_map(), kind)?,
            DataType::Struct(_) => Self::row(array.as_struct(), kind)?,
            other => return Err(Error::internal(format!("no Flink type travels as {other}"))),
        };
        Ok(View { kind, nulls: array.nulls(), values })
    }

    fn list(array: &'a ListArray, kind: &'a TypeKind) -> Result<Values<'a>> {
        let TypeKind::Array(element) = kind else { return Err(mismatch(kind)) };
        Ok(Values::List(array.offsets(), Box::new(View::new(array.values(), element)?)))
    }

    fn map(array: &'a MapArray, kind: &'a TypeKind) -> Result<Values<'a>> {
        let (key, value) = match kind {
            TypeKind::Map(key, value) => (&key.kind, &value.kind),
            TypeKind::Multiset(element) => (&element.kind, &COUNT),
            _ => return Err(mismatch(kind)),
        };
        let (keys, values) = (View::of_kind(array.keys(), key)?, View::of_kind(array.values(), value)?);
        Ok(Values::Map(array.offsets(), Box::new(keys), Box::new(values)))
    }

    fn row(array: &'a StructArray, kind: &'a TypeKind) -> Result<Values<'a>> {
        let TypeKind::Row(fields) = kind else { return Err(mismatch(kind)) };
        let columns = array.columns().iter().zip(fields);
        Ok(Values::Row(columns.map(|(array, field)| View::new(array, &field.ty)).collect::<Result<_>>()?))
    }

    /// The type of the column.
    pub(crate) fn kind(&self) -> &'a TypeKind {
        self.kind
    }

    /// The value of row `i`.
    #[inline]
    pub(crate) fn get(&'a self, i: usize) -> Cell<'a> {
        if self.nulls.is_some_and(|n| n.is_null(i)) {
            return Cell::Null;
        }
        match &self.values {
            Values::Null => Cell::Null,
            Values::Boolean(v) => Cell::Bool(v.value(i)),
            Values::I8(v) => Cell::Int(i64::from(v[i])),
            Values::I16(v) => Cell::Int(i64::from(v[i])),
            Values::I32(v) => match self.kind {
                TypeKind::Date => Cell::Date(v[i]),
                TypeKind::Time(_) => Cell::Time(v[i]),
                TypeKind::IntervalYearMonth => Cell::Months(v[i]),
                _ => Cell::Int(i64::from(v[i])),
            },
            Values::I64(v) => match self.kind {
                TypeKind::Timestamp(p) => Cell::Timestamp(to_nanos(v[i], *p)),
                TypeKind::TimestampLtz(p) => Cell::TimestampLtz(to_nanos(v[i], *p)),
                TypeKind::IntervalDayTime => Cell::Millis(v[i]),
                _ => Cell::Int(v[i]),
            },
            Values::F32(v) => Cell::Float(v[i]),
            Values::F64(v) => Cell::Double(v[i]),
            Values::I128(v) => match self.kind {
                TypeKind::Timestamp(_) => Cell::Timestamp(v[i]),
                TypeKind::TimestampLtz(_) => Cell::TimestampLtz(v[i]),
                TypeKind::Decimal(_, scale) => Cell::Decimal(v[i], *scale),
                _ => Cell::Decimal(v[i], 0),
            },
            Values::Text(v) => Cell::Text(v.value(i)),
            Values::Bytes(v) => Cell::Bytes(v.value(i)),
            Values::List(ends, items) => Cell::List(items, ends[i] as usize, ends[i + 1] as usize),
            Values::Map(ends, keys, values) => Cell::Map(keys, values, ends[i] as usize, ends[i + 1] as usize),
            Values::Row(columns) => match self.kind {
                TypeKind::Row(fields) => Cell::Row(fields, columns, i),
                _ => Cell::Null,
            },
        }
    }
}

/// Appends formatted text, which cannot fail for a `String`.
pub(crate) fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = std::fmt::Write::write_fmt(out, text);
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.values()
}

fn to_nanos(value: i64, precision: u8) -> i128 {
    i128::from(value) * if precision <= 3 { 1_000_000 } else { 1000 }
}

fn mismatch(kind: &TypeKind) -> Error {
    Error::internal(format!("an array of another type than {}", LogicalType::new(kind.clone())))
}
