//! Files of staged records.
//!
//! A segment file is eight bytes `TGSEG\0\0\x01`, then blocks, then an end. All numbers are little-endian.
//!
//! ```text
//! block   u32 length of the body (not 0) | u32 length of the records | u64 xxh3 of the body, seeded with the
//!         length of the records | body: records, LZ4
//! end     u32 0 | u64 number of records | u64 xxh3 of that number's bytes
//! record  text topic | bytes key | bytes value | i64 time | headers
//! text    u32 length | bytes
//! bytes   u32 0 for none, else length + 1 | bytes
//! time    milliseconds since the epoch; -2^63 for none
//! headers u32 0 for none, else count + 1 | for each: text name, bytes value
//! ```
//!
//! A file without its end was not finished and holds nothing.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use rdkafka::message::{Header, Headers, OwnedHeaders};
use tidegate_api::{Error, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::records::Record;

const MAGIC: [u8; 8] = *b"TGSEG\0\0\x01";
/// Bytes of records in a block before it is compressed.
const BLOCK_BYTES: usize = 256 * 1024;
/// What no block is larger than: one record that Kafka would refuse.
const BLOCK_BYTES_MAX: usize = 1 << 31;
const NO_TIME: i64 = i64::MIN;

/// Writes a segment file.
pub(super) struct SegmentWriter {
    path: PathBuf,
    out: BufWriter<File>,
    block: Vec<u8>,
    rows: u64,
    /// Bytes of finished blocks.
    bytes: u64,
}

impl SegmentWriter {
    /// Starts a file that must not exist yet.
    pub fn create(path: PathBuf) -> Result<SegmentWriter> {
        let mut open = File::options();
        let file = open.write(true).create_new(true).open(&path).map_err(|e| cannot("written", &path, &e))?;
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, file);
        out.write_all(&MAGIC).map_err(|e| cannot("written", &path, &e))?;
        Ok(SegmentWriter { path, out, block: Vec::new(), rows: 0, bytes: MAGIC.len() as u64 })
    }

    /// Appends a record.
    pub fn push(&mut self, record: &Record<'_>) -> Result<()> {
        let block = &mut self.block;
        put_text(block, record.topic.as_bytes());
        put_bytes(block, record.key);
        put_bytes(block, Some(record.value));
        block.extend(record.timestamp.unwrap_or(NO_TIME).to_le_bytes());
        put_headers(block, record.headers.as_ref());
        self.rows += 1;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Records so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes so far, those that are not compressed yet as they are.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.block.len() as u64
    }

    /// Finishes the file: its path, number of records and length.
    pub fn finish(mut self) -> Result<(PathBuf, u64, u64)> {
        self.end_block()?;
        let rows = self.rows.to_le_bytes();
        let end: Vec<u8> = [&0_u32.to_le_bytes()[..], &rows, &xxh3_64(&rows).to_le_bytes()].concat();
        let written = self.out.write_all(&end).and_then(|()| self.out.flush());
        written.map_err(|e| cannot("written", &self.path, &e))?;
        Ok((self.path, self.rows, self.bytes + end.len() as u64))
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let body = lz4_flex::block::compress(&self.block);
        let (Ok(length), Ok(raw)) = (u32::try_from(body.len()), u32::try_from(self.block.len())) else {
            return Err(Error::job(format!("A record of {} bytes is too large for Kafka.", self.block.len())));
        };
        let head: Vec<u8> =
            [&length.to_le_bytes()[..], &raw.to_le_bytes(), &xxh3_64_with_seed(&body, u64::from(raw)).to_le_bytes()]
                .concat();
        let written = self.out.write_all(&head).and_then(|()| self.out.write_all(&body));
        written.map_err(|e| cannot("written", &self.path, &e))?;
        self.bytes += (head.len() + body.len()) as u64;
        self.block.clear();
        Ok(())
    }
}

/// Gives the records of a segment file to `each`, in order, and returns their number. Stops at its first error.
pub(super) fn read_segment<E: From<Error>>(
    path: &Path,
    mut each: impl FnMut(Record<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<u64, E> {
    let file = File::open(path).map_err(|e| cannot("read", path, &e))?;
    let mut file = BufReader::with_capacity(BLOCK_BYTES, file);
    let magic: [u8; 8] = take(&mut file, path)?;
    if magic != MAGIC {
        return Err(damaged(path, "it does not begin as one").into());
    }
    let mut rows = 0_u64;
    loop {
        let length = u32::from_le_bytes(take(&mut file, path)?) as usize;
        if length == 0 {
            break;
        }
        let raw = u32::from_le_bytes(take(&mut file, path)?) as usize;
        let checksum = u64::from_le_bytes(take(&mut file, path)?);
        if length > BLOCK_BYTES_MAX || raw > BLOCK_BYTES_MAX {
            return Err(damaged(path, "a block has an impossible length").into());
        }
        let mut body = Vec::new();
        let read = file.by_ref().take(length as u64).read_to_end(&mut body);
        read.map_err(|e| cannot("read", path, &e))?;
        if body.len() != length || xxh3_64_with_seed(&body, raw as u64) != checksum {
            return Err(damaged(path, "a block does not have its checksum").into());
        }
        let block = lz4_flex::block::decompress(&body, raw);
        let block = block.map_err(|e| damaged(path, &format!("a block cannot be decompressed ({e})")))?;
        let mut rest = block.as_slice();
        while !rest.is_empty() {
            let record = get_record(&mut rest).ok_or_else(|| damaged(path, "a record is cut off"))?;
            each(record)?;
            rows += 1;
        }
    }
    let counted: [u8; 8] = take(&mut file, path)?;
    let checksum = u64::from_le_bytes(take(&mut file, path)?);
    if checksum != xxh3_64(&counted) || u64::from_le_bytes(counted) != rows {
        return Err(damaged(path, "it does not have as many records as it says").into());
    }
    Ok(rows)
}

fn take<const N: usize>(file: &mut impl Read, path: &Path) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(damaged(path, "it is cut off")),
        Err(e) => Err(cannot("read", path, &e)),
    }
}

