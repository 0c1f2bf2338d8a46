//! A full-screen view of a running SELECT: what it shows, and what keys do to it.
//!
//! Nothing here touches a terminal. [`View`] is plain state; [`View::key`] changes it, [`render::lines`] turns it into
//! lines of text for a width and height. The loop that reads keys and writes lines is in `screen`.

pub mod render;
pub mod rows;
pub mod screen;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use rows::Rows;

/// How often a view is drawn anew while rows come, in milliseconds; `None` is only when `r` is pressed.
const REFRESH_MS: [Option<u64>; 8] =
    [None, Some(50), Some(100), Some(500), Some(1000), Some(5000), Some(10_000), Some(60_000)];
/// The place of Flink's default, a second, in [`REFRESH_MS`].
const REFRESH_AT_FIRST: usize = 4;

/// What a view is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// `sql-client.execution.result-mode` = `table`.
    Table,
    /// `changelog`.
    Changelog,
}

/// How the query is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs.
    Running,
    /// It has ended by itself.
    Finished,
    /// It has failed, for this reason.
    Failed(String),
}

/// What a view shows and where it stands.
#[derive(Debug)]
pub struct View {
    /// Table or changelog.
    pub mode: ViewMode,
    /// Column names.
    pub names: Vec<String>,
    /// The widest each column may be.
    pub widths_max: Vec<usize>,
    /// The rows.
    pub rows: Rows,
    /// How the query is doing.
    pub progress: Progress,
    /// First row on the screen, from 0.
    top: usize,
    /// The row the user looks at.
    cursor: usize,
    /// The last page is shown, whatever comes.
    follows: bool,
    /// First column on the screen.
    left: usize,
    /// Position in [`REFRESH_MS`].
    refresh: usize,
    /// One row fills the screen, from this line of it on.
    opened: Option<usize>,
}

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing changed.
    Wait,
    /// Draw anew.
    Draw,
    /// Close the view; a query that still runs is cancelled.
    Quit,
}

impl View {
    /// A view before its first row.
    pub fn new(mode: ViewMode, names: Vec<String>, widths_max: Vec<usize>, rows_max: usize) -> View {
        let rows = match mode {
            ViewMode::Table => Rows::table(rows_max),
            ViewMode::Changelog => Rows::changelog(rows_max),
        };
        View {
            mode,
            names,
            widths_max,
            rows,
            progress: Progress::Running,
            top: 0,
            cursor: 0,
            follows: mode == ViewMode::Changelog,
            left: 0,
            refresh: REFRESH_AT_FIRST,
            opened: None,
        }
    }

    /// Milliseconds between two drawings while rows come.
    pub fn refresh_ms(&self) -> Option<u64> {
        REFRESH_MS[self.refresh]
    }

    /// First row on the screen and the row under the cursor, where `page` rows fit.
    fn position(&self, page: usize) -> (usize, usize) {
        let last = self.rows.len().saturating_sub(1);
        if self.follows {
            return (self.rows.len().saturating_sub(page), last);
        }
        let cursor = self.cursor.min(last);
        let lowest = cursor.saturating_sub(page.saturating_sub(1));
        (self.top.clamp(lowest, cursor), cursor)
    }

    /// What a key does, on a screen of this height.
    pub fn key(&mut self, key: KeyEvent, height: usize) -> Next {
        let page = render::page_rows(height);
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Next::Quit,
                KeyCode::Char('l') => Next::Draw,
                _ => Next::Wait,
            };
        }
        if self.opened.is_some() {
            return self.key_of_row(key.code, page);
        }
        let (top, cursor) = self.position(page);
        match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('n' | 'N' | ' ') | KeyCode::PageDown => self.go(top + page, cursor + page, page),
            KeyCode::Char('p' | 'P') | KeyCode::PageUp => {
                self.go(top.saturating_sub(page), cursor.saturating_sub(page), page);
            }
            KeyCode::Down | KeyCode::Char('j') => self.go(top, cursor + 1, page),
            KeyCode::Up | KeyCode::Char('k') => self.go(top, cursor.saturating_sub(1), page),
            KeyCode::Char('g') | KeyCode::Home => self.go(0, 0, page),
            KeyCode::Char('G' | 'l' | 'L') | KeyCode::End => self.follows = true,
            KeyCode::Right => self.left = (self.left + 1).min(self.names.len().saturating_sub(1)),
            KeyCode::Left => self.left = self.left.saturating_sub(1),
            KeyCode::Char('+') => self.refresh = (self.refresh + 1).min(REFRESH_MS.len() - 1),
            KeyCode::Char('-') => self.refresh = self.refresh.saturating_sub(1),
            KeyCode::Char('r' | 'R') => {}
            KeyCode::Enter | KeyCode::Char('o' | 'O') if self.rows.len() > 0 => {
                self.go(top, cursor, page);
                self.opened = Some(0);
            }
            _ => return Next::Wait,
        }
        Next::Draw
    }

    /// Keys while one row fills the screen.
    fn key_of_row(&mut self, code: KeyCode, page: usize) -> Next {
        let line = self.opened.unwrap_or(0);
        self.opened = match code {
            KeyCode::Char('q' | 'Q' | 'o' | 'O') | KeyCode::Esc | KeyCode::Enter => None,
            KeyCode::Down | KeyCode::Char('j') => Some(line + 1),
            KeyCode::Up | KeyCode::Char('k') => Some(line.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char('n' | ' ') => Some(line + page),
            KeyCode::PageUp | KeyCode::Char('p') => Some(line.saturating_sub(page)),
            KeyCode::Char('g') | KeyCode::Home => Some(0),
            _ => return Next::Wait,
        };
        Next::Draw
    }

    /// Goes to a row. Nobody who moves wants to follow the end any more.
    fn go(&mut self, top: usize, cursor: usize, page: usize) {
        self.follows = false;
        self.cursor = cursor.min(self.rows.len().saturating_sub(1));
        self.top = top.min(self.rows.len().saturating_sub(page));
        (self.top, self.cursor) = self.position(page);
    }
}
