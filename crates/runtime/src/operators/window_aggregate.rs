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
use super::event_time::{LateCount, Progress, RowTimes, assigner, timestamps, window_columns};
use super::group_set::{GroupSet, GroupState, bigint, numbers};
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
        Ok(WindowAggregate {
            saved: GroupState::open(&ctx.states, "windows", &keys, &[bigint("window_start")], &[], &set)?,
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
            let groups = GroupSet::new(&self.key_types, &self.set, self.saved.is_some())?;
            self.open.insert(key, groups);
        }
        match self.open.get_mut(&key) {
            Some(groups) => groups.update(&self.set, &self.keys, rows),
            None => Err(Error::internal("a window vanished")),
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
        done
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        let mut closed = 0;
        while let Some(entry) = self.open.first_entry() {
            let (end, start) = *entry.key();
            if !self.windows.is_fired(end, watermark.timestamp()) {
                break;
            }
            let groups = entry.remove();
            closed += 1;
            if let Some(saved) = &mut self.saved {
                saved.keyed.drop_namespace(Namespace(end))?;
            }
            for chunk in groups.chunks() {
                let window = TimeWindow::new(start, end);
                let mut columns = groups.results(&chunk)?;
                columns.extend(window_columns(&self.windows, std::iter::repeat_n(window, chunk.len())));
                out.batch(Batch::inserts(output_batch(&self.schema, columns, chunk.len())?));
            }
        }
        if closed > 0 {
            self.show();
        }
        self.board.passed(watermark, closed);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        let Some(saved) = &mut self.saved else { return Ok(serde_json::Value::Null) };
        for ((end, start), groups) in &mut self.open {
            groups.save(saved, Namespace(*end), &[*start])?;
        }
        Progress { watermark: self.watermark, floor: Timestamp::MIN }.save()
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let Some(saved) = &self.saved else { return Ok(()) };
        saved.read_all(|namespace, mut keys, values| {
            let starts = numbers(keys.last())?.values().clone();
            keys.pop();
            for (from, len, start) in runs_of(starts.len(), |row| starts[row]) {
                let part = |columns: &[ArrayRef]| columns.iter().map(|c| c.slice(from, len)).collect::<Vec<_>>();
                let groups = match self.open.entry((namespace.0, start)) {
                    Entry::Occupied(groups) => groups.into_mut(),
                    Entry::Vacant(place) => place.insert(GroupSet::new(&self.key_types, &self.set, true)?),
                };
                groups.load(saved, &part(&keys), &part(&values))?;
            }
            Ok(())
        })?;
        self.watermark = Progress::restore(subtasks)?.watermark;
        self.show();
        Ok(())
    }
}
