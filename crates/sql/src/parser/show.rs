//! `SHOW` and `DESCRIBE`.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{ObjectKind, ObjectName, Show, ShowLike, ShowList, Statement};
use crate::lexer::Tok;

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Result<Statement> {
        self.bump();
        if self.eat_word("CREATE") {
            self.eat_words(&["OR", "ALTER"]);
            let kind = self.object_kind()?;
            return Ok(Statement::Show(Show::Create(kind, self.object_name()?)));
        }
        if self.eat_words(&["CURRENT", "CATALOG"]) {
            return Ok(Statement::Show(Show::CurrentCatalog));
        }
        if self.eat_words(&["CURRENT", "DATABASE"]) {
            return Ok(Statement::Show(Show::CurrentDatabase));
        }
        let what = self.show_list()?;
        let needs_name = matches!(what, ShowList::Columns);
        let mut from = None;
        if what == ShowList::Partitions {
            from = Some(self.object_name()?);
            self.skip_rest()?;
        } else if self.eat_word("FROM") || self.eat_word("IN") {
            from = Some(self.object_name()?);
        } else if needs_name {
            return Err(self.unexpected(&["FROM", "IN"]));
        }
        let like = self.show_like()?;
        Ok(Statement::Show(Show::List { what, from, like }))
    }

    fn show_list(&mut self) -> Result<ShowList> {
        let table: &[(&[&str], ShowList)] = &[
            (&["CATALOGS"], ShowList::Catalogs),
            (&["DATABASES"], ShowList::Databases),
            (&["TABLES"], ShowList::Tables),
            (&["VIEWS"], ShowList::Views),
            (&["MATERIALIZED", "TABLES"], ShowList::MaterializedTables),
            (&["MODELS"], ShowList::Models),
            (&["COLUMNS"], ShowList::Columns),
            (&["FUNCTIONS"], ShowList::Functions),
            (&["USER", "FUNCTIONS"], ShowList::UserFunctions),
            (&["PROCEDURES"], ShowList::Procedures),
            (&["PARTITIONS"], ShowList::Partitions),
            (&["MODULES"], ShowList::Modules),
            (&["FULL", "MODULES"], ShowList::FullModules),
            (&["JARS"], ShowList::Jars),
            (&["JOBS"], ShowList::Jobs),
            (&["CONNECTIONS"], ShowList::Connections),
        ];
        for (words, what) in table {
            if self.eat_words(words) {
                return Ok(*what);
            }
        }
        Err(self.unexpected(&["CATALOGS", "DATABASES", "TABLES", "VIEWS", "COLUMNS", "FUNCTIONS", "CREATE", "CURRENT"]))
    }

    fn show_like(&mut self) -> Result<Option<ShowLike>> {
        let negated = self.eat_word("NOT");
        let ignore_case = self.is_word("ILIKE");
        if !self.eat_word("LIKE") && !self.eat_word("ILIKE") {
            return if negated { Err(self.unexpected(&["LIKE", "ILIKE"])) } else { Ok(None) };
        }
        Ok(Some(ShowLike { negated, ignore_case, pattern: self.string()? }))
    }

    pub(super) fn describe(&mut self) -> Result<Statement> {
        self.bump();
        let object = match self.upper().as_str() {
            "CATALOG" if !self.is_end_at(1) => ObjectKind::Catalog,
            "DATABASE" if !self.is_end_at(1) => ObjectKind::Database,
            "FUNCTION" => ObjectKind::Function,
            "MODEL" if !self.is_end_at(1) => ObjectKind::Model,
            "JOB" if matches!(self.peek_at(1).tok, Tok::String(_)) => ObjectKind::Job,
            _ => ObjectKind::Table,
        };
        if object != ObjectKind::Table {
            self.bump();
        }
        let extended = self.eat_word("EXTENDED");
        let name = match object {
            ObjectKind::Job => ObjectName { parts: vec![crate::ast::Ident::synthetic(self.string()?)] },
            _ => self.object_name()?,
        };
        Ok(Statement::Describe { object, extended, name })
    }

    fn is_end_at(&self, n: usize) -> bool {
        matches!(self.peek_at(n).tok, Tok::Eof | Tok::Punct(";" | "."))
    }
}
