//! `CREATE`, `ALTER` and `DROP`.

use tidegate_api::{Error, Result};

use super::{Outcome, Session, unsupported_name};
use crate::ast::{
    AlterAction, AlterCatalog, AlterTable, CreateTable, CreateView, Drop, ExprKind, Ident, ObjectKind, ObjectName,
    Query, SelectItem, SetExpr, Span, Statement,
};
use crate::catalog::{CatalogObject, CatalogTable, CatalogView};

impl Session {
    pub(super) fn ddl(&mut self, statement: Statement) -> Result<Outcome> {
        match statement {
            Statement::CreateTable(create) if create.as_query.is_some() => return self.create_table_as(&create),
            Statement::CreateTable(create) => self.create_table(&create)?,
            Statement::CreateView(create) => self.create_view(*create)?,
            Statement::CreateCatalog { name, if_not_exists, comment, options } => {
                self.catalog.create_catalog(&name.value, if_not_exists, comment, options)?;
            }
            Statement::CreateDatabase { name, if_not_exists, comment, options } => {
                self.catalog.create_database(&name, if_not_exists, comment, options)?;
            }
            Statement::CreateFunction(function) => {
                return Err(unsupported_name(&function.name, "CREATE FUNCTION (user-defined functions)"));
            }
            Statement::AlterTable(alter) => self.alter_table(&alter)?,
            Statement::RenameView(name, new) => {
                let path = self.catalog.qualify(&name);
                self.catalog.rename(&path, &new, true)?;
            }
            Statement::AlterView { name, query, query_text } => self.alter_view(&name, *query, query_text)?,
            Statement::AlterDatabase { name, options } => {
                let (catalog, database) = self.catalog.qualify_database(&name)?;
                self.catalog.database_mut(&catalog, &database)?.options.extend(options);
            }
            Statement::AlterCatalog { name, action } => self.alter_catalog(&name, action)?,
            Statement::Drop(drop) => self.drop_object(&drop)?,
            other => return Err(Error::internal(format!("{other:?} is not a definition"))),
        }
        Ok(Outcome::Done)
    }

    /// The table that `CREATE TABLE` without `AS` states, checked.
    pub(super) fn new_table(&self, create: &CreateTable) -> Result<CatalogTable> {
        let mut table = CatalogTable::from_create(create, self.catalog.qualify(&create.name))?;
        if let Some(like) = &create.like {
            self.catalog.merge_like(like, &mut table)?;
        }
        self.check_table(&mut table)?;
        Ok(table)
    }

    pub(super) fn check_table(&self, table: &mut CatalogTable) -> Result<()> {
        table.check()?;
        self.planner().resolve_table(table)?;
        Ok(())
    }

    fn create_table(&mut self, create: &CreateTable) -> Result<()> {
        if create.or_replace {
            return Err(unsupported_name(&create.name, "CREATE OR REPLACE TABLE without AS query"));
        }
        let table = self.new_table(create)?;
        self.catalog.create(CatalogObject::Table(table), create.if_not_exists, false)
    }

    fn create_view(&mut self, create: CreateView) -> Result<()> {
        self.check_view(&create.columns, &create.query)?;
        let view = CatalogView {
            path: self.catalog.qualify(&create.name),
            temporary: create.temporary,
            columns: create.columns,
            query: create.query,
            query_text: create.query_text,
            comment: create.comment,
            catalog: self.catalog.current_catalog().to_string(),
            database: self.catalog.current_database().to_string(),
        };
        self.catalog.create(CatalogObject::View(view), create.if_not_exists, create.or_replace)
    }

