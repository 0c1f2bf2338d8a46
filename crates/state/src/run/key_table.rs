//! A sorted list of keys for searching: the first keys of blocks, or of index pages.
//!
//! The common prefix is kept once. Of each rest the first eight bytes are also kept as an integer, so a
//! search compares integers and looks at bytes only where these are equal.

use crate::varint::{Reader, put_varint};

#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    prefix: Box<[u8]>,
    heads: Vec<u64>,
    ends: Vec<u32>,
    arena: Vec<u8>,
}

/// The first eight bytes as a big-endian integer, zeros behind the end: ordered as the bytes are, except
/// that different rests may be equal.
#[inline]
fn head_of(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(head)
        }
    }
}

/// Length of the common prefix.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl KeyTable {
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.prefix.len() + self.heads.capacity() * 8 + self.ends.capacity() * 4 + self.arena.capacity()
    }

    #[inline]
    fn rest(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.arena[start..self.ends[index] as usize]
    }

    /// The whole key.
    pub(crate) fn key(&self, index: usize) -> Vec<u8> {
        [&self.prefix, self.rest(index)].concat()
    }

    /// How the key at `index` compares with `key`.
    pub(crate) fn compare(&self, index: usize, key: &[u8]) -> std::cmp::Ordering {
        let shared = self.prefix.len().min(key.len());
        self.prefix[..].cmp(&key[..shared]).then_with(|| self.rest(index).cmp(&key[shared..]))
    }

    /// Number of keys that are not after `key`; those before `from` are known not to be.
    #[inline]
    pub(crate) fn count_up_to(&self, key: &[u8], from: usize) -> usize {
        self.count(key, from, |rest, wanted| rest <= wanted)
    }

    /// Number of keys before `key`.
    pub(crate) fn count_before(&self, key: &[u8]) -> usize {
        self.count(key, 0, |rest, wanted| rest < wanted)
    }

    #[inline]
    fn count(&self, key: &[u8], from: usize, tie: impl Fn(&[u8], &[u8]) -> bool) -> usize {
        let shared = self.prefix.len().min(key.len());
        match self.prefix[..].cmp(&key[..shared]) {
            std::cmp::Ordering::Less => return self.len(),
            std::cmp::Ordering::Greater => return from,
            std::cmp::Ordering::Equal => {}
        }
        let wanted = &key[shared..];
        let head = head_of(wanted);
        let (mut low, mut high) = (from, self.heads.len());
        while low < high {
            let middle = low.midpoint(high);
            let found = self.heads[middle];
            if found < head || (found == head && tie(self.rest(middle), wanted)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Appends keys (ascending) in their stored form: `n, prefix length, prefix, n x (length, rest)`.
    pub(crate) fn encode<K: AsRef<[u8]>>(keys: &[K], out: &mut Vec<u8>) {
        let prefix = match keys {
            [first, .., last] => common_prefix(first.as_ref(), last.as_ref()),
            [one] => one.as_ref().len(),
            [] => 0,
        };
        put_varint(out, keys.len() as u64);
        put_varint(out, prefix as u64);
        if let Some(first) = keys.first() {
            out.extend_from_slice(&first.as_ref()[..prefix]);
        }
        for key in keys {
            let rest = &key.as_ref()[prefix..];
            put_varint(out, rest.len() as u64);
            out.extend_from_slice(rest);
        }
    }

    /// Reads the stored form; `None` when it makes no sense.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<KeyTable> {
        let n = reader.length()?;
        let prefix_length = reader.length()?;
        let mut table = KeyTable { prefix: reader.take(prefix_length)?.into(), ..KeyTable::default() };
        for _ in 0..n {
            let length = reader.length()?;
            let rest = reader.take(length)?;
            table.heads.push(head_of(rest));
            table.arena.extend_from_slice(rest);
            table.ends.push(u32::try_from(table.arena.len()).ok()?);
        }
        table.heads.shrink_to_fit();
        table.ends.shrink_to_fit();
        table.arena.shrink_to_fit();
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn searches_agree_with_the_keys(
            mut keys in proptest::collection::btree_set(proptest::collection::vec(0u8..3, 0..12), 1..40),
            wanted in proptest::collection::vec(0u8..3, 0..12),
        ) {
            let keys: Vec<Vec<u8>> = std::mem::take(&mut keys).into_iter().map(|k| [b"ab".to_vec(), k].concat()).collect();
            let mut bytes = Vec::new();
            KeyTable::encode(&keys, &mut bytes);
            let table = KeyTable::decode(&mut Reader::new(&bytes)).unwrap();
            for wanted in [wanted.clone(), [b"ab".to_vec(), wanted].concat()] {
                prop_assert_eq!(table.count_up_to(&wanted, 0), keys.iter().filter(|k| **k <= wanted).count());
                prop_assert_eq!(table.count_before(&wanted), keys.iter().filter(|k| **k < wanted).count());
            }
            for (index, key) in keys.iter().enumerate() {
                prop_assert_eq!(&table.key(index), key);
                prop_assert_eq!(table.compare(index, key), std::cmp::Ordering::Equal);
            }
        }
    }
}
