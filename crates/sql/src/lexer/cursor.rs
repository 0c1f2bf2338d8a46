//! Characters with their line and column.

use crate::ast::Span;

/// Walks a text and counts lines and columns, both from 1, in characters.
pub struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    line: u32,
    column: u32,
    last: (u32, u32),
}

impl<'a> Cursor<'a> {
    /// At the start of `text`, which is at this place of the script.
    pub fn new(text: &'a str, line: u32, column: u32) -> Self {
        Cursor { text, offset: 0, line, column, last: (line, column) }
    }

    /// Byte offset.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Line and column of the next character.
    pub fn position(&self) -> (u32, u32) {
        (self.line, self.column)
    }

    /// Line and column of the character read last, or `from` if none was read since.
    pub fn last_position(&self, from: (u32, u32)) -> (u32, u32) {
        self.last.max(from)
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.text[self.offset..].chars().next()
    }

    /// The character `n` after the next one.
    pub fn peek_at(&self, n: usize) -> Option<char> {
        self.text[self.offset..].chars().nth(n)
    }

    /// Whether the rest starts with `prefix`.
    pub fn starts_with(&self, prefix: &str) -> bool {
        self.text[self.offset..].starts_with(prefix)
    }

    /// Reads a character.
    pub fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.offset += c.len_utf8();
        self.last = (self.line, self.column);
        if c == '\n' || (c == '\r' && self.peek() != Some('\n')) {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    /// Reads `n` characters.
    pub fn advance(&mut self, n: usize) {
        for _ in 0..n {
            self.bump();
        }
    }

    /// Reads while `keep` holds.
    pub fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let start = self.offset;
        while self.peek().is_some_and(&keep) {
            self.bump();
        }
        self.since(start)
    }

    /// The text from a byte offset to here.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.offset]
    }

    /// The text between two byte offsets.
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..end]
    }

    /// Skips white space and comments; in a hint `*/` is not skipped. Fails on a comment without end.
    pub fn skip_blank(&mut self, in_hint: bool) -> Result<(), (String, Span)> {
        loop {
            if self.peek().is_some_and(char::is_whitespace) {
                self.bump();
            } else if self.starts_with("--") || self.starts_with("//") {
                self.take_while(|c| c != '\n' && c != '\r');
            } else if self.starts_with("/*") && !self.starts_with("/*+") && !in_hint {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), (String, Span)> {
        let (line, column) = self.position();
        self.advance(2);
        while !self.starts_with("*/") {
            if self.bump().is_none() {
                let span = Span { line, column, end_line: line, end_column: column + 1 };
                return Err((format!("The comment that starts at line {line}, column {column} does not end."), span));
            }
        }
        self.advance(2);
        Ok(())
    }
}
