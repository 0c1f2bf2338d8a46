//! From a job graph to tasks that can be started: operators made, channels wired, nothing running.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::connector::{
    EnumeratorContext, Notifier, ReaderContext, Sink, Source, SplitAssignment, TableDescriptor, WriterContext,
};
use tidegate_api::expr::Expr;
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::graph::{JobGraph, OperatorSpec, SourceSpec};
use tidegate_api::{Error, Result, Schema, StreamElement, Watermark};
use tidegate_checkpoint::TaskId;
use tidegate_checkpoint::manifest::StateSchema;
use tidegate_time::Cutter;
use tidegate_window::Zone;
use tokio::sync::mpsc;

use super::attempt::{AttemptCheckpoints, RestoredJob};
use super::boards::Boards;
use super::cluster::ClusterOptions;
use super::execution::Runnable;
use super::handle::{Attempt, JobId, Role, Vertex};
use super::start::{run_source, run_task};
use super::wiring::Wiring;
use crate::builtin::{self, Projection, SinkOperator, ValuesSource};
use crate::cut_rules::cut_rules;
use crate::exchange::ResultPartition;
use crate::late::LateReporter;
use crate::notices::JobNotices;
use crate::operator::{OperatorContext, OperatorStates};
use crate::plan::{ExecutionPlan, PlannedVertex};
use crate::source::{Enumeration, EnumeratorState, EventTime, EventTimeParts, SourceTask, SplitMessage, enumerate};
use crate::task::{
    Link, LinkIdentity, LinkMetrics, LinkOperator, OperatorChain, Subtask, Task, TaskCheckpoints, TaskCommand,
};
use crate::view::VertexInput;

/// Messages from an enumerator that a subtask may have unread.
const SPLIT_MESSAGES: usize = 16;
/// Rows of a source batch.
const BATCH_ROWS: usize = 8_192;

/// A job ready to run.
pub(crate) struct Deployment {
    /// What others see of it.
    pub attempt: Attempt,
    pub runnables: Vec<Runnable>,
    pub tasks: TaskCommands,
}

/// Where the coordinator of checkpoints reaches the tasks of an attempt.
#[derive(Default)]
pub(crate) struct TaskCommands {
    /// By vertex and subtask.
    pub senders: Vec<Vec<mpsc::UnboundedSender<TaskCommand>>>,
    /// What the enumerators of source vertices say, by vertex.
    pub enumerators: BTreeMap<usize, EnumeratorState>,
    /// What operators keep, by node of the graph: name of a state and what it contains.
    pub states: BTreeMap<usize, BTreeMap<String, StateSchema>>,
}

impl Deployment {
    /// Checks the job and makes all its operators.
    pub(crate) fn new(
        graph: &JobGraph,
        plan: &ExecutionPlan,
        id: &JobId,
        options: &ClusterOptions,
        checkpoints: Option<&AttemptCheckpoints>,
    ) -> Result<Self> {
        if let Some(lateness) = graph.config.get("tidegate.lateness").filter(|l| *l != "operator") {
            return Err(Error::unsupported(format!(
                "'tidegate.lateness' = '{lateness}' is not supported; only 'operator' is."
            )));
        }
        let builder = Builder::new(graph, plan, id, options, checkpoints)?;
        let mut runnables = Vec::new();
        let mut wiring = Wiring::new(plan);
        let mut tasks = TaskCommands::default();
        for vertex in 0..plan.vertices.len() {
            if builder.restored().is_some() && vertex == plan.vertices.len() / 2 {
                fail_point::reached(FailPoint::DuringRestore);
            }
            builder.vertex(vertex, &mut wiring, &mut runnables, &mut tasks)?;
        }
        Ok(Deployment { attempt: builder.attempt, runnables, tasks })
    }
}

struct Builder<'a> {
    graph: &'a JobGraph,
    plan: &'a ExecutionPlan,
    options: &'a ClusterOptions,
    checkpoints: Option<&'a AttemptCheckpoints>,
    attempt: Attempt,
    notices: JobNotices,
    late: HashMap<usize, Arc<LateReporter>>,
    boards: Boards,
    /// One per sink node, for all its subtasks.
    sinks: HashMap<usize, Arc<dyn Sink>>,
}

