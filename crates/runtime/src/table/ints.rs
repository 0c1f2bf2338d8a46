//! Keys of one integer, date or time column.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tidegate_api::{Error, Result};

/// Distinct 64-bit keys.
pub(super) struct IntKeys {
    ty: DataType,
    table: HashTable<(i64, u32)>,
    keys: Vec<i64>,
    null: Option<u32>,
    hasher: FixedState,
}

/// Runs `$body` with `$t` as the Arrow type of `$ty`, or `$other`.
macro_rules! with_int_type {
    ($ty:expr, $t:ident => $body:expr, $other:expr) => {
        match $ty {
            DataType::Int8 => with_int_type!(@ Int8Type, $t, $body),
            DataType::Int16 => with_int_type!(@ Int16Type, $t, $body),
            DataType::Int32 => with_int_type!(@ Int32Type, $t, $body),
            DataType::Int64 => with_int_type!(@ Int64Type, $t, $body),
            DataType::Date32 => with_int_type!(@ Date32Type, $t, $body),
            DataType::Time32(TimeUnit::Millisecond) => with_int_type!(@ Time32MillisecondType, $t, $body),
            DataType::Timestamp(TimeUnit::Millisecond, None) => with_int_type!(@ TimestampMillisecondType, $t, $body),
            DataType::Timestamp(TimeUnit::Microsecond, None) => with_int_type!(@ TimestampMicrosecondType, $t, $body),
            _ => $other,
        }
    };
    (@ $arrow:ident, $t:ident, $body:expr) => {{
        type $t = $arrow;
        $body
    }};
}

impl IntKeys {
    pub(super) fn supports(ty: &DataType) -> bool {
        with_int_type!(ty, T => { let _ = T::DATA_TYPE; true }, false)
    }

    pub(super) fn new(ty: DataType) -> Self {
        IntKeys { ty, table: HashTable::new(), keys: Vec::new(), null: None, hasher: FixedState::with_seed(7) }
    }

    /// Makes room for this many keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        let hasher = &self.hasher;
        self.table.reserve(keys, |e| hasher.hash_one(e.0));
        self.keys.reserve(keys);
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.capacity() * size_of::<i64>()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    fn intern_one(&mut self, key: i64) -> u32 {
        let hasher = &self.hasher;
        match self.table.entry(hasher.hash_one(key), |e| e.0 == key, |e| hasher.hash_one(e.0)) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                let group = self.keys.len() as u32;
                place.insert((key, group));
                self.keys.push(key);
                group
            }
        }
    }

    fn intern_typed<T: ArrowPrimitiveType>(&mut self, column: &ArrayRef, groups: &mut Vec<u32>)
    where
        T::Native: Into<i64>,
    {
        let column = column.as_primitive::<T>();
        let values = column.values();
        match column.nulls().filter(|n| n.null_count() > 0) {
            None => groups.extend(values.iter().map(|v| self.intern_one((*v).into()))),
            Some(nulls) => groups.extend(values.iter().enumerate().map(|(row, v)| {
                if nulls.is_valid(row) {
                    return self.intern_one((*v).into());
                }
                *self.null.get_or_insert_with(|| {
                    self.keys.push(0);
                    (self.keys.len() - 1) as u32
                })
            })),
        }
    }

    pub(super) fn intern(&mut self, column: &ArrayRef, groups: &mut Vec<u32>) {
        with_int_type!(self.ty.clone(), T => self.intern_typed::<T>(column, groups), {});
    }

    /// The keys of these groups.
    pub(super) fn values(&self, groups: &[u32]) -> Result<ArrayRef> {
        let nulls = self.null.map(|null| groups.iter().map(|g| *g != null).collect::<NullBuffer>());
        let nulls = nulls.filter(|n| n.null_count() > 0);
        with_int_type!(&self.ty, T => {
            // Every key came from a value of this type.
            let values = groups.iter().map(|g| self.keys[*g as usize] as <T as ArrowPrimitiveType>::Native).collect();
            Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
        }, Err(Error::internal(format!("{} is not an integer key", self.ty))))
    }
}
