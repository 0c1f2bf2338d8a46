//! Aggregates over session windows.

mod saved;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Field, Result, Schema, Timestamp, Watermark};
use tidegate_window::WindowAssigner;

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::progress::{OpenSet, Progress};
use super::recency::{GroupSize, Recency};
use super::sessions::{Placed, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::state::Changes;
use crate::window_board::{OpenRows, WindowBoard};
use saved::Saved;

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
    saved: Option<Saved>,
    /// How often keys are met, if they may leave memory.
    recency: Recency,
    size: GroupSize,
    /// The watermark at hand, and the sessions it has closed so far.
    advancing: Option<(Watermark, u64)>,
    /// Slots that changed since sessions were last saved.
    changes: Changes,
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
        let keys: Vec<Field> = spec.keys.iter().map(|k| input.fields[*k].clone()).collect();
        let saved = Saved::open(&ctx.states, &keys, &windows, &set)?;
        Ok(SessionAggregate {
            changes: Changes::new(ctx.states.tracking()),
            recency: Recency::new(saved.as_ref().is_some_and(|saved| saved.room.is_some())),
            size: GroupSize::default(),
            advancing: None,
            saved,
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
        self.board.publish(self.open() as usize, open);
    }

    /// Number of live sessions, in memory or not.
    fn open(&self) -> u64 {
        self.sessions.live() as u64 + self.saved.as_ref().map_or(0, |saved| saved.index.cold())
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
        // Everything is written at the barrier: nothing is noted.
        let _ = self.changes.mark(&slots, n);
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

    /// Goes on with the watermark at hand: fires sessions, or sends the watermark on if none are left.
    fn advance(&mut self, out: &mut Output) -> Result<()> {
        let Some((watermark, mut closed)) = self.advancing.take() else { return Ok(()) };
        let until = self.fetch_due(watermark)?;
        let mut over = self.sessions.fired(&self.windows, watermark, until.unwrap_or(Timestamp::MAX));
        over.retain(|s| self.row_counts[s.slot as usize] != 0);
        for chunk in over.chunks(BATCH_ROWS) {
            let slots: Vec<u32> = chunk.iter().map(|s| s.slot).collect();
            let mut columns = self.sessions.key_columns(chunk)?;
            columns.extend(self.accumulators.results(&slots)?);
            columns.extend(window_columns(&self.windows, chunk.iter().map(|s| s.window)));
            out.batch(Batch::inserts(output_batch(&self.schema, columns, chunk.len())?));
        }
        closed += over.len() as u64;
        self.forget_dead()?;
        if until.is_some() {
            self.advancing = Some((watermark, closed));
            return self.make_room();
        }
        self.forget_timers(watermark)?;
        if closed > 0 {
            self.show();
        }
        self.board.passed(watermark, closed);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}

impl Operator for SessionAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        let mut keys = Vec::new();
        let known = self.sessions.known();
        self.sessions.intern(&key_columns, batch.num_rows(), &mut keys)?;
        self.fetch_new(known)?;
        self.recency.touch(&keys, self.sessions.known());
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
        let room = self.saved.as_mut().and_then(|saved| saved.room.as_mut());
        if room.is_some_and(|room| room.added(&batch)) { self.make_room() } else { Ok(()) }
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.advancing = Some((watermark, 0));
        self.advance(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let is_left = self.advancing.is_some();
        self.advance(out)?;
        Ok(is_left)
    }

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        self.saved.as_mut().map_or(Ok(()), |saved| saved.state.begin())?;
        self.save()?;
        let Some(saved) = &self.saved else { return Ok(serde_json::Value::Null) };
        let progress = Progress::of(self.watermark);
        match saved.room {
            Some(_) => {
                progress.with_open(&saved.state.keyed, vec![OpenSet::whole(&saved.state.keyed, self.open())]).save()
            }
            None => progress.save(),
        }
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let progress = Progress::restore(subtasks)?;
        self.load(&progress)?;
        self.watermark = progress.watermark;
        self.show();
        Ok(())
    }
}
