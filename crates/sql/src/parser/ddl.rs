//! `CREATE` and `DROP`.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{
    ColumnDef, ColumnKind, Constraint, CreateFunction, CreateTable, CreateView, Distribution, Drop, Ident, Like,
    LikeFeature, LikeOption, LikeStrategy, ObjectKind, ObjectName, Query, Span, Statement, WatermarkDef,
};

/// The parts of a table's definition in parentheses.
#[derive(Default)]
pub(super) struct Elements {
    pub(super) columns: Vec<ColumnDef>,
    pub(super) watermarks: Vec<WatermarkDef>,
    pub(super) constraints: Vec<Constraint>,
}

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        let start = self.span();
        let replace = self.eat_word("REPLACE");
        let mut or_replace = replace;
        if !replace {
            self.expect_word("CREATE")?;
            or_replace = self.eat_words(&["OR", "REPLACE"]);
        }
        let temporary = !replace && self.eat_word("TEMPORARY");
        let system = temporary && self.eat_word("SYSTEM");
        let unsupported = |name| Ok(Statement::Unsupported { name, span: start });
        match self.upper().as_str() {
            "TABLE" => self.create_table(start, or_replace, temporary),
            "VIEW" if !replace => self.create_view(start, or_replace, temporary),
            "CATALOG" if !replace => self.create_catalog(),
            "DATABASE" if !replace => self.create_database(),
            "FUNCTION" if !replace => self.create_function(temporary, system),
            "MODEL" => self.skip_rest().and(unsupported("CREATE MODEL")),
            "CONNECTION" => self.skip_rest().and(unsupported("CREATE CONNECTION")),
            "MATERIALIZED" | "OR" => self.skip_rest().and(unsupported("CREATE MATERIALIZED TABLE")),
            _ => Err(self.unexpected(&["TABLE", "VIEW", "CATALOG", "DATABASE", "FUNCTION"])),
        }
    }

    /// Skips to the end of a statement that is refused anyway.
    pub(super) fn skip_rest(&mut self) -> Result<()> {
        use crate::lexer::Tok;
        loop {
            match self.peek().tok {
                Tok::Eof => return Ok(()),
                Tok::Invalid(_) => return Err(self.unexpected(&[])),
                _ => drop(self.bump()),
            }
        }
    }

    pub(super) fn if_not_exists(&mut self) -> bool {
        self.eat_words(&["IF", "NOT", "EXISTS"])
    }

    pub(super) fn if_exists(&mut self) -> bool {
        self.eat_words(&["IF", "EXISTS"])
    }

    fn create_table(&mut self, start: Span, or_replace: bool, temporary: bool) -> Result<Statement> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.object_name()?;
        let mut elements = Elements::default();
        if self.eat("(") && !self.eat(")") {
            self.comma_list(|p| p.table_element(&mut elements, true))?;
            self.expect(")")?;
        }
        let comment = self.comment()?;
        let distribution = if self.eat_word("DISTRIBUTED") { Some(self.distribution()?) } else { None };
        let partitioned_by = match self.eat_words(&["PARTITIONED", "BY"]) {
            true => self.ident_list()?,
            false => Vec::new(),
        };
        let options = self.with_options()?;
        let like = if self.eat_word("LIKE") { Some(self.like()?) } else { None };
        let as_query = if like.is_none() && self.eat_word("AS") { Some(self.query()?) } else { None };
        let name_only = elements.columns.iter().find(|c| c.kind == ColumnKind::NameOnly);
        if let (Some(column), None) = (name_only, &as_query) {
            let Span { line, end_column, .. } = column.span;
            return self.fail(format_args!(
                "Columns identifiers without types in the schema are supported on CTAS/RTAS statements only: '{}' at line {line}, column {end_column}.",
                column.name
            ));
        }
        Ok(Statement::CreateTable(Box::new(CreateTable {
            or_replace,
            temporary,
            if_not_exists,
            name,
            columns: elements.columns,
            watermarks: elements.watermarks,
            constraints: elements.constraints,
            comment,
            distribution,
            partitioned_by,
            options,
            like,
            as_query,
            span: self.span_from(start),
        })))
    }

    /// A column, watermark or constraint.
    pub(super) fn table_element(&mut self, into: &mut Elements, name_only: bool) -> Result<()> {
        match self.upper().as_str() {
            "WATERMARK" => {
                let watermark = self.watermark()?;
                into.watermarks.push(watermark);
            }
            "CONSTRAINT" | "PRIMARY" | "UNIQUE" => {
                let constraint = self.constraint(None)?;
                into.constraints.push(constraint);
            }
            _ => {
                let column = self.column(&mut into.constraints, name_only)?;
                into.columns.push(column);
            }
        }
        Ok(())
    }

    fn watermark(&mut self) -> Result<WatermarkDef> {
        let start = self.span();
        self.expect_words(&["WATERMARK", "FOR"])?;
        let column = self.path()?.parts;
        self.expect_word("AS")?;
        let first = self.pos;
        let expr = self.expr()?;
        Ok(WatermarkDef { column, expr, text: self.text_from(first), span: self.span_from(start) })
    }

    /// A table constraint; with a column, the constraint of that column.
    fn constraint(&mut self, column: Option<&Ident>) -> Result<Constraint> {
        let start = self.span();
        let name = if self.eat_word("CONSTRAINT") { Some(self.ident()?) } else { None };
        let primary = !self.eat_word("UNIQUE");
        if primary {
            self.expect_words(&["PRIMARY", "KEY"])?;
        }
        let columns = match column {
            Some(column) => vec![column.clone()],
            None => self.ident_list()?,
        };
        let enforced =
            if self.eat_words(&["NOT", "ENFORCED"]) { Some(false) } else { self.eat_word("ENFORCED").then_some(true) };
        Ok(Constraint { name, primary, columns, enforced, span: self.span_from(start) })
    }

    fn column(&mut self, constraints: &mut Vec<Constraint>, name_only: bool) -> Result<ColumnDef> {
        let start = self.span();
        let name = self.ident()?;
        if name_only && (self.is_punct(",") || self.is_punct(")")) {
            return Ok(ColumnDef { name, kind: ColumnKind::NameOnly, comment: None, span: start });
        }
        let kind = if self.eat_word("AS") {
            let first = self.pos;
            let expr = self.expr()?;
            ColumnKind::Computed { expr, text: self.text_from(first) }
        } else {
            let ty = self.data_type()?;
            if self.eat_word("METADATA") {
                let key = if self.eat_word("FROM") { Some(self.string()?) } else { None };
                ColumnKind::Metadata { ty, key, is_virtual: self.eat_word("VIRTUAL") }
            } else {
                if matches!(self.upper().as_str(), "CONSTRAINT" | "PRIMARY" | "UNIQUE") {
                    constraints.push(self.constraint(Some(&name))?);
                }
                ColumnKind::Physical(ty)
            }
        };
        let comment = self.comment()?;
        Ok(ColumnDef { name, kind, comment, span: self.span_from(start) })
    }

    /// After `DISTRIBUTED`.
    pub(super) fn distribution(&mut self) -> Result<Distribution> {
        let mut distribution = Distribution { kind: None, columns: Vec::new(), buckets: None };
        if self.eat_word("BY") {
            if matches!(self.upper().as_str(), "HASH" | "RANGE") {
                distribution.kind = Some(self.upper());
                self.bump();
            }
            distribution.columns = self.ident_list()?;
            if !self.is_word("INTO") {
                return Ok(distribution);
            }
        }
        self.expect_word("INTO")?;
        distribution.buckets = Some(self.uint()?);
        self.expect_word("BUCKETS")?;
        Ok(distribution)
    }

    fn like(&mut self) -> Result<Like> {
        let name = self.object_name()?;
        let mut options = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                options.push(self.like_option()?);
            }
        }
        Ok(Like { name, options })
    }

    fn like_option(&mut self) -> Result<LikeOption> {
        let strategy = match self.upper().as_str() {
            "INCLUDING" => LikeStrategy::Including,
            "EXCLUDING" => LikeStrategy::Excluding,
            "OVERWRITING" => LikeStrategy::Overwriting,
            _ => return Err(self.unexpected(&["INCLUDING", "EXCLUDING", "OVERWRITING", ")"])),
        };
        let start = self.span();
        self.bump();
        use LikeFeature::*;
        let features = [All, Constraints, Distribution, Generated, Metadata, Options, Partitions, Watermarks];
        let Some(feature) = features.into_iter().find(|f| self.is_word(f.name())) else {
            return Err(self.unexpected(&features.map(LikeFeature::name)));
        };
        self.bump();
        let overwritable = matches!(feature, Generated | Metadata | Options | Watermarks);
        if strategy == LikeStrategy::Overwriting && !overwritable {
            return self.fail(format_args!(
                "Illegal merging strategy 'OVERWRITING' for '{}' option at line {}, column {}.",
                feature.name(),
                start.line,
                start.column
            ));
        }
        Ok(LikeOption { strategy, feature })
    }

    fn create_view(&mut self, start: Span, or_replace: bool, temporary: bool) -> Result<Statement> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.object_name()?;
        let columns = if self.is_punct("(") { self.ident_list()? } else { Vec::new() };
        let comment = self.comment()?;
        self.expect_word("AS")?;
        let (query, query_text) = self.query_with_text()?;
        Ok(Statement::CreateView(Box::new(CreateView {
            or_replace,
            temporary,
            if_not_exists,
            name,
            columns,
            comment,
            query,
            query_text,
            span: self.span_from(start),
        })))
    }

    pub(super) fn query_with_text(&mut self) -> Result<(Query, String)> {
        let first = self.pos;
        let query = self.query()?;
        Ok((query, self.text_from(first)))
    }

    fn create_catalog(&mut self) -> Result<Statement> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.ident()?;
        let comment = self.comment()?;
        Ok(Statement::CreateCatalog { name, if_not_exists, comment, options: self.with_options()? })
    }

    fn create_database(&mut self) -> Result<Statement> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.object_name()?;
        let comment = self.comment()?;
        Ok(Statement::CreateDatabase { name, if_not_exists, comment, options: self.with_options()? })
    }

    fn create_function(&mut self, temporary: bool, system: bool) -> Result<Statement> {
        self.bump();
        let if_not_exists = self.if_not_exists();
        let name = self.object_name()?;
        self.expect_word("AS")?;
        let class = self.string()?;
        let mut language = None;
        if self.eat_word("LANGUAGE") {
            language = Some(self.any_word()?.value);
        }
        if self.eat_word("USING") {
            self.comma_list(|p| {
                if !p.eat_word("JAR") {
                    p.expect_word("ARTIFACT")?;
                }
                p.string()
            })?;
        }
        self.with_options()?;
        let function = CreateFunction { temporary, system, if_not_exists, name, class, language };
        Ok(Statement::CreateFunction(function))
    }

    pub(super) fn drop_statement(&mut self) -> Result<Statement> {
        self.bump();
        let temporary = self.eat_word("TEMPORARY");
        if temporary {
            self.eat_word("SYSTEM");
        }
        let object = self.object_kind()?;
        let if_exists = self.if_exists();
        let name = match object {
            ObjectKind::Catalog => ObjectName { parts: vec![self.ident()?] },
            _ => self.object_name()?,
        };
        let cascade = object == ObjectKind::Database && self.eat_word("CASCADE");
        if object == ObjectKind::Database && !cascade {
            self.eat_word("RESTRICT");
        }
        Ok(Statement::Drop(Drop { object, temporary, if_exists, name, cascade }))
    }

    /// `TABLE`, `VIEW`, ...
    pub(super) fn object_kind(&mut self) -> Result<ObjectKind> {
        let kind = match self.upper().as_str() {
            "TABLE" => ObjectKind::Table,
            "VIEW" => ObjectKind::View,
            "DATABASE" => ObjectKind::Database,
            "CATALOG" => ObjectKind::Catalog,
            "FUNCTION" => ObjectKind::Function,
            "MODEL" => ObjectKind::Model,
            "CONNECTION" => ObjectKind::Connection,
            "MATERIALIZED" if self.is_word_at(1, "TABLE") => {
                self.bump();
                ObjectKind::MaterializedTable
            }
            _ => return Err(self.unexpected(&["TABLE", "VIEW", "DATABASE", "CATALOG", "FUNCTION"])),
        };
        self.bump();
        Ok(kind)
    }
}
