//! The second phase of a window aggregate: partials become windows.
//!
//! One group set per slice. A tumbling window is its slice. A hopping window is the sum of its slices,
//! which stay whole for the next window; their keys are numbered once, so that the sum needs no hashing. A cumulating window melts each slice
//! into one growing set per longest window.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type, Schema as ArrowSchema};
use tidegate_api::graph::WindowAggregateSpec;
use tidegate_api::{Batch, Error, Field, Result, Schema, Timestamp, Watermark, WindowKind};
use tidegate_state::Namespace;
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{AggregateSet, Rows, column_types, output_batch, split_by};
use super::dictionary::Dictionary;
use super::event_time::{LateCount, NextFire, assigner, window_columns};
use super::group_set::GroupSet;
use super::group_state::{GroupState, Home};
use super::progress::{OpenSet, Progress};
use super::recency::Room;
use super::stored_fire::StoredFire;
use crate::operator::{Operator, OperatorContext, Output};
use crate::window_board::{OpenRows, WindowBoard};

/// See the module.
pub(super) struct GlobalWindowAggregate {
    windows: WindowAssigner,
    key_types: Vec<DataType>,
    set: AggregateSet,
    widths: Vec<usize>,
    /// Groups by slice end.
    slices: BTreeMap<Timestamp, GroupSet>,
    /// Keys of the live slices, for hopping windows.
    dictionary: Dictionary,
    /// Cumulating windows: what has melted, by the start of the window.
    melted: BTreeMap<Timestamp, GroupSet>,
    /// Windows that end here or earlier have fired.
    floor: Timestamp,
    watermark: Watermark,
    next_fire: NextFire,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
    saved: Option<Saved>,
    /// The watermark at hand, and the windows it has closed so far.
    advancing: Option<(Watermark, u64)>,
    /// A window that does not fit into memory and fires bit by bit.
    firing: Option<StoredFire>,
}

/// Where slices and what has melted are saved: by slice end, and by window start.
struct Saved {
    slices: GroupState,
    melted: GroupState,
    /// If groups may leave memory.
    room: Option<Room>,
}

impl Saved {
    fn open(ctx: &OperatorContext, keys: &[Field], set: &AggregateSet) -> Result<Option<Saved>> {
        let slices = GroupState::open(&ctx.states, "slices", keys, &[], &[], set)?;
        let melted = GroupState::open(&ctx.states, "melted", keys, &[], &[], set)?;
        Ok(slices.zip(melted).map(|(slices, melted)| Saved {
            room: slices.table_bytes().map(Room::new),
            slices,
            melted,
        }))
    }
}

impl GlobalWindowAggregate {
    pub(super) fn new(
        spec: &WindowAggregateSpec,
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let windows = assigner(&spec.window)?;
        if windows.is_session() {
            return Err(Error::internal("sessions have no global phase"));
        }
        let key_columns: Vec<usize> = (0..spec.keys.len()).collect();
        let set = AggregateSet::new(spec.aggregates.clone(), ctx.functions.clone(), false);
        let widths = set.state_widths()?;
        if input.len() != key_columns.len() + widths.iter().sum::<usize>() + 2 {
            return Err(Error::internal("the global window aggregate does not fit its local phase"));
        }
        let key_types = column_types(input, &key_columns)?;
        let saved = Saved::open(ctx, &input.fields[..key_columns.len()], &set)?;
        Ok(GlobalWindowAggregate {
            saved,
            windows,
            dictionary: Dictionary::new(key_types.clone())?,
            key_types,
            set,
            widths,
            slices: BTreeMap::new(),
            melted: BTreeMap::new(),
            floor: Timestamp::MIN,
            watermark: Watermark::MIN,
            next_fire: NextFire::new(),
            late: LateCount::new(ctx),
            board: ctx.windows.clone(),
            schema: output.to_arrow(),
            advancing: None,
            firing: None,
        })
    }

    fn add(&mut self, slice_end: Timestamp, rows: &Rows) -> Result<()> {
        let columns = &rows.columns;
        let row_counts = &columns[columns.len() - 1];
        let last = self.windows.last_window_end(slice_end);
        if last < slice_end {
            // Between two windows: nobody's rows, not late ones.
            return Ok(());
        }
        if last <= self.floor {
            let count: i64 = row_counts.as_primitive::<Int64Type>().values().iter().sum();
            let window = TimeWindow::new(self.windows.window_start(last), last);
            self.late.drop_rows(count.unsigned_abs(), window, self.watermark);
            return Ok(());
        }
        let state = self.saved.as_mut().map(|saved| &mut saved.slices);
        if !self.slices.contains_key(&slice_end) {
            let slice = GroupSet::new(&self.key_types, &self.set, state.as_deref())?;
            self.slices.insert(slice_end, slice);
        }
        let Some(slice) = self.slices.get_mut(&slice_end) else {
            return Err(Error::internal("a slice vanished"));
        };
        let keys = self.key_types.len();
        let states = &columns[keys..columns.len() - 2];
        let mut home = state.map(|state| Home::new(state, slice_end, &[]));
        slice.merge(&columns[..keys], states, &self.widths, row_counts, home.as_mut())
    }

