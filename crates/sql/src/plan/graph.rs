//! From the logical plan to the job graph: phases, exchanges, parallelism and Flink's names.
//!
//! Operators are numbered as Flink numbers its exec nodes, inputs first; an exchange by key or to one
//! task takes a number too. Scans of one table with the same options become one source that reads
//! what any of them needs.

mod joins;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tidegate_api::connector::TableDescriptor;
use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::graph::{
    Edge, GroupAggregateSpec, JobGraph, OperatorNode, OperatorSpec, Partitioner, WindowAggregateSpec, WindowInput,
};
use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};
use tidegate_window::WindowKind;

use super::Planner;
use super::explain::{aggregate_text, calc_text, rel_text};
use super::rel::{Rel, RelKind, WindowAggregate, visit_inputs};
use super::sink::PlannedSink;
use super::source::SourceUse;
use crate::aggregates;

/// An operator's output, to be connected.
#[derive(Clone, Copy, Debug)]
struct Port {
    node: usize,
    parallelism: usize,
}

/// Scans of one table with one set of options.
type TableKey = (String, BTreeMap<String, String>);

fn table_key(table: &TableDescriptor) -> TableKey {
    (table.identifier.clone(), table.options.clone())
}

/// The graph being made.
pub struct Lowering<'p, 'a> {
    planner: &'p Planner<'a>,
    graph: JobGraph,
    next_number: usize,
    parallelism: usize,
    sources: BTreeMap<TableKey, SourceUse>,
}

impl<'p, 'a> Lowering<'p, 'a> {
    /// An empty graph.
    pub fn new(planner: &'p Planner<'a>, name: String) -> Result<Self> {
        let graph = JobGraph { name, config: planner.config.clone(), ..JobGraph::default() };
        let default = planner.config.usize("parallelism.default", 1)?;
        let parallelism = match planner.config.get("table.exec.resource.default-parallelism") {
            Some(text) => text.trim().parse::<i64>().ok().filter(|n| *n > 0).map_or(default, |n| n as usize),
            None => default,
        };
        if parallelism == 0 {
            return Err(Error::invalid(
                "Could not parse value '0' for key 'parallelism.default': it must be positive.",
            ));
        }
        Ok(Lowering { planner, graph, next_number: 1, parallelism, sources: BTreeMap::new() })
    }

    /// Lowers all sinks into one graph.
    pub fn lower(mut self, sinks: Vec<PlannedSink>) -> Result<JobGraph> {
        for sink in &sinks {
            self.collect_scans(&sink.rel, None);
        }
        let mut sources = std::mem::take(&mut self.sources);
        for source in sources.values_mut() {
            source.open(self.planner)?;
        }
        for sink in &sinks {
            mark_updating(&sink.rel, &sources);
        }
        self.sources = sources;
        for sink in sinks {
            self.lower_sink(sink)?;
        }
        Ok(self.graph)
    }

    /// Notes which columns of which table are read.
    fn collect_scans(&mut self, rel: &Rel, read: Option<&BTreeSet<usize>>) {
        match &rel.kind {
            RelKind::Scan(table) => {
                let entry = self
                    .sources
                    .entry(table_key(&table.descriptor))
                    .or_insert_with(|| SourceUse::new(Rc::clone(table)));
                match read {
                    Some(read) => entry.used.extend(read),
                    None => entry.used.extend(0..table.columns.len()),
                }
            }
            RelKind::Calc { input, filter, projection } if matches!(input.kind, RelKind::Scan(_)) => {
                let mut read = BTreeSet::new();
                for e in filter.iter().chain(projection) {
                    visit_inputs(e, &mut |i| {
                        read.insert(i);
                    });
                }
                self.collect_scans(input, Some(&read));
            }
            _ => {
                for input in rel.inputs() {
                    self.collect_scans(input, None);
                }
            }
        }
    }

