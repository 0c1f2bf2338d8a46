//! What is kept under a key: put, delete or append, with an optional expiry.
//!
//! A value is a sequence of **segments**, oldest first. A put begins it anew with one segment, an append
//! adds one, a delete ends it. Each segment expires by its own time, as Flink's list elements do. A
//! merge joins neighbouring segments of equal expiry; an entry with segments of several expiries keeps
//! them apart in its bytes (*segmented*).

use crate::varint::{Reader, put_varint};

/// Longest key in bytes.
pub const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Longest value of one entry in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// What an entry does to what older entries said of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// Replaces it.
    Put,
    /// Removes it.
    Delete,
    /// Adds elements at the end of the list.
    Append,
}

/// One entry, without its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Put, delete or append.
    pub kind: EntryKind,
    /// Number of list elements in `value`; 1 for a plain value, 0 for a delete.
    pub count: u32,
    /// When the entry expires, in milliseconds since the epoch; `None` means never.
    pub expires_ms: Option<i64>,
    /// The bytes; when `segmented`, several segments with their heads.
    pub value: &'a [u8],
    /// Whether `value` is a sequence of encoded segments.
    pub(crate) segmented: bool,
}

impl<'a> Entry<'a> {
    /// A plain value.
    pub fn put(value: &'a [u8]) -> Entry<'a> {
        Entry { kind: EntryKind::Put, count: 1, expires_ms: None, value, segmented: false }
    }

    /// A whole list of `count` elements.
    pub fn put_list(value: &'a [u8], count: u32) -> Entry<'a> {
        Entry { count, ..Entry::put(value) }
    }

    /// A removal.
    pub fn delete() -> Entry<'static> {
        Entry { kind: EntryKind::Delete, count: 0, expires_ms: None, value: &[], segmented: false }
    }

    /// `count` more list elements.
    pub fn append(value: &'a [u8], count: u32) -> Entry<'a> {
        Entry { kind: EntryKind::Append, count, expires_ms: None, value, segmented: false }
    }

    /// The same entry, dead from `expires_ms` on.
    pub fn expiring_at(self, expires_ms: i64) -> Entry<'a> {
        Entry { expires_ms: Some(expires_ms), ..self }
    }

    /// The segments, oldest first. `None` when the bytes are not what was encoded.
    pub(crate) fn segments(&self) -> Segments<'a> {
        if self.segmented {
            Segments::Many(Reader::new(self.value))
        } else if self.kind == EntryKind::Delete {
            Segments::One(None)
        } else {
            Segments::One(Some(Segment { count: self.count, expires_ms: self.expires_ms, bytes: self.value }))
        }
    }
}

/// Whether something that expires at `expires_ms` is dead at `now_ms`.
#[inline]
pub fn is_expired(expires_ms: Option<i64>, now_ms: i64) -> bool {
    expires_ms.is_some_and(|at| at <= now_ms)
}

/// What a store answers for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    /// The bytes; of a list all elements, oldest first.
    pub bytes: &'a [u8],
    /// Number of list elements; 1 for a plain value.
    pub count: u32,
    /// When the last of it expires; `None` means never.
    pub expires_ms: Option<i64>,
}

/// A part of a value with one expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) count: u32,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) bytes: &'a [u8],
}

/// Iterator over the segments of an entry; an item is `Err` where bytes make no sense.
pub(crate) enum Segments<'a> {
    One(Option<Segment<'a>>),
    Many(Reader<'a>),
}

/// Encoded segments that cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadSegment;

impl<'a> Iterator for Segments<'a> {
    type Item = std::result::Result<Segment<'a>, BadSegment>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Segments::One(segment) => segment.take().map(Ok),
            Segments::Many(reader) if reader.is_empty() => None,
            Segments::Many(reader) => match read_segment(reader) {
                Some(segment) => Some(Ok(segment)),
                None => {
                    *self = Segments::One(None);
                    Some(Err(BadSegment))
                }
            },
        }
    }
}

fn read_segment<'a>(reader: &mut Reader<'a>) -> Option<Segment<'a>> {
    let expires_ms = match reader.byte()? {
        0 => None,
        1 => Some(i64::from_le_bytes(reader.array()?)),
        _ => return None,
    };
    let count = u32::try_from(reader.varint()?).ok()?;
    let length = reader.length()?;
    Some(Segment { count, expires_ms, bytes: reader.take(length)? })
}

/// Appends one encoded segment.
pub(crate) fn put_segment(out: &mut Vec<u8>, segment: &Segment<'_>) {
    match segment.expires_ms {
        None => out.push(0),
        Some(at) => {
            out.push(1);
            out.extend_from_slice(&at.to_le_bytes());
        }
    }
    put_varint(out, u64::from(segment.count));
    put_varint(out, segment.bytes.len() as u64);
    out.extend_from_slice(segment.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_back() {
        let parts = [
            Segment { count: 2, expires_ms: None, bytes: b"ab" },
            Segment { count: 1, expires_ms: Some(-7), bytes: b"" },
        ];
        let mut bytes = Vec::new();
        parts.iter().for_each(|part| put_segment(&mut bytes, part));
        let entry = Entry { segmented: true, ..Entry::append(&bytes, 3) };
        assert_eq!(entry.segments().collect::<Vec<_>>(), parts.map(Ok));
        let cut = Entry { value: &bytes[..bytes.len() - 1], ..entry };
        assert_eq!(cut.segments().last(), Some(Err(BadSegment)));
    }

    #[test]
    fn an_entry_dies_at_its_time() {
        assert!(!is_expired(None, i64::MAX));
        assert!(!is_expired(Some(5), 4));
        assert!(is_expired(Some(5), 5));
    }
}
