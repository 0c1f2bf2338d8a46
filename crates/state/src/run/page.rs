//! An index page: for about 256 KiB of neighbouring blocks their first keys and places, and the filter of all
//! their keys. Pages are read when they are needed and kept in a cache with a budget; only the footer,
//! which knows the pages, stays in memory.

use super::filter::Filter;
use super::key_table::KeyTable;
use crate::varint::{Reader, put_varint};

/// Raw bytes of the blocks of one page, about.
pub(crate) const PAGE_BYTES: usize = 256 << 10;

/// Collects a page while its blocks are written.
#[derive(Default)]
pub(crate) struct PageBuilder {
    first_keys: Vec<Vec<u8>>,
    frame_bytes: Vec<u32>,
    hashes: Vec<u64>,
    start: u64,
}

impl PageBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.first_keys.is_empty()
    }

    /// Whether it has as many blocks, each of about this size, as a page should.
    pub(crate) fn is_full(&self, block_bytes: usize) -> bool {
        self.first_keys.len() * block_bytes >= PAGE_BYTES
    }

    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        self.first_keys.first().map(Vec::as_slice)
    }

    /// Offset of the first block.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn push_key(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    pub(crate) fn push_block(&mut self, first_key: Vec<u8>, offset: u64, frame_bytes: u32) {
        if self.first_keys.is_empty() {
            self.start = offset;
        }
        self.first_keys.push(first_key);
        self.frame_bytes.push(frame_bytes);
    }

    /// Appends the raw page; the builder is empty afterwards. Layout: `offset of the first block varint |
    /// first keys | a varint length for each block | filter`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        put_varint(out, self.start);
        KeyTable::encode(&self.first_keys, out);
        self.frame_bytes.iter().for_each(|bytes| put_varint(out, u64::from(*bytes)));
        Filter::build(&self.hashes).encode(out);
        self.first_keys.clear();
        self.frame_bytes.clear();
        self.hashes.clear();
    }
}

/// A page as it is searched.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) keys: KeyTable,
    pub(crate) filter: Filter,
    /// Offset of the first block, then of each block its end, relative to it.
    start: u64,
    ends: Vec<u32>,
}

impl Page {
    /// Reads a raw page; `None` when it makes no sense.
    pub(crate) fn decode(raw: &[u8]) -> Option<Page> {
        let mut reader = Reader::new(raw);
        let start = reader.varint()?;
        let keys = KeyTable::decode(&mut reader)?;
        let mut ends = Vec::with_capacity(keys.len());
        let mut end = 0u32;
        for _ in 0..keys.len() {
            end = end.checked_add(u32::try_from(reader.varint()?).ok()?)?;
            ends.push(end);
        }
        start.checked_add(u64::from(end))?;
        let filter = Filter::decode(&raw[reader.position()..])?;
        (keys.len() > 0).then_some(Page { keys, filter, start, ends })
    }

    pub(crate) fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// Offset in the file, and bytes, of the blocks from `first` up to but not including `end`.
    #[inline]
    pub(crate) fn place(&self, first: usize, end: usize) -> (u64, usize) {
        let from = if first == 0 { 0 } else { self.ends[first - 1] };
        (self.start + u64::from(from), (self.ends[end - 1] - from) as usize)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Page>() + self.keys.memory_bytes() + self.filter.memory_bytes() + self.ends.capacity() * 4
    }
}
