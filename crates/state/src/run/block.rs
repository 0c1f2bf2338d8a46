//! A data block: a few KiB of entries in key order.
//!
//! Raw layout: `entries | prefix | n x u16 offset of an entry | u16 prefix length | u16 n`, all
//! little-endian. The prefix common to all keys of the block is kept once; an entry is
//! `flags u8 | rest length varint | value length varint | [count varint] | [expiry i64] | rest | value`.
//! One prefix a block, and not one for every neighbour, keeps the search inside a block binary; what
//! neighbours share beyond it, LZ4 finds.
//!
//! Flags: bits 0-1 kind (0 put, 1 delete, 2 append), 2 has an expiry, 3 has a count (else it is 1, of a
//! delete 0), 4 the value is segments.

use super::key_table::common_prefix;
use crate::entry::{Entry, EntryKind};
use crate::varint::{Reader, put_varint};

const HAS_EXPIRY: u8 = 4;
const HAS_COUNT: u8 = 8;
const SEGMENTED: u8 = 16;

/// Collects the entries of one block.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    items: Vec<Item>,
    raw: Vec<u8>,
    starts: Vec<u16>,
}

struct Item {
    key_end: usize,
    value_end: usize,
    count: u32,
    kind: EntryKind,
    expires_ms: Option<i64>,
    segmented: bool,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether it has reached the size at which a block is closed; every entry begins before it.
    pub(crate) fn is_full(&self, block_bytes: usize) -> bool {
        self.keys.len() + self.values.len() + 4 * self.items.len() >= block_bytes
    }

    pub(crate) fn push(&mut self, key: &[u8], entry: &Entry<'_>) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(entry.value);
        self.items.push(Item {
            key_end: self.keys.len(),
            value_end: self.values.len(),
            count: entry.count,
            kind: entry.kind,
            expires_ms: entry.expires_ms,
            segmented: entry.segmented,
        });
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.items[index - 1].key_end };
        &self.keys[start..self.items[index].key_end]
    }

    /// The raw block; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let n = self.items.len();
        let prefix = if n == 0 { 0 } else { common_prefix(self.key(0), self.key(n - 1)) };
        self.raw.clear();
        self.starts.clear();
        let (mut key_start, mut value_start) = (0, 0);
        for item in &self.items {
            self.starts.push(self.raw.len() as u16);
            let rest = &self.keys[key_start + prefix..item.key_end];
            let value = &self.values[value_start..item.value_end];
            put_entry(&mut self.raw, rest, value, item);
            (key_start, value_start) = (item.key_end, item.value_end);
        }
        self.raw.extend_from_slice(&self.keys[..prefix]);
        self.starts.iter().for_each(|start| self.raw.extend_from_slice(&start.to_le_bytes()));
        self.raw.extend_from_slice(&(prefix as u16).to_le_bytes());
        self.raw.extend_from_slice(&(n as u16).to_le_bytes());
        self.keys.clear();
        self.values.clear();
        self.items.clear();
        &self.raw
    }
}

fn put_entry(out: &mut Vec<u8>, rest: &[u8], value: &[u8], item: &Item) {
    let (kind, usual) = match item.kind {
        EntryKind::Put => (0, 1),
        EntryKind::Delete => (1, 0),
        EntryKind::Append => (2, 1),
    };
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let has_count = item.count != usual;
    let flags = flag(item.expires_ms.is_some(), HAS_EXPIRY) | flag(has_count, HAS_COUNT);
    out.push(kind | flags | flag(item.segmented, SEGMENTED));
    put_varint(out, rest.len() as u64);
    put_varint(out, value.len() as u64);
    if has_count {
        put_varint(out, u64::from(item.count));
    }
    if let Some(at) = item.expires_ms {
        out.extend_from_slice(&at.to_le_bytes());
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(value);
}

/// Where the parts of a raw block lie; made once when the block is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockLayout {
    entries_end: usize,
    prefix_end: usize,
    n: usize,
}

impl BlockLayout {
    pub(crate) fn of(raw: &[u8]) -> Option<BlockLayout> {
        let (rest, n) = raw.split_last_chunk::<2>()?;
        let (rest, prefix) = rest.split_last_chunk::<2>()?;
        let n = usize::from(u16::from_le_bytes(*n));
        let prefix_end = rest.len().checked_sub(2 * n)?;
        let entries_end = prefix_end.checked_sub(usize::from(u16::from_le_bytes(*prefix)))?;
        Some(BlockLayout { entries_end, prefix_end, n })
    }
}

/// A raw block with its layout.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    raw: &'a [u8],
    layout: BlockLayout,
}

