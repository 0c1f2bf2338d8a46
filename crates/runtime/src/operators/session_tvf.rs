//! The window table function of sessions: a row waits until its session is over, for only then its bounds
//! are known.
//!
//! What is saved are the waiting rows, each once, in lists by key and stretch of a gap's length: all rows of a
//! stretch belong to one session, since sessions that do not touch are further apart, and a session has rows in
//! all stretches from its first row's to its last's. So the bounds of a session say where its rows are, whatever
//! it was merged of, and a restored subtask finds its sessions by placing the rows again. Rows are numbered: a
//! session gives them in the order in which they came.

mod saved;
mod stored;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt8Array};
use arrow::compute::interleave;
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::{Batch, Field, Result, Schema, Timestamp, Watermark, WindowSpec};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{BATCH_ROWS, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::progress::{OpenSet, Progress};
use super::recency::{Recency, column_bytes};
use super::sessions::{Placed, Session, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::state::{Changes, Tracking};
use crate::window_board::{OpenRows, WindowBoard};
use saved::Saved;
use stored::StoredSession;

/// Where a waiting row lies: batch, row.
type Place = (usize, usize);

/// Session windows.
pub(super) struct SessionTableFunction {
    windows: WindowAssigner,
    times: RowTimes,
    keys: Vec<usize>,
    sessions: SessionTracker,
    /// Batches with waiting rows; `None` is a free place.
    held: Vec<Option<Held>>,
    /// The free places in `held`.
    free: Vec<usize>,
    /// What waits in each slot.
    rows: Vec<Waiting>,
    /// The memory that waiting rows take, in bytes.
    held_bytes: usize,
    watermark: Watermark,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
    /// The number of the next row.
    next_number: i64,
    saved: Option<Saved>,
    /// Keys whose sessions changed since they were last saved, if they may leave memory. Everything is written at
    /// the barrier: nothing is noted.
    changes: Changes,
    /// How often keys are met, if they may leave memory.
    recency: Recency,
    /// The watermark at hand, and the sessions it has closed so far.
    advancing: Option<(Watermark, u64)>,
    /// Sessions that are over and have rows in the state alone, in the order of their ends.
    firing: VecDeque<StoredSession>,
}

/// The rows of a session.
#[derive(Default)]
struct Waiting {
    /// Those in memory.
    places: Vec<Place>,
    /// Whether these are not in arrival order.
    is_mixed: bool,
    /// How many there are, in memory or not.
    count: i64,
    /// Whether some are in the state.
    is_saved: bool,
    /// Whether some are in the state alone.
    is_cold: bool,
}

/// A batch with rows that wait.
struct Held {
    columns: RecordBatch,
    kinds: Option<UInt8Array>,
    /// Times on the window grid.
    times: Vec<Timestamp>,
    /// Numbers in the order of arrival.
    numbers: Vec<i64>,
    /// How many of its rows wait.
    waiting: usize,
    /// The memory it takes.
    bytes: usize,
}

/// What a waiting row takes beside its columns: its time, its number, its place.
const WAITING_BYTES: usize = 48;

impl Held {
    fn new(
        columns: RecordBatch,
        kinds: Option<UInt8Array>,
        times: Vec<Timestamp>,
        numbers: Vec<i64>,
        waiting: usize,
    ) -> Held {
        let bytes = columns.columns().iter().map(column_bytes).sum::<usize>() + WAITING_BYTES * times.len();
        Held { columns, kinds, times, numbers, waiting, bytes }
    }
}

impl SessionTableFunction {
    pub(super) fn new(
        window: &WindowSpec,
        time_column: usize,
        keys: &[usize],
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let windows = assigner(window)?;
        let key: Vec<Field> = keys.iter().map(|k| input.fields[*k].clone()).collect();
        let saved = Saved::open(&ctx.states, &key, input, &windows)?;
        let is_on_disk = saved.as_ref().is_some_and(Saved::is_on_disk);
        Ok(SessionTableFunction {
            next_number: 0,
            changes: Changes::new(if is_on_disk { Tracking::Changed } else { Tracking::Off }),
            recency: Recency::new(is_on_disk),
            saved,
            advancing: None,
            firing: VecDeque::new(),
            held_bytes: 0,
            times: RowTimes::new(time_column, &windows),
            keys: keys.to_vec(),
            sessions: SessionTracker::new(&windows, column_types(input, keys)?)?,
            windows,
            held: Vec::new(),
            free: Vec::new(),
            rows: Vec::new(),
            watermark: Watermark::MIN,
            late: LateCount::new(ctx),
            board: ctx.windows.clone(),
            schema: output.to_arrow(),
        })
    }

    fn show(&self) {
        let rows = |slot: u32| self.rows.get(slot as usize).map_or(0, |waiting| waiting.count);
        let open =
            self.sessions.by_end().map(|s| OpenRows { start: s.window.start, end: s.window.end, rows: rows(s.slot) });
        self.board.publish(self.open() as usize, open);
    }

    /// Number of live sessions, in memory or not.
    fn open(&self) -> u64 {
        self.sessions.live() as u64 + self.saved.as_ref().map_or(0, Saved::cold)
    }

    /// Emits sessions whose rows are all in memory.
    fn emit(&mut self, over: &[Session], out: &mut Output) -> Result<()> {
        let mut rows: Vec<(Place, TimeWindow)> = Vec::new();
        let mut saved = Vec::new();
        for session in over {
            let mut own = std::mem::take(&mut self.rows[session.slot as usize]);
            self.sort(&mut own);
            rows.extend(own.places.into_iter().map(|place| (place, session.window)));
            if own.is_saved {
                saved.push(*session);
            }
        }
        self.emit_rows(&rows, out)?;
        self.forget_saved(&saved)
    }

    /// Puts the rows of a session into arrival order.
    fn sort(&self, waiting: &mut Waiting) {
        if std::mem::take(&mut waiting.is_mixed) {
            waiting.places.sort_by_key(|place| self.number(place));
        }
    }

    /// The number of a row, in the order of arrival.
    fn number(&self, (batch, row): &Place) -> i64 {
        self.held[*batch].as_ref().map_or(i64::MIN, |held| held.numbers[*row])
    }

    /// Emits rows, which wait no more.
    fn emit_rows(&mut self, rows: &[(Place, TimeWindow)], out: &mut Output) -> Result<()> {
        for chunk in rows.chunks(BATCH_ROWS) {
            let batch = self.gather(chunk)?;
            out.batch(batch);
        }
        for ((number, _), _) in rows {
            self.let_go(*number);
        }
        Ok(())
    }

    /// A row of this batch waits no more.
    fn let_go(&mut self, batch: usize) {
        let place = &mut self.held[batch];
        if let Some(held) = place {
            held.waiting -= 1;
            if held.waiting == 0 {
                self.held_bytes -= held.bytes;
                *place = None;
                self.free.push(batch);
            }
        }
    }

    /// Keeps a batch of which some rows wait, at a place that `next_place` gave.
    fn hold(&mut self, held: Held) {
        self.held_bytes += held.bytes;
        match self.free.pop() {
            Some(place) => self.held[place] = Some(held),
            None => self.held.push(Some(held)),
        }
    }

    /// Where the next batch will be kept.
    fn next_place(&self) -> usize {
        self.free.last().copied().unwrap_or(self.held.len())
    }

    /// The slot of a placed row, with everything in it that melts into its session; `None` if the row is late.
    fn slot(&mut self, placed: Placed) -> Option<&mut Waiting> {
        let Placed::In { slot, absorbed } = placed else { return None };
        self.rows.resize_with(self.sessions.slots(), Waiting::default);
        for old in absorbed {
            let moved = std::mem::take(&mut self.rows[old as usize]);
            let into = &mut self.rows[slot as usize];
            into.is_mixed |= !moved.places.is_empty();
            into.places.extend(moved.places);
            into.count += moved.count;
            into.is_saved |= moved.is_saved;
            into.is_cold |= moved.is_cold;
        }
        let waiting = &mut self.rows[slot as usize];
        waiting.count += 1;
        Some(waiting)
    }

    /// Goes on with the watermark at hand: fires sessions, or sends the watermark on if none are left.
    fn advance(&mut self, out: &mut Output) -> Result<()> {
        let Some((watermark, mut closed)) = self.advancing.take() else { return Ok(()) };
        if !self.firing.is_empty() {
            self.advancing = Some((watermark, closed));
            return self.emit_stored(out);
        }
        if closed > 0 {
            self.forget_dead()?;
            self.make_room()?;
        }
        let until = self.fetch_due(watermark)?;
        let over = self.sessions.fired(&self.windows, watermark, until.unwrap_or(Timestamp::MAX));
        closed += over.len() as u64;
        if !over.is_empty() {
            let changed: Vec<u32> = over.iter().map(|s| s.key).collect();
            let _ = self.changes.mark(&changed, self.sessions.known());
            let (cold, warm): (Vec<Session>, Vec<Session>) =
                over.iter().partition(|s| self.rows[s.slot as usize].is_cold);
            self.emit(&warm, out)?;
            self.fire_stored(&cold);
        }
        if until.is_some() || !self.firing.is_empty() {
            self.advancing = Some((watermark, closed));
            return Ok(());
        }
        self.forget_timers(watermark)?;
        self.forget_dead()?;
        if closed > 0 {
            self.show();
        }
        self.board.passed(watermark, closed);
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }

    /// The rows of a chunk with their window columns.
    fn gather(&self, chunk: &[(Place, TimeWindow)]) -> Result<Batch> {
        let places: Vec<Place> = chunk.iter().map(|r| r.0).collect();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for c in 0..self.schema.fields().len() - 3 {
            columns.push(gather(&self.held, &places, c)?);
        }
        columns.extend(window_columns(&self.windows, chunk.iter().map(|r| r.1)));
        let kinds_of = |batch: usize| self.held[batch].as_ref().and_then(|held| held.kinds.as_ref());
        let any_kinds = places.iter().any(|(batch, _)| kinds_of(*batch).is_some());
        let kind = |(batch, row): &Place| kinds_of(*batch).map_or(0, |k| k.value(*row));
        let kinds = any_kinds.then(|| UInt8Array::from_iter_values(places.iter().map(kind)));
        Ok(Batch { columns: output_batch(&self.schema, columns, chunk.len())?, kinds })
    }
}

/// Column `c` of some held rows.
fn gather(held: &[Option<Held>], places: &[Place], c: usize) -> Result<ArrayRef> {
    let mut batches: Vec<usize> = places.iter().map(|p| p.0).collect();
    batches.sort_unstable();
    batches.dedup();
    let parts: Vec<&dyn Array> =
        batches.iter().filter_map(|b| held[*b].as_ref()).map(|held| held.columns.column(c).as_ref()).collect();
    let at: Vec<(usize, usize)> =
        places.iter().filter_map(|(b, row)| Some((batches.binary_search(b).ok()?, *row))).collect();
    Ok(interleave(&parts, &at)?)
}

impl Operator for SessionTableFunction {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        let (known, mut keys) = (self.sessions.known(), Vec::new());
        self.sessions.intern(&key_columns, batch.num_rows(), &mut keys)?;
        self.fetch_new(known)?;
        self.recency.touch(&keys, self.sessions.known());
        let _ = self.changes.mark(&keys, self.sessions.known());
        let place = self.next_place();
        let mut waiting = 0;
        for (row, (key, local)) in keys.into_iter().zip(&local).enumerate() {
            let placed = self.sessions.place(&self.windows, key, *local, self.watermark);
            if let Placed::Late(window) = &placed {
                self.late.drop_rows(1, *window, self.watermark);
            }
            if let Some(slot) = self.slot(placed) {
                slot.places.push((place, row));
                waiting += 1;
            }
        }
        self.show();
        let first = self.next_number;
        self.next_number += local.len() as i64;
        let due = self.saved.as_mut().is_some_and(|saved| saved.added(&batch));
        if waiting > 0 {
            let numbers = (first..self.next_number).collect();
            self.hold(Held::new(batch.columns, batch.kinds, local, numbers, waiting));
        }
        if due { self.make_room() } else { Ok(()) }
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
        self.save()?;
        let Some(saved) = &self.saved else { return Ok(serde_json::Value::Null) };
        let progress = Progress { next_number: self.next_number, ..Progress::of(self.watermark) };
        match saved.is_on_disk() {
            true => progress.with_open(&saved.rows, vec![OpenSet::whole(&saved.rows, self.open())]).save(),
            false => progress.save(),
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
