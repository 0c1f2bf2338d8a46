//! Constants.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{Expr, ExprKind, IntervalQualifier, Literal, Span, TimeUnit};
use crate::lexer::{Tok, unescape_unicode};

impl Parser<'_> {
    /// A string, with the parts that continue it on later lines.
    pub(super) fn string(&mut self) -> Result<String> {
        let mut out = match self.peek().tok.clone() {
            Tok::String(text) => {
                self.bump();
                text
            }
            Tok::UnicodeString(raw) => {
                self.bump();
                self.unicode_string(&raw)?
            }
            _ => return Err(self.unexpected(&["<QUOTED_STRING>"])),
        };
        while let Tok::String(more) = &self.peek().tok {
            let before = self.tokens[self.pos - 1].span;
            if self.span().line == before.end_line {
                break;
            }
            out.push_str(more);
            self.bump();
        }
        Ok(out)
    }

    fn unicode_string(&mut self, raw: &str) -> Result<String> {
        let mut escape = '\\';
        if self.eat_word("UESCAPE") {
            match &self.peek().tok {
                Tok::String(text) if text.chars().count() == 1 => escape = text.chars().next().unwrap_or('\\'),
                _ => return Err(self.unexpected(&["<QUOTED_STRING>"])),
            }
            self.bump();
        }
        unescape_unicode(raw, escape).or_else(|message| self.fail(message))
    }

    /// A constant, if one is next.
    pub(super) fn literal(&mut self) -> Result<Option<Literal>> {
        let Span { line, column, end_line, end_column } = self.span();
        let out_of_range = |text: &str| {
            tidegate_api::Error::invalid(format!(
                "SQL validation failed. From line {line}, column {column} to line {end_line}, column {end_column}: \
                 Numeric literal '{text}' out of range"
            ))
        };
        let found = match &self.peek().tok {
            Tok::String(_) | Tok::UnicodeString(_) => return self.string().map(|s| Some(Literal::String(s))),
            Tok::Binary(bytes) => Literal::Binary(bytes.clone()),
            Tok::Integer(text) => match text.parse::<i64>() {
                Ok(_) => Literal::Integer(text.clone()),
                Err(_) => return Err(out_of_range(text)),
            },
            Tok::Decimal(text) => Literal::Decimal(text.clone()),
            Tok::Double(text) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Literal::Double(text.clone()),
                _ => return Err(out_of_range(text)),
            },
            Tok::Word(_) => match self.upper().as_str() {
                "NULL" => Literal::Null,
                "TRUE" => Literal::Boolean(true),
                "FALSE" => Literal::Boolean(false),
                "UNKNOWN" => Literal::Unknown,
                "DATE" | "TIME" | "TIMESTAMP" | "INTERVAL" => return self.temporal_literal(),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(found))
    }

    fn temporal_literal(&mut self) -> Result<Option<Literal>> {
        let is_string = |n: usize| matches!(self.peek_at(n).tok, Tok::String(_) | Tok::UnicodeString(_));
        let kind: fn(String) -> Literal = match self.upper().as_str() {
            "INTERVAL" => return self.interval().map(Some),
            "DATE" if is_string(1) => Literal::Date,
            "TIME" if is_string(1) => Literal::Time,
            "TIMESTAMP" if is_string(1) => Literal::Timestamp,
            "TIMESTAMP" if self.are_words(&["TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"]) => {
                self.pos += 4;
                Literal::TimestampLtz
            }
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(kind(self.string()?)))
    }

    /// `INTERVAL [+ | -] 'text' unit`, `INTERVAL expr unit`.
    fn interval(&mut self) -> Result<Literal> {
        self.expect_word("INTERVAL")?;
        let signed = (self.is_punct("-") || self.is_punct("+")) && matches!(self.peek_at(1).tok, Tok::String(_));
        let negative = signed && self.bump().tok == Tok::Punct("-");
        if matches!(self.peek().tok, Tok::String(_)) {
            let value = self.string()?;
            let qualifier = self.interval_qualifier()?;
            return Ok(Literal::Interval { value, negative, qualifier });
        }
        let count = self.nested(Self::unary_operand)?;
        let qualifier = self.interval_qualifier()?;
        Ok(Literal::IntervalExpr { count: Box::new(count), qualifier })
    }

    /// A signed primary expression.
    fn unary_operand(&mut self) -> Result<Expr> {
        let start = self.span();
        let op = match self.peek().tok {
            Tok::Punct("-") => crate::ast::UnaryOp::Minus,
            Tok::Punct("+") => crate::ast::UnaryOp::Plus,
            _ => return self.primary(),
        };
        self.bump();
        let operand = self.nested(Self::primary)?;
        Ok(Expr::new(ExprKind::Unary { op, expr: Box::new(operand) }, self.span_from(start)))
    }

    /// `DAY(3) TO SECOND(3)`.
    pub(super) fn interval_qualifier(&mut self) -> Result<IntervalQualifier> {
        use TimeUnit::*;
        let start = match TimeUnit::parse(&self.upper()) {
            Some(unit @ (Year | Quarter | Month | Week | Day | Hour | Minute | Second)) => unit,
            _ => return Err(self.unexpected(&["DAY", "HOUR", "MINUTE", "MONTH", "QUARTER", "SECOND", "WEEK", "YEAR"])),
        };
        self.bump();
        let (mut precision, mut fraction) = (None, None);
        if self.eat("(") {
            precision = Some(self.uint()?);
            if start == Second && self.eat(",") {
                fraction = Some(self.uint()?);
            }
            self.expect(")")?;
        }
        let mut end = None;
        if self.eat_word("TO") {
            let unit = TimeUnit::parse(&self.upper());
            let allowed: &[TimeUnit] = match start {
                Year => &[Month],
                Day => &[Hour, Minute, Second],
                Hour => &[Minute, Second],
                Minute => &[Second],
                _ => &[],
            };
            end = unit.filter(|u| allowed.contains(u));
            if end.is_none() {
                return Err(self.unexpected(&allowed.iter().map(|u| u.name()).collect::<Vec<_>>()));
            }
            self.bump();
            if end == Some(Second) && self.eat("(") {
                fraction = Some(self.uint()?);
                self.expect(")")?;
            }
        }
        Ok(IntervalQualifier { start, precision, end, fraction })
    }
}
