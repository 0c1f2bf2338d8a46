//! Tables as the planner sees them: typed columns, bound computed columns, a checked watermark.

use std::cell::Cell;
use std::collections::BTreeMap;

use tidegate_api::connector::{MetadataColumn, TableDescriptor};
use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};

use super::Planner;
use super::error::invalid_at;
use super::expr::{Clause, ExprBinder};
use super::rel::{Column, TimeAttribute};
use super::scope::Scope;
use super::types::logical_type;
use crate::ast::{ColumnDef, ColumnKind, Ident, Span, WatermarkDef};
use crate::catalog::CatalogTable;

/// A table whose definition has been checked.
#[derive(Clone, Debug)]
pub struct ResolvedTable {
    /// What the connector gets.
    pub descriptor: TableDescriptor,
    /// All columns in declared order.
    pub columns: Vec<ResolvedColumn>,
    /// `WATERMARK FOR`.
    pub watermark: Option<ResolvedWatermark>,
    /// Columns of the primary key.
    pub primary_key: Vec<usize>,
    /// `scan.watermark.*`: the engine's, not the connector's.
    pub watermark_options: BTreeMap<String, String>,
    /// Whether rows may be changes; known when the source has been made.
    pub updating: Cell<bool>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ResolvedColumn {
    /// Name.
    pub name: String,
    /// Type. A rowtime is not NULL where it is declared so; a primary key never is.
    pub ty: LogicalType,
    /// Whether it is a time attribute.
    pub time: TimeAttribute,
    /// Where its values come from.
    pub source: ColumnSource,
}

/// Where a column's values come from.
#[derive(Clone, Debug)]
pub enum ColumnSource {
    /// Position among the physical columns.
    Physical(usize),
    /// Position among the metadata columns.
    Metadata(usize),
    /// An expression over the table's columns, physical and metadata ones only.
    Computed(Expr),
}

/// A checked `WATERMARK FOR column AS expr`.
#[derive(Clone, Debug)]
pub struct ResolvedWatermark {
    /// The rowtime column.
    pub column: usize,
    /// The expression over all columns of the table.
    pub expr: Expr,
}

impl ResolvedTable {
    /// The table's own name, without catalog and database.
    pub fn short_name(&self) -> &str {
        self.descriptor.identifier.rsplit('.').next().unwrap_or_default()
    }

    /// The columns a sink of this table takes, in declared order: all but computed and `VIRTUAL` ones.
    pub fn sink_columns(&self) -> Vec<usize> {
        let taken = |c: &ResolvedColumn| match c.source {
            ColumnSource::Physical(_) => true,
            ColumnSource::Metadata(m) => !self.descriptor.metadata[m].is_virtual,
            ColumnSource::Computed(_) => false,
        };
        (0..self.columns.len()).filter(|&i| taken(&self.columns[i])).collect()
    }
}

impl Planner<'_> {
    /// Checks a table and binds its expressions.
    pub fn resolve_table(&self, table: &CatalogTable) -> Result<ResolvedTable> {
        self.resolve_with(table, table.options.clone())
    }

    /// The same with other options, as hints give them.
    pub(super) fn resolve_with(&self, def: &CatalogTable, options: BTreeMap<String, String>) -> Result<ResolvedTable> {
        let identifier = def.path.identifier();
        let (watermark_options, options) = split_options(options);
        let mut table = ResolvedTable {
            descriptor: TableDescriptor { identifier, options, ..TableDescriptor::default() },
            columns: Vec::new(),
            watermark: None,
            primary_key: Vec::new(),
            watermark_options,
            updating: Cell::new(false),
        };
        self.stored_columns(def, &mut table)?;
        self.computed_columns(def, &mut table)?;
        primary_key(def, &mut table)?;
        partition_keys(def, &mut table)?;
        self.watermark(def, &mut table)?;
        Ok(table)
    }