fn put_text(block: &mut Vec<u8>, text: &[u8]) {
    block.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    block.extend_from_slice(text);
}

fn put_bytes(block: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(0, |bytes| u32::try_from(bytes.len() + 1).unwrap_or(u32::MAX));
    block.extend(length.to_le_bytes());
    block.extend_from_slice(bytes.unwrap_or_default());
}

fn put_headers(block: &mut Vec<u8>, headers: Option<&OwnedHeaders>) {
    let count = headers.map_or(0, |headers| headers.count() + 1);
    block.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    for header in headers.into_iter().flat_map(Headers::iter) {
        put_text(block, header.key.as_bytes());
        put_bytes(block, header.value);
    }
}

fn get_record<'b>(rest: &mut &'b [u8]) -> Option<Record<'b>> {
    let topic = get_text(rest)?;
    let key = get_bytes(rest)?;
    let value = get_bytes(rest)??;
    let time = i64::from_le_bytes(rest.split_off(..8)?.try_into().ok()?);
    let headers = get_headers(rest)?;
    Some(Record { topic, key, value, timestamp: (time != NO_TIME).then_some(time), headers })
}

fn get_u32(rest: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(rest.split_off(..4)?.try_into().ok()?) as usize)
}

fn get_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    let length = get_u32(rest)?;
    std::str::from_utf8(rest.split_off(..length)?).ok()
}

fn get_bytes<'b>(rest: &mut &'b [u8]) -> Option<Option<&'b [u8]>> {
    match get_u32(rest)? {
        0 => Some(None),
        length => rest.split_off(..length - 1).map(Some),
    }
}

fn get_headers(rest: &mut &[u8]) -> Option<Option<OwnedHeaders>> {
    let count = match get_u32(rest)? {
        0 => return Some(None),
        count => count - 1,
    };
    let mut headers = OwnedHeaders::new();
    for _ in 0..count {
        let (key, value) = (get_text(rest)?, get_bytes(rest)?);
        headers = headers.insert(Header { key, value });
    }
    Some(Some(headers))
}

fn cannot(what: &str, path: &Path, e: &io::Error) -> Error {
    Error::job(format!("The staged file '{}' cannot be {what}: {e}.", path.display()))
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::job(format!(
        "The file '{}' of staged Kafka records is damaged: {why}. Its rows were not written; restore from another \
         checkpoint.",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Bytes = Vec<u8>;
    type Owned = (String, Option<Bytes>, Bytes, Option<i64>, Option<Vec<(String, Option<Bytes>)>>);

    fn write(path: &Path, rows: &[Owned]) -> u64 {
        let mut writer = SegmentWriter::create(path.to_owned()).expect("a file");
        for (topic, key, value, timestamp, headers) in rows {
            let headers = headers.as_ref().map(|list| {
                list.iter()
                    .fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: value.as_deref() }))
            });
            let timestamp = *timestamp;
            let record = Record { topic, key: key.as_deref(), value, timestamp, headers };
            writer.push(&record).expect("written");
        }
        let (_, count, bytes) = writer.finish().expect("finished");
        assert_eq!((count, bytes), (rows.len() as u64, std::fs::metadata(path).expect("a file").len()));
        count
    }

    fn read(path: &Path) -> Result<Vec<Owned>> {
        let mut rows = Vec::new();
        read_segment(path, |record| {
            let headers = record
                .headers
                .map(|headers| headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect());
            let key = record.key.map(<[u8]>::to_vec);
            rows.push((record.topic.to_owned(), key, record.value.to_vec(), record.timestamp, headers));
            Ok::<(), Error>(())
        })?;
        Ok(rows)
    }

    fn row() -> impl Strategy<Value = Owned> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let header = ("[a-z]{0,5}", proptest::option::of(bytes()));
        let headers = proptest::option::of(proptest::collection::vec(header, 0..3));
        ("[a-z]{1,9}", proptest::option::of(bytes()), bytes(), proptest::option::of(1..i64::MAX), headers)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_staged_comes_back(rows in proptest::collection::vec(row(), 0..50)) {
            let dir = tempfile::tempdir().expect("directory");
            let path = dir.path().join("s");
            write(&path, &rows);
            prop_assert_eq!(read(&path).expect("it reads"), rows);
        }

        #[test]
        fn no_damage_goes_unnoticed(rows in proptest::collection::vec(row(), 1..20), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let dir = tempfile::tempdir().expect("directory");
            let path = dir.path().join("s");
            write(&path, &rows);
            let whole = std::fs::read(&path).expect("bytes");
            let mut flipped = whole.clone();
            flipped[at.index(whole.len())] ^= 1 << bit;
            std::fs::write(&path, flipped).expect("written");
            prop_assert!(read(&path).is_err());
            std::fs::write(&path, &whole[..at.index(whole.len())]).expect("written");
            prop_assert!(read(&path).is_err());
        }
    }

    #[test]
    fn many_records_make_many_blocks() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s");
        let value = |i: usize| format!("{i:0>100}").into_bytes();
        let rows: Vec<Owned> = (0..10_000).map(|i| ("t".to_owned(), None, value(i), None, None)).collect();
        write(&path, &rows);
        assert_eq!(read(&path).expect("it reads"), rows);
        assert!(std::fs::metadata(&path).expect("a file").len() < 500_000, "it is compressed");
    }
}
