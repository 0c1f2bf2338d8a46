//! Definitions of tables and views.

use super::{DataType, Expr, Ident, ObjectName, Options, Query, Span};

/// `CREATE TABLE` and `REPLACE TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// `OR REPLACE`, or `REPLACE TABLE`.
    pub or_replace: bool,
    /// `TEMPORARY`.
    pub temporary: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// `WATERMARK FOR`; more than one is refused later.
    pub watermarks: Vec<WatermarkDef>,
    /// Table constraints, and those written at a column.
    pub constraints: Vec<Constraint>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `DISTRIBUTED`.
    pub distribution: Option<Distribution>,
    /// `PARTITIONED BY`.
    pub partitioned_by: Vec<Ident>,
    /// `WITH`.
    pub options: Options,
    /// `LIKE`.
    pub like: Option<Like>,
    /// `AS query`. Columns without a type in `columns` are then only names ([`ColumnKind::NameOnly`]).
    pub as_query: Option<Query>,
    /// Where.
    pub span: Span,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Name.
    pub name: Ident,
    /// Which kind.
    pub kind: ColumnKind,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// Where.
    pub span: Span,
}

/// The kinds of column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// `name type`.
    Physical(DataType),
    /// `name type METADATA [FROM 'key'] [VIRTUAL]`.
    Metadata {
        /// Type.
        ty: DataType,
        /// The connector's key; the column's name if absent.
        key: Option<String>,
        /// `VIRTUAL`.
        is_virtual: bool,
    },
    /// `name AS expr`.
    Computed {
        /// The expression.
        expr: Expr,
        /// Its text as written.
        text: String,
    },
    /// `name` alone: only in `CREATE TABLE .. AS query`.
    NameOnly,
}

/// `WATERMARK FOR column AS expr`.
#[derive(Clone, Debug, PartialEq)]
pub struct WatermarkDef {
    /// The column, or the path of a nested field.
    pub column: Vec<Ident>,
    /// The expression.
    pub expr: Expr,
    /// Its text as written.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// `[CONSTRAINT name] PRIMARY KEY | UNIQUE (columns) [NOT] ENFORCED`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// Name.
    pub name: Option<Ident>,
    /// `PRIMARY KEY`; else `UNIQUE`.
    pub primary: bool,
    /// Columns.
    pub columns: Vec<Ident>,
    /// `ENFORCED` is true; nothing written is `None`, which means enforced.
    pub enforced: Option<bool>,
    /// Where.
    pub span: Span,
}

/// `DISTRIBUTED BY [HASH | RANGE] (columns) [INTO n BUCKETS]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// `HASH` or `RANGE`.
    pub kind: Option<String>,
    /// Columns.
    pub columns: Vec<Ident>,
    /// `INTO n BUCKETS`.
    pub buckets: Option<u32>,
}

/// `LIKE name (options)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    /// The base table.
    pub name: ObjectName,
    /// Options in order.
    pub options: Vec<LikeOption>,
}

/// `INCLUDING ALL`, `OVERWRITING OPTIONS`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeOption {
    /// How.
    pub strategy: LikeStrategy,
    /// What.
    pub feature: LikeFeature,
}

/// How a feature of the base table is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LikeStrategy {
    Including,
    Excluding,
    Overwriting,
}

/// What is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LikeFeature {
    All,
    Constraints,
    Distribution,
    Generated,
    Metadata,
    Options,
    Partitions,
    Watermarks,
}

impl LikeFeature {
    /// The keyword.
    pub fn name(self) -> &'static str {
        match self {
            LikeFeature::All => "ALL",
            LikeFeature::Constraints => "CONSTRAINTS",
            LikeFeature::Distribution => "DISTRIBUTION",
            LikeFeature::Generated => "GENERATED",
            LikeFeature::Metadata => "METADATA",
            LikeFeature::Options => "OPTIONS",
            LikeFeature::Partitions => "PARTITIONS",
            LikeFeature::Watermarks => "WATERMARKS",
        }
    }
}

/// `CREATE VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// `OR REPLACE`.
    pub or_replace: bool,
    /// `TEMPORARY`.
    pub temporary: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// Column names, if given.
    pub columns: Vec<Ident>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// The query.
    pub query: Query,
    /// The query's text as written.
    pub query_text: String,
    /// Where.
    pub span: Span,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// What.
    pub action: AlterAction,
}

/// What `ALTER TABLE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// `RENAME TO name`.
    RenameTo(ObjectName),
    /// `RENAME a TO b`.
    RenameColumn(Ident, Ident),
    /// `SET (..)`.
    Set(Options),
    /// `RESET (..)`.
    Reset(Vec<String>),
    /// `ADD` elements.
    Add(AlterElements),
    /// `MODIFY` elements.
    Modify(AlterElements),
    /// `DROP column` or `DROP (columns)`.
    DropColumns(Vec<Ident>),
    /// `DROP PRIMARY KEY`.
    DropPrimaryKey,
    /// `DROP CONSTRAINT name`.
    DropConstraint(Ident),
    /// `DROP WATERMARK`.
    DropWatermark,
    /// `ADD DISTRIBUTION ..`, `MODIFY DISTRIBUTION ..` (None: `DROP DISTRIBUTION`).
    Distribution(Option<Distribution>),
    /// `ADD | DROP PARTITION ..`: parsed to be refused.
    Partition(&'static str),
}

/// The elements of `ADD` and `MODIFY`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterElements {
    /// Columns and where they go.
    pub columns: Vec<(ColumnDef, Option<ColumnPosition>)>,
    /// Watermarks.
    pub watermarks: Vec<WatermarkDef>,
    /// Constraints.
    pub constraints: Vec<Constraint>,
}

/// `FIRST` or `AFTER column`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ColumnPosition {
    First,
    After(Ident),
}
