//! `ALTER`.

use tidegate_api::Result;

use super::Parser;
use super::ddl::Elements;
use crate::ast::{AlterAction, AlterCatalog, AlterElements, AlterTable, ColumnPosition, Statement};

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Result<Statement> {
        let start = self.span();
        self.bump();
        let unsupported = |name| Ok(Statement::Unsupported { name, span: start });
        match self.upper().as_str() {
            "TABLE" => self.alter_table(),
            "VIEW" => self.alter_view(),
            "DATABASE" => {
                self.bump();
                let name = self.object_name()?;
                self.expect_word("SET")?;
                Ok(Statement::AlterDatabase { name, options: self.options()? })
            }
            "CATALOG" => self.alter_catalog(),
            "FUNCTION" | "TEMPORARY" => self.skip_rest().and(unsupported("ALTER FUNCTION")),
            "MODEL" => self.skip_rest().and(unsupported("ALTER MODEL")),
            "MATERIALIZED" => self.skip_rest().and(unsupported("ALTER MATERIALIZED TABLE")),
            _ => Err(self.unexpected(&["TABLE", "VIEW", "DATABASE", "CATALOG", "FUNCTION"])),
        }
    }

    fn alter_catalog(&mut self) -> Result<Statement> {
        self.bump();
        let name = self.ident()?;
        let action = if self.eat_word("SET") {
            AlterCatalog::Set(self.options()?)
        } else if self.eat_word("RESET") {
            AlterCatalog::Reset(self.paren_list(Self::string)?)
        } else if self.eat_word("COMMENT") {
            AlterCatalog::Comment(self.string()?)
        } else {
            return Err(self.unexpected(&["SET", "RESET", "COMMENT"]));
        };
        Ok(Statement::AlterCatalog { name, action })
    }

    fn alter_view(&mut self) -> Result<Statement> {
        self.bump();
        let name = self.object_name()?;
        if self.eat_word("RENAME") {
            self.expect_word("TO")?;
            return Ok(Statement::RenameView(name, self.object_name()?));
        }
        if !self.eat_word("AS") {
            return Err(self.unexpected(&["RENAME", "AS"]));
        }
        let (query, query_text) = self.query_with_text()?;
        Ok(Statement::AlterView { name, query: Box::new(query), query_text })
    }

    fn alter_table(&mut self) -> Result<Statement> {
        self.bump();
        let if_exists = self.if_exists();
        let name = self.object_name()?;
        let action = match self.upper().as_str() {
            "RENAME" => self.rename()?,
            "SET" => {
                self.bump();
                AlterAction::Set(self.options()?)
            }
            "RESET" => {
                self.bump();
                self.expect("(")?;
                let keys = if self.is_punct(")") { Vec::new() } else { self.comma_list(Self::string)? };
                self.expect(")")?;
                AlterAction::Reset(keys)
            }
            "ADD" | "MODIFY" => self.add_or_modify()?,
            "DROP" => self.drop_part()?,
            _ => return Err(self.unexpected(&["RENAME", "SET", "RESET", "ADD", "MODIFY", "DROP"])),
        };
        Ok(Statement::AlterTable(Box::new(AlterTable { if_exists, name, action })))
    }

    fn rename(&mut self) -> Result<AlterAction> {
        self.bump();
        if self.eat_word("TO") {
            return self.object_name().map(AlterAction::RenameTo);
        }
        let old = self.ident()?;
        self.expect_word("TO")?;
        Ok(AlterAction::RenameColumn(old, self.ident()?))
    }

    fn add_or_modify(&mut self) -> Result<AlterAction> {
        let add = self.eat_word("ADD");
        if !add {
            self.bump();
        }
        if add && (self.is_word("PARTITION") || self.are_words(&["IF", "NOT", "EXISTS", "PARTITION"])) {
            self.skip_rest()?;
            return Ok(AlterAction::Partition("ADD PARTITION"));
        }
        if self.eat_word("DISTRIBUTION") || self.eat_word("DISTRIBUTED") {
            return self.distribution().map(|d| AlterAction::Distribution(Some(d)));
        }
        let mut elements = AlterElements::default();
        if self.eat("(") {
            self.comma_list(|p| p.alter_element(&mut elements))?;
            self.expect(")")?;
        } else {
            self.alter_element(&mut elements)?;
        }
        Ok(if add { AlterAction::Add(elements) } else { AlterAction::Modify(elements) })
    }

    fn alter_element(&mut self, into: &mut AlterElements) -> Result<()> {
        let mut parsed = Elements::default();
        self.table_element(&mut parsed, false)?;
        into.watermarks.append(&mut parsed.watermarks);
        into.constraints.append(&mut parsed.constraints);
        if let Some(column) = parsed.columns.pop() {
            let position = if self.eat_word("FIRST") {
                Some(ColumnPosition::First)
            } else if self.eat_word("AFTER") {
                Some(ColumnPosition::After(self.ident()?))
            } else {
                None
            };
            into.columns.push((column, position));
        }
        Ok(())
    }

    fn drop_part(&mut self) -> Result<AlterAction> {
        self.bump();
        if self.is_word("PARTITION") || self.are_words(&["IF", "EXISTS", "PARTITION"]) {
            self.skip_rest()?;
            return Ok(AlterAction::Partition("DROP PARTITION"));
        }
        if self.eat_words(&["PRIMARY", "KEY"]) {
            return Ok(AlterAction::DropPrimaryKey);
        }
        if self.eat_word("CONSTRAINT") {
            return self.ident().map(AlterAction::DropConstraint);
        }
        if self.eat_word("WATERMARK") {
            return Ok(AlterAction::DropWatermark);
        }
        if self.eat_word("DISTRIBUTION") {
            return Ok(AlterAction::Distribution(None));
        }
        if self.is_punct("(") {
            return self.ident_list().map(AlterAction::DropColumns);
        }
        Ok(AlterAction::DropColumns(vec![self.ident()?]))
    }
}
