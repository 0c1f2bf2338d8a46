//! A run as it is read: many sorted keys at once, or a range in order (`cursor`).

use super::block::{Block, BlockLayout};
use super::file::{RunFile, Scratch};
use super::footer::Footer;
use super::format::corrupt;
use super::page::Page;
use crate::cache::PageCache;
use crate::entry::Entry;
use crate::error::Result;
use crate::range::KeyRange;
use crate::store::ExpirySpan;
use std::sync::{Arc, OnceLock};

/// A run of a file. Its footer is read when it is first needed, so that opening a snapshot of many runs
/// costs nothing.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its name in the page cache.
    pub(crate) uid: u64,
    pub(crate) file: Arc<RunFile>,
    pub(crate) facts: RunFacts,
    footer: OnceLock<Footer>,
}

/// What is known of a run without reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunFacts {
    pub(crate) footer_offset: u64,
    pub(crate) footer_bytes: u32,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    /// Bytes of data blocks.
    pub(crate) data_bytes: u64,
    pub(crate) entries: u64,
    /// Sequence numbers of the oldest and newest batch in it.
    pub(crate) sequences: (u64, u64),
    pub(crate) expiry: Option<ExpirySpan>,
}

/// The keys of one lookup, ascending, and which of them are still wanted.
pub(crate) struct Lookup<'k> {
    pub(crate) keys: &'k [&'k [u8]],
    pub(crate) hashes: &'k [u64],
}

impl Run {
    pub(crate) fn new(uid: u64, file: Arc<RunFile>, facts: RunFacts) -> Run {
        Run { uid, file, facts, footer: OnceLock::new() }
    }

    /// The footer.
    pub(crate) fn footer(&self) -> Result<&Footer> {
        if let Some(footer) = self.footer.get() {
            return Ok(footer);
        }
        let (offset, bytes) = (self.facts.footer_offset, self.facts.footer_bytes as usize);
        let mut scratch = Scratch::default();
        self.file.read_frame("footer", offset, bytes, &mut scratch)?;
        let footer = Footer::decode(scratch.bytes());
        let footer = footer.ok_or_else(|| corrupt(&self.file.name, "footer", offset, "makes no sense".into()))?;
        Ok(self.footer.get_or_init(|| footer))
    }

    /// Memory of the footer, as far as it has been read.
    pub(crate) fn memory_bytes(&self) -> usize {
        let facts = self.facts.first_key.capacity() + self.facts.last_key.capacity();
        size_of::<Run>() + facts + self.footer.get().map_or(0, Footer::memory_bytes)
    }

    /// Number of index pages, as far as known.
    pub(crate) fn pages_known(&self) -> usize {
        self.footer.get().map_or(0, |footer| footer.pages.len())
    }

    /// Whether a key of `range` may be in it.
    pub(crate) fn touches(&self, range: &KeyRange) -> bool {
        self.facts.last_key >= range.start && range.is_before_end(&self.facts.first_key) && !range.is_empty()
    }

    /// About how many bytes of data lie in `range`.
    pub(crate) fn bytes_in(&self, range: &KeyRange) -> Result<u64> {
        if range.contains(&self.facts.first_key) && range.contains(&self.facts.last_key) {
            return Ok(self.facts.data_bytes);
        }
        if !self.touches(range) {
            return Ok(0);
        }
        Ok(self.footer()?.bytes_in(range))
    }

    /// Reads an index page.
    pub(crate) fn page(&self, index: usize, cache: Option<&PageCache>, scratch: &mut Scratch) -> Result<Arc<Page>> {
        if let Some(page) = cache.and_then(|cache| cache.get(self.uid, index)) {
            return Ok(page);
        }
        let place = self.footer()?.pages[index];
        let offset = place.page_start();
        self.file.read_frame("index page", offset, place.page_bytes as usize, scratch)?;
        let page = Page::decode(scratch.bytes());
        let page = page.ok_or_else(|| corrupt(&self.file.name, "index page", offset, "makes no sense".into()))?;
        let page = Arc::new(page);
        if let Some(cache) = cache {
            cache.put(self.uid, index, &page);
        }
        Ok(page)
    }

    /// An error for a data block that passed its checksum and yet makes no sense.
    pub(crate) fn bad_block(&self, offset: u64) -> crate::StateError {
        corrupt(&self.file.name, "data block", offset, "its entries make no sense".into())
    }

