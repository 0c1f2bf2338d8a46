//! `MATCH_RECOGNIZE`.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{AfterMatch, MatchRecognize, Measure, Pattern, TableRef};
use crate::lexer::Tok;

impl Parser<'_> {
    /// `MATCH_RECOGNIZE ( ... )` on this input.
    pub(super) fn match_recognize(&mut self, input: TableRef) -> Result<MatchRecognize> {
        let start = self.span();
        self.bump();
        self.expect("(")?;
        let partition_by = match self.eat_words(&["PARTITION", "BY"]) {
            true => self.comma_list(Self::expr)?,
            false => Vec::new(),
        };
        let order_by = self.order_by()?;
        let measures = match self.eat_word("MEASURES") {
            true => self.comma_list(Self::measure)?,
            false => Vec::new(),
        };
        let all_rows = self.rows_per_match()?;
        let after_match = self.after_match()?;
        self.expect_word("PATTERN")?;
        self.expect("(")?;
        let anchor_start = self.eat("^");
        let pattern = self.alternation()?;
        let anchor_end = self.eat("$");
        self.expect(")")?;
        let within = if self.eat_word("WITHIN") { Some(self.expr()?) } else { None };
        let subsets = match self.eat_word("SUBSET") {
            true => self.comma_list(|p| {
                let name = p.ident()?;
                p.expect("=")?;
                Ok((name, p.ident_list()?))
            })?,
            false => Vec::new(),
        };
        self.expect_word("DEFINE")?;
        let defines = self.comma_list(|p| {
            let name = p.ident()?;
            p.expect_word("AS")?;
            Ok((name, p.expr()?))
        })?;
        self.expect(")")?;
        Ok(MatchRecognize {
            input,
            partition_by,
            order_by,
            measures,
            all_rows,
            after_match,
            pattern,
            anchors: (anchor_start, anchor_end),
            within,
            subsets,
            defines,
            span: self.span_from(start),
        })
    }

    fn measure(&mut self) -> Result<Measure> {
        let semantics = self.match_semantics();
        let expr = self.expr()?;
        self.expect_word("AS")?;
        Ok(Measure { expr, name: self.ident()?, semantics })
    }

    fn rows_per_match(&mut self) -> Result<Option<bool>> {
        if self.eat_words(&["ONE", "ROW", "PER", "MATCH"]) {
            return Ok(Some(false));
        }
        if self.eat_words(&["ALL", "ROWS", "PER", "MATCH"]) {
            return Ok(Some(true));
        }
        match self.is_word("ONE") || self.is_word("ALL") {
            true => {
                self.bump();
                Err(self.unexpected(&["ROW", "ROWS"]))
            }
            false => Ok(None),
        }
    }

    fn after_match(&mut self) -> Result<Option<AfterMatch>> {
        if !self.eat_words(&["AFTER", "MATCH"]) {
            return Ok(None);
        }
        self.expect_word("SKIP")?;
        if self.eat_words(&["PAST", "LAST", "ROW"]) {
            return Ok(Some(AfterMatch::SkipPastLastRow));
        }
        self.expect_word("TO")?;
        if self.eat_words(&["NEXT", "ROW"]) {
            return Ok(Some(AfterMatch::SkipToNextRow));
        }
        if self.is_word("FIRST") && self.is_name_at(1) {
            self.bump();
            return self.ident().map(|v| Some(AfterMatch::SkipToFirst(v)));
        }
        if self.is_word("LAST") && self.is_name_at(1) {
            self.bump();
        }
        self.ident().map(|v| Some(AfterMatch::SkipToLast(v)))
    }

    fn alternation(&mut self) -> Result<Pattern> {
        self.nested(|p| {
            let mut branches = vec![p.concatenation()?];
            while p.eat("|") {
                branches.push(p.concatenation()?);
            }
            Ok(one_or(branches, Pattern::Alternation))
        })
    }

    fn concatenation(&mut self) -> Result<Pattern> {
        let mut items = vec![self.factor()?];
        while self.is_name_at(0) || self.is_punct("(") || self.is_punct("{-") || self.is_word("PERMUTE") {
            items.push(self.factor()?);
        }
        Ok(one_or(items, Pattern::Concat))
    }

    fn factor(&mut self) -> Result<Pattern> {
        let pattern = if self.eat("(") {
            let inner = self.alternation()?;
            self.expect(")")?;
            Pattern::Group(Box::new(inner))
        } else if self.eat("{-") {
            let inner = self.alternation()?;
            self.expect("-}")?;
            Pattern::Exclude(Box::new(inner))
        } else if self.eat_word("PERMUTE") {
            self.expect("(")?;
            let parts = self.comma_list(Self::alternation)?;
            self.expect(")")?;
            Pattern::Permute(parts)
        } else {
            Pattern::Variable(self.ident()?)
        };
        self.quantified_pattern(pattern)
    }

    fn quantified_pattern(&mut self, pattern: Pattern) -> Result<Pattern> {
        let (min, max) = if self.eat("*") {
            (0, None)
        } else if self.eat("+") {
            (1, None)
        } else if self.eat("?") {
            (0, Some(1))
        } else if self.eat("{") {
            let min = match self.peek().tok {
                Tok::Integer(_) => Some(self.uint()?),
                _ => None,
            };
            let max = match self.eat(",") {
                true if matches!(self.peek().tok, Tok::Integer(_)) => Some(self.uint()?),
                true if min.is_none() => return Err(self.unexpected(&["<UNSIGNED_INTEGER_LITERAL>"])),
                true => None,
                false if min.is_none() => return Err(self.unexpected(&["<UNSIGNED_INTEGER_LITERAL>", ","])),
                false => min,
            };
            self.expect("}")?;
            (min.unwrap_or(0), max)
        } else {
            return Ok(pattern);
        };
        let reluctant = self.eat("?");
        Ok(Pattern::Quantified { pattern: Box::new(pattern), min, max, reluctant })
    }
}

/// The only one, or all of them together.
fn one_or(mut items: Vec<Pattern>, all: fn(Vec<Pattern>) -> Pattern) -> Pattern {
    match (items.len(), items.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            items.extend(last);
            all(items)
        }
    }
}
