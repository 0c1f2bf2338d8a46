//! Sessions that are over fire from the state, some at a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt8Array, UInt32Array};
use arrow::compute::take;
use tidegate_api::{Batch, Result};
use tidegate_state::Namespace;

use super::saved::FACTS;
use super::{Place, SessionTableFunction};
use crate::operator::Output;
use crate::operators::aggregates::{BATCH_ROWS, output_batch};
use crate::operators::event_time::window_columns;
use crate::operators::group_state::numbers;
use crate::operators::sessions::Session;

/// Lists that are read at one time, about.
const STEP_LISTS: usize = 1_024;

/// A session that is over, with rows in the state.
pub(super) struct StoredSession {
    session: Session,
    /// The number of its rows, in memory or not.
    rows: i64,
    /// Rows that are in memory alone, all newer than those in the state.
    unsaved: Vec<Place>,
}

impl SessionTableFunction {
    /// Sessions are over of which some rows are in the state alone.
    pub(super) fn fire_stored(&mut self, over: &[Session]) {
        let up_to = self.saved.as_ref().map_or(0, |saved| saved.up_to);
        let mut read_again = Vec::new();
        for session in over {
            let mut waiting = std::mem::take(&mut self.rows[session.slot as usize]);
            self.sort(&mut waiting);
            let (in_both, unsaved): (Vec<Place>, Vec<Place>) =
                waiting.places.iter().partition(|place| self.number(place) < up_to);
            read_again.extend(in_both);
            self.firing.push_back(StoredSession { session: *session, rows: waiting.count, unsaved });
        }
        read_again.into_iter().for_each(|(batch, _)| self.let_go(batch));
    }

    /// Emits the next sessions that are over from the state, and forgets them there.
    pub(super) fn emit_stored(&mut self, out: &mut Output) -> Result<()> {
        let Some(saved) = &self.saved else { return Ok(()) };
        let (mut lists, mut rows): (Vec<(Session, i64)>, i64) = (Vec::new(), 0);
        let mut unsaved = Vec::new();
        while lists.len() < STEP_LISTS && rows < BATCH_ROWS as i64 {
            let Some(StoredSession { session, rows: count, unsaved: own }) = self.firing.pop_front() else { break };
            lists.extend(saved.stretches(&session).map(|stretch| (session, stretch)));
            rows = rows.saturating_add(count);
            unsaved.extend(own.into_iter().map(|place| (place, session.window)));
        }
        self.emit_lists(&lists, out)?;
        self.emit_rows(&unsaved, out)
    }

    fn emit_lists(&mut self, lists: &[(Session, i64)], out: &mut Output) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let mut keys = self.sessions.keys(lists.iter().map(|(session, _)| session.key))?;
        keys.push(Arc::new(Int64Array::from_iter_values(lists.iter().map(|(_, stretch)| *stretch))));
        let found = saved.rows.get(Namespace::GLOBAL, &keys, lists.len())?;
        saved.rows.remove(Namespace::GLOBAL, &keys, lists.len())?;
        let (kinds, arrivals) = (numbers(found.values.get(1))?, numbers(found.values.get(2))?);
        let session = |row: &u32| &lists[found.rows[*row as usize] as usize].0;
        let mut order: Vec<u32> = (0..found.rows.len() as u32).collect();
        order.sort_by_key(|row| (session(row).window.end, session(row).slot, arrivals.value(*row as usize)));
        for rows in order.chunks(BATCH_ROWS) {
            let index = UInt32Array::from(rows.to_vec());
            let columns = found.values[FACTS..].iter().map(|column| take(column, &index, None));
            let mut columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
            columns.extend(window_columns(&self.windows, rows.iter().map(|row| session(row).window)));
            let kinds = UInt8Array::from_iter_values(rows.iter().map(|row| kinds.value(*row as usize) as u8));
            let kinds = kinds.values().iter().any(|kind| *kind != 0).then_some(kinds);
            out.batch(Batch { columns: output_batch(&self.schema, columns, rows.len())?, kinds });
        }
        Ok(())
    }
}
