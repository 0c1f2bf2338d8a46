//! Index pages in memory, up to a budget.
//!
//! CLOCK: a page that was used since the hand last passed stays for another round. One cache serves all
//! stores of a process that share a budget.

use crate::run::Page;
use hashbrown::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bounded cache of index pages and filters.
#[derive(Debug)]
pub struct PageCache {
    budget_bytes: usize,
    next_uid: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Run and page -> place in `slots`.
    places: HashMap<(u64, u32), u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct Slot {
    key: (u64, u32),
    page: Arc<Page>,
    bytes: usize,
    used: bool,
}

/// How a cache has been doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheUse {
    /// Memory of the pages in it.
    pub bytes: usize,
    /// Pages found.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
}

/// What a page costs beside itself: its slot and its place in the table.
const SLOT_BYTES: usize = size_of::<Slot>() + 32;

impl PageCache {
    /// A cache that holds at most `budget_bytes` of pages.
    pub fn new(budget_bytes: usize) -> PageCache {
        PageCache { budget_bytes, next_uid: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// How full it is, and how often it had a page.
    pub fn usage(&self) -> CacheUse {
        let inner = self.lock();
        CacheUse { bytes: inner.bytes, hits: inner.hits, misses: inner.misses }
    }

    /// A name for a run that no other run of this cache has.
    pub(crate) fn new_uid(&self) -> u64 {
        self.next_uid.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under the lock with the parts out of step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, run: u64, page: usize) -> Option<Arc<Page>> {
        let mut inner = self.lock();
        let place = inner.places.get(&(run, page as u32)).copied();
        let slot = place.and_then(|place| inner.slots[place as usize].as_mut()).map(|slot| {
            slot.used = true;
            Arc::clone(&slot.page)
        });
        *(if slot.is_some() { &mut inner.hits } else { &mut inner.misses }) += 1;
        slot
    }

    /// Whether a page is in it; does not count as a use.
    pub(crate) fn has(&self, run: u64, page: usize) -> bool {
        self.lock().places.contains_key(&(run, page as u32))
    }

    pub(crate) fn put(&self, run: u64, page: usize, value: &Arc<Page>) {
        let bytes = value.memory_bytes() + SLOT_BYTES;
        if bytes > self.budget_bytes {
            return;
        }
        let mut inner = self.lock();
        let key = (run, page as u32);
        inner.remove(key);
        while inner.bytes + bytes > self.budget_bytes && inner.evict_one() {}
        inner.bytes += bytes;
        let slot = Some(Slot { key, page: Arc::clone(value), bytes, used: false });
        let place = match inner.free.pop() {
            Some(place) => {
                inner.slots[place as usize] = slot;
                place
            }
            None => {
                inner.slots.push(slot);
                inner.slots.len() as u32 - 1
            }
        };
        inner.places.insert(key, place);
    }

    /// Forgets the pages of a run that is gone.
    pub(crate) fn forget(&self, run: u64, pages: usize) {
        let mut inner = self.lock();
        (0..pages as u32).for_each(|page| inner.remove((run, page)));
    }
}

impl Inner {
    fn remove(&mut self, key: (u64, u32)) {
        if let Some(place) = self.places.remove(&key)
            && let Some(slot) = self.slots[place as usize].take()
        {
            self.bytes -= slot.bytes;
            self.free.push(place);
        }
    }

    /// Moves the hand to a page that was not used and forgets it; `false` when there is no page.
    fn evict_one(&mut self) -> bool {
        // Two rounds suffice: the first clears every mark.
        for _ in 0..2 * self.slots.len() {
            let at = self.hand % self.slots.len();
            self.hand = at + 1;
            match &mut self.slots[at] {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let key = slot.key;
                    self.remove(key);
                    return true;
                }
                None => {}
            }
        }
        false
    }
}
