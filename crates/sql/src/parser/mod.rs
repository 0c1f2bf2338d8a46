//! Tokens to tree: recursive descent, with precedence climbing for expressions.
//!
//! The grammar is the one Flink 2.3 accepts. What Tidegate does not run is parsed all the same and
//! refused later by name. Messages have Flink's shape, with places that count from the start of the
//! script. No input overflows the stack: nesting and the length of operator chains are bounded,
//! because whoever walks the tree recurses over both.

mod alter;
mod ddl;
mod expr;
mod from;
mod hint;
mod json;
mod literal;
mod pattern;
mod primary;
mod query;
mod show;
mod special;
mod statement;
mod types;

use tidegate_api::{Error, Result};

use crate::ast::{Ident, ObjectName, Span, Statement};
use crate::lexer::{Tok, Token, keywords, tokenize};
use crate::script::ScriptStatement;

/// How deep expressions, queries and types may nest. A level costs up to 24 KiB of stack without
/// optimisation, and a thread has 2 MiB.
const MAX_DEPTH: usize = 64;
/// How many operators of one kind may follow each other: `a + b + ...`, `q UNION q ...`.
const MAX_CHAIN: usize = 512;

/// Parses one statement.
pub fn parse_statement(statement: &ScriptStatement) -> Result<Statement> {
    let mut parser = Parser::new(&statement.text, statement.line, statement.column);
    let parsed = parser.statement()?;
    parser.end()?;
    Ok(parsed)
}

/// Parses the text of an expression, such as a computed column kept in the catalog.
pub fn parse_expression(text: &str) -> Result<crate::ast::Expr> {
    let mut parser = Parser::new(text, 1, 1);
    let parsed = parser.expr()?;
    parser.end()?;
    Ok(parsed)
}

/// Parses the text of a query, such as a view's.
pub fn parse_query(text: &str) -> Result<crate::ast::Query> {
    let mut parser = Parser::new(text, 1, 1);
    let parsed = parser.query()?;
    parser.end()?;
    Ok(parsed)
}

