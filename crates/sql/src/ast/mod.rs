//! The syntax tree of Flink SQL, as written.
//!
//! The tree says what the script's author wrote and where: every node that a message may point at
//! carries a [`Span`]. Nothing here is resolved. Names are as typed (case-sensitive), function names
//! keep their letters and are compared without case, and what Tidegate cannot run is still parsed, so
//! that it is refused by name and not as a syntax error.

mod ddl;
mod expr;
mod query;
mod statement;
mod types;
mod visit;

pub use ddl::*;
pub use expr::*;
pub use query::*;
pub use statement::*;
pub use types::*;
pub use visit::visit;

use std::fmt;

/// A place in the script: from the first to the last character, 1-based and inclusive, as Flink's
/// messages count (`From line 1, column 8 to line 1, column 11`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// Line of the last character.
    pub end_line: u32,
    /// Column of the last character.
    pub end_column: u32,
}

impl Span {
    /// From the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { end_line: other.end_line, end_column: other.end_column, ..self }
    }
}

impl fmt::Display for Span {
    /// `From line 1, column 8 to line 1, column 11`, or `At line 1, column 8` for one character.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (self.line, self.column) == (self.end_line, self.end_column) {
            return write!(f, "At line {}, column {}", self.line, self.column);
        }
        write!(
            f,
            "From line {}, column {} to line {}, column {}",
            self.line, self.column, self.end_line, self.end_column
        )
    }
}

/// A name without its backticks.
#[derive(Clone, Debug, Eq)]
pub struct Ident {
    /// Case-sensitive text.
    pub value: String,
    /// Where.
    pub span: Span,
    /// Whether it was written in backticks.
    pub quoted: bool,
}

impl PartialEq for Ident {
    /// Two identifiers are equal if their texts are.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Ident {
    /// A name that was not in the script.
    pub fn synthetic(value: impl Into<String>) -> Ident {
        Ident { value: value.into(), span: Span::default(), quoted: true }
    }
}

impl fmt::Display for Ident {
    /// The bare text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

/// A name of one to three parts: `[[catalog.]database.]object`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// At least one part.
    pub parts: Vec<Ident>,
}

impl ObjectName {
    /// Where.
    pub fn span(&self) -> Span {
        match (self.parts.first(), self.parts.last()) {
            (Some(a), Some(b)) => a.span.to(b.span),
            _ => Span::default(),
        }
    }

    /// The last part.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", |p| p.value.as_str())
    }
}

impl fmt::Display for ObjectName {
    /// Parts joined by dots, without backticks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            f.write_str(&part.value)?;
        }
        Ok(())
    }
}

/// `('key' = 'value', ...)` in the order written.
pub type Options = Vec<(String, String)>;
