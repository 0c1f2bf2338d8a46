//! Sessions in the state: how they are saved, leave memory and come back.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tidegate_api::{Error, Field, Result, Timestamp, Watermark};
use tidegate_state::{DEFAULT_MAX_PARALLELISM, KeyGroupRange, Namespace};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::SessionAggregate;
use crate::operator::OperatorStates;
use crate::operators::aggregates::{AggregateSet, BATCH_ROWS};
use crate::operators::group_state::{GroupState, bigint, numbers};
use crate::operators::progress::Progress;
use crate::operators::recency::Room;
use crate::operators::session_index::{Returning, SessionIndex};
use crate::operators::sessions::Session;

/// The part of the memory for tables that sessions may take which come back because they end.
const DUE_PART: usize = 8;
/// What a session takes at least.
const DUE_BYTES: usize = 256;

/// Where sessions are saved: by key and start, with their end beside what their accumulators hold.
pub(super) struct Saved {
    pub(super) state: GroupState,
    /// Key numbers and starts of the sessions in memory that are in the state too.
    names: HashSet<(u32, Timestamp)>,
    /// Kept up only if sessions may leave memory.
    pub(super) index: SessionIndex,
    /// If sessions may leave memory.
    pub(super) room: Option<Room>,
}

impl Saved {
    /// The state of sessions by these keys; `None` if nothing is kept.
    pub(super) fn open(
        states: &OperatorStates,
        keys: &[Field],
        windows: &WindowAssigner,
        set: &AggregateSet,
    ) -> Result<Option<Saved>> {
        let (start, end) = (bigint("session_start"), bigint("session_end"));
        let state = GroupState::open(states, "sessions", keys, &[start], &[end], set)?;
        let index = SessionIndex::open(states, keys, windows)?;
        let saved = |(state, index): (GroupState, SessionIndex)| {
            let room = state.table_bytes().map(Room::new);
            Saved { state, names: HashSet::new(), index, room }
        };
        Ok(state.zip(index).map(saved))
    }
}

