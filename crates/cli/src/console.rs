//! What the process says to its user: results on standard output, all else on standard error.
//!
//! Progress lines, if there are any, are taken away while something is written and drawn again below it. While the
//! interactive client edits a statement or shows a full-screen view, the terminal is its: what jobs say then waits
//! in a [`Mailbox`]. A stream whose reader has gone is never a reason to panic.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::MultiProgress;
use tidegate_api::{Error, Result};

use crate::client::mailbox::Mailbox;
use crate::collect::{Screen, TableauScreen};

/// The two streams, shared by all who write.
#[derive(Clone)]
pub struct Console {
    quiet: bool,
    lines: MultiProgress,
    mailbox: Option<Arc<Mailbox>>,
    /// Where SELECTs are shown; `None` is a plain tableau.
    screen: Arc<Mutex<Option<Arc<dyn Screen>>>>,
}

impl Console {
    /// A console; a quiet one drops notices and shows no progress.
    pub fn new(quiet: bool) -> Console {
        Console { quiet, lines: MultiProgress::new(), mailbox: None, screen: Arc::default() }
    }

    /// A console whose notices wait in the mailbox while the client has the terminal to itself.
    pub fn interactive(quiet: bool, mailbox: Arc<Mailbox>) -> Console {
        Console { mailbox: Some(mailbox), ..Console::new(quiet) }
    }

    /// Where what is said may have to wait, in an interactive client.
    pub fn mailbox(&self) -> Option<&Arc<Mailbox>> {
        self.mailbox.as_ref()
    }

    /// A line worth knowing, on standard error unless quiet.
    pub fn notice(&self, text: &str) {
        match &self.mailbox {
            _ if self.quiet => {}
            // As Flink's client writes it.
            Some(mailbox) => match text.strip_prefix("warning: ") {
                Some(warning) => mailbox.notice(&format!("[WARNING] {warning}")),
                None => mailbox.notice(text),
            },
            None => self.lines.suspend(|| say(text)),
        }
    }

    /// Text of a result, on standard output.
    pub fn out(&self, text: &str) -> Result<()> {
        self.lines.suspend(|| print_out(text))
    }

    /// Where progress lines go, if it makes sense to show any.
    pub fn progress_lines(&self) -> Option<&MultiProgress> {
        (!self.quiet && self.mailbox.is_none() && io::stderr().is_terminal()).then_some(&self.lines)
    }

    /// Where the next SELECT is shown.
    pub fn screen(&self) -> Arc<dyn Screen> {
        let chosen = self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        chosen.unwrap_or_else(|| Arc::new(TableauScreen { console: self.clone(), clock: None }))
    }

    /// Shows the SELECTs that start from now on there; `None` is the plain tableau.
    pub fn show_on(&self, screen: Option<Arc<dyn Screen>>) {
        *self.screen.lock().unwrap_or_else(PoisonError::into_inner) = screen;
    }
}

/// One line on standard error.
pub fn say(text: &str) {
    // There is no other place to say that this failed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Text on standard output.
pub fn print_out(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Error::output_closed(),
        _ => Error::job(format!("Cannot write to standard output: {e}.")),
    })
}
