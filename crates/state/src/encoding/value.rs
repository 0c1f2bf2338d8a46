//! Compact bytes for values.
//!
//! | value | bytes |
//! |---|---|
//! | NULL / present, BOOLEAN | `00` / `01` |
//! | unsigned 64 bits | LEB128: seven bits a byte, lowest first, high bit set but in the last |
//! | signed 64 bits | zigzag (0, -1, 1, -2, ... as 0, 1, 2, 3, ...), then LEB128 |
//! | signed 128 bits | 16 bytes little-endian |
//! | DOUBLE | 8 bytes little-endian, bits as they are |
//! | bytes and strings | length as unsigned, then the bytes |

use crate::error::{Result, StateError};
use crate::varint::{Reader, put_varint};

/// Writes a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueWriter {
    bytes: Vec<u8>,
}

impl ValueWriter {
    /// An empty value.
    pub fn new() -> ValueWriter {
        ValueWriter::default()
    }

    /// Begins another value, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// A boolean, or whether a nullable value follows.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    /// An unsigned integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        put_varint(&mut self.bytes, value);
        self
    }

    /// A signed integer.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.u64(((value << 1) ^ (value >> 63)) as u64)
    }

    /// A signed integer of up to 128 bits.
    pub fn i128(&mut self, value: i128) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A double.
    pub fn f64(&mut self, value: f64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        self
    }

    /// Bytes, or a string's UTF-8.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u64(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// A string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }
}

/// Reads what a [`ValueWriter`] wrote, in the same order.
#[derive(Clone, Debug)]
pub struct ValueReader<'a> {
    reader: Reader<'a>,
}

impl<'a> ValueReader<'a> {
    /// A reader at the start of `value`.
    pub fn new(value: &'a [u8]) -> ValueReader<'a> {
        ValueReader { reader: Reader::new(value) }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    fn or<T>(&self, value: Option<T>, at: usize, detail: &'static str) -> Result<T> {
        value.ok_or(StateError::Encoding { at, detail })
    }

    /// A boolean.
    pub fn bool(&mut self) -> Result<bool> {
        let at = self.reader.position();
        let byte = self.reader.byte().filter(|byte| *byte < 2);
        self.or(byte, at, "a byte 0 or 1").map(|byte| byte == 1)
    }

    /// An unsigned integer.
    pub fn u64(&mut self) -> Result<u64> {
        let at = self.reader.position();
        let value = self.reader.varint();
        self.or(value, at, "a variable-length integer of up to 64 bits")
    }

    /// A signed integer.
    pub fn i64(&mut self) -> Result<i64> {
        let value = self.u64()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A signed integer of 128 bits.
    pub fn i128(&mut self) -> Result<i128> {
        let at = self.reader.position();
        let bytes = self.reader.array();
        self.or(bytes, at, "16 bytes").map(i128::from_le_bytes)
    }

    /// A double.
    pub fn f64(&mut self) -> Result<f64> {
        let at = self.reader.position();
        let bytes = self.reader.array();
        self.or(bytes, at, "8 bytes").map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let at = self.reader.position();
        let length = self.reader.length();
        let length = self.or(length, at, "a length")?;
        let bytes = self.reader.take(length);
        self.or(bytes, at, "as many bytes as the length says")
    }

    /// A string.
    pub fn string(&mut self) -> Result<&'a str> {
        let at = self.reader.position();
        let bytes = self.bytes()?;
        self.or(std::str::from_utf8(bytes).ok(), at, "UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_are_fixed_for_ever() {
        let mut value = ValueWriter::new();
        value.bool(false).bool(true).u64(127).u64(128).i64(0).i64(-1).i64(64).i128(-2).f64(1.5).string("é");
        let expected = concat!(
            "00",
            "01",
            "7f",
            "8001",
            "00",
            "01",
            "8001",
            "feffffffffffffffffffffffffffffff",
            "000000000000f83f",
            "02c3a9"
        );
        assert_eq!(hex::encode(value.as_slice()), expected);
    }

    proptest! {
        #[test]
        fn values_come_back(a: bool, b: u64, c: i64, d: i128, e: f64, f: Vec<u8>, g: String) {
            let mut value = ValueWriter::new();
            value.bool(a).u64(b).i64(c).i128(d).f64(e).bytes(&f).string(&g);
            let mut reader = ValueReader::new(value.as_slice());
            prop_assert_eq!(reader.bool().unwrap(), a);
            prop_assert_eq!(reader.u64().unwrap(), b);
            prop_assert_eq!(reader.i64().unwrap(), c);
            prop_assert_eq!(reader.i128().unwrap(), d);
            prop_assert_eq!(reader.f64().unwrap().to_bits(), e.to_bits());
            prop_assert_eq!(reader.bytes().unwrap(), &f[..]);
            prop_assert_eq!(reader.string().unwrap(), &g);
            prop_assert!(reader.is_empty() && reader.bool().is_err());
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let reader = ValueReader::new(&bytes);
            let _ = (reader.clone().string(), reader.clone().i128(), reader.clone().i64(), reader.clone().bool());
        }
    }
}