    /// Lets groups leave for the state if the tables have grown too large.
    fn make_room(&mut self) -> Result<()> {
        let Some(room) = self.saved.as_ref().and_then(|saved| saved.room.as_ref()) else { return Ok(()) };
        let (mut bytes, mut groups) = (self.dictionary.memory_bytes(), 0);
        for set in self.slices.values_mut().chain(self.melted.values_mut()) {
            bytes += set.bytes()?;
            groups += set.len();
        }
        let Some(keep) = room.keep(bytes, groups) else { return Ok(()) };
        self.save_noted()?;
        let Some(Saved { slices, melted, .. }) = &mut self.saved else { return Ok(()) };
        let part = |set: &GroupSet| (set.len() as u128 * keep as u128 / groups.max(1) as u128) as usize;
        for (sets, state) in [(&mut self.slices, slices), (&mut self.melted, melted)] {
            for (namespace, set) in sets {
                set.evict(&self.set, &self.key_types, part(set), &mut Home::new(state, *namespace, &[]))?;
            }
        }
        // It knows groups by numbers that end here.
        self.dictionary = Dictionary::new(self.key_types.clone())?;
        Ok(())
    }

    fn show(&self) {
        let size = self.windows.slice_size();
        let open =
            |end: Timestamp, groups: &GroupSet| OpenRows { start: end.saturating_sub(size), end, rows: groups.rows() };
        // What has melted is in every window from that start, as the first slice is.
        let melted = self.melted.iter().map(|(start, groups)| open(start.saturating_add(size), groups));
        let slices = self.slices.iter().map(|(end, groups)| open(*end, groups));
        self.board.publish(self.melted.len() + self.slices.len(), melted.chain(slices));
    }

    /// The end of the next window to fire, whenever that is.
    fn next_window(&self) -> Option<Timestamp> {
        // A cumulating window that has started also fires for what has melted.
        let melted = self.melted.keys().map(|start| start + self.windows.slice_size());
        let ends = self.slices.keys().copied().chain(melted);
        ends.filter_map(|slice_end| self.windows.first_window_after(slice_end, self.floor)).min()
    }

    /// Fires a window, or begins to.
    fn fire(&mut self, end: Timestamp, out: &mut Output) -> Result<()> {
        let window = TimeWindow::new(self.windows.window_start(end), end);
        match self.windows.kind() {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => match self.slices.remove(&end) {
                Some(slice) if slice.cold() == 0 => self.emit(window, &slice, out),
                Some(mut slice) => self.fire_stored(window, [(end, &mut slice)].into_iter()),
                None => Ok(()),
            },
            WindowKind::Hop { .. } => self.fire_hop(window, out),
            WindowKind::Cumulate { .. } => {
                self.melt(window)?;
                match self.melted.remove(&window.start) {
                    Some(whole) if whole.cold() == 0 => {
                        self.emit(window, &whole, out)?;
                        self.melted.insert(window.start, whole);
                    }
                    Some(mut whole) => {
                        let groups = whole.cold() + whole.len() as u64;
                        if let Some(saved) = &mut self.saved {
                            whole.save(&mut Home::new(&mut saved.melted, window.start, &[]))?;
                            let firing = StoredFire::new(window, vec![window.start], Vec::new(), &saved.melted, groups);
                            self.firing = Some(firing);
                        }
                        self.melted.insert(window.start, whole);
                    }
                    None => {}
                }
                Ok(())
            }
        }
    }

    /// A window has fired: what no later one needs is forgotten.
    fn fired(&mut self, end: Timestamp) -> Result<()> {
        self.floor = end;
        let start = self.windows.window_start(end);
        match self.windows.kind() {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => self.forget([end]),
            WindowKind::Hop { .. } => {
                let expired = self.windows.expired_slice_end(end);
                let live = self.slices.split_off(&(expired + 1));
                let expired = std::mem::replace(&mut self.slices, live);
                self.forget(expired.into_keys())
            }
            WindowKind::Cumulate { size, .. } if end >= start + size => {
                self.melted.remove(&start);
                let saved = self.saved.as_mut();
                saved.map_or(Ok(()), |saved| saved.melted.keyed.drop_namespace(Namespace(start)))
            }
            WindowKind::Cumulate { .. } => Ok(()),
        }
    }

