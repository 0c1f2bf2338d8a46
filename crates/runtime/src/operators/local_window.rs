//! The first phase of a window aggregate: partial results per slice, before the shuffle.
//!
//! A slice's partials leave right before the watermark that closes the slice, so the second phase sees them
//! while the windows that the rows belong to are as open as they were when the rows came; rows of a slice
//! that is already closed leave with their batch. Slices that stay open are kept: partitions run ahead of
//! each other, and what leaves early is counted in many small partials.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Result, Schema, Timestamp, Watermark};
use tidegate_window::WindowAssigner;

use super::aggregates::{AggregateSet, column_types, output_batch, split_by};
use super::event_time::{NextFire, RowTimes, assigner};
use super::group_set::GroupSet;
use crate::operator::{Operator, OperatorContext, Output};
use crate::window_board::{OpenRows, WindowBoard};

/// Groups held before partials are flushed early, to bound memory.
const GROUPS_MAX: usize = 100_000;

/// See the module.
pub(super) struct LocalWindowAggregate {
    windows: WindowAssigner,
    times: RowTimes,
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    set: AggregateSet,
    needed: Vec<usize>,
    slices: BTreeMap<Timestamp, GroupSet>,
    next_fire: NextFire,
    watermark: Watermark,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
}

impl LocalWindowAggregate {
    pub(super) fn new(
        spec: &WindowAggregateSpec,
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let WindowInput::TimeColumn(time_column) = spec.input else {
            return Err(Error::internal("attached windows have no local phase"));
        };
        let windows = assigner(&spec.window)?;
        if windows.is_session() || spec.updating_input {
            return Err(Error::internal("sessions and updating inputs have no local phase"));
        }
        let set = AggregateSet::new(spec.aggregates.clone(), ctx.functions.clone(), false);
        Ok(LocalWindowAggregate {
            times: RowTimes::new(time_column, &windows),
            windows,
            key_types: column_types(input, &spec.keys)?,
            needed: spec.keys.iter().copied().chain(set.columns()).collect(),
            keys: spec.keys.clone(),
            set,
            slices: BTreeMap::new(),
            next_fire: NextFire::new(),
            watermark: Watermark::MIN,
            board: ctx.windows.clone(),
            schema: output.to_arrow(),
        })
    }

    fn show(&self) {
        let size = self.windows.slice_size();
        let open = |(end, groups): (&Timestamp, &GroupSet)| OpenRows {
            start: end.saturating_sub(size),
            end: *end,
            rows: groups.rows(),
        };
        self.board.publish(self.slices.len(), self.slices.iter().map(open));
    }

    /// Emits the slices that are closed at `watermark`, or all.
    fn flush(&mut self, closed_at: Option<Watermark>, out: &mut Output) -> Result<()> {
        let leaves = |end: &Timestamp| closed_at.is_none_or(|w| self.windows.is_fired(*end, w.timestamp()));
        let (leaving, staying): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.slices).into_iter().partition(|(end, _)| leaves(end));
        self.slices = staying;
        for (end, slice) in leaving {
            for groups in slice.chunks() {
                let (mut columns, row_counts) = slice.states(&groups)?;
                let ends: ArrayRef = Arc::new(Int64Array::from_value(end, groups.len()));
                columns.extend([ends, row_counts]);
                out.batch(Batch::inserts(output_batch(&self.schema, columns, groups.len())?));
            }
        }
        Ok(())
    }
}

impl Operator for LocalWindowAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<()> {
        let ends = self.times.slice_ends(&batch, &self.windows)?;
        let (slices, set, keys, types) = (&mut self.slices, &self.set, &self.keys, &self.key_types);
        split_by(&batch, &ends, &self.needed, |end, rows| {
            let slice = match slices.entry(end) {
                std::collections::btree_map::Entry::Occupied(slice) => slice.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => place.insert(GroupSet::new(types, set, None)?),
            };
            slice.update(set, keys, &rows, None)
        })?;
        if self.slices.values().map(GroupSet::len).sum::<usize>() > GROUPS_MAX {
            self.flush(None, out)?;
        }
        // Rows behind the watermark are judged by the second phase under the watermark they came with.
        let oldest = self.slices.first_key_value();
        if oldest.is_some_and(|(end, _)| self.windows.is_fired(*end, self.watermark.timestamp())) {
            self.flush(Some(self.watermark), out)?;
        }
        self.show();
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        if self.next_fire.reached(&self.windows, watermark) {
            self.flush(Some(watermark), out)?;
            self.show();
        }
        self.watermark = watermark;
        self.board.passed(watermark, 0);
        out.watermark(watermark);
        Ok(())
    }

    /// So it has no state of its own.
    fn before_barrier(&mut self, out: &mut Output) -> Result<()> {
        self.flush(None, out)
    }

    fn before_idle(&mut self, out: &mut Output) -> Result<()> {
        self.flush(None, out)?;
        self.show();
        Ok(())
    }

    fn end_of_input(&mut self, out: &mut Output) -> Result<()> {
        self.flush(None, out)?;
        self.show();
        Ok(())
    }
}
