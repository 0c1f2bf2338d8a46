//! `INSERT INTO`: the query's columns by position, cast to the sink's, and what changes it takes.

use std::collections::BTreeSet;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{SinkMode, TableDescriptor};
use tidegate_api::error::{Error, Result};
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::graph::SinkSpec;
use tidegate_api::types::{Field, LogicalType, Schema};
use tidegate_api::value::Value;

use super::Planner;
use super::error::{invalid_at, refused_at, unsupported_at};
use super::explain::rel_text;
use super::graph::updating_producer;
use super::optimize::optimize;
use super::query::Env;
use super::rel::{Column, Rel, RelKind, TimeAttribute, bare_input};
use super::source::with_options;
use super::table::{ColumnSource, ResolvedTable};
use crate::ast;
use crate::functions;

/// A sink with the query that feeds it.
pub struct PlannedSink {
    /// The query, its columns as the sink takes them.
    pub rel: Rel,
    /// What the operator does.
    pub spec: SinkSpec,
    /// The columns it takes.
    pub schema: Schema,
    /// `sink.parallelism`.
    pub parallelism: Option<usize>,
    /// Which changes it takes.
    pub mode: SinkMode,
    /// The query as it was bound, for `EXPLAIN`.
    pub bound: Rel,
}

impl PlannedSink {
    /// The table's own name.
    pub fn short_name(&self) -> &str {
        self.spec.table.identifier.rsplit('.').next().unwrap_or_default()
    }

    /// Whether it wants `-U` rows.
    pub fn needs_before(&self) -> bool {
        self.mode != SinkMode::Upsert
    }

    /// `Sink(table=[default_catalog.default_database.out], fields=[a, b])`.
    pub fn description(&self) -> String {
        let fields: Vec<&str> = self.schema.fields.iter().map(|f| f.name.as_str()).collect();
        format!("Sink(table=[{}], fields=[{}])", self.spec.table.identifier, fields.join(", "))
    }

    /// Refuses changes that the sink cannot take.
    pub fn check_changes(&self, config: &Configuration) -> Result<()> {
        if !self.rel.is_updating() {
            return Ok(());
        }
        let table = &self.spec.table;
        if self.mode == SinkMode::Append {
            let (node, what) = updating_producer(&self.rel);
            let name = &table.identifier;
            let message =
                format!("Table sink '{name}' doesn't support consuming {what} which is produced by node {node}");
            return Err(Error::unsupported(message));
        }
        let required = config.bool("table.exec.sink.require-on-conflict", true)?;
        if self.mode == SinkMode::Upsert && required {
            let sink_key: BTreeSet<usize> = table.primary_key.iter().copied().collect();
            let query_key = upsert_key(&self.rel);
            if !sink_key.is_empty() && query_key.as_ref() != Some(&sink_key) {
                return Err(key_mismatch(table, &sink_key, query_key.as_ref(), &self.schema));
            }
        }
        Ok(())
    }
}

fn key_mismatch(
    table: &TableDescriptor,
    sink: &BTreeSet<usize>,
    query: Option<&BTreeSet<usize>>,
    schema: &Schema,
) -> Error {
    let names = |columns: &BTreeSet<usize>| {
        let names: Vec<&str> = columns.iter().map(|&i| schema.fields[i].name.as_str()).collect();
        format!("[{}]", names.join(", "))
    };
    let (identifier, sink, query) = (&table.identifier, names(sink), query.map(names).unwrap_or_default());
    Error::unsupported(format!(
        "The query has an upsert key that differs from the primary key of the sink table '{identifier}'. Primary key: \
         {sink}, upsert key: {query}. Rows of one primary key may come from several keys of the query and overwrite \
         each other; select the key columns, or write to a table without a primary key."
    ))
}

/// The columns that identify a row of a changelog, if they are known.
fn upsert_key(rel: &Rel) -> Option<BTreeSet<usize>> {
    match &rel.kind {
        RelKind::GroupAggregate { keys, .. } => Some((0..keys.len()).collect()),
        RelKind::Scan(table) if !table.primary_key.is_empty() => Some(table.primary_key.iter().copied().collect()),
        RelKind::Calc { input, projection, .. } => {
            let key = upsert_key(input)?;
            key.iter().map(|&k| projection.iter().position(|e| unchanged(e) == Some(k))).collect()
        }
        _ => None,
    }
}

/// The column an expression passes on, also through a cast that keeps values apart.
fn unchanged(expr: &Expr) -> Option<usize> {
    match &expr.node {
        ExprNode::Cast { input, .. } if input.ty.is_string() && expr.ty.is_string() => bare_input(input),
        _ => bare_input(expr),
    }
}

/// A column of the sink and what goes into it.
struct Target {
    name: String,
    ty: LogicalType,
    value: Option<usize>,
    constant: Option<Expr>,
}

