//! Waiting rows and sessions in the state: how they are saved, leave memory and come back.
//!
//! Rows that were saved may leave memory all at once, for nobody needs them before their session is over. The
//! bounds of sessions leave and come back by key.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt8Array};
use arrow::datatypes::SchemaRef;
use tidegate_api::{Batch, Field, Result, Schema, Timestamp, Watermark};
use tidegate_state::{DEFAULT_MAX_PARALLELISM, KeyGroupRange, Namespace};
use tidegate_window::WindowAssigner;

use super::{Held, Place, SessionTableFunction, Waiting, gather};
use crate::operator::OperatorStates;
use crate::operators::aggregates::{BATCH_ROWS, output_batch};
use crate::operators::group_state::{bigint, numbers};
use crate::operators::progress::Progress;
use crate::operators::recency::Room;
use crate::operators::session_index::{Returning, SessionIndex};
use crate::operators::sessions::Session;
use crate::state::{KeyedLayout, KeyedState};

/// Columns of a saved row before those of the input: time, kind, number.
pub(super) const FACTS: usize = 3;
/// The part of the memory that sessions may take which come back because they end.
const DUE_PART: usize = 8;
/// About what a session takes.
const DUE_BYTES: usize = 256;

/// Where waiting rows are saved.
pub(super) struct Saved {
    pub(super) rows: KeyedState,
    /// Kept up only if sessions may leave memory.
    pub(super) index: SessionIndex,
    /// Rows with smaller numbers have been saved.
    pub(super) up_to: i64,
    pub(super) input: SchemaRef,
    /// Rows of a key lie together if the division of their times by this gives the same.
    pub(super) stretch: i64,
    /// If rows and sessions may leave memory: half of it is for rows, half for bounds.
    room: Option<Room>,
}

impl Saved {
    /// The state of rows and sessions by these keys; `None` if nothing is kept.
    pub(super) fn open(
        states: &OperatorStates,
        keys: &[Field],
        input: &Schema,
        windows: &WindowAssigner,
    ) -> Result<Option<Saved>> {
        let key = Schema::new(keys.iter().cloned().chain([bigint("stretch")]).collect());
        let value = ["time", "kind", "number"].map(bigint).into_iter().chain(input.fields.iter().cloned());
        let value = Schema::new(value.collect());
        let layout = KeyedLayout { name: "rows", key, partitioned: keys.len(), value, is_list: true };
        let rows = states.keyed(layout)?;
        let index = SessionIndex::open(states, keys, windows)?;
        let saved = |(rows, index): (KeyedState, SessionIndex)| Saved {
            rows,
            index,
            up_to: 0,
            input: input.to_arrow(),
            stretch: windows.slice_size().max(1),
            room: states.table_bytes().map(|bytes| Room::new(bytes / 2)),
        };
        Ok(rows.zip(index).map(saved))
    }

    /// True if rows and sessions may leave memory.
    pub(super) fn is_on_disk(&self) -> bool {
        self.room.is_some()
    }

    /// Number of sessions that are in the state alone.
    pub(super) fn cold(&self) -> u64 {
        self.index.cold()
    }

    /// Rows came in; true if it is time to see whether there is room.
    pub(super) fn added(&mut self, batch: &Batch) -> bool {
        self.room.as_mut().is_some_and(|room| room.added(batch))
    }

    /// The stretches in which a session has rows.
    pub(super) fn stretches(&self, session: &Session) -> std::ops::RangeInclusive<i64> {
        // The last row is a gap before the end.
        let last = session.window.end.saturating_sub(self.stretch);
        session.window.start.div_euclid(self.stretch)..=last.div_euclid(self.stretch)
    }
}

