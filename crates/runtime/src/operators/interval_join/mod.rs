//! Rows of two inputs whose keys are equal and whose times are close: `lower <= left time - right time <= upper`.
//!
//! A row meets the partners that came before it, and waits for those that may still come. The watermark of both
//! inputs says when the last of them is there; then the row goes, padded with NULL if it met nobody and its side is
//! kept. Rows go by their time: no other row of their key has to come, and no input has to move that is idle.
//!
//! A row behind the watermark meets what is still there. If its last partner lies behind it too, it does not wait,
//! and if it has met nobody and its side is not kept, it is dropped and counted as late. As in Flink the output may
//! lie as far behind the input as the larger bound, and so does its watermark.
//!
//! A join of **windows** is one of equal times, those of the windows, whose bounds are keys too. Only the end
//! differs: a window closes when the watermark is at its time, and a row that comes after that is late whatever its
//! side.

mod bounds;
mod buckets;
mod probe;
mod rows;
mod saved;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use tidegate_api::graph::{IntervalJoinSpec, JoinSpec, WindowJoinSpec};
use tidegate_api::metrics::Gauge;
use tidegate_api::{Batch, Error, Result, RowKind, Schema, Timestamp, Watermark};
use tidegate_window::TimeWindow;

use super::aggregates::BATCH_ROWS;
use super::event_time::{LateCount, timestamps};
use super::join::{JoinKeys, JoinOutput, NO_KEY, SIDES, Side};
use super::progress::{OpenSet, Progress};
use super::recency::Room;
use crate::operator::{Operator, OperatorContext, Output};
use bounds::Bounds;
use probe::Probe;
use rows::Row;
use saved::JoinSide;

/// See the module.
pub(super) struct IntervalJoin {
    bounds: Bounds,
    /// Event-time columns, by side.
    time_columns: [usize; 2],
    keys: JoinKeys,
    output: JoinOutput,
    sides: [JoinSide; 2],
    /// The number of the next row.
    next_number: i64,
    watermark: Watermark,
    /// The batch at hand.
    probing: Option<Probe>,
    /// The watermark at hand.
    advancing: Option<Watermark>,
    /// If rows may leave memory.
    room: Option<Room>,
    late: LateCount,
    /// Columns of the bounds of windows, by side, if windows are joined.
    windows: Option<[(usize, usize); 2]>,
    /// Rows that wait, by side.
    waiting: [Gauge; 2],
}

