//! A window aggregate in one phase, for what cannot be computed from partials: aggregates that depend
//! on arrival order, inputs that take rows back, and rows that already carry their window.
//!
//! One group set per window: a row enters each of its windows that has not fired.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Result, Schema, Watermark};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{AggregateSet, GroupSet, Rows, column_types, output_batch, split_by};
use super::event_time::{LateCount, RowTimes, assigner, timestamps, window_columns};
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
        Ok(WindowAggregate {
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
            self.open.insert(key, GroupSet::new(&self.key_types, &self.set)?);
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
}
