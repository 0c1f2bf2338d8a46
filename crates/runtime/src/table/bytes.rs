//! Keys that are byte strings: text, or rows encoded as bytes.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tidegate_api::{Error, Result};

/// Distinct byte strings in one arena, found through a table of (hash, number).
pub(super) struct ByteKeys {
    table: HashTable<(u64, u32)>,
    /// End of each key in `data`; its start is the end of the key before.
    ends: Vec<usize>,
    data: Vec<u8>,
    /// The number of the NULL key.
    null: Option<u32>,
    hasher: FixedState,
}

impl Default for ByteKeys {
    fn default() -> Self {
        ByteKeys {
            table: HashTable::new(),
            ends: Vec::new(),
            data: Vec::new(),
            null: None,
            hasher: FixedState::with_seed(7),
        }
    }
}

#[inline(always)]
fn slice<'a>(ends: &[usize], data: &'a [u8], key: u32) -> &'a [u8] {
    let key = key as usize;
    let start = if key == 0 { 0 } else { ends[key - 1] };
    &data[start..ends[key]]
}

impl ByteKeys {
    /// Makes room for this many keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys, |e| e.0);
        self.ends.reserve(keys);
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.allocation_size() + self.ends.capacity() * size_of::<usize>() + self.data.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(super) fn key(&self, group: u32) -> &[u8] {
        slice(&self.ends, &self.data, group)
    }

    #[inline(always)]
    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    #[inline]
    pub(super) fn intern(&mut self, bytes: &[u8]) -> u32 {
        let hash = self.hash(bytes);
        let (ends, data) = (&mut self.ends, &mut self.data);
        let is_it = |e: &(u64, u32)| e.0 == hash && slice(ends, data, e.1) == bytes;
        match self.table.entry(hash, is_it, |e| e.0) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                let group = ends.len() as u32;
                place.insert((hash, group));
                data.extend_from_slice(bytes);
                ends.push(data.len());
                group
            }
        }
    }

    fn intern_null(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            self.ends.push(self.data.len());
            (self.ends.len() - 1) as u32
        })
    }

    pub(super) fn intern_strings(&mut self, column: &StringArray, groups: &mut Vec<u32>) {
        let (offsets, data) = (column.value_offsets(), column.value_data());
        let at = |row: usize| &data[offsets[row] as usize..offsets[row + 1] as usize];
        match column.nulls().filter(|n| n.null_count() > 0) {
            None => groups.extend((0..column.len()).map(|row| self.intern(at(row)))),
            Some(nulls) => groups.extend(
                (0..column.len())
                    .map(|row| if nulls.is_valid(row) { self.intern(at(row)) } else { self.intern_null() }),
            ),
        }
    }

    /// The keys of these groups as text.
    pub(super) fn strings(&self, groups: &[u32]) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::<i32>::from_lengths(groups.iter().map(|g| self.key(*g).len()));
        let mut data = Vec::with_capacity(offsets.last() as usize);
        groups.iter().for_each(|g| data.extend_from_slice(self.key(*g)));
        let nulls = self.null.map(|null| groups.iter().map(|g| *g != null).collect::<NullBuffer>());
        let nulls = nulls.filter(|n| n.null_count() > 0);
        let array = StringArray::try_new(offsets, Buffer::from_vec(data), nulls);
        Ok(Arc::new(array.map_err(|e| Error::internal(format!("a key is not text: {e}")))?))
    }
}