impl IntervalJoin {
    pub(super) fn new(
        spec: &IntervalJoinSpec,
        inputs: [&Schema; 2],
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<IntervalJoin> {
        let bounds = Bounds::new(spec.lower_ms, spec.upper_ms);
        let times = [spec.left_time, spec.right_time];
        IntervalJoin::with(bounds, times, &spec.join, &spec.meaning, inputs, output, ctx)
    }

    /// A join of rows in the same window.
    pub(super) fn of_windows(
        spec: &WindowJoinSpec,
        inputs: [&Schema; 2],
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<IntervalJoin> {
        let columns = |keys: &[usize]| Some((*keys.get(spec.start_key)?, *keys.get(spec.end_key)?));
        let windows = columns(&spec.join.left_keys).zip(columns(&spec.join.right_keys));
        let (left, right) = windows.ok_or_else(|| Error::internal("a window join without the windows' bounds"))?;
        let times = [spec.left_time, spec.right_time];
        let join = IntervalJoin::with(Bounds::of_windows(), times, &spec.join, &spec.meaning, inputs, output, ctx)?;
        Ok(IntervalJoin { windows: Some([left, right]), ..join })
    }

    fn with(
        bounds: Bounds,
        time_columns: [usize; 2],
        spec: &JoinSpec,
        meaning: &str,
        inputs: [&Schema; 2],
        output: &Schema,
        ctx: OperatorContext,
    ) -> Result<IntervalJoin> {
        let kind = spec.kind;
        let keys = JoinKeys::new(spec, inputs)?;
        let open = |side: Side, is_kept| {
            let input = inputs[side.index()];
            JoinSide::open(side, &ctx.states, keys.fields(inputs[0]), input, is_kept, meaning, bounds.span())
        };
        Ok(IntervalJoin {
            bounds,
            time_columns,
            windows: None,
            sides: [open(Side::Left, kind.keeps_left())?, open(Side::Right, kind.keeps_right())?],
            keys,
            next_number: 0,
            watermark: Watermark::MIN,
            probing: None,
            advancing: None,
            room: ctx.states.table_bytes().map(Room::new),
            late: LateCount::new(&ctx),
            waiting: ["leftRowsInState", "rightRowsInState"].map(|name| ctx.metrics.gauge(name, 0)),
            output: JoinOutput::new(spec, inputs, output, ctx)?,
        })
    }

    fn show(&self) {
        for (gauge, side) in self.waiting.iter().zip(&self.sides) {
            gauge.set(side.len() as i64);
        }
    }

    /// Goes on with the batch at hand.
    fn probe_on(&mut self, mut probe: Probe, out: &mut Output) -> Result<()> {
        // What is emitted at one time is bounded, whatever there is to be looked at before.
        while self.probe(&mut probe, out)? {
            if !out.is_empty() {
                self.probing = Some(probe);
                return Ok(());
            }
        }
        self.keep(probe, out)
    }

    /// A batch has met everybody there is: its rows wait for others, or are over.
    fn keep(&mut self, probe: Probe, out: &mut Output) -> Result<()> {
        let Probe { side, rows, times, keys, met, .. } = probe;
        let own = &mut self.sides[side.index()];
        let (mut waiting, mut alone) = (Vec::new(), Vec::new());
        let mut late = Vec::new();
        for (row, (key, time)) in keys.iter().zip(&times).enumerate() {
            if *key != NO_KEY && self.bounds.may_meet(side, *time, self.watermark) {
                waiting.push(row);
                continue;
            }
            let is_late = *time <= self.watermark.timestamp();
            if is_late && self.windows.is_some() {
                late.push(row);
            } else if own.is_kept && !met[row] {
                alone.push(row as u32);
            } else if is_late && *key != NO_KEY && !met[row] {
                late.push(row);
            }
        }
        if let Some(last) = late.last() {
            let window = match self.windows {
                Some(columns) => window_of(columns[side.index()], &rows, *last)?,
                None => self.bounds.partners(side, times[*last]),
            };
            self.late.drop_rows(late.len() as u64, window, self.watermark);
        }
        if !alone.is_empty() {
            let count = alone.len();
            self.output.padded(side, taken(&rows, alone)?, count, out)?;
        }
        if !waiting.is_empty() {
            let of: Vec<u32> = waiting.iter().map(|row| keys[*row]).collect();
            own.mark(&of, self.keys.known());
            let batch = own.rows.held.hold(rows, waiting.len());
            for row in waiting {
                let (time, number, matched) = (times[row], self.next_number, own.is_kept && met[row]);
                own.rows.insert(keys[row], Row { time, number, place: (batch, row as u32), matched });
                self.next_number += 1;
            }
        }
        for side in &mut self.sides {
            side.save_many_notes(&self.keys)?;
        }
        self.show();
        Ok(())
    }

    /// Goes on with the watermark at hand: rows go that are over, and then the watermark is sent on.
    fn advance(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        for side in SIDES {
            if self.let_go(side, watermark, out)? {
                self.advancing = Some(watermark);
                return Ok(());
            }
        }
        for side in SIDES {
            self.sides[side.index()].drop_over(self.bounds.over_until(side, watermark))?;
        }
        self.watermark = watermark;
        self.forget_dead_keys()?;
        self.show();
        out.watermark(self.bounds.held_back(watermark));
        Ok(())
    }

    /// Lets some rows of a side go that are over at this watermark; false if there are none left.
    fn let_go(&mut self, side: Side, watermark: Watermark, out: &mut Output) -> Result<bool> {
        let until = self.bounds.over_until(side, watermark);
        let own = &mut self.sides[side.index()];
        let over = own.rows.take_over(until, BATCH_ROWS);
        if over.is_empty() {
            let passed = self.bounds.over_until(side, self.watermark);
            return Ok(own.is_kept && own.load_next(&mut self.keys, until, passed)?);
        }
        if own.is_kept {
            let alone: Vec<_> = over.iter().filter(|row| !row.matched).map(|row| row.place).collect();
            for places in alone.chunks(BATCH_ROWS) {
                self.output.padded(side, own.rows.held.gather(places)?, places.len(), out)?;
            }
        }
        over.iter().for_each(|row| own.rows.held.let_go(row.place.0));
        Ok(true)
    }

    /// Forgets keys without rows in memory once they are the majority.
    fn forget_dead_keys(&mut self) -> Result<()> {
        if self.keys.may_be_sparse() { self.renumber() } else { Ok(()) }
    }

    /// Keeps the keys that have rows in memory.
    fn renumber(&mut self) -> Result<()> {
        let IntervalJoin { sides, keys, .. } = self;
        sides.iter_mut().try_for_each(|side| side.save_notes(keys))?;
        let has_rows = |key: &u32| sides.iter().any(|side| side.rows.has(*key));
        let kept: Vec<u32> = (0..keys.known() as u32).filter(has_rows).collect();
        keys.renumber(&kept)?;
        sides.iter_mut().for_each(|side| side.renumber(&kept));
        Ok(())
    }

    /// Writes what came since the last time.
    fn save(&mut self) -> Result<()> {
        let IntervalJoin { sides, keys, next_number, .. } = self;
        sides.iter_mut().try_for_each(|side| side.save(keys, *next_number))
    }

    /// Lets rows leave for the state if they have grown too large.
    fn make_room(&mut self) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        let rows: usize = self.sides.iter().map(|side| side.rows.memory_bytes()).sum();
        if room.keep(rows + self.keys.memory_bytes(), 1).is_none() {
            return Ok(());
        }
        self.save()?;
        for side in SIDES {
            self.sides[side.index()].evict(self.bounds.over_until(side, self.watermark));
        }
        self.renumber()
    }

    /// The event time of each row, and the number of its key; a row without a time has no partner.
    fn times_and_keys(&mut self, side: Side, rows: &RecordBatch) -> Result<(Vec<Timestamp>, Vec<u32>)> {
        let times = timestamps(rows.column(self.time_columns[side.index()]))?;
        let mut keys = self.keys.of(side, rows)?;
        if times.null_count() > 0 || self.bounds.is_empty() {
            for (row, key) in keys.iter_mut().enumerate() {
                if times.is_null(row) || self.bounds.is_empty() {
                    *key = NO_KEY;
                }
            }
        }
        Ok((times.values().to_vec(), keys))
    }

    /// The buckets of the other side that have rows in the state alone which a batch may meet.
    fn cold_near(&self, side: Side, times: &[Timestamp], keys: &[u32]) -> Vec<i64> {
        let buckets = &self.sides[side.other().index()].buckets;
        if buckets.cold() == 0 {
            return Vec::new();
        }
        let known = times.iter().zip(keys).filter(|(_, key)| **key != NO_KEY).map(|(time, _)| *time);
        let (Some(first), Some(last)) = (known.clone().min(), known.max()) else { return Vec::new() };
        buckets.cold_between(self.bounds.first_partner(side, first), self.bounds.last_partner(side, last))
    }
}

/// The window that a row carries.
fn window_of((start, end): (usize, usize), rows: &RecordBatch, row: usize) -> Result<TimeWindow> {
    let bound = |column: usize| timestamps(rows.column(column)).map(|times| times.value(row));
    Ok(TimeWindow::new(bound(start)?, bound(end)?))
}

/// These rows.
fn taken(rows: &RecordBatch, wanted: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let wanted = UInt32Array::from(wanted);
    let columns = rows.columns().iter().map(|column| take(column, &wanted, None));
    Ok(columns.collect::<Result<_, _>>()?)
}

impl Operator for IntervalJoin {
    fn process_batch(&mut self, input: usize, batch: Batch, out: &mut Output) -> Result<()> {
        if (0..batch.num_rows()).any(|row| batch.kind(row) != RowKind::Insert) {
            return Err(Error::internal("an interval join was given a row that takes another one back"));
        }
        let side = Side::of_input(input);
        if self.room.as_mut().is_some_and(|room| room.added(&batch)) {
            self.make_room()?;
        }
        let rows = batch.columns;
        let (times, keys) = self.times_and_keys(side, &rows)?;
        let cold = self.cold_near(side, &times, &keys);
        self.probe_on(Probe::new(side, rows, times, keys, cold), out)
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.advance(watermark, out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(probe) = self.probing.take() {
            self.probe_on(probe, out)?;
            return Ok(true);
        }
        match self.advancing.take() {
            Some(watermark) => self.advance(watermark, out).map(|()| true),
            None => Ok(false),
        }
    }

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        let Some(left) = self.sides[0].state() else { return Ok(serde_json::Value::Null) };
        let progress = Progress { next_number: self.next_number, ..Progress::of(self.watermark) };
        let progress = match self.room {
            Some(_) => {
                let sets: Vec<OpenSet> = self.sides.iter().flat_map(JoinSide::open_sets).collect();
                progress.with_open(left, sets)
            }
            None => progress,
        };
        self.save()?;
        progress.save()
    }

    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let progress = Progress::restore(subtasks)?;
        (self.watermark, self.next_number) = (progress.watermark, progress.next_number);
        let on_disk = self.room.is_some();
        for side in SIDES {
            let until = self.bounds.over_until(side, self.watermark);
            let own = &mut self.sides[side.index()];
            let saved = own.state().and_then(|state| progress.saved_in(state));
            own.restore(&mut self.keys, on_disk, saved.as_deref(), until, self.next_number)?;
        }
        self.show();
        Ok(())
    }
}
