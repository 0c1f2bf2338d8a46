//! Queries.

use super::{Expr, FunctionArg, Ident, MatchSemantics, ObjectName, Options, SetQuantifier, Span};

/// A query with its clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// `WITH name [(columns)] AS (query), ...`.
    pub ctes: Vec<Cte>,
    /// `WITH RECURSIVE`.
    pub recursive: bool,
    /// The query proper.
    pub body: SetExpr,
    /// `ORDER BY`.
    pub order_by: Vec<OrderItem>,
    /// `LIMIT n` or `FETCH FIRST n ROWS ONLY`; `None` for `LIMIT ALL` too.
    pub limit: Option<Expr>,
    /// `OFFSET n` or the first number of `LIMIT m, n`.
    pub offset: Option<Expr>,
    /// Where.
    pub span: Span,
}

/// A common table expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Name.
    pub name: Ident,
    /// Column names, if given.
    pub columns: Vec<Ident>,
    /// The query.
    pub query: Query,
}

/// What a query consists of.
#[derive(Clone, Debug, PartialEq)]
pub enum SetExpr {
    /// `SELECT`.
    Select(Box<Select>),
    /// `left UNION | INTERSECT | EXCEPT [ALL] right`.
    SetOp {
        /// Left.
        left: Box<SetExpr>,
        /// Which.
        op: SetOp,
        /// `ALL`.
        all: bool,
        /// Right.
        right: Box<SetExpr>,
        /// Where.
        span: Span,
    },
    /// `VALUES (a, b), ...`; a value without parentheses is a row of one.
    Values(Values),
    /// `TABLE name`.
    Table(ObjectName),
    /// `(query)`.
    Nested(Box<Query>),
}

/// Set operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SetOp {
    Union,
    Intersect,
    Except,
}

/// `VALUES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Rows.
    pub rows: Vec<Vec<Expr>>,
    /// Where.
    pub span: Span,
}

/// `SELECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `/*+ ... */` after `SELECT`.
    pub hints: Vec<Hint>,
    /// `DISTINCT` or `ALL`.
    pub quantifier: Option<SetQuantifier>,
    /// The select list.
    pub projection: Vec<SelectItem>,
    /// `FROM`; several are joined by commas. Empty without `FROM`.
    pub from: Vec<TableRef>,
    /// `WHERE`.
    pub selection: Option<Expr>,
    /// `GROUP BY`.
    pub group_by: Option<GroupBy>,
    /// `HAVING`.
    pub having: Option<Expr>,
    /// `WINDOW name AS (...)`.
    pub windows: Vec<(Ident, WindowSpec)>,
    /// `QUALIFY`.
    pub qualify: Option<Expr>,
    /// Where.
    pub span: Span,
}

/// A hint: `STATE_TTL('a' = '1 d')`, `MULTI_JOIN(a, b)`, `OPTIONS('k' = 'v')`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// Name as written.
    pub name: Ident,
    /// `key = value` arguments.
    pub options: Options,
    /// Arguments without `=`.
    pub items: Vec<String>,
}

/// An item of the select list.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// An expression, `AS alias` if given.
    Expr {
        /// The expression.
        expr: Expr,
        /// Its name.
        alias: Option<Ident>,
    },
    /// `*`.
    Wildcard(Span),
    /// `t.*`.
    QualifiedWildcard(ObjectName, Span),
}

/// `GROUP BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBy {
    /// `DISTINCT` or `ALL`.
    pub quantifier: Option<SetQuantifier>,
    /// Elements; their cross product if there are grouping sets among them.
    pub items: Vec<GroupItem>,
    /// Where.
    pub span: Span,
}

/// An element of `GROUP BY`.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupItem {
    /// An expression; legacy windows (`TUMBLE(ts, INTERVAL ..)`) are calls.
    Expr(Expr),
    /// `()`.
    Empty(Span),
    /// `(a, b)`.
    Tuple(Vec<Expr>, Span),
    /// `GROUPING SETS (...)`.
    GroupingSets(Vec<GroupItem>, Span),
    /// `ROLLUP (...)`: each element is one expression or a tuple.
    Rollup(Vec<Vec<Expr>>, Span),
    /// `CUBE (...)`.
    Cube(Vec<Vec<Expr>>, Span),
}

/// An item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    /// What.
    pub expr: Expr,
    /// `DESC`.
    pub descending: bool,
    /// `NULLS FIRST` is true.
    pub nulls_first: Option<bool>,
}

/// `( [name] [PARTITION BY ..] [ORDER BY ..] [frame] )`.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSpec {
    /// The window it builds on.
    pub base: Option<Ident>,
    /// `PARTITION BY`.
    pub partition_by: Vec<Expr>,
    /// `ORDER BY`.
    pub order_by: Vec<OrderItem>,
    /// The frame.
    pub frame: Option<Frame>,
    /// `ALLOW PARTIAL` (true) or `DISALLOW PARTIAL`.
    pub allow_partial: Option<bool>,
    /// Where.
    pub span: Span,
}

/// `ROWS | RANGE [BETWEEN] start [AND end]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// `ROWS` or `RANGE`.
    pub unit: FrameUnit,
    /// Start.
    pub start: FrameBound,
    /// End; `CURRENT ROW` if absent.
    pub end: Option<FrameBound>,
    /// `EXCLUDE CURRENT ROW | GROUP | TIES | NO OTHERS`, the words.
    pub exclude: Option<String>,
    /// Where.
    pub span: Span,
}

