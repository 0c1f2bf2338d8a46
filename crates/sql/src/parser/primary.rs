//! Operands: names, constants, calls, parentheses.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{
    BinaryOp, Expr, ExprKind, FunctionArg, FunctionCall, Ident, MatchSemantics, NullTreatment, ObjectName, Over, Query,
    SetExpr, SetQuantifier, Span, TableArgument, TableArgumentInput,
};
use crate::lexer::{Tok, keywords};

/// What stood between parentheses.
pub(super) enum Parens {
    Query(Box<Query>),
    Exprs(Vec<Expr>),
}

impl Parser<'_> {
    /// An operand with its subscripts and fields.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let start = self.span();
        let mut expr = self.atom()?;
        let mut length = 0;
        loop {
            self.chain(length)?;
            length += 1;
            let kind = if self.eat("[") {
                let index = Box::new(self.expr()?);
                self.expect("]")?;
                ExprKind::Index { expr: Box::new(expr), index }
            } else if self.is_punct(".") && !self.is_punct_at(1, "*") {
                self.bump();
                ExprKind::Field { expr: Box::new(expr), name: self.ident()? }
            } else {
                return Ok(expr);
            };
            expr = Expr::new(kind, self.span_from(start));
        }
    }

    fn atom(&mut self) -> Result<Expr> {
        let start = self.span();
        if let Some(literal) = self.literal()? {
            return Ok(Expr::new(ExprKind::Literal(literal), self.span_from(start)));
        }
        match &self.peek().tok {
            Tok::Punct("(") => self.parenthesised(),
            Tok::Quoted(_) => self.name_or_call(),
            Tok::Word(_) => {
                let word = self.upper();
                if let Some(kind) = self.special(&word)? {
                    return Ok(Expr::new(kind, self.span_from(start)));
                }
                if keywords::is_niladic(&word) && !self.is_punct_at(1, "(") {
                    let name = ObjectName { parts: vec![self.any_word()?] };
                    return Ok(Expr::new(ExprKind::Function(Box::new(call(name, false))), start));
                }
                self.name_or_call()
            }
            _ => Err(self.unexpected(&[])),
        }
    }

    /// `a.b.c` or `a.b.f(...)`.
    fn name_or_call(&mut self) -> Result<Expr> {
        let start = self.span();
        let word = self.upper();
        let callable = keywords::is_callable(&word) && self.is_punct_at(1, "(");
        if !callable && !self.is_name_at(0) {
            return Err(self.unexpected(&[]));
        }
        let mut parts = vec![self.any_word()?];
        while !callable && self.is_punct(".") && !self.is_punct_at(1, "*") {
            self.bump();
            match keywords::is_callable(&self.upper()) && self.is_punct_at(1, "(") {
                true => parts.push(self.any_word()?),
                false => parts.push(self.ident()?),
            }
        }
        if !self.is_punct("(") {
            return Ok(Expr::new(ExprKind::Identifier(parts), self.span_from(start)));
        }
        let function = self.call_after_name(ObjectName { parts }, false)?;
        Ok(Expr::new(ExprKind::Function(Box::new(function)), self.span_from(start)))
    }

    /// The arguments and clauses of a call. In `FROM`, a query in parentheses is a table argument.
    pub(super) fn call_after_name(&mut self, name: ObjectName, in_from: bool) -> Result<FunctionCall> {
        let mut f = call(name, true);
        self.expect("(")?;
        if self.is_punct("*") && self.is_punct_at(1, ")") {
            self.bump();
            f.star = true;
        } else if !self.is_punct(")") {
            f.quantifier = self.set_quantifier();
            f.args = self.comma_list(|p| p.argument(in_from))?;
            f.nulls = self.null_treatment();
            f.order_by = self.order_by()?;
        }
        self.expect(")")?;
        if in_from {
            return Ok(f);
        }
        f.nulls = f.nulls.or(self.null_treatment());
        if self.eat_words(&["WITHIN", "GROUP"]) {
            self.expect("(")?;
            f.within_group = self.order_by()?;
            self.expect(")")?;
        }
        f.filter = self.filter()?;
        f.nulls = f.nulls.or(self.null_treatment());
        f.over = self.over()?;
        Ok(f)
    }

    pub(super) fn filter(&mut self) -> Result<Option<Expr>> {
        if !self.eat_word("FILTER") {
            return Ok(None);
        }
        self.expect("(")?;
        self.expect_word("WHERE")?;
        let condition = self.expr()?;
        self.expect(")")?;
        Ok(Some(condition))
    }

    fn over(&mut self) -> Result<Option<Over>> {
        if !self.eat_word("OVER") {
            return Ok(None);
        }
        match self.is_punct("(") {
            true => self.window_spec().map(|w| Some(Over::Spec(w))),
            false => self.ident().map(|name| Some(Over::Named(name))),
        }
    }

    pub(super) fn set_quantifier(&mut self) -> Option<SetQuantifier> {
        if self.eat_word("DISTINCT") {
            Some(SetQuantifier::Distinct)
        } else if self.eat_word("ALL") {
            Some(SetQuantifier::All)
        } else {
            None
        }
    }

    fn null_treatment(&mut self) -> Option<NullTreatment> {
        if self.eat_words(&["IGNORE", "NULLS"]) {
            Some(NullTreatment::Ignore)
        } else if self.eat_words(&["RESPECT", "NULLS"]) {
            Some(NullTreatment::Respect)
        } else {
            None
        }
    }

    fn argument(&mut self, in_from: bool) -> Result<FunctionArg> {
        let mut name = None;
        if self.is_punct_at(1, "=>") {
            name = Some(self.ident()?);
            self.bump();
        }
        let start = self.span();
        if self.eat_word("DEFAULT") {
            return Ok(FunctionArg { name, value: Expr::new(ExprKind::Default, start) });
        }
        if self.is_word("TABLE") {
            self.bump();
            let table = TableArgumentInput::Table(self.object_name()?);
            return Ok(FunctionArg { name, value: self.table_argument(table, start)? });
        }
        if self.starts_query() {
            let query = Box::new(self.query()?);
            return Ok(FunctionArg { name, value: Expr::new(ExprKind::Subquery(query), self.span_from(start)) });
        }
        let value = match self.expr()? {
            Expr { kind: ExprKind::Subquery(query), .. } if in_from || self.are_words(&["PARTITION", "BY"]) => {
                self.table_argument(TableArgumentInput::Query(query), start)?
            }
            value => value,
        };
        Ok(FunctionArg { name, value })
    }

    fn table_argument(&mut self, input: TableArgumentInput, start: Span) -> Result<Expr> {
        let mut partition_by = Vec::new();
        if self.eat_words(&["PARTITION", "BY"]) {
            // Without parentheses a comma ends the argument.
            partition_by = match self.expr()? {
                Expr { kind: ExprKind::Row { fields, explicit: false }, .. } => fields,
                one => vec![one],
            };
        }
        let mut order_by = Vec::new();
        if self.eat_words(&["ORDER", "BY"]) {
            order_by = match self.is_punct("(") {
                true => self.paren_list(Self::order_item)?,
                false => vec![self.order_item()?],
            };
        }
        let span = self.span_from(start);
        let argument = TableArgument { input, partition_by, order_by, span };
        Ok(Expr::new(ExprKind::TableArgument(Box::new(argument)), span))
    }

    /// `(e)`, `(a, b)`, `(query)` or `(a - b) DAY`.
    fn parenthesised(&mut self) -> Result<Expr> {
        let start = self.span();
        let mut exprs = match self.parens()? {
            Parens::Query(query) => {
                return Ok(Expr::new(ExprKind::Subquery(query), self.span_from(start)));
            }
            Parens::Exprs(exprs) => exprs,
        };
        let span = self.span_from(start);
        if exprs.len() != 1 {
            return Ok(Expr::new(ExprKind::Row { fields: exprs, explicit: false }, span));
        }
        let Some(inner) = exprs.pop() else { return Err(self.unexpected(&[])) };
        let is_unit = matches!(self.upper().as_str(), "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND");
        match inner.kind {
            ExprKind::Binary { left, op: BinaryOp::Minus, right } if is_unit => {
                let qualifier = self.interval_qualifier()?;
                let kind = ExprKind::DateTimeDifference { end: left, start: right, qualifier };
                Ok(Expr::new(kind, self.span_from(start)))
            }
            kind => Ok(Expr::new(kind, span)),
        }
    }

    /// `( ... )`: a query or expressions. Nothing is read twice, however deep it nests.
    pub(super) fn parens(&mut self) -> Result<Parens> {
        self.expect("(")?;
        let inside = self.inside_parens()?;
        self.expect(")")?;
        Ok(inside)
    }

    fn inside_parens(&mut self) -> Result<Parens> {
        if self.starts_query() {
            return self.query().map(|q| Parens::Query(Box::new(q)));
        }
        if !self.is_punct("(") {
            return self.comma_list(Self::expr).map(Parens::Exprs);
        }
        // `((query) UNION ...)`, `((query) + 1)`, `((query))`: known after the inner one.
        let start = self.span();
        if !self.opens_query(self.pos) {
            return self.comma_list(Self::expr).map(Parens::Exprs);
        }
        match self.nested(Self::parens)? {
            Parens::Query(query) if self.is_punct(")") => Ok(Parens::Query(query)),
            Parens::Query(query) if self.continues_query() => {
                self.query_after(SetExpr::Nested(query), start).map(|q| Parens::Query(Box::new(q)))
            }
            inner => {
                let span = self.span_from(start);
                let kind = match inner {
                    Parens::Query(query) => ExprKind::Subquery(query),
                    Parens::Exprs(fields) => ExprKind::Row { fields, explicit: false },
                };
                let kind = match kind {
                    ExprKind::Row { mut fields, .. } if fields.len() == 1 => fields.remove(0).kind,
                    kind => kind,
                };
                let first = self.infix(Expr::new(kind, span), 0)?;
                let mut exprs = vec![first];
                while self.eat(",") {
                    exprs.push(self.expr()?);
                }
                Ok(Parens::Exprs(exprs))
            }
        }
    }

    /// Whether the parentheses from token `pos` on open a query: `(((SELECT`.
    pub(super) fn opens_query(&self, pos: usize) -> bool {
        let mut n = pos - self.pos;
        while self.is_punct_at(n, "(") {
            n += 1;
        }
        self.starts_query_at(n)
    }

    /// `RUNNING f(..)`, `FINAL f(..)`.
    pub(super) fn match_semantics(&mut self) -> Option<MatchSemantics> {
        let next_is_call = self.is_punct_at(2, "(");
        if next_is_call && self.eat_word("RUNNING") {
            Some(MatchSemantics::Running)
        } else if next_is_call && self.eat_word("FINAL") {
            Some(MatchSemantics::Final)
        } else {
            None
        }
    }

    /// `DESCRIPTOR(a, b)`.
    pub(super) fn descriptor(&mut self) -> Result<ExprKind> {
        self.bump();
        self.paren_list(Self::ident).map(ExprKind::Descriptor)
    }
}

/// A call with these arguments and nothing else.
pub(super) fn call_of(name: Ident, args: Vec<Expr>) -> FunctionCall {
    let args = args.into_iter().map(|value| FunctionArg { name: None, value }).collect();
    FunctionCall { args, ..call(ObjectName { parts: vec![name] }, true) }
}

fn call(name: ObjectName, parens: bool) -> FunctionCall {
    FunctionCall {
        name,
        parens,
        quantifier: None,
        star: false,
        args: Vec::new(),
        order_by: Vec::new(),
        within_group: Vec::new(),
        nulls: None,
        filter: None,
        over: None,
        match_semantics: None,
    }
}
