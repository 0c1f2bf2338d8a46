//! Order-preserving bytes.
//!
//! | value | bytes |
//! |---|---|
//! | key group | 2 bytes big-endian; every key begins with it |
//! | NULL | `00` (sorts first) |
//! | any other nullable value | `01`, then as below |
//! | BOOLEAN | `00` or `01` |
//! | unsigned 64 bits | 8 bytes big-endian |
//! | signed 64 bits | 8 bytes big-endian, sign bit flipped |
//! | signed 128 bits | 16 bytes big-endian, sign bit flipped |
//! | DOUBLE | 8 bytes big-endian of its bits; negative: all bits flipped, else the sign bit; -0 as 0, every NaN as one, behind infinity |
//! | bytes and strings | each `00` as `00 FF`, then `00 00` as the end |

use crate::error::{Result, StateError};

/// Writes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyWriter {
    bytes: Vec<u8>,
}

const SIGN_64: u64 = 1 << 63;
const SIGN_128: u128 = 1 << 127;

impl KeyWriter {
    /// A key of this key group.
    pub fn new(key_group: u16) -> KeyWriter {
        KeyWriter { bytes: key_group.to_be_bytes().to_vec() }
    }

    /// Begins another key, keeping the memory.
    pub fn reset(&mut self, key_group: u16) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&key_group.to_be_bytes());
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A NULL.
    pub fn null(&mut self) -> &mut Self {
        self.bytes.push(0);
        self
    }

    /// Announces a nullable value that is not NULL; its bytes follow.
    pub fn present(&mut self) -> &mut Self {
        self.bytes.push(1);
        self
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    /// An unsigned integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A signed integer of up to 64 bits.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.u64(value as u64 ^ SIGN_64)
    }

    /// A signed integer of up to 128 bits.
    pub fn i128(&mut self, value: i128) -> &mut Self {
        self.bytes.extend_from_slice(&(value as u128 ^ SIGN_128).to_be_bytes());
        self
    }

    /// A double.
    pub fn f64(&mut self, value: f64) -> &mut Self {
        let bits = if value.is_nan() { f64::NAN.abs().to_bits() } else { (value + 0.0).to_bits() };
        self.u64(if bits & SIGN_64 == 0 { bits ^ SIGN_64 } else { !bits })
    }

    /// Bytes, or a string's UTF-8.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        for &byte in value {
            self.bytes.push(byte);
            if byte == 0 {
                self.bytes.push(0xFF);
            }
        }
        self.bytes.extend_from_slice(&[0, 0]);
        self
    }

    /// A string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }
}

