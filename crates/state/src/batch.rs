//! A sealed batch: sorted entries in memory, written once, read by key until they are in a run.

use crate::entry::{Entry, EntryKind, MAX_VALUE_BYTES};
use crate::error::{Result, StateError};
use crate::range::{KeyRange, check_key};
use crate::run::Filter;
use xxhash_rust::xxh3::xxh3_64;

/// Entries from which on a batch has a filter: a search in fewer of them stays in the processor's cache.
const FILTERED_ENTRIES: usize = 1024;

/// Entries in strictly ascending order of their keys.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    /// Says of most keys that are not there that they are not.
    filter: Option<Filter>,
}

/// Where an entry lies in the bytes: key, then value. Kept small: there is one for each entry.
#[derive(Clone, Debug)]
struct Head {
    start: usize,
    value_bytes: u32,
    count: u32,
    key_bytes: u16,
    kind: EntryKind,
    expires_ms: Option<i64>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Room for `entries` of `bytes` bytes of keys and values in all.
    pub fn with_capacity(entries: usize, bytes: usize) -> WriteBatch {
        WriteBatch { bytes: Vec::with_capacity(bytes), heads: Vec::with_capacity(entries), filter: None }
    }

    /// Adds an entry. Fails when the key does not come after the last one, has no key group, or when key
    /// or value are too long.
    pub fn push(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        check_key(key)?;
        check_value(&entry)?;
        if self.heads.last().is_some_and(|last| self.key_of(last) >= key) {
            return Err(StateError::Misuse(format!(
                "keys of a batch must ascend, {} does not",
                hex::encode(&key[..key.len().min(32)])
            )));
        }
        self.filter = None;
        self.heads.push(Head {
            start: self.bytes.len(),
            value_bytes: entry.value.len() as u32,
            count: entry.count,
            key_bytes: key.len() as u16,
            kind: entry.kind,
            expires_ms: entry.expires_ms,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(entry.value);
        Ok(())
    }

    /// Nothing more will be added: from here on it is only read.
    pub(crate) fn seal(&mut self) {
        if self.heads.len() >= FILTERED_ENTRIES {
            let hashes: Vec<u64> = self.heads.iter().map(|head| xxh3_64(self.key_of(head))).collect();
            self.filter = Some(Filter::build(&hashes));
        }
    }

    /// Whether the key of this hash may be in it.
    #[inline]
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_have(hash))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        self.bytes.capacity() + self.heads.capacity() * size_of::<Head>() + filter
    }

    /// Bytes of keys and values.
    pub fn data_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The `index`-th key and entry.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(&[u8], Entry<'_>)> {
        let head = self.heads.get(index)?;
        let value = head.start + usize::from(head.key_bytes);
        let entry = Entry {
            kind: head.kind,
            count: head.count,
            expires_ms: head.expires_ms,
            value: &self.bytes[value..value + head.value_bytes as usize],
            segmented: false,
        };
        Some((&self.bytes[head.start..value], entry))
    }

    /// First and last key.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key_of(self.heads.first()?), self.key_of(self.heads.last()?)))
    }

    /// Keys and entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Entry<'_>)> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Index of the first key that is not before `key`, searched from `from` on.
    #[inline]
    pub(crate) fn lower_bound(&self, key: &[u8], from: usize) -> usize {
        from + self.heads[from.min(self.heads.len())..].partition_point(|head| self.key_of(head) < key)
    }

    /// Whether a key lies in `range`.
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.get(self.lower_bound(&range.start, 0)).is_some_and(|(key, _)| range.contains(key))
    }

    #[inline]
    fn key_of(&self, head: &Head) -> &[u8] {
        &self.bytes[head.start..head.start + usize::from(head.key_bytes)]
    }
}

pub(crate) fn check_value(entry: &Entry<'_>) -> Result<()> {
    if entry.value.len() > MAX_VALUE_BYTES {
        return Err(StateError::TooLarge { what: "value", bytes: entry.value.len(), limit: MAX_VALUE_BYTES });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_batch_tells_most_keys_it_does_not_have() {
        let key = |n: u32| [&[0, 0], n.to_be_bytes().as_slice()].concat();
        let mut batch = WriteBatch::new();
        (0..5_000).for_each(|n| batch.push(&key(2 * n), Entry::put(b"x")).unwrap());
        assert!(batch.may_have(xxh3_64(&key(1))), "it does not know before it is sealed");
        batch.seal();
        assert!((0..5_000).all(|n| batch.may_have(xxh3_64(&key(2 * n)))));
        let passed = (0..5_000).filter(|n| batch.may_have(xxh3_64(&key(2 * n + 1)))).count();
        assert!(passed < 250, "{passed} of 5000");
        batch.push(&key(10_001), Entry::delete()).unwrap();
        assert!(batch.may_have(xxh3_64(&key(10_001))));
    }

    #[test]
    fn keys_must_ascend_and_have_a_group() {
        let mut batch = WriteBatch::new();
        batch.push(b"\0\x01a", Entry::put(b"x")).unwrap();
        assert!(matches!(batch.push(b"\0\x01a", Entry::delete()), Err(StateError::Misuse(_))));
        assert!(matches!(batch.push(b"\0", Entry::delete()), Err(StateError::Misuse(_))));
        assert!(matches!(batch.push(&[7; 70_000], Entry::delete()), Err(StateError::TooLarge { .. })));
        batch.push(b"\0\x02", Entry::append(b"yz", 2).expiring_at(9)).unwrap();
        assert_eq!(batch.get(1), Some((&b"\0\x02"[..], Entry::append(b"yz", 2).expiring_at(9))));
        assert_eq!(batch.lower_bound(b"\0\x01b", 0), 1);
        assert!(batch.touches(&KeyRange::prefix(b"\0\x02")));
        assert!(!batch.touches(&KeyRange::prefix(b"\0\x03")));
    }
}
