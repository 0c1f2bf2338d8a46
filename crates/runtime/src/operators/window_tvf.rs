//! Window table functions without an aggregate: rows with their windows.
//!
//! A row of a grid window passes at once, once per window, late or not. For sessions see
//! [`super::session_tvf`].

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::Schema as ArrowSchema;
use tidegate_api::{Batch, Result, Schema, WindowSpec};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::{BATCH_ROWS, output_batch};
use super::event_time::{RowTimes, assigner, window_columns};
use crate::operator::{Operator, Output};

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