/// Reads what a [`KeyWriter`] wrote, in the same order.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> KeyReader<'a> {
    /// Reads the key group, and makes a reader of the rest.
    pub fn new(key: &'a [u8]) -> Result<(u16, KeyReader<'a>)> {
        let mut reader = KeyReader { bytes: key, at: 0 };
        let group = u16::from_be_bytes(reader.array("a key group")?);
        Ok((group, reader))
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn array<const N: usize>(&mut self, detail: &'static str) -> Result<[u8; N]> {
        match self.rest().first_chunk() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(StateError::Encoding { at: self.at, detail }),
        }
    }

    /// Whether a nullable value follows (`true`) or was NULL.
    pub fn is_present(&mut self) -> Result<bool> {
        self.bool()
    }

    /// A boolean.
    pub fn bool(&mut self) -> Result<bool> {
        let at = self.at;
        match self.array("a byte 0 or 1")? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(StateError::Encoding { at, detail: "a byte 0 or 1" }),
        }
    }

    /// An unsigned integer.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array("8 bytes")?))
    }

    /// A signed integer.
    pub fn i64(&mut self) -> Result<i64> {
        Ok((self.u64()? ^ SIGN_64) as i64)
    }

    /// A signed integer of 128 bits.
    pub fn i128(&mut self) -> Result<i128> {
        Ok((u128::from_be_bytes(self.array("16 bytes")?) ^ SIGN_128) as i128)
    }

    /// A double.
    pub fn f64(&mut self) -> Result<f64> {
        let bits = self.u64()?;
        Ok(f64::from_bits(if bits & SIGN_64 == 0 { !bits } else { bits ^ SIGN_64 }))
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let at = self.at;
            match self.array("bytes that end with 00 00")? {
                [0] => match self.array("bytes that end with 00 00")? {
                    [0] => return Ok(out),
                    [0xFF] => out.push(0),
                    _ => return Err(StateError::Encoding { at, detail: "00 FF or 00 00" }),
                },
                [byte] => out.push(byte),
            }
        }
    }

    /// A string.
    pub fn string(&mut self) -> Result<String> {
        let at = self.at;
        String::from_utf8(self.bytes()?).map_err(|_| StateError::Encoding { at, detail: "UTF-8" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex_of(write: impl Fn(&mut KeyWriter) -> &mut KeyWriter) -> String {
        hex::encode(&write(&mut KeyWriter::new(0x0102)).as_slice()[2..])
    }

    #[test]
    fn forms_are_fixed_for_ever() {
        assert_eq!(hex::encode(KeyWriter::new(0x0102).as_slice()), "0102");
        assert_eq!(hex_of(KeyWriter::null), "00");
        assert_eq!(hex_of(|k| k.present().bool(true).bool(false)), "010100");
        assert_eq!(hex_of(|k| k.u64(258)), "0000000000000102");
        assert_eq!(hex_of(|k| k.i64(0)), "8000000000000000");
        assert_eq!(hex_of(|k| k.i64(-1)), "7fffffffffffffff");
        assert_eq!(hex_of(|k| k.i64(i64::MIN)), "0000000000000000");
        assert_eq!(hex_of(|k| k.i128(-2)), "7ffffffffffffffffffffffffffffffe");
        assert_eq!(hex_of(|k| k.f64(1.5)), "bff8000000000000");
        assert_eq!(hex_of(|k| k.f64(-1.5)), "4007ffffffffffff");
        assert_eq!(hex_of(|k| k.f64(-0.0)), "8000000000000000");
        assert_eq!(hex_of(|k| k.f64(f64::NAN)), "fff8000000000000");
        assert_eq!(hex_of(|k| k.string("aé").bytes(&[0, 255])), "61c3a9000000ffff0000");
    }

    #[derive(Clone, Debug)]
    struct Row {
        a: Option<i64>,
        b: Vec<u8>,
        c: f64,
        d: i128,
        e: bool,
    }

    prop_compose! {
        fn row()(
            a in prop_oneof![Just(None), (-2i64..2).prop_map(Some), any::<i64>().prop_map(Some)],
            b in proptest::collection::vec(prop_oneof![0u8..3, 253u8..=255], 0..4),
            c in prop_oneof![Just(0.0), Just(-1.0), any::<f64>().prop_filter("ordered", |c| !c.is_nan())],
            d: i128,
            e: bool,
        ) -> Row { Row { a, b, c, d, e } }
    }

    fn write(row: &Row) -> Vec<u8> {
        let mut key = KeyWriter::new(7);
        match row.a {
            Some(a) => key.present().i64(a),
            None => key.null(),
        };
        key.bytes(&row.b).f64(row.c).i128(row.d).bool(row.e);
        key.into_bytes()
    }

    proptest! {
        #[test]
        fn bytes_are_ordered_as_values_are(x in row(), y in row()) {
            let order = (x.a, &x.b).cmp(&(y.a, &y.b))
                .then_with(|| x.c.partial_cmp(&y.c).unwrap())
                .then_with(|| (x.d, x.e).cmp(&(y.d, y.e)));
            prop_assert_eq!(write(&x).cmp(&write(&y)), order);
        }

        #[test]
        fn values_come_back(x in row()) {
            let bytes = write(&x);
            let (group, mut key) = KeyReader::new(&bytes).unwrap();
            prop_assert_eq!(group, 7);
            let a = if key.is_present().unwrap() { Some(key.i64().unwrap()) } else { None };
            prop_assert_eq!(a, x.a);
            prop_assert_eq!(key.bytes().unwrap(), x.b);
            prop_assert_eq!(key.f64().unwrap(), x.c);
            prop_assert_eq!(key.i128().unwrap(), x.d);
            prop_assert_eq!(key.bool().unwrap(), x.e);
            prop_assert!(key.rest().is_empty());
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok((_, mut key)) = KeyReader::new(&bytes) {
                let _ = (key.clone().string(), key.clone().i128(), key.bool());
            }
        }
    }
}
