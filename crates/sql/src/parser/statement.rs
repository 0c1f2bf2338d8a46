//! Statements but for DDL.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{Insert, OnConflict, Statement};
use crate::lexer::Tok;

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let start = self.span();
        if self.starts_query() || self.is_punct("(") {
            return self.query().map(|q| Statement::Query(Box::new(q)));
        }
        let unsupported = |name| Ok(Statement::Unsupported { name, span: start });
        match self.upper().as_str() {
            "CREATE" => self.create(),
            "REPLACE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop_statement(),
            "INSERT" | "UPSERT" => self.insert().map(|i| Statement::Insert(Box::new(i))),
            "EXECUTE" => self.execute(),
            "STATEMENT" if self.is_word_at(1, "SET") => self.statement_set(),
            "BEGIN" => {
                self.bump();
                self.expect_words(&["STATEMENT", "SET"])?;
                Ok(Statement::BeginStatementSet)
            }
            "END" => {
                self.bump();
                Ok(Statement::EndStatementSet)
            }
            "SET" => self.set(),
            "RESET" => self.reset(),
            "USE" => self.use_statement(),
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" => self.describe(),
            "EXPLAIN" => self.explain(),
            "ADD" | "REMOVE" => self.jar(),
            "QUIT" | "EXIT" => self.client_command(Statement::Quit),
            "CLEAR" => self.client_command(Statement::Clear),
            "HELP" => self.client_command(Statement::Help),
            "DELETE" => self.skip_rest().and(unsupported("DELETE")),
            "UPDATE" => self.skip_rest().and(unsupported("UPDATE")),
            "TRUNCATE" => self.skip_rest().and(unsupported("TRUNCATE TABLE")),
            "MERGE" => self.skip_rest().and(unsupported("MERGE")),
            "CALL" => self.skip_rest().and(unsupported("CALL")),
            "ANALYZE" => self.skip_rest().and(unsupported("ANALYZE TABLE")),
            "COMPILE" => self.skip_rest().and(unsupported("COMPILE PLAN")),
            "LOAD" => self.skip_rest().and(unsupported("LOAD MODULE")),
            "UNLOAD" => self.skip_rest().and(unsupported("UNLOAD MODULE")),
            "STOP" => self.stop_job(),
            _ => Err(self.unexpected(&[
                "SELECT", "INSERT", "CREATE", "ALTER", "DROP", "EXECUTE", "BEGIN", "END", "SET", "RESET", "USE",
                "SHOW", "DESCRIBE", "EXPLAIN", "WITH", "VALUES", "(",
            ])),
        }
    }

    fn client_command(&mut self, statement: Statement) -> Result<Statement> {
        self.bump();
        Ok(statement)
    }

    fn stop_job(&mut self) -> Result<Statement> {
        self.expect_words(&["STOP", "JOB"])?;
        let id = self.string()?;
        let savepoint = self.eat_words(&["WITH", "SAVEPOINT"]);
        let drain = self.eat_words(&["WITH", "DRAIN"]);
        if !savepoint && drain {
            return self.fail("WITH DRAIN could only be used after WITH SAVEPOINT.");
        }
        Ok(Statement::StopJob { id, savepoint, drain })
    }

    fn execute(&mut self) -> Result<Statement> {
        let start = self.span();
        self.bump();
        match self.upper().as_str() {
            "STATEMENT" => self.statement_set(),
            "INSERT" | "UPSERT" => self.insert().map(|i| Statement::Insert(Box::new(i))),
            "PLAN" => self.skip_rest().and(Ok(Statement::Unsupported { name: "EXECUTE PLAN", span: start })),
            _ => self.query().map(|q| Statement::Query(Box::new(q))),
        }
    }

    /// `STATEMENT SET BEGIN insert; ... END`.
    fn statement_set(&mut self) -> Result<Statement> {
        self.expect_words(&["STATEMENT", "SET", "BEGIN"])?;
        let mut inserts = Vec::new();
        loop {
            inserts.push(self.insert()?);
            self.expect(";")?;
            if self.eat_word("END") {
                return Ok(Statement::StatementSet(inserts));
            }
        }
    }

    fn insert(&mut self) -> Result<Insert> {
        let start = self.span();
        let upsert = self.eat_word("UPSERT");
        if !upsert {
            self.expect_word("INSERT")?;
        }
        let overwrite = !upsert && self.eat_word("OVERWRITE");
        if !overwrite && !self.eat_word("INTO") {
            return Err(self.unexpected(&["INTO", "OVERWRITE"]));
        }
        let target = self.object_name()?;
        let hints = self.hints()?;
        let partition = match self.eat_word("PARTITION") {
            true => self.paren_list(|p| {
                let column = p.ident()?;
                p.expect("=")?;
                Ok((column, p.expr()?))
            })?,
            false => Vec::new(),
        };
        let is_columns = self.is_punct("(") && !self.opens_query(self.pos);
        let columns = if is_columns { self.ident_list()? } else { Vec::new() };
        if !self.starts_query() && !self.is_punct("(") {
            return Err(self.unexpected(&["SELECT", "VALUES", "TABLE", "WITH", "("]));
        }
        let source = self.query()?;
        let mut on_conflict = None;
        if self.eat_words(&["ON", "CONFLICT", "DO"]) {
            on_conflict = Some(match self.upper().as_str() {
                "NOTHING" => OnConflict::Nothing,
                "ERROR" => OnConflict::Error,
                "DEDUPLICATE" => OnConflict::Deduplicate,
                _ => return Err(self.unexpected(&["NOTHING", "ERROR", "DEDUPLICATE"])),
            });
            self.bump();
        }
        let span = self.span_from(start);
        Ok(Insert { overwrite, upsert, target, hints, partition, columns, source, on_conflict, span })
    }

    fn set(&mut self) -> Result<Statement> {
        self.bump();
        if matches!(self.peek().tok, Tok::Eof | Tok::Punct(";")) {
            return Ok(Statement::Set(None));
        }
        let key = self.string()?;
        self.expect("=")?;
        Ok(Statement::Set(Some((key, self.string()?))))
    }

    fn reset(&mut self) -> Result<Statement> {
        self.bump();
        if matches!(self.peek().tok, Tok::Eof | Tok::Punct(";")) {
            return Ok(Statement::Reset(None));
        }
        self.string().map(|key| Statement::Reset(Some(key)))
    }

    fn use_statement(&mut self) -> Result<Statement> {
        let start = self.span();
        self.bump();
        if self.eat_word("MODULES") {
            self.skip_rest()?;
            return Ok(Statement::Unsupported { name: "USE MODULES", span: start });
        }
        if self.is_word("CATALOG") && self.is_name_at(1) {
            self.bump();
            return self.ident().map(Statement::UseCatalog);
        }
        self.object_name().map(Statement::Use)
    }

    fn jar(&mut self) -> Result<Statement> {
        let add = self.is_word("ADD");
        self.bump();
        self.expect_word("JAR")?;
        let path = self.string()?;
        Ok(if add { Statement::AddJar(path) } else { Statement::RemoveJar(path) })
    }

    fn explain(&mut self) -> Result<Statement> {
        const DETAILS: [&str; 4] = ["ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"];
        self.bump();
        let mut details = Vec::new();
        if self.eat_words(&["PLAN", "FOR"]) {
        } else if DETAILS.contains(&self.upper().as_str()) {
            details = self.comma_list(|p| {
                let word = p.upper();
                if !DETAILS.contains(&word.as_str()) {
                    return Err(p.unexpected(&DETAILS));
                }
                p.bump();
                Ok(word)
            })?;
        }
        let statement = match self.upper().as_str() {
            "INSERT" | "UPSERT" => Statement::Insert(Box::new(self.insert()?)),
            "EXECUTE" => self.execute()?,
            "STATEMENT" => self.statement_set()?,
            "CREATE" => match self.create()? {
                Statement::CreateTable(table) if table.as_query.is_some() => Statement::CreateTable(table),
                _ => return self.fail("EXPLAIN of CREATE is for CREATE TABLE ... AS only."),
            },
            _ if self.starts_query() || self.is_punct("(") => Statement::Query(Box::new(self.query()?)),
            _ => return Err(self.unexpected(&["SELECT", "INSERT", "EXECUTE", "STATEMENT", "WITH", "VALUES", "("])),
        };
        Ok(Statement::Explain { details, statement: Box::new(statement) })
    }
}
