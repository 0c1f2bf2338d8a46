//! Text as it is typed: cut into pieces that cover all of it, whatever is unfinished or wrong.
//!
//! For colours and completion. The parser reads [`super::tokenize`], which stops at the first mistake;
//! this never stops, and its pieces joined are the text.

use super::cursor::Cursor;
use super::keywords;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// White space.
    Blank,
    /// A comment, or a hint's brackets.
    Comment,
    /// A word of the grammar.
    Keyword,
    /// Another word.
    Name,
    /// A name in backticks, perhaps without its end.
    Quoted,
    /// A string, perhaps without its end.
    String,
    /// A number.
    Number,
    /// An operator, a bracket, or a character that starts nothing.
    Punct,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// What.
    pub kind: PieceKind,
    /// The text.
    pub text: &'a str,
    /// Its first byte in the whole text.
    pub start: usize,
    /// False for a string, quoted name or comment that the text ends in.
    pub finished: bool,
}

impl Piece<'_> {
    /// The byte after its last.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is this word, in any case.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.kind, PieceKind::Keyword | PieceKind::Name) && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is this operator or bracket.
    pub fn is_punct(&self, punct: &str) -> bool {
        self.kind == PieceKind::Punct && self.text == punct
    }
}

/// The pieces of a text, in order and without gaps.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut cursor = Cursor::new(text, 1, 1);
    let mut out = Vec::new();
    while let Some(first) = cursor.peek() {
        let start = cursor.offset();
        let (kind, finished) = piece(&mut cursor, first);
        out.push(Piece { kind, text: cursor.since(start), start, finished });
    }
    out
}

fn piece(cursor: &mut Cursor<'_>, first: char) -> (PieceKind, bool) {
    if first.is_whitespace() {
        cursor.take_while(char::is_whitespace);
        return (PieceKind::Blank, true);
    }
    if cursor.starts_with("--") || cursor.starts_with("//") {
        cursor.take_while(|c| c != '\n' && c != '\r');
        return (PieceKind::Comment, true);
    }
    if cursor.starts_with("/*+") {
        cursor.advance(3);
        return (PieceKind::Comment, true);
    }
    if cursor.starts_with("*/") {
        cursor.advance(2);
        return (PieceKind::Comment, true);
    }
    if cursor.starts_with("/*") {
        return (PieceKind::Comment, comment(cursor));
    }
    match first {
        '\'' => (PieceKind::String, quoted(cursor, '\'', false)),
        '`' => (PieceKind::Quoted, quoted(cursor, '`', false)),
        '0'..='9' => {
            cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '.');
            (PieceKind::Number, true)
        }
        _ if first == '_' || first.is_alphabetic() => word(cursor),
        _ => {
            cursor.bump();
            (PieceKind::Punct, true)
        }
    }
}

fn comment(cursor: &mut Cursor<'_>) -> bool {
    cursor.advance(2);
    while !cursor.starts_with("*/") {
        if cursor.bump().is_none() {
            return false;
        }
    }
    cursor.advance(2);
    true
}

fn quoted(cursor: &mut Cursor<'_>, quote: char, escapes: bool) -> bool {
    cursor.bump();
    while let Some(c) = cursor.bump() {
        match c {
            '\\' if escapes => drop(cursor.bump()),
            _ if c != quote => {}
            _ if cursor.peek() == Some(quote) => drop(cursor.bump()),
            _ => return true,
        }
    }
    false
}

fn word(cursor: &mut Cursor<'_>) -> (PieceKind, bool) {
    let word = cursor.take_while(|c| c == '_' || c == '$' || c.is_alphanumeric());
    if cursor.peek() == Some('\'') && matches!(word, "e" | "E" | "x" | "X" | "n" | "N") {
        return (PieceKind::String, quoted(cursor, '\'', matches!(word, "e" | "E")));
    }
    let upper = word.to_ascii_uppercase();
    match keywords::is_reserved(&upper) || keywords::suggested().binary_search(&upper.as_str()).is_ok() {
        true => (PieceKind::Keyword, true),
        false => (PieceKind::Name, true),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PieceKind::*;
    use super::*;

    fn kinds(text: &str) -> Vec<(PieceKind, &str, bool)> {
        pieces(text).into_iter().filter(|p| p.kind != Blank).map(|p| (p.kind, p.text, p.finished)).collect()
    }

    #[test]
    fn every_kind_is_seen() {
        assert_eq!(
            kinds("select `a``b`, x1 from t -- c\nwhere u = E'\\'' + 1.5e3;"),
            [
                (Keyword, "select", true),
                (Quoted, "`a``b`", true),
                (Punct, ",", true),
                (Name, "x1", true),
                (Keyword, "from", true),
                (Name, "t", true),
                (Comment, "-- c", true),
                (Keyword, "where", true),
                (Name, "u", true),
                (Punct, "=", true),
                (String, "E'\\''", true),
                (Punct, "+", true),
                (Number, "1.5e3", true),
                (Punct, ";", true),
            ]
        );
    }

    #[test]
    fn what_is_unfinished_is_the_last_piece() {
        for (text, kind) in [("a 'b c", String), ("a `b", Quoted), ("a /* b", Comment), ("E'\\'", String)] {
            let last = pieces(text).last().copied().expect("a piece");
            assert_eq!((last.kind, last.finished), (kind, false), "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_joined_are_the_text(text in "[-a-zE'`/*+;. \\n\\\\0-9é(]{0,40}") {
            let joined: std::string::String = pieces(&text).iter().map(|p| p.text).collect();
            prop_assert_eq!(joined, text);
        }
    }
}
