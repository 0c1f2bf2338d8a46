//! Walks a request before it is decoded.
//!
//! The generated decoders reserve memory by the number of elements an array announces. A request of
//! twenty bytes may announce two thousand million of them, and a process that asks for that much memory
//! is ended. So every count is checked here against the bytes that are left, by a walk that allocates
//! nothing.
//!
//! Only sizes are looked at: whether a text is UTF-8, or a null allowed, the decoder finds out.

use kafka_protocol::messages::ApiKey;

use super::shapes;

/// Most elements (of arrays, and tagged fields) one request may have, all levels together. Kafka has no
/// such limit; the largest requests that make sense, with all partitions of a cluster, stay far below.
const ELEMENTS_MAX: usize = 1_000_000;

/// The fields of a structure in their order on the wire, tagged ones anywhere.
pub(super) type Fields = &'static [Field];

/// One field of a structure.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    low: i16,
    high: i16,
    /// Its number if it is written as a tagged field.
    tag: Option<u32>,
    kind: Kind,
}

/// How a field is written.
#[derive(Debug)]
pub(super) enum Kind {
    /// That many bytes.
    Fixed(usize),
    /// A length and text, or null.
    String,
    /// A length and bytes, or null.
    Bytes,
    /// A count and elements, or null.
    Array(&'static Kind),
    Struct(Fields),
    /// A byte that says whether it is there, then the structure.
    OptionStruct(Fields),
}

/// A field of every version.
pub(super) const fn always(name: &'static str, kind: Kind) -> Field {
    Field { name, low: 0, high: LAST, tag: None, kind }
}

/// A field of some versions, both ends included.
pub(super) const fn within(name: &'static str, low: i16, high: i16, kind: Kind) -> Field {
    Field { name, low, high, tag: None, kind }
}

/// A tagged field, from a version on.
pub(super) const fn tagged(name: &'static str, tag: u32, low: i16, kind: Kind) -> Field {
    Field { name, low, high: LAST, tag: Some(tag), kind }
}

/// No version is the last one.
pub(super) const LAST: i16 = i16::MAX;

/// Checks that the body of a request has the shape its kind and version demand.
///
/// # Errors
///
/// The field that does not fit, and why.
pub(super) fn check(key: ApiKey, version: i16, flexible: bool, body: &[u8]) -> Result<(), String> {
    let fields = shapes::of(key).ok_or("its shape is not known")?;
    let mut walk = Walk { rest: body, version, flexible, elements: 0 };
    walk.structure(fields)
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    /// Whether lengths are varints of length + 1, and structures end with tagged fields (KIP-482).
    flexible: bool,
    elements: usize,
}

impl Walk<'_> {
    fn structure(&mut self, fields: Fields) -> Result<(), String> {
        let version = self.version;
        for field in fields.iter().filter(|f| f.tag.is_none() && (f.low..=f.high).contains(&version)) {
            self.value(&field.kind).map_err(|reason| inside(field.name, reason))?;
        }
        if self.flexible { self.tagged_fields(fields) } else { Ok(()) }
    }