    fn number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number - 1
    }

    fn add(
        &mut self,
        name: String,
        description: String,
        spec: OperatorSpec,
        output: Schema,
        parallelism: usize,
    ) -> Port {
        self.graph.nodes.push(OperatorNode { name, description, spec, output, parallelism });
        Port { node: self.graph.nodes.len() - 1, parallelism }
    }

    /// A numbered operator, `name[7]`.
    fn operator(&mut self, name: &str, description: String, spec: OperatorSpec, output: Schema, p: usize) -> Port {
        let name = format!("{name}[{}]", self.number());
        self.add(name, description, spec, output, p)
    }

    fn connect(&mut self, from: Port, to: Port, partitioner: Partitioner) {
        self.connect_input(from, to, 0, partitioner);
    }

    fn connect_input(&mut self, from: Port, to: Port, input: usize, partitioner: Partitioner) {
        self.graph.edges.push(Edge { from: from.node, to: to.node, input, partitioner });
    }

    /// Rows stay where they are if they can.
    fn connect_any(&mut self, from: Port, to: Port) {
        let same = from.parallelism == to.parallelism;
        self.connect(from, to, if same { Partitioner::Forward } else { Partitioner::Rebalance });
    }

    /// The exchange before a keyed operator: its partitioner and the parallelism behind it.
    fn exchange(&mut self, keys: Vec<usize>) -> (Partitioner, usize) {
        self.number();
        if keys.is_empty() { (Partitioner::Global, 1) } else { (Partitioner::Hash(keys), self.parallelism) }
    }

    /// Lowers `rel`; `before` says whether what is above needs `-U` rows.
    fn lower_rel(&mut self, rel: &Rel, before: bool) -> Result<Port> {
        match &rel.kind {
            RelKind::Scan(table) => self.lower_scan(&table.descriptor),
            RelKind::Values(rows) => {
                let spec = OperatorSpec::Values { rows: rows.clone() };
                let name = format!("Source: Values[{}]", self.number());
                Ok(self.add(name, rel_text(rel), spec, rel.schema(), 1))
            }
            RelKind::Calc { input, filter, projection } => {
                // A condition may hold for the new row and not for the old one.
                let before = before || filter.is_some();
                self.lower_calc(rel, input, filter.clone(), projection.clone(), before)
            }
            RelKind::Union(inputs) => self.lower_union(rel, inputs, before),
            RelKind::WindowTvf { input, window, time_column, keys } => {
                let from = self.lower_rel(input, before)?;
                let session = matches!(window.kind, WindowKind::Session { .. });
                let exchange = session.then(|| self.exchange(keys.clone()));
                let spec = OperatorSpec::WindowTableFunction {
                    window: window.clone(),
                    time_column: *time_column,
                    keys: keys.clone(),
                };
                let parallelism = exchange.as_ref().map_or(from.parallelism, |(_, p)| *p);
                let tvf = self.operator("WindowTableFunction", rel_text(rel), spec, rel.schema(), parallelism);
                match exchange {
                    Some((partitioner, _)) => self.connect(from, tvf, partitioner),
                    None => self.connect_any(from, tvf),
                }
                Ok(tvf)
            }
            RelKind::WindowAggregate(aggregate) => self.lower_window_aggregate(rel, aggregate),
            RelKind::IntervalJoin(join) => self.lower_interval_join(rel, join),
            RelKind::Join(_) => Err(Error::internal("a join that nobody has decided on")),
            RelKind::GroupAggregate { input, keys, aggregates } => {
                let updating_input = input.is_updating();
                let from = self.lower_rel(input, true)?;
                let (partitioner, parallelism) = self.exchange(keys.clone());
                if updating_input {
                    check_retract(aggregates)?;
                }
                let spec = OperatorSpec::GroupAggregate(GroupAggregateSpec {
                    keys: keys.clone(),
                    aggregates: aggregates.clone(),
                    updating_input,
                    emit_update_before: before,
                });
                let group = self.operator("GroupAggregate", rel_text(rel), spec, rel.schema(), parallelism);
                self.connect(from, group, partitioner);
                Ok(group)
            }
            RelKind::Expand { input, projections } => {
                let from = self.lower_rel(input, before)?;
                let spec = OperatorSpec::Expand { projections: projections.clone() };
                let expand = self.operator("Expand", rel_text(rel), spec, rel.schema(), from.parallelism);
                self.connect_any(from, expand);
                Ok(expand)
            }
            RelKind::Unnest { input, spec } => {
                let from = self.lower_rel(input, before)?;
                let spec = OperatorSpec::Unnest(spec.clone());
                let unnest = self.operator("Correlate", rel_text(rel), spec, rel.schema(), from.parallelism);
                self.connect_any(from, unnest);
                Ok(unnest)
            }
        }
    }

    fn lower_union(&mut self, rel: &Rel, inputs: &[Rel], before: bool) -> Result<Port> {
        let ports: Vec<Port> = inputs.iter().map(|i| self.lower_rel(i, before)).collect::<Result<_>>()?;
        let parallelism = ports.iter().map(|p| p.parallelism).max().unwrap_or(1);
        let union = self.operator("Union", rel_text(rel), OperatorSpec::Union, rel.schema(), parallelism);
        for port in ports {
            self.connect_any(port, union);
        }
        Ok(union)
    }

    fn lower_calc(
        &mut self,
        rel: &Rel,
        input: &Rel,
        mut filter: Option<Expr>,
        mut projection: Vec<Expr>,
        before: bool,
    ) -> Result<Port> {
        let description = calc_text(input, filter.as_ref(), &projection, &rel.columns);
        let from = match &input.kind {
            RelKind::Scan(table) => {
                let port = self.lower_scan(&table.descriptor)?;
                if let Some(source) = self.sources.get(&table_key(&table.descriptor)) {
                    let map = |i: usize| source.position(i);
                    filter.iter_mut().chain(&mut projection).for_each(|e| e.map_inputs(&map));
                }
                port
            }
            _ => self.lower_rel(input, before)?,
        };
        let spec = OperatorSpec::Calc { filter, projection };
        let calc = self.operator("Calc", description, spec, rel.schema(), from.parallelism);
        self.connect_any(from, calc);
        Ok(calc)
    }

    /// The shared source of a table, made when it is first needed.
    fn lower_scan(&mut self, table: &TableDescriptor) -> Result<Port> {
        let key = table_key(table);
        let missing = || Error::internal(format!("no source was prepared for {}", table.identifier));
        let source = self.sources.get(&key).ok_or_else(missing)?;
        if let Some(node) = source.node {
            return Ok(Port { node, parallelism: self.graph.nodes[node].parallelism });
        }
        let lowered = source.lower(self.planner)?;
        let parallelism = source.parallelism.unwrap_or(self.parallelism);
        let table_name = source.table.short_name().to_string();
        let name = format!("Source: {table_name}[{}]", self.number());
        let port = self.add(name, lowered.description, OperatorSpec::Source(lowered.spec), lowered.output, parallelism);
        if let Some(source) = self.sources.get_mut(&key) {
            source.node = Some(port.node);
        }
        Ok(port)
    }

    fn lower_window_aggregate(&mut self, rel: &Rel, aggregate: &WindowAggregate) -> Result<Port> {
        let updating_input = aggregate.input.is_updating();
        if updating_input {
            check_retract(&aggregate.aggregates)?;
        }
        let two_phase = !aggregate.legacy
            && !updating_input
            && matches!(aggregate.source, WindowInput::TimeColumn(_))
            && !matches!(aggregate.window.kind, WindowKind::Session { .. })
            && aggregate.aggregates.iter().all(aggregates::can_merge)
            && self.planner.config.get("table.optimizer.agg-phase-strategy") != Some("ONE_PHASE");
        let from = self.lower_rel(&aggregate.input, true)?;
        let spec = WindowAggregateSpec {
            window: aggregate.window.clone(),
            input: aggregate.source.clone(),
            keys: aggregate.keys.clone(),
            aggregates: aggregate.aggregates.clone(),
            updating_input,
        };
        let description = rel_text(rel);
        if !two_phase {
            let (partitioner, parallelism) = self.exchange(spec.keys.clone());
            let name = if aggregate.legacy { "GroupWindowAggregate" } else { "WindowAggregate" };
            let node = self.operator(name, description, OperatorSpec::WindowAggregate(spec), rel.schema(), parallelism);
            self.connect(from, node, partitioner);
            return Ok(node);
        }
        let keys = spec.keys.len();
        let local_spec = OperatorSpec::LocalWindowAggregate(spec.clone());
        let local_output = local_schema(&aggregate.input, &spec)?;
        let local_text = format!("Local{description}");
        let local = self.operator("LocalWindowAggregate", local_text, local_spec, local_output, from.parallelism);
        self.connect_any(from, local);
        let (partitioner, parallelism) = self.exchange((0..keys).collect());
        let global_spec = WindowAggregateSpec { keys: (0..keys).collect(), ..spec };
        let global = self.operator(
            "GlobalWindowAggregate",
            format!("Global{description}"),
            OperatorSpec::GlobalWindowAggregate(global_spec),
            rel.schema(),
            parallelism,
        );
        self.connect(local, global, partitioner);
        Ok(global)
    }

    fn lower_sink(&mut self, sink: PlannedSink) -> Result<()> {
        let updating = sink.rel.is_updating();
        sink.check_changes(self.planner.config)?;
        let from = self.lower_rel(&sink.rel, sink.needs_before())?;
        let parallelism = sink.parallelism.unwrap_or(from.parallelism);
        let name = format!("{}[{}]: Writer", sink.short_name(), self.number());
        let key = sink.spec.table.primary_key.clone();
        let node = self.add(name, sink.description(), OperatorSpec::Sink(sink.spec), sink.schema, parallelism);
        if updating && from.parallelism != parallelism && !key.is_empty() {
            // Changes of one key must stay in order.
            self.connect(from, node, Partitioner::Hash(key));
        } else {
            self.connect_any(from, node);
        }
        Ok(())
    }
}

