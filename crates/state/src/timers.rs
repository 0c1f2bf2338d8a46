//! Timers: a set of (time, key) that is popped in order of time, and stored like any other state.
//!
//! Each timer is one entry of a store, its key `key group u16 | domain u8 | time, order-preserving i64 |
//! rest of the key`, its value empty. The queue holds them all in memory, sorted by time; it remembers
//! what changed since it was last written, so a snapshot costs what changed. A timer that was set and
//! went off between two snapshots is never written.

use crate::batch::WriteBatch;
use crate::encoding::{KeyReader, KeyWriter};
use crate::entry::Entry;
use crate::error::{Result, StateError};
use crate::range::{KeyGroupRange, KeyRange};
use crate::store::{KeyedStore, Namespace};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Which clock a timer waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimerDomain {
    /// The watermark.
    EventTime,
    /// The wall clock.
    ProcessingTime,
}

impl TimerDomain {
    fn byte(self) -> u8 {
        match self {
            TimerDomain::EventTime => 0,
            TimerDomain::ProcessingTime => 1,
        }
    }
}

/// A timer. Ordered by time, then key group, then key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timer {
    /// When it goes off, milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The key group of its key.
    pub key_group: u16,
    /// What it is for, without the key group: key, and namespace if there is one.
    pub key: Vec<u8>,
}

/// The timers of one domain of one operator.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    domain: TimerDomain,
    timers: BTreeSet<Timer>,
    /// Changes since the last [`drain_changes`](Self::drain_changes), by key in the store: set (`true`) or gone.
    changes: BTreeMap<Vec<u8>, bool>,
}

impl TimerQueue {
    /// An empty queue.
    pub fn new(domain: TimerDomain) -> TimerQueue {
        TimerQueue { domain, timers: BTreeSet::new(), changes: BTreeMap::new() }
    }

    /// Sets a timer; `false` when it was set already.
    pub fn set(&mut self, timer: Timer) -> bool {
        let key = self.store_key(&timer);
        let is_new = self.timers.insert(timer);
        if is_new && self.changes.remove(&key).is_none() {
            self.changes.insert(key, true);
        }
        is_new
    }

    /// Takes a timer back; `false` when it was not set.
    pub fn cancel(&mut self, timer: &Timer) -> bool {
        let was_set = self.timers.remove(timer);
        if was_set {
            self.note_gone(timer);
        }
        was_set
    }

    fn note_gone(&mut self, timer: &Timer) {
        let key = self.store_key(timer);
        // Set since the last write, and so not in the store: there is nothing to delete.
        if self.changes.remove(&key).is_none() {
            self.changes.insert(key, false);
        }
    }

    /// The next timer that is due at `now_ms` (`timestamp_ms <= now_ms`), in order.
    pub fn pop_until(&mut self, now_ms: i64) -> Option<Timer> {
        if self.timers.first()?.timestamp_ms > now_ms {
            return None;
        }
        let timer = self.timers.pop_first()?;
        self.note_gone(&timer);
        Some(timer)
    }

    /// When the next timer goes off.
    pub fn next_ms(&self) -> Option<i64> {
        self.timers.first().map(|timer| timer.timestamp_ms)
    }

    /// Number of timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// What has changed since the last call, as a batch to write to the store.
    pub fn drain_changes(&mut self) -> Result<WriteBatch> {
        let mut batch = WriteBatch::with_capacity(self.changes.len(), 32 * self.changes.len());
        for (key, is_set) in &self.changes {
            batch.push(key, if *is_set { Entry::put(&[]) } else { Entry::delete() })?;
        }
        self.changes.clear();
        Ok(batch)
    }