impl Planner<'_> {
    /// One `INSERT`.
    pub(super) fn plan_sink(&self, insert: &ast::Insert, env: &Env) -> Result<PlannedSink> {
        if insert.overwrite {
            return Err(refused_at(insert.target.span(), "Streaming mode not support overwrite."));
        }
        if insert.upsert {
            return Err(unsupported_at(insert.target.span(), "UPSERT INTO"));
        }
        let table = self.sink_table(&insert.target, &insert.hints, env)?;
        if insert.on_conflict.is_some() {
            return Err(unsupported_at(insert.target.span(), "ON CONFLICT"));
        }
        let bound = self.bind_query(&insert.source, env)?;
        let targets = self.targets(insert, &table, &bound, env)?;
        let made = self.connectors.factory(&table.descriptor).and_then(|f| f.sink(&table.descriptor, self.config));
        let sink = made.map_err(|e| with_options("Unable to create a sink for writing table", &table.descriptor, e))?;
        let rowtime = self.sink_rowtime(&table, &targets, &bound)?;
        let (rel, schema, rowtime) = self.cast_to_sink(&table, targets, bound.clone(), rowtime)?;
        let drop_nulls = match self.config.get("table.exec.sink.not-null-enforcer").map(str::to_ascii_uppercase) {
            None => false,
            Some(v) if v == "ERROR" => false,
            Some(v) if v == "DROP" => true,
            Some(v) => {
                return Err(Error::invalid(format!(
                    "Could not parse value '{v}' for key 'table.exec.sink.not-null-enforcer': expected ERROR or DROP."
                )));
            }
        };
        let spec = SinkSpec { table: table.descriptor.clone(), drop_nulls, rowtime };
        let (parallelism, mode) = (sink.parallelism(), sink.mode());
        Ok(PlannedSink { rel: optimize(rel, self.zone())?, spec, schema, parallelism, mode, bound })
    }

    /// The sink's columns in declared order, each with the query column that fills it.
    fn targets(&self, insert: &ast::Insert, table: &ResolvedTable, query: &Rel, env: &Env) -> Result<Vec<Target>> {
        let mut targets: Vec<Target> = table
            .sink_columns()
            .into_iter()
            .map(|i| {
                let column = &table.columns[i];
                Target { name: column.name.clone(), ty: column.ty.clone(), value: None, constant: None }
            })
            .collect();
        let scope = super::scope::Scope::default();
        let binder = super::expr::ExprBinder::new(&scope, self.zone(), &env.database, super::expr::Clause::Other);
        for (name, value) in &insert.partition {
            let constant = crate::plan::fold(binder.bind(value)?, self.zone());
            target(&mut targets, name)?.constant = Some(constant);
        }
        if insert.columns.is_empty() {
            let mut open: Vec<&mut Target> = targets.iter_mut().filter(|t| t.constant.is_none()).collect();
            if open.len() != query.columns.len() {
                return Err(mismatch(table, query, &targets, "Different number of columns."));
            }
            open.iter_mut().enumerate().for_each(|(i, t)| t.value = Some(i));
            return Ok(targets);
        }
        if insert.columns.len() != query.columns.len() {
            let message = format!(
                "Number of INSERT target columns ({}) does not equal number of source items ({})",
                insert.columns.len(),
                query.columns.len()
            );
            return Err(invalid_at(insert.target.span(), message));
        }
        for (i, name) in insert.columns.iter().enumerate() {
            let target = target(&mut targets, name)?;
            if target.constant.is_some() || target.value.replace(i).is_some() {
                let message = format!("Target column '{}' is assigned more than once", name.value);
                return Err(invalid_at(name.span, message));
            }
        }
        let left_out = |t: &&Target| t.value.is_none() && t.constant.is_none() && !t.ty.nullable;
        if let Some(target) = targets.iter().find(left_out) {
            let message = format!("Column '{}' has no default value and does not allow NULLs", target.name);
            return Err(invalid_at(insert.target.span(), message));
        }
        Ok(targets)
    }

    /// The query's rowtime column that goes with the rows, if there is just one.
    fn sink_rowtime(&self, table: &ResolvedTable, targets: &[Target], query: &Rel) -> Result<Option<usize>> {
        let is_rowtime = |t: &&Target| t.value.is_some_and(|v| query.columns[v].time == TimeAttribute::Rowtime);
        let rowtimes: Vec<&Target> = targets.iter().filter(is_rowtime).collect();
        let inserter = self.config.get("table.exec.sink.rowtime-inserter").unwrap_or("ENABLED");
        if rowtimes.len() > 1 && !inserter.eq_ignore_ascii_case("DISABLED") {
            let names: Vec<&str> =
                rowtimes.iter().filter_map(|t| t.value).map(|v| query.columns[v].name.as_str()).collect();
            return Err(Error::invalid(format!(
                "The query contains more than one rowtime attribute column [{}] for writing into table '{}'.\nPlease \
                 select the column that should be used as the event-time timestamp for the table sink by casting all \
                 other columns to regular TIMESTAMP or TIMESTAMP_LTZ.",
                names.join(", "),
                table.descriptor.identifier
            )));
        }
        match rowtimes.as_slice() {
            [only] => Ok(only.value),
            _ => Ok(None),
        }
    }

    /// The projection in front of the sink: physical columns, then persisted metadata.
    fn cast_to_sink(
        &self,
        table: &ResolvedTable,
        targets: Vec<Target>,
        query: Rel,
        rowtime: Option<usize>,
    ) -> Result<(Rel, Schema, Option<usize>)> {
        let mut columns: Vec<(bool, usize, Expr, Column)> = Vec::new();
        let mut rowtime_at = None;
        let sink_columns = table.sink_columns();
        for (position, target) in targets.iter().enumerate() {
            let column = &table.columns[sink_columns[position]];
            let expr = match (target.value, &target.constant) {
                (Some(v), _) => query.input_expr(v),
                (None, Some(constant)) => constant.clone(),
                (None, None) => Expr::literal(Value::Null, target.ty.with_nullable(true)),
            };
            let cast = functions::implicit_cast(expr, &target.ty).map_err(|_| {
                let cause =
                    format!("Incompatible types for sink column '{}' at position {}.", target.name, position + 1);
                mismatch(table, &query, &targets, &cause)
            })?;
            let (is_metadata, order, cast) = match column.source {
                ColumnSource::Metadata(m) => {
                    let ty = &table.descriptor.metadata[m].ty;
                    let cast = functions::cast(cast, ty, false).map_err(Error::invalid)?;
                    (true, m, cast)
                }
                ColumnSource::Physical(p) => (false, p, cast),
                ColumnSource::Computed(_) => continue,
            };
            let cast = crate::plan::fold(cast, self.zone());
            let ty = cast.ty.clone();
            columns.push((is_metadata, order, cast, Column::new(&target.name, ty)));
            if rowtime.is_some() && target.value == rowtime {
                rowtime_at = Some(target.name.clone());
            }
        }
        columns.sort_by_key(|(is_metadata, order, ..)| (*is_metadata, *order));
        let rowtime_at = rowtime_at.and_then(|name| columns.iter().position(|(.., c)| c.name == name));
        let schema = Schema::new(columns.iter().map(|(.., c)| Field::new(&c.name, c.ty.clone())).collect());
        let rel = query.calc(None, columns.into_iter().map(|(_, _, e, c)| (e, c)).collect());
        Ok((rel, schema, rowtime_at))
    }

    /// The sink of a query whose rows go to the client.
    pub(super) fn collect_sink(&self, bound: Rel) -> Result<PlannedSink> {
        let schema = bound.schema();
        let table = TableDescriptor {
            identifier: "collect".into(),
            options: [("connector".to_string(), "collect".to_string())].into(),
            physical: schema.clone(),
            ..TableDescriptor::default()
        };
        let rowtimes: Vec<usize> =
            (0..bound.columns.len()).filter(|&i| bound.columns[i].time == TimeAttribute::Rowtime).collect();
        let rowtime = if let [only] = rowtimes.as_slice() { Some(*only) } else { None };
        let spec = SinkSpec { table, drop_nulls: false, rowtime };
        let rel = optimize(bound.clone(), self.zone())?;
        Ok(PlannedSink { rel, spec, schema, parallelism: None, mode: SinkMode::Changelog, bound })
    }
}

