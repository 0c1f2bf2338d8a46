//! Aggregates over session windows.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Result, Schema, Watermark};
use tidegate_window::WindowAssigner;

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::sessions::{Placed, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::window_board::{OpenRows, WindowBoard};

/// See the module.
pub(super) struct SessionAggregate {
    windows: WindowAssigner,
    times: RowTimes,
    keys: Vec<usize>,
    set: AggregateSet,
    needed: Vec<usize>,
    sessions: SessionTracker,
    accumulators: Accumulators,
    /// Rows in each slot.
    row_counts: Vec<i64>,
    watermark: Watermark,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
}

impl SessionAggregate {
    pub(super) fn new(
        spec: &WindowAggregateSpec,
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let WindowInput::TimeColumn(time_column) = spec.input else {
            return Err(Error::internal("a session is not attached to rows before it is over"));
        };
        let windows = assigner(&spec.window)?;
        let set = AggregateSet::new(spec.aggregates.clone(), ctx.functions.clone(), spec.updating_input);
        Ok(SessionAggregate {
            times: RowTimes::new(time_column, &windows),
            keys: spec.keys.clone(),
            needed: set.columns().collect(),
            sessions: SessionTracker::new(&windows, column_types(input, &spec.keys)?)?,
            windows,
            accumulators: set.accumulators()?,
            set,
            row_counts: Vec::new(),
            watermark: Watermark::MIN,
            late: LateCount::new(ctx),
            board: ctx.windows.clone(),
            schema: output.to_arrow(),
        })
    }

    fn show(&self) {
        let rows = |slot: u32| self.row_counts.get(slot as usize).copied().unwrap_or(0);
        let open =
            self.sessions.by_end().map(|s| OpenRows { start: s.window.start, end: s.window.end, rows: rows(s.slot) });
        self.board.publish(self.sessions.live(), open);
    }

    /// Adds rows that are placed but not yet in their accumulators.
    fn apply(&mut self, batch: &Batch, placed: &mut Vec<(u32, u32)>) -> Result<()> {
        if placed.is_empty() {
            return Ok(());
        }
        let (rows, slots): (Vec<u32>, Vec<u32>) = placed.drain(..).unzip();
        let rows = match rows.len() == batch.num_rows() {
            true => Rows::all(batch),
            false => Rows::take(batch, rows, &self.needed)?,
        };
        let n = self.sessions.slots();
        self.row_counts.resize(n, 0);
        for (i, slot) in slots.iter().enumerate() {
            let back = rows.kinds.as_ref().is_some_and(|k| !tidegate_api::RowKind::from_byte(k.value(i)).is_addition());
            self.row_counts[*slot as usize] += if back { -1 } else { 1 };
        }
        self.accumulators.update(&self.set, &rows.columns, rows.kinds.as_ref(), &slots, n)
    }

    fn melt(&mut self, absorbed: &[u32], slot: u32) -> Result<()> {
        let n = self.sessions.slots();
        self.row_counts.resize(n, 0);
        for old in absorbed {
            self.accumulators.merge_within(*old, slot, n)?;
            self.row_counts[slot as usize] += std::mem::take(&mut self.row_counts[*old as usize]);
        }
        Ok(())
    }

    fn forget_dead(&mut self) -> Result<()> {
        if !self.sessions.is_sparse() {
            return Ok(());
        }
        let old = self.sessions.renumber()?;
        let mut fresh = self.set.accumulators()?;
        let new: Vec<u32> = (0..old.len() as u32).collect();
        if !old.is_empty() {
            fresh.merge_from(&self.accumulators, &old, &new, new.len())?;
        }
        self.row_counts = old.iter().map(|slot| self.row_counts[*slot as usize]).collect();
        self.accumulators = fresh;
        Ok(())
    }
}

impl Operator for SessionAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        let mut keys = Vec::new();
        self.sessions.intern(&key_columns, batch.num_rows(), &mut keys)?;
        let mut placed = Vec::with_capacity(keys.len());
        for (row, (key, local)) in keys.into_iter().zip(local).enumerate() {
            match self.sessions.place(&self.windows, key, local, self.watermark) {
                Placed::Late(window) => self.late.drop_rows(1, window, self.watermark),
                Placed::In { slot, absorbed } => {
                    if !absorbed.is_empty() {
                        self.apply(&batch, &mut placed)?;
                        self.melt(&absorbed, slot)?;
                    }
                    placed.push((row as u32, slot));
                }
            }
        }
        self.apply(&batch, &mut placed)?;
        self.show();
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        let mut over = self.sessions.fired(&self.windows, watermark);
        over.retain(|s| self.row_counts[s.slot as usize] != 0);
        for chunk in over.chunks(BATCH_ROWS) {
            let slots: Vec<u32> = chunk.iter().map(|s| s.slot).collect();
            let mut columns = self.sessions.key_columns(chunk)?;
            columns.extend(self.accumulators.results(&slots)?);
            columns.extend(window_columns(&self.windows, chunk.iter().map(|s| s.window)));
            out.batch(Batch::inserts(output_batch(&self.schema, columns, chunk.len())?));
        }
        self.forget_dead()?;
        if !over.is_empty() {
            self.show();
        }
        self.board.passed(watermark, over.len() as u64);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}