    /// Physical and metadata columns; computed ones are held a place.
    fn stored_columns(&self, def: &CatalogTable, table: &mut ResolvedTable) -> Result<()> {
        let factory = self.connectors.factory(&table.descriptor).ok();
        let keys = factory.map(|f| f.metadata_keys(&table.descriptor.options));
        for ColumnDef { name, kind, .. } in &def.columns {
            if table.columns.iter().any(|c| c.name == name.value) {
                let message = format!("A column named '{}' already exists in the table.", name.value);
                return Err(invalid_at(name.span, message));
            }
            let (ty, source) = match kind {
                ColumnKind::Physical(ty) => {
                    let ty = logical_type(ty)?;
                    table.descriptor.physical.fields.push(Field::new(&name.value, ty.clone()));
                    (ty, ColumnSource::Physical(table.descriptor.physical.len() - 1))
                }
                ColumnKind::Metadata { ty, key, is_virtual } => {
                    let declared = logical_type(ty)?;
                    let key = key.clone().unwrap_or_else(|| name.value.clone());
                    let offered =
                        keys.as_ref().map(|keys| keys.iter().find(|(k, _)| *k == key).map(|(_, t)| t.clone()));
                    let ty = match offered {
                        // An unknown connector is reported when the table is used.
                        None => declared.clone(),
                        Some(Some(ty)) => ty,
                        Some(None) => {
                            let known: Vec<String> = keys.into_iter().flatten().map(|(k, _)| k).collect();
                            return Err(metadata_error(name, &key, &table.descriptor.identifier, &known));
                        }
                    };
                    let column = MetadataColumn { name: name.value.clone(), key, ty, is_virtual: *is_virtual };
                    table.descriptor.metadata.push(column);
                    (declared, ColumnSource::Metadata(table.descriptor.metadata.len() - 1))
                }
                ColumnKind::Computed { .. } => {
                    (LogicalType::new(TypeKind::Null), ColumnSource::Computed(super::expr::null_literal()))
                }
                ColumnKind::NameOnly => {
                    let message = format!("Column '{}' has no type.", name.value);
                    return Err(invalid_at(name.span, message));
                }
            };
            table.columns.push(ResolvedColumn { name: name.value.clone(), ty, time: TimeAttribute::None, source });
        }
        Ok(())
    }

    /// Computed columns see physical and metadata columns, not each other.
    fn computed_columns(&self, def: &CatalogTable, table: &mut ResolvedTable) -> Result<()> {
        let mut visible = plain_columns(table);
        for (column, declared) in visible.iter_mut().zip(&def.columns) {
            if matches!(declared.kind, ColumnKind::Computed { .. }) {
                // A name that nobody can write: computed columns are out of sight here.
                column.name = String::new();
            }
        }
        let scope = Scope::of(vec![table.short_name().to_string()], visible);
        for (i, ColumnDef { name, kind, .. }) in def.columns.iter().enumerate() {
            let ColumnKind::Computed { expr, .. } = kind else { continue };
            let binder = ExprBinder::new(&scope, self.zone(), &def.path.database, Clause::Declaration);
            let bound = binder.bind(expr).map_err(|e| {
                let name = &name.value;
                let message = format!("Invalid expression for computed column '{name}'. {}", e.message);
                Error { kind: e.kind, message, context: e.context }
            })?;
            let time = match binder.time_attribute(expr, &bound) {
                TimeAttribute::Proctime => TimeAttribute::Proctime,
                _ => TimeAttribute::None,
            };
            let bound = crate::plan::fold(bound, self.zone());
            table.columns[i] = ResolvedColumn {
                name: name.value.clone(),
                ty: bound.ty.clone(),
                time,
                source: ColumnSource::Computed(bound),
            };
        }
        Ok(())
    }

