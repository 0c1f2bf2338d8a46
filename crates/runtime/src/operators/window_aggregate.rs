//! A window aggregate in one phase, for what cannot be computed from partials: aggregates that depend
//! on arrival order, inputs that take rows back, and rows that already carry their window.
//!
//! One group set per window: a row enters each of its windows that has not fired.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Field, Result, Schema, Timestamp, Watermark};
use tidegate_state::Namespace;
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{AggregateSet, Rows, column_types, output_batch, runs_of, split_by};
use super::event_time::{LateCount, RowTimes, assigner, timestamps, window_columns};
use super::group_set::GroupSet;
use super::group_state::{GroupState, Home, bigint, numbers};
use super::progress::{OpenSet, Progress};
use super::recency::Room;
use super::stored_fire::StoredFire;
use crate::operator::{Operator, OperatorContext, Output};
use crate::window_board::{OpenRows, WindowBoard};

enum Source {
    Time(RowTimes),
    Attached { start: usize, end: usize },
}

/// See the module.
pub(super) struct WindowAggregate {
    windows: WindowAssigner,
    source: Source,
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    set: AggregateSet,
    needed: Vec<usize>,
    /// Open windows by (end, start).
    open: BTreeMap<(i64, i64), GroupSet>,
    watermark: Watermark,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
    /// Open windows, by their end; their start is a key column.
    saved: Option<GroupState>,
    /// If groups may leave memory.
    room: Option<Room>,
    /// The watermark at hand, and the windows it has closed so far.
    advancing: Option<(Watermark, u64)>,
    /// A window that does not fit into memory and fires bit by bit.
    firing: Option<StoredFire>,
}

impl WindowAggregate {
    pub(super) fn new(
        spec: &WindowAggregateSpec,
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let windows = assigner(&spec.window)?;
        let source = match spec.input {
            WindowInput::TimeColumn(column) => Source::Time(RowTimes::new(column, &windows)),
            WindowInput::Attached { start, end } => Source::Attached { start, end },
        };
        let set = AggregateSet::new(spec.aggregates.clone(), ctx.functions.clone(), spec.updating_input);
        let keys: Vec<Field> = spec.keys.iter().map(|k| input.fields[*k].clone()).collect();
        let saved = GroupState::open(&ctx.states, "windows", &keys, &[bigint("window_start")], &[], &set)?;
        Ok(WindowAggregate {
            room: saved.as_ref().and_then(GroupState::table_bytes).map(Room::new),
            saved,
            advancing: None,
            firing: None,
            windows,
            source,
            key_types: column_types(input, &spec.keys)?,
            needed: spec.keys.iter().copied().chain(set.columns()).collect(),
            keys: spec.keys.clone(),
            set,
            open: BTreeMap::new(),
            watermark: Watermark::MIN,
            late: LateCount::new(ctx),
            board: ctx.windows.clone(),
            schema: output.to_arrow(),
        })
    }

    fn show(&self) {
        let open =
            self.open.iter().map(|((end, start), groups)| OpenRows { start: *start, end: *end, rows: groups.rows() });
        self.board.publish(self.open.len(), open);
    }

    fn add(&mut self, window: TimeWindow, rows: &Rows) -> Result<()> {
        let key = (window.end, window.start);
        if !self.open.contains_key(&key) {
            let groups = GroupSet::new(&self.key_types, &self.set, self.saved.as_ref())?;
            self.open.insert(key, groups);
        }
        let more = [window.start];
        let mut home = self.saved.as_mut().map(|state| Home::new(state, window.end, &more));
        match self.open.get_mut(&key) {
            Some(groups) => groups.update(&self.set, &self.keys, rows, home.as_mut()),
            None => Err(Error::internal("a window vanished")),
        }
    }

