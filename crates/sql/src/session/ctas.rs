//! `CREATE TABLE ... AS query`: the table's columns come from the query, then the query is inserted.
//!
//! Columns that only the statement names come first, in order; then the query's, with the type the
//! statement gives them if it does. A list of bare names only orders the query's columns.

use tidegate_api::{Error, LogicalType, Result, Schema};

use super::show_create::type_text;
use super::{JobKind, Outcome, PlannedJob, Session, unsupported_name};
use crate::ast::{ColumnDef, ColumnKind, CreateTable, Ident, Insert, Query, Span};
use crate::catalog::{Catalog, CatalogObject, CatalogTable};
use crate::parser::parse_type;
use crate::plan::Planner;

impl Session {
    pub(super) fn create_table_as(&mut self, create: &CreateTable) -> Result<Outcome> {
        let path = self.catalog.qualify(&create.name);
        let exists = self.catalog.find(&path).is_some();
        if exists && create.if_not_exists && !create.or_replace {
            return Ok(Outcome::Done);
        }
        let (catalog, insert) = self.with_created(create)?;
        let planner = Planner::new(&catalog, &self.config, &self.connectors);
        let graph = planner.plan_inserts(std::slice::from_ref(&insert))?;
        self.catalog = catalog;
        let kind = JobKind::Insert { sinks: vec![path.identifier()] };
        Ok(Outcome::Job(Box::new(PlannedJob { graph, kind })))
    }

    pub(super) fn explain_create_as(&self, create: &CreateTable) -> Result<String> {
        let (catalog, insert) = self.with_created(create)?;
        Planner::new(&catalog, &self.config, &self.connectors).explain_inserts(std::slice::from_ref(&insert))
    }

    /// The catalog with the new table, and the insert that fills it.
    fn with_created(&self, create: &CreateTable) -> Result<(Catalog, Insert)> {
        if create.temporary {
            return Err(unsupported_name(&create.name, "CREATE TEMPORARY TABLE ... AS query"));
        }
        let Some(query) = &create.as_query else {
            return Err(Error::internal("CREATE TABLE AS without a query"));
        };
        let schema = self.planner().query_schema(query)?;
        let mut table = CatalogTable::from_create(create, self.catalog.qualify(&create.name))?;
        table.columns = merge_columns(&table.columns, &schema)?;
        self.check_table(&mut table)?;
        let mut catalog = self.catalog.clone();
        catalog.create(CatalogObject::Table(table), create.if_not_exists, create.or_replace)?;
        Ok((catalog, insert_of(create, query, &schema)))
    }
}

fn insert_of(create: &CreateTable, query: &Query, schema: &Schema) -> Insert {
    Insert {
        overwrite: false,
        upsert: false,
        target: create.name.clone(),
        hints: Vec::new(),
        partition: Vec::new(),
        columns: schema.fields.iter().map(|f| Ident::synthetic(&f.name)).collect(),
        source: query.clone(),
        on_conflict: None,
        span: create.span,
    }
}

fn merge_columns(declared: &[ColumnDef], schema: &Schema) -> Result<Vec<ColumnDef>> {
    if declared.iter().any(|c| c.kind == ColumnKind::NameOnly) {
        return ordered_columns(declared, schema);
    }
    let mut out: Vec<ColumnDef> =
        declared.iter().filter(|c| schema.index_of(&c.name.value).is_none()).cloned().collect();
    for field in &schema.fields {
        match declared.iter().find(|c| c.name.value == field.name) {
            Some(column) if !matches!(column.kind, ColumnKind::Computed { .. }) => out.push(column.clone()),
            Some(column) => {
                return Err(Error::invalid(format!(
                    "A column named '{}' already exists in the schema. Duplicate columns exist in the computed column \
                     and regular column.",
                    column.name
                )));
            }
            None => out.push(column_of(Ident::synthetic(&field.name), &field.ty)?),
        }
    }
    Ok(out)
}

/// `CREATE TABLE t (b, a) AS SELECT a, b ...`.
fn ordered_columns(declared: &[ColumnDef], schema: &Schema) -> Result<Vec<ColumnDef>> {
    if declared.len() != schema.len() {
        return Err(Error::invalid(
            "The number of columns in the column list must match the number of columns in the source schema.",
        ));
    }
    declared
        .iter()
        .map(|column| match schema.index_of(&column.name.value) {
            Some(i) => column_of(column.name.clone(), &schema.fields[i].ty),
            None => Err(Error::invalid(format!("Column '{}' not found in the source schema.", column.name))),
        })
        .collect()
}

fn column_of(name: Ident, ty: &LogicalType) -> Result<ColumnDef> {
    let text = type_text(ty);
    let mut ty = parse_type(&text)
        .map_err(|_| Error::invalid(format!("Column '{name}' has the type {text}, which no table column can have.")))?;
    ty.span = Span::default();
    Ok(ColumnDef { name, kind: ColumnKind::Physical(ty), comment: None, span: Span::default() })
}