fn target<'t>(targets: &'t mut [Target], name: &ast::Ident) -> Result<&'t mut Target> {
    targets
        .iter_mut()
        .find(|t| t.name == name.value)
        .ok_or_else(|| invalid_at(name.span, format!("Unknown target column '{}'", name.value)))
}

/// Flink's message, with its two spaces after `Sink schema:`.
fn mismatch(table: &ResolvedTable, query: &Rel, targets: &[Target], cause: &str) -> Error {
    let query: Vec<String> = query.columns.iter().map(|c| format!("{}: {}", c.name, c.ty)).collect();
    let sink: Vec<String> = targets.iter().map(|t| format!("{}: {}", t.name, t.ty)).collect();
    Error::invalid(format!(
        "Column types of query result and sink for '{}' do not match.\nCause: {cause}\n\nQuery schema: [{}]\nSink \
         schema:  [{}]",
        table.descriptor.identifier,
        query.join(", "),
        sink.join(", ")
    ))
}

/// The tree under a sink, for `EXPLAIN`.
pub fn sink_tree(sink: &PlannedSink, bound: bool) -> String {
    let rel = if bound { &sink.bound } else { &sink.rel };
    if rel_text(rel).is_empty() {
        return sink.description();
    }
    super::explain::tree_text(Some(&sink.description()), rel)
}
