//! The window table function of sessions: a row waits until its session is over, for only then its bounds
//! are known.
//!
//! What is saved are the waiting rows, each once, under its key and a number in the order of arrival. A
//! restored subtask places them again, which gives the sessions there were: all rows of a live session
//! wait.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt8Array};
use arrow::compute::interleave;
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use tidegate_api::{Batch, Field, Result, Schema, Timestamp, Watermark, WindowSpec};
use tidegate_state::{KeyGroupRange, Namespace};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{BATCH_ROWS, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::group_state::{bigint, numbers};
use super::progress::Progress;
use super::sessions::{Placed, Session, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::state::{KeyedLayout, KeyedState};
use crate::window_board::{OpenRows, WindowBoard};

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
    /// The rows in each slot, in arrival order.
    rows: Vec<Vec<Place>>,
    watermark: Watermark,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
    /// The number of the next row.
    next_number: i64,
    saved: Option<Saved>,
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
}

/// Where waiting rows are saved.
struct Saved {
    state: KeyedState,
    /// Rows with smaller numbers have been saved.
    up_to: i64,
    input: SchemaRef,
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
        let mut key: Vec<Field> = keys.iter().map(|k| input.fields[*k].clone()).collect();
        key.push(bigint("number"));
        let value = [bigint("time"), bigint("kind")].into_iter().chain(input.fields.iter().cloned()).collect();
        let (key, value) = (Schema::new(key), Schema::new(value));
        let state = ctx.states.keyed(KeyedLayout { name: "rows", key, partitioned: keys.len(), value })?;
        Ok(SessionTableFunction {
            next_number: 0,
            saved: state.map(|state| Saved { state, up_to: 0, input: input.to_arrow() }),
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
        let rows = |slot: u32| self.rows.get(slot as usize).map_or(0, Vec::len) as i64;
        let open =
            self.sessions.by_end().map(|s| OpenRows { start: s.window.start, end: s.window.end, rows: rows(s.slot) });
        self.board.publish(self.sessions.live(), open);
    }

    fn emit(&mut self, over: &[Session], out: &mut Output) -> Result<()> {
        let mut rows: Vec<(Place, TimeWindow)> = Vec::new();
        for session in over {
            let own = std::mem::take(&mut self.rows[session.slot as usize]);
            rows.extend(own.into_iter().map(|place| (place, session.window)));
        }
        for chunk in rows.chunks(BATCH_ROWS) {
            let batch = self.gather(chunk)?;
            out.batch(batch);
        }
        self.forget_saved(&rows)?;
        for ((number, _), _) in &rows {
            let place = &mut self.held[*number];
            if let Some(held) = place {
                held.waiting -= 1;
                if held.waiting == 0 {
                    *place = None;
                    self.free.push(*number);
                }
            }
        }
        Ok(())
    }

    /// Removes rows that wait no more from what is saved.
    fn forget_saved(&mut self, rows: &[(Place, TimeWindow)]) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let number = |(batch, row): Place| self.held[batch].as_ref().map_or(i64::MAX, |held| held.numbers[row]);
        let gone: Vec<Place> = rows.iter().map(|(place, _)| *place).filter(|p| number(*p) < saved.up_to).collect();
        for places in gone.chunks(BATCH_ROWS) {
            let keys = key_columns(&self.held, &self.keys, places)?;
            saved.state.remove(Namespace::GLOBAL, &keys, places.len())?;
        }
        Ok(())
    }

    /// Writes the rows that came since and still wait.
    fn save(&mut self) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let held = &self.held;
        let is_new = |(batch, row): &Place| held[*batch].as_ref().is_some_and(|h| h.numbers[*row] >= saved.up_to);
        let live = self.sessions.by_end().flat_map(|s| self.rows[s.slot as usize].iter().copied());
        let new: Vec<Place> = live.filter(is_new).collect();
        for places in new.chunks(BATCH_ROWS) {
            let keys = key_columns(held, &self.keys, places)?;
            let column = |f: &dyn Fn(&Held, usize) -> i64| -> ArrayRef {
                let value = |(batch, row): &Place| held[*batch].as_ref().map(|h| f(h, *row));
                Arc::new(places.iter().map(value).collect::<Int64Array>())
            };
            let kind = |h: &Held, row: usize| h.kinds.as_ref().map_or(0, |k| i64::from(k.value(row)));
            let mut values = vec![column(&|h, row| h.times[row]), column(&kind)];
            for c in 0..saved.input.fields().len() {
                values.push(gather(held, places, c)?);
            }
            saved.state.write(Namespace::GLOBAL, &keys, &values, places.len())?;
        }
        saved.up_to = self.next_number;
        Ok(())
    }

    /// Lets rows that were saved wait again.
    fn load(&mut self, saved: &mut Saved) -> Result<()> {
        let mut places: Vec<(i64, Place)> = Vec::new();
        saved.state.read(Namespace::GLOBAL, KeyGroupRange::all(), |keys, values, rows| {
            let rows = rows.len();
            let order = numbers(keys.last())?.values().to_vec();
            let (times, kinds) = (numbers(values.first())?.values().to_vec(), numbers(values.get(1))?);
            let kinds = UInt8Array::from_iter_values(kinds.values().iter().map(|k| *k as u8));
            let any_kind = kinds.values().iter().any(|k| *k != 0);
            places.extend(order.iter().enumerate().map(|(row, number)| (*number, (self.held.len(), row))));
            let columns = output_batch(&saved.input, values[2..].to_vec(), rows)?;
            let kinds = any_kind.then_some(kinds);
            self.held.push(Some(Held { columns, kinds, times, numbers: order, waiting: rows }));
            Ok(())
        })?;
        places.sort_unstable();
        let mut keys_of: Vec<Vec<u32>> = Vec::new();
        for held in self.held.iter().flatten() {
            let columns: Vec<ArrayRef> = self.keys.iter().map(|k| held.columns.column(*k).clone()).collect();
            let mut keys = Vec::new();
            self.sessions.intern(&columns, held.numbers.len(), &mut keys)?;
            keys_of.push(keys);
        }
        for (number, (batch, row)) in places {
            let time = self.held[batch].as_ref().map_or(0, |held| held.times[row]);
            // Nothing is late before the first watermark, and these rows were not.
            let placed = self.sessions.place(&self.windows, keys_of[batch][row], time, Watermark::MIN);
            self.take(placed, (batch, row));
            self.next_number = self.next_number.max(number + 1);
        }
        saved.up_to = self.next_number;
        Ok(())
    }

    /// Lets a placed row wait; false if it is late.
    fn take(&mut self, placed: Placed, place: Place) -> bool {
        let Placed::In { slot, absorbed } = placed else { return false };
        self.rows.resize_with(self.sessions.slots(), Vec::new);
        for old in absorbed {
            let moved = std::mem::take(&mut self.rows[old as usize]);
            self.rows[slot as usize].extend(moved);
        }
        self.rows[slot as usize].push(place);
        true
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

/// The key of some held rows: key columns and number.
fn key_columns(held: &[Option<Held>], keys: &[usize], places: &[Place]) -> Result<Vec<ArrayRef>> {
    let mut columns = keys.iter().map(|c| gather(held, places, *c)).collect::<Result<Vec<_>>>()?;
    let number = |(batch, row): &Place| held[*batch].as_ref().map(|h| h.numbers[*row]);
    columns.push(Arc::new(places.iter().map(number).collect::<Int64Array>()));
    Ok(columns)
}

impl Operator for SessionTableFunction {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        let mut keys = Vec::new();
        self.sessions.intern(&key_columns, batch.num_rows(), &mut keys)?;
        let place = self.free.last().copied().unwrap_or(self.held.len());
        let mut waiting = 0;
        for (row, (key, local)) in keys.into_iter().zip(&local).enumerate() {
            let placed = self.sessions.place(&self.windows, key, *local, self.watermark);
            if let Placed::Late(window) = &placed {
                self.late.drop_rows(1, *window, self.watermark);
            }
            waiting += usize::from(self.take(placed, (place, row)));
        }
        self.show();
        let first = self.next_number;
        self.next_number += local.len() as i64;
        if waiting > 0 {
            let numbers = (first..self.next_number).collect();
            let held = Held { columns: batch.columns, kinds: batch.kinds, times: local, numbers, waiting };
            match self.free.pop() {
                Some(place) => self.held[place] = Some(held),
                None => self.held.push(Some(held)),
            }
        }
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        let over = self.sessions.fired(&self.windows, watermark);
        if !over.is_empty() {
            self.emit(&over, out)?;
            self.show();
        }
        self.board.passed(watermark, over.len() as u64);
        if self.sessions.is_sparse() {
            let old = self.sessions.renumber()?;
            self.rows = old.iter().map(|slot| std::mem::take(&mut self.rows[*slot as usize])).collect();
        }
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
        let loaded = self.load(&mut saved);
        self.saved = Some(saved);
        loaded?;
        self.watermark = Progress::restore(subtasks)?.watermark;
        self.show();
        Ok(())
    }
}
