//! Records in and out of the four codecs, with a bound on what may come out.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::compression::{Compressor, Snappy};
use kafka_protocol::records::Compression;

use super::{BatchError, BatchHeader, DECOMPRESSED_MAX, HEADER_SIZE};

/// Head of snappy as the Java client frames it (xerial): magic, version, lowest compatible version.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER: usize = 16;
/// Kafka's default levels.
const LZ4_LEVEL: i32 = 9;
const ZSTD_LEVEL: i32 = 3;

/// The records of `batch`, decompressed; without compression they are borrowed.
pub(crate) fn decompress<'a>(header: &BatchHeader, batch: &'a [u8]) -> Result<std::borrow::Cow<'a, [u8]>, BatchError> {
    let damaged = |what| BatchError::Records { offset: header.base_offset, what };
    let records = batch.get(HEADER_SIZE..header.size).ok_or(damaged("the batch is cut"))?;
    let plain = match header.compression().ok_or(damaged("the codec is unknown"))? {
        Compression::None => return Ok(records.into()),
        Compression::Gzip => bounded(flate2::read::MultiGzDecoder::new(records)),
        Compression::Lz4 => lz4::Decoder::new(records).and_then(bounded),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(records).and_then(bounded),
        Compression::Snappy => snappy(records),
    };
    plain.map(Into::into).map_err(|_| damaged("decompression failed"))
}

/// `records` in the given codec, at the level that Kafka takes unless `level` says another; snappy has no levels.
pub(crate) fn compress(records: &[u8], codec: Compression, level: Option<i32>) -> Bytes {
    let done = match codec {
        Compression::None => return Bytes::copy_from_slice(records),
        Compression::Gzip => gzip(records, level),
        Compression::Snappy => return snappy_frames(records),
        Compression::Lz4 => lz4(records, level.unwrap_or(LZ4_LEVEL)),
        Compression::Zstd => zstd::stream::encode_all(records, level.unwrap_or(ZSTD_LEVEL)),
    };
    done.expect("compressing from memory to memory has no way to fail but running out of it").into()
}

fn gzip(records: &[u8], level: Option<i32>) -> io::Result<Vec<u8>> {
    let level = level.and_then(|level| u32::try_from(level).ok());
    let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(records)?;
    encoder.finish()
}

fn lz4(records: &[u8], level: i32) -> io::Result<Vec<u8>> {
    let mut builder = lz4::EncoderBuilder::new();
    // Linked blocks are unknown to the Java client's decoder.
    builder.level(level.unsigned_abs()).block_mode(lz4::BlockMode::Independent);
    let mut encoder = builder.build(Vec::new())?;
    encoder.write_all(records)?;
    let (compressed, finished) = encoder.finish();
    finished.map(|()| compressed)
}

fn snappy_frames(records: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    let done = Snappy::compress(&mut out, |buffer: &mut BytesMut| {
        buffer.extend_from_slice(records);
        Ok(())
    });
    done.expect("compressing from memory to memory has no way to fail but running out of it");
    out.freeze()
}

fn bounded(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = decoder.take(DECOMPRESSED_MAX as u64 + 1).read_to_end(&mut plain)?;
    if read > DECOMPRESSED_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(plain)
}

/// Snappy in the framing of the Java client, or raw as librdkafka's own fallback reads it.
fn snappy(mut records: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    if !records.starts_with(XERIAL_MAGIC) {
        snappy_block(records, &mut plain)?;
        return Ok(plain);
    }
    records = records.get(XERIAL_HEADER..).ok_or(io::ErrorKind::UnexpectedEof)?;
    while !records.is_empty() {
        let length = records.try_get_u32().map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let (block, rest) = records.split_at_checked(length as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        snappy_block(block, &mut plain)?;
        records = rest;
    }
    Ok(plain)
}

fn snappy_block(block: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
    let length = snap::raw::decompress_len(block)?;
    let start = plain.len();
    if start.saturating_add(length) > DECOMPRESSED_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    plain.resize(start + length, 0);
    snap::raw::Decoder::new().decompress(block, &mut plain[start..])?;
    Ok(())
}
