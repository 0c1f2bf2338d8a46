//! Expressions.

use super::{DataType, Ident, IntervalQualifier, ObjectName, OrderItem, Query, Span, TimeUnit, WindowSpec};

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

impl Expr {
    /// Shorthand.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        Expr { kind, span }
    }
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `a`, `t.a`, `t.a.b`: a column, or a field of one; the binder finds out. At least one part.
    Identifier(Vec<Ident>),
    /// A constant.
    Literal(Literal),
    /// `op e`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        expr: Box<Expr>,
    },
    /// `left op right`.
    Binary {
        /// Left operand.
        left: Box<Expr>,
        /// The operator.
        op: BinaryOp,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `e IS [NOT] ...`.
    Is {
        /// What is tested.
        expr: Box<Expr>,
        /// The test.
        test: IsTest,
        /// `IS NOT`.
        negated: bool,
    },
    /// `a IS [NOT] DISTINCT FROM b`.
    IsDistinctFrom {
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
        /// `IS NOT DISTINCT FROM`.
        negated: bool,
    },
    /// `e [NOT] BETWEEN [ASYMMETRIC | SYMMETRIC] low AND high`.
    Between {
        /// What is tested.
        expr: Box<Expr>,
        /// Lower bound.
        low: Box<Expr>,
        /// Upper bound.
        high: Box<Expr>,
        /// `SYMMETRIC`.
        symmetric: bool,
        /// `NOT BETWEEN`.
        negated: bool,
    },
    /// `e [NOT] IN (a, b, ...)`.
    InList {
        /// What is tested.
        expr: Box<Expr>,
        /// At least one.
        list: Vec<Expr>,
        /// `NOT IN`.
        negated: bool,
    },
    /// `e [NOT] IN (query)`; `e` may be a [`ExprKind::Row`].
    InSubquery {
        /// What is tested.
        expr: Box<Expr>,
        /// The query.
        query: Box<Query>,
        /// `NOT IN`.
        negated: bool,
    },
    /// `e op ANY|SOME|ALL (query | list)`.
    Quantified {
        /// Left operand.
        left: Box<Expr>,
        /// The comparison.
        op: BinaryOp,
        /// `ALL`; `ANY` and `SOME` are the same.
        all: bool,
        /// Right side.
        right: Box<QuantifiedSet>,
    },
    /// `EXISTS (query)`; `NOT EXISTS` is a [`UnaryOp::Not`] around it.
    Exists(Box<Query>),
    /// `UNIQUE (query)`.
    Unique(Box<Query>),
    /// `(query)` as a value.
    Subquery(Box<Query>),
    /// `e [NOT] LIKE pattern [ESCAPE c]` and its kin.
    Like {
        /// Which one.
        kind: LikeKind,
        /// What is tested.
        expr: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// After `ESCAPE`.
        escape: Option<Box<Expr>>,
        /// `NOT LIKE`.
        negated: bool,
    },
    /// `CASE [operand] WHEN c THEN v ... [ELSE e] END`.
    Case {
        /// Of a simple `CASE`.
        operand: Option<Box<Expr>>,
        /// Condition and result; a simple `CASE` may list several values per `WHEN`.
        branches: Vec<(Vec<Expr>, Expr)>,
        /// `ELSE`.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(e AS t)` or `TRY_CAST(e AS t)`.
    Cast {
        /// What is cast.
        expr: Box<Expr>,
        /// To what.
        ty: DataType,
        /// `TRY_CAST`.
        lenient: bool,
    },
    /// A call.
    Function(Box<FunctionCall>),
    /// `EXTRACT(unit FROM e)`.
    Extract {
        /// The unit.
        unit: TimeUnit,
        /// From what.
        expr: Box<Expr>,
    },
    /// `FLOOR(e TO unit)` or `CEIL(e TO unit)`; without `TO` both are plain calls.
    RoundTo {
        /// True for `CEIL`.
        ceil: bool,
        /// What is rounded.
        expr: Box<Expr>,
        /// To what.
        unit: TimeUnit,
    },
    /// `TIMESTAMPADD(unit, count, e)`.
    TimestampAdd {
        /// The unit.
        unit: TimeUnit,
        /// How many.
        count: Box<Expr>,
        /// To what.
        expr: Box<Expr>,
    },
    /// `TIMESTAMPDIFF(unit, from, to)`.
    TimestampDiff {
        /// The unit.
        unit: TimeUnit,
        /// Earlier.
        from: Box<Expr>,
        /// Later.
        to: Box<Expr>,
    },
    /// `(end - start) unit`: the difference as an interval.
    DateTimeDifference {
        /// Later.
        end: Box<Expr>,
        /// Earlier.
        start: Box<Expr>,
        /// Of the result.
        qualifier: IntervalQualifier,
    },
    /// `TRIM([BOTH | LEADING | TRAILING] [chars] FROM s)`, also `TRIM(s)`.
    Trim {
        /// Which end.
        side: TrimSide,
        /// What is removed; a space if absent.
        chars: Option<Box<Expr>>,
        /// From what.
        expr: Box<Expr>,
    },
    /// `SUBSTRING(s FROM start [FOR length])`; with commas it is a plain call.
    Substring {
        /// The string.
        expr: Box<Expr>,
        /// From 1.
        start: Box<Expr>,
        /// Characters.
        length: Option<Box<Expr>>,
    },
    /// `POSITION(needle IN s [FROM start])`.
    Position {
        /// What is sought.
        needle: Box<Expr>,
        /// Where.
        expr: Box<Expr>,
        /// From which character.
        start: Option<Box<Expr>>,
    },
    /// `OVERLAY(s PLACING new FROM start [FOR length])`.
    Overlay {
        /// The string.
        expr: Box<Expr>,
        /// What is put in.
        placing: Box<Expr>,
        /// From 1.
        start: Box<Expr>,
        /// Characters replaced.
        length: Option<Box<Expr>>,
    },
    /// `JSON_VALUE`, `JSON_QUERY`, `JSON_EXISTS`, `JSON_OBJECT`, ...
    Json(Box<JsonCall>),
    /// `ARRAY[...]`.
    Array(Vec<Expr>),
    /// `ARRAY(query)`.
    ArrayQuery(Box<Query>),
    /// `MAP[k, v, ...]`: pairs.
    Map(Vec<(Expr, Expr)>),
    /// `MAP(query)`.
    MapQuery(Box<Query>),
    /// `MULTISET[...]`.
    Multiset(Vec<Expr>),
    /// `ROW(a, b)` or `(a, b)`.
    Row {
        /// Fields.
        fields: Vec<Expr>,
        /// True for `ROW(...)`.
        explicit: bool,
    },
    /// `e.name` where `e` is not a plain name: `f(x).name`, `a[1].name`.
    Field {
        /// The row.
        expr: Box<Expr>,
        /// The field.
        name: Ident,
    },
    /// `e[index]`.
    Index {
        /// The array, map or row.
        expr: Box<Expr>,
        /// The index or key.
        index: Box<Expr>,
    },
    /// `e AT LOCAL` or `e AT TIME ZONE z`, which Flink refuses.
    AtTimeZone {
        /// The timestamp.
        expr: Box<Expr>,
        /// `None` for `LOCAL`.
        zone: Option<Box<Expr>>,
    },
    /// `e COLLATE name`.
    Collate {
        /// The string.
        expr: Box<Expr>,
        /// The collation.
        collation: String,
    },
    /// `DESCRIPTOR(a, b)`: only as an argument of a table function.
    Descriptor(Vec<Ident>),
    /// `TABLE name [PARTITION BY ...] [ORDER BY ...]` or `(query) PARTITION BY ...`: only as an
    /// argument of a table function.
    TableArgument(Box<TableArgument>),
    /// `DEFAULT`: as an argument, or a value of `INSERT`.
    Default,
    /// `NEXT VALUE FOR sequence` and `CURRENT VALUE FOR sequence`, which nothing supports.
    Sequence(ObjectName),
}

/// The right side of `= ANY (...)`.
#[derive(Clone, Debug, PartialEq)]
pub enum QuantifiedSet {
    /// A query.
    Query(Box<Query>),
    /// Values.
    List(Vec<Expr>),
}

/// A constant, in the text that was written where that decides its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `NULL`.
    Null,
    /// `TRUE`, `FALSE`.
    Boolean(bool),
    /// `UNKNOWN`: a NULL boolean.
    Unknown,
    /// Digits only; `INT`, or `BIGINT` if it does not fit. Checked to fit `BIGINT`.
    Integer(String),
    /// Digits with a point; `DECIMAL`.
    Decimal(String),
    /// With an exponent; `DOUBLE`. Checked to be finite.
    Double(String),
    /// A string, unescaped; `CHAR(n)`.
    String(String),
    /// `x'CAFE'`; `BINARY(n)`.
    Binary(Vec<u8>),
    /// `DATE '2024-01-01'`: the text in quotes.
    Date(String),
    /// `TIME '10:00:00'`.
    Time(String),
    /// `TIMESTAMP '2024-01-01 10:00:00'`.
    Timestamp(String),
    /// `TIMESTAMP WITH LOCAL TIME ZONE '...'`.
    TimestampLtz(String),
    /// `INTERVAL [-] 'value' unit`.
    Interval {
        /// The text in quotes.
        value: String,
        /// After a minus sign.
        negative: bool,
        /// The units.
        qualifier: IntervalQualifier,
    },
    /// `INTERVAL e unit` with an expression instead of a string: `INTERVAL 1 DAY`.
    IntervalExpr {
        /// How many.
        count: Box<Expr>,
        /// The units.
        qualifier: IntervalQualifier,
    },
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`.
    Minus,
    /// `+`.
    Plus,
    /// `NOT`.
    Not,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Or,
    And,
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    Plus,
    Minus,
    Multiply,
    Divide,
    /// `%`.
    Modulo,
    /// `||`.
    Concat,
    /// `OVERLAPS` and its kin: both sides are rows of two, or periods.
    Overlaps,
    Contains,
    Precedes,
    ImmediatelyPrecedes,
    Succeeds,
    ImmediatelySucceeds,
    PeriodEquals,
    MultisetUnion,
    MultisetUnionAll,
    MultisetIntersect,
    MultisetIntersectAll,
    MultisetExcept,
    MultisetExceptAll,
    MemberOf,
    SubmultisetOf,
}

impl BinaryOp {
    /// As written in SQL.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Or => "OR",
            BinaryOp::And => "AND",
            BinaryOp::Eq => "=",
            BinaryOp::NotEq => "<>",
            BinaryOp::Lt => "<",
            BinaryOp::LtEq => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::GtEq => ">=",
            BinaryOp::Plus => "+",
            BinaryOp::Minus => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::Concat => "||",
            BinaryOp::Overlaps => "OVERLAPS",
            BinaryOp::Contains => "CONTAINS",
            BinaryOp::Precedes => "PRECEDES",
            BinaryOp::ImmediatelyPrecedes => "IMMEDIATELY PRECEDES",
            BinaryOp::Succeeds => "SUCCEEDS",
            BinaryOp::ImmediatelySucceeds => "IMMEDIATELY SUCCEEDS",
            BinaryOp::PeriodEquals => "EQUALS",
            BinaryOp::MultisetUnion => "MULTISET UNION",
            BinaryOp::MultisetUnionAll => "MULTISET UNION ALL",
            BinaryOp::MultisetIntersect => "MULTISET INTERSECT",
            BinaryOp::MultisetIntersectAll => "MULTISET INTERSECT ALL",
            BinaryOp::MultisetExcept => "MULTISET EXCEPT",
            BinaryOp::MultisetExceptAll => "MULTISET EXCEPT ALL",
            BinaryOp::MemberOf => "MEMBER OF",
            BinaryOp::SubmultisetOf => "SUBMULTISET OF",
        }
    }
}

/// What follows `IS [NOT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IsTest {
    Null,
    True,
    False,
    Unknown,
    /// `IS JSON`, `IS JSON VALUE`.
    JsonValue,
    JsonObject,
    JsonArray,
    JsonScalar,
    /// `IS A SET`.
    ASet,
    /// `IS EMPTY`.
    Empty,
}

/// Pattern tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LikeKind {
    Like,
    ILike,
    Similar,
    RLike,
}

/// Which end `TRIM` trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TrimSide {
    Both,
    Leading,
    Trailing,
}

