//! Collects what a lookup finds: plain values go to the caller at once, lists when all their parts,
//! newest first, have been met.

use crate::entry::{BadSegment, Entry, EntryKind, Segment, Value, is_expired};

/// The caller's function: index of the key, and its value.
pub(crate) type Answer<'a> = &'a mut dyn FnMut(usize, Option<Value<'_>>);

pub(crate) struct Answers<'a> {
    now_ms: i64,
    answer: Answer<'a>,
    arena: Vec<u8>,
    /// Newest first among those of a key.
    parts: Vec<Part>,
    incoming: Vec<Part>,
    /// For each key whether it waits for older parts; empty until one does.
    waits: Vec<bool>,
}

struct Part {
    key: u32,
    start: usize,
    end: usize,
    count: u32,
    expires_ms: Option<i64>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(now_ms: i64, answer: Answer<'a>) -> Answers<'a> {
        Answers { now_ms, answer, arena: Vec::new(), parts: Vec::new(), incoming: Vec::new(), waits: Vec::new() }
    }

    /// Whether a key waits for older parts.
    pub(crate) fn any_waits(&self) -> bool {
        self.waits.contains(&true)
    }

    /// Answers for a key what somebody else has found.
    pub(crate) fn give(&mut self, key: usize, value: Option<Value<'_>>) {
        (self.answer)(key, value);
    }

    #[inline]
    fn is_waiting(&self, key: u32) -> bool {
        self.waits.get(key as usize).copied().unwrap_or(false)
    }

    /// Takes the next older entry of a key; says whether still older ones matter.
    #[inline]
    pub(crate) fn add(&mut self, key: u32, entry: &Entry<'_>) -> Result<bool, BadSegment> {
        if entry.kind == EntryKind::Append || entry.segmented || self.is_waiting(key) {
            return self.add_part(key, entry);
        }
        let is_value = entry.kind == EntryKind::Put && !is_expired(entry.expires_ms, self.now_ms);
        let value = Value { bytes: entry.value, count: entry.count, expires_ms: entry.expires_ms };
        (self.answer)(key as usize, is_value.then_some(value));
        Ok(false)
    }

    fn add_part(&mut self, key: u32, entry: &Entry<'_>) -> Result<bool, BadSegment> {
        if self.waits.len() <= key as usize {
            self.waits.resize(key as usize + 1, false);
        }
        self.waits[key as usize] = true;
        self.incoming.clear();
        for segment in entry.segments() {
            let Segment { count, expires_ms, bytes } = segment?;
            if !is_expired(expires_ms, self.now_ms) {
                let start = self.arena.len();
                self.arena.extend_from_slice(bytes);
                self.incoming.push(Part { key, start, end: self.arena.len(), count, expires_ms });
            }
        }
        self.parts.extend(self.incoming.drain(..).rev());
        Ok(entry.kind == EntryKind::Append)
    }

    /// Answers for a key that nothing older can say anything of.
    #[inline]
    pub(crate) fn end_of(&mut self, key: u32) {
        if !self.is_waiting(key) {
            (self.answer)(key as usize, None);
        }
    }

    /// Answers for the keys that were waiting for their parts.
    pub(crate) fn finish(mut self) {
        self.parts.sort_by_key(|part| part.key);
        let mut joined = Vec::new();
        for parts in self.parts.chunk_by(|a, b| a.key == b.key) {
            joined.clear();
            let mut count = 0u32;
            let mut expires_ms = parts[0].expires_ms;
            for part in parts.iter().rev() {
                joined.extend_from_slice(&self.arena[part.start..part.end]);
                count = count.saturating_add(part.count);
                expires_ms = expires_ms.zip(part.expires_ms).map(|(a, b)| a.max(b));
            }
            let key = parts[0].key as usize;
            self.waits[key] = false;
            (self.answer)(key, Some(Value { bytes: &joined, count, expires_ms }));
        }
        for (key, waits) in self.waits.iter().enumerate() {
            if *waits {
                (self.answer)(key, None);
            }
        }
    }
}