impl<'a> Builder<'a> {
    fn new(
        graph: &'a JobGraph,
        plan: &'a ExecutionPlan,
        id: &JobId,
        options: &'a ClusterOptions,
        checkpoints: Option<&'a AttemptCheckpoints>,
    ) -> Result<Self> {
        let notices = JobNotices::new(id.to_string(), options.notices.clone());
        let (mut late, mut sinks) = (HashMap::new(), HashMap::new());
        for (node, operator) in graph.nodes.iter().enumerate() {
            if let OperatorSpec::Sink(spec) = &operator.spec {
                let factory = options.connectors.factory(&spec.table)?;
                sinks.insert(node, factory.sink(&spec.table, &graph.config)?);
            }
            if Role::of(&operator.spec) == Role::Other {
                let zone = window_zone(&operator.spec);
                let reporter = LateReporter::new(operator.name.clone(), zone, options.clock.clone(), notices.clone());
                late.insert(node, Arc::new(reporter));
            }
        }
        let mut reporters: Vec<(usize, Arc<LateReporter>)> =
            late.iter().map(|(node, reporter)| (*node, reporter.clone())).collect();
        reporters.sort_by_key(|(node, _)| *node);
        let vertices = (0..plan.vertices.len()).map(|vertex| visible(graph, plan, vertex, options));
        let boards = Boards::new(graph);
        let attempt = Attempt {
            vertices: vertices.collect(),
            late: reporters.into_iter().map(|(_, reporter)| reporter).collect(),
            sources: boards.sources(graph),
            windows: boards.windows(graph, &late)?,
        };
        Ok(Builder { graph, plan, options, checkpoints, attempt, notices, late, boards, sinks })
    }

    /// Makes the tasks of a vertex and, for a source, its enumerator.
    fn vertex(
        &self,
        vertex: usize,
        wiring: &mut Wiring,
        runnables: &mut Vec<Runnable>,
        tasks: &mut TaskCommands,
    ) -> Result<()> {
        let planned = &self.plan.vertices[vertex];
        let head = planned.links[0].node;
        let mut source = match self.source(head, planned, runnables)? {
            Some((shared, state)) => {
                tasks.enumerators.insert(vertex, state);
                Some(shared)
            }
            None => None,
        };
        let mut senders = Vec::with_capacity(planned.parallelism);
        for index in 0..planned.parallelism {
            let subtask = self.attempt.vertices[vertex].subtasks[index].clone();
            let (sender, commands) = mpsc::unbounded_channel();
            senders.push(sender.clone());
            let task = self.task(vertex, index, &subtask, wiring, sender, tasks)?;
            let restored = self.restored_watermark(head, index, planned.parallelism);
            let place = format!("{} ({}/{})", planned.name, index + 1, planned.parallelism);
            let future: std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>> = match &mut source {
                Some(shared) => {
                    let spec = shared.spec.clone();
                    let source = self.source_task(head, shared, &subtask, commands, restored)?;
                    Box::pin(run_source(source, task, self.reader_context(planned, &subtask)?, spec))
                }
                None => {
                    let channels = wiring.inputs[vertex][index].channels.clone();
                    let mut gate = wiring.gate(vertex, index, commands, self.options.clock.clone())?;
                    gate.restore(self.in_flight(vertex, index, &channels)?);
                    Box::pin(run_task(task, gate, restored))
                }
            };
            runnables.push(Runnable { place, subtask: Some(subtask), future });
        }
        tasks.senders.push(senders);
        Ok(())
    }

    fn restored(&self) -> Option<(&AttemptCheckpoints, &RestoredJob)> {
        let checkpoints = self.checkpoints?;
        Some((checkpoints, checkpoints.restored.as_deref()?))
    }

    fn restored_watermark(&self, head: usize, subtask: usize, parallelism: usize) -> Watermark {
        let restored = self.restored();
        restored.map_or(Watermark::MIN, |(own, job)| job.watermark(&own.ids[head], subtask, parallelism))
    }

    /// What a checkpoint had overtaken on its way to a task.
    fn in_flight(
        &self,
        vertex: usize,
        subtask: usize,
        channels: &[(usize, usize)],
    ) -> Result<Vec<(usize, StreamElement)>> {
        let Some((own, job)) = self.restored() else { return Ok(Vec::new()) };
        let planned = &self.plan.vertices[vertex];
        let head = &own.ids[planned.links[0].node];
        let schemas = self.input_schemas(vertex, 0);
        let channel =
            |input: u32, sender: u32| channels.iter().position(|channel| *channel == (input as usize, sender as usize));
        job.in_flight(head, subtask, planned.parallelism, &schemas, channel)
    }

