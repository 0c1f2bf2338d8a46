//! Rows of columns as bytes, for state, and back.
//!
//! The encoding is fixed for ever: what one version writes every later one reads. A row is its columns one
//! after the other; each is a byte that says NULL (0) or a value (1), and the value:
//!
//! ```text
//! BOOLEAN                         1 byte, 0 or 1
//! integers, dates, times          little endian, as wide as the type (1, 2, 4, 8 bytes)
//! FLOAT, DOUBLE                   the IEEE bits, little endian
//! decimals, TIMESTAMP(7..9)       16 bytes, little endian
//! strings, binaries               length as a varint, bytes
//! ARRAY                           number of elements as a varint, each as a column
//! MAP, MULTISET                   number of entries as a varint, key and value each as a column
//! ROW                             each field as a column
//! ```
//!
//! An element of a list is its length as a varint, and a row.
//!
//! A row that ends early has NULL in the columns that are missing, so that columns can be added at the end.

use std::sync::Arc;

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, ListArray, MapArray, NullArray, NullBufferBuilder,
    PrimitiveBuilder, StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef, Fields, TimeUnit};
use tidegate_api::{Error, Result};

const NULL: u8 = 0;
const VALUE: u8 = 1;

/// Calls a macro with the Arrow type of every fixed-width type that state may hold.
macro_rules! each_primitive {
    ($call:ident) => {
        $call!(
            Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type, Float32 => Float32Type,
            Float64 => Float64Type, Date32 => Date32Type, Millis => TimestampMillisecondType,
            Micros => TimestampMicrosecondType, Time => Time32MillisecondType, Decimal => Decimal128Type
        )
    };
}

/// Appends row `row` of these columns to `into`.
pub(crate) fn encode_row(columns: &[ArrayRef], row: usize, into: &mut Vec<u8>) -> Result<()> {
    columns.iter().try_for_each(|column| encode(column.as_ref(), row, into))
}

/// Appends row `row` of these columns as an element of a list: its length, then the row.
pub(crate) fn encode_list_row(
    columns: &[ArrayRef],
    row: usize,
    scratch: &mut Vec<u8>,
    into: &mut Vec<u8>,
) -> Result<()> {
    scratch.clear();
    encode_row(columns, row, scratch)?;
    put_bytes(scratch, into);
    Ok(())
}

/// The first column of an encoded row: a BIGINT that is not NULL.
pub(crate) fn first_number(row: &[u8]) -> Result<i64> {
    match row.split_first() {
        Some((&VALUE, rest)) => {
            let number = rest.first_chunk().ok_or_else(|| damaged("it ends early"))?;
            Ok(i64::from_le_bytes(*number))
        }
        _ => Err(damaged("its first column is missing")),
    }
}

