//! The planner: from a query as written to a job graph.
//!
//! 1. *Bind* (`query`, `expr`, `scope`, `table`): names become columns, expressions get Flink's
//!    types, time attributes are followed; out comes a logical plan ([`rel`]).
//! 2. *Optimise* (`optimize`): columns nobody reads vanish, Calcs melt together, window functions
//!    melt into aggregates, and joins (`joins`) become the kind of join their condition makes them.
//! 3. *Lower* (`graph`, `source`, `sink`): phases, exchanges, parallelism, names.
//!
//! Planning is pure: the catalog, the settings and the connectors' factories go in, plain data comes
//! out. Every mistake is reported with its place; every construct that does not run is refused by
//! name, after the mistakes.

pub(crate) mod error;
mod explain;
pub(crate) mod expr;
mod graph;
mod joins;
mod lookup;
mod optimize;
mod query;
pub mod rel;
pub(crate) mod scope;
mod sink;
mod source;
mod table;
mod types;
mod window;

#[cfg(test)]
mod tests;

use std::cell::RefCell;

use tidegate_api::config::Configuration;
use tidegate_api::connector::ConnectorRegistry;
use tidegate_api::error::{Error, Result};
use tidegate_api::graph::JobGraph;
use tidegate_api::types::Schema;

use crate::ast;
use crate::catalog::Catalog;
use crate::functions::fold;
use graph::Lowering;
use query::Env;
use rel::Rel;
use sink::PlannedSink;

pub use table::{ColumnSource, ResolvedColumn, ResolvedTable, ResolvedWatermark, table_schema};
pub use types::logical_type;

/// Plans statements against one catalog with one set of settings.
pub struct Planner<'a> {
    catalog: &'a Catalog,
    config: &'a Configuration,
    connectors: &'a ConnectorRegistry,
    /// What was found not to run, kept until the query has been read for mistakes.
    refusals: RefCell<Vec<Error>>,
}

impl<'a> Planner<'a> {
    /// A planner.
    pub fn new(catalog: &'a Catalog, config: &'a Configuration, connectors: &'a ConnectorRegistry) -> Self {
        Planner { catalog, config, connectors, refusals: RefCell::default() }
    }

    /// One job that runs all of `inserts`. A table that several of them read with the same options is
    /// read once.
    pub fn plan_inserts(&self, inserts: &[ast::Insert]) -> Result<JobGraph> {
        let sinks = self.plan_sinks(inserts)?;
        let targets: Vec<&str> = sinks.iter().map(|s| s.spec.table.identifier.as_str()).collect();
        let name = self.job_name(&format!("insert-into_{}", targets.join(",")));
        Lowering::new(self, name)?.lower(sinks)
    }

    /// A job whose rows go to the client, and the columns they have.
    pub fn plan_select(&self, query: &ast::Query) -> Result<(JobGraph, Schema)> {
        let sink = self.collect_sink(self.bind_checked(query)?)?;
        let schema = sink.schema.clone();
        let name = self.job_name("collect");
        Ok((Lowering::new(self, name)?.lower(vec![sink])?, schema))
    }

    /// The columns of a query.
    pub fn query_schema(&self, query: &ast::Query) -> Result<Schema> {
        Ok(self.bind_checked(query)?.schema())
    }

    /// `EXPLAIN INSERT ...` and `EXPLAIN STATEMENT SET ...`.
    pub fn explain_inserts(&self, inserts: &[ast::Insert]) -> Result<String> {
        let sinks = self.plan_sinks(inserts)?;
        self.explain(sinks)
    }

    /// `EXPLAIN SELECT ...`.
    pub fn explain_query(&self, query: &ast::Query) -> Result<String> {
        let bound = self.bind_checked(query)?;
        let optimized = optimize::optimize(bound.clone(), self.zone())?;
        let (bound, optimized) = (explain::tree_text(None, &bound), explain::tree_text(None, &optimized));
        Ok(sections(&bound, &optimized, &optimized))
    }

    fn explain(&self, sinks: Vec<PlannedSink>) -> Result<String> {
        let text = |bound: bool| sinks.iter().map(|s| sink::sink_tree(s, bound)).collect::<Vec<_>>().join("\n");
        let (bound, optimized) = (text(true), text(false));
        // Lowering makes the checks that EXPLAIN must not pass over.
        let graph = Lowering::new(self, String::new())?.lower(sinks)?;
        Ok(sections(&bound, &optimized, &graph_text(&graph)))
    }

    fn plan_sinks(&self, inserts: &[ast::Insert]) -> Result<Vec<PlannedSink>> {
        self.refusals.take();
        let env = self.env();
        let sinks: Vec<PlannedSink> = inserts.iter().map(|i| self.plan_sink(i, &env)).collect::<Result<_>>()?;
        self.refuse_now()?;
        Ok(sinks)
    }

    fn bind_checked(&self, query: &ast::Query) -> Result<Rel> {
        self.refusals.take();
        let rel = self.bind_query(query, &self.env())?;
        self.refuse_now()?;
        Ok(rel)
    }

    fn env(&self) -> Env {
        Env {
            catalog: self.catalog.current_catalog().to_string(),
            database: self.catalog.current_database().to_string(),
            ctes: Vec::new(),
            views: Vec::new(),
        }
    }

    /// Remembers that the query cannot run, in case it has no mistake.
    fn refuse_later(&self, error: Error) {
        self.refusals.borrow_mut().push(error);
    }

    fn refuse_now(&self) -> Result<()> {
        match self.refusals.take().into_iter().next() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn zone(&self) -> &str {
        self.config.time_zone()
    }

    fn job_name(&self, default: &str) -> String {
        self.config.get("pipeline.name").unwrap_or(default).to_string()
    }
}

fn sections(bound: &str, optimized: &str, execution: &str) -> String {
    format!(
        "== Abstract Syntax Tree ==\n{bound}\n== Optimized Physical Plan ==\n{optimized}\n== Optimized Execution Plan \
         ==\n{execution}"
    )
}

/// The operators of a graph with their descriptions and parallelism.
fn graph_text(graph: &JobGraph) -> String {
    let mut out = String::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        out += &format!("{}: {} (parallelism {})\n", node.name, node.description, node.parallelism);
        for edge in graph.edges.iter().filter(|e| e.to == i) {
            out += &format!("   <- {} [{:?}]\n", graph.nodes[edge.from].name, edge.partitioner);
        }
    }
    out
}