    /// Lets groups leave for the state if the tables have grown too large.
    fn make_room(&mut self) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        let (mut bytes, mut groups) = (0, 0);
        for set in self.open.values_mut() {
            bytes += set.bytes()?;
            groups += set.len();
        }
        let Some(keep) = room.keep(bytes, groups) else { return Ok(()) };
        self.save_noted()?;
        let Some(state) = &mut self.saved else { return Ok(()) };
        for ((end, start), set) in &mut self.open {
            let part = (set.len() as u128 * keep as u128 / groups.max(1) as u128) as usize;
            set.evict(&self.set, &self.key_types, part, &mut Home::new(state, *end, &[*start]))?;
        }
        Ok(())
    }

    fn emit(&self, window: TimeWindow, mut columns: Vec<ArrayRef>, rows: usize, out: &mut Output) -> Result<()> {
        columns.extend(window_columns(&self.windows, std::iter::repeat_n(window, rows)));
        out.batch(Batch::inserts(output_batch(&self.schema, columns, rows)?));
        Ok(())
    }

    /// Goes on with the watermark at hand: fires windows until one does not fit into memory, or sends the
    /// watermark on.
    fn advance(&mut self, out: &mut Output) -> Result<()> {
        let Some((watermark, mut closed)) = self.advancing.take() else { return Ok(()) };
        while self
            .open
            .first_key_value()
            .is_some_and(|((end, _), _)| self.windows.is_fired(*end, watermark.timestamp()))
        {
            self.save_noted()?;
            let Some(((end, start), mut groups)) = self.open.pop_first() else { break };
            let window = TimeWindow::new(start, end);
            if let Some(state) = self.saved.as_mut().filter(|_| groups.cold() > 0) {
                groups.save(&mut Home::new(state, end, &[start]))?;
                let count = groups.cold() + groups.len() as u64;
                self.firing = Some(StoredFire::new(window, vec![end], vec![start], state, count));
                self.advancing = Some((watermark, closed));
                return Ok(());
            }
            for chunk in groups.chunks() {
                self.emit(window, groups.results(&chunk)?, chunk.len(), out)?;
            }
            self.fired(end)?;
            closed += 1;
        }
        if closed > 0 {
            self.show();
        }
        self.board.passed(watermark, closed);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }

    /// Writes everything that a checkpoint has noted, so that newer things may be written.
    fn save_noted(&mut self) -> Result<()> {
        self.save_some(usize::MAX)?;
        self.saved.as_ref().map_or(Ok(()), GroupState::begin_snapshot)
    }

    /// A window with this end has fired. The state of windows that end together goes with the last of them.
    fn fired(&mut self, end: Timestamp) -> Result<()> {
        let is_last = self.open.first_key_value().is_none_or(|((next, _), _)| *next != end);
        match self.saved.as_mut().filter(|_| is_last) {
            Some(state) => state.keyed.drop_namespace(Namespace(end)),
            None => Ok(()),
        }
    }

    /// Adds rows of one slice to the slice's open windows.
    fn add_slice(&mut self, slice_end: i64, rows: &Rows) -> Result<()> {
        let watermark = self.watermark.timestamp();
        let mut entered = false;
        for end in self.windows.window_ends(slice_end) {
            let window = TimeWindow::new(self.windows.window_start(end), end);
            if !self.windows.is_fired(end, watermark) {
                self.add(window, rows)?;
                entered = true;
            }
        }
        let end = self.windows.last_window_end(slice_end);
        // A slice between two windows is nobody's, not late.
        if !entered && end >= slice_end {
            let window = TimeWindow::new(self.windows.window_start(end), end);
            self.late.drop_rows(rows.len as u64, window, self.watermark);
        }
        Ok(())
    }

    fn add_attached(&mut self, batch: &Batch, start: usize, end: usize, needed: &[usize]) -> Result<()> {
        let starts = timestamps(batch.columns.column(start))?;
        let ends = timestamps(batch.columns.column(end))?;
        if starts.null_count() + ends.null_count() > 0 {
            return Err(Error::job("a row reached a window aggregate without its window_start or window_end"));
        }
        // Windows are few: number them, then split by the number.
        let mut windows: Vec<TimeWindow> = Vec::new();
        let mut numbers = hashbrown::HashMap::new();
        let of: Vec<i64> = starts
            .values()
            .iter()
            .zip(ends.values())
            .map(|(start, end)| {
                *numbers.entry((*start, *end)).or_insert_with(|| {
                    windows.push(TimeWindow::new(*start, *end));
                    windows.len() as i64 - 1
                })
            })
            .collect();
        split_by(batch, &of, needed, |number, rows| {
            let window = windows[number as usize];
            if self.windows.is_fired(window.end, self.watermark.timestamp()) {
                self.late.drop_rows(rows.len as u64, window, self.watermark);
                return Ok(());
            }
            self.add(window, &rows)
        })
    }
}

