//! The terminal, taken for a full-screen view and given back whatever happens.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, queue};
use tidegate_api::{Error, Result};

use super::view::render::{Line, Look};
use crate::tableau::display_width;

/// Whether a view has the terminal.
static FULL_SCREEN: AtomicBool = AtomicBool::new(false);

/// What the terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Statements can be edited on it: it can move its cursor.
    pub can_edit: bool,
    /// Standard output is the terminal too, so views can be shown.
    pub shows_output: bool,
    /// Colours are wanted.
    pub colours: bool,
}

impl Terminal {
    /// Looks at the standard streams, `TERM` and `NO_COLOR`. `None` if nobody types statements here.
    pub fn look() -> Option<Terminal> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        // https://no-color.org: set, and not empty.
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Some(Terminal { can_edit: !dumb, shows_output: io::stdout().is_terminal(), colours: !dumb && !no_colour })
    }
}

/// The whole terminal, until it is dropped.
pub struct FullScreen {
    colours: bool,
}

impl FullScreen {
    /// Takes the terminal.
    pub fn enter(colours: bool) -> Result<FullScreen> {
        enable_raw_mode().map_err(broken)?;
        FULL_SCREEN.store(true, Ordering::SeqCst);
        // From here on dropping it gives the terminal back, also if what follows fails.
        let screen = FullScreen { colours };
        let mut out = io::stdout().lock();
        queue!(out, EnterAlternateScreen, cursor::Hide, DisableLineWrap).and_then(|()| out.flush()).map_err(broken)?;
        Ok(screen)
    }

    /// Its width and height.
    pub fn size(&self) -> (usize, usize) {
        let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
        (usize::from(width), usize::from(height))
    }

    /// Shows these lines and nothing else, on a screen of this width and height.
    pub fn show(&self, lines: &[Line], (width, height): (usize, usize)) -> Result<()> {
        let mut frame: Vec<u8> = Vec::new();
        self.paint(&mut frame, lines, width, height).map_err(broken)?;
        let mut out = io::stdout().lock();
        out.write_all(&frame).and_then(|()| out.flush()).map_err(broken)
    }

    fn paint(&self, out: &mut Vec<u8>, lines: &[Line], width: usize, height: usize) -> io::Result<()> {
        for (row, line) in lines.iter().take(height).enumerate() {
            queue!(out, cursor::MoveTo(0, row as u16))?;
            match line.look {
                // Not colours: without them nobody would see where the rows end and which is looked at.
                Look::Bar | Look::Cursor => queue!(out, SetAttribute(Attribute::Reverse))?,
                Look::Head => queue!(out, SetAttribute(Attribute::Bold))?,
                Look::Added if self.colours => queue!(out, SetForegroundColor(Color::Green))?,
                Look::Removed if self.colours => queue!(out, SetForegroundColor(Color::Red))?,
                Look::Plain | Look::Added | Look::Removed => {}
            }
            queue!(out, Print(&line.text), SetAttribute(Attribute::Reset))?;
            if self.colours {
                queue!(out, ResetColor)?;
            }
            // After a full line the cursor is on its last character, which must stay.
            if display_width(&line.text) < width {
                queue!(out, Clear(ClearType::UntilNewLine))?;
            }
        }
        match lines.len() < height {
            true => queue!(out, cursor::MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown)),
            false => Ok(()),
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the full screen and raw mode. Nothing can be said if that fails: there is no other terminal.
fn give_back() {
    if FULL_SCREEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout().lock();
        let _ = queue!(out, EnableLineWrap, cursor::Show, LeaveAlternateScreen).and_then(|()| out.flush());
    }
    let _ = disable_raw_mode();
}

/// Clears the screen, for `CLEAR`.
pub fn clear() -> Result<()> {
    let mut out = io::stdout().lock();
    queue!(out, Clear(ClearType::All), cursor::MoveTo(0, 0)).and_then(|()| out.flush()).map_err(broken)
}

/// A panic of the client gives the terminal back before it is told, or nobody could read it.
pub fn restore_on_panic() {
    let client = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == client {
            give_back();
        }
        before(panic);
    }));
}

fn broken(e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::BrokenPipe => Error::output_closed(),
        _ => Error::job(format!("Cannot use the terminal: {e}.")),
    }
}
