//! Text to tokens, by Calcite's `Lex.JAVA`.
//!
//! Names are case-sensitive and quoted with backticks; keywords are not. A token keeps its place in
//! the script, so that every later message can point at it. A character that starts no token does
//! not fail the lexer: it becomes a [`Tok::Invalid`] token, and the parser reports it only if it gets
//! there, because a message about an earlier mistake is the better one.

pub(crate) mod cursor;
pub mod keywords;
pub mod pieces;

use crate::ast::Span;
use cursor::Cursor;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// An unquoted word, as written.
    Word(String),
    /// A name in backticks, unescaped.
    Quoted(String),
    /// A string, unescaped.
    String(String),
    /// `U&'..'`: its text, still with its escapes, for `UESCAPE` comes after it.
    UnicodeString(String),
    /// `x'CAFE'`.
    Binary(Vec<u8>),
    /// Digits.
    Integer(String),
    /// Digits with a point.
    Decimal(String),
    /// With an exponent.
    Double(String),
    /// An operator or a bracket.
    Punct(&'static str),
    /// `/*+`.
    HintStart,
    /// `*/` of a hint.
    HintEnd,
    /// Not a token: the message.
    Invalid(String),
    /// The end.
    Eof,
}

/// A token with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// What.
    pub tok: Tok,
    /// Where in the script.
    pub span: Span,
    /// First byte in the statement's text.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

/// Operators, longest first.
const PUNCT: [&str; 31] = [
    "{-", "-}", "<>", "<=", ">=", "||", "=>", "->", "(", ")", "[", "]", "{", "}", ",", ";", ".", "=", "<", ">", "+",
    "-", "*", "/", "%", "|", "^", "$", "?", ":", "&",
];

/// Operators that other dialects have and Flink's conformance level refuses.
const REFUSED: [(&str, &str); 3] = [
    ("!=", "Bang equal '!=' is not allowed under the current SQL conformance level"),
    ("==", "Encountered \"=\""),
    ("::", "Encountered \":\""),
];

/// All tokens of a statement that starts at this line and column; the last one is [`Tok::Eof`] or
/// [`Tok::Invalid`].
pub fn tokenize(text: &str, line: u32, column: u32) -> Vec<Token> {
    let mut cursor = Cursor::new(text, line, column);
    let mut tokens = Vec::new();
    let mut in_hint = false;
    loop {
        if let Err((message, span)) = cursor.skip_blank(in_hint) {
            let at = cursor.offset();
            tokens.push(Token { tok: Tok::Invalid(message), span, start: at, end: at });
            return tokens;
        }
        let start = cursor.offset();
        let from = cursor.position();
        let tok = next_token(&mut cursor, &mut in_hint);
        let (line, column) = from;
        let (end_line, end_column) = cursor.last_position(from);
        let span = Span { line, column, end_line, end_column };
        let last = matches!(tok, Tok::Eof | Tok::Invalid(_));
        tokens.push(Token { tok, span, start, end: cursor.offset() });
        if last {
            return tokens;
        }
    }
}

fn next_token(cursor: &mut Cursor<'_>, in_hint: &mut bool) -> Tok {
    let Some(c) = cursor.peek() else { return Tok::Eof };
    if cursor.starts_with("/*+") {
        cursor.advance(3);
        *in_hint = true;
        return Tok::HintStart;
    }
    if *in_hint && cursor.starts_with("*/") {
        cursor.advance(2);
        *in_hint = false;
        return Tok::HintEnd;
    }
    match c {
        '`' => quoted_name(cursor),
        '\'' => string(cursor),
        '0'..='9' => number(cursor),
        '.' if cursor.peek_at(1).is_some_and(|d| d.is_ascii_digit()) => number(cursor),
        _ if is_name_start(c) => word(cursor),
        _ => punct(cursor, c),
    }
}