    fn tagged_fields(&mut self, fields: Fields) -> Result<(), String> {
        for _ in 0..self.varint()? {
            self.count(1)?;
            let tag = self.varint()?;
            let size = self.varint()? as usize;
            let known = fields.iter().find(|f| f.tag == Some(tag) && self.version >= f.low);
            let Some(field) = known else {
                self.skip(size)?;
                continue;
            };
            let before = self.rest.len();
            self.value(&field.kind).map_err(|reason| inside(field.name, reason))?;
            let taken = before - self.rest.len();
            if taken != size {
                return Err(format!("{}: has {taken} bytes where {size} are announced", field.name));
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: &Kind) -> Result<(), String> {
        match kind {
            Kind::Fixed(bytes) => self.skip(*bytes),
            Kind::String => {
                let length = if self.flexible { self.compact_length()? } else { self.int16()?.map(usize::from) };
                self.skip(length.unwrap_or(0))
            }
            Kind::Bytes => {
                let length = self.length()?;
                self.skip(length.unwrap_or(0))
            }
            Kind::Array(element) => {
                let count = self.length()?.unwrap_or(0);
                self.count(count)?;
                for _ in 0..count {
                    self.value(element)?;
                }
                Ok(())
            }
            Kind::Struct(fields) => self.structure(fields),
            Kind::OptionStruct(fields) => {
                let [marker] = self.take()?;
                if marker == 1 { self.structure(fields) } else { Ok(()) }
            }
        }
    }

    /// Notes elements; each takes at least one byte.
    fn count(&mut self, elements: usize) -> Result<(), String> {
        if elements > self.rest.len() {
            return Err(format!("{elements} elements in {} bytes", self.rest.len()));
        }
        self.elements += elements;
        if self.elements > ELEMENTS_MAX {
            return Err(format!("more than {ELEMENTS_MAX} elements"));
        }
        Ok(())
    }

    /// The length of an array or of bytes; none for null.
    fn length(&mut self) -> Result<Option<usize>, String> {
        if self.flexible {
            return self.compact_length();
        }
        let length = i32::from_be_bytes(self.take()?);
        Ok(usize::try_from(length).ok())
    }

    fn compact_length(&mut self) -> Result<Option<usize>, String> {
        Ok((self.varint()? as usize).checked_sub(1))
    }

    fn int16(&mut self) -> Result<Option<u16>, String> {
        let length = i16::from_be_bytes(self.take()?);
        Ok(u16::try_from(length).ok())
    }

    fn varint(&mut self) -> Result<u32, String> {
        let mut value = 0_u32;
        for shift in (0..32).step_by(7) {
            let [byte] = self.take()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a variable-length number of more than five bytes".to_owned())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(N))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), String> {
        self.rest = self.rest.get(bytes..).ok_or_else(|| self.short(bytes))?;
        Ok(())
    }

    fn short(&self, wanted: usize) -> String {
        format!("{wanted} bytes are announced, {} are left", self.rest.len())
    }
}

/// Names the field around an error.
fn inside(field: &str, reason: String) -> String {
    format!("{field}: {reason}")
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BufMut, Bytes, BytesMut};
    use kafka_protocol::messages::RequestKind;

    use super::*;
    use crate::wire::apis::SERVED;

    /// Writes a value of every shape, with two elements in each array and everything there that may be.
    struct Sample {
        bytes: BytesMut,
        version: i16,
        flexible: bool,
    }

    impl Sample {
        fn of(fields: Fields, version: i16, flexible: bool) -> Bytes {
            let mut sample = Sample { bytes: BytesMut::new(), version, flexible };
            sample.structure(fields);
            sample.bytes.freeze()
        }

        fn structure(&mut self, fields: Fields) {
            for field in fields {
                if field.tag.is_none() && (field.low..=field.high).contains(&self.version) {
                    self.value(&field.kind);
                }
            }
            if !self.flexible {
                return;
            }
            let tagged: Vec<_> =
                fields.iter().filter_map(|f| f.tag.filter(|_| self.version >= f.low).map(|tag| (tag, f))).collect();
            self.bytes.put_u8(tagged.len() as u8 + 1);
            for (tag, field) in tagged {
                let mut inner = Sample { bytes: BytesMut::new(), version: self.version, flexible: true };
                inner.value(&field.kind);
                self.tagged(tag as u8, &inner.bytes);
            }
            // One that nobody knows.
            self.tagged(100, b"unknown");
        }

        fn tagged(&mut self, tag: u8, value: &[u8]) {
            self.bytes.put_u8(tag);
            self.bytes.put_u8(value.len() as u8);
            self.bytes.put(value);
        }

        fn value(&mut self, kind: &Kind) {
            match kind {
                Kind::Fixed(bytes) => self.bytes.put_bytes(0, *bytes),
                Kind::String => {
                    if self.flexible {
                        self.bytes.put_u8(3)
                    } else {
                        self.bytes.put_i16(2)
                    }
                    self.bytes.put(&b"ab"[..]);
                }
                Kind::Bytes => {
                    self.length(3);
                    self.bytes.put(&b"xyz"[..]);
                }
                Kind::Array(element) => {
                    self.length(2);
                    self.value(element);
                    self.value(element);
                }
                Kind::Struct(fields) => self.structure(fields),
                Kind::OptionStruct(fields) => {
                    self.bytes.put_i8(1);
                    self.structure(fields);
                }
            }
        }

        fn length(&mut self, length: u8) {
            if self.flexible { self.bytes.put_u8(length + 1) } else { self.bytes.put_i32(i32::from(length)) }
        }
    }

    fn samples() -> impl Iterator<Item = (ApiKey, i16, bool, Bytes)> {
        SERVED.iter().flat_map(|api| {
            (api.low..=api.high).map(|version| {
                let flexible = api.key.request_header_version(version) >= 2;
                let fields = shapes::of(api.key).expect("what is served has a shape");
                (api.key, version, flexible, Sample::of(fields, version, flexible))
            })
        })
    }

    /// What is written by a shape is read by the codec to the last byte, and passes the walk.
    #[test]
    fn every_shape_is_the_codecs() {
        for (key, version, flexible, bytes) in samples() {
            let mut rest = bytes.clone();
            let decoded = RequestKind::decode(key, &mut rest, version);
            assert!(decoded.is_ok(), "{key:?} {version}: {decoded:?}");
            assert!(!rest.has_remaining(), "{key:?} {version}: {} bytes are left", rest.remaining());
            assert_eq!(check(key, version, flexible, &bytes), Ok(()), "{key:?} {version}");
        }
    }

    #[test]
    fn what_ends_too_early_is_refused_everywhere() {
        for (key, version, flexible, bytes) in samples() {
            for end in 0..bytes.len() {
                assert!(check(key, version, flexible, &bytes[..end]).is_err(), "{key:?} {version} cut at {end}");
            }
        }
    }

    #[test]
    fn a_count_needs_its_elements() {
        // Metadata 4: an array of names, then a flag.
        let announced = |count: i32| [&count.to_be_bytes()[..], &[0, 1, b'a', 1]].concat();
        assert_eq!(check(ApiKey::Metadata, 4, false, &announced(1)), Ok(()));
        let refused = check(ApiKey::Metadata, 4, false, &announced(i32::MAX)).expect_err("too many");
        assert_eq!(refused, "topics: 2147483647 elements in 4 bytes");
        let many = [&2_000_000_i32.to_be_bytes()[..], &vec![0; 4_000_001]].concat();
        let refused = check(ApiKey::Metadata, 4, false, &many).expect_err("too many");
        assert_eq!(refused, "topics: more than 1000000 elements");
    }
}