fn encode(column: &dyn Array, row: usize, into: &mut Vec<u8>) -> Result<()> {
    if *column.data_type() == DataType::Null || column.is_null(row) {
        into.push(NULL);
        return Ok(());
    }
    into.push(VALUE);
    macro_rules! fixed {
        ($ty:ty) => {
            into.extend_from_slice(&column.as_primitive::<$ty>().value(row).to_le_bytes())
        };
    }
    match column.data_type() {
        DataType::Boolean => into.push(u8::from(column.as_boolean().value(row))),
        DataType::Int8 => fixed!(Int8Type),
        DataType::Int16 => fixed!(Int16Type),
        DataType::Int32 => fixed!(Int32Type),
        DataType::Int64 => fixed!(Int64Type),
        DataType::Float32 => fixed!(Float32Type),
        DataType::Float64 => fixed!(Float64Type),
        DataType::Date32 => fixed!(Date32Type),
        DataType::Time32(TimeUnit::Millisecond) => fixed!(Time32MillisecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => fixed!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => fixed!(TimestampMicrosecondType),
        DataType::Decimal128(_, _) => fixed!(Decimal128Type),
        DataType::Utf8 => put_bytes(column.as_string::<i32>().value(row).as_bytes(), into),
        DataType::Binary => put_bytes(column.as_binary::<i32>().value(row), into),
        DataType::List(_) => {
            let list = column.as_list::<i32>().value(row);
            put_length(list.len(), into);
            (0..list.len()).try_for_each(|i| encode(list.as_ref(), i, into))?;
        }
        DataType::Map(_, _) => {
            let entries = column.as_map().value(row);
            put_length(entries.len(), into);
            (0..entries.len()).try_for_each(|i| encode_row(entries.columns(), i, into))?;
        }
        DataType::Struct(_) => encode_row(column.as_struct().columns(), row, into)?,
        other => return Err(unsupported(other)),
    }
    Ok(())
}

fn unsupported(ty: &DataType) -> Error {
    Error::internal(format!("values of type {ty} cannot be kept in state"))
}

fn put_length(length: usize, into: &mut Vec<u8>) {
    let mut rest = length as u64;
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

fn put_bytes(bytes: &[u8], into: &mut Vec<u8>) {
    put_length(bytes.len(), into);
    into.extend_from_slice(bytes);
}

/// Reads encoded rows one after the other into columns.
pub(crate) struct RowDecoder {
    columns: Vec<Column>,
    rows: usize,
}

impl RowDecoder {
    /// A decoder of rows with columns of these types.
    pub(crate) fn new(types: &[DataType]) -> Result<RowDecoder> {
        Ok(RowDecoder { columns: types.iter().map(Column::new).collect::<Result<_>>()?, rows: 0 })
    }

    /// Adds an encoded row; fails if the bytes are not a row of these columns.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let mut bytes = Bytes { rest: bytes };
        for column in &mut self.columns {
            if bytes.rest.is_empty() {
                column.null();
            } else {
                column.read(&mut bytes)?;
            }
        }
        self.rows += 1;
        if bytes.rest.is_empty() { Ok(()) } else { Err(damaged("bytes are left behind the last column")) }
    }

    /// Adds the rows of a list, elements one after the other; returns how many there are.
    pub(crate) fn read_elements(&mut self, bytes: &[u8]) -> Result<usize> {
        let (mut bytes, mut rows) = (Bytes { rest: bytes }, 0);
        while !bytes.rest.is_empty() {
            self.read(bytes.bytes()?)?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Rows read since the last [`RowDecoder::finish`].
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The columns; the decoder is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.rows = 0;
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

/// What is left of an encoded row.
struct Bytes<'a> {
    rest: &'a [u8],
}

fn damaged(why: &str) -> Error {
    Error::job(format!("A row of state cannot be read: {why}."))
}

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| damaged("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged("it ends early"))
    }

    fn length(&mut self) -> Result<usize> {
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // An element or a byte takes at least one byte, so a longer one cannot be meant.
                return usize::try_from(value)
                    .ok()
                    .filter(|n| *n <= self.rest.len())
                    .ok_or_else(|| damaged("a length"));
            }
        }
        Err(damaged("a length"))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

/// One column while rows are read into it.
enum Column {
    Null(usize),
    Boolean(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Date32(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time32MillisecondType>),
    Millis(PrimitiveBuilder<TimestampMillisecondType>),
    Micros(PrimitiveBuilder<TimestampMicrosecondType>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    Utf8(StringBuilder),
    Binary(BinaryBuilder),
    List { field: FieldRef, nested: Nested, items: Box<Column> },
    Map { field: FieldRef, fields: Fields, nested: Nested, key: Box<Column>, value: Box<Column> },
    Struct { fields: Fields, valid: NullBufferBuilder, columns: Vec<Column> },
}

/// The lengths and NULLs of a list or map column.
struct Nested {
    lengths: Vec<usize>,
    valid: NullBufferBuilder,
}

impl Nested {
    fn new() -> Nested {
        Nested { lengths: Vec::new(), valid: NullBufferBuilder::new(0) }
    }

    fn push(&mut self, length: usize, valid: bool) {
        self.lengths.push(length);
        self.valid.append(valid);
    }

    fn offsets(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::from_lengths(std::mem::take(&mut self.lengths))
    }
}

impl Column {
    fn new(ty: &DataType) -> Result<Column> {
        Ok(match ty {
            DataType::Null => Column::Null(0),
            DataType::Boolean => Column::Boolean(BooleanBuilder::new()),
            DataType::Int8 => Column::Int8(builder(ty)),
            DataType::Int16 => Column::Int16(builder(ty)),
            DataType::Int32 => Column::Int32(builder(ty)),
            DataType::Int64 => Column::Int64(builder(ty)),
            DataType::Float32 => Column::Float32(builder(ty)),
            DataType::Float64 => Column::Float64(builder(ty)),
            DataType::Date32 => Column::Date32(builder(ty)),
            DataType::Time32(TimeUnit::Millisecond) => Column::Time(builder(ty)),
            DataType::Timestamp(TimeUnit::Millisecond, None) => Column::Millis(builder(ty)),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Column::Micros(builder(ty)),
            DataType::Decimal128(_, _) => Column::Decimal(builder(ty)),
            DataType::Utf8 => Column::Utf8(StringBuilder::new()),
            DataType::Binary => Column::Binary(BinaryBuilder::new()),
            DataType::List(field) => {
                let items = Box::new(Column::new(field.data_type())?);
                Column::List { field: field.clone(), nested: Nested::new(), items }
            }
            DataType::Map(field, _) => {
                let DataType::Struct(fields) = field.data_type() else { return Err(unsupported(ty)) };
                let [key, value] = &fields[..] else { return Err(unsupported(ty)) };
                let (key, value) = (Column::new(key.data_type())?, Column::new(value.data_type())?);
                Column::Map {
                    field: field.clone(),
                    fields: fields.clone(),
                    nested: Nested::new(),
                    key: Box::new(key),
                    value: Box::new(value),
                }
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|f| Column::new(f.data_type())).collect::<Result<_>>()?;
                Column::Struct { fields: fields.clone(), valid: NullBufferBuilder::new(0), columns }
            }
            other => return Err(unsupported(other)),
        })
    }

    fn null(&mut self) {
        macro_rules! append_null {
            ($($variant:ident => $ty:ty),*) => {
                match self {
                    Column::Null(rows) => *rows += 1,
                    Column::Boolean(b) => b.append_null(),
                    Column::Utf8(b) => b.append_null(),
                    Column::Binary(b) => b.append_null(),
                    Column::List { nested, .. } | Column::Map { nested, .. } => nested.push(0, false),
                    Column::Struct { valid, columns, .. } => {
                        valid.append(false);
                        columns.iter_mut().for_each(Column::null);
                    }
                    $(Column::$variant(b) => b.append_null(),)*
                }
            };
        }
        each_primitive!(append_null);
    }

    fn read(&mut self, bytes: &mut Bytes) -> Result<()> {
        match bytes.array()? {
            [NULL] => {
                self.null();
                return Ok(());
            }
            [VALUE] => {}
            _ => return Err(damaged("neither NULL nor a value")),
        }
        macro_rules! read_value {
            ($($variant:ident => $ty:ty),*) => {
                match self {
                    Column::Null(_) => return Err(damaged("a value where only NULL can be")),
                    Column::Boolean(b) => match bytes.array()? {
                        [value @ 0..=1] => b.append_value(value == 1),
                        _ => return Err(damaged("a BOOLEAN")),
                    },
                    Column::Utf8(b) => {
                        let text = std::str::from_utf8(bytes.bytes()?).map_err(|_| damaged("a string"))?;
                        b.append_value(text);
                    }
                    Column::Binary(b) => b.append_value(bytes.bytes()?),
                    Column::List { nested, items, .. } => {
                        let length = bytes.length()?;
                        nested.push(length, true);
                        (0..length).try_for_each(|_| items.read(bytes))?;
                    }
                    Column::Map { nested, key, value, .. } => {
                        let length = bytes.length()?;
                        nested.push(length, true);
                        (0..length).try_for_each(|_| key.read(bytes).and_then(|()| value.read(bytes)))?;
                    }
                    Column::Struct { valid, columns, .. } => {
                        valid.append(true);
                        columns.iter_mut().try_for_each(|c| c.read(bytes))?;
                    }
                    $(Column::$variant(b) => {
                        b.append_value(<$ty as ArrowPrimitiveType>::Native::from_le_bytes(bytes.array()?));
                    })*
                }
            };
        }
        each_primitive!(read_value);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        macro_rules! finished {
            ($($variant:ident => $ty:ty),*) => {
                match self {
                    Column::Null(rows) => Arc::new(NullArray::new(std::mem::take(rows))),
                    Column::Boolean(b) => Arc::new(b.finish()),
                    Column::Utf8(b) => Arc::new(b.finish()),
                    Column::Binary(b) => Arc::new(b.finish()),
                    Column::List { field, nested, items } => {
                        let items = items.finish()?;
                        Arc::new(ListArray::try_new(field.clone(), nested.offsets(), items, nested.valid.finish())?)
                    }
                    Column::Map { field, fields, nested, key, value } => {
                        let entries = StructArray::try_new(fields.clone(), vec![key.finish()?, value.finish()?], None)?;
                        let (offsets, valid) = (nested.offsets(), nested.valid.finish());
                        Arc::new(MapArray::try_new(field.clone(), offsets, entries, valid, false)?)
                    }
                    Column::Struct { fields, valid, columns } => {
                        let length = valid.len();
                        let columns = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
                        let valid = valid.finish();
                        match columns.is_empty() {
                            true => Arc::new(StructArray::new_empty_fields(length, valid)),
                            false => Arc::new(StructArray::try_new(fields.clone(), columns, valid)?),
                        }
                    }
                    $(Column::$variant(b) => Arc::new(b.finish()),)*
                }
            };
        }
        Ok(each_primitive!(finished))
    }
}

fn builder<T: ArrowPrimitiveType>(ty: &DataType) -> PrimitiveBuilder<T> {
    PrimitiveBuilder::new().with_data_type(ty.clone())
}

#[cfg(test)]
mod tests;
