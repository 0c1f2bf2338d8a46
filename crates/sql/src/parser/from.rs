//! What stands in `FROM`: tables, queries, table functions, joins.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{
    ExprKind, Join, JoinConstraint, JoinKind, Query, SetExpr, Span, TableAlias, TableFunction, TableRef, TableRefKind,
};
use crate::lexer::Tok;

/// What stood between parentheses in `FROM`.
enum Inside {
    Query(Box<Query>),
    Tables(Box<TableRef>),
}

impl Parser<'_> {
    /// A table with the joins that follow it.
    pub(super) fn table_ref(&mut self) -> Result<TableRef> {
        let start = self.span();
        let first = self.nested(Self::table_primary)?;
        self.joins(first, start)
    }

    fn joins(&mut self, mut left: TableRef, start: Span) -> Result<TableRef> {
        let mut length = 0;
        while let Some((kind, natural)) = self.join_kind()? {
            self.chain(length)?;
            length += 1;
            let right = self.nested(Self::table_primary)?;
            let constraint = self.join_constraint()?;
            let join = Join { left, right, kind, natural, constraint };
            left = TableRef { kind: TableRefKind::Join(Box::new(join)), alias: None, span: self.span_from(start) };
        }
        Ok(left)
    }

    fn join_constraint(&mut self) -> Result<JoinConstraint> {
        if self.is_word("ON") && !self.are_words(&["ON", "CONFLICT", "DO"]) {
            self.bump();
            return self.expr().map(JoinConstraint::On);
        }
        if self.eat_word("USING") {
            return self.ident_list().map(JoinConstraint::Using);
        }
        Ok(JoinConstraint::None)
    }

    /// `[NATURAL] [INNER | LEFT [OUTER | SEMI | ANTI] | ...] JOIN`, if one is next.
    fn join_kind(&mut self) -> Result<Option<(JoinKind, bool)>> {
        let natural = self.eat_word("NATURAL");
        let kind = match self.upper().as_str() {
            "JOIN" => JoinKind::Inner,
            "INNER" => JoinKind::Inner,
            "LEFT" => JoinKind::Left,
            "RIGHT" => JoinKind::Right,
            "FULL" => JoinKind::Full,
            "CROSS" => JoinKind::Cross,
            "OUTER" if self.is_word_at(1, "APPLY") => {
                self.pos += 2;
                return Ok(Some((JoinKind::OuterApply, natural)));
            }
            _ if natural => return Err(self.unexpected(&["JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS"])),
            _ => return Ok(None),
        };
        if self.eat_words(&["CROSS", "APPLY"]) {
            return Ok(Some((JoinKind::CrossApply, natural)));
        }
        if !self.is_word("JOIN") {
            self.bump();
        }
        let mut kind = kind;
        if kind == JoinKind::Left && self.eat_word("SEMI") {
            kind = JoinKind::LeftSemi;
        } else if kind == JoinKind::Left && self.eat_word("ANTI") {
            kind = JoinKind::LeftAnti;
        } else if matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full) {
            self.eat_word("OUTER");
        }
        self.expect_word("JOIN")?;
        Ok(Some((kind, natural)))
    }

    /// A table without joins, with what may follow it: patterns, alias.
    fn table_primary(&mut self) -> Result<TableRef> {
        let start = self.span();
        let in_parens = self.is_punct("(") || (self.is_word("LATERAL") && self.is_punct_at(1, "("));
        if !in_parens {
            let kind = self.table_kind(start)?;
            let table = TableRef { kind, alias: None, span: self.span_from(start) };
            return self.after_table(table, start);
        }
        let lateral = self.eat_word("LATERAL");
        let table = match self.inside()? {
            Inside::Query(query) => {
                TableRef { kind: TableRefKind::Derived { query, lateral }, alias: None, span: self.span_from(start) }
            }
            // Its names stay visible: parentheses only group.
            Inside::Tables(table) if matches!(table.kind, TableRefKind::Join(_)) || table.alias.is_some() => {
                return Ok(*table);
            }
            Inside::Tables(table) => *table,
        };
        self.after_table(table, start)
    }

    fn after_table(&mut self, mut table: TableRef, start: Span) -> Result<TableRef> {
        if self.is_word("MATCH_RECOGNIZE") {
            let matched = self.match_recognize(table)?;
            table = TableRef {
                kind: TableRefKind::MatchRecognize(Box::new(matched)),
                alias: None,
                span: self.span_from(start),
            };
        }
        table = self.pivot(table, start)?;
        if table.alias.is_none() {
            table.alias = self.table_alias()?;
        }
        table.span = self.span_from(start);
        if self.is_word("MATCH_RECOGNIZE") {
            // `t AS x MATCH_RECOGNIZE (...)`.
            return self.after_table(table, start).map(|mut t| {
                t.span = self.span_from(start);
                t
            });
        }
        if self.eat_word("TABLESAMPLE") {
            self.any_word()?;
            self.skip_parens()?;
            return Ok(TableRef {
                kind: TableRefKind::Sample(Box::new(table)),
                alias: None,
                span: self.span_from(start),
            });
        }
        Ok(table)
    }

    fn pivot(&mut self, table: TableRef, start: Span) -> Result<TableRef> {
        let unpivot = self.is_word("UNPIVOT");
        if !unpivot && !self.is_word("PIVOT") {
            return Ok(table);
        }
        self.bump();
        if self.is_word("INCLUDE") || self.is_word("EXCLUDE") {
            self.bump();
            self.expect_word("NULLS")?;
        }
        self.skip_parens()?;
        let kind = TableRefKind::Pivot { input: Box::new(table), unpivot };
        Ok(TableRef { kind, alias: None, span: self.span_from(start) })
    }

    /// Skips `( ... )` of a construct that is refused anyway.
    fn skip_parens(&mut self) -> Result<()> {
        self.expect("(")?;
        let mut open = 1;
        while open > 0 {
            match self.peek().tok {
                Tok::Eof | Tok::Invalid(_) => return Err(self.unexpected(&[")"])),
                Tok::Punct("(") => open += 1,
                Tok::Punct(")") => open -= 1,
                _ => {}
            }
            self.bump();
        }
        Ok(())
    }

    /// `[AS] name [(columns)]`, if one is next.
    fn table_alias(&mut self) -> Result<Option<TableAlias>> {
        if !self.eat_word("AS") && !self.is_name_at(0) {
            return Ok(None);
        }
        let name = self.ident()?;
        let columns = if self.is_punct("(") { self.ident_list()? } else { Vec::new() };
        Ok(Some(TableAlias { name, columns }))
    }

    fn table_kind(&mut self, start: Span) -> Result<TableRefKind> {
        let lateral = self.eat_word("LATERAL");
        match self.upper().as_str() {
            "TABLE" if self.is_punct_at(1, "(") => return self.wrapped_function(lateral),
            "UNNEST" => return self.unnest(),
            _ => {}
        }
        let name = self.object_name()?;
        if self.is_punct("(") {
            let call = self.call_after_name(name, true)?;
            let call = TableFunction { name: call.name, args: call.args, span: self.span_from(start) };
            return Ok(TableRefKind::Function { call, lateral });
        }
        let hints = self.hints()?;
        let system_time = match self.eat_words(&["FOR", "SYSTEM_TIME"]) {
            true => {
                self.expect_words(&["AS", "OF"])?;
                Some(self.expr()?)
            }
            false => None,
        };
        Ok(TableRefKind::Table { name, hints, system_time })
    }

    /// `TABLE(f(...))`, `TABLE(name)`.
    fn wrapped_function(&mut self, lateral: bool) -> Result<TableRefKind> {
        self.pos += 2;
        let start = self.span();
        let expr = if self.starts_query() {
            let query = Box::new(self.query()?);
            self.expect(")")?;
            return Ok(TableRefKind::Derived { query, lateral });
        } else {
            let name = self.object_name()?;
            if self.eat(")") {
                return Ok(TableRefKind::Table { name, hints: Vec::new(), system_time: None });
            }
            self.call_after_name(name, true)?
        };
        let call = TableFunction { name: expr.name, args: expr.args, span: self.span_from(start) };
        self.expect(")")?;
        Ok(TableRefKind::Function { call, lateral })
    }

    fn unnest(&mut self) -> Result<TableRefKind> {
        self.bump();
        let exprs = self.paren_list(|p| {
            if !p.starts_query() {
                return p.expr();
            }
            let start = p.span();
            let query = Box::new(p.query()?);
            Ok(crate::ast::Expr::new(ExprKind::Subquery(query), p.span_from(start)))
        })?;
        let with_ordinality = self.eat_words(&["WITH", "ORDINALITY"]);
        Ok(TableRefKind::Unnest { exprs, with_ordinality })
    }

    /// `( ... )`: a query, or tables joined. Nothing is read twice.
    fn inside(&mut self) -> Result<Inside> {
        self.expect("(")?;
        let inside = self.inside_here()?;
        self.expect(")")?;
        Ok(inside)
    }

    fn inside_here(&mut self) -> Result<Inside> {
        if self.starts_query() {
            return self.query().map(|q| Inside::Query(Box::new(q)));
        }
        let start = self.span();
        if !self.is_punct("(") || !self.opens_query(self.pos) {
            return self.table_ref().map(|t| Inside::Tables(Box::new(t)));
        }
        let inner = match self.nested(Self::inside)? {
            Inside::Query(query) if self.is_punct(")") => return Ok(Inside::Query(query)),
            Inside::Query(query) if self.continues_query() => {
                return self.query_after(SetExpr::Nested(query), start).map(|q| Inside::Query(Box::new(q)));
            }
            Inside::Query(query) => TableRef {
                kind: TableRefKind::Derived { query, lateral: false },
                alias: None,
                span: self.span_from(start),
            },
            Inside::Tables(table) => *table,
        };
        let first = self.after_table(inner, start)?;
        self.joins(first, start).map(|t| Inside::Tables(Box::new(t)))
    }
}
