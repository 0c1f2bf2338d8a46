//! Session windows: a key's bursts, merged row by row.
//!
//! [`SessionTracker`] keeps the sessions of each key and says what a row does to them; what a session
//! holds (accumulators, rows) lies in numbered slots at the operator.

use std::collections::BTreeSet;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use tidegate_api::{Result, Timestamp, Watermark};
use tidegate_window::{TimeWindow, WindowAssigner, merge_session};

use crate::table::GroupTable;

/// A session that is over, or one that lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Its key's number in the tracker.
    pub(super) key: u32,
    /// Where the operator keeps what it holds.
    pub(super) slot: u32,
    /// Its bounds.
    pub(super) window: TimeWindow,
}

/// What a row does.
pub(super) enum Placed {
    /// It belongs to the session in this slot. `absorbed` are slots that melt into it first.
    In { slot: u32, absorbed: Vec<u32> },
    /// Its session, which would have been this, is over.
    Late(TimeWindow),
}

#[derive(Default)]
struct KeySessions {
    windows: Vec<TimeWindow>,
    slots: Vec<u32>,
}

/// What a session takes beside its key and what it holds: bounds and slot in vectors of their own, its timer,
/// its name among those that are saved.
const SESSION_BYTES: usize = 160;

/// The live sessions of all keys.
pub(super) struct SessionTracker {
    gap: i64,
    key_types: Vec<DataType>,
    table: GroupTable,
    keys: Vec<KeySessions>,
    /// Live sessions by end.
    timers: BTreeSet<(Timestamp, u32, Timestamp)>,
    slots: u32,
}

impl SessionTracker {
    pub(super) fn new(windows: &WindowAssigner, key_types: Vec<DataType>) -> Result<Self> {
        Ok(SessionTracker {
            gap: windows.slice_size(),
            table: GroupTable::new(&key_types)?,
            key_types,
            keys: Vec::new(),
            timers: BTreeSet::new(),
            slots: 0,
        })
    }

    /// The number of each row's key.
    pub(super) fn intern(&mut self, columns: &[ArrayRef], rows: usize, into: &mut Vec<u32>) -> Result<()> {
        self.table.intern(columns, rows, into)?;
        self.keys.resize_with(self.table.len(), KeySessions::default);
        Ok(())
    }

    /// The key columns of these sessions.
    pub(super) fn key_columns(&self, sessions: &[Session]) -> Result<Vec<ArrayRef>> {
        self.keys(sessions.iter().map(|s| s.key))
    }

    /// How many keys have numbers, whether they have sessions or not.
    pub(super) fn known(&self) -> usize {
        self.table.len()
    }

    /// The live sessions of a key, the earliest first.
    pub(super) fn of_key(&self, key: u32) -> impl Iterator<Item = Session> {
        let KeySessions { windows, slots } = &self.keys[key as usize];
        windows.iter().zip(slots).map(move |(window, slot)| Session { key, slot: *slot, window: *window })
    }

