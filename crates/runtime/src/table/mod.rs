//! Group tables: from key columns to dense group numbers, a batch at a time.
//!
//! A table gives each distinct key the next number, so that accumulators are plain vectors. Keys of one
//! string or one integer-like column, by far the most common, have their own layouts; anything else goes
//! through Arrow's row format. NULL is a key like any other, NaN equals NaN, and 0.0 differs from -0.0,
//! as in Flink, whose keys are compared by their bytes.
//!
//! A table never forgets by itself: operators keep one per slice and drop it with the slice, or rebuild
//! it from what is alive.

mod bytes;
mod ints;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use tidegate_api::{Error, Result};

use bytes::ByteKeys;
use ints::IntKeys;

/// A first batch of this many rows is taken to bring one key, so that a table fed by large batches does
/// not grow from nothing step by step: windows make a table per slice.
const ROWS_PER_KEY: usize = 4;
/// Room made at most before any key is known.
const FIRST_KEYS_MAX: usize = 1024;

/// Distinct keys, numbered from 0 in the order they came.
pub struct GroupTable {
    keys: Keys,
}

enum Keys {
    /// No key columns: one group, once a row has come.
    Nothing { seen: bool },
    /// One `Utf8` column.
    Text(ByteKeys),
    /// One column of integers, dates or times.
    Int(IntKeys),
    /// Anything else, as encoded rows.
    Rows { converter: RowConverter, keys: ByteKeys },
}

impl GroupTable {
    /// A table for keys of these Arrow types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let keys = match types {
            [] => Keys::Nothing { seen: false },
            [DataType::Utf8] => Keys::Text(ByteKeys::default()),
            [ty] if IntKeys::supports(ty) => Keys::Int(IntKeys::new(ty.clone())),
            _ => {
                let fields = types.iter().map(|t| SortField::new(t.clone())).collect();
                let converter = RowConverter::new(fields)
                    .map_err(|e| Error::unsupported(format!("these columns cannot be a key: {e}")))?;
                Keys::Rows { converter, keys: ByteKeys::default() }
            }
        };
        Ok(GroupTable { keys })
    }

    /// Number of groups given out.
    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::Nothing { seen } => usize::from(*seen),
            Keys::Text(keys) | Keys::Rows { keys, .. } => keys.len(),
            Keys::Int(keys) => keys.len(),
        }
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.keys {
            Keys::Nothing { .. } => 0,
            Keys::Text(keys) | Keys::Rows { keys, .. } => keys.memory_bytes(),
            Keys::Int(keys) => keys.memory_bytes(),
        }
    }

    /// The group of each row; new keys get new numbers. `groups` is overwritten.
    pub fn intern(&mut self, columns: &[ArrayRef], rows: usize, groups: &mut Vec<u32>) -> Result<()> {
        groups.clear();
        if self.len() + rows > u32::MAX as usize {
            return Err(Error::job("an aggregate has more than 4 billion keys in one table"));
        }
        if self.len() == 0 {
            self.reserve((rows / ROWS_PER_KEY).min(FIRST_KEYS_MAX));
        }
        match &mut self.keys {
            Keys::Nothing { seen } => {
                *seen |= rows > 0;
                groups.resize(rows, 0);
            }
            Keys::Text(keys) => keys.intern_strings(columns[0].as_string(), groups),
            Keys::Int(keys) => keys.intern(&columns[0], groups),
            Keys::Rows { converter, keys } => {
                let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
                let encoded = converter.convert_columns(&columns)?;
                groups.extend(encoded.iter().map(|row| keys.intern(row.data())));
            }
        }
        Ok(())
    }

    fn reserve(&mut self, keys: usize) {
        match &mut self.keys {
            Keys::Nothing { .. } => {}
            Keys::Text(table) | Keys::Rows { keys: table, .. } => table.reserve(keys),
            Keys::Int(table) => table.reserve(keys),
        }
    }

    /// The key columns of these groups.
    pub fn keys(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(match &self.keys {
            Keys::Nothing { .. } => Vec::new(),
            Keys::Text(keys) => vec![keys.strings(groups)?],
            Keys::Int(keys) => vec![keys.values(groups)?],
            Keys::Rows { converter, keys } => {
                let parser = converter.parser();
                converter.convert_rows(groups.iter().map(|g| parser.parse(keys.key(*g))))?
            }
        })
    }
}

/// One NaN instead of many.
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray, TimestampMillisecondArray};

    fn check(batches: &[Vec<ArrayRef>], expected: &[&[u32]]) {
        let types: Vec<DataType> = batches[0].iter().map(|c| c.data_type().clone()).collect();
        let mut table = GroupTable::new(&types).unwrap();
        let mut groups = Vec::new();
        for (batch, expected) in batches.iter().zip(expected) {
            table.intern(batch, batch[0].len(), &mut groups).unwrap();
            assert_eq!(groups, *expected);
            let back = table.keys(&groups).unwrap();
            assert_eq!(format!("{back:?}"), format!("{batch:?}"));
        }
    }

    #[test]
    fn strings_integers_and_rows_come_back() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a"), None]));
        let int: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, Some(0), Some(3), None]));
        let time: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(-5), None, Some(0), Some(-5), None]));
        for column in [&text, &int, &time] {
            check(&[vec![column.clone()], vec![column.slice(2, 3)]], &[&[0, 1, 2, 0, 1], &[2, 0, 1]]);
        }
        check(&[vec![text.clone(), int.clone()], vec![text, int]], &[&[0, 1, 2, 0, 1], &[0, 1, 2, 0, 1]]);
    }

    #[test]
    fn floats_by_their_bits_except_nan() {
        let x: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 0.0]));
        let mut table = GroupTable::new(&[DataType::Float64]).unwrap();
        let mut groups = Vec::new();
        table.intern(&[x], 5, &mut groups).unwrap();
        assert_eq!(groups, [0, 1, 2, 2, 0]);
    }

    #[test]
    fn no_keys_are_one_group() {
        let mut table = GroupTable::new(&[]).unwrap();
        let mut groups = vec![9];
        table.intern(&[], 3, &mut groups).unwrap();
        assert_eq!((groups, table.len()), (vec![0, 0, 0], 1));
    }
}