    /// Fires the sum of these slices from the state.
    fn fire_stored<'a>(
        &mut self,
        window: TimeWindow,
        slices: impl Iterator<Item = (Timestamp, &'a mut GroupSet)>,
    ) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let (mut namespaces, mut groups) = (Vec::new(), 0);
        for (end, slice) in slices {
            slice.save(&mut Home::new(&mut saved.slices, end, &[]))?;
            groups += slice.cold() + slice.len() as u64;
            namespaces.push(end);
        }
        self.firing = Some(StoredFire::new(window, namespaces, Vec::new(), &saved.slices, groups));
        Ok(())
    }

    /// Slices that are gone need not be kept any more.
    fn forget(&mut self, ends: impl IntoIterator<Item = Timestamp>) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        ends.into_iter().try_for_each(|end| saved.slices.keyed.drop_namespace(Namespace(end)))
    }

    /// Cumulating windows: moves the slices up to the end of a window into what has melted.
    fn melt(&mut self, window: TimeWindow) -> Result<()> {
        let mut whole = match self.melted.remove(&window.start) {
            Some(whole) => whole,
            None => {
                let state = self.saved.as_ref().map(|saved| &saved.melted);
                GroupSet::new(&self.key_types, &self.set, state)?
            }
        };
        let later = self.slices.split_off(&(window.end + 1));
        let mut melting = std::mem::replace(&mut self.slices, later);
        for (end, slice) in &mut melting {
            let Some(Saved { slices, melted, room }) = &mut self.saved else {
                whole.absorb(slice, None)?;
                continue;
            };
            let mut home = Home::new(melted, window.start, &[]);
            if slice.cold() == 0 {
                whole.absorb(slice, Some(&mut home))?;
                continue;
            }
            let mut from = Home::new(slices, *end, &[]);
            slice.save(&mut from)?;
            from.read(from.state.keyed.owned(), &self.set, |stored| {
                whole.absorb_stored(&stored, Some(&mut home))?;
                match room.as_ref().map(|room| whole.bytes().map(|bytes| room.keep(bytes, whole.len()))).transpose()? {
                    Some(Some(keep)) => whole.evict(&self.set, &self.key_types, keep, &mut home),
                    _ => Ok(()),
                }
            })?;
        }
        self.melted.insert(window.start, whole);
        self.forget(melting.into_keys())
    }

    fn fire_hop(&mut self, window: TimeWindow, out: &mut Output) -> Result<()> {
        let range = window.start + 1..=window.end;
        if self.slices.range(range.clone()).any(|(_, slice)| slice.cold() > 0) {
            let mut slices = std::mem::take(&mut self.slices);
            let fired = self.fire_stored(window, slices.range_mut(range).map(|(end, slice)| (*end, slice)));
            self.slices = slices;
            return fired;
        }
        let parts = self.slices.range(range).map(|(end, slice)| (*end, slice));
        let mut live = 0;
        match parts.clone().take(2).count() {
            0 => {}
            1 => parts.clone().try_for_each(|(_, slice)| self.emit(window, slice, out))?,
            _ => {
                let summed = self.dictionary.sum(&self.set, parts)?;
                for chunk in self.dictionary.chunks(&summed) {
                    let columns = self.dictionary.results(&summed, &chunk)?;
                    self.emit_chunk(window, columns, chunk.len(), out)?;
                    live += chunk.len();
                }
                self.dictionary.forget(self.windows.expired_slice_end(window.end), live)?;
            }
        }
        Ok(())
    }

    fn emit_chunk(&self, window: TimeWindow, mut columns: Vec<ArrayRef>, rows: usize, out: &mut Output) -> Result<()> {
        columns.extend(window_columns(&self.windows, std::iter::repeat_n(window, rows)));
        out.batch(Batch::inserts(output_batch(&self.schema, columns, rows)?));
        Ok(())
    }

    fn emit(&self, window: TimeWindow, groups: &GroupSet, out: &mut Output) -> Result<()> {
        for chunk in groups.chunks() {
            self.emit_chunk(window, groups.results(&chunk)?, chunk.len(), out)?;
        }
        Ok(())
    }
}