    /// A task's link to the coordinator of checkpoints.
    fn task_checkpoints(
        &self,
        vertex: usize,
        index: usize,
        links: Vec<LinkIdentity>,
        channels: &[(usize, usize)],
    ) -> Option<TaskCheckpoints> {
        let own = self.checkpoints?;
        let clock = self.options.clock.clone();
        Some(TaskCheckpoints::new(
            TaskId::new(vertex as u32, index as u32),
            own.facts.clone(),
            own.files.clone(),
            links,
            own.key_groups(index, self.plan.vertices[vertex].parallelism),
            channels.iter().map(|(input, sender)| (*input as u32, *sender as u32)).collect(),
            Arc::new(move || clock.now_ms()),
            own.on_demand,
        ))
    }

    fn task(
        &self,
        vertex: usize,
        index: usize,
        subtask: &Arc<Subtask>,
        wiring: &mut Wiring,
        commands: mpsc::UnboundedSender<TaskCommand>,
        tasks: &mut TaskCommands,
    ) -> Result<Task> {
        let planned = &self.plan.vertices[vertex];
        let mut links: Vec<Link> = Vec::with_capacity(planned.links.len());
        let mut identities = Vec::new();
        for (position, link) in planned.links.iter().enumerate() {
            let states = match self.checkpoints {
                Some(own) => own.states(link.node, index, planned.parallelism),
                None => OperatorStates::default(),
            };
            let operator = self.link_operator(vertex, position, index, subtask, &states)?;
            if let Some(own) = self.checkpoints {
                tasks.states.insert(link.node, states.schemas());
                identities.push(LinkIdentity { id: own.ids[link.node].clone(), states });
            }
            let group = &subtask.operators[position].1;
            let metrics = LinkMetrics::new(group, matches!(operator, LinkOperator::Head));
            if let Some(parent) = link.parent {
                links[parent].children.push(position);
            }
            links.push(Link { operator, children: Vec::new(), partitions: Vec::new(), metrics });
        }
        let mut partitions = Vec::new();
        for (edge, planned_edge) in self.plan.edges.iter().enumerate() {
            let (from, position) = planned_edge.from;
            if from != vertex {
                continue;
            }
            let schema = &self.graph.nodes[planned.links[position].node].output;
            let targets = std::mem::take(&mut wiring.channels[edge][index]);
            links[position].partitions.push(partitions.len());
            partitions.push(ResultPartition::new(&planned_edge.partitioner, schema, targets, index)?);
        }
        let channels = &wiring.inputs[vertex][index].channels;
        let checkpoints = self.task_checkpoints(vertex, index, identities, channels);
        Ok(Task::new(OperatorChain::new(links), partitions, subtask.clone(), checkpoints, commands))
    }

    fn link_operator(
        &self,
        vertex: usize,
        position: usize,
        index: usize,
        subtask: &Arc<Subtask>,
        states: &OperatorStates,
    ) -> Result<LinkOperator> {
        let planned = &self.plan.vertices[vertex];
        let node = planned.links[position].node;
        let operator = &self.graph.nodes[node];
        let metrics = subtask.operators[position].1.clone();
        let made = match &operator.spec {
            OperatorSpec::Source(_) | OperatorSpec::Values { .. } => LinkOperator::Head,
            OperatorSpec::Sink(spec) => {
                let sink = self.sinks.get(&node).ok_or_else(|| Error::internal("a sink that was not made"))?;
                let (restored, staged) = match self.restored() {
                    Some((own, job)) => job.sink(&own.ids[node], index, planned.parallelism),
                    None => Default::default(),
                };
                let context = WriterContext {
                    subtask: index,
                    parallelism: planned.parallelism,
                    rowtime: spec.rowtime,
                    metrics,
                    staging: self.staging(node, index)?,
                    restored,
                    clock: self.options.clock.clone(),
                };
                let notices = self.notifier(&operator.name);
                let account = self.checkpoints.map(|own| own.account(&operator.name, index));
                LinkOperator::Sink(Box::new(SinkOperator::new(spec, sink.clone(), context, notices, staged, account)))
            }
            spec => {
                let late = self.late.get(&node).ok_or_else(|| Error::internal("an operator without a reporter"))?;
                let clock = self.options.clock.clone();
                let ctx = OperatorContext {
                    functions: self.options.functions.clone(),
                    zone: self.zone(),
                    metrics,
                    now_ms: Arc::new(move || clock.now_ms()),
                    state_ttl_ms: Some(self.graph.config.duration_ms("table.exec.state.ttl", 0)?).filter(|ms| *ms > 0),
                    late: late.clone(),
                    states: states.clone(),
                    windows: self.boards.window(node, index),
                };
                let input = self.input_schemas(vertex, position);
                let made = builtin::operator(spec, &input, &operator.output, ctx);
                let mut made = made.map_err(|e| e.context(operator.name.clone()))?;
                if let Some((own, job)) = self.restored() {
                    let kept = job.kept(&own.ids[node], own.key_groups(index, planned.parallelism));
                    made.restore(&kept).map_err(|e| e.context(operator.name.clone()))?;
                }
                LinkOperator::Operator(made)
            }
        };
        Ok(made)
    }

