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
use super::event_time::{LateCount, NextFire, Progress, assigner, window_columns};
use super::group_set::{Dictionary, GroupSet, GroupState};
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
}

/// Where slices and what has melted are saved: by slice end, and by window start.
struct Saved {
    slices: GroupState,
    melted: GroupState,
}

impl Saved {
    fn open(ctx: &OperatorContext, keys: &[Field], set: &AggregateSet) -> Result<Option<Saved>> {
        let slices = GroupState::open(&ctx.states, "slices", keys, &[], &[], set)?;
        let melted = GroupState::open(&ctx.states, "melted", keys, &[], &[], set)?;
        Ok(slices.zip(melted).map(|(slices, melted)| Saved { slices, melted }))
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
        if !self.slices.contains_key(&slice_end) {
            let slice = GroupSet::new(&self.key_types, &self.set, self.saved.is_some())?;
            self.slices.insert(slice_end, slice);
        }
        let Some(slice) = self.slices.get_mut(&slice_end) else {
            return Err(Error::internal("a slice vanished"));
        };
        let keys = self.key_types.len();
        slice.merge(&columns[..keys], &columns[keys..columns.len() - 2], &self.widths, row_counts)
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

    fn fire(&mut self, end: Timestamp, out: &mut Output) -> Result<()> {
        let window = TimeWindow::new(self.windows.window_start(end), end);
        match self.windows.kind() {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => {
                if let Some(slice) = self.slices.remove(&end) {
                    self.emit(window, &slice, out)?;
                    self.forget([end])?;
                }
            }
            WindowKind::Hop { .. } => {
                self.fire_hop(window, out)?;
                let expired = self.windows.expired_slice_end(end);
                let live = self.slices.split_off(&(expired + 1));
                let expired = std::mem::replace(&mut self.slices, live);
                self.forget(expired.into_keys())?;
            }
            WindowKind::Cumulate { size, .. } => {
                let mut whole = match self.melted.remove(&window.start) {
                    Some(whole) => whole,
                    None => GroupSet::new(&self.key_types, &self.set, self.saved.is_some())?,
                };
                let later = self.slices.split_off(&(end + 1));
                let melting = std::mem::replace(&mut self.slices, later);
                for slice in melting.values() {
                    whole.absorb(slice)?;
                }
                self.forget(melting.into_keys())?;
                self.emit(window, &whole, out)?;
                if end < window.start + size {
                    self.melted.insert(window.start, whole);
                } else if let Some(saved) = &mut self.saved {
                    saved.melted.keyed.drop_namespace(Namespace(window.start))?;
                }
            }
        }
        Ok(())
    }

    /// Slices that are gone need not be kept any more.
    fn forget(&mut self, ends: impl IntoIterator<Item = Timestamp>) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        ends.into_iter().try_for_each(|end| saved.slices.keyed.drop_namespace(Namespace(end)))
    }

    fn fire_hop(&mut self, window: TimeWindow, out: &mut Output) -> Result<()> {
        let parts = self.slices.range(window.start + 1..=window.end).map(|(end, slice)| (*end, slice));
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

impl Operator for GlobalWindowAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let all: Vec<usize> = (0..batch.columns.num_columns()).collect();
        let ends = batch.columns.column(all.len() - 2).as_primitive::<Int64Type>().values().clone();
        split_by(&batch, &ends, &all, |end, rows| self.add(end, &rows))?;
        self.show();
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        let mut closed = 0;
        if self.next_fire.reached(&self.windows, watermark) {
            while let Some(end) = self.next_window().filter(|e| self.windows.is_fired(*e, watermark.timestamp())) {
                self.fire(end, out)?;
                self.floor = end;
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

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        let Some(saved) = &mut self.saved else { return Ok(serde_json::Value::Null) };
        for (end, slice) in &mut self.slices {
            slice.save(&mut saved.slices, Namespace(*end), &[])?;
        }
        for (start, groups) in &mut self.melted {
            groups.save(&mut saved.melted, Namespace(*start), &[])?;
        }
        Progress { watermark: self.watermark, floor: self.floor }.save()
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let Some(saved) = &self.saved else { return Ok(()) };
        for (state, sets) in [(&saved.slices, &mut self.slices), (&saved.melted, &mut self.melted)] {
            state.read_all(|namespace, keys, values| {
                let groups = match sets.entry(namespace.0) {
                    Entry::Occupied(groups) => groups.into_mut(),
                    Entry::Vacant(place) => place.insert(GroupSet::new(&self.key_types, &self.set, true)?),
                };
                groups.load(state, &keys, &values)
            })?;
        }
        let progress = Progress::restore(subtasks)?;
        (self.watermark, self.floor) = (progress.watermark, progress.floor);
        self.show();
        Ok(())
    }
}
