//! `SHOW CREATE TABLE`, `SHOW CREATE VIEW`, and SQL text of types and expressions.

use std::fmt::Write as _;

use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result};

use super::{Outcome, Session, unsupported_name};
use crate::ast::{ColumnKind, Expr, ExprKind, ObjectKind, ObjectName, visit};
use crate::catalog::{CatalogObject, CatalogTable, CatalogView, ObjectPath};
use crate::lexer::{Tok, keywords, tokenize};
use crate::plan::logical_type;

/// `` `name` ``.
pub(super) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A type as SQL that reads back: Flink's serializable string.
pub(super) fn type_text(ty: &LogicalType) -> String {
    let text = match &ty.kind {
        TypeKind::Varchar(n) => format!("VARCHAR({n})"),
        TypeKind::Varbinary(n) => format!("VARBINARY({n})"),
        TypeKind::TimestampLtz(p) => format!("TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
        TypeKind::Array(t) => format!("ARRAY<{}>", type_text(t)),
        TypeKind::Multiset(t) => format!("MULTISET<{}>", type_text(t)),
        TypeKind::Map(k, v) => format!("MAP<{}, {}>", type_text(k), type_text(v)),
        TypeKind::Row(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{} {}", quote(&f.name), type_text(&f.ty))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        _ => ty.with_nullable(true).to_string(),
    };
    if ty.nullable { text } else { format!("{text} NOT NULL") }
}

/// An expression's text with its names in backticks and its keywords in upper case.
pub(super) fn expression_text(expr: &Expr, text: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    visit(expr, &mut |e| {
        if let ExprKind::Identifier(parts) = &e.kind {
            names.extend(parts.iter().map(|p| p.value.clone()));
        }
    });
    let tokens = tokenize(text, 1, 1);
    let mut out = String::new();
    let mut copied = 0;
    for (i, token) in tokens.iter().enumerate() {
        let Tok::Word(word) = &token.tok else { continue };
        let is_call = matches!(tokens.get(i + 1).map(|t| &t.tok), Some(Tok::Punct("(")));
        out.push_str(&text[copied..token.start]);
        copied = token.end;
        if !is_call && names.contains(word) {
            out.push_str(&quote(word));
        } else if is_call || keywords::is_reserved(&word.to_ascii_uppercase()) {
            out.push_str(&word.to_ascii_uppercase());
        } else {
            out.push_str(word);
        }
    }
    out.push_str(&text[copied..]);
    out
}

impl Session {
    pub(super) fn show_create(&self, kind: ObjectKind, name: &ObjectName) -> Result<Outcome> {
        if kind == ObjectKind::Catalog {
            return self.show_create_catalog(name.last()).map(Outcome::Text);
        }
        let path = self.catalog.qualify(name);
        let found = self.catalog.find(&path);
        let missing = |word: &str| {
            Error::invalid(format!(
                "Could not execute SHOW CREATE {word}. {} with identifier {path} does not exist.",
                if word == "VIEW" { "View" } else { "Table" }
            ))
        };
        match (kind, found) {
            (ObjectKind::Table, Some(CatalogObject::Table(table))) => self.create_table_text(table).map(Outcome::Text),
            (ObjectKind::View, Some(CatalogObject::View(view))) => self.create_view_text(view).map(Outcome::Text),
            (ObjectKind::Table, Some(_)) => Err(Error::invalid(format!(
                "SHOW CREATE TABLE is only supported for tables, but {path} is a view. Please use SHOW CREATE VIEW instead."
            ))),
            (ObjectKind::View, Some(_)) => Err(Error::invalid(format!(
                "SHOW CREATE VIEW is only supported for views, but {path} is a table. Please use SHOW CREATE TABLE instead."
            ))),
            (ObjectKind::Table | ObjectKind::View, None) => Err(missing(kind.name())),
            (other, _) => Err(unsupported_name(name, &format!("SHOW CREATE {}", other.name()))),
        }
    }

    fn show_create_catalog(&self, name: &str) -> Result<String> {
        let entry = self.catalog.catalog(name)?;
        let mut out = format!("CREATE CATALOG {}", quote(name));
        if let Some(comment) = &entry.comment {
            let _ = write!(out, "\nCOMMENT {}", string(comment));
        }
        with_options(&mut out, &entry.options);
        Ok(out + "\n")
    }

    fn create_table_text(&self, table: &CatalogTable) -> Result<String> {
        let mut lines = Vec::new();
        for column in &table.columns {
            let mut line = format!("  {} ", quote(&column.name.value));
            match &column.kind {
                ColumnKind::Physical(ty) => line.push_str(&type_text(&logical_type(ty)?)),
                ColumnKind::Metadata { ty, .. } => {
                    let _ = write!(line, "{} {}", type_text(&logical_type(ty)?), metadata_text(&column.kind));
                }
                ColumnKind::Computed { expr, text } => {
                    let _ = write!(line, "AS {}", expression_text(expr, text));
                }
                ColumnKind::NameOnly => {}
            }
            if let Some(comment) = &column.comment {
                let _ = write!(line, " COMMENT {}", string(comment));
            }
            lines.push(line);
        }
        if let Some(mark) = &table.watermark {
            let column: Vec<String> = mark.column.iter().map(|c| quote(&c.value)).collect();
            let expr = expression_text(&mark.expr, &mark.text);
            lines.push(format!("  WATERMARK FOR {} AS {expr}", column.join(".")));
        }
        if let Some(key) = &table.primary_key {
            lines.push(format!("  CONSTRAINT {} PRIMARY KEY ({}) NOT ENFORCED", quote(&key.name), list(&key.columns)));
        }
        let mut out = head("TABLE", table.temporary, &table.path);
        let _ = write!(out, "{}\n)", lines.join(",\n"));
        if let Some(comment) = &table.comment {
            let _ = write!(out, "\nCOMMENT {}", string(comment));
        }
        if let Some(d) = &table.distribution {
            let columns: Vec<String> = d.columns.iter().map(|c| c.value.clone()).collect();
            out.push_str("\nDISTRIBUTED");
            if !columns.is_empty() {
                let _ = write!(out, " BY {}({})", d.kind.as_deref().unwrap_or_default(), list(&columns));
            }
            if let Some(buckets) = d.buckets {
                let _ = write!(out, " INTO {buckets} BUCKETS");
            }
        }
        if !table.partition_keys.is_empty() {
            let _ = write!(out, "\nPARTITIONED BY ({})", list(&table.partition_keys));
        }
        with_options(&mut out, &table.options);
        Ok(out + "\n")
    }

    fn create_view_text(&self, view: &CatalogView) -> Result<String> {
        let names: Vec<String> = match view.columns.is_empty() {
            false => view.columns.iter().map(|c| c.value.clone()).collect(),
            true => self.view_schema(view)?.fields.into_iter().map(|f| f.name).collect(),
        };
        let mut out = head("VIEW", view.temporary, &view.path);
        let names: Vec<String> = names.iter().map(|n| format!("  {}", quote(n))).collect();
        let _ = write!(out, "{}\n)", names.join(",\n"));
        if let Some(comment) = &view.comment {
            let _ = write!(out, "\nCOMMENT {}", string(comment));
        }
        let _ = write!(out, "\nAS {}", view.query_text);
        Ok(out + "\n")
    }
}

/// `METADATA FROM 'key' VIRTUAL`.
pub(super) fn metadata_text(kind: &ColumnKind) -> String {
    let ColumnKind::Metadata { key, is_virtual, .. } = kind else { return String::new() };
    let mut out = "METADATA".to_string();
    if let Some(key) = key {
        let _ = write!(out, " FROM {}", string(key));
    }
    if *is_virtual {
        out.push_str(" VIRTUAL");
    }
    out
}

fn head(kind: &str, temporary: bool, path: &ObjectPath) -> String {
    format!("CREATE {}{kind} {path} (\n", if temporary { "TEMPORARY " } else { "" })
}

fn list(names: &[String]) -> String {
    names.iter().map(|n| quote(n)).collect::<Vec<_>>().join(", ")
}

fn with_options(out: &mut String, options: &std::collections::BTreeMap<String, String>) {
    if options.is_empty() {
        return;
    }
    let options: Vec<String> = options.iter().map(|(k, v)| format!("  {} = {}", string(k), string(v))).collect();
    let _ = write!(out, "\nWITH (\n{}\n)", options.join(",\n"));
}