impl<'a> Block<'a> {
    pub(crate) fn new(raw: &'a [u8], layout: BlockLayout) -> Block<'a> {
        Block { raw, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.n
    }

    pub(crate) fn prefix(&self) -> &'a [u8] {
        &self.raw[self.layout.entries_end..self.layout.prefix_end]
    }

    /// The rest of the `index`-th key, and its entry.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<(&'a [u8], Entry<'a>)> {
        let at = self.layout.prefix_end + 2 * index;
        let start = self.raw.get(at..at + 2)?.first_chunk::<2>()?;
        let mut reader = Reader::from(&self.raw[..self.layout.entries_end], usize::from(u16::from_le_bytes(*start)));
        let flags = reader.byte()?;
        let (rest_bytes, value_bytes) = (reader.length()?, reader.length()?);
        let (kind, usual) = match flags & 3 {
            0 => (EntryKind::Put, 1),
            1 => (EntryKind::Delete, 0),
            2 => (EntryKind::Append, 1),
            _ => return None,
        };
        let count = if flags & HAS_COUNT != 0 { u32::try_from(reader.varint()?).ok()? } else { usual };
        let expires_ms = if flags & HAS_EXPIRY != 0 { Some(i64::from_le_bytes(reader.array()?)) } else { None };
        let rest = reader.take(rest_bytes)?;
        let value = reader.take(value_bytes)?;
        Some((rest, Entry { kind, count, expires_ms, value, segmented: flags & SEGMENTED != 0 }))
    }

    #[inline]
    fn rest(&self, index: usize) -> Option<&'a [u8]> {
        self.entry(index).map(|(rest, _)| rest)
    }

    /// Index of the first key that is not before `key`, searched from `from` on, with its entry and
    /// whether the key is equal. `None` when the block makes no sense.
    #[inline]
    pub(crate) fn lower_bound(&self, key: &[u8], from: usize) -> Option<usize> {
        let prefix = self.prefix();
        let shared = prefix.len().min(key.len());
        match prefix.cmp(&key[..shared]) {
            std::cmp::Ordering::Less => return Some(self.len()),
            std::cmp::Ordering::Greater => return Some(from),
            std::cmp::Ordering::Equal => {}
        }
        let wanted = &key[shared..];
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.rest(middle)? < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    /// The entry of exactly `key`, given the index that `lower_bound` found for it.
    #[inline]
    pub(crate) fn entry_of(&self, index: usize, key: &[u8]) -> Option<Entry<'a>> {
        let (rest, entry) = self.entry(index)?;
        (key.strip_prefix(self.prefix()) == Some(rest)).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry_of_parts(kind: u8, value: &[u8], count: u32, expires_ms: Option<i64>) -> Entry<'_> {
        let entry = match kind {
            0 => Entry::put(value),
            1 => Entry::append(value, count),
            2 => Entry::put_list(value, count),
            _ => Entry::delete(),
        };
        Entry { expires_ms, ..entry }
    }

    proptest! {
        #[test]
        fn entries_come_back_and_are_found(
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 2..9), 1..60),
            kinds in proptest::collection::vec((0u8..4, any::<u32>(), any::<Option<i64>>(), 0usize..20), 60),
            probe in proptest::collection::vec(0u8..4, 0..9),
        ) {
            let mut builder = BlockBuilder::default();
            let value = [9u8; 20];
            for (key, (kind, count, expiry, length)) in keys.iter().zip(&kinds) {
                builder.push(key, &entry_of_parts(*kind, &value[..*length], *count, *expiry));
            }
            let raw = builder.finish().to_vec();
            let block = Block::new(&raw, BlockLayout::of(&raw).unwrap());
            prop_assert_eq!(block.len(), keys.len());
            for (index, (key, (kind, count, expiry, length))) in keys.iter().zip(&kinds).enumerate() {
                let expected = entry_of_parts(*kind, &value[..*length], *count, *expiry);
                prop_assert_eq!(block.lower_bound(key, 0), Some(index));
                prop_assert_eq!(block.entry_of(index, key), Some(expected));
            }
            let before = keys.iter().filter(|key| **key < probe).count();
            prop_assert_eq!(block.lower_bound(&probe, 0), Some(before));
        }

        #[test]
        fn bytes_that_make_no_sense_never_panic(raw in proptest::collection::vec(any::<u8>(), 0..100), key in proptest::collection::vec(any::<u8>(), 0..4)) {
            if let Some(layout) = BlockLayout::of(&raw) {
                let block = Block::new(&raw, layout);
                let _ = block.lower_bound(&key, 0);
                for index in 0..block.len() {
                    let _ = block.entry(index);
                }
            }
        }
    }
}