    /// Where a sink stages what it writes until a checkpoint is complete, or the job; its own place if there is none.
    fn staging(&self, node: usize, subtask: usize) -> Result<Option<PathBuf>> {
        self.checkpoints.map(|own| own.staging(node, subtask)).transpose()
    }

    /// Says lines in the name of an operator.
    fn notifier(&self, name: &str) -> Notifier {
        let (notices, name) = (self.notices.clone(), name.to_owned());
        Notifier::new(move |text| notices.warn(format!("{name}: {text}")))
    }

    fn zone(&self) -> String {
        self.graph.config.time_zone().to_owned()
    }

    /// One schema per input of the operator at this link.
    fn input_schemas(&self, vertex: usize, position: usize) -> Vec<Schema> {
        let planned = &self.plan.vertices[vertex];
        if let Some(parent) = planned.links[position].parent {
            return vec![self.graph.nodes[planned.links[parent].node].output.clone()];
        }
        let mut schemas = Vec::new();
        for input in 0..2 {
            let edge = self.plan.edges.iter().find(|edge| edge.to == vertex && edge.input == input);
            if let Some(edge) = edge {
                let (from, link) = edge.from;
                let sender = self.plan.vertices[from].links[link].node;
                schemas.push(self.graph.nodes[sender].output.clone());
            }
        }
        schemas
    }

    /// What a node reads, if it is a source, and how: `VALUES` is one without options or event time.
    fn connect(&self, node: usize) -> Result<Option<(SourceSpec, Arc<dyn Source>)>> {
        let ClusterOptions { functions, clock, connectors, wrap_values, .. } = self.options;
        let output = &self.graph.nodes[node].output;
        Ok(match &self.graph.nodes[node].spec {
            OperatorSpec::Source(spec) => {
                let source = connectors.factory(&spec.table)?.source(&spec.table, &self.graph.config)?;
                Some((spec.clone(), source))
            }
            OperatorSpec::Values { rows } => {
                let values = ValuesSource::new(rows, output, functions.clone(), &self.zone(), clock.now_ms());
                let values: Arc<dyn Source> = Arc::new(values);
                let source = match wrap_values {
                    Some(wrap) => wrap(values, &self.graph.config),
                    None => values,
                };
                let columns = output.fields.iter().enumerate();
                let spec = SourceSpec {
                    table: TableDescriptor::default(),
                    read: Vec::new(),
                    read_schema: output.clone(),
                    projection: columns.map(|(i, field)| Expr::input(i, field.ty.clone())).collect(),
                    watermark: None,
                };
                Some((spec, source))
            }
            _ => None,
        })
    }

