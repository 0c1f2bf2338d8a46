//! Records inside a decompressed batch: a view that copies nothing and trusts no length.
//!
//! ```text
//! length varint | attributes i8 | timestamp delta varlong | offset delta varint
//! key length varint, key | value length varint, value | header count varint, headers
//! ```
//! Numbers are zigzag varints; a length of -1 is null.

use bytes::{BufMut, BytesMut};

/// One record, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordView<'a> {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset after the batch's base offset.
    pub offset_delta: i32,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; without one the record is a tombstone.
    pub value: Option<&'a [u8]>,
    attributes: u8,
    /// Everything from the key's length to the record's end, as it was written.
    tail: &'a [u8],
}

/// Iterates over the records of a decompressed batch; ends after the first error.
pub(crate) struct Records<'a> {
    rest: &'a [u8],
    left: i32,
}

impl<'a> Records<'a> {
    /// `count` records are expected in `bytes`.
    pub(crate) fn new(bytes: &'a [u8], count: i32) -> Records<'a> {
        Records { rest: bytes, left: count }
    }

    /// Whether nothing follows the records that were read.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.rest.is_empty()
    }

    fn record(&mut self) -> Result<RecordView<'a>, &'static str> {
        let length = length(varint(&mut self.rest)?)?.ok_or("a record has no length")?;
        let mut body = take(&mut self.rest, length)?;
        let attributes = take(&mut body, 1)?[0];
        let timestamp_delta = varint(&mut body)?;
        let offset_delta = i32::try_from(varint(&mut body)?).map_err(|_| "an offset delta is too large")?;
        let tail = body;
        let key = field(&mut body)?;
        let value = field(&mut body)?;
        Ok(RecordView { timestamp_delta, offset_delta, key, value, attributes, tail })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let record = self.record();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// Writes a record again, `timestamp_shift_ms` added to its timestamp delta; key, value and headers stay as
/// they were.
pub(crate) fn put_record(out: &mut BytesMut, record: &RecordView<'_>, timestamp_shift_ms: i64) {
    let timestamp_delta = record.timestamp_delta.wrapping_add(timestamp_shift_ms);
    let mut head = BytesMut::with_capacity(20);
    head.put_u8(record.attributes);
    put_varint(&mut head, timestamp_delta);
    put_varint(&mut head, i64::from(record.offset_delta));
    put_varint(out, (head.len() + record.tail.len()) as i64);
    out.put_slice(&head);
    out.put_slice(record.tail);
}

/// Writes a record without headers.
pub(crate) fn put_fields(
    out: &mut BytesMut,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let mut tail = BytesMut::new();
    for bytes in [key, value] {
        match bytes {
            Some(bytes) => {
                put_varint(&mut tail, bytes.len() as i64);
                tail.put_slice(bytes);
            }
            None => put_varint(&mut tail, -1),
        }
    }
    put_varint(&mut tail, 0);
    put_record(out, &RecordView { timestamp_delta, offset_delta, key, value, attributes: 0, tail: &tail }, 0);
}

fn put_varint(out: &mut BytesMut, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.put_u8(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.put_u8(zigzag as u8);
}

fn varint(rest: &mut &[u8]) -> Result<i64, &'static str> {
    let mut zigzag = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or("a number is cut")?;
        *rest = tail;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        }
    }
    Err("a number has more than ten bytes")
}

fn length(value: i64) -> Result<Option<usize>, &'static str> {
    if value == -1 {
        return Ok(None);
    }
    usize::try_from(value).map(Some).map_err(|_| "a length is negative")
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], &'static str> {
    let (taken, tail) = rest.split_at_checked(count).ok_or("a length goes past the end")?;
    *rest = tail;
    Ok(taken)
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    match length(varint(rest)?)? {
        Some(count) => take(rest, count).map(Some),
        None => Ok(None),
    }
}
