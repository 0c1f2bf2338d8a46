//! Rows that wait in the batches in which they came, so that nothing is copied when they come and none is
//! touched before it is needed.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use tidegate_api::Result;

use crate::operators::recency::column_bytes;

/// Where a row lies: batch, row.
pub(in crate::operators) type Place = (u32, u32);

/// A batch of which some rows wait.
struct Held {
    columns: RecordBatch,
    waiting: usize,
    bytes: usize,
}

/// Batches of rows that wait. A batch goes when its last row does.
#[derive(Default)]
pub(in crate::operators) struct HeldRows {
    batches: Vec<Option<Held>>,
    /// The free places in `batches`.
    free: Vec<u32>,
    bytes: usize,
}

impl HeldRows {
    /// Memory in bytes.
    pub(in crate::operators) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a batch of which `waiting` rows, at least one, wait; returns its number.
    pub(in crate::operators) fn hold(&mut self, columns: RecordBatch, waiting: usize) -> u32 {
        let bytes = columns.columns().iter().map(column_bytes).sum();
        self.bytes += bytes;
        let held = Some(Held { columns, waiting, bytes });
        match self.free.pop() {
            Some(free) => {
                self.batches[free as usize] = held;
                free
            }
            None => {
                self.batches.push(held);
                self.batches.len() as u32 - 1
            }
        }
    }

    /// A row of this batch waits no more.
    pub(in crate::operators) fn let_go(&mut self, batch: u32) {
        let place = &mut self.batches[batch as usize];
        if let Some(held) = place {
            held.waiting -= 1;
            if held.waiting == 0 {
                self.bytes -= held.bytes;
                *place = None;
                self.free.push(batch);
            }
        }
    }

    /// The columns of these waiting rows, at least one.
    pub(in crate::operators) fn gather(&self, places: &[Place]) -> Result<Vec<ArrayRef>> {
        let mut batches: Vec<u32> = places.iter().map(|place| place.0).collect();
        batches.sort_unstable();
        batches.dedup();
        let at: Vec<(usize, usize)> = places
            .iter()
            .filter_map(|(batch, row)| Some((batches.binary_search(batch).ok()?, *row as usize)))
            .collect();
        let held: Vec<&RecordBatch> =
            batches.iter().filter_map(|b| self.batches[*b as usize].as_ref()).map(|held| &held.columns).collect();
        let width = held.first().map_or(0, |columns| columns.num_columns());
        let column = |c: usize| {
            let parts: Vec<&dyn Array> = held.iter().map(|columns| columns.column(c).as_ref()).collect();
            Ok(interleave(&parts, &at)?)
        };
        (0..width).map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("v", column)]).unwrap()
    }

    #[test]
    fn a_batch_goes_with_its_last_row() {
        let mut rows = HeldRows::default();
        let (a, b) = (rows.hold(batch(&[1, 2, 3]), 2), rows.hold(batch(&[4]), 1));
        let columns = rows.gather(&[(b, 0), (a, 2), (a, 0), (a, 2)]).unwrap();
        assert_eq!(columns[0].as_primitive::<Int64Type>().values(), &[4, 3, 1, 3]);
        rows.let_go(a);
        assert_eq!(rows.bytes(), 32);
        rows.let_go(a);
        assert_eq!(rows.bytes(), 8);
        assert_eq!(rows.hold(batch(&[5]), 1), a, "its place is free");
        assert_eq!(rows.gather(&[(a, 0)]).unwrap()[0].as_primitive::<Int64Type>().values(), &[5]);
    }
}