    fn check_view(&self, columns: &[Ident], query: &Query) -> Result<()> {
        let schema = self.planner().query_schema(query)?;
        if columns.is_empty() {
            refuse_equal_names(query)?;
        }
        if !columns.is_empty() && columns.len() != schema.len() {
            let defined: Vec<&str> = columns.iter().map(|c| c.value.as_str()).collect();
            let input: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "VIEW definition and input fields not match:\n\tDef fields: [{}].\n\tInput fields: [{}].",
                defined.join(", "),
                input.join(", ")
            )));
        }
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].contains(column) {
                return Err(Error::invalid(format!(
                    "SQL validation failed. Duplicate column name '{column}' in view."
                )));
            }
        }
        Ok(())
    }

    fn alter_view(&mut self, name: &ObjectName, query: Query, query_text: String) -> Result<()> {
        self.check_view(&[], &query)?;
        let path = self.catalog.qualify(name);
        let catalog = self.catalog.current_catalog().to_string();
        let database = self.catalog.current_database().to_string();
        if let CatalogObject::View(view) = self.catalog.permanent_mut(&path, true)? {
            *view = CatalogView { columns: Vec::new(), query, query_text, catalog, database, ..view.clone() };
        }
        Ok(())
    }

    fn alter_table(&mut self, alter: &AlterTable) -> Result<()> {
        let path = self.catalog.qualify(&alter.name);
        if alter.if_exists && self.catalog.find(&path).is_none() {
            return Ok(());
        }
        if let AlterAction::RenameTo(new) = &alter.action {
            return self.catalog.rename(&path, new, false);
        }
        let CatalogObject::Table(old) = self.catalog.permanent_mut(&path, false)? else { return Ok(()) };
        let mut table = old.altered(&alter.action)?;
        self.check_table(&mut table)?;
        *self.catalog.permanent_mut(&path, false)? = CatalogObject::Table(table);
        Ok(())
    }

    fn alter_catalog(&mut self, name: &Ident, action: AlterCatalog) -> Result<()> {
        let entry = self.catalog.catalog_mut(&name.value)?;
        match action {
            AlterCatalog::Set(options) => entry.options.extend(options),
            AlterCatalog::Reset(keys) if keys.iter().any(|k| k == "type") => {
                return Err(Error::invalid("ALTER CATALOG RESET does not support changing 'type'"));
            }
            AlterCatalog::Reset(keys) => entry.options.retain(|key, _| !keys.contains(key)),
            AlterCatalog::Comment(comment) => entry.comment = Some(comment),
        }
        Ok(())
    }

    fn drop_object(&mut self, drop: &Drop) -> Result<()> {
        match drop.object {
            ObjectKind::Table | ObjectKind::View => {
                let path = self.catalog.qualify(&drop.name);
                self.catalog.drop_object(&path, drop.object == ObjectKind::View, drop.temporary, drop.if_exists)
            }
            ObjectKind::Database => self.catalog.drop_database(&drop.name, drop.if_exists, drop.cascade),
            ObjectKind::Catalog => self.catalog.drop_catalog(drop.name.last(), drop.if_exists),
            // None of these can have been made.
            _ if drop.if_exists => Ok(()),
            other => Err(Error::invalid(format!(
                "{} with identifier '{}' does not exist.",
                other.name(),
                self.catalog.qualify(&drop.name).identifier()
            ))),
        }
    }
}

/// A view without a column list takes the names of its query's select list, which must differ.
fn refuse_equal_names(query: &Query) -> Result<()> {
    let SetExpr::Select(select) = &query.body else { return Ok(()) };
    let mut seen: Vec<(&str, Span)> = Vec::new();
    for item in &select.projection {
        let SelectItem::Expr { expr, alias } = item else { continue };
        let name = match (alias, &expr.kind) {
            (Some(alias), _) => &alias.value,
            (None, ExprKind::Identifier(parts)) if !parts.is_empty() => &parts[parts.len() - 1].value,
            _ => continue,
        };
        if let Some((_, span)) = seen.iter().find(|(known, _)| known == name) {
            return Err(Error::invalid(format!(
                "SQL validation failed. A column with the same name `{name}` has been defined at line {}, column {}.",
                span.line, span.column
            )));
        }
        seen.push((name, expr.span));
    }
    Ok(())
}
