//! A table as a source: what is read, what is computed from it, and its watermark.

use std::collections::BTreeSet;
use std::rc::Rc;

use tidegate_api::config::{Configuration, parse_duration_ms, shown};
use tidegate_api::connector::{ReadColumn, TableDescriptor};
use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::graph::{NullRowtimePolicy, SourceSpec, WatermarkSpec};
use tidegate_api::types::{Field, Schema};

use super::Planner;
use super::rel::{substitute, visit_inputs};
use super::table::{ColumnSource, ResolvedTable};
use crate::functions;

/// A table, and what of it the job's queries read.
pub struct SourceUse {
    /// The table.
    pub table: Rc<ResolvedTable>,
    /// Columns that queries read.
    pub used: BTreeSet<usize>,
    /// Whether rows may be changes.
    pub updating: bool,
    /// `scan.parallelism`.
    pub parallelism: Option<usize>,
    /// The node, once it is made.
    pub node: Option<usize>,
}

/// A source operator's parts.
pub struct LoweredSource {
    /// What the operator does.
    pub spec: SourceSpec,
    /// Its columns.
    pub output: Schema,
    /// For plans.
    pub description: String,
}

impl SourceUse {
    /// A table that nothing reads yet.
    pub fn new(table: Rc<ResolvedTable>) -> Self {
        SourceUse { table, used: BTreeSet::new(), updating: false, parallelism: None, node: None }
    }

    /// Checks the table's options, which Flink does no earlier than here.
    pub fn open(&mut self, planner: &Planner<'_>) -> Result<()> {
        let descriptor = &self.table.descriptor;
        let made = planner.connectors.factory(descriptor).and_then(|f| f.source(descriptor, planner.config));
        let source = made.map_err(|e| with_options("Unable to create a source for reading table", descriptor, e))?;
        self.updating = source.is_updating();
        self.parallelism = source.parallelism();
        if let Some(watermark) = &self.table.watermark {
            self.used.insert(watermark.column);
            visit_inputs(&watermark.expr, &mut |i| {
                self.used.insert(i);
            });
        }
        Ok(())
    }

    /// Where column `i` of the table is in the source's output.
    pub fn position(&self, i: usize) -> usize {
        self.used.iter().position(|&u| u == i).unwrap_or(0)
    }

    /// The operator. `open` comes first.
    pub fn lower(&self, planner: &Planner<'_>) -> Result<LoweredSource> {
        let table = &self.table;
        let needed = self.stored_columns();
        let (mut read, mut fields) = (Vec::new(), Vec::new());
        // What each stored column is, over the columns that are read; computed ones stay empty.
        let mut stored: Vec<Option<Expr>> = vec![None; table.columns.len()];
        for (i, column) in table.columns.iter().enumerate() {
            if !needed.contains(&i) {
                continue;
            }
            let (read_column, ty) = match column.source {
                ColumnSource::Physical(p) => (ReadColumn::Physical(p), column.ty.clone()),
                ColumnSource::Metadata(m) => (ReadColumn::Metadata(m), table.descriptor.metadata[m].ty.clone()),
                ColumnSource::Computed(_) => continue,
            };
            let input = Expr::input(read.len(), ty.clone());
            let expr = functions::cast(input, &column.ty, false).map_err(|m| {
                let (name, declared) = (&column.name, &column.ty);
                Error::invalid(format!("Metadata column '{name}' cannot be read as {declared}: {m}"))
            })?;
            stored[i] = Some(Expr { ty: column.ty.clone(), ..expr });
            read.push(read_column);
            fields.push(Field::new(&column.name, ty));
        }
        let projection: Vec<Expr> = self.used.iter().map(|&i| self.column_expr(i, &stored)).collect();
        let output = Schema::new(
            self.used.iter().map(|&i| Field::new(&table.columns[i].name, table.columns[i].ty.clone())).collect(),
        );
        let names: Vec<&str> = output.fields.iter().map(|f| f.name.as_str()).collect();
        let path = table.descriptor.identifier.replace('.', ", ");
        let description = format!("TableSourceScan(table=[[{path}]], fields=[{}])", names.join(", "));
        let spec = SourceSpec {
            table: table.descriptor.clone(),
            read,
            read_schema: Schema::new(fields),
            projection,
            watermark: self.watermark(planner.config)?,
        };
        Ok(LoweredSource { spec, output, description })
    }

    /// Physical and metadata columns that the output is made from.
    fn stored_columns(&self) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        for &i in &self.used {
            match &self.table.columns[i].source {
                ColumnSource::Computed(expr) => visit_inputs(expr, &mut |i| {
                    needed.insert(i);
                }),
                _ => {
                    needed.insert(i);
                }
            }
        }
        needed
    }

    fn column_expr(&self, i: usize, stored: &[Option<Expr>]) -> Expr {
        match &self.table.columns[i].source {
            ColumnSource::Computed(expr) => {
                let mut expr = expr.clone();
                let by: Vec<Expr> =
                    stored.iter().map(|e| e.clone().unwrap_or_else(super::expr::null_literal)).collect();
                substitute(&mut expr, &by);
                expr
            }
            _ => stored[i].clone().unwrap_or_else(super::expr::null_literal),
        }
    }

    fn watermark(&self, config: &Configuration) -> Result<Option<WatermarkSpec>> {
        if let Some(key) = self.table.watermark_options.keys().find(|k| k.starts_with("scan.watermark.alignment.")) {
            return Err(Error::unsupported(format!(
                "Watermark alignment (option '{key}') is not supported by Tidegate yet; remove the scan.watermark.alignment options."
            )));
        }
        let Some(watermark) = &self.table.watermark else { return Ok(None) };
        let mut expr = watermark.expr.clone();
        expr.map_inputs(&|i| self.position(i));
        let key = "scan.watermark.idle-timeout";
        let idle_ms = match self.table.watermark_options.get(key) {
            Some(text) => parse_duration_ms(text).ok_or_else(|| {
                Error::invalid(format!("Could not parse value '{text}' for key '{key}': expected a duration."))
            })?,
            None => config.duration_ms("table.exec.source.idle-timeout", 0)?,
        };
        Ok(Some(WatermarkSpec {
            rowtime: self.position(watermark.column),
            rowtime_name: self.table.columns[watermark.column].name.clone(),
            expr,
            idle_timeout_ms: (idle_ms > 0).then_some(idle_ms),
            null_policy: null_policy(config)?,
        }))
    }
}

fn null_policy(config: &Configuration) -> Result<NullRowtimePolicy> {
    let key = "tidegate.rowtime.null";
    match config.get(key).map(|v| v.trim().to_ascii_lowercase()).as_deref() {
        None | Some("fail") => Ok(NullRowtimePolicy::Fail),
        Some("drop") => Ok(NullRowtimePolicy::Drop),
        Some(other) => {
            Err(Error::invalid(format!("Could not parse value '{other}' for key '{key}': expected 'fail' or 'drop'.")))
        }
    }
}

/// Flink's frame around a table that cannot be used: its options, sorted, secrets hidden.
pub fn with_options(what: &str, table: &TableDescriptor, cause: Error) -> Error {
    let options: Vec<String> =
        table.options.iter().map(|(key, value)| format!("'{key}'='{}'", shown(key, value))).collect();
    let (identifier, options) = (&table.identifier, options.join("\n"));
    let message = format!("{what} '{identifier}'.\n\nTable options are:\n\n{options}\n\nCaused by: {}", cause.message);
    Error { kind: cause.kind, message, context: cause.context }
}
