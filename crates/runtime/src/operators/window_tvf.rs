//! Window table functions without an aggregate: rows with their windows.
//!
//! A row of a grid window passes at once, once per window, late or not. A row of a session waits until
//! its session is over, for only then its bounds are known.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::{Batch, Result, Schema, Watermark, WindowSpec};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{BATCH_ROWS, column_types, output_batch};
use super::event_time::{LateCount, RowTimes, assigner, window_columns};
use super::sessions::{Placed, Session, SessionTracker};
use crate::operator::{Operator, OperatorContext, Output};
use crate::window_board::{OpenRows, WindowBoard};

/// Tumbling, hopping and cumulating windows.
pub(super) struct WindowTableFunction {
    windows: WindowAssigner,
    times: RowTimes,
    schema: Arc<ArrowSchema>,
}

impl WindowTableFunction {
    pub(super) fn new(window: &WindowSpec, time_column: usize, output: &Schema) -> Result<Self> {
        let windows = assigner(window)?;
        Ok(WindowTableFunction { times: RowTimes::new(time_column, &windows), windows, schema: output.to_arrow() })
    }

    fn emit(&self, batch: &Batch, rows: &mut Vec<u32>, windows: &mut Vec<TimeWindow>, out: &mut Output) -> Result<()> {
        let index = UInt32Array::from(std::mem::take(rows));
        let columns = batch.columns.columns().iter().map(|c| take(c, &index, None));
        let mut columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        columns.extend(window_columns(&self.windows, windows.iter().copied()));
        let kinds = batch.kinds.as_ref().map(|k| index.values().iter().map(|i| k.value(*i as usize)).collect());
        let rows = windows.len();
        windows.clear();
        out.batch(Batch { columns: output_batch(&self.schema, columns, rows)?, kinds });
        Ok(())
    }
}

impl Operator for WindowTableFunction {
    fn process_batch(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let (mut rows, mut windows, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (row, local) in local.into_iter().enumerate() {
            self.windows.windows_of(local, &mut own);
            rows.extend(std::iter::repeat_n(row as u32, own.len()));
            windows.append(&mut own);
            if rows.len() >= BATCH_ROWS {
                self.emit(&batch, &mut rows, &mut windows, out)?;
            }
        }
        self.emit(&batch, &mut rows, &mut windows, out)
    }
}

/// Where a waiting row lies: batch, row.
type Place = (usize, usize);

/// Session windows.
pub(super) struct SessionTableFunction {
    windows: WindowAssigner,
    times: RowTimes,
    keys: Vec<usize>,
    sessions: SessionTracker,
    /// Batches with waiting rows, and how many of them wait; `None` is a free place.
    held: Vec<Option<(RecordBatch, Option<UInt8Array>, usize)>>,
    /// The free places in `held`.
    free: Vec<usize>,
    /// The rows in each slot, in arrival order.
    rows: Vec<Vec<Place>>,
    watermark: Watermark,
    late: LateCount,
    board: Arc<WindowBoard>,
    schema: Arc<ArrowSchema>,
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
        Ok(SessionTableFunction {
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
        for ((number, _), _) in &rows {
            let held = &mut self.held[*number];
            if let Some((_, _, waiting)) = held {
                *waiting -= 1;
                if *waiting == 0 {
                    *held = None;
                    self.free.push(*number);
                }
            }
        }
        Ok(())
    }

    /// The rows of a chunk with their window columns.
    fn gather(&self, chunk: &[(Place, TimeWindow)]) -> Result<Batch> {
        let mut numbers: Vec<usize> = chunk.iter().map(|r| r.0.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let sources: Vec<_> = numbers.iter().filter_map(|n| self.held[*n].as_ref()).collect();
        let at: Vec<(usize, usize)> =
            chunk.iter().filter_map(|((n, row), _)| Some((numbers.binary_search(n).ok()?, *row))).collect();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for c in 0..self.schema.fields().len() - 3 {
            let parts: Vec<&dyn arrow::array::Array> = sources.iter().map(|s| s.0.column(c).as_ref()).collect();
            columns.push(interleave(&parts, &at)?);
        }
        columns.extend(window_columns(&self.windows, chunk.iter().map(|r| r.1)));
        let any_kinds = sources.iter().any(|s| s.1.is_some());
        let kind = |(source, row): &(usize, usize)| sources[*source].1.as_ref().map_or(0, |k| k.value(*row));
        let kinds = any_kinds.then(|| UInt8Array::from_iter_values(at.iter().map(kind)));
        Ok(Batch { columns: output_batch(&self.schema, columns, chunk.len())?, kinds })
    }
}

impl Operator for SessionTableFunction {
    fn process_batch(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<()> {
        let local = self.times.local(&batch)?;
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        let mut keys = Vec::new();
        self.sessions.intern(&key_columns, batch.num_rows(), &mut keys)?;
        let number = self.free.last().copied().unwrap_or(self.held.len());
        let mut waiting = 0;
        for (row, (key, local)) in keys.into_iter().zip(local).enumerate() {
            match self.sessions.place(&self.windows, key, local, self.watermark) {
                Placed::Late(window) => self.late.drop_rows(1, window, self.watermark),
                Placed::In { slot, absorbed } => {
                    self.rows.resize_with(self.sessions.slots(), Vec::new);
                    for old in absorbed {
                        let moved = std::mem::take(&mut self.rows[old as usize]);
                        self.rows[slot as usize].extend(moved);
                    }
                    self.rows[slot as usize].push((number, row));
                    waiting += 1;
                }
            }
        }
        self.show();
        if waiting > 0 {
            let held = Some((batch.columns, batch.kinds, waiting));
            match self.free.pop() {
                Some(place) => self.held[place] = held,
                None => self.held.push(held),
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
}