    /// About the memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.keys.len() * size_of::<KeySessions>() + self.live() * SESSION_BYTES
    }

    /// The columns of these keys.
    pub(super) fn keys(&self, keys: impl Iterator<Item = u32>) -> Result<Vec<ArrayRef>> {
        self.table.keys(&keys.collect::<Vec<_>>())
    }

    /// Slots given out since the last [`SessionTracker::renumber`].
    pub(super) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Number of live sessions.
    pub(super) fn live(&self) -> usize {
        self.timers.len()
    }

    /// The live sessions, the nearest end first.
    pub(super) fn by_end(&self) -> impl Iterator<Item = Session> {
        self.timers.iter().filter_map(|(end, key, start)| {
            let (sessions, window) = (&self.keys[*key as usize], TimeWindow::new(*start, *end));
            let at = sessions.windows.iter().position(|w| *w == window)?;
            Some(Session { key: *key, slot: sessions.slots[at], window })
        })
    }

    /// Puts a row of this key and grid time into its session.
    pub(super) fn place(
        &mut self,
        windows: &WindowAssigner,
        key: u32,
        local: Timestamp,
        watermark: Watermark,
    ) -> Placed {
        let sessions = &mut self.keys[key as usize];
        let merge = merge_session(&sessions.windows, TimeWindow::new(local, local.saturating_add(self.gap)));
        if windows.is_fired(merge.window.end, watermark.timestamp()) {
            return Placed::Late(merge.window);
        }
        let slot = match sessions.slots.get(merge.absorbed.start) {
            Some(slot) if !merge.absorbed.is_empty() => *slot,
            _ => {
                self.slots += 1;
                self.slots - 1
            }
        };
        let absorbed = sessions.slots[merge.absorbed.clone()].iter().copied().filter(|s| *s != slot).collect();
        let unchanged = merge.absorbed.len() == 1 && sessions.windows[merge.absorbed.start] == merge.window;
        if !unchanged {
            for old in &sessions.windows[merge.absorbed.clone()] {
                self.timers.remove(&(old.end, key, old.start));
            }
            self.timers.insert((merge.window.end, key, merge.window.start));
            sessions.windows.splice(merge.absorbed.clone(), [merge.window]);
            sessions.slots.splice(merge.absorbed, [slot]);
        }
        Placed::In { slot, absorbed }
    }

    /// Adds a session of a key that does not touch any other, as one that was saved; returns its slot.
    pub(super) fn add(&mut self, key: u32, window: TimeWindow) -> u32 {
        let slot = self.slots;
        self.slots += 1;
        let sessions = &mut self.keys[key as usize];
        let at = sessions.windows.partition_point(|w| w.start < window.start);
        sessions.windows.insert(at, window);
        sessions.slots.insert(at, slot);
        self.timers.insert((window.end, key, window.start));
        slot
    }

    /// Takes out the sessions that are over and end at `until` at the latest, in the order of their ends.
    pub(super) fn fired(&mut self, windows: &WindowAssigner, watermark: Watermark, until: Timestamp) -> Vec<Session> {
        let mut over = Vec::new();
        while let Some((end, key, start)) = self.timers.first().copied() {
            if end > until || !windows.is_fired(end, watermark.timestamp()) {
                break;
            }
            self.timers.pop_first();
            let sessions = &mut self.keys[key as usize];
            let window = TimeWindow::new(start, end);
            if let Some(at) = sessions.windows.iter().position(|w| *w == window) {
                sessions.windows.remove(at);
                over.push(Session { key, slot: sessions.slots.remove(at), window });
            }
        }
        over
    }

    /// True if most keys and slots belong to no live session.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots().max(self.table.len()) > 2 * self.live() + 4_096 || (self.live() == 0 && self.slots > 0)
    }

    /// The keys that have sessions.
    pub(super) fn alive(&self) -> Vec<u32> {
        (0..self.keys.len() as u32).filter(|k| !self.keys[*k as usize].slots.is_empty()).collect()
    }

    /// Keeps these keys only, and numbers them and their slots from 0. Returns the old slot of each new one.
    pub(super) fn renumber(&mut self, kept: &[u32]) -> Result<Vec<u32>> {
        let columns = self.table.keys(kept)?;
        self.table = GroupTable::new(&self.key_types)?;
        let mut numbers = Vec::new();
        self.table.intern(&columns, kept.len(), &mut numbers)?;
        let mut keys: Vec<KeySessions> = kept.iter().map(|k| std::mem::take(&mut self.keys[*k as usize])).collect();
        self.timers.clear();
        let mut old_slots = Vec::new();
        for (key, sessions) in keys.iter_mut().enumerate() {
            for (window, slot) in sessions.windows.iter().zip(&mut sessions.slots) {
                self.timers.insert((window.end, key as u32, window.start));
                old_slots.push(std::mem::replace(slot, old_slots.len() as u32));
            }
        }
        self.slots = old_slots.len() as u32;
        self.keys = keys;
        Ok(old_slots)
    }
}