impl SessionTableFunction {
    /// Writes the rows that came since and still wait, and the sessions that changed.
    pub(super) fn save(&mut self) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let held = &self.held;
        let is_new = |(batch, row): &Place| held[*batch].as_ref().is_some_and(|h| h.numbers[*row] >= saved.up_to);
        let mut new: Vec<Place> = Vec::new();
        for session in self.sessions.by_end() {
            let waiting = &mut self.rows[session.slot as usize];
            let before = new.len();
            new.extend(waiting.places.iter().filter(|place| is_new(place)));
            waiting.is_saved |= new.len() > before;
        }
        for places in new.chunks(BATCH_ROWS) {
            let mut keys = self.keys.iter().map(|c| gather(held, places, *c)).collect::<Result<Vec<_>>>()?;
            let column = |f: &dyn Fn(&Held, usize) -> i64| -> ArrayRef {
                let value = |(batch, row): &Place| held[*batch].as_ref().map(|h| f(h, *row));
                Arc::new(places.iter().map(value).collect::<Int64Array>())
            };
            keys.push(column(&|h, row| h.times[row].div_euclid(saved.stretch)));
            let kind = |h: &Held, row: usize| h.kinds.as_ref().map_or(0, |k| i64::from(k.value(row)));
            let mut values = vec![column(&|h, row| h.times[row]), column(&kind), column(&|h, row| h.numbers[row])];
            for c in 0..saved.input.fields().len() {
                values.push(gather(held, places, c)?);
            }
            saved.rows.append(Namespace::GLOBAL, &keys, &values, places.len())?;
        }
        saved.up_to = self.next_number;
        if saved.is_on_disk() {
            saved.index.write(&self.sessions, &self.changes.take(self.sessions.known()), |slot| {
                self.rows[slot as usize].count
            })?;
        }
        Ok(())
    }

    /// Removes the rows of sessions that are over from what is saved.
    pub(super) fn forget_saved(&mut self, over: &[Session]) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let lists = over.iter().flat_map(|session| saved.stretches(session).map(|stretch| (session.key, stretch)));
        let lists: Vec<(u32, i64)> = lists.collect();
        for lists in lists.chunks(BATCH_ROWS) {
            let mut keys = self.sessions.keys(lists.iter().map(|(key, _)| *key))?;
            keys.push(Arc::new(Int64Array::from_iter_values(lists.iter().map(|(_, stretch)| *stretch))));
            saved.rows.remove(Namespace::GLOBAL, &keys, lists.len())?;
        }
        Ok(())
    }

    /// Has the sessions of new keys, numbered from `known` on, back from the state.
    pub(super) fn fetch_new(&mut self, known: usize) -> Result<()> {
        let Some(mut saved) = self.saved.take_if(|saved| saved.cold() > 0) else { return Ok(()) };
        let new: Vec<u32> = (known as u32..self.sessions.known() as u32).collect();
        let fetched = new.chunks(BATCH_ROWS).try_for_each(|new| {
            let returning = saved.index.of_new(&self.sessions, new)?;
            self.take_back(&returning);
            Ok(())
        });
        self.saved = Some(saved);
        fetched
    }

    /// Has the next sessions that are over at this watermark back from the state, if any are there. Returns up to
    /// which end all of those are in memory; `None` if all are.
    pub(super) fn fetch_due(&mut self, watermark: Watermark) -> Result<Option<Timestamp>> {
        let Some(mut saved) = self.saved.take_if(|saved| saved.cold() > 0) else { return Ok(None) };
        let limit = saved.room.as_ref().map_or(0, Room::budget_bytes) / DUE_PART / DUE_BYTES;
        let returning = saved.index.of_due(&mut self.sessions, &self.windows, watermark, limit.max(1));
        let until = saved.index.all_until(&self.windows, watermark);
        self.saved = Some(saved);
        self.take_back(&returning?);
        Ok(until)
    }

    /// Takes sessions back whose rows stay in the state.
    fn take_back(&mut self, returning: &Returning) {
        let bounds = &returning.bounds;
        for ((key, window), count) in bounds.keys.iter().zip(&bounds.windows).zip(&bounds.rows) {
            let slot = self.sessions.add(*key, *window);
            self.rows.resize_with(self.sessions.slots(), Waiting::default);
            let waiting = Waiting { count: *count, is_saved: true, is_cold: true, ..Waiting::default() };
            self.rows[slot as usize] = waiting;
        }
    }

    /// Lets rows, and then sessions, leave for the state if they have grown too large.
    pub(super) fn make_room(&mut self) -> Result<()> {
        let Some(room) = self.saved.as_ref().and_then(|saved| saved.room.as_ref()) else { return Ok(()) };
        let slots = self.rows.len() * size_of::<Waiting>();
        let keep = room.keep(self.sessions.memory_bytes() + slots, self.sessions.known());
        if keep.is_none() && room.keep(self.held_bytes, 1).is_none() {
            return Ok(());
        }
        self.save()?;
        for session in self.sessions.by_end() {
            let waiting = &mut self.rows[session.slot as usize];
            waiting.is_cold |= !waiting.places.is_empty();
            (waiting.places, waiting.is_mixed) = (Vec::new(), false);
        }
        self.held.clear();
        self.free.clear();
        self.held_bytes = 0;
        let staying = |saved: &Saved| Some(saved.index.staying(&self.sessions, &self.recency, keep?));
        match self.saved.as_ref().and_then(staying) {
            Some(kept) => self.keep(&kept),
            None => Ok(()),
        }
    }

    /// Forgets keys without sessions once they are the majority.
    pub(super) fn forget_dead(&mut self) -> Result<()> {
        if !self.sessions.is_sparse() {
            return Ok(());
        }
        if self.saved.as_ref().is_some_and(Saved::is_on_disk) {
            self.save()?;
        }
        self.keep(&self.sessions.alive())
    }

    /// Keeps these keys only; the others have no sessions, or leave them in the state. What changed has been saved.
    fn keep(&mut self, kept: &[u32]) -> Result<()> {
        self.changes.clear();
        if let Some(saved) = self.saved.as_mut().filter(|saved| saved.is_on_disk()) {
            saved.index.leave_all_but(&self.sessions, kept);
        }
        let old = self.sessions.renumber(kept)?;
        self.rows = old.iter().map(|slot| std::mem::take(&mut self.rows[*slot as usize])).collect();
        self.recency.renumber(kept);
        Ok(())
    }

    /// Forgets timers that have gone off.
    pub(super) fn forget_timers(&mut self, watermark: Watermark) -> Result<()> {
        self.saved.as_mut().map_or(Ok(()), |saved| saved.index.passed(&self.windows, watermark))
    }

    /// Goes on from what was saved. What comes from an operator whose sessions left memory stays where it is.
    pub(super) fn load(&mut self, progress: &Progress) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        if saved.is_on_disk() && progress.is_on_disk {
            (self.next_number, saved.up_to) = (progress.next_number, progress.next_number);
            let cold = progress.saved_in(&saved.rows).map(|sets| sets.iter().map(|set| set.groups()).sum());
            return saved.index.restore(cold);
        }
        saved.index.clear()?;
        if !saved.is_on_disk() {
            return self.load_part(KeyGroupRange::all());
        }
        let owned = saved.rows.owned();
        for first in owned.first..owned.end.min(DEFAULT_MAX_PARALLELISM as u32) {
            self.load_part(KeyGroupRange::new(first, first + 1))?;
            self.make_room()?;
            self.saved.as_ref().map_or(Ok(()), |saved| saved.index.flush_if_due())?;
        }
        Ok(())
    }

    /// Lets rows that were saved wait again: in memory, or where they are if they may.
    fn load_part(&mut self, key_groups: KeyGroupRange) -> Result<()> {
        let Some(mut saved) = self.saved.take() else { return Ok(()) };
        let loaded = saved.rows.read(Namespace::GLOBAL, key_groups, |keys, values, rows| {
            let rows = rows.len();
            let mut numbered = Vec::new();
            self.sessions.intern(&keys[..keys.len() - 1], rows, &mut numbered)?;
            let _ = self.changes.mark(&numbered, self.sessions.known());
            let (times, kinds) = (numbers(values.first())?.values().to_vec(), numbers(values.get(1))?);
            let arrivals = numbers(values.get(2))?.values().to_vec();
            self.next_number = arrivals.iter().fold(self.next_number, |next, number| next.max(number + 1));
            let place = self.next_place();
            for (row, (key, time)) in numbered.into_iter().zip(&times).enumerate() {
                // Nothing is late before the first watermark, and these rows were not.
                let placed = self.sessions.place(&self.windows, key, *time, Watermark::MIN);
                if let Some(slot) = self.slot(placed) {
                    (slot.is_saved, slot.is_mixed) = (true, true);
                    match saved.room {
                        Some(_) => slot.is_cold = true,
                        None => slot.places.push((place, row)),
                    }
                }
            }
            if saved.room.is_none() {
                let kinds = UInt8Array::from_iter_values(kinds.values().iter().map(|k| *k as u8));
                let kinds = kinds.values().iter().any(|k| *k != 0).then_some(kinds);
                let columns = output_batch(&saved.input, values[FACTS..].to_vec(), rows)?;
                self.hold(Held::new(columns, kinds, times, arrivals, rows));
            }
            Ok(())
        });
        saved.up_to = self.next_number;
        self.saved = Some(saved);
        loaded
    }
}
