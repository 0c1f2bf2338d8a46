//! Walks several sorted sources as one, newest first at equal keys.

use crate::batch::WriteBatch;
use crate::entry::{Entry, EntryKind, is_expired};
use crate::error::{Result, StateError};
use crate::fold::Fold;
use crate::range::KeyRange;
use crate::run::RunCursor;
use std::sync::Arc;

/// Entries of a sealed batch in order.
pub(crate) struct BatchCursor {
    batch: Arc<WriteBatch>,
    next: usize,
    end: usize,
}

impl BatchCursor {
    pub(crate) fn new(batch: &Arc<WriteBatch>, range: &KeyRange) -> BatchCursor {
        let next = batch.lower_bound(&range.start, 0);
        let end = range.end.as_ref().map_or(batch.len(), |end| batch.lower_bound(end, next));
        BatchCursor { batch: Arc::clone(batch), next, end }
    }
}

pub(crate) enum Cursor {
    Batch(BatchCursor),
    Run(Box<RunCursor>),
}

impl Cursor {
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Cursor::Run(cursor) => cursor.key(),
            Cursor::Batch(cursor) if cursor.next < cursor.end => cursor.batch.get(cursor.next).map(|(key, _)| key),
            Cursor::Batch(_) => None,
        }
    }

    fn entry(&self) -> Result<Entry<'_>> {
        match self {
            Cursor::Run(cursor) => cursor.entry(),
            Cursor::Batch(cursor) => match cursor.batch.get(cursor.next) {
                Some((_, entry)) => Ok(entry),
                None => Err(StateError::Misuse("read behind the end of a batch".into())),
            },
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Cursor::Run(cursor) => cursor.advance(),
            Cursor::Batch(cursor) => {
                cursor.next += 1;
                Ok(())
            }
        }
    }

    fn bad(&self) -> StateError {
        match self {
            Cursor::Run(cursor) => cursor.bad(),
            Cursor::Batch(_) => StateError::Misuse("segments of a sealed batch make no sense".into()),
        }
    }
}

/// A source, and the ranges that were deleted after it.
pub(crate) struct MergeSource {
    pub(crate) cursor: Cursor,
    pub(crate) hidden: Vec<KeyRange>,
}

/// Several sources as one.
pub(crate) struct MergeCursor {
    /// Newest first.
    sources: Vec<MergeSource>,
    /// First bytes of each source's key, `None` at its end. With a key group and a number in front, eight would not
    /// tell neighbours apart.
    heads: Vec<Option<u128>>,
    key: Vec<u8>,
    /// Sources on the current key, newest first; those in front of `visible` are hidden there.
    tied: Vec<usize>,
    visible: Vec<usize>,
}

fn head_of(key: &[u8]) -> u128 {
    let mut head = [0; size_of::<u128>()];
    let length = key.len().min(head.len());
    head[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(head)
}

impl MergeCursor {
    /// Sources must come newest first.
    pub(crate) fn new(sources: Vec<MergeSource>) -> MergeCursor {
        let heads = sources.iter().map(|source| source.cursor.key().map(head_of)).collect();
        MergeCursor { sources, heads, key: Vec::new(), tied: Vec::new(), visible: Vec::new() }
    }

    /// Goes to the next key that is visible; `false` at the end.
    pub(crate) fn next(&mut self) -> Result<bool> {
        loop {
            for at in self.tied.drain(..) {
                let cursor = &mut self.sources[at].cursor;
                cursor.advance()?;
                self.heads[at] = cursor.key().map(head_of);
            }
            if !self.find_smallest() {
                return Ok(false);
            }
            self.visible.clear();
            for &at in &self.tied {
                if !self.sources[at].hidden.iter().any(|range| range.contains(&self.key)) {
                    self.visible.push(at);
                }
            }
            if !self.visible.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Finds the smallest key and who is on it.
    fn find_smallest(&mut self) -> bool {
        for (at, head) in self.heads.iter().enumerate() {
            let Some(head) = head else { continue };
            let Some(&best) = self.tied.first() else {
                self.tied.push(at);
                continue;
            };
            let order = Some(*head).cmp(&self.heads[best]);
            let order = order.then_with(|| self.sources[at].cursor.key().cmp(&self.sources[best].cursor.key()));
            if order.is_lt() {
                self.tied.clear();
            }
            if order.is_le() {
                self.tied.push(at);
            }
        }
        let Some(key) = self.tied.first().and_then(|&at| self.sources[at].cursor.key()) else {
            return false;
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        true
    }

    /// The current key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Number of entries at the current key that were not deleted by range.
    pub(crate) fn visible(&self) -> usize {
        self.visible.len()
    }

    /// The one entry that decides about the current key, when there is one that need not be folded.
    pub(crate) fn sole(&self, now_ms: i64) -> Result<Option<Entry<'_>>> {
        let Some(&newest) = self.visible.first() else {
            return Ok(None);
        };
        let entry = self.sources[newest].cursor.entry()?;
        let is_plain = entry.kind == EntryKind::Put && !entry.segmented && !is_expired(entry.expires_ms, now_ms);
        Ok(is_plain.then_some(entry))
    }

    /// Folds all entries of the current key.
    pub(crate) fn fold(&self, fold: &mut Fold, now_ms: i64) -> Result<()> {
        fold.clear();
        for &at in &self.visible {
            let cursor = &self.sources[at].cursor;
            fold.add(&cursor.entry()?, now_ms).map_err(|_| cursor.bad())?;
            if fold.is_closed() {
                break;
            }
        }
        Ok(())
    }
}
