//! Shows a view until the user closes it: reads keys, draws, and lets rows come in meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind, poll, read};
use tidegate_api::{Error, Result};

use super::{Next, Progress, View, ViewMode, render};
use crate::client::interrupt::Interrupts;
use crate::client::terminal::FullScreen;
use crate::collect::{Columns, Row, RowSink, Screen};
use crate::tableau::type_width;

/// How long a key may wait at most for its effect, and the end of a query to be seen.
const TICK_MS: u64 = 50;

/// A view that a SELECT fills and the user looks at.
pub struct ViewScreen {
    mode: ViewMode,
    rows_max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    view: Option<View>,
    /// Rows that came, those taken back included.
    received: usize,
    /// Counts what changed, so that an unchanged view is not drawn again.
    changes: u64,
    ended: Option<Progress>,
}

impl ViewScreen {
    /// A view that keeps at most `rows_max` rows.
    pub fn new(mode: ViewMode, rows_max: usize) -> ViewScreen {
        ViewScreen { mode, rows_max, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// How many rows have come.
    pub fn received(&self) -> usize {
        self.lock().received
    }

    /// The query has ended so.
    pub fn ended(&self, progress: Progress) {
        let mut state = self.lock();
        state.changes += 1;
        state.ended = Some(progress);
    }

    /// Shows the view until the user closes it, or the session ends, or the query fails before its first row.
    pub fn show(&self, colours: bool, interrupts: &Interrupts, now_ms: &dyn Fn() -> i64) -> Result<()> {
        let screen = FullScreen::enter(colours)?;
        let mut drawn: Option<(u64, i64)> = None;
        let mut dirty = true;
        loop {
            let (width, height) = screen.size();
            let refresh_ms = {
                let mut state = self.lock();
                let ended = state.ended.clone();
                let changes = state.changes;
                if state.received == 0 && matches!(ended, Some(Progress::Failed(_))) {
                    return Ok(());
                }
                let Some(view) = &mut state.view else {
                    drop(state);
                    screen.show(&render::waiting(width), (width, height))?;
                    if self.wait(Duration::from_millis(TICK_MS), interrupts, height)? == Next::Quit {
                        return Ok(());
                    }
                    continue;
                };
                let has_ended = ended.is_some() && view.progress == Progress::Running;
                view.progress = ended.unwrap_or(Progress::Running);
                let refresh_ms = view.refresh_ms();
                let due = drawn.is_none_or(|(seen, at)| {
                    seen != changes && refresh_ms.is_some_and(|ms| now_ms() - at >= ms as i64)
                });
                let lines = (dirty || due || has_ended).then(|| render::lines(view, width, height));
                drop(state);
                if let Some(lines) = lines {
                    screen.show(&lines, (width, height))?;
                    drawn = Some((changes, now_ms()));
                }
                refresh_ms.unwrap_or(TICK_MS)
            };
            let tick = Duration::from_millis(refresh_ms.min(TICK_MS));
            match self.wait(tick, interrupts, height)? {
                Next::Quit => return Ok(()),
                next => dirty = next == Next::Draw,
            }
        }
    }

    /// Waits for keys, and takes all that are there.
    fn wait(&self, tick: Duration, interrupts: &Interrupts, height: usize) -> Result<Next> {
        let mut next = Next::Wait;
        let mut timeout = tick;
        while poll(timeout).map_err(no_keys)? {
            timeout = Duration::ZERO;
            match read().map_err(no_keys)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let mut state = self.lock();
                    // Before the first row there is nothing to do but to leave.
                    let mut nothing = View::new(self.mode, Vec::new(), Vec::new(), 0);
                    match state.view.as_mut().unwrap_or(&mut nothing).key(key, height) {
                        Next::Quit => return Ok(Next::Quit),
                        Next::Draw => next = Next::Draw,
                        Next::Wait => {}
                    }
                }
                Event::Resize(..) => next = Next::Draw,
                _ => {}
            }
        }
        Ok(if interrupts.end().is_some() { Next::Quit } else { next })
    }
}

fn no_keys(e: std::io::Error) -> Error {
    Error::job(format!("Cannot read keys from the terminal: {e}."))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Screen for ViewScreen {
    fn open(&self, columns: Columns) -> Result<Box<dyn RowSink>> {
        let widths = columns.types.iter().map(|ty| type_width(ty, columns.text_width)).collect();
        let mut state = self.lock();
        state.view = Some(View::new(self.mode, columns.names, widths, self.rows_max));
        state.changes += 1;
        Ok(Box::new(ViewRows { state: self.state.clone() }))
    }
}

/// The end of a view that the query writes to.
struct ViewRows {
    state: Arc<Mutex<State>>,
}

impl RowSink for ViewRows {
    fn rows(&mut self, rows: Vec<Row>) -> Result<()> {
        let mut state = lock(&self.state);
        state.received += rows.len();
        state.changes += 1;
        if let Some(view) = &mut state.view {
            view.rows.apply(rows);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