    fn watermark(&self, def: &CatalogTable, table: &mut ResolvedTable) -> Result<()> {
        let Some(mark) = &def.watermark else { return Ok(()) };
        let column = watermark_column(mark, table)?;
        let ty = table.columns[column].ty.clone();
        if !matches!(ty.kind, TypeKind::Timestamp(0..=3) | TypeKind::TimestampLtz(0..=3)) {
            let ty = ty.with_nullable(true);
            let message = format!(
                "Invalid data type of time field for watermark definition. The field must be of type TIMESTAMP(p) or \
                 TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the time field type is {ty}"
            );
            return Err(placed(mark.span, message));
        }
        let scope = Scope::of(vec![table.short_name().to_string()], plain_columns(table));
        let binder = ExprBinder::new(&scope, self.zone(), &def.path.database, Clause::Declaration);
        let expr = binder.bind(&mark.expr).map_err(|e| {
            let message = format!("Invalid expression for watermark '{}'. {}", mark.text, e.message);
            Error { kind: e.kind, message, context: e.context }
        })?;
        let expr = crate::plan::fold(expr, self.zone());
        let same_family = matches!(
            (&ty.kind, &expr.ty.kind),
            (TypeKind::Timestamp(_), TypeKind::Timestamp(_)) | (TypeKind::TimestampLtz(_), TypeKind::TimestampLtz(_))
        );
        if !same_family {
            let ty = expr.ty.with_nullable(true);
            let message = format!(
                "Invalid data type of expression for watermark definition. The field must be of type TIMESTAMP(p) or \
                 TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the watermark expression type is \
                 {ty}"
            );
            return Err(placed(mark.expr.span, message));
        }
        table.columns[column].time = TimeAttribute::Rowtime;
        table.watermark = Some(ResolvedWatermark { column, expr });
        Ok(())
    }
}

/// An error of a declaration at its place.
fn placed(span: Span, message: String) -> Error {
    if span == Span::default() { Error::invalid(message) } else { Error::invalid(format!("{span}: {message}")) }
}

/// Separates the engine's `scan.watermark.*` from the connector's options.
fn split_options(options: BTreeMap<String, String>) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    options.into_iter().partition(|(key, _)| key.starts_with("scan.watermark."))
}

fn plain_columns(table: &ResolvedTable) -> Vec<Column> {
    table.columns.iter().map(|c| Column { name: c.name.clone(), ty: c.ty.clone(), time: c.time }).collect()
}

fn metadata_error(column: &Ident, key: &str, table: &str, known: &[String]) -> Error {
    let column = &column.value;
    if known.is_empty() {
        return Error::invalid(format!(
            "Table '{table}' declares metadata columns, but the connector does not support reading metadata \
             (column '{column}', key '{key}')."
        ));
    }
    let known = known.join("\n");
    Error::invalid(format!(
        "Invalid metadata key '{key}' in column '{column}' of table '{table}'. The connector supports the following \
         metadata keys for reading:\n{known}"
    ))
}

fn watermark_column(mark: &WatermarkDef, table: &ResolvedTable) -> Result<usize> {
    let [name] = mark.column.as_slice() else {
        return Err(super::error::unsupported_at(mark.span, "A watermark on a nested field"));
    };
    table.columns.iter().position(|c| c.name == name.value).ok_or_else(|| {
        let (line, column) = (name.span.line, name.span.column);
        let place = if line > 0 { format!(", at line {line}, column {column}") } else { String::new() };
        let known: Vec<String> = table.columns.iter().map(|c| format!("'{}'", c.name)).collect();
        let (name, known) = (&name.value, known.join(", "));
        Error::invalid(format!(
            "The rowtime attribute field '{name}' is not defined in the table schema{place}\nAvailable fields: \
             [{known}]"
        ))
    })
}

fn primary_key(def: &CatalogTable, table: &mut ResolvedTable) -> Result<()> {
    for name in def.primary_key.iter().flat_map(|key| &key.columns) {
        let found = table.columns.iter().position(|c| c.name == *name);
        let Some((i, ColumnSource::Physical(p))) = found.map(|i| (i, table.columns[i].source.clone())) else {
            return Err(Error::invalid(format!(
                "Invalid primary key. A column '{name}' does not exist or is not a physical column."
            )));
        };
        table.primary_key.push(i);
        table.descriptor.primary_key.push(p);
        table.columns[i].ty.nullable = false;
        table.descriptor.physical.fields[p].ty.nullable = false;
    }
    Ok(())
}

fn partition_keys(def: &CatalogTable, table: &mut ResolvedTable) -> Result<()> {
    for name in &def.partition_keys {
        let Some(p) = table.descriptor.physical.index_of(name) else {
            return Err(Error::invalid(format!("Partition column '{name}' not defined in the table schema.")));
        };
        table.descriptor.partition_keys.push(p);
    }
    Ok(())
}

/// The schema `DESCRIBE` and views see.
pub fn table_schema(table: &ResolvedTable) -> Schema {
    Schema::new(table.columns.iter().map(|c| Field::new(&c.name, c.ty.clone())).collect())
}
