//! What jobs say while the terminal is not theirs.
//!
//! A line printed into the middle of a statement being edited, or over a full-screen view, ruins both. So the client
//! *holds* the mailbox while it has the terminal to itself: notices and the rows of `print` wait here, in order. The
//! editor takes them a few at a time and prints them above the prompt; what is left comes out when the client lets go.
//!
//! Nothing grows without bound: rows wait for room (their job waits with them), and of too many notices the rest is
//! counted and said.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidegate_api::Result;
use tidegate_connectors::print::PrintOut;
use tokio::sync::Notify;

use crate::console::{print_out, say};

/// Lines that may wait.
const LINES_MAX: usize = 1000;

/// The mailbox.
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    room: Notify,
    /// Whether rows of `print` appear on the terminal at all: standard output may be a file.
    rows_on_terminal: bool,
}

#[derive(Default)]
struct Waiting {
    held: bool,
    lines: VecDeque<Line>,
    /// Notices for which there was no room.
    untold: usize,
}

enum Line {
    /// For standard error.
    Notice(String),
    /// For standard output.
    Row(String),
}

impl Line {
    fn of(row: &str, to_stderr: bool) -> Line {
        if to_stderr { Line::Notice(row.to_owned()) } else { Line::Row(row.to_owned()) }
    }

    fn print(self) -> Result<()> {
        match self {
            Line::Notice(text) => {
                say(&text);
                Ok(())
            }
            Line::Row(text) => print_out(&(text + "\n")),
        }
    }

    fn text(self) -> String {
        match self {
            Line::Notice(text) | Line::Row(text) => text,
        }
    }
}

impl Mailbox {
    /// An empty mailbox that is not held.
    pub fn new(rows_on_terminal: bool) -> Mailbox {
        Mailbox { waiting: Mutex::default(), room: Notify::new(), rows_on_terminal }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a line on standard error, now or later.
    pub fn notice(&self, text: &str) {
        let mut waiting = self.lock();
        match (waiting.held, waiting.lines.len() < LINES_MAX) {
            (false, _) => say(text),
            (true, true) => waiting.lines.push_back(Line::Notice(text.to_owned())),
            (true, false) => waiting.untold += 1,
        }
    }

    /// Waits until the lines have been printed or have found room to wait.
    async fn rows(&self, text: &str, to_stderr: bool) -> Result<()> {
        if !self.rows_on_terminal && !to_stderr {
            return print_out(text);
        }
        let mut lines = text.lines();
        loop {
            let room = self.room.notified();
            {
                let mut waiting = self.lock();
                if !waiting.held {
                    return lines.try_for_each(|line| Line::of(line, to_stderr).print());
                }
                while waiting.lines.len() < LINES_MAX {
                    let Some(line) = lines.next() else { return Ok(()) };
                    waiting.lines.push_back(Line::of(line, to_stderr));
                }
            }
            room.await;
        }
    }

    /// From now on lines wait.
    pub fn hold(&self) {
        self.lock().held = true;
    }

    /// Takes at most `max` of the lines that wait.
    pub fn take(&self, max: usize) -> Vec<String> {
        let mut waiting = self.lock();
        let count = waiting.lines.len().min(max);
        let mut taken: Vec<String> = waiting.lines.drain(..count).map(Line::text).collect();
        if taken.len() < max && waiting.untold > 0 {
            taken.push(untold_text(std::mem::take(&mut waiting.untold)));
        }
        drop(waiting);
        self.room.notify_waiters();
        taken
    }

    /// Lines do not wait any more; those that did are printed.
    pub fn release(&self) -> Result<()> {
        let mut waiting = self.lock();
        waiting.held = false;
        let mut printed = Ok(());
        // Under the lock, so that what is said now comes after what waited.
        for line in std::mem::take(&mut waiting.lines) {
            printed = printed.and(line.print());
        }
        if waiting.untold > 0 {
            say(&untold_text(std::mem::take(&mut waiting.untold)));
        }
        drop(waiting);
        self.room.notify_waiters();
        printed
    }
}

#[async_trait]
impl PrintOut for Mailbox {
    async fn print(&self, lines: &str, to_stderr: bool) -> Result<()> {
        self.rows(lines, to_stderr).await
    }
}

fn untold_text(count: usize) -> String {
    format!("[INFO] {count} more {} not shown.", if count == 1 { "notice is" } else { "notices are" })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn held_lines_keep_their_order_and_rows_wait_for_room() {
        let mailbox = Mailbox::new(true);
        mailbox.hold();
        mailbox.notice("first");
        let many: String = (0..LINES_MAX).map(|i| format!("{i}\n")).collect();
        let mut writing = Box::pin(mailbox.rows(&many, false));
        assert!(writing.as_mut().now_or_never().is_none(), "one line has no room");
        assert_eq!(mailbox.take(2), ["first", "0"]);
        assert!(writing.as_mut().now_or_never().is_some_and(|done| done.is_ok()));
        assert_eq!(mailbox.take(LINES_MAX).len(), LINES_MAX - 1);
    }

    #[test]
    fn notices_without_room_are_counted() {
        let mailbox = Mailbox::new(true);
        mailbox.hold();
        (0..LINES_MAX + 2).for_each(|i| mailbox.notice(&i.to_string()));
        let taken = mailbox.take(LINES_MAX + 1);
        assert_eq!(taken.last().map(String::as_str), Some("[INFO] 2 more notices are not shown."));
        assert_eq!(taken.len(), LINES_MAX + 1);
    }
}