/// A call in the common form.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    /// The name; usually one part.
    pub name: ObjectName,
    /// False for a function that needs no parentheses and had none: `CURRENT_TIMESTAMP`.
    pub parens: bool,
    /// `f(DISTINCT ..)`, `f(ALL ..)`.
    pub quantifier: Option<SetQuantifier>,
    /// `f(*)`; then `args` is empty.
    pub star: bool,
    /// Arguments.
    pub args: Vec<FunctionArg>,
    /// `ORDER BY` inside the parentheses.
    pub order_by: Vec<OrderItem>,
    /// `WITHIN GROUP (ORDER BY ..)`.
    pub within_group: Vec<OrderItem>,
    /// `IGNORE NULLS` or `RESPECT NULLS`.
    pub nulls: Option<NullTreatment>,
    /// `FILTER (WHERE ..)`.
    pub filter: Option<Expr>,
    /// `OVER ..`.
    pub over: Option<Over>,
    /// `RUNNING f(..)` or `FINAL f(..)` in `MATCH_RECOGNIZE`.
    pub match_semantics: Option<MatchSemantics>,
}

/// `DISTINCT` or `ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SetQuantifier {
    Distinct,
    All,
}

/// What an aggregate does with NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NullTreatment {
    Ignore,
    Respect,
}

