//! `DESCRIBE` and `SHOW COLUMNS`.

use tidegate_api::{Error, Result, Schema};

use super::show_create::{expression_text, metadata_text};
use super::{ClientCommand, Outcome, Session, unsupported_name};
use crate::ast::{ColumnKind, ObjectKind, ObjectName};
use crate::catalog::{CatalogObject, CatalogTable, CatalogView};
use crate::plan::Planner;
use crate::plan::rel::TimeAttribute;

/// Rows to show.
pub(super) type Rows = Vec<Vec<Option<String>>>;

impl Session {
    pub(super) fn describe(&self, object: ObjectKind, extended: bool, name: &ObjectName) -> Result<Outcome> {
        match object {
            ObjectKind::Table => {
                let (columns, rows) = self.columns_of(name)?;
                Ok(Outcome::Table { columns, rows })
            }
            ObjectKind::Catalog => self.describe_catalog(name.last(), extended),
            ObjectKind::Job => Ok(Outcome::Client(ClientCommand::DescribeJob(name.last().to_owned()))),
            other => Err(unsupported_name(name, &format!("DESCRIBE {}", other.name()))),
        }
    }

    fn describe_catalog(&self, name: &str, extended: bool) -> Result<Outcome> {
        let entry = self.catalog.catalog(name)?;
        let row = |k: &str, v: Option<&str>| vec![Some(k.to_string()), Some(v.unwrap_or_default().to_string())];
        let mut rows = vec![
            row("name", Some(name)),
            row("type", entry.options.get("type").map(String::as_str)),
            row("comment", entry.comment.as_deref()),
        ];
        if extended {
            let options = entry.options.iter().filter(|(k, _)| *k != "type");
            rows.extend(options.map(|(k, v)| row(&format!("option:{k}"), Some(v))));
        }
        Ok(Outcome::Table { columns: vec!["info name".into(), "info value".into()], rows })
    }

    /// The columns and rows of `DESCRIBE name`.
    pub(super) fn columns_of(&self, name: &ObjectName) -> Result<(Vec<String>, Rows)> {
        let path = self.catalog.qualify(name);
        let mut rows = match self.catalog.find(&path) {
            Some(CatalogObject::Table(table)) => self.table_rows(table)?,
            Some(CatalogObject::View(view)) => self.view_rows(view)?,
            None => {
                return Err(Error::invalid(format!("Tables or views with the identifier '{path}' doesn't exist.")));
            }
        };
        let mut columns: Vec<String> =
            ["name", "type", "null", "key", "extras", "watermark", "comment"].map(String::from).into();
        if rows.iter().all(|r| r[6].is_none()) {
            columns.pop();
            rows.iter_mut().for_each(|r| drop(r.pop()));
        }
        Ok((columns, rows))
    }

    fn table_rows(&self, table: &CatalogTable) -> Result<Rows> {
        let resolved = self.planner().resolve_table(table)?;
        let key = table.primary_key.as_ref();
        let rows = table.columns.iter().zip(&resolved.columns).map(|(column, resolved)| {
            let name = &column.name.value;
            let mut ty = resolved.ty.with_nullable(true).to_string();
            match resolved.time {
                TimeAttribute::Rowtime => ty.push_str(" *ROWTIME*"),
                TimeAttribute::Proctime => ty.push_str(" *PROCTIME*"),
                _ => {}
            }
            let key = key.filter(|k| k.columns.contains(name)).map(|k| format!("PRI({})", k.columns.join(", ")));
            let extras = match &column.kind {
                ColumnKind::Computed { expr, text } => Some(format!("AS {}", expression_text(expr, text))),
                ColumnKind::Metadata { .. } => Some(metadata_text(&column.kind)),
                _ => None,
            };
            let watermark = table
                .watermark
                .as_ref()
                .filter(|w| w.column.first().is_some_and(|c| c.value == *name))
                .map(|w| expression_text(&w.expr, &w.text));
            let null = if resolved.ty.nullable { "TRUE" } else { "FALSE" };
            vec![Some(name.clone()), Some(ty), Some(null.into()), key, extras, watermark, column.comment.clone()]
        });
        Ok(rows.collect())
    }

    fn view_rows(&self, view: &CatalogView) -> Result<Rows> {
        let schema = self.view_schema(view)?;
        let rows = schema.fields.iter().enumerate().map(|(i, field)| {
            let name = view.columns.get(i).map_or(&field.name, |c| &c.value);
            let ty = field.ty.with_nullable(true).to_string();
            let null = if field.ty.nullable { "TRUE" } else { "FALSE" };
            vec![Some(name.clone()), Some(ty), Some(null.into()), None, None, None, None]
        });
        Ok(rows.collect())
    }

    /// The columns of a view's query, read where the view was made.
    pub(super) fn view_schema(&self, view: &CatalogView) -> Result<Schema> {
        let mut there = self.catalog.clone();
        there.use_catalog(&view.catalog)?;
        let database = ObjectName { parts: vec![crate::ast::Ident::synthetic(&view.database)] };
        there.use_database(&database)?;
        Planner::new(&there, &self.config, &self.connectors).query_schema(&view.query)
    }
}
