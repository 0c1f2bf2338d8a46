//! A session small enough for planner tests: DDL, settings, inserts; connectors that open nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    ConnectorFactory, ConnectorRegistry, EnumeratorContext, ReadColumn, ReaderContext, Sink, SinkMode, SinkWriter,
    Source, SourceReader, SplitEnumerator, TableDescriptor, WriterContext,
};
use tidegate_api::error::{Error, Result};
use tidegate_api::graph::{JobGraph, OperatorSpec, SourceSpec};
use tidegate_api::types::LogicalType;

use crate::ast::{AlterAction, Statement};
use crate::catalog::{Catalog, CatalogObject, CatalogTable, CatalogView};
use crate::parser::parse_statement;
use crate::plan::Planner;
use crate::script::split_script as split;

struct StubSource {
    updating: bool,
}

impl Source for StubSource {
    fn is_bounded(&self) -> bool {
        true
    }

    fn is_updating(&self) -> bool {
        self.updating
    }

    fn enumerator(&self, _ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Err(Error::internal("a stub is never read"))
    }

    fn reader(&self, _: &[ReadColumn], _: ReaderContext) -> Result<Box<dyn SourceReader>> {
        Err(Error::internal("a stub is never read"))
    }
}

struct StubSink(SinkMode);

impl Sink for StubSink {
    fn mode(&self) -> SinkMode {
        self.0
    }

    fn writer(&self, _: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Err(Error::internal("a stub is never written"))
    }
}

/// Takes any table; knows the keys of Kafka and the filesystem.
struct StubFactory {
    name: &'static str,
    mode: SinkMode,
}

impl ConnectorFactory for StubFactory {
    fn identifier(&self) -> &'static str {
        self.name
    }

    fn source(&self, table: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Source>> {
        if self.name == "print" {
            return Err(Error::invalid("Connector 'print' can only be used as a sink. It cannot be used as a source."));
        }
        if let Some(key) = table.options.keys().find(|k| k.starts_with("scan.watermark.")) {
            return Err(Error::invalid(format!("Unsupported options found: {key}")));
        }
        let format = table.options.get("format").map(String::as_str).unwrap_or_default();
        Ok(Arc::new(StubSource { updating: format.starts_with("debezium") || format.starts_with("canal") }))
    }

    fn sink(&self, _: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(StubSink(self.mode)))
    }

    fn metadata_keys(&self, _: &BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        use tidegate_api::types::TypeKind;
        vec![
            ("timestamp".into(), LogicalType::not_null(TypeKind::TimestampLtz(3))),
            ("partition".into(), LogicalType::not_null(TypeKind::Int)),
            ("file.name".into(), LogicalType::string().with_nullable(false)),
        ]
    }
}

/// What a script left behind: graphs in order, or the first error.
#[derive(Default)]
pub struct Session {
    pub catalog: Catalog,
    pub config: Configuration,
    pub connectors: ConnectorRegistry,
    pub graphs: Vec<JobGraph>,
}

impl Session {
    pub fn new() -> Session {
        let mut session = Session::default();
        for (name, mode) in [
            ("kafka", SinkMode::Append),
            ("filesystem", SinkMode::Append),
            ("datagen", SinkMode::Append),
            ("upsert-kafka", SinkMode::Upsert),
            ("print", SinkMode::Changelog),
            ("blackhole", SinkMode::Changelog),
        ] {
            session.connectors.register(Arc::new(StubFactory { name, mode }));
        }
        session
    }

    pub fn run(&mut self, script: &str) -> Result<()> {
        for statement in split(script)? {
            self.execute(parse_statement(&statement)?)?;
        }
        Ok(())
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.catalog, &self.config, &self.connectors)
    }

    fn execute(&mut self, statement: Statement) -> Result<()> {
        match statement {
            Statement::CreateTable(create) => {
                let mut table = CatalogTable::from_create(&create, self.catalog.qualify(&create.name))?;
                if let Some(like) = &create.like {
                    self.catalog.merge_like(like, &mut table)?;
                }
                table.check()?;
                self.catalog.create(CatalogObject::Table(table), create.if_not_exists, create.or_replace)
            }
            Statement::CreateView(create) => {
                self.planner().query_schema(&create.query)?;
                let view = CatalogView {
                    path: self.catalog.qualify(&create.name),
                    temporary: create.temporary,
                    columns: create.columns,
                    query: create.query,
                    query_text: create.query_text,
                    comment: None,
                    catalog: self.catalog.current_catalog().into(),
                    database: self.catalog.current_database().into(),
                };
                self.catalog.create(CatalogObject::View(view), create.if_not_exists, create.or_replace)
            }
            Statement::AlterTable(alter) => {
                let path = self.catalog.qualify(&alter.name);
                if let AlterAction::RenameTo(new) = &alter.action {
                    return self.catalog.rename(&path, new, false);
                }
                let CatalogObject::Table(table) = self.catalog.permanent_mut(&path, false)? else {
                    return Err(Error::invalid("not a table"));
                };
                *table = table.altered(&alter.action)?;
                Ok(())
            }
            Statement::CreateCatalog { name, if_not_exists, options, .. } => {
                self.catalog.create_catalog(&name.value, if_not_exists, None, options)
            }
            Statement::CreateDatabase { name, if_not_exists, options, .. } => {
                self.catalog.create_database(&name, if_not_exists, None, options)
            }
            Statement::Use(name) => self.catalog.use_database(&name),
            Statement::UseCatalog(name) => self.catalog.use_catalog(&name.value),
            Statement::Drop(d) => {
                let path = self.catalog.qualify(&d.name);
                let view = d.object == crate::ast::ObjectKind::View;
                self.catalog.drop_object(&path, view, d.temporary, d.if_exists)
            }
            Statement::Set(Some((key, value))) => {
                self.config.set(key, value);
                Ok(())
            }
            Statement::Insert(insert) => self.keep(|p| p.plan_inserts(std::slice::from_ref(&*insert))),
            Statement::StatementSet(inserts) => self.keep(|p| p.plan_inserts(&inserts)),
            Statement::Query(query) => self.keep(|p| Ok(p.plan_select(&query)?.0)),
            Statement::Explain { statement, .. } => match *statement {
                Statement::Query(query) => self.planner().explain_query(&query).map(|_| ()),
                Statement::Insert(insert) => self.planner().explain_inserts(std::slice::from_ref(&*insert)).map(|_| ()),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn keep(&mut self, plan: impl FnOnce(&Planner<'_>) -> Result<JobGraph>) -> Result<()> {
        let graph = plan(&self.planner())?;
        self.graphs.push(graph);
        Ok(())
    }
}

/// The graphs of a script's inserts.
pub fn graphs(script: &str) -> Vec<JobGraph> {
    let mut session = Session::new();
    session.run(script).unwrap_or_else(|e| panic!("{e}"));
    session.graphs
}

/// The graph of a script with one insert.
pub fn graph(script: &str) -> JobGraph {
    graphs(script).pop().expect("no insert in the script")
}

/// What is wrong with a script.
pub fn error(script: &str) -> String {
    match Session::new().run(script) {
        Ok(()) => panic!("planned without an error"),
        Err(e) => e.to_string(),
    }
}

/// The operators' names.
pub fn names(graph: &JobGraph) -> Vec<&str> {
    graph.nodes.iter().map(|n| n.name.as_str()).collect()
}

/// The source of that number.
pub fn source(graph: &JobGraph, node: usize) -> &SourceSpec {
    match &graph.nodes[node].spec {
        OperatorSpec::Source(spec) => spec,
        other => panic!("not a source: {other:?}"),
    }
}