    /// Reads the timers of `key_groups` from a store.
    pub fn load(
        store: &mut dyn KeyedStore,
        namespace: Namespace,
        domain: TimerDomain,
        key_groups: KeyGroupRange,
    ) -> Result<TimerQueue> {
        let mut queue = TimerQueue::new(domain);
        let mut failed = None;
        // Domains alternate from key group to key group; one range for each would read blocks twice.
        store.scan(namespace, &key_groups.keys(), i64::MIN, &mut |key, _| match read_timer(key) {
            Ok((found, timer)) => {
                if found == domain.byte() {
                    queue.timers.insert(timer);
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(queue), Err)
    }

    fn store_key(&self, timer: &Timer) -> Vec<u8> {
        let mut key = KeyWriter::new(timer.key_group).into_bytes();
        key.push(self.domain.byte());
        let mut time = KeyWriter::default();
        time.i64(timer.timestamp_ms);
        key.extend_from_slice(time.as_slice());
        key.extend_from_slice(&timer.key);
        key
    }

    /// The keys under which a key group's timers of this domain lie in the store.
    pub fn stored_range(&self, key_group: u16) -> KeyRange {
        let [high, low] = key_group.to_be_bytes();
        KeyRange::prefix(&[high, low, self.domain.byte()])
    }
}

fn read_timer(key: &[u8]) -> Result<(u8, Timer)> {
    let (key_group, rest) = KeyReader::new(key)?;
    let Some((domain @ 0..=1, _)) = rest.rest().split_first() else {
        return Err(StateError::Encoding { at: 2, detail: "a timer's domain, 0 or 1" });
    };
    let mut time = KeyReader::new(&key[1..])?.1;
    let timestamp_ms = time.i64()?;
    Ok((*domain, Timer { timestamp_ms, key_group, key: time.rest().to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use proptest::prelude::*;

    fn timer(timestamp_ms: i64, key_group: u16, key: &[u8]) -> Timer {
        Timer { timestamp_ms, key_group, key: key.to_vec() }
    }

    #[test]
    fn stored_form_is_fixed_for_ever() {
        let mut queue = TimerQueue::new(TimerDomain::ProcessingTime);
        queue.set(timer(-1, 0x0102, b"k"));
        let batch = queue.drain_changes().unwrap();
        assert_eq!(batch.get(0).map(|(key, _)| hex::encode(key)), Some("0102017fffffffffffffff6b".into()));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(i64, u16, u8),
        Cancel(i64, u16, u8),
        Pop(i64),
        Write,
        Reload,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (-5i64..5, 0u16..3, 0u8..3).prop_map(|(t, g, k)| Step::Set(t, g, k)),
            1 => (-5i64..5, 0u16..3, 0u8..3).prop_map(|(t, g, k)| Step::Cancel(t, g, k)),
            1 => (-6i64..6).prop_map(Step::Pop),
            1 => Just(Step::Write),
            1 => Just(Step::Reload),
        ]
    }

    proptest! {
        #[test]
        fn timers_survive_and_go_off_in_order(steps in proptest::collection::vec(step(), 1..60)) {
            let mut store = MemoryStore::new();
            let mut queue = TimerQueue::new(TimerDomain::EventTime);
            let mut other = TimerQueue::new(TimerDomain::ProcessingTime);
            other.set(timer(0, 1, b"other"));
            store.write(Namespace::GLOBAL, other.drain_changes().unwrap()).unwrap();
            let mut model = BTreeSet::new();
            let mut written = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Set(t, g, k) => {
                        prop_assert_eq!(queue.set(timer(t, g, &[k])), model.insert(timer(t, g, &[k])));
                    }
                    Step::Cancel(t, g, k) => {
                        prop_assert_eq!(queue.cancel(&timer(t, g, &[k])), model.remove(&timer(t, g, &[k])));
                    }
                    Step::Pop(now) => {
                        while let Some(popped) = queue.pop_until(now) {
                            prop_assert_eq!(Some(&popped), model.iter().next());
                            prop_assert!(popped.timestamp_ms <= now);
                            model.remove(&popped);
                        }
                        prop_assert!(model.iter().all(|timer| timer.timestamp_ms > now));
                    }
                    Step::Write => {
                        store.write(Namespace::GLOBAL, queue.drain_changes().unwrap()).unwrap();
                        written = model.clone();
                    }
                    Step::Reload => {
                        let groups = KeyGroupRange::all();
                        queue = TimerQueue::load(&mut store, Namespace::GLOBAL, TimerDomain::EventTime, groups).unwrap();
                        model = written.clone();
                    }
                }
                prop_assert_eq!(queue.next_ms(), model.iter().next().map(|timer| timer.timestamp_ms));
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
