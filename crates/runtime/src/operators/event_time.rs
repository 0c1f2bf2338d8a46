//! What window operators share: row times, slices of a batch, late rows, window columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimestampMillisecondType};
use tidegate_api::metrics::Counter;
use tidegate_api::{Batch, Error, Result, Timestamp, Watermark, WindowSpec};
use tidegate_window::{LocalClock, TimeWindow, WindowAssigner};

use crate::operator::{LateListener, LateRows, OperatorContext};

/// The computable form of a plan's window.
pub(super) fn assigner(spec: &WindowSpec) -> Result<WindowAssigner> {
    spec.assigner().map_err(Error::invalid)
}

/// Moves the row times of batches onto the window grid.
pub(super) struct RowTimes {
    column: usize,
    clock: LocalClock,
}

impl RowTimes {
    pub(super) fn new(column: usize, windows: &WindowAssigner) -> Self {
        RowTimes { column, clock: windows.clock() }
    }

    /// The grid time of each row.
    pub(super) fn local(&mut self, batch: &Batch) -> Result<Vec<Timestamp>> {
        let column = times(batch, self.column)?;
        Ok(column.values().iter().map(|ts| self.clock.to_local(*ts)).collect())
    }

    /// The slice end of each row.
    pub(super) fn slice_ends(&mut self, batch: &Batch, windows: &WindowAssigner) -> Result<Vec<Timestamp>> {
        let column = times(batch, self.column)?;
        let size = windows.slice_size();
        // Rows mostly fall into the slice of the row before.
        let mut end = Timestamp::MIN;
        Ok(column
            .values()
            .iter()
            .map(|ts| {
                let local = self.clock.to_local(*ts);
                if local >= end || local < end.saturating_sub(size) {
                    end = windows.slice_end(local);
                }
                end
            })
            .collect())
    }
}

fn times(batch: &Batch, column: usize) -> Result<TimestampMillisecondArray> {
    let array = batch.columns.column(column);
    if array.null_count() > 0 {
        return Err(Error::job(
            "RowTime field should not be null, please convert it to a non-null long value. (tidegate.rowtime.null = drop drops such rows at the source; an outer join pads the row time of the side that has no partner, which WHERE ... IS NOT NULL takes out)",
        ));
    }
    timestamps(array)
}

/// A timestamp column in milliseconds; what is finer is cut off.
pub(super) fn timestamps(array: &ArrayRef) -> Result<TimestampMillisecondArray> {
    match array.as_primitive_opt::<TimestampMillisecondType>() {
        Some(ms) => Ok(ms.clone()),
        None => {
            let ms = arrow::compute::cast(array, &DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None))?;
            Ok(ms.as_primitive::<TimestampMillisecondType>().clone())
        }
    }
}

/// `window_start`, `window_end` and `window_time` of these windows.
pub(super) fn window_columns(windows: &WindowAssigner, of: impl Iterator<Item = TimeWindow> + Clone) -> Vec<ArrayRef> {
    let column = |f: &dyn Fn(TimeWindow) -> Timestamp| -> ArrayRef {
        let mut last = None;
        Arc::new(TimestampMillisecondArray::from_iter_values(of.clone().map(|w| match last {
            Some((window, value)) if window == w => value,
            _ => {
                let value = f(w);
                last = Some((w, value));
                value
            }
        })))
    };
    vec![column(&|w| w.start), column(&|w| w.end), column(&|w| windows.window_time(w.end))]
}

/// Counts and reports rows that came too late.
pub(super) struct LateCount {
    dropped: Counter,
    listener: Arc<dyn LateListener>,
}

impl LateCount {
    pub(super) fn new(ctx: &OperatorContext) -> Self {
        LateCount { dropped: ctx.metrics.counter("numLateRecordsDropped"), listener: ctx.late.clone() }
    }

    pub(super) fn drop_rows(&self, count: u64, window: TimeWindow, watermark: Watermark) {
        self.dropped.add(count);
        self.listener.late(LateRows {
            count,
            window_start: window.start,
            window_end: window.end,
            watermark: watermark.timestamp(),
        });
    }
}

/// The next watermark at which a grid of slices closes one; forwards everything before it cheaply.
pub(super) struct NextFire {
    at: Timestamp,
}

impl NextFire {
    pub(super) fn new() -> Self {
        NextFire { at: Timestamp::MIN }
    }

    /// True if `watermark` closes a slice.
    pub(super) fn reached(&mut self, windows: &WindowAssigner, watermark: Watermark) -> bool {
        if watermark.timestamp() < self.at || watermark == Watermark::MIN {
            return false;
        }
        self.at = windows.next_fire_after(watermark.timestamp());
        true
    }
}
