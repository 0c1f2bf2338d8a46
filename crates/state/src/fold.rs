//! Folds what several runs say of one key, newest first, into one answer or one entry.

use crate::entry::{BadSegment, Entry, EntryKind, Segment, Value, is_expired, put_segment};

/// Collects the entries of one key. Reused from key to key.
#[derive(Default)]
pub(crate) struct Fold {
    /// Bytes of all segments, in the order they came.
    arena: Vec<u8>,
    /// Oldest last until `finish`.
    parts: Vec<Part>,
    /// Segments of the entry being added, oldest first.
    incoming: Vec<Part>,
    /// Whether a put or delete has been met: older entries say nothing.
    closed: bool,
    encoded: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    count: u32,
    expires_ms: Option<i64>,
}

impl Fold {
    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.parts.clear();
        self.closed = false;
    }

    /// Whether older entries can be skipped.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds the next older entry.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, now_ms: i64) -> Result<(), BadSegment> {
        self.incoming.clear();
        for segment in entry.segments() {
            let Segment { count, expires_ms, bytes } = segment?;
            if !is_expired(expires_ms, now_ms) {
                let start = self.arena.len();
                self.arena.extend_from_slice(bytes);
                self.incoming.push(Part { start, end: self.arena.len(), count, expires_ms });
            }
        }
        self.parts.extend(self.incoming.drain(..).rev());
        self.closed = entry.kind != EntryKind::Append;
        Ok(())
    }

    /// What a reader sees: all segments, oldest first, in `out`.
    pub(crate) fn value<'a>(&self, out: &'a mut Vec<u8>) -> Option<Value<'a>> {
        let first = self.parts.first()?;
        let (mut count, mut expires_ms) = (0u32, first.expires_ms);
        out.clear();
        for part in self.parts.iter().rev() {
            out.extend_from_slice(&self.arena[part.start..part.end]);
            count = count.saturating_add(part.count);
            expires_ms = expires_ms.zip(part.expires_ms).map(|(a, b)| a.max(b));
        }
        Some(Value { bytes: out, count, expires_ms })
    }

    /// The one entry that says the same; `None` when nothing need be written. `is_bottom` says that there
    /// are no older entries anywhere.
    pub(crate) fn entry(&mut self, is_bottom: bool) -> Option<Entry<'_>> {
        let kind = match (self.closed || is_bottom, self.parts.is_empty()) {
            (true, true) => return (!is_bottom).then(Entry::delete),
            (false, true) => return None,
            (true, false) => EntryKind::Put,
            (false, false) => EntryKind::Append,
        };
        let count = self.parts.iter().fold(0u32, |sum, part| sum.saturating_add(part.count));
        let expires_ms = self.parts[0].expires_ms;
        self.encoded.clear();
        let uniform = self.parts.iter().all(|part| part.expires_ms == expires_ms);
        if uniform {
            for part in self.parts.iter().rev() {
                self.encoded.extend_from_slice(&self.arena[part.start..part.end]);
            }
            return Some(Entry { kind, count, expires_ms, value: &self.encoded, segmented: false });
        }
        let mut joined = Vec::new();
        let mut left = self.parts.len();
        while left > 0 {
            let expires_ms = self.parts[left - 1].expires_ms;
            let (mut count, from) = (0u32, left);
            while left > 0 && self.parts[left - 1].expires_ms == expires_ms {
                left -= 1;
                count = count.saturating_add(self.parts[left].count);
            }
            joined.clear();
            for part in self.parts[left..from].iter().rev() {
                joined.extend_from_slice(&self.arena[part.start..part.end]);
            }
            put_segment(&mut self.encoded, &Segment { count, expires_ms, bytes: &joined });
        }
        Some(Entry { kind, count, expires_ms: None, value: &self.encoded, segmented: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(newest_first: &[Entry<'_>], now_ms: i64) -> Fold {
        let mut fold = Fold::default();
        for entry in newest_first {
            if !fold.is_closed() {
                fold.add(entry, now_ms).unwrap();
            }
        }
        fold
    }

    #[test]
    fn appends_come_after_what_they_were_appended_to() {
        let entries = [Entry::append(b"d", 1), Entry::append(b"bc", 2), Entry::put_list(b"a", 1), Entry::put(b"old")];
        let mut folded = fold(&entries, 0);
        let mut out = Vec::new();
        assert_eq!(folded.value(&mut out), Some(Value { bytes: b"abcd", count: 4, expires_ms: None }));
        assert_eq!(folded.entry(false), Some(Entry::put_list(b"abcd", 4)));
    }

    #[test]
    fn an_expired_put_still_hides_what_is_older() {
        let entries = [Entry::put(b"new").expiring_at(5), Entry::put(b"old")];
        let mut folded = fold(&entries, 5);
        assert_eq!(folded.value(&mut Vec::new()), None);
        assert_eq!(folded.entry(false), Some(Entry::delete()));
        assert_eq!(folded.entry(true), None);
    }

    #[test]
    fn appends_expire_alone() {
        let entries =
            [Entry::append(b"c", 1).expiring_at(9), Entry::append(b"b", 1).expiring_at(5), Entry::append(b"a", 1)];
        let mut folded = fold(&entries, 0);
        let entry = folded.entry(false).unwrap();
        assert!(entry.segmented && entry.kind == EntryKind::Append);
        let mut again = fold(&[entry], 5);
        let mut out = Vec::new();
        assert_eq!(again.value(&mut out), Some(Value { bytes: b"ac", count: 2, expires_ms: None }));
        assert_eq!(fold(&entries[..2], 9).entry(false), None);
        assert_eq!(again.entry(true).map(|e| e.kind), Some(EntryKind::Put));
    }
}