/// Which rows of a match a function sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MatchSemantics {
    Running,
    Final,
}

/// An argument, `name => value` if named.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionArg {
    /// Before `=>`.
    pub name: Option<Ident>,
    /// The value.
    pub value: Expr,
}

/// A table as an argument.
#[derive(Clone, Debug, PartialEq)]
pub struct TableArgument {
    /// The table or query.
    pub input: TableArgumentInput,
    /// `PARTITION BY`.
    pub partition_by: Vec<Expr>,
    /// `ORDER BY`.
    pub order_by: Vec<OrderItem>,
    /// Where.
    pub span: Span,
}

/// What a table argument reads.
#[derive(Clone, Debug, PartialEq)]
pub enum TableArgumentInput {
    /// `TABLE name`.
    Table(ObjectName),
    /// `TABLE(f(..))`, `TABLE (query)` or `(query)`.
    Query(Box<Query>),
}

/// What follows `OVER`.
#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    /// A window of the `WINDOW` clause.
    Named(Ident),
    /// `( ... )`.
    Spec(WindowSpec),
}

/// A JSON function with its clauses.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonCall {
    /// `JSON_EXISTS(input, path [TRUE|FALSE|UNKNOWN|ERROR ON ERROR])`.
    Exists {
        /// The document.
        input: Expr,
        /// The path.
        path: Expr,
        /// On error.
        on_error: Option<JsonExistsOnError>,
    },
    /// `JSON_VALUE(input, path [RETURNING t] [.. ON EMPTY] [.. ON ERROR])`.
    Value {
        /// The document.
        input: Expr,
        /// The path.
        path: Expr,
        /// `RETURNING`.
        returning: Option<DataType>,
        /// On empty.
        on_empty: Option<JsonValueBehavior>,
        /// On error.
        on_error: Option<JsonValueBehavior>,
    },
    /// `JSON_QUERY(input, path [RETURNING t] [wrapper] [.. ON EMPTY] [.. ON ERROR])`.
    Query {
        /// The document.
        input: Expr,
        /// The path.
        path: Expr,
        /// `RETURNING`.
        returning: Option<DataType>,
        /// `WITH .. WRAPPER`.
        wrapper: Option<JsonWrapper>,
        /// On empty.
        on_empty: Option<JsonQueryBehavior>,
        /// On error.
        on_error: Option<JsonQueryBehavior>,
    },
    /// `JSON_OBJECT([KEY k VALUE v, ...] [.. ON NULL])`.
    Object {
        /// Key and value.
        entries: Vec<(Expr, Expr)>,
        /// On NULL.
        on_null: Option<JsonOnNull>,
    },
    /// `JSON_ARRAY([v, ...] [.. ON NULL])`.
    Array {
        /// Values.
        items: Vec<Expr>,
        /// On NULL.
        on_null: Option<JsonOnNull>,
    },
    /// `JSON_OBJECTAGG([KEY] k VALUE v [.. ON NULL])`.
    ObjectAgg {
        /// Key.
        key: Expr,
        /// Value.
        value: Expr,
        /// On NULL.
        on_null: Option<JsonOnNull>,
        /// `FILTER (WHERE ..)`.
        filter: Option<Expr>,
    },
    /// `JSON_ARRAYAGG(v [ORDER BY ..] [.. ON NULL])`.
    ArrayAgg {
        /// Value.
        value: Expr,
        /// `ORDER BY` inside, or `WITHIN GROUP`.
        order_by: Vec<OrderItem>,
        /// On NULL.
        on_null: Option<JsonOnNull>,
        /// `FILTER (WHERE ..)`.
        filter: Option<Expr>,
    },
}

/// `JSON_EXISTS .. ON ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JsonExistsOnError {
    True,
    False,
    Unknown,
    Error,
}

/// `JSON_VALUE .. ON EMPTY | ERROR`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum JsonValueBehavior {
    Error,
    Null,
    Default(Expr),
}

/// `JSON_QUERY .. ON EMPTY | ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JsonQueryBehavior {
    Error,
    Null,
    EmptyArray,
    EmptyObject,
}

/// `JSON_QUERY .. WRAPPER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JsonWrapper {
    Without,
    WithConditional,
    WithUnconditional,
}

/// `NULL ON NULL` or `ABSENT ON NULL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum JsonOnNull {
    Null,
    Absent,
}
