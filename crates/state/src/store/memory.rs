//! A store that is a sorted map in memory: what tests hold the real one against, and enough for state
//! that is never snapshotted.

use super::{KeyedStore, Namespace, check_lookup};
use crate::batch::WriteBatch;
use crate::entry::{EntryKind, Value, is_expired};
use crate::error::Result;
use crate::range::KeyRange;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// State in memory. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    namespaces: BTreeMap<Namespace, BTreeMap<Vec<u8>, Vec<Element>>>,
}

/// What one entry put or appended.
#[derive(Clone, Debug)]
struct Element {
    count: u32,
    expires_ms: Option<i64>,
    bytes: Vec<u8>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }
}

/// The value that is alive, its bytes in `out`.
fn value_of<'a>(elements: &[Element], now_ms: i64, out: &'a mut Vec<u8>) -> Option<Value<'a>> {
    out.clear();
    let alive: Vec<&Element> = elements.iter().filter(|e| !is_expired(e.expires_ms, now_ms)).collect();
    if alive.is_empty() {
        return None;
    }
    alive.iter().for_each(|element| out.extend_from_slice(&element.bytes));
    let count = alive.iter().fold(0u32, |sum, element| sum.saturating_add(element.count));
    let never = alive.iter().any(|element| element.expires_ms.is_none());
    let expires_ms = if never { None } else { alive.iter().filter_map(|element| element.expires_ms).max() };
    Some(Value { bytes: out, count, expires_ms })
}

fn bounds(range: &KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let end = range.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(range.start.clone()), end)
}

impl KeyedStore for MemoryStore {
    fn get(
        &mut self,
        namespace: Namespace,
        keys: &[&[u8]],
        now_ms: i64,
        answer: &mut dyn FnMut(usize, Option<Value<'_>>),
    ) -> Result<()> {
        check_lookup(keys)?;
        let map = self.namespaces.get(&namespace);
        let mut out = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let elements = map.and_then(|map| map.get(*key));
            answer(index, elements.and_then(|elements| value_of(elements, now_ms, &mut out)));
        }
        Ok(())
    }

    fn write(&mut self, namespace: Namespace, batch: WriteBatch) -> Result<()> {
        let map = self.namespaces.entry(namespace).or_default();
        for (key, entry) in batch.iter() {
            let element = Element { count: entry.count, expires_ms: entry.expires_ms, bytes: entry.value.to_vec() };
            match entry.kind {
                EntryKind::Delete => drop(map.remove(key)),
                EntryKind::Put => drop(map.insert(key.to_vec(), vec![element])),
                EntryKind::Append => map.entry(key.to_vec()).or_default().push(element),
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        namespace: Namespace,
        range: &KeyRange,
        now_ms: i64,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let Some(map) = self.namespaces.get(&namespace).filter(|_| !range.is_empty()) else {
            return Ok(());
        };
        let mut out = Vec::new();
        for (key, elements) in map.range(bounds(range)) {
            if let Some(value) = value_of(elements, now_ms, &mut out)
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn delete_range(&mut self, namespace: Namespace, range: &KeyRange) -> Result<()> {
        if let Some(map) = self.namespaces.get_mut(&namespace) {
            map.retain(|key, _| !range.contains(key));
        }
        Ok(())
    }

    fn drop_namespace(&mut self, namespace: Namespace) -> Result<()> {
        self.namespaces.remove(&namespace);
        Ok(())
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.namespaces.keys().copied().collect()
    }
}
