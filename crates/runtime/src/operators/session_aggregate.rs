//! Aggregates over session windows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::graph::{WindowAggregateSpec, WindowInput};
use tidegate_api::{Batch, Error, Field, Result, Schema, Timestamp, Watermark};
use tidegate_state::Namespace;
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::group_state::{GroupState, bigint, numbers};
use super::progress::Progress;
use super::sessions::{Placed, Session, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::state::Changes;
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
    saved: Option<Saved>,
    /// Slots that changed since sessions were last saved.
    changes: Changes,
}

/// Where sessions are saved: by key and start, with their end beside what their accumulators hold.
struct Saved {
    state: GroupState,
    /// Key numbers and starts of the sessions that are in the state.
    names: HashSet<(u32, Timestamp)>,
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
        let (start, end) = (bigint("session_start"), bigint("session_end"));
        let state = GroupState::open(&ctx.states, "sessions", &keys, &[start], &[end], &set)?;
        let saved = state.map(|state| Saved { state, names: HashSet::new() });
        Ok(SessionAggregate {
            changes: Changes::new(saved.is_some()),
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

    /// Writes the sessions that changed, and removes those that are over or begin elsewhere now.
    fn save(&mut self) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let changed: HashSet<u32> = self.changes.take().into_iter().collect();
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
        saved.names = names;
        Ok(())
    }

    /// Adds sessions that were saved.
    fn load(&mut self, saved: &mut Saved, keys: &[ArrayRef], values: &[ArrayRef]) -> Result<()> {
        let (starts, ends) = (numbers(keys.last())?, numbers(values.last())?);
        let accumulated = &values[..values.len() - 1];
        let row_counts = numbers(accumulated.last())?;
        let mut numbers = Vec::new();
        self.sessions.intern(&keys[..keys.len() - 1], starts.len(), &mut numbers)?;
        let windows = starts.values().iter().zip(ends.values()).map(|(start, end)| TimeWindow::new(*start, *end));
        let mut slots = Vec::with_capacity(numbers.len());
        for (key, window) in numbers.into_iter().zip(windows) {
            slots.push(self.sessions.add(key, window));
            saved.names.insert((key, window.start));
        }
        self.row_counts.extend(row_counts.values());
        let held = &accumulated[..accumulated.len() - 1];
        self.accumulators.load(held, saved.state.widths(), &slots, self.sessions.slots())
    }

    fn forget_dead(&mut self) -> Result<()> {
        if !self.sessions.is_sparse() {
            return Ok(());
        }
        // What has changed is known by numbers that end here.
        self.save()?;
        self.changes.clear();
        let old = self.sessions.renumber()?;
        if let Some(saved) = &mut self.saved {
            saved.names = self.sessions.by_end().map(|s| (s.key, s.window.start)).collect();
        }
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

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        if self.saved.is_none() {
            return Ok(serde_json::Value::Null);
        }
        self.save()?;
        Progress::of(self.watermark).save()
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let Some(mut saved) = self.saved.take() else { return Ok(()) };
        let mut rows = Vec::new();
        saved.state.read_all(|_, keys, values| {
            rows.push((keys, values));
            Ok(())
        })?;
        let loaded = rows.into_iter().try_for_each(|(keys, values)| self.load(&mut saved, &keys, &values));
        self.saved = Some(saved);
        loaded?;
        self.watermark = Progress::restore(subtasks)?.watermark;
        self.show();
        Ok(())
    }
}
