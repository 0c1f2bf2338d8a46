//! Hints and `WITH` options.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{Hint, Options};
use crate::lexer::Tok;

impl Parser<'_> {
    /// `/*+ name(...), ... */`, if one is next.
    pub(super) fn hints(&mut self) -> Result<Vec<Hint>> {
        if self.peek().tok != Tok::HintStart {
            return Ok(Vec::new());
        }
        self.bump();
        let mut hints = Vec::new();
        loop {
            hints.push(self.hint()?);
            self.eat(",");
            if self.peek().tok == Tok::HintEnd {
                self.bump();
                return Ok(hints);
            }
        }
    }

    fn hint(&mut self) -> Result<Hint> {
        let name = self.ident()?;
        let (mut options, mut items) = (Vec::new(), Vec::new());
        if self.eat("(") && !self.eat(")") {
            self.comma_list(|p| {
                let key = p.hint_word()?;
                match p.eat("=") {
                    true => options.push((key, p.hint_word()?)),
                    false => items.push(key),
                }
                Ok(())
            })?;
            self.expect(")")?;
        }
        Ok(Hint { name, options, items })
    }

    fn hint_word(&mut self) -> Result<String> {
        match &self.peek().tok {
            Tok::String(_) | Tok::UnicodeString(_) => self.string(),
            Tok::Integer(text) | Tok::Decimal(text) | Tok::Double(text) => {
                let text = text.clone();
                self.bump();
                Ok(text)
            }
            _ => self.object_name().map(|n| n.to_string()),
        }
    }

    /// `('key' = 'value', ...)`.
    pub(super) fn options(&mut self) -> Result<Options> {
        self.expect("(")?;
        if self.eat(")") {
            return Ok(Vec::new());
        }
        let options = self.comma_list(|p| {
            let key = p.string()?;
            p.expect("=")?;
            Ok((key, p.string()?))
        })?;
        self.expect(")")?;
        Ok(options)
    }

    /// `WITH ('key' = 'value', ...)`, if one is next.
    pub(super) fn with_options(&mut self) -> Result<Options> {
        if self.eat_word("WITH") { self.options() } else { Ok(Vec::new()) }
    }

    /// `COMMENT 'text'`, if one is next.
    pub(super) fn comment(&mut self) -> Result<Option<String>> {
        if self.eat_word("COMMENT") { self.string().map(Some) } else { Ok(None) }
    }
}
