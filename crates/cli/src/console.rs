//! What the process says to its user: results on standard output, all else on standard error.
//!
//! Progress lines, if there are any, are taken away while something is written and drawn again below it.
//! A stream whose reader has gone is never a reason to panic.

use std::io::{self, IsTerminal, Write};

use indicatif::MultiProgress;
use tidegate_api::{Error, Result};

/// The two streams, shared by all who write.
#[derive(Clone)]
pub struct Console {
    quiet: bool,
    lines: MultiProgress,
}

impl Console {
    /// A console; a quiet one drops notices and shows no progress.
    pub fn new(quiet: bool) -> Console {
        Console { quiet, lines: MultiProgress::new() }
    }

    /// A line worth knowing, on standard error unless quiet.
    pub fn notice(&self, text: &str) {
        if !self.quiet {
            self.lines.suspend(|| say(text));
        }
    }

    /// Text of a result, on standard output.
    pub fn out(&self, text: &str) -> Result<()> {
        self.lines.suspend(|| print_out(text))
    }

    /// Where progress lines go, if it makes sense to show any.
    pub fn progress_lines(&self) -> Option<&MultiProgress> {
        (!self.quiet && io::stderr().is_terminal()).then_some(&self.lines)
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