impl SessionAggregate {
    /// Writes the sessions that changed, and removes those that are over or begin elsewhere now.
    pub(super) fn save(&mut self) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let changed: HashSet<u32> = self.changes.take(self.sessions.slots()).into_iter().collect();
        let name = |s: &Session| (s.key, s.window.start);
        let live: Vec<Session> = self.sessions.by_end().collect();
        let names: HashSet<(u32, Timestamp)> = live.iter().map(name).collect();
        let is_new = |s: &&Session| changed.contains(&s.slot) || !saved.names.contains(&name(s));
        let write: Vec<Session> = live.iter().filter(is_new).copied().collect();
        let gone: Vec<(u32, Timestamp)> = saved.names.difference(&names).copied().collect();
        for gone in gone.chunks(BATCH_ROWS) {
            let mut keys = self.sessions.keys(gone.iter().map(|(key, _)| *key))?;
            keys.push(Arc::new(Int64Array::from_iter_values(gone.iter().map(|(_, start)| *start))));
            saved.state.keyed.remove(Namespace::GLOBAL, &keys, gone.len())?;
        }
        let column = |sessions: &[Session], f: &dyn Fn(&Session) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(sessions.iter().map(f)))
        };
        for sessions in write.chunks(BATCH_ROWS) {
            let mut keys = self.sessions.key_columns(sessions)?;
            keys.push(column(sessions, &|s| s.window.start));
            let mut values = self.accumulators.save(&sessions.iter().map(|s| s.slot).collect::<Vec<_>>())?;
            values.push(column(sessions, &|s| self.row_counts[s.slot as usize]));
            values.push(column(sessions, &|s| s.window.end));
            saved.state.keyed.write(Namespace::GLOBAL, &keys, &values, sessions.len())?;
        }
        if saved.room.is_some() {
            let mut keys: Vec<u32> = write.iter().map(|s| s.key).chain(gone.iter().map(|(key, _)| *key)).collect();
            keys.sort_unstable();
            keys.dedup();
            saved.index.write(&self.sessions, &keys, |slot| self.row_counts[slot as usize])?;
        }
        if self.changes.are_tracked() {
            saved.names = names;
        }
        Ok(())
    }

    /// Has the sessions of new keys, numbered from `known` on, back from the state.
    pub(super) fn fetch_new(&mut self, known: usize) -> Result<()> {
        let Some(mut saved) = self.saved.take_if(|saved| saved.index.cold() > 0) else { return Ok(()) };
        let new: Vec<u32> = (known as u32..self.sessions.known() as u32).collect();
        let fetched = new.chunks(BATCH_ROWS).try_for_each(|new| {
            let returning = saved.index.of_new(&self.sessions, new)?;
            self.fetch(&mut saved, &returning)
        });
        self.saved = Some(saved);
        fetched
    }

    /// Has the next sessions that are over at this watermark back from the state, if any are there. Returns up to
    /// which end all of those are in memory; `None` if all are.
    pub(super) fn fetch_due(&mut self, watermark: Watermark) -> Result<Option<Timestamp>> {
        let Some(mut saved) = self.saved.take_if(|saved| saved.index.cold() > 0) else { return Ok(None) };
        let each = match self.sessions.live() {
            0 => DUE_BYTES,
            live => (self.sessions.memory_bytes() / live + self.size.last()).max(DUE_BYTES),
        };
        let limit = saved.room.as_ref().map_or(0, Room::budget_bytes) / DUE_PART / each;
        let returning = saved.index.of_due(&mut self.sessions, &self.windows, watermark, limit.max(1));
        let fetched = returning.and_then(|returning| self.fetch(&mut saved, &returning));
        let until = saved.index.all_until(&self.windows, watermark);
        self.saved = Some(saved);
        fetched?;
        Ok(until)
    }

    /// Has these sessions of keys that have none in memory back from the state.
    fn fetch(&mut self, saved: &mut Saved, returning: &Returning) -> Result<()> {
        let Returning { columns, bounds } = returning;
        for from in (0..returning.len()).step_by(BATCH_ROWS) {
            let rows = BATCH_ROWS.min(returning.len() - from);
            let starts = bounds.windows[from..from + rows].iter().map(|window| window.start);
            let mut keys: Vec<ArrayRef> = columns.iter().map(|column| column.slice(from, rows)).collect();
            keys.push(Arc::new(Int64Array::from_iter_values(starts)));
            let found = saved.state.keyed.get(Namespace::GLOBAL, &keys, rows)?;
            if found.rows.len() != rows {
                return Err(Error::internal("the index names a session that is not in the state"));
            }
            let sessions = found.rows.iter().map(|row| from + *row as usize);
            let sessions: Vec<_> = sessions.map(|at| (bounds.keys[at], bounds.windows[at])).collect();
            self.add_saved(saved, &sessions, &found.values)?;
            saved.names.extend(sessions.iter().map(|(key, window)| (*key, window.start)));
        }
        Ok(())
    }

    /// Adds sessions that were saved; returns their slots.
    fn add_saved(&mut self, saved: &Saved, sessions: &[(u32, TimeWindow)], values: &[ArrayRef]) -> Result<Vec<u32>> {
        let accumulated = &values[..values.len() - 1];
        let row_counts = numbers(accumulated.last())?;
        let slots: Vec<u32> = sessions.iter().map(|(key, window)| self.sessions.add(*key, *window)).collect();
        let count = self.sessions.slots();
        self.row_counts.resize(count, 0);
        slots.iter().zip(row_counts.values()).for_each(|(slot, rows)| self.row_counts[*slot as usize] = *rows);
        self.accumulators.load(&accumulated[..accumulated.len() - 1], saved.state.widths(), &slots, count)?;
        Ok(slots)
    }

    /// Goes on from what was saved. What comes from an operator whose sessions left memory stays where it is.
    pub(super) fn load(&mut self, progress: &Progress) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        if saved.room.is_some() && progress.is_on_disk {
            let cold = progress.saved_in(&saved.state.keyed).map(|sets| sets.iter().map(|set| set.groups()).sum());
            return saved.index.restore(cold);
        }
        saved.index.clear()?;
        if saved.room.is_none() {
            return self.load_part(KeyGroupRange::all());
        }
        let owned = saved.state.keyed.owned();
        for first in owned.first..owned.end.min(DEFAULT_MAX_PARALLELISM as u32) {
            self.load_part(KeyGroupRange::new(first, first + 1))?;
            self.make_room()?;
            self.saved.as_ref().map_or(Ok(()), |saved| saved.index.flush_if_due())?;
        }
        Ok(())
    }

    fn load_part(&mut self, key_groups: KeyGroupRange) -> Result<()> {
        let Some(mut saved) = self.saved.take() else { return Ok(()) };
        let mut read = Vec::new();
        for namespace in saved.state.keyed.namespaces() {
            saved.state.keyed.read(namespace, key_groups, |keys, values, _| {
                read.push((keys, values));
                Ok(())
            })?;
        }
        let loaded = read.into_iter().try_for_each(|(keys, values)| {
            let (starts, ends) = (numbers(keys.last())?, numbers(values.last())?);
            let mut key_numbers = Vec::new();
            self.sessions.intern(&keys[..keys.len() - 1], starts.len(), &mut key_numbers)?;
            let windows = starts.values().iter().zip(ends.values()).map(|(start, end)| TimeWindow::new(*start, *end));
            let sessions: Vec<_> = key_numbers.into_iter().zip(windows).collect();
            if self.changes.are_tracked() {
                saved.names.extend(sessions.iter().map(|(key, window)| (*key, window.start)));
            }
            let slots = self.add_saved(&saved, &sessions, &values)?;
            if saved.room.is_some() {
                // They are written once more, and so into the index.
                let _ = self.changes.mark(&slots, self.sessions.slots());
            }
            Ok(())
        });
        self.saved = Some(saved);
        loaded
    }

    /// Forgets timers that have gone off.
    pub(super) fn forget_timers(&mut self, watermark: Watermark) -> Result<()> {
        self.saved.as_mut().map_or(Ok(()), |saved| saved.index.passed(&self.windows, watermark))
    }

    /// Lets sessions leave for the state if the tables have grown too large.
    pub(super) fn make_room(&mut self) -> Result<()> {
        let Some(room) = self.saved.as_ref().and_then(|saved| saved.room.as_ref()) else { return Ok(()) };
        let slots = self.row_counts.len();
        let average = self.size.average(slots, |slots| self.accumulators.save(slots))?;
        let bytes = self.sessions.memory_bytes() + average * slots;
        let kept = room.keep(bytes, self.sessions.known());
        let staying = |saved: &Saved| Some(saved.index.staying(&self.sessions, &self.recency, kept?));
        match self.saved.as_ref().and_then(staying) {
            Some(kept) => self.keep(&kept),
            None => Ok(()),
        }
    }

    /// Forgets keys without sessions once they are the majority.
    pub(super) fn forget_dead(&mut self) -> Result<()> {
        if self.sessions.is_sparse() { self.keep(&self.sessions.alive()) } else { Ok(()) }
    }

    /// Keeps these keys only; the others have no sessions, or leave them in the state.
    fn keep(&mut self, kept: &[u32]) -> Result<()> {
        if self.changes.are_tracked() {
            // What has changed is known by numbers that end here.
            self.save()?;
            self.changes.clear();
        }
        if let Some(saved) = self.saved.as_mut().filter(|saved| saved.room.is_some()) {
            saved.index.leave_all_but(&self.sessions, kept);
        }
        let old = self.sessions.renumber(kept)?;
        if let Some(saved) = self.saved.as_mut().filter(|_| self.changes.are_tracked()) {
            saved.names = self.sessions.by_end().map(|s| (s.key, s.window.start)).collect();
        }
        let (mut fresh, widths) = (self.set.accumulators()?, self.set.saved()?.1);
        for (chunk, slots) in old.chunks(BATCH_ROWS).enumerate() {
            let first = (chunk * BATCH_ROWS) as u32;
            let new: Vec<u32> = (first..first + slots.len() as u32).collect();
            fresh.load(&self.accumulators.save(slots)?, &widths, &new, first as usize + new.len())?;
        }
        self.row_counts = old.iter().map(|slot| self.row_counts[*slot as usize]).collect();
        self.accumulators = fresh;
        self.recency.renumber(kept);
        Ok(())
    }
}
