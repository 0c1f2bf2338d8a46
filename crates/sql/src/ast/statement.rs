//! Statements.

use super::{AlterTable, CreateTable, CreateView, Expr, Hint, Ident, ObjectName, Options, Query, Span};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `CREATE TABLE`, `REPLACE TABLE`.
    CreateTable(Box<CreateTable>),
    /// `CREATE VIEW`.
    CreateView(Box<CreateView>),
    /// `CREATE CATALOG`.
    CreateCatalog {
        /// Name.
        name: Ident,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// `COMMENT`.
        comment: Option<String>,
        /// `WITH`.
        options: Options,
    },
    /// `CREATE DATABASE`.
    CreateDatabase {
        /// Name.
        name: ObjectName,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// `COMMENT`.
        comment: Option<String>,
        /// `WITH`.
        options: Options,
    },
    /// `CREATE FUNCTION`.
    CreateFunction(CreateFunction),
    /// `ALTER TABLE`.
    AlterTable(Box<AlterTable>),
    /// `ALTER VIEW name RENAME TO new`.
    RenameView(ObjectName, ObjectName),
    /// `ALTER VIEW name AS query`.
    AlterView {
        /// Name.
        name: ObjectName,
        /// The new query.
        query: Box<Query>,
        /// Its text as written.
        query_text: String,
    },
    /// `ALTER DATABASE name SET (..)`.
    AlterDatabase {
        /// Name.
        name: ObjectName,
        /// New options.
        options: Options,
    },
    /// `ALTER CATALOG name ...`.
    AlterCatalog {
        /// Name.
        name: Ident,
        /// What.
        action: AlterCatalog,
    },
    /// `DROP ...`.
    Drop(Drop),
    /// `USE [catalog.]database`.
    Use(ObjectName),
    /// `USE CATALOG name`.
    UseCatalog(Ident),
    /// `SET ['key' = 'value']`.
    Set(Option<(String, String)>),
    /// `RESET ['key']`.
    Reset(Option<String>),
    /// `SHOW ...`.
    Show(Show),
    /// `DESCRIBE [EXTENDED] name`.
    Describe {
        /// Which kind of object.
        object: ObjectKind,
        /// `EXTENDED`.
        extended: bool,
        /// Name.
        name: ObjectName,
    },
    /// `EXPLAIN`.
    Explain {
        /// `ESTIMATED_COST`, `CHANGELOG_MODE`, `JSON_EXECUTION_PLAN`, `PLAN_ADVICE`.
        details: Vec<String>,
        /// A query, an insert, a statement set or a `CREATE TABLE AS`.
        statement: Box<Statement>,
    },
    /// `INSERT`.
    Insert(Box<Insert>),
    /// `EXECUTE STATEMENT SET BEGIN ... END`.
    StatementSet(Vec<Insert>),
    /// `BEGIN STATEMENT SET`.
    BeginStatementSet,
    /// `END` of a statement set begun by [`Statement::BeginStatementSet`].
    EndStatementSet,
    /// A query.
    Query(Box<Query>),
    /// `ADD JAR 'path'`.
    AddJar(String),
    /// `REMOVE JAR 'path'`.
    RemoveJar(String),
    /// `QUIT`, `EXIT`.
    Quit,
    /// `CLEAR`.
    Clear,
    /// `HELP`.
    Help,
    /// `STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]`.
    StopJob {
        /// The job's id.
        id: String,
        /// `WITH SAVEPOINT`.
        savepoint: bool,
        /// `WITH DRAIN`.
        drain: bool,
    },
    /// A statement that Flink parses and Tidegate does not run: its name, as in `TRUNCATE TABLE`.
    Unsupported {
        /// Its leading words.
        name: &'static str,
        /// Where it starts.
        span: Span,
    },
}

/// `INSERT INTO | OVERWRITE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// `OVERWRITE`.
    pub overwrite: bool,
    /// `UPSERT INTO`.
    pub upsert: bool,
    /// The table.
    pub target: ObjectName,
    /// `/*+ OPTIONS(..) */` at the table.
    pub hints: Vec<Hint>,
    /// `PARTITION (column = literal, ..)`.
    pub partition: Vec<(Ident, Expr)>,
    /// Columns, if listed.
    pub columns: Vec<Ident>,
    /// What is inserted.
    pub source: Query,
    /// `ON CONFLICT DO ..`.
    pub on_conflict: Option<OnConflict>,
    /// Where.
    pub span: Span,
}

/// `ON CONFLICT DO ..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OnConflict {
    Nothing,
    Error,
    Deduplicate,
}

/// `CREATE FUNCTION name AS 'class'`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// `TEMPORARY`.
    pub temporary: bool,
    /// `SYSTEM`.
    pub system: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// The class.
    pub class: String,
    /// `LANGUAGE`.
    pub language: Option<String>,
}

/// What `ALTER CATALOG` does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum AlterCatalog {
    Set(Options),
    Reset(Vec<String>),
    Comment(String),
}

/// What can be dropped, described or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Table,
    View,
    Database,
    Catalog,
    Function,
    Model,
    Connection,
    MaterializedTable,
    Job,
}

impl ObjectKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Table => "TABLE",
            ObjectKind::View => "VIEW",
            ObjectKind::Database => "DATABASE",
            ObjectKind::Catalog => "CATALOG",
            ObjectKind::Function => "FUNCTION",
            ObjectKind::Model => "MODEL",
            ObjectKind::Connection => "CONNECTION",
            ObjectKind::MaterializedTable => "MATERIALIZED TABLE",
            ObjectKind::Job => "JOB",
        }
    }
}

/// `DROP [TEMPORARY] kind [IF EXISTS] name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// Which kind of object.
    pub object: ObjectKind,
    /// `TEMPORARY`.
    pub temporary: bool,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// `CASCADE`.
    pub cascade: bool,
}

/// `SHOW ...`.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// A list.
    List {
        /// Of what.
        what: ShowList,
        /// `FROM | IN name`.
        from: Option<ObjectName>,
        /// `[NOT] LIKE | ILIKE 'pattern'`.
        like: Option<ShowLike>,
    },
    /// `SHOW CURRENT CATALOG`.
    CurrentCatalog,
    /// `SHOW CURRENT DATABASE`.
    CurrentDatabase,
    /// `SHOW CREATE kind name`.
    Create(ObjectKind, ObjectName),
}

/// What `SHOW` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShowList {
    Catalogs,
    Databases,
    Tables,
    Views,
    MaterializedTables,
    Models,
    Columns,
    Functions,
    UserFunctions,
    Procedures,
    Partitions,
    Modules,
    FullModules,
    Jars,
    Jobs,
    Connections,
}

/// A filter of `SHOW`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShowLike {
    /// `NOT`.
    pub negated: bool,
    /// `ILIKE`.
    pub ignore_case: bool,
    /// With `%` and `_`.
    pub pattern: String,
}