/// Tells scans whether their table's rows may be changes, once the sources are known.
fn mark_updating(rel: &Rel, sources: &BTreeMap<TableKey, SourceUse>) {
    if let RelKind::Scan(table) = &rel.kind
        && let Some(source) = sources.get(&table_key(&table.descriptor))
    {
        table.updating.set(source.updating);
    }
    for input in rel.inputs() {
        mark_updating(input, sources);
    }
}

fn check_retract(calls: &[tidegate_api::expr::AggregateCall]) -> Result<()> {
    match calls.iter().find(|c| !aggregates::can_retract(c)) {
        Some(call) => Err(Error::unsupported(format!("{} over updating input is not supported.", call.function))),
        None => Ok(()),
    }
}

/// Keys, partial states, slice end and row count.
fn local_schema(input: &Rel, spec: &WindowAggregateSpec) -> Result<Schema> {
    let mut fields: Vec<Field> =
        spec.keys.iter().map(|&k| Field::new(&input.columns[k].name, input.columns[k].ty.clone())).collect();
    for (i, call) in spec.aggregates.iter().enumerate() {
        for (j, ty) in aggregates::state_types(call)?.into_iter().enumerate() {
            fields.push(Field::new(format!("{}${i}_{j}", call.function.to_lowercase()), ty));
        }
    }
    fields.push(Field::new("slice_end", LogicalType::not_null(TypeKind::BigInt)));
    fields.push(Field::new("row_count", LogicalType::not_null(TypeKind::BigInt)));
    Ok(Schema::new(fields))
}

/// The first operator from above that makes changes, for messages.
pub fn updating_producer(rel: &Rel) -> (String, &'static str) {
    match &rel.kind {
        RelKind::GroupAggregate { input, keys, aggregates } if !aggregates.is_empty() => {
            let what = if input.is_updating() { "update and delete changes" } else { "update changes" };
            (format!("GroupAggregate({})", aggregate_text(&input.columns, keys, aggregates)), what)
        }
        RelKind::Scan(_) => (rel_text(rel), "update and delete changes"),
        _ => match rel.inputs().into_iter().find(|r| r.is_updating()) {
            Some(input) => updating_producer(input),
            None => (rel_text(rel), "update and delete changes"),
        },
    }
}