/// Unit of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FrameUnit {
    Rows,
    Range,
}

/// Bound of a frame.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

/// `AS name [(columns)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAlias {
    /// Name.
    pub name: Ident,
    /// Column names, if given.
    pub columns: Vec<Ident>,
}

/// Something in `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRef {
    /// What.
    pub kind: TableRefKind,
    /// Its alias; always `None` for joins.
    pub alias: Option<TableAlias>,
    /// Where.
    pub span: Span,
}

/// The kinds of table reference.
#[derive(Clone, Debug, PartialEq)]
pub enum TableRefKind {
    /// A table or view.
    Table {
        /// Name.
        name: ObjectName,
        /// `/*+ OPTIONS(..) */` and others.
        hints: Vec<Hint>,
        /// `FOR SYSTEM_TIME AS OF expr`.
        system_time: Option<Expr>,
    },
    /// `[LATERAL] (query)`.
    Derived {
        /// The query.
        query: Box<Query>,
        /// `LATERAL`.
        lateral: bool,
    },
    /// `[LATERAL] TABLE(f(...))`, or `f(...)` without the wrapper.
    Function {
        /// The call; window TVFs are calls.
        call: TableFunction,
        /// `LATERAL`.
        lateral: bool,
    },
    /// `UNNEST(e, ...) [WITH ORDINALITY]`.
    Unnest {
        /// Collections.
        exprs: Vec<Expr>,
        /// `WITH ORDINALITY`.
        with_ordinality: bool,
    },
    /// A join; nested joins are to the left.
    Join(Box<Join>),
    /// `input MATCH_RECOGNIZE (...)`.
    MatchRecognize(Box<MatchRecognize>),
    /// `input PIVOT (...)` or `UNPIVOT (...)`: parsed to be refused.
    Pivot {
        /// Input.
        input: Box<TableRef>,
        /// `UNPIVOT`.
        unpivot: bool,
    },
    /// `t TABLESAMPLE ...`: parsed to be refused.
    Sample(Box<TableRef>),
}

/// A call in `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableFunction {
    /// Name.
    pub name: ObjectName,
    /// Arguments.
    pub args: Vec<FunctionArg>,
    /// Where.
    pub span: Span,
}

/// `left [kind] JOIN right [ON .. | USING ..]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// Left.
    pub left: TableRef,
    /// Right.
    pub right: TableRef,
    /// Which.
    pub kind: JoinKind,
    /// `NATURAL`.
    pub natural: bool,
    /// The condition.
    pub constraint: JoinConstraint,
}

/// Joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
    /// `LEFT SEMI JOIN` and `LEFT ANTI JOIN`, which Flink has none of.
    LeftSemi,
    LeftAnti,
    CrossApply,
    OuterApply,
}

/// A join's condition.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum JoinConstraint {
    None,
    On(Expr),
    Using(Vec<Ident>),
}

/// `MATCH_RECOGNIZE`.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchRecognize {
    /// What is matched.
    pub input: TableRef,
    /// `PARTITION BY`.
    pub partition_by: Vec<Expr>,
    /// `ORDER BY`.
    pub order_by: Vec<OrderItem>,
    /// `MEASURES e AS name`.
    pub measures: Vec<Measure>,
    /// `ONE ROW` (false) or `ALL ROWS PER MATCH` (true).
    pub all_rows: Option<bool>,
    /// `AFTER MATCH SKIP ..`.
    pub after_match: Option<AfterMatch>,
    /// `PATTERN`.
    pub pattern: Pattern,
    /// A leading `^` and a trailing `$`.
    pub anchors: (bool, bool),
    /// `WITHIN INTERVAL ..`.
    pub within: Option<Expr>,
    /// `SUBSET s = (a, b)`.
    pub subsets: Vec<(Ident, Vec<Ident>)>,
    /// `DEFINE v AS e`.
    pub defines: Vec<(Ident, Expr)>,
    /// Where.
    pub span: Span,
}

/// `[RUNNING | FINAL] e AS name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The value.
    pub expr: Expr,
    /// Its name.
    pub name: Ident,
    /// `RUNNING` or `FINAL`.
    pub semantics: Option<MatchSemantics>,
}

/// Where matching goes on after a match.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum AfterMatch {
    SkipToNextRow,
    SkipPastLastRow,
    SkipToFirst(Ident),
    SkipToLast(Ident),
}

/// A row pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// A variable.
    Variable(Ident),
    /// One after the other.
    Concat(Vec<Pattern>),
    /// `a | b`.
    Alternation(Vec<Pattern>),
    /// `p*`, `p{2,3}?`.
    Quantified {
        /// What is repeated.
        pattern: Box<Pattern>,
        /// At least.
        min: u32,
        /// At most; `None` is unbounded.
        max: Option<u32>,
        /// After a second `?`.
        reluctant: bool,
    },
    /// `( p )`.
    Group(Box<Pattern>),
    /// `PERMUTE(a, b)`.
    Permute(Vec<Pattern>),
    /// `{- p -}`.
    Exclude(Box<Pattern>),
}
