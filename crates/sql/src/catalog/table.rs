//! A table as the catalog keeps it.

use std::collections::BTreeMap;

use tidegate_api::Result;

use super::ObjectPath;
use super::store::invalid;
use crate::ast::{ColumnDef, ColumnKind, Constraint, CreateTable, Distribution, Ident, Span, WatermarkDef};

/// A table: its `CREATE TABLE` after `LIKE` and `ALTER`. Columns of the primary key are NOT NULL.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogTable {
    /// Where it is.
    pub path: ObjectPath,
    /// Whether it is temporary.
    pub temporary: bool,
    /// Columns in order; none is [`ColumnKind::NameOnly`].
    pub columns: Vec<ColumnDef>,
    /// The watermark.
    pub watermark: Option<WatermarkDef>,
    /// The primary key.
    pub primary_key: Option<PrimaryKey>,
    /// `PARTITIONED BY`.
    pub partition_keys: Vec<String>,
    /// `DISTRIBUTED`.
    pub distribution: Option<Distribution>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `WITH`.
    pub options: BTreeMap<String, String>,
}

/// `PRIMARY KEY (..) NOT ENFORCED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// `CONSTRAINT name`, or Flink's `PK_<columns>`.
    pub name: String,
    /// Columns.
    pub columns: Vec<String>,
}

impl PrimaryKey {
    /// The primary key among these constraints, if there is one.
    pub(super) fn from_constraints(constraints: &[Constraint]) -> Result<Option<PrimaryKey>> {
        let mut key = None;
        for constraint in constraints {
            if !constraint.primary {
                return Err(invalid("UNIQUE constraint is not supported yet"));
            }
            if constraint.enforced != Some(false) {
                return Err(invalid(
                    "Flink doesn't support ENFORCED mode for PRIMARY KEY constraint. ENFORCED/NOT ENFORCED controls if \
                     the constraint checks are performed on the incoming/outgoing data. Flink does not own the data \
                     therefore the only supported mode is the NOT ENFORCED mode",
                ));
            }
            if key.is_some() {
                return Err(invalid("Duplicate primary key definition"));
            }
            let columns: Vec<String> = constraint.columns.iter().map(|c| c.value.clone()).collect();
            let name = match &constraint.name {
                Some(name) => name.value.clone(),
                None => format!("PK_{}", columns.join("_")),
            };
            key = Some(PrimaryKey { name, columns });
        }
        Ok(key)
    }
}

impl CatalogTable {
    /// A table as its statement states it, without `LIKE`.
    pub fn from_create(create: &CreateTable, path: ObjectPath) -> Result<CatalogTable> {
        let table = CatalogTable {
            path,
            temporary: create.temporary,
            columns: create.columns.clone(),
            watermark: only_watermark(&create.watermarks)?,
            primary_key: PrimaryKey::from_constraints(&create.constraints)?,
            partition_keys: names(&create.partitioned_by),
            distribution: create.distribution.clone(),
            comment: create.comment.clone(),
            options: create.options.iter().cloned().collect(),
        };
        Ok(table)
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&ColumnDef> {
        self.columns.iter().find(|c| c.name.value == name)
    }

    /// Checks that the parts fit together, and makes the columns of the primary key NOT NULL.
    pub fn check(&mut self) -> Result<()> {
        for (i, column) in self.columns.iter().enumerate() {
            if self.columns[..i].iter().any(|c| c.name == column.name) {
                return Err(at(
                    column.name.span,
                    format!("A column named '{}' already exists in the table.", column.name),
                ));
            }
        }
        if let Some(key) = &self.primary_key {
            for name in &key.columns {
                let Some(column) = self.columns.iter_mut().find(|c| c.name.value == *name) else {
                    return Err(invalid(format!("Primary key column '{name}' is not defined in the schema.")));
                };
                let ColumnKind::Physical(ty) = &mut column.kind else {
                    return Err(invalid(format!(
                        "Could not create a PRIMARY KEY with column '{name}'. A PRIMARY KEY constraint must be declared \
                         on physical columns."
                    )));
                };
                ty.nullable = false;
            }
        }
        let mut keys = self.partition_keys.clone();
        keys.extend(self.distribution.iter().flat_map(|d| names(&d.columns)));
        for name in keys {
            if self.column(&name).is_none() {
                let known: Vec<String> = self.columns.iter().map(|c| format!("'{}'", c.name)).collect();
                return Err(invalid(format!(
                    "Partition column '{name}' not defined in the table schema. Available columns: [{}]",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// The only watermark.
pub(super) fn only_watermark(watermarks: &[WatermarkDef]) -> Result<Option<WatermarkDef>> {
    match watermarks {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [_, second, ..] => Err(at(second.span, "Multiple WATERMARK statements is not supported yet.")),
    }
}

pub(super) fn names(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(|i| i.value.clone()).collect()
}

/// A mistake at a place of the script.
pub(super) fn at(span: Span, message: impl std::fmt::Display) -> tidegate_api::Error {
    if span == Span::default() {
        return invalid(message.to_string());
    }
    invalid(format!("SQL validation failed. {span}: {message}"))
}