/// Parses the text of a type.
pub fn parse_type(text: &str) -> Result<crate::ast::DataType> {
    let mut parser = Parser::new(text, 1, 1);
    let parsed = parser.data_type()?;
    parser.end()?;
    Ok(parsed)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    pos: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, line: u32, column: u32) -> Self {
        Parser { text, tokens: tokenize(text, line, column), pos: 0, depth: 0 }
    }

    // ---- looking ----

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token `n` after the next one; the last token repeats for ever.
    fn peek_at(&self, n: usize) -> &Token {
        &self.tokens[(self.pos + n).min(self.tokens.len() - 1)]
    }

    fn span(&self) -> Span {
        self.peek().span
    }

    /// From `start` to the token read last.
    fn span_from(&self, start: Span) -> Span {
        if self.pos == 0 { start } else { start.to(self.tokens[self.pos - 1].span) }
    }

    /// The statement's text from the token at `start` to the one read last.
    fn text_from(&self, start: usize) -> String {
        let end = self.tokens[self.pos.saturating_sub(1)].end;
        self.text[self.tokens[start].start..end.max(self.tokens[start].start)].to_string()
    }

    fn is_word_at(&self, n: usize, word: &str) -> bool {
        matches!(&self.peek_at(n).tok, Tok::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    /// Whether these words follow.
    fn are_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, w)| self.is_word_at(i, w))
    }

    fn is_punct_at(&self, n: usize, punct: &str) -> bool {
        matches!(self.peek_at(n).tok, Tok::Punct(p) if p == punct)
    }

    fn is_punct(&self, punct: &str) -> bool {
        self.is_punct_at(0, punct)
    }

    /// The next token as a word in upper case; empty if it is none.
    fn upper_at(&self, n: usize) -> String {
        match &self.peek_at(n).tok {
            Tok::Word(w) => w.to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    fn upper(&self) -> String {
        self.upper_at(0)
    }

    // ---- taking ----

    fn bump(&mut self) -> Token {
        let token = self.peek().clone();
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
        token
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.eat_words(&[word])
    }

    /// Takes these words if all of them follow.
    fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = self.are_words(words);
        if found {
            self.pos += words.len();
        }
        found
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is_punct(punct);
        if found {
            self.pos += 1;
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&[word])) }
    }

    fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|w| self.expect_word(w))
    }

    fn expect(&mut self, punct: &str) -> Result<()> {
        if self.eat(punct) { Ok(()) } else { Err(self.unexpected(&[punct])) }
    }

    /// The end of the statement, after any `;`.
    fn end(&mut self) -> Result<()> {
        while self.eat(";") {}
        match self.peek().tok {
            Tok::Eof => Ok(()),
            _ => Err(self.unexpected(&["<EOF>"])),
        }
    }

    // ---- errors ----

    fn fail<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        Err(Error::invalid(format!("SQL parse failed. {message}")))
    }

    /// The next token does not belong here.
    fn unexpected(&self, expected: &[&str]) -> Error {
        let token = self.peek();
        let Span { mut line, mut column, .. } = token.span;
        if let (Tok::Eof, Some(last)) = (&token.tok, self.pos.checked_sub(1).map(|i| self.tokens[i].span)) {
            // As Calcite counts: the end is where the last character is.
            (line, column) = (last.end_line, last.end_column);
        }
        let image = self.text.get(token.start..token.end).unwrap_or_default();
        let wants_name = expected.is_empty() || expected.contains(&"<IDENTIFIER>");
        let mut message = match &token.tok {
            Tok::Invalid(message) => return Error::invalid(format!("SQL parse failed. {message}")),
            Tok::Eof => format!("Encountered \"<EOF>\" at line {line}, column {column}."),
            Tok::Word(w) if wants_name && keywords::is_reserved(&w.to_ascii_uppercase()) => {
                format!("Incorrect syntax near the keyword '{w}' at line {line}, column {column}.")
            }
            _ => format!("Encountered \"{image}\" at line {line}, column {column}."),
        };
        for (i, word) in expected.iter().enumerate() {
            message.push_str(match (i, expected.len()) {
                (0, 1) => "\nWas expecting:\n    ",
                (0, _) => "\nWas expecting one of:\n    ",
                _ => "\n    ",
            });
            match word.starts_with('<') && word.len() > 1 && *word != "<=" && *word != "<>" {
                true => message.push_str(word),
                false => message.push_str(&format!("\"{word}\"")),
            }
            message.push_str(" ...");
        }
        Error::invalid(format!("SQL parse failed. {message}"))
    }

    /// Runs `f` one level deeper.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            let Span { line, column, .. } = self.span();
            return self.fail(format_args!(
                "Nesting deeper than {MAX_DEPTH} levels at line {line}, column {column} is not supported."
            ));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Checks the length of a chain of operators.
    fn chain(&self, length: usize) -> Result<()> {
        if length < MAX_CHAIN {
            return Ok(());
        }
        let Span { line, column, .. } = self.span();
        self.fail(format_args!(
            "A chain of more than {MAX_CHAIN} operators at line {line}, column {column} is not supported. \
             Put parts of it in parentheses, or use IN or VALUES."
        ))
    }

    // ---- names, lists ----

    /// Whether the token is a name: in backticks, or a word that is not reserved.
    fn is_name_at(&self, n: usize) -> bool {
        match &self.peek_at(n).tok {
            Tok::Quoted(_) => true,
            Tok::Word(w) => !keywords::is_reserved(&w.to_ascii_uppercase()),
            _ => false,
        }
    }

    fn ident(&mut self) -> Result<Ident> {
        if !self.is_name_at(0) {
            return Err(self.unexpected(&["<IDENTIFIER>", "<BACK_QUOTED_IDENTIFIER>"]));
        }
        self.any_word()
    }

    /// A name or any word, reserved or not.
    fn any_word(&mut self) -> Result<Ident> {
        let token = self.bump();
        match token.tok {
            Tok::Word(value) => Ok(Ident { value, span: token.span, quoted: false }),
            Tok::Quoted(value) => Ok(Ident { value, span: token.span, quoted: true }),
            _ => {
                self.pos = self.pos.saturating_sub(1);
                Err(self.unexpected(&["<IDENTIFIER>", "<BACK_QUOTED_IDENTIFIER>"]))
            }
        }
    }

    /// `[[catalog.]database.]object`.
    fn object_name(&mut self) -> Result<ObjectName> {
        let name = self.path()?;
        match name.parts.len() {
            0..=3 => Ok(name),
            n => self.fail(format_args!("{}: A name has at most three parts, but '{name}' has {n}.", name.span())),
        }
    }

    /// `a.b.c`, as long as it gets.
    fn path(&mut self) -> Result<ObjectName> {
        let mut parts = vec![self.ident()?];
        while self.eat(".") {
            parts.push(self.ident()?);
        }
        Ok(ObjectName { parts })
    }

    /// `item, item, ...`.
    fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = vec![item(self)?];
        while self.eat(",") {
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// `(item, item, ...)`.
    fn paren_list<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect("(")?;
        let out = self.comma_list(item)?;
        self.expect(")")?;
        Ok(out)
    }

    fn ident_list(&mut self) -> Result<Vec<Ident>> {
        self.paren_list(Self::ident)
    }

    fn uint(&mut self) -> Result<u32> {
        if let Tok::Integer(text) = &self.peek().tok
            && let Ok(n) = text.parse()
        {
            self.bump();
            return Ok(n);
        }
        Err(self.unexpected(&["<UNSIGNED_INTEGER_LITERAL>"]))
    }
}

#[cfg(test)]
mod tests;