fn punct(cursor: &mut Cursor<'_>, c: char) -> Tok {
    for (op, message) in REFUSED {
        if cursor.starts_with(op) {
            let (line, column) = cursor.position();
            return Tok::Invalid(match op {
                "!=" => format!("From line {line}, column {column} to line {line}, column {}: {message}", column + 1),
                _ => format!("{message} at line {line}, column {}.", column + 1),
            });
        }
    }
    if let Some(op) = PUNCT.iter().find(|op| cursor.starts_with(op)) {
        cursor.advance(op.len());
        return Tok::Punct(op);
    }
    Tok::Invalid(lexical_error(cursor, c))
}

fn lexical_error(cursor: &Cursor<'_>, c: char) -> String {
    let (line, column) = cursor.position();
    let shown = if c == '"' { "\\\"".to_string() } else { c.to_string() };
    let hint = match c {
        '"' => " Names are quoted with backticks, strings with single quotes.",
        _ => "",
    };
    format!(
        "Lexical error at line {line}, column {column}.  Encountered: \"{shown}\" ({}), after : \"\".{hint}",
        u32::from(c)
    )
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_part(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphanumeric()
}

fn unterminated(cursor: &Cursor<'_>, what: &str, from: (u32, u32)) -> Tok {
    let _ = cursor;
    Tok::Invalid(format!("{what} that starts at line {}, column {} does not end.", from.0, from.1))
}

/// The text between two `quote`s, where a doubled one stands for itself. The cursor is at the first.
fn between(cursor: &mut Cursor<'_>, quote: char) -> Option<String> {
    cursor.bump();
    let mut out = String::new();
    while let Some(c) = cursor.bump() {
        if c != quote {
            out.push(c);
        } else if cursor.peek() == Some(quote) {
            cursor.bump();
            out.push(quote);
        } else {
            return Some(out);
        }
    }
    None
}

fn quoted_name(cursor: &mut Cursor<'_>) -> Tok {
    let from = cursor.position();
    match between(cursor, '`') {
        Some(name) if name.is_empty() => {
            Tok::Invalid(format!("Encountered \"``\" at line {}, column {}: a name is not empty.", from.0, from.1))
        }
        Some(name) => Tok::Quoted(name),
        None => unterminated(cursor, "The quoted name", from),
    }
}

fn string(cursor: &mut Cursor<'_>) -> Tok {
    let from = cursor.position();
    match between(cursor, '\'') {
        Some(text) => Tok::String(text),
        None => unterminated(cursor, "The string", from),
    }
}

fn word(cursor: &mut Cursor<'_>) -> Tok {
    let from = cursor.position();
    let text = cursor.take_while(is_name_part);
    let unicode = (text == "U" || text == "u") && cursor.starts_with("&'");
    if unicode {
        cursor.bump();
    }
    if cursor.peek() != Some('\'') {
        return match text.chars().count() {
            0..=256 => Tok::Word(text.to_string()),
            _ => Tok::Invalid(format!("Length of identifier '{text}' must be less than or equal to 256 characters")),
        };
    }
    match text {
        "U" | "u" if unicode => match string(cursor) {
            Tok::String(raw) => Tok::UnicodeString(raw),
            other => other,
        },
        "X" | "x" => binary(cursor, from),
        "E" | "e" => c_string(cursor, from),
        "N" | "n" => string(cursor),
        _ if text.starts_with('_') => string(cursor),
        _ => Tok::Word(text.to_string()),
    }
}

fn binary(cursor: &mut Cursor<'_>, from: (u32, u32)) -> Tok {
    let Some(digits) = between(cursor, '\'') else { return unterminated(cursor, "The string", from) };
    match hex::decode(&digits) {
        Ok(bytes) => Tok::Binary(bytes),
        Err(hex::FromHexError::OddLength) => Tok::Invalid(format!(
            "At line {}, column {}: Binary literal string must contain an even number of hexits",
            from.0, from.1
        )),
        Err(_) => Tok::Invalid(format!(
            "At line {}, column {}: Binary literal string must contain only characters '0' - '9', 'A' - 'F'",
            from.0, from.1
        )),
    }
}

/// `E'a\nb'`: the escapes of C.
fn c_string(cursor: &mut Cursor<'_>, from: (u32, u32)) -> Tok {
    cursor.bump();
    let mut out = String::new();
    while let Some(c) = cursor.bump() {
        match c {
            '\'' if cursor.peek() == Some('\'') => {
                cursor.bump();
                out.push('\'');
            }
            '\'' => return Tok::String(out),
            '\\' => match c_escape(cursor) {
                Some(c) => out.push(c),
                None => {
                    let (line, column) = cursor.position();
                    return Tok::Invalid(format!("Invalid escape sequence before line {line}, column {column}."));
                }
            },
            c => out.push(c),
        }
    }
    unterminated(cursor, "The string", from)
}

fn c_escape(cursor: &mut Cursor<'_>) -> Option<char> {
    let c = cursor.bump()?;
    Some(match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'x' => return code(cursor, 16, 1, 2),
        'u' => return code(cursor, 16, 4, 4),
        'U' => return code(cursor, 16, 8, 8),
        '0'..='7' => {
            let mut value = c.to_digit(8)?;
            for _ in 0..2 {
                let Some(d) = cursor.peek().and_then(|d| d.to_digit(8)) else { break };
                cursor.bump();
                value = value * 8 + d;
            }
            return char::from_u32(value);
        }
        c => c,
    })
}

