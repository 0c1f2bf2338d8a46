//! Ranges of keys and of key groups.
//!
//! Every key begins with its key group, two bytes big-endian, so a range of key groups is a range of
//! keys, and keys sorted as bytes are sorted by key group.

use crate::error::{Result, StateError};
use serde::{Deserialize, Serialize};

/// Keys from `start` (inclusive) to `end` (exclusive; `None` is the end of all keys), compared as bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct KeyRange {
    /// First key in the range.
    #[serde(with = "hex_bytes")]
    pub start: Vec<u8>,
    /// First key behind the range.
    #[serde(with = "hex_bytes_or_none")]
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange { start: Vec::new(), end: None }
    }

    /// Keys from `start` up to but not including `end`.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange { start: start.into(), end: Some(end.into()) }
    }

    /// Keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.pop().map(|last| {
            end.push(last + 1);
            end
        });
        KeyRange { start: prefix.to_vec(), end }
    }

    /// Whether `key` lies in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_before_end(key)
    }

    /// Whether `key` lies before the end.
    #[inline]
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether no key lies in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The keys in both ranges; may be empty.
    pub fn intersect(&self, other: &KeyRange) -> KeyRange {
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        KeyRange { start: self.start.clone().max(other.start.clone()), end }
    }

    /// Whether some key lies in both.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty() && !other.is_empty() && self.is_before_end(&other.start) && other.is_before_end(&self.start)
    }
}

/// Key groups from `first` (inclusive) to `end` (exclusive).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// First key group.
    pub first: u32,
    /// First key group behind the range; at most 65,536.
    pub end: u32,
}

impl KeyGroupRange {
    /// Every key group there can be.
    pub fn all() -> KeyGroupRange {
        KeyGroupRange { first: 0, end: 1 << 16 }
    }

    /// Key groups from `first` up to but not including `end`.
    pub fn new(first: u32, end: u32) -> KeyGroupRange {
        KeyGroupRange { first, end }
    }

    /// The key groups that subtask `index` of `parallelism` owns (Flink's rule, the inverse of
    /// [`operator_index`](crate::operator_index)).
    pub fn of_subtask(index: u32, parallelism: u32, max_parallelism: u32) -> KeyGroupRange {
        let start =
            |index: u32| (u64::from(index) * u64::from(max_parallelism)).div_ceil(u64::from(parallelism)) as u32;
        KeyGroupRange { first: start(index), end: start(index + 1) }
    }

    /// The key groups in both ranges; may be empty.
    pub fn intersect(&self, other: &KeyGroupRange) -> KeyGroupRange {
        KeyGroupRange { first: self.first.max(other.first), end: self.end.min(other.end) }
    }

    /// Whether no key group lies in the range.
    pub fn is_empty(&self) -> bool {
        self.end <= self.first
    }

    /// The keys of these key groups.
    pub fn keys(&self) -> KeyRange {
        if self.is_empty() {
            return KeyRange { start: Vec::new(), end: Some(Vec::new()) };
        }
        let bytes = |group: u32| u16::try_from(group).ok().map(|group| group.to_be_bytes().to_vec());
        // A range that begins behind the last key group is caught above: its end cannot be behind it.
        let start = bytes(self.first).unwrap_or_else(|| vec![u8::MAX; 3]);
        KeyRange { start, end: bytes(self.end) }
    }
}

/// The key group a key begins with.
pub(crate) fn group_of(key: &[u8]) -> Option<u16> {
    key.first_chunk().map(|head| u16::from_be_bytes(*head))
}

/// Holds keys to the rules of the format: a key group in front, and not too long.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() < 2 {
        return Err(StateError::Misuse("a key begins with its key group, two bytes".into()));
    }
    if key.len() > crate::MAX_KEY_BYTES {
        return Err(StateError::TooLarge { what: "key", bytes: key.len(), limit: crate::MAX_KEY_BYTES });
    }
    Ok(())
}

/// Keys as hexadecimal text: a manifest stays readable in JSON.
pub(crate) mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        hex::decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

mod hex_bytes_or_none {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(hex::encode).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(hex::decode).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_behind_their_last_key() {
        let range = KeyRange::prefix(&[1, 255]);
        assert_eq!(range.end, Some(vec![2]));
        assert!(range.contains(&[1, 255, 255, 255]));
        assert!(!range.contains(&[2]));
        assert_eq!(KeyRange::prefix(&[255, 255]).end, None);
        assert_eq!(KeyRange::prefix(&[]), KeyRange::all());
    }

    #[test]
    fn ranges_meet_or_do_not() {
        let a = KeyRange::new([1], [5]);
        assert!(a.overlaps(&KeyRange::new([4], [9])));
        assert!(!a.overlaps(&KeyRange::new([5], [9])));
        assert!(a.intersect(&KeyRange::new([5], [9])).is_empty());
        assert_eq!(a.intersect(&KeyRange::all()), a);
        assert_eq!(KeyGroupRange::new(3, 1 << 16).keys(), KeyRange { start: vec![0, 3], end: None });
        assert!(KeyGroupRange::new(1 << 16, 1 << 16).keys().is_empty());
    }

    #[test]
    fn subtasks_own_what_the_partitioner_sends_them() {
        for parallelism in 1..=128 {
            for index in 0..parallelism {
                let owned = KeyGroupRange::of_subtask(index, parallelism, 128);
                for group in 0..128 {
                    let owner = crate::operator_index(group, parallelism as usize, 128);
                    assert_eq!((owned.first..owned.end).contains(&(group as u32)), owner == index as usize);
                }
            }
        }
    }
}