impl GlobalWindowAggregate {
    /// Writes everything that a checkpoint has noted, so that newer things may be written.
    fn save_noted(&mut self) -> Result<()> {
        self.save_some(usize::MAX)?;
        let Some(saved) = &self.saved else { return Ok(()) };
        saved.slices.begin_snapshot()?;
        saved.melted.begin_snapshot()
    }

    /// Goes on with the watermark at hand: fires windows until one does not fit into memory, or sends the
    /// watermark on.
    fn advance(&mut self, out: &mut Output) -> Result<()> {
        let Some((watermark, mut closed)) = self.advancing.take() else { return Ok(()) };
        // With some windows closed already, this is not the first look at it.
        if closed > 0 || self.next_fire.reached(&self.windows, watermark) {
            while let Some(end) = self.next_window().filter(|e| self.windows.is_fired(*e, watermark.timestamp())) {
                self.save_noted()?;
                self.fire(end, out)?;
                if self.firing.is_some() {
                    self.advancing = Some((watermark, closed));
                    return Ok(());
                }
                self.fired(end)?;
                closed += 1;
            }
            self.floor = match watermark {
                Watermark::MAX => Timestamp::MAX,
                // Every window end is a slice end.
                _ => self.floor.max(self.windows.last_fired_slice(watermark.timestamp())),
            };
            self.show();
        }
        self.board.passed(watermark, closed);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}

impl Operator for GlobalWindowAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let all: Vec<usize> = (0..batch.columns.num_columns()).collect();
        let ends = batch.columns.column(all.len() - 2).as_primitive::<Int64Type>().values().clone();
        split_by(&batch, &ends, &all, |end, rows| self.add(end, &rows))?;
        self.show();
        let room = self.saved.as_mut().and_then(|saved| saved.room.as_mut());
        if room.is_some_and(|room| room.added(&batch)) { self.make_room() } else { Ok(()) }
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.advancing = Some((watermark, 0));
        self.advance(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut firing) = self.firing.take() else { return Ok(false) };
        let Some(saved) = &mut self.saved else { return Ok(false) };
        let state = match self.windows.kind() {
            WindowKind::Cumulate { .. } => &mut saved.melted,
            _ => &mut saved.slices,
        };
        match firing.next(state, &self.set, &self.key_types)? {
            Some(results) => {
                for (columns, rows) in results {
                    self.emit_chunk(firing.window, columns, rows, out)?;
                }
                self.firing = Some(firing);
            }
            None => {
                self.fired(firing.window.end)?;
                if let Some((_, closed)) = &mut self.advancing {
                    *closed += 1;
                }
                self.advance(out)?;
            }
        }
        Ok(true)
    }

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        let Some(saved) = &mut self.saved else { return Ok(serde_json::Value::Null) };
        let mut open = Vec::new();
        for (sets, state) in [(&mut self.slices, &mut saved.slices), (&mut self.melted, &mut saved.melted)] {
            state.begin()?;
            for (namespace, set) in sets {
                set.note();
                open.push(OpenSet::new(state, *namespace, Vec::new(), set));
            }
        }
        let progress = Progress { floor: self.floor, ..Progress::of(self.watermark) };
        match saved.room {
            Some(_) => progress.with_open(&saved.slices.keyed, open).save(),
            None => progress.save(),
        }
    }

    fn save_some(&mut self, most: usize) -> Result<bool> {
        let Some(saved) = &mut self.saved else { return Ok(true) };
        let mut left = most;
        for (sets, state) in [(&mut self.slices, &mut saved.slices), (&mut self.melted, &mut saved.melted)] {
            for (namespace, set) in sets {
                left -= set.save_some(left, &mut Home::new(state, *namespace, &[]))?;
                if set.is_saving() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let Some(saved) = &self.saved else { return Ok(()) };
        let progress = Progress::restore(subtasks)?;
        for (state, sets) in [(&saved.slices, &mut self.slices), (&saved.melted, &mut self.melted)] {
            if saved.room.is_some() {
                for open in progress.open_in(state)? {
                    let mut set = GroupSet::new(&self.key_types, &self.set, Some(state))?;
                    open.leave_cold(&mut set);
                    sets.insert(open.namespace, set);
                }
                continue;
            }
            state.read_all(|namespace, keys, values| {
                let groups = match sets.entry(namespace.0) {
                    Entry::Occupied(groups) => groups.into_mut(),
                    Entry::Vacant(place) => place.insert(GroupSet::new(&self.key_types, &self.set, Some(state))?),
                };
                groups.load(state, &keys, &values)
            })?;
        }
        (self.watermark, self.floor) = (progress.watermark, progress.floor);
        self.show();
        Ok(())
    }
}
