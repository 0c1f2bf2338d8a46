//! Which sessions come into memory, and which leave it.
//!
//! A key has all its sessions in memory or none, so what is there decides what a row does. They come back when a
//! row of the key comes or when one of them is over.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use tidegate_api::{Result, Watermark};
use tidegate_window::WindowAssigner;

use super::{Bounds, Due, SessionIndex};
use crate::operators::recency::Recency;
use crate::operators::sessions::SessionTracker;

/// Sessions that are to come back from the state.
#[derive(Default)]
pub(in crate::operators) struct Returning {
    /// The columns of their keys.
    pub(in crate::operators) columns: Vec<ArrayRef>,
    /// The numbers of their keys in the tracker, bounds and rows.
    pub(in crate::operators) bounds: Bounds,
}

impl Returning {
    /// Sessions of the keys in `columns`; `bounds` names keys by their positions there, `number` by numbers, if
    /// the session is wanted.
    fn new(columns: &[ArrayRef], bounds: &Bounds, number: impl Fn(u32) -> Option<u32>) -> Result<Returning> {
        let (mut wanted, mut rows) = (Bounds::default(), Vec::new());
        for (at, row) in bounds.keys.iter().enumerate() {
            if let Some(number) = number(*row) {
                rows.push(*row);
                wanted.keys.push(number);
                wanted.windows.push(bounds.windows[at]);
                wanted.rows.push(bounds.rows[at]);
            }
        }
        let rows = UInt32Array::from(rows);
        let columns = columns.iter().map(|column| take(column, &rows, None)).collect::<Result<_, _>>()?;
        Ok(Returning { columns, bounds: wanted })
    }

    /// Number of sessions.
    pub(in crate::operators) fn len(&self) -> usize {
        self.bounds.keys.len()
    }
}

impl SessionIndex {
    /// The sessions of these keys, which are new in memory.
    pub(in crate::operators) fn of_new(&mut self, sessions: &SessionTracker, new: &[u32]) -> Result<Returning> {
        let columns = sessions.keys(new.iter().copied())?;
        let bounds = self.bounds(&columns, new.len())?;
        let returning = Returning::new(&columns, &bounds, |row| Some(new[row as usize]))?;
        self.came_back(returning.len());
        Ok(returning)
    }

    /// The next sessions that are over at this watermark, of at most `limit` keys, and what else these keys have;
    /// none if all that are over are in memory. The keys get numbers.
    pub(in crate::operators) fn of_due(
        &mut self,
        sessions: &mut SessionTracker,
        windows: &WindowAssigner,
        watermark: Watermark,
        limit: usize,
    ) -> Result<Returning> {
        let Some(Due { keys, ends }) = self.next_due(windows, watermark, limit)? else {
            return Ok(Returning::default());
        };
        let bounds = self.bounds(&keys, ends.len())?;
        // A timer whose session has grown since is nobody's.
        let mut holds = vec![false; ends.len()];
        for (row, window) in bounds.keys.iter().zip(&bounds.windows) {
            holds[*row as usize] |= window.end == ends[*row as usize];
        }
        let rows: Vec<u32> = (0..holds.len() as u32).filter(|row| holds[*row as usize]).collect();
        let index = UInt32Array::from_iter_values(rows.iter().copied());
        let columns = keys.iter().map(|column| take(column, &index, None)).collect::<Result<Vec<_>, _>>()?;
        let (known, mut numbers) = (sessions.known() as u32, Vec::new());
        sessions.intern(&columns, rows.len(), &mut numbers)?;
        // What is in memory is newer than the state.
        let mut new = vec![None; holds.len()];
        for (row, number) in rows.iter().zip(numbers).filter(|(_, number)| *number >= known) {
            new[*row as usize] = Some(number);
        }
        let returning = Returning::new(&keys, &bounds, |row| new[row as usize])?;
        self.came_back(returning.len());
        Ok(returning)
    }

    /// The keys that stay if there is room for so many: those that are met most. But half of the room is for
    /// sessions that end before the timers in memory do, which would have to be read again without them.
    pub(in crate::operators) fn staying(&self, sessions: &SessionTracker, met: &Recency, room: usize) -> Vec<u32> {
        let (mut stays, mut count) = (vec![false; sessions.known()], 0);
        for session in sessions.by_end().take_while(|session| self.is_near(session.window.end)) {
            if 2 * count >= room {
                break;
            }
            count += usize::from(!std::mem::replace(&mut stays[session.key as usize], true));
        }
        let alive = sessions.alive();
        let others: Vec<u32> = alive.iter().filter(|key| !stays[**key as usize]).copied().collect();
        for key in met.hottest(&others, room - count) {
            stays[key as usize] = true;
        }
        alive.into_iter().filter(|key| stays[*key as usize]).collect()
    }

    /// All sessions but those of these keys leave memory. They have been written.
    pub(in crate::operators) fn leave_all_but(&mut self, sessions: &SessionTracker, kept: &[u32]) {
        let mut stays = vec![false; sessions.known()];
        kept.iter().for_each(|key| stays[*key as usize] = true);
        let leaving = sessions.by_end().filter(|session| !stays[session.key as usize]);
        leaving.for_each(|session| self.leave(session.window.end));
    }
}
