//! A state file as a whole: `head | runs | directory frame | tail`.
//!
//! A file is a **pack** of one or more runs, so that the many small run sets of one flush need one file.
//!
//! ```text
//! head   magic "TGSTATE1" | version u32 | checksum u32 of these twelve bytes
//! run    (data block frames, then their index page's frame)* | footer frame
//! directory frame: n, then for each run its namespace i64, footer offset and footer length
//! tail   directory offset u64 | directory length u32 | version u32 | checksum u64 of these and of the
//!        directory frame | magic "TGSTATE1"
//! ```
//!
//! Integers are little-endian. Every byte is under one of the checksums. The tail's checksum names the
//! file's content as far as footers go; a snapshot records it, so another file of the same name is found.

use super::frame::checksum_at;
use crate::error::{Result, StateError};
use crate::varint::{Reader, put_varint};
use xxhash_rust::xxh3::xxh3_64;

/// First and last eight bytes of a state file.
pub const MAGIC: [u8; 8] = *b"TGSTATE1";

/// The version that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

pub(crate) const HEAD_BYTES: usize = 16;
pub(crate) const TAIL_BYTES: usize = 32;

/// A run's place in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) namespace: i64,
    pub(crate) footer_offset: u64,
    pub(crate) footer_bytes: u32,
    /// Checksum that the footer's frame ends with: ties the footer to the directory.
    pub(crate) footer_checksum: u64,
}

pub(crate) fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let checksum = xxh3_64(&head[..12]) as u32;
    head[12..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// Checks the first bytes of `file`.
pub(crate) fn check_head(file: &str, head: &[u8; HEAD_BYTES]) -> Result<()> {
    if head[..8] != MAGIC {
        return Err(StateError::Foreign { file: file.into() });
    }
    let [.., c0, c1, c2, c3] = *head;
    if xxh3_64(&head[..12]) as u32 != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(corrupt(file, "head", 0, "wrong checksum".into()));
    }
    let [_, _, _, _, _, _, _, _, v0, v1, v2, v3, ..] = *head;
    let found = u32::from_le_bytes([v0, v1, v2, v3]);
    if found > FORMAT_VERSION {
        return Err(StateError::NewerVersion { file: file.into(), found, supported: FORMAT_VERSION });
    }
    Ok(())
}

/// What the end of a file says.
pub(crate) struct Tail {
    pub(crate) directory_offset: u64,
    pub(crate) directory_bytes: u32,
    pub(crate) checksum: u64,
}

impl Tail {
    pub(crate) fn new(directory_offset: u64, directory: &[u8]) -> Tail {
        let directory_bytes = directory.len() as u32;
        let checksum = Tail::checksum(directory_offset, directory_bytes, directory);
        Tail { directory_offset, directory_bytes, checksum }
    }

    fn checksum(directory_offset: u64, directory_bytes: u32, directory: &[u8]) -> u64 {
        let mut head = [0; 16];
        head[..8].copy_from_slice(&directory_offset.to_le_bytes());
        head[8..12].copy_from_slice(&directory_bytes.to_le_bytes());
        head[12..].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        checksum_at(directory, xxh3_64(&head))
    }

    pub(crate) fn encode(&self) -> [u8; TAIL_BYTES] {
        let mut tail = [0; TAIL_BYTES];
        tail[..8].copy_from_slice(&self.directory_offset.to_le_bytes());
        tail[8..12].copy_from_slice(&self.directory_bytes.to_le_bytes());
        tail[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        tail[16..24].copy_from_slice(&self.checksum.to_le_bytes());
        tail[24..].copy_from_slice(&MAGIC);
        tail
    }

    /// Reads the tail of `file`, which is `length` bytes long.
    pub(crate) fn decode(file: &str, tail: &[u8; TAIL_BYTES], length: u64) -> Result<Tail> {
        let at = length - TAIL_BYTES as u64;
        if tail[24..] != MAGIC {
            return Err(corrupt(file, "tail", at, "no magic bytes: the file is cut off".into()));
        }
        let mut reader = Reader::new(tail);
        let (offset, bytes, version, checksum) = (
            reader.array().unwrap_or_default(),
            reader.array().unwrap_or_default(),
            reader.array().unwrap_or_default(),
            reader.array().unwrap_or_default(),
        );
        let tail = Tail {
            directory_offset: u64::from_le_bytes(offset),
            directory_bytes: u32::from_le_bytes(bytes),
            checksum: u64::from_le_bytes(checksum),
        };
        let is_whole = tail.directory_offset.checked_add(u64::from(tail.directory_bytes)) == Some(at);
        if !is_whole || u32::from_le_bytes(version) != FORMAT_VERSION {
            return Err(corrupt(file, "tail", at, "the directory's place makes no sense".into()));
        }
        Ok(tail)
    }

    /// Whether the directory is the one the tail was written for.
    pub(crate) fn matches(&self, directory: &[u8]) -> bool {
        self.checksum == Tail::checksum(self.directory_offset, self.directory_bytes, directory)
    }
}

pub(crate) fn encode_directory(runs: &[DirectoryEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, runs.len() as u64);
    for run in runs {
        out.extend_from_slice(&run.namespace.to_le_bytes());
        put_varint(&mut out, run.footer_offset);
        put_varint(&mut out, u64::from(run.footer_bytes));
        out.extend_from_slice(&run.footer_checksum.to_le_bytes());
    }
    out
}

pub(crate) fn decode_directory(raw: &[u8]) -> Option<Vec<DirectoryEntry>> {
    let mut reader = Reader::new(raw);
    let mut runs = Vec::new();
    for _ in 0..reader.length()? {
        runs.push(DirectoryEntry {
            namespace: i64::from_le_bytes(reader.array()?),
            footer_offset: reader.varint()?,
            footer_bytes: u32::try_from(reader.varint()?).ok()?,
            footer_checksum: u64::from_le_bytes(reader.array()?),
        });
    }
    reader.is_empty().then_some(runs)
}

/// An error that names the file, the part and its place.
pub(crate) fn corrupt(file: &str, part: &str, offset: u64, detail: String) -> StateError {
    StateError::Corrupt { file: file.into(), place: format!("{part} at byte {offset}"), detail }
}
