//! Operators, by Calcite's precedence.
//!
//! From loose to tight: `OR`, `AND`, `NOT`, `IS`, comparisons, `IN | LIKE | BETWEEN`, multiset
//! operators, `+ -`, `* / % ||`, signs. All infix operators associate to the left.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{BinaryOp, Expr, ExprKind, IsTest, LikeKind, QuantifiedSet, UnaryOp};
use crate::lexer::Tok;

const OR: u8 = 22;
const AND: u8 = 24;
const NOT: u8 = 26;
const IS: u8 = 28;
const COMPARE: u8 = 30;
const IN: u8 = 32;
const MULTISET: u8 = 34;
const ADD: u8 = 40;
const MULTIPLY: u8 = 60;
const SIGN: u8 = 80;
const COLLATE: u8 = 90;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.expr_at(0)
    }

    /// An expression without comparisons, `IN` and looser operators.
    pub(super) fn tight_expr(&mut self) -> Result<Expr> {
        self.expr_at(IN + 1)
    }

    /// An expression of operators that bind at least as tight as `min`.
    fn expr_at(&mut self, min: u8) -> Result<Expr> {
        self.nested(|p| {
            let left = p.prefix()?;
            p.infix(left, min)
        })
    }

    fn prefix(&mut self) -> Result<Expr> {
        let start = self.span();
        let (op, tightness) = match &self.peek().tok {
            Tok::Punct("-") => (UnaryOp::Minus, SIGN),
            Tok::Punct("+") => (UnaryOp::Plus, SIGN),
            Tok::Word(w) if w.eq_ignore_ascii_case("NOT") => (UnaryOp::Not, NOT),
            _ => return self.primary(),
        };
        self.bump();
        let expr = Box::new(self.expr_at(tightness)?);
        Ok(Expr::new(ExprKind::Unary { op, expr }, self.span_from(start)))
    }

    /// Goes on after a left operand.
    pub(super) fn infix(&mut self, mut left: Expr, min: u8) -> Result<Expr> {
        let start = left.span;
        let mut length = 0;
        loop {
            self.chain(length)?;
            length += 1;
            let kind = match self.infix_step(left, min)? {
                Ok(kind) => kind,
                Err(done) => return Ok(done),
            };
            left = Expr::new(kind, self.span_from(start));
        }
    }

    /// One operator and its right side, or `left` back if there is none that binds tight enough.
    fn infix_step(&mut self, left: Expr, min: u8) -> Result<std::result::Result<ExprKind, Expr>> {
        if let Some((op, tightness, words)) = self.binary_operator() {
            if tightness < min {
                return Ok(Err(left));
            }
            self.pos += words;
            if tightness == COMPARE && (self.is_word("ANY") || self.is_word("SOME") || self.is_word("ALL")) {
                return self.quantified(left, op).map(Ok);
            }
            let right = Box::new(self.expr_at(tightness + 1)?);
            return Ok(Ok(ExprKind::Binary { left: Box::new(left), op, right }));
        }
        let word = self.upper();
        match word.as_str() {
            "IS" if IS >= min => self.is_test(left).map(Ok),
            "COLLATE" if COLLATE >= min => {
                self.bump();
                let collation = self.object_name()?.to_string();
                Ok(Ok(ExprKind::Collate { expr: Box::new(left), collation }))
            }
            "AT" if COLLATE >= min => self.at_time_zone(left).map(Ok),
            "NOT" | "IN" | "LIKE" | "ILIKE" | "RLIKE" | "SIMILAR" | "BETWEEN" if IN >= min => self.membership(left),
            _ => Ok(Err(left)),
        }
    }

    /// The binary operator that is next, how tight it binds, and how many tokens it has.
    fn binary_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let one = |op, tightness| Some((op, tightness, 1));
        match &self.peek().tok {
            Tok::Punct(p) => match *p {
                "=" => one(BinaryOp::Eq, COMPARE),
                "<>" => one(BinaryOp::NotEq, COMPARE),
                "<" => one(BinaryOp::Lt, COMPARE),
                "<=" => one(BinaryOp::LtEq, COMPARE),
                ">" => one(BinaryOp::Gt, COMPARE),
                ">=" => one(BinaryOp::GtEq, COMPARE),
                "+" => one(BinaryOp::Plus, ADD),
                "-" => one(BinaryOp::Minus, ADD),
                "*" => one(BinaryOp::Multiply, MULTIPLY),
                "/" => one(BinaryOp::Divide, MULTIPLY),
                "%" => one(BinaryOp::Modulo, MULTIPLY),
                "||" => one(BinaryOp::Concat, MULTIPLY),
                _ => None,
            },
            Tok::Word(_) => self.word_operator(),
            _ => None,
        }
    }

    fn word_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let one = |op, tightness| Some((op, tightness, 1));
        match self.upper().as_str() {
            "OR" => one(BinaryOp::Or, OR),
            "AND" => one(BinaryOp::And, AND),
            "OVERLAPS" => one(BinaryOp::Overlaps, COMPARE),
            "CONTAINS" => one(BinaryOp::Contains, COMPARE),
            "PRECEDES" => one(BinaryOp::Precedes, COMPARE),
            "SUCCEEDS" => one(BinaryOp::Succeeds, COMPARE),
            "EQUALS" => one(BinaryOp::PeriodEquals, COMPARE),
            "IMMEDIATELY" if self.is_word_at(1, "PRECEDES") => Some((BinaryOp::ImmediatelyPrecedes, COMPARE, 2)),
            "IMMEDIATELY" if self.is_word_at(1, "SUCCEEDS") => Some((BinaryOp::ImmediatelySucceeds, COMPARE, 2)),
            "MEMBER" if self.is_word_at(1, "OF") => Some((BinaryOp::MemberOf, COMPARE, 2)),
            "SUBMULTISET" if self.is_word_at(1, "OF") => Some((BinaryOp::SubmultisetOf, COMPARE, 2)),
            "MULTISET" => {
                let all = self.is_word_at(2, "ALL");
                let words = if all || self.is_word_at(2, "DISTINCT") { 3 } else { 2 };
                let op = match (self.upper_at(1).as_str(), all) {
                    ("UNION", false) => BinaryOp::MultisetUnion,
                    ("UNION", true) => BinaryOp::MultisetUnionAll,
                    ("INTERSECT", false) => BinaryOp::MultisetIntersect,
                    ("INTERSECT", true) => BinaryOp::MultisetIntersectAll,
                    ("EXCEPT", false) => BinaryOp::MultisetExcept,
                    ("EXCEPT", true) => BinaryOp::MultisetExceptAll,
                    _ => return None,
                };
                Some((op, MULTISET, words))
            }
            _ => None,
        }
    }

    /// `ANY (...)` after a comparison.
    fn quantified(&mut self, left: Expr, op: BinaryOp) -> Result<ExprKind> {
        let all = self.is_word("ALL");
        self.bump();
        self.expect("(")?;
        let right = match self.starts_query() {
            true => QuantifiedSet::Query(Box::new(self.query()?)),
            false => QuantifiedSet::List(self.comma_list(Self::expr)?),
        };
        self.expect(")")?;
        Ok(ExprKind::Quantified { left: Box::new(left), op, all, right: Box::new(right) })
    }

    /// `IS [NOT] ...`.
    fn is_test(&mut self, left: Expr) -> Result<ExprKind> {
        self.bump();
        let negated = self.eat_word("NOT");
        if self.eat_words(&["DISTINCT", "FROM"]) {
            let right = Box::new(self.expr_at(COMPARE + 1)?);
            return Ok(ExprKind::IsDistinctFrom { left: Box::new(left), right, negated });
        }
        let (words, test): (usize, IsTest) = match self.upper().as_str() {
            "NULL" => (1, IsTest::Null),
            "TRUE" => (1, IsTest::True),
            "FALSE" => (1, IsTest::False),
            "UNKNOWN" => (1, IsTest::Unknown),
            "EMPTY" => (1, IsTest::Empty),
            "A" if self.is_word_at(1, "SET") => (2, IsTest::ASet),
            "JSON" => match self.upper_at(1).as_str() {
                "VALUE" => (2, IsTest::JsonValue),
                "OBJECT" => (2, IsTest::JsonObject),
                "ARRAY" => (2, IsTest::JsonArray),
                "SCALAR" => (2, IsTest::JsonScalar),
                _ => (1, IsTest::JsonValue),
            },
            _ => {
                return Err(self.unexpected(&["NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT", "JSON", "A", "EMPTY"]));
            }
        };
        self.pos += words;
        Ok(ExprKind::Is { expr: Box::new(left), test, negated })
    }

    fn at_time_zone(&mut self, left: Expr) -> Result<ExprKind> {
        self.bump();
        let expr = Box::new(left);
        if self.eat_word("LOCAL") {
            return Ok(ExprKind::AtTimeZone { expr, zone: None });
        }
        self.expect_words(&["TIME", "ZONE"])?;
        let zone = Some(Box::new(self.expr_at(COLLATE)?));
        Ok(ExprKind::AtTimeZone { expr, zone })
    }

    /// `[NOT] IN | LIKE | BETWEEN ...`, or `left` back after a `NOT` that begins something else.
    fn membership(&mut self, left: Expr) -> Result<std::result::Result<ExprKind, Expr>> {
        let negated = self.is_word("NOT");
        let word = self.upper_at(usize::from(negated));
        let like = match word.as_str() {
            "LIKE" => Some(LikeKind::Like),
            "ILIKE" => Some(LikeKind::ILike),
            "RLIKE" => Some(LikeKind::RLike),
            "SIMILAR" => Some(LikeKind::Similar),
            "IN" | "BETWEEN" => None,
            _ => return Ok(Err(left)),
        };
        self.pos += 1 + usize::from(negated);
        let expr = Box::new(left);
        if let Some(kind) = like {
            if kind == LikeKind::Similar {
                self.expect_word("TO")?;
            }
            let pattern = Box::new(self.expr_at(IN + 1)?);
            let escape = match self.eat_word("ESCAPE") {
                true => Some(Box::new(self.expr_at(IN + 1)?)),
                false => None,
            };
            return Ok(Ok(ExprKind::Like { kind, expr, pattern, escape, negated }));
        }
        if word == "BETWEEN" {
            let symmetric = self.eat_word("SYMMETRIC");
            if !symmetric {
                self.eat_word("ASYMMETRIC");
            }
            let low = Box::new(self.expr_at(IN + 1)?);
            self.expect_word("AND")?;
            let high = Box::new(self.expr_at(IN + 1)?);
            return Ok(Ok(ExprKind::Between { expr, low, high, symmetric, negated }));
        }
        self.expect("(")?;
        let kind = match self.starts_query() {
            true => ExprKind::InSubquery { expr, query: Box::new(self.query()?), negated },
            false => {
                let mut list = self.comma_list(Self::expr)?;
                match (list.len(), list.pop()) {
                    // `x IN ((SELECT ..))`.
                    (1, Some(Expr { kind: ExprKind::Subquery(query), .. })) => {
                        ExprKind::InSubquery { expr, query, negated }
                    }
                    (_, last) => {
                        list.extend(last);
                        ExprKind::InList { expr, list, negated }
                    }
                }
            }
        };
        self.expect(")")?;
        Ok(Ok(kind))
    }
}
