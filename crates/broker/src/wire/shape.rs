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
