//! Reads a range of a run in order. Reads ahead in steps that double, so that a short scan reads one
//! block and a merge reads half a megabyte at a time.

use super::block::{Block, BlockLayout};
use super::file::Scratch;
use super::frame::{Body, open_frame};
use super::page::Page;
use super::reader::Run;
use crate::cache::PageCache;
use crate::entry::Entry;
use crate::error::Result;
use crate::range::KeyRange;
use std::sync::Arc;

const FIRST_READ_BYTES: usize = 4 << 10;
const LONGEST_READ_BYTES: usize = 512 << 10;

/// A place in a run, on an entry or behind the last one of the range.
pub(crate) struct RunCursor {
    run: Arc<Run>,
    cache: Option<Arc<PageCache>>,
    range_end: Option<Vec<u8>>,
    page_index: usize,
    page: Option<Arc<Page>>,
    /// The block behind the current one.
    next_block: usize,
    /// Blocks of the page read ahead: their bytes, first and end.
    ahead: Vec<u8>,
    ahead_blocks: (usize, usize),
    read_bytes: usize,
    /// The current block.
    raw: Vec<u8>,
    body: Body,
    body_base: usize,
    block_offset: u64,
    layout: BlockLayout,
    index: usize,
    key: Vec<u8>,
    at_end: bool,
    scratch: Scratch,
}

impl RunCursor {
    /// A cursor on the first entry of `range`. `cache` is for scans; merges pass none, so that they do
    /// not push out the pages that lookups need.
    pub(crate) fn new(run: &Arc<Run>, range: &KeyRange, cache: Option<&Arc<PageCache>>) -> Result<RunCursor> {
        let mut cursor = RunCursor {
            run: Arc::clone(run),
            cache: cache.cloned(),
            range_end: range.end.clone(),
            page_index: 0,
            page: None,
            next_block: 0,
            ahead: Vec::new(),
            ahead_blocks: (0, 0),
            read_bytes: FIRST_READ_BYTES,
            raw: Vec::new(),
            body: Body::Decompressed,
            body_base: 0,
            block_offset: 0,
            layout: BlockLayout::default(),
            index: 0,
            key: Vec::new(),
            at_end: !run.touches(range),
            scratch: Scratch::default(),
        };
        if !cursor.at_end {
            cursor.seek(&range.start)?;
        }
        Ok(cursor)
    }

    /// Goes to the first entry not before `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.page_index = self.run.footer()?.page_of(key, 0).unwrap_or(0);
        let page = self.load_page()?;
        self.next_block = page.keys.count_up_to(key, 0).saturating_sub(1);
        self.next_block()?;
        if !self.at_end {
            self.index = self.block().lower_bound(key, 0).ok_or_else(|| self.run.bad_block(self.block_offset))?;
            self.settle()?;
        }
        Ok(())
    }

    fn load_page(&mut self) -> Result<Arc<Page>> {
        let page = self.run.page(self.page_index, self.cache.as_deref(), &mut self.scratch)?;
        self.page = Some(Arc::clone(&page));
        self.next_block = 0;
        self.ahead_blocks = (0, 0);
        Ok(page)
    }

    /// The current entry's key.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        (!self.at_end).then_some(self.key.as_slice())
    }

    /// The current entry.
    pub(crate) fn entry(&self) -> Result<Entry<'_>> {
        let entry = self.block().entry(self.index);
        entry.map(|(_, entry)| entry).ok_or_else(|| self.bad())
    }

    /// An error at the current block.
    pub(crate) fn bad(&self) -> crate::StateError {
        self.run.bad_block(self.block_offset)
    }

    /// Goes on to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.index += 1;
        self.settle()
    }

    fn block(&self) -> Block<'_> {
        Block::new(self.block_bytes(), self.layout)
    }

    /// Moves over ends of blocks, reads the key, and stops at the end of the range.
    fn settle(&mut self) -> Result<()> {
        while !self.at_end && self.index >= self.block().len() {
            self.next_block()?;
        }
        if self.at_end {
            return Ok(());
        }
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.block().prefix());
        let (rest, _) = self.block().entry(self.index).ok_or_else(|| self.bad())?;
        key.extend_from_slice(rest);
        self.at_end = self.range_end.as_deref().is_some_and(|end| key.as_slice() >= end);
        self.key = key;
        Ok(())
    }

    /// Reads the next block, of the next page when this one is used up.
    fn next_block(&mut self) -> Result<()> {
        let mut page = match &self.page {
            Some(page) => Arc::clone(page),
            None => self.load_page()?,
        };
        while self.next_block >= page.blocks() {
            if self.page_index + 1 >= self.run.footer()?.pages.len() {
                self.at_end = true;
                return Ok(());
            }
            self.page_index += 1;
            page = self.load_page()?;
        }
        let block = self.next_block;
        if block >= self.ahead_blocks.1 || block < self.ahead_blocks.0 {
            self.read_ahead(&page, block)?;
        }
        let (ahead_offset, _) = page.place(self.ahead_blocks.0, self.ahead_blocks.0 + 1);
        let (offset, bytes) = page.place(block, block + 1);
        let base = (offset - ahead_offset) as usize;
        let frame = &self.ahead[base..base + bytes];
        let name = &self.run.file.name;
        let body = open_frame(frame, offset, &mut self.raw);
        self.body = body.map_err(|detail| super::format::corrupt(name, "data block", offset, detail))?;
        (self.body_base, self.block_offset, self.index) = (base, offset, 0);
        self.layout = BlockLayout::default();
        let layout = BlockLayout::of(self.block_bytes());
        self.layout = layout.ok_or_else(|| self.bad())?;
        self.next_block += 1;
        Ok(())
    }

    fn block_bytes(&self) -> &[u8] {
        match &self.body {
            Body::InPlace(range) => &self.ahead[self.body_base + range.start..self.body_base + range.end],
            Body::Decompressed => &self.raw,
        }
    }

    fn read_ahead(&mut self, page: &Page, block: usize) -> Result<()> {
        let mut end = block + 1;
        while end < page.blocks() && page.place(block, end + 1).1 <= self.read_bytes {
            end += 1;
        }
        let (offset, bytes) = page.place(block, end);
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.run.file.written.bytes) {
            return Err(self.run.bad_block(offset));
        }
        self.ahead.resize(bytes, 0);
        self.run.file.read_exact(&mut self.ahead, offset)?;
        self.ahead_blocks = (block, end);
        self.read_bytes = (self.read_bytes * 2).min(LONGEST_READ_BYTES);
        Ok(())
    }
}
