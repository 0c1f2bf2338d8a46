//! Functions and constructors with a syntax of their own.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{ExprKind, TimeUnit, TrimSide};

impl Parser<'_> {
    /// The construct that begins with this word, if it is one. `word` is in upper case.
    pub(super) fn special(&mut self, word: &str) -> Result<Option<ExprKind>> {
        let call = self.is_punct_at(1, "(");
        let list = self.is_punct_at(1, "[");
        let kind = match word {
            "CASE" => self.case()?,
            "ARRAY" if list => ExprKind::Array(self.list()?),
            "MULTISET" if list => ExprKind::Multiset(self.list()?),
            "MAP" if list => self.map()?,
            "EXISTS" | "UNIQUE" | "ARRAY" | "MAP" | "CAST" | "TRY_CAST" | "SAFE_CAST" | "ROW" | "DESCRIPTOR"
                if call =>
            {
                return self.constructor(word);
            }
            "EXTRACT" if call => self.extract()?,
            "FLOOR" | "CEIL" | "CEILING" if call => return self.round_to(word),
            "TIMESTAMPADD" | "TIMESTAMPDIFF" if call => self.timestamp_arithmetic(word)?,
            "TRIM" if call => self.trim()?,
            "SUBSTRING" if call => return self.substring(),
            "POSITION" if call => self.position()?,
            "OVERLAY" if call => self.overlay()?,
            "JSON_EXISTS" | "JSON_VALUE" | "JSON_QUERY" | "JSON_OBJECT" | "JSON_ARRAY" | "JSON_OBJECTAGG"
            | "JSON_ARRAYAGG"
                if call =>
            {
                ExprKind::Json(Box::new(self.json(word)?))
            }
            "NEXT" | "CURRENT" if self.is_word_at(1, "VALUE") && self.is_word_at(2, "FOR") => {
                self.pos += 3;
                ExprKind::Sequence(self.object_name()?)
            }
            "RUNNING" | "FINAL" => return self.semantic_call(),
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    fn semantic_call(&mut self) -> Result<Option<ExprKind>> {
        let Some(semantics) = self.match_semantics() else { return Ok(None) };
        match self.primary()?.kind {
            ExprKind::Function(mut f) => {
                f.match_semantics = Some(semantics);
                Ok(Some(ExprKind::Function(f)))
            }
            _ => Err(self.unexpected(&[])),
        }
    }

    fn constructor(&mut self, word: &str) -> Result<Option<ExprKind>> {
        if matches!(word, "ARRAY" | "MAP") && !self.starts_query_at(2) {
            return Ok(None);
        }
        let kind = match word {
            "DESCRIPTOR" => self.descriptor()?,
            "ROW" => {
                self.pos += 2;
                let fields = match self.is_punct(")") {
                    true => Vec::new(),
                    false => self.comma_list(Self::expr)?,
                };
                self.expect(")")?;
                ExprKind::Row { fields, explicit: true }
            }
            "CAST" | "TRY_CAST" | "SAFE_CAST" => {
                self.pos += 2;
                let expr = Box::new(self.expr()?);
                self.expect_word("AS")?;
                let ty = self.cast_type()?;
                self.expect(")")?;
                ExprKind::Cast { expr, ty, lenient: word != "CAST" }
            }
            _ => {
                self.pos += 2;
                let query = Box::new(self.query()?);
                self.expect(")")?;
                match word {
                    "EXISTS" => ExprKind::Exists(query),
                    "UNIQUE" => ExprKind::Unique(query),
                    "ARRAY" => ExprKind::ArrayQuery(query),
                    _ => ExprKind::MapQuery(query),
                }
            }
        };
        Ok(Some(kind))
    }

    fn case(&mut self) -> Result<ExprKind> {
        self.bump();
        let operand = match self.is_word("WHEN") {
            true => None,
            false => Some(Box::new(self.expr()?)),
        };
        let mut branches = Vec::new();
        while self.eat_word("WHEN") {
            let conditions = match operand {
                Some(_) => self.comma_list(Self::expr)?,
                None => vec![self.expr()?],
            };
            self.expect_word("THEN")?;
            branches.push((conditions, self.expr()?));
        }
        if branches.is_empty() {
            return Err(self.unexpected(&["WHEN"]));
        }
        let otherwise = match self.eat_word("ELSE") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        self.expect_word("END")?;
        Ok(ExprKind::Case { operand, branches, otherwise })
    }

    /// `[a, b, ...]` after its word.
    fn list(&mut self) -> Result<Vec<crate::ast::Expr>> {
        self.pos += 2;
        if self.eat("]") {
            return Ok(Vec::new());
        }
        let items = self.comma_list(Self::expr)?;
        self.expect("]")?;
        Ok(items)
    }

    fn map(&mut self) -> Result<ExprKind> {
        let start = self.span();
        let mut items = self.list()?.into_iter();
        let mut pairs = Vec::new();
        while let Some(key) = items.next() {
            let Some(value) = items.next() else {
                return self.fail(format_args!("{}: Map requires an even number of arguments", self.span_from(start)));
            };
            pairs.push((key, value));
        }
        Ok(ExprKind::Map(pairs))
    }

    fn unit(&mut self) -> Result<TimeUnit> {
        match TimeUnit::parse(&self.upper()) {
            Some(unit) => {
                self.bump();
                Ok(unit)
            }
            None => Err(self.unexpected(&[
                "YEAR",
                "QUARTER",
                "MONTH",
                "WEEK",
                "DAY",
                "DOW",
                "DOY",
                "HOUR",
                "MINUTE",
                "SECOND",
                "MILLISECOND",
                "EPOCH",
            ])),
        }
    }

    fn extract(&mut self) -> Result<ExprKind> {
        self.pos += 2;
        let unit = self.unit()?;
        self.expect_word("FROM")?;
        let expr = Box::new(self.expr()?);
        self.expect(")")?;
        Ok(ExprKind::Extract { unit, expr })
    }

    /// `FLOOR(e TO unit)`; without `TO` it is a plain call.
    fn round_to(&mut self, word: &str) -> Result<Option<ExprKind>> {
        let start = self.pos;
        self.pos += 2;
        let expr = Box::new(self.expr()?);
        if !self.eat_word("TO") {
            let mut args = vec![*expr];
            while self.eat(",") {
                args.push(self.expr()?);
            }
            self.expect(")")?;
            return self.plain_call(start, args).map(Some);
        }
        let unit = self.unit()?;
        self.expect(")")?;
        Ok(Some(ExprKind::RoundTo { ceil: word != "FLOOR", expr, unit }))
    }

    /// A call whose arguments are already read.
    fn plain_call(&mut self, start: usize, args: Vec<crate::ast::Expr>) -> Result<ExprKind> {
        let after = std::mem::replace(&mut self.pos, start);
        let name = self.any_word()?;
        self.pos = after;
        Ok(ExprKind::Function(Box::new(super::primary::call_of(name, args))))
    }

    fn timestamp_arithmetic(&mut self, word: &str) -> Result<ExprKind> {
        self.pos += 2;
        let unit = self.unit()?;
        self.expect(",")?;
        let first = Box::new(self.expr()?);
        self.expect(",")?;
        let second = Box::new(self.expr()?);
        self.expect(")")?;
        Ok(match word {
            "TIMESTAMPADD" => ExprKind::TimestampAdd { unit, count: first, expr: second },
            _ => ExprKind::TimestampDiff { unit, from: first, to: second },
        })
    }

    fn trim(&mut self) -> Result<ExprKind> {
        self.pos += 2;
        let side = match self.upper().as_str() {
            "BOTH" => Some(TrimSide::Both),
            "LEADING" => Some(TrimSide::Leading),
            "TRAILING" => Some(TrimSide::Trailing),
            _ => None,
        };
        if side.is_some() {
            self.bump();
        }
        let mut chars = None;
        let expr = if side.is_some() && self.eat_word("FROM") {
            self.expr()?
        } else {
            let first = self.expr()?;
            if self.eat_word("FROM") {
                chars = Some(Box::new(first));
                self.expr()?
            } else if side.is_none() {
                first
            } else {
                return Err(self.unexpected(&["FROM"]));
            }
        };
        self.expect(")")?;
        Ok(ExprKind::Trim { side: side.unwrap_or(TrimSide::Both), chars, expr: Box::new(expr) })
    }

    /// `SUBSTRING(s FROM a FOR b)`; with commas it is a plain call.
    fn substring(&mut self) -> Result<Option<ExprKind>> {
        let start = self.pos;
        self.pos += 2;
        let expr = self.expr()?;
        if self.eat_word("FROM") {
            let from = Box::new(self.expr()?);
            let length = match self.eat_word("FOR") {
                true => Some(Box::new(self.expr()?)),
                false => None,
            };
            self.expect(")")?;
            return Ok(Some(ExprKind::Substring { expr: Box::new(expr), start: from, length }));
        }
        let mut args = vec![expr];
        while self.eat(",") {
            args.push(self.expr()?);
        }
        self.expect(")")?;
        self.plain_call(start, args).map(Some)
    }

    fn position(&mut self) -> Result<ExprKind> {
        self.pos += 2;
        // `IN` is the function's, so the needle must bind tighter than the operator.
        let needle = Box::new(self.tight_expr()?);
        self.expect_word("IN")?;
        let expr = Box::new(self.expr()?);
        let start = match self.eat_word("FROM") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        self.expect(")")?;
        Ok(ExprKind::Position { needle, expr, start })
    }

    fn overlay(&mut self) -> Result<ExprKind> {
        self.pos += 2;
        let expr = Box::new(self.expr()?);
        self.expect_word("PLACING")?;
        let placing = Box::new(self.expr()?);
        self.expect_word("FROM")?;
        let start = Box::new(self.expr()?);
        let length = match self.eat_word("FOR") {
            true => Some(Box::new(self.expr()?)),
            false => None,
        };
        self.expect(")")?;
        Ok(ExprKind::Overlay { expr, placing, start, length })
    }
}