    /// Looks for the keys whose indices are in `todo` (ascending). `found` is told of each entry and
    /// says whether older runs are to be asked for the key too; only such keys, and those not found,
    /// remain in `todo`.
    pub(crate) fn get(
        &self,
        lookup: &Lookup<'_>,
        todo: &mut Vec<u32>,
        cache: &PageCache,
        scratch: &mut Scratch,
        found: &mut dyn FnMut(u32, &Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let footer = self.footer()?;
        let (mut next, mut kept, mut page_from) = (0, 0, 0);
        let mut ahead = ReadAhead { cache, is_asked: false };
        while next < todo.len() {
            let key = lookup.keys[todo[next] as usize];
            let Some(page_index) = footer.page_of(key, page_from) else {
                todo[kept] = todo[next];
                kept += 1;
                next += 1;
                continue;
            };
            page_from = page_index;
            let end = if page_index + 1 == footer.pages.len() {
                todo.len()
            } else {
                gallop(todo, next, |t| footer.keys.compare(page_index + 1, lookup.keys[t as usize]).is_gt())
            };
            let page = self.page(page_index, Some(cache), scratch)?;
            self.get_in_page(&page, lookup, todo, (next, end, &mut kept), scratch, &mut ahead, found)?;
            next = end;
        }
        todo.truncate(kept);
        Ok(())
    }

    fn get_in_page(
        &self,
        page: &Page,
        lookup: &Lookup<'_>,
        todo: &mut [u32],
        (next, end, kept): (usize, usize, &mut usize),
        scratch: &mut Scratch,
        ahead: &mut ReadAhead<'_>,
        found: &mut dyn FnMut(u32, &Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut loaded = usize::MAX;
        let mut layout = BlockLayout::default();
        let (mut block_from, mut entry_from) = (0, 0);
        for at in next..end {
            let t = todo[at];
            let key = lookup.keys[t as usize];
            if page.filter.may_have(lookup.hashes[t as usize])
                && let Some(block_index) = page.keys.count_up_to(key, block_from).checked_sub(1)
            {
                block_from = block_index;
                let (offset, bytes) = page.place(block_index, block_index + 1);
                if loaded != block_index {
                    let rest = &todo[at..];
                    let mut ask = || ahead.ask(self, lookup, rest);
                    self.file.read_frame_or_wait("data block", offset, bytes, scratch, &mut ask)?;
                    layout = BlockLayout::of(scratch.bytes()).ok_or_else(|| self.bad_block(offset))?;
                    (loaded, entry_from) = (block_index, 0);
                }
                let block = Block::new(scratch.bytes(), layout);
                entry_from = block.lower_bound(key, entry_from).ok_or_else(|| self.bad_block(offset))?;
                if let Some(entry) = block.entry_of(entry_from, key)
                    && !found(t, &entry)?
                {
                    continue;
                }
            }
            todo[*kept] = t;
            *kept += 1;
        }
        Ok(())
    }
}

/// Asks the disk for all blocks of a lookup at once, when the first of them has to be waited for. A
/// sorted batch knows its blocks before it reads one; while they are in memory, asking would only cost.
struct ReadAhead<'a> {
    cache: &'a PageCache,
    is_asked: bool,
}

impl ReadAhead<'_> {
    fn ask(&mut self, run: &Run, lookup: &Lookup<'_>, todo: &[u32]) -> Result<()> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Ok(());
        }
        let footer = run.footer()?;
        let page_of = |t: u32| footer.page_of(lookup.keys[t as usize], 0);
        let mut last = None;
        for page in todo.iter().filter_map(|&t| page_of(t)) {
            if last != Some(page) && !self.cache.has(run.uid, page) {
                let place = footer.pages[page];
                run.file.will_need(place.page_start(), u64::from(place.page_bytes));
            }
            last = Some(page);
        }
        let mut scratch = Scratch::default();
        let mut page: Option<(usize, Arc<Page>)> = None;
        let (mut from, mut end) = (0, 0);
        for &t in todo {
            let Some(index) = page_of(t) else { continue };
            let page = match &page {
                Some((loaded, page)) if *loaded == index => Arc::clone(page),
                _ => {
                    let loaded = run.page(index, Some(self.cache), &mut scratch)?;
                    page = Some((index, Arc::clone(&loaded)));
                    loaded
                }
            };
            let block = page.keys.count_up_to(lookup.keys[t as usize], 0).checked_sub(1);
            let Some(block) = block.filter(|_| page.filter.may_have(lookup.hashes[t as usize])) else { continue };
            let (offset, bytes) = page.place(block, block + 1);
            // Blocks side by side are asked for as one.
            if offset > end {
                run.file.will_need(from, end - from);
                from = offset;
            }
            end = end.max(offset + bytes as u64);
        }
        run.file.will_need(from, end - from);
        Ok(())
    }
}

/// The first index from `from` on whose item is not inside; items inside come first. Looks near `from`
/// first: most pages hold few of the wanted keys.
fn gallop(items: &[u32], from: usize, is_inside: impl Fn(u32) -> bool) -> usize {
    let mut step = 1;
    let mut low = from;
    while low + step < items.len() && is_inside(items[low + step]) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(items.len());
    low + items[low..high].partition_point(|&item| is_inside(item))
}

#[cfg(test)]
mod tests {
    use super::gallop;

    #[test]
    fn galloping_finds_the_first_outside() {
        let items: Vec<u32> = (0..100).collect();
        for from in 0..100 {
            for limit in from..=100 {
                assert_eq!(gallop(&items, from, |item| (item as usize) < limit), limit, "{from} {limit}");
            }
        }
    }
}
