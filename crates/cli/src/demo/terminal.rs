//! The terminal while the live view has it: taken, drawn on, and given back whatever happens.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, queue};
use tidegate_api::{Error, Result};

use super::text::Line;

/// Whether the view has the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether colours are wanted on standard output.
pub fn colours() -> bool {
    // https://no-color.org: set, and not empty.
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !no_colour && !dumb
}

/// Whether a live view can be shown: keys come from a terminal, and the screen can be moved about on.
pub fn can_show() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
}

/// Waits until the terminal is closed. Without this the process would end at once, and the broker's data
/// stay behind.
#[cfg(unix)]
pub async fn hangup() {
    let hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup());
    if let Ok(mut hangup) = hangup
        && hangup.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Nothing tells that a console is closed.
#[cfg(not(unix))]
pub async fn hangup() {
    std::future::pending().await
}

/// The width to wrap text at.
pub fn text_width() -> usize {
    let width = crossterm::terminal::size().map_or(100, |(width, _)| usize::from(width));
    if io::stdout().is_terminal() { width.clamp(20, 110) } else { 100 }
}

/// The terminal, until it is dropped.
pub struct Screen {
    colours: bool,
    drawn: Vec<u8>,
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The end.
    Quit,
    /// The end, by Ctrl-C.
    Interrupt,
    /// To see the script, or the picture again.
    Script,
    /// To see everything anew: the window has another size.
    Redraw,
}

impl Screen {
    /// Takes the terminal. A panic from here on gives it back before it is told.
    pub fn enter(colours: bool) -> Result<Screen> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode().map_err(broken)?;
        TAKEN.store(true, Ordering::SeqCst);
        let screen = Screen { colours, drawn: Vec::new() };
        let mut out = io::stdout().lock();
        queue!(out, EnterAlternateScreen, cursor::Hide, DisableLineWrap).and_then(|()| out.flush()).map_err(broken)?;
        Ok(screen)
    }

    /// Its width and height.
    pub fn size(&self) -> (usize, usize) {
        let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
        (usize::from(width), usize::from(height))
    }

    /// Shows these lines and nothing else.
    pub fn show(&mut self, lines: &[Line]) -> Result<()> {
        let mut frame: Vec<u8> = Vec::new();
        let (width, _) = self.size();
        for (row, line) in lines.iter().enumerate() {
            queue!(frame, cursor::MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX))).map_err(broken)?;
            frame.extend_from_slice(line.paint(self.colours).as_bytes());
            // Behind a full line the cursor stands on its last character, which must stay.
            if line.width() < width {
                queue!(frame, Clear(ClearType::UntilNewLine)).map_err(broken)?;
            }
        }
        if frame == self.drawn {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        // Every view fills its screen; only what another size has left behind has to go.
        if self.drawn.is_empty() {
            queue!(out, Clear(ClearType::All)).map_err(broken)?;
        }
        out.write_all(&frame).and_then(|()| out.flush()).map_err(broken)?;
        self.drawn = frame;
        Ok(())
    }

    /// Waits for a key, or until the next frame is due.
    pub fn wait(&mut self, frame: Duration) -> Result<Option<Wish>> {
        if !poll(frame).map_err(broken)? {
            return Ok(None);
        }
        Ok(match read().map_err(broken)? {
            Event::Key(key) => wish(key),
            Event::Resize(..) => {
                self.drawn.clear();
                Some(Wish::Redraw)
            }
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c' | 'C') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Interrupt),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('s' | 'S') => Some(Wish::Script),
        _ => None,
    }
}

/// Gives the terminal back, once. If that fails there is nobody left to tell.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout().lock();
        let _ = queue!(out, EnableLineWrap, cursor::Show, LeaveAlternateScreen).and_then(|()| out.flush());
        let _ = disable_raw_mode();
    }
}

fn broken(e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::BrokenPipe => Error::output_closed(),
        _ => Error::job(format!("Cannot use the terminal: {e}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_wishes() {
        let key = |code, modifiers| wish(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Interrupt));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('s'), KeyModifiers::NONE), Some(Wish::Script));
    }
}