fn code(cursor: &mut Cursor<'_>, radix: u32, least: usize, most: usize) -> Option<char> {
    let mut value: u32 = 0;
    let mut count = 0;
    while count < most {
        let Some(d) = cursor.peek().and_then(|d| d.to_digit(radix)) else { break };
        cursor.bump();
        value = value.checked_mul(radix)?.checked_add(d)?;
        count += 1;
    }
    if count < least { None } else { char::from_u32(value) }
}

fn number(cursor: &mut Cursor<'_>) -> Tok {
    let start = cursor.offset();
    cursor.take_while(|c| c.is_ascii_digit());
    let mut decimal = false;
    if cursor.peek() == Some('.') {
        decimal = true;
        cursor.bump();
        cursor.take_while(|c| c.is_ascii_digit());
    }
    let mut double = false;
    if matches!(cursor.peek(), Some('e' | 'E')) {
        let signed = matches!(cursor.peek_at(1), Some('+' | '-'));
        let digit = cursor.peek_at(if signed { 2 } else { 1 });
        if digit.is_some_and(|d| d.is_ascii_digit()) {
            double = true;
            cursor.advance(if signed { 2 } else { 1 });
            cursor.take_while(|c| c.is_ascii_digit());
        }
    }
    let text = cursor.since(start).to_string();
    match (double, decimal) {
        (true, _) => Tok::Double(text),
        (false, true) => Tok::Decimal(text),
        (false, false) => Tok::Integer(text),
    }
}

/// Decodes the escapes of `U&'..'`: `\XXXX`, `\+XXXXXX` and the doubled escape character.
pub fn unescape_unicode(raw: &str, escape: char) -> Result<String, String> {
    let mut out = String::new();
    let mut units: Vec<u16> = Vec::new();
    let mut chars = raw.chars().peekable();
    let flush = |units: &mut Vec<u16>, out: &mut String| {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    };
    while let Some(c) = chars.next() {
        if c != escape {
            flush(&mut units, &mut out);
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&escape) {
            chars.next();
            flush(&mut units, &mut out);
            out.push(escape);
            continue;
        }
        let digits: String = chars.by_ref().take(4).collect();
        match u16::from_str_radix(&digits, 16) {
            Ok(unit) if digits.len() == 4 => units.push(unit),
            _ => {
                return Err(format!(
                    "Unicode escape sequence starting at character {} is not exactly four hex digits",
                    raw.find(&digits).unwrap_or(0)
                ));
            }
        }
    }
    flush(&mut units, &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests;