impl Operator for WindowAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let needed = std::mem::take(&mut self.needed);
        let done = match &mut self.source {
            Source::Time(times) => {
                let ends = times.slice_ends(&batch, &self.windows)?;
                split_by(&batch, &ends, &needed, |end, rows| self.add_slice(end, &rows))
            }
            Source::Attached { start, end } => {
                let (start, end) = (*start, *end);
                self.add_attached(&batch, start, end, &needed)
            }
        };
        self.needed = needed;
        self.show();
        done?;
        if self.room.as_mut().is_some_and(|room| room.added(&batch)) { self.make_room() } else { Ok(()) }
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.advancing = Some((watermark, 0));
        self.advance(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let (Some(mut firing), Some(state)) = (self.firing.take(), &mut self.saved) else { return Ok(false) };
        match firing.next(state, &self.set, &self.key_types)? {
            Some(results) => {
                for (columns, rows) in results {
                    self.emit(firing.window, columns, rows, out)?;
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
        let Some(state) = &mut self.saved else { return Ok(serde_json::Value::Null) };
        state.begin()?;
        let mut open = Vec::new();
        for ((end, start), groups) in &mut self.open {
            groups.note();
            open.push(OpenSet::new(state, *end, vec![*start], groups));
        }
        let progress = Progress::of(self.watermark);
        if self.room.is_some() { progress.with_open(&state.keyed, open).save() } else { progress.save() }
    }

    fn save_some(&mut self, most: usize) -> Result<bool> {
        let Some(state) = &mut self.saved else { return Ok(true) };
        let mut left = most;
        for ((end, start), groups) in &mut self.open {
            left -= groups.save_some(left, &mut Home::new(state, *end, &[*start]))?;
            if groups.is_saving() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let Some(saved) = &self.saved else { return Ok(()) };
        let progress = Progress::restore(subtasks)?;
        self.watermark = progress.watermark;
        if self.room.is_some() {
            for open in progress.open_in(saved)? {
                let mut set = GroupSet::new(&self.key_types, &self.set, Some(saved))?;
                open.leave_cold(&mut set);
                let start = open.more.first().copied().unwrap_or(Timestamp::MIN);
                self.open.insert((open.namespace, start), set);
            }
            self.show();
            return Ok(());
        }
        saved.read_all(|namespace, mut keys, values| {
            let starts = numbers(keys.last())?.values().clone();
            keys.pop();
            for (from, len, start) in runs_of(starts.len(), |row| starts[row]) {
                let part = |columns: &[ArrayRef]| columns.iter().map(|c| c.slice(from, len)).collect::<Vec<_>>();
                let groups = match self.open.entry((namespace.0, start)) {
                    Entry::Occupied(groups) => groups.into_mut(),
                    Entry::Vacant(place) => place.insert(GroupSet::new(&self.key_types, &self.set, Some(saved))?),
                };
                groups.load(saved, &part(&keys), &part(&values))?;
            }
            Ok(())
        })?;
        self.show();
        Ok(())
    }
}
