//! Queries: `WITH`, set operators, `SELECT` and its clauses.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{
    Cte, Expr, ExprKind, Frame, FrameBound, FrameUnit, GroupBy, GroupItem, Ident, OrderItem, Query, Select, SelectItem,
    SetExpr, SetOp, Span, Values, WindowSpec,
};

impl Parser<'_> {
    pub(super) fn starts_query(&self) -> bool {
        self.starts_query_at(0)
    }

    /// Whether a query without parentheses starts at the token `n` after the next one.
    pub(super) fn starts_query_at(&self, n: usize) -> bool {
        match self.upper_at(n).as_str() {
            "SELECT" | "WITH" | "VALUES" => true,
            "TABLE" => self.is_name_at(n + 1),
            _ => false,
        }
    }

    /// Whether the query before this token goes on.
    pub(super) fn continues_query(&self) -> bool {
        matches!(
            self.upper().as_str(),
            "UNION" | "INTERSECT" | "EXCEPT" | "MINUS" | "ORDER" | "LIMIT" | "OFFSET" | "FETCH"
        )
    }

    /// A query.
    pub(super) fn query(&mut self) -> Result<Query> {
        self.nested(|p| {
            let start = p.span();
            let mut ctes = Vec::new();
            let mut recursive = false;
            if p.eat_word("WITH") {
                recursive = p.eat_word("RECURSIVE");
                ctes = p.comma_list(Self::cte)?;
            }
            let body = p.set_expr()?;
            p.query_tail(ctes, recursive, body, start)
        })
    }

    /// The rest of a query whose first operand, from `start` on, is already read.
    pub(super) fn query_after(&mut self, first: SetExpr, start: Span) -> Result<Query> {
        let body = self.set_operators(first, 0, start)?;
        self.query_tail(Vec::new(), false, body, start)
    }

    fn cte(&mut self) -> Result<Cte> {
        let name = self.ident()?;
        let columns = if self.is_punct("(") { self.ident_list()? } else { Vec::new() };
        self.expect_word("AS")?;
        self.expect("(")?;
        let query = self.query()?;
        self.expect(")")?;
        Ok(Cte { name, columns, query })
    }

    fn query_tail(&mut self, ctes: Vec<Cte>, recursive: bool, body: SetExpr, start: Span) -> Result<Query> {
        let order_by = self.order_by()?;
        let (mut limit, mut offset) = (None, None);
        if self.eat_word("LIMIT") && !self.eat_word("ALL") {
            let first = self.expr()?;
            if self.eat(",") {
                offset = Some(first);
                limit = Some(self.expr()?);
            } else {
                limit = Some(first);
            }
        }
        if self.eat_word("OFFSET") {
            offset = Some(self.expr()?);
            self.row_or_rows();
        }
        if self.eat_word("FETCH") {
            if !self.eat_word("FIRST") {
                self.expect_word("NEXT")?;
            }
            limit = Some(self.expr()?);
            self.row_or_rows();
            self.expect_word("ONLY")?;
        }
        Ok(Query { ctes, recursive, body, order_by, limit, offset, span: self.span_from(start) })
    }

    fn row_or_rows(&mut self) {
        if !self.eat_word("ROWS") {
            self.eat_word("ROW");
        }
    }

    fn set_expr(&mut self) -> Result<SetExpr> {
        let start = self.span();
        let first = self.set_operand()?;
        self.set_operators(first, 0, start)
    }

    /// `INTERSECT` binds tighter than `UNION` and `EXCEPT`.
    fn set_operators(&mut self, mut left: SetExpr, min: u8, start: Span) -> Result<SetExpr> {
        let mut length = 0;
        loop {
            let (op, tightness) = match self.upper().as_str() {
                "UNION" => (SetOp::Union, 1),
                "EXCEPT" => (SetOp::Except, 1),
                "INTERSECT" => (SetOp::Intersect, 2),
                "MINUS" => {
                    let at = self.span();
                    return self
                        .fail(format_args!("{at}: MINUS is not allowed under the current SQL conformance level"));
                }
                _ => return Ok(left),
            };
            if tightness < min {
                return Ok(left);
            }
            self.chain(length)?;
            length += 1;
            self.bump();
            let all = self.eat_word("ALL");
            if !all {
                self.eat_word("DISTINCT");
            }
            let right_start = self.span();
            let right = self.set_operand()?;
            let right = self.set_operators(right, tightness + 1, right_start)?;
            let span = self.span_from(start);
            left = SetExpr::SetOp { left: Box::new(left), op, all, right: Box::new(right), span };
        }
    }

    fn set_operand(&mut self) -> Result<SetExpr> {
        let start = self.span();
        match self.upper().as_str() {
            "SELECT" => self.select().map(|s| SetExpr::Select(Box::new(s))),
            "VALUES" => {
                self.bump();
                let rows = self.comma_list(Self::values_row)?;
                Ok(SetExpr::Values(Values { rows, span: self.span_from(start) }))
            }
            "TABLE" => {
                self.bump();
                self.object_name().map(SetExpr::Table)
            }
            _ if self.is_punct("(") => {
                self.bump();
                let query = self.query()?;
                self.expect(")")?;
                Ok(SetExpr::Nested(Box::new(query)))
            }
            _ => Err(self.unexpected(&["SELECT", "VALUES", "TABLE", "("])),
        }
    }

    fn values_row(&mut self) -> Result<Vec<Expr>> {
        if self.is_word("DEFAULT") {
            let span = self.bump().span;
            return Ok(vec![Expr::new(ExprKind::Default, span)]);
        }
        Ok(match self.expr()? {
            Expr { kind: ExprKind::Row { fields, .. }, .. } => fields,
            one => vec![one],
        })
    }

    fn select(&mut self) -> Result<Select> {
        let start = self.span();
        self.expect_word("SELECT")?;
        let hints = self.hints()?;
        self.eat_word("STREAM");
        let quantifier = self.set_quantifier();
        let projection = self.comma_list(Self::select_item)?;
        let mut select = Select {
            hints,
            quantifier,
            projection,
            from: Vec::new(),
            selection: None,
            group_by: None,
            having: None,
            windows: Vec::new(),
            qualify: None,
            span: start,
        };
        if self.eat_word("FROM") {
            select.from = self.comma_list(Self::table_ref)?;
            if self.eat_word("WHERE") {
                select.selection = Some(self.expr()?);
            }
            select.group_by = self.group_by()?;
            if self.eat_word("HAVING") {
                select.having = Some(self.expr()?);
            }
            if self.eat_word("WINDOW") {
                select.windows = self.comma_list(Self::window_definition)?;
            }
            if self.eat_word("QUALIFY") {
                select.qualify = Some(self.expr()?);
            }
        }
        select.span = self.span_from(start);
        Ok(select)
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let start = self.span();
        if self.eat("*") {
            return Ok(SelectItem::Wildcard(start));
        }
        let expr = self.expr()?;
        if self.is_punct(".") && self.is_punct_at(1, "*") {
            let ExprKind::Identifier(parts) = expr.kind else { return Err(self.unexpected(&[])) };
            self.pos += 2;
            return Ok(SelectItem::QualifiedWildcard(crate::ast::ObjectName { parts }, self.span_from(start)));
        }
        let alias = match self.eat_word("AS") || self.is_name_at(0) {
            true => Some(self.ident()?),
            false => None,
        };
        Ok(SelectItem::Expr { expr, alias })
    }

    fn group_by(&mut self) -> Result<Option<GroupBy>> {
        let start = self.span();
        if !self.eat_words(&["GROUP", "BY"]) {
            return Ok(None);
        }
        let quantifier = self.set_quantifier();
        let items = self.comma_list(Self::group_item)?;
        Ok(Some(GroupBy { quantifier, items, span: self.span_from(start) }))
    }

    fn group_item(&mut self) -> Result<GroupItem> {
        self.nested(|p| {
            let start = p.span();
            if p.eat_words(&["GROUPING", "SETS"]) {
                let sets = p.paren_list(Self::group_item)?;
                return Ok(GroupItem::GroupingSets(sets, p.span_from(start)));
            }
            let rollup = p.is_word("ROLLUP");
            if (rollup || p.is_word("CUBE")) && p.is_punct_at(1, "(") {
                p.bump();
                let sets = p.paren_list(|p| {
                    Ok(match p.expr()? {
                        Expr { kind: ExprKind::Row { fields, explicit: false }, .. } => fields,
                        one => vec![one],
                    })
                })?;
                let span = p.span_from(start);
                return Ok(if rollup { GroupItem::Rollup(sets, span) } else { GroupItem::Cube(sets, span) });
            }
            if p.is_punct("(") && p.is_punct_at(1, ")") {
                p.pos += 2;
                return Ok(GroupItem::Empty(p.span_from(start)));
            }
            Ok(match p.expr()? {
                Expr { kind: ExprKind::Row { fields, explicit: false }, span } => GroupItem::Tuple(fields, span),
                one => GroupItem::Expr(one),
            })
        })
    }

    /// `ORDER BY ...`, if it is next.
    pub(super) fn order_by(&mut self) -> Result<Vec<OrderItem>> {
        if self.eat_words(&["ORDER", "BY"]) { self.comma_list(Self::order_item) } else { Ok(Vec::new()) }
    }

    pub(super) fn order_item(&mut self) -> Result<OrderItem> {
        let expr = self.expr()?;
        let descending = self.eat_word("DESC");
        if !descending {
            self.eat_word("ASC");
        }
        let nulls_first = if self.eat_words(&["NULLS", "FIRST"]) {
            Some(true)
        } else if self.eat_words(&["NULLS", "LAST"]) {
            Some(false)
        } else {
            None
        };
        Ok(OrderItem { expr, descending, nulls_first })
    }

    fn window_definition(&mut self) -> Result<(Ident, WindowSpec)> {
        let name = self.ident()?;
        self.expect_word("AS")?;
        Ok((name, self.window_spec()?))
    }

    /// `( [name] [PARTITION BY ..] [ORDER BY ..] [frame] )`.
    pub(super) fn window_spec(&mut self) -> Result<WindowSpec> {
        let start = self.span();
        self.expect("(")?;
        let base = if self.is_name_at(0) { Some(self.ident()?) } else { None };
        let partition_by = match self.eat_words(&["PARTITION", "BY"]) {
            true => self.comma_list(Self::expr)?,
            false => Vec::new(),
        };
        let order_by = self.order_by()?;
        let frame = self.frame()?;
        let allow_partial = if self.eat_words(&["ALLOW", "PARTIAL"]) {
            Some(true)
        } else if self.eat_words(&["DISALLOW", "PARTIAL"]) {
            Some(false)
        } else {
            None
        };
        self.expect(")")?;
        Ok(WindowSpec { base, partition_by, order_by, frame, allow_partial, span: self.span_from(start) })
    }

    fn frame(&mut self) -> Result<Option<Frame>> {
        let begin = self.span();
        let unit = if self.eat_word("ROWS") {
            FrameUnit::Rows
        } else if self.eat_word("RANGE") {
            FrameUnit::Range
        } else {
            return Ok(None);
        };
        let between = self.eat_word("BETWEEN");
        let start = self.frame_bound()?;
        let mut end = None;
        if between {
            self.expect_word("AND")?;
            end = Some(self.frame_bound()?);
        }
        let exclude = if self.eat_word("EXCLUDE") { Some(self.frame_exclusion()?) } else { None };
        Ok(Some(Frame { unit, start, end, exclude, span: self.span_from(begin) }))
    }

    fn frame_exclusion(&mut self) -> Result<String> {
        for words in [&["CURRENT", "ROW"][..], &["NO", "OTHERS"], &["GROUP"], &["TIES"]] {
            if self.eat_words(words) {
                return Ok(words.join(" "));
            }
        }
        Err(self.unexpected(&["CURRENT", "GROUP", "TIES", "NO"]))
    }

    fn frame_bound(&mut self) -> Result<FrameBound> {
        if self.eat_words(&["CURRENT", "ROW"]) {
            return Ok(FrameBound::CurrentRow);
        }
        if self.eat_words(&["UNBOUNDED", "PRECEDING"]) {
            return Ok(FrameBound::UnboundedPreceding);
        }
        if self.eat_words(&["UNBOUNDED", "FOLLOWING"]) {
            return Ok(FrameBound::UnboundedFollowing);
        }
        let value = Box::new(self.tight_expr()?);
        if self.eat_word("PRECEDING") {
            return Ok(FrameBound::Preceding(value));
        }
        if self.eat_word("FOLLOWING") {
            return Ok(FrameBound::Following(value));
        }
        Err(self.unexpected(&["PRECEDING", "FOLLOWING"]))
    }
}
