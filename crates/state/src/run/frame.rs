//! A frame: the unit that is read, checked and decompressed as one.
//!
//! `tag u8 | length u32 LE | body | checksum u64 LE`. Tag 0: the body is raw; 1: it is an LZ4 block that
//! decompresses to `length` bytes. The checksum is XXH3-64 of all before it, mixed with the frame's
//! offset in its file, so that a frame at the wrong place is found as well as a flipped bit.

use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

const RAW: u8 = 0;
const LZ4: u8 = 1;
const HEAD_BYTES: usize = 5;
const CHECKSUM_BYTES: usize = 8;

/// How the body of data blocks is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// LZ4, unless raw is about as small: two thirds of the size, and 1.4 times the CPU of a read.
    #[default]
    Lz4,
    /// As it is.
    None,
}

/// Checksum of `bytes` as they lie at `offset`.
pub(crate) fn checksum_at(bytes: &[u8], offset: u64) -> u64 {
    xxh3_64(bytes) ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Appends a frame that will lie at `offset` of its file. `scratch` is reused.
pub(crate) fn put_frame(out: &mut Vec<u8>, raw: &[u8], compression: Compression, offset: u64, scratch: &mut Vec<u8>) {
    let start = out.len();
    let compressed = match compression {
        Compression::None => None,
        Compression::Lz4 => compress(raw, scratch),
    };
    out.push(if compressed.is_some() { LZ4 } else { RAW });
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    out.extend_from_slice(compressed.unwrap_or(raw));
    let checksum = checksum_at(&out[start..], offset);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The compressed bytes, when they save at least a sixteenth.
fn compress<'a>(raw: &[u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    scratch.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    let length = lz4_flex::block::compress_into(raw, scratch).ok()?;
    (length < raw.len() - raw.len() / 16).then(|| &scratch[..length])
}

/// Where the raw bytes of a frame are after reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the frame itself.
    InPlace(Range<usize>),
    /// In the buffer for decompressed bytes.
    Decompressed,
}

/// Checks the frame that was read from `offset` and finds or decompresses its raw bytes. The error says
/// what is wrong.
pub(crate) fn open_frame(frame: &[u8], offset: u64, raw: &mut Vec<u8>) -> std::result::Result<Body, String> {
    let Some((checked, checksum)) = frame.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(format!("{} bytes are too few", frame.len()));
    };
    let (expected, found) = (u64::from_le_bytes(*checksum), checksum_at(checked, offset));
    if expected != found {
        return Err(format!("checksum {found:016x} instead of {expected:016x}"));
    }
    let Some((head, body)) = checked.split_first_chunk::<HEAD_BYTES>() else {
        return Err(format!("{} bytes are too few", frame.len()));
    };
    let [tag, length @ ..] = *head;
    let length = u32::from_le_bytes(length) as usize;
    match tag {
        RAW if body.len() == length => Ok(Body::InPlace(HEAD_BYTES..checked.len())),
        // LZ4 cannot grow by more than 255 times: a length beyond that would only cost memory.
        LZ4 if length <= body.len().saturating_mul(256) => {
            raw.resize(length, 0);
            match lz4_flex::block::decompress_into(body, raw) {
                Ok(found) if found == length => Ok(Body::Decompressed),
                Ok(found) => Err(format!("decompresses to {found} bytes instead of {length}")),
                Err(error) => Err(format!("cannot be decompressed: {error}")),
            }
        }
        RAW | LZ4 => Err(format!("{} bytes cannot stand for {length}", body.len())),
        _ => Err(format!("unknown tag {tag}")),
    }
}

/// As [`open_frame`], giving the bytes.
pub(crate) fn read_frame<'a>(
    frame: &'a [u8],
    offset: u64,
    raw: &'a mut Vec<u8>,
) -> std::result::Result<&'a [u8], String> {
    Ok(match open_frame(frame, offset, raw)? {
        Body::InPlace(range) => &frame[range],
        Body::Decompressed => raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_flipped_bit_is_found(raw in proptest::collection::vec(0u8..4, 0..600), at: u16, bit in 0u8..8, lz4: bool) {
            let compression = if lz4 { Compression::Lz4 } else { Compression::None };
            let (mut frame, mut scratch) = (Vec::new(), Vec::new());
            put_frame(&mut frame, &raw, compression, 77, &mut scratch);
            prop_assert_eq!(read_frame(&frame, 77, &mut scratch), Ok(&raw[..]));
            prop_assert!(read_frame(&frame, 78, &mut scratch).is_err());
            let at = usize::from(at) % frame.len();
            frame[at] ^= 1 << bit;
            prop_assert!(read_frame(&frame, 77, &mut scratch).is_err());
        }

        #[test]
        fn foreign_bytes_never_panic(mut body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut scratch = Vec::new();
            prop_assert!(body.len() >= 8 || read_frame(&body, 0, &mut scratch).is_err());
            // With a right checksum only the body is foreign.
            let checksum = checksum_at(&body, 0);
            body.extend_from_slice(&checksum.to_le_bytes());
            let _ = read_frame(&body, 0, &mut scratch);
        }
    }
}
