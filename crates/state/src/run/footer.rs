//! A run's footer: what is in the run, where its index pages are, and the key-group directory.

use super::key_table::KeyTable;
use crate::range::KeyRange;
use crate::varint::{Reader, put_varint};

/// A key group's share of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupShare {
    /// The key group.
    pub key_group: u16,
    /// Its entries.
    pub entries: u64,
    /// Offset in the file of the block in which it begins.
    pub offset: u64,
}

/// What a run contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunCounts {
    /// Entries of all kinds.
    pub entries: u64,
    /// Of these, deletes.
    pub deletes: u64,
    /// Of these, appends.
    pub appends: u64,
    /// Entries that expire at some time.
    pub expiring: u64,
    /// Data blocks.
    pub blocks: u64,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// Bytes of data blocks in the file.
    pub data_bytes: u64,
}

/// Where an index page lies, and its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PagePlace {
    /// Offset of its first block; the page's frame lies behind its blocks.
    pub(crate) data_start: u64,
    pub(crate) data_bytes: u64,
    pub(crate) page_bytes: u32,
}

impl PagePlace {
    pub(crate) fn page_start(&self) -> u64 {
        self.data_start + self.data_bytes
    }
}

#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) counts: RunCounts,
    /// Key-group directory, ascending.
    pub(crate) groups: Vec<GroupShare>,
    /// First key of each page.
    pub(crate) keys: KeyTable,
    pub(crate) pages: Vec<PagePlace>,
    pub(crate) last_key: Vec<u8>,
}

impl Footer {
    /// Layout: counts as varints | last key | key-group directory | first keys of the pages | places of
    /// the pages.
    pub(crate) fn encode(
        counts: &RunCounts,
        groups: &[GroupShare],
        first_keys: &[Vec<u8>],
        pages: &[PagePlace],
        last_key: &[u8],
        out: &mut Vec<u8>,
    ) {
        let RunCounts { entries, deletes, appends, expiring, blocks, raw_bytes, data_bytes } = *counts;
        for number in [entries, deletes, appends, expiring, blocks, raw_bytes, data_bytes] {
            put_varint(out, number);
        }
        put_varint(out, last_key.len() as u64);
        out.extend_from_slice(last_key);
        put_varint(out, groups.len() as u64);
        for share in groups {
            out.extend_from_slice(&share.key_group.to_be_bytes());
            put_varint(out, share.entries);
            put_varint(out, share.offset);
        }
        KeyTable::encode(first_keys, out);
        for page in pages {
            put_varint(out, page.data_start);
            put_varint(out, page.data_bytes);
            put_varint(out, u64::from(page.page_bytes));
        }
    }

    pub(crate) fn decode(raw: &[u8]) -> Option<Footer> {
        let mut reader = Reader::new(raw);
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = reader.varint()?;
        }
        let [entries, deletes, appends, expiring, blocks, raw_bytes, data_bytes] = numbers;
        let counts = RunCounts { entries, deletes, appends, expiring, blocks, raw_bytes, data_bytes };
        let length = reader.length()?;
        let last_key = reader.take(length)?.to_vec();
        let mut groups = Vec::new();
        for _ in 0..reader.length()? {
            let key_group = u16::from_be_bytes(reader.array()?);
            groups.push(GroupShare { key_group, entries: reader.varint()?, offset: reader.varint()? });
        }
        let keys = KeyTable::decode(&mut reader)?;
        let mut pages = Vec::with_capacity(keys.len());
        for _ in 0..keys.len() {
            let page = PagePlace {
                data_start: reader.varint()?,
                data_bytes: reader.varint()?,
                page_bytes: u32::try_from(reader.varint()?).ok()?,
            };
            page.data_start.checked_add(page.data_bytes)?;
            pages.push(page);
        }
        (reader.is_empty() && !pages.is_empty()).then_some(Footer { counts, groups, keys, pages, last_key })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Footer>()
            + self.keys.memory_bytes()
            + self.pages.capacity() * size_of::<PagePlace>()
            + self.groups.capacity() * size_of::<GroupShare>()
            + self.last_key.capacity()
    }

    /// Index of the page whose keys may hold `key`: the last one that does not begin behind it.
    #[inline]
    pub(crate) fn page_of(&self, key: &[u8], from: usize) -> Option<usize> {
        self.keys.count_up_to(key, from).checked_sub(1)
    }

    /// The pages that may hold keys of `range`.
    pub(crate) fn pages_of(&self, range: &KeyRange) -> std::ops::Range<usize> {
        let first = self.page_of(&range.start, 0).unwrap_or(0);
        let end = range.end.as_ref().map_or(self.pages.len(), |end| self.keys.count_before(end));
        first..end.max(first)
    }

    /// About how many bytes of data blocks lie in `range`; exact but for the pages at its two ends.
    pub(crate) fn bytes_in(&self, range: &KeyRange) -> u64 {
        self.pages[self.pages_of(range)].iter().map(|page| page.data_bytes).sum()
    }
}
