//! Which key group, and so which subtask, a key belongs to. Fixed for ever: state on disk is laid out
//! by key group.
//!
//! A key is written in a canonical form that does not depend on machine, batch or Arrow layout,
//! column after column:
//!
//! | value | bytes |
//! |---|---|
//! | NULL | `00` |
//! | any other value | `01`, then as below |
//! | BOOLEAN | one byte, 0 or 1 |
//! | integers of any width, DATE, TIME, intervals | 8 bytes little-endian, sign-extended |
//! | FLOAT, DOUBLE | the 8 bytes of the double, little-endian; -0 as 0, every NaN as one |
//! | DECIMAL | the unscaled digits, 16 bytes little-endian |
//! | TIMESTAMP, TIMESTAMP_LTZ of any precision | nanoseconds since the epoch, 16 bytes little-endian |
//! | strings and byte strings | length as 4 bytes little-endian, then the bytes |
//! | ARRAY | number of elements as 4 bytes, then each element with its `00` / `01` |
//! | ROW | each field with its `00` / `01` |
//! | MAP, MULTISET | number of entries as 4 bytes, then the wrapping sum of the XXH3 hashes of the entries (key, value) as 8 bytes: entries have no order |
//!
//! `hash = XXH3-64(bytes)` with seed 0, `key_group = hash % max_parallelism`. Integers and timestamps
//! hash by value, not by width, so that a column can be widened later.

use xxhash_rust::xxh3::xxh3_64;

/// Number of key groups unless a job says otherwise.
pub const DEFAULT_MAX_PARALLELISM: usize = 128;

/// The canonical bytes of one key; reused from key to key.
#[derive(Clone, Debug, Default)]
pub struct KeyBytes {
    bytes: Vec<u8>,
}

impl KeyBytes {
    /// Forgets the key.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Hash of the bytes so far.
    pub fn hash(&self) -> u64 {
        xxh3_64(&self.bytes)
    }

    /// A NULL.
    pub fn null(&mut self) {
        self.bytes.push(0);
    }

    /// Announces a value that is not NULL; its bytes follow.
    pub fn present(&mut self) {
        self.bytes.push(1);
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    /// An integer of any width.
    pub fn int(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A float or double.
    pub fn double(&mut self, value: f64) {
        let canonical = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        self.bytes.extend_from_slice(&canonical.to_le_bytes());
    }

    /// The unscaled digits of a decimal, or nanoseconds of a timestamp.
    pub fn wide(&mut self, value: i128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A number of elements or entries.
    pub fn length(&mut self, value: usize) {
        self.bytes.extend_from_slice(&(value as u32).to_le_bytes());
    }

    /// A string or byte string.
    pub fn bytes(&mut self, value: &[u8]) {
        self.length(value.len());
        self.bytes.extend_from_slice(value);
    }

    /// A sum of hashes, for collections without an order.
    pub fn hash_sum(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

/// The key group of a key's hash.
pub fn key_group(hash: u64, max_parallelism: usize) -> usize {
    (hash % max_parallelism as u64) as usize
}

/// The subtask that owns a key group (Flink's rule).
pub fn operator_index(key_group: usize, parallelism: usize, max_parallelism: usize) -> usize {
    key_group * parallelism / max_parallelism
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(write: impl Fn(&mut KeyBytes)) -> (u64, usize) {
        let mut bytes = KeyBytes::default();
        write(&mut bytes);
        (bytes.hash(), key_group(bytes.hash(), DEFAULT_MAX_PARALLELISM))
    }

    fn string(text: &str) -> impl Fn(&mut KeyBytes) {
        move |key| {
            key.present();
            key.bytes(text.as_bytes());
        }
    }

    fn int(value: i64) -> impl Fn(&mut KeyBytes) {
        move |key| {
            key.present();
            key.int(value);
        }
    }

    #[test]
    fn hashes_are_fixed_for_ever() {
        let found = [key(KeyBytes::null), key(string("u1")), key(string("")), key(int(42)), key(int(-1))];
        assert_eq!(found, VECTORS);
    }

    /// Hash and key group of NULL, 'u1', '', 42 and -1.
    const VECTORS: [(u64, usize); 5] = [
        (14144645293874801883, 91),
        (5954317381836954450, 82),
        (15122404197219825512, 104),
        (4435642637180117100, 108),
        (6027492765397423756, 12),
    ];

    #[test]
    fn equal_doubles_hash_alike() {
        let double = |value: f64| {
            key(move |k: &mut KeyBytes| {
                k.present();
                k.double(value);
            })
        };
        assert_eq!(double(0.0), double(-0.0));
        assert_eq!(double(f64::NAN), double(-f64::NAN));
        assert_ne!(double(1.0), double(2.0));
    }

    #[test]
    fn every_subtask_owns_a_contiguous_share() {
        for parallelism in 1..=128 {
            let owners: Vec<usize> = (0..128).map(|kg| operator_index(kg, parallelism, 128)).collect();
            assert!(owners.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] + 1));
            assert_eq!((owners[0], owners[127]), (0, parallelism - 1));
        }
    }
}