    /// What the subtasks of a source share, and what its enumerator, which is added to what runs, tells
    /// checkpoints; `None` if the node is no source.
    fn source(
        &self,
        node: usize,
        planned: &PlannedVertex,
        runnables: &mut Vec<Runnable>,
    ) -> Result<Option<(SharedSource, EnumeratorState)>> {
        let Some((spec, source)) = self.connect(node)? else { return Ok(None) };
        let state = if self.checkpoints.is_some() { EnumeratorState::kept() } else { EnumeratorState::default() };
        let notices = self.notifier(&self.graph.nodes[node].name);
        let restored = match self.restored() {
            Some((own, job)) => job.splits(&own.ids[node])?,
            None => None,
        };
        let enumerator = source.enumerator(EnumeratorContext { notices })?;
        let assignment = enumerator.assignment();
        // A subtask has at most one request open.
        let (requests, requested) = mpsc::channel(planned.parallelism);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..planned.parallelism).map(|_| mpsc::channel(SPLIT_MESSAGES)).unzip();
        runnables.push(Runnable {
            place: format!("{} (split enumerator)", self.graph.nodes[node].name),
            subtask: None,
            future: Box::pin(enumerate(Enumeration {
                enumerator,
                bounded: source.is_bounded(),
                subtasks: senders,
                requests: requested,
                state: state.clone(),
                restored,
            })),
        });
        let start = Arc::new(tokio::sync::Barrier::new(planned.parallelism));
        Ok(Some((SharedSource { spec, source, assignment, requests, start, splits: receivers.into_iter() }, state)))
    }

    fn source_task(
        &self,
        node: usize,
        shared: &mut SharedSource,
        subtask: &Arc<Subtask>,
        commands: mpsc::UnboundedReceiver<TaskCommand>,
        restored: Watermark,
    ) -> Result<SourceTask> {
        let (operator, spec) = (&self.graph.nodes[node], &shared.spec);
        let (functions, zone) = (self.options.functions.as_ref(), self.zone());
        let projection = Projection::new(&spec.projection, &spec.read_schema, &operator.output, functions, &zone)?;
        let mut event_time = match &spec.watermark {
            None => None,
            Some(watermark) => {
                let rules = cut_rules(self.graph, node);
                let rules = rules.iter().map(|rule| rule.rule()).collect::<Result<Vec<_>>>()?;
                Some(EventTime::new(EventTimeParts {
                    spec: watermark,
                    table: &spec.table,
                    expression: functions.compile(&watermark.expr, &operator.output, &zone)?,
                    cutter: Cutter::new(rules),
                    operator: operator.name.clone(),
                    metrics: subtask.operators[0].1.clone(),
                    clock: self.options.clock.clone(),
                    notices: self.notices.clone(),
                }))
            }
        };
        if let Some(event_time) = &mut event_time {
            event_time.restore(restored);
        }
        Ok(SourceTask {
            commands,
            restored,
            finished: Vec::new(),
            ids: Vec::new(),
            is_suspended: false,
            source: shared.source.clone(),
            projection,
            event_time,
            clock: self.options.clock.clone(),
            splits: shared.splits.next().ok_or_else(|| Error::internal("a source subtask too many"))?,
            requests: shared.requests.clone(),
            start: shared.start.clone(),
            assignment: shared.assignment,
            subtask: subtask.index,
            board: self.boards.source(node),
            marks: Vec::new(),
        })
    }

    fn reader_context(&self, planned: &PlannedVertex, subtask: &Arc<Subtask>) -> Result<ReaderContext> {
        Ok(ReaderContext {
            subtask: subtask.index,
            parallelism: planned.parallelism,
            batch_rows: self.graph.config.usize("tidegate.source.batch-rows", BATCH_ROWS)?.max(1),
            metrics: subtask.operators[0].1.clone(),
        })
    }
}

struct SharedSource {
    spec: SourceSpec,
    source: Arc<dyn Source>,
    assignment: SplitAssignment,
    requests: mpsc::Sender<usize>,
    start: Arc<tokio::sync::Barrier>,
    splits: std::vec::IntoIter<mpsc::Receiver<SplitMessage>>,
}

/// The visible side of a vertex.
fn visible(graph: &JobGraph, plan: &ExecutionPlan, vertex: usize, options: &ClusterOptions) -> Vertex {
    let planned = &plan.vertices[vertex];
    let operators: Vec<(String, Role)> = planned
        .links
        .iter()
        .map(|link| (graph.nodes[link.node].name.clone(), Role::of(&graph.nodes[link.node].spec)))
        .collect();
    let names: Vec<String> = operators.iter().map(|(name, _)| name.clone()).collect();
    let inputs: Vec<VertexInput> = plan
        .edges
        .iter()
        .filter(|edge| edge.to == vertex)
        .map(|edge| VertexInput {
            vertex: plan.vertices[edge.from.0].id.clone(),
            partitioner: edge.partitioner.clone(),
        })
        .collect();
    let subtask = |index| Arc::new(Subtask::new(index, !inputs.is_empty(), &names, options.clock.clone()));
    Vertex {
        id: planned.id.clone(),
        name: planned.name.clone(),
        description: planned
            .links
            .iter()
            .map(|link| (link.depth, graph.nodes[link.node].description.clone()))
            .collect(),
        subtasks: (0..planned.parallelism).map(subtask).collect(),
        inputs,
        operators,
    }
}

fn window_zone(spec: &OperatorSpec) -> Zone {
    let window = match spec {
        OperatorSpec::LocalWindowAggregate(a)
        | OperatorSpec::GlobalWindowAggregate(a)
        | OperatorSpec::WindowAggregate(a) => Some(&a.window),
        OperatorSpec::WindowTableFunction { window, .. } => Some(window),
        OperatorSpec::WindowJoin(join) => Some(&join.window),
        _ => None,
    };
    let zone = window.and_then(|window| window.zone.as_deref());
    zone.and_then(|zone| Zone::parse(zone).ok()).unwrap_or(Zone::UTC)
}
