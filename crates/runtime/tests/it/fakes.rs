//! Connectors that follow a script, and a function library with the few functions that tests need.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::*;
use tidegate_api::expr::{AggregateCall, Expr, ExprNode};
use tidegate_api::function::{EvalContext, Evaluator, FunctionLibrary, GroupedAccumulator, RowError};
use tidegate_api::graph::*;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Batch, Error, Field, Result, Schema, Value, WindowKind, WindowSpec};
use tidegate_runtime::{ClusterOptions, JobHandle, LocalCluster, Notice};
use tidegate_time::{Clock, ManualClock};
use tokio::sync::Semaphore;

/// 2026-01-10 10:00:00.
pub const TEN: i64 = 1_768_039_200_000;

/// A row: key, value, seconds after [`TEN`] or no event time.
pub type Row = (&'static str, i64, Option<f64>);

/// What a fake reader does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Rows of the split with this number (at this subtask).
    Rows(usize, Vec<Row>),
    /// These splits are asked in vain, once every 50 ms for this long.
    Quiet(Vec<usize>, i64),
    Finished(usize),
    /// Waits until the test gives a permit.
    Gate,
    Fail(&'static str),
    Panic,
}

/// `k STRING, v BIGINT, ts TIMESTAMP(3)`.
pub fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::string()),
        Field::new("v", LogicalType::new(TypeKind::BigInt)),
        Field::new("ts", LogicalType::new(TypeKind::Timestamp(3))),
    ])
}

pub fn columns(rows: &[Row]) -> RecordBatch {
    let ts = rows.iter().map(|(_, _, s)| s.map(|s| TEN + (s * 1000.0) as i64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(k, _, _)| Some(*k)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, v, _)| *v).collect::<Int64Array>()),
        Arc::new(ts.collect::<TimestampMillisecondArray>()),
    ];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

/// A table that plays a script.
#[derive(Clone)]
pub struct FakeSource {
    /// Splits found at each discovery, as (id, owner).
    pub discoveries: Vec<Vec<(&'static str, u64)>>,
    pub interval: Option<Duration>,
    pub assignment: SplitAssignment,
    pub bounded: bool,
    /// Steps of each subtask.
    pub script: HashMap<usize, Vec<Step>>,
    pub clock: Arc<ManualClock>,
    pub gate: Arc<Semaphore>,
}

impl FakeSource {
    /// One subtask, these splits from the start.
    pub fn new(splits: &[&'static str], script: Vec<Step>, bounded: bool) -> Self {
        FakeSource {
            discoveries: vec![splits.iter().map(|id| (*id, 0)).collect()],
            interval: None,
            assignment: SplitAssignment::Eager,
            bounded,
            script: HashMap::from([(0, script)]),
            clock: Arc::new(ManualClock::new(TEN)),
            gate: Arc::new(Semaphore::new(0)),
        }
    }
}

struct FakeEnumerator {
    discoveries: VecDeque<Vec<(&'static str, u64)>>,
    interval: Option<Duration>,
    assignment: SplitAssignment,
}

#[async_trait]
impl SplitEnumerator for FakeEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let found = self.discoveries.pop_front().unwrap_or_default();
        let split = |(id, owner): (&str, u64)| Split { id: id.into(), owner, state: serde_json::Value::Null };
        Ok(found.into_iter().map(split).collect())
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.interval
    }

    fn assignment(&self) -> SplitAssignment {
        self.assignment
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        Ok(self.discoveries.len().into())
    }

    fn restore(&mut self, state: serde_json::Value) -> Result<()> {
        let left = state.as_u64().unwrap_or_default() as usize;
        self.discoveries.drain(..self.discoveries.len().saturating_sub(left));
        Ok(())
    }
}

struct FakeReader {
    steps: VecDeque<Step>,
    splits: Vec<String>,
    read: i64,
    clock: Arc<ManualClock>,
    gate: Arc<Semaphore>,
    added: Arc<tokio::sync::Notify>,
}

impl Source for FakeSource {
    fn is_bounded(&self) -> bool {
        self.bounded
    }

    fn enumerator(&self, _ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(FakeEnumerator {
            discoveries: self.discoveries.clone().into(),
            interval: self.interval,
            assignment: self.assignment,
        }))
    }

    fn reader(&self, _columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(FakeReader {
            steps: self.script.get(&ctx.subtask).cloned().unwrap_or_default().into(),
            splits: Vec::new(),
            read: 0,
            clock: self.clock.clone(),
            gate: self.gate.clone(),
            added: Arc::default(),
        }))
    }
}

#[async_trait]
impl SourceReader for FakeReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.splits.push(split.id);
        self.added.notify_one();
        Ok(())
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        loop {
            // A step is taken off only when it is done, so that a dropped future loses nothing.
            let needed = match self.steps.front() {
                Some(Step::Rows(split, _) | Step::Finished(split)) => *split,
                Some(Step::Quiet(splits, _)) => splits.iter().max().copied().unwrap_or(0),
                Some(_) => 0,
                None => usize::MAX,
            };
            if needed >= self.splits.len() {
                let () = std::future::pending().await;
            }
            match self.steps.front_mut() {
                Some(Step::Gate) => {
                    self.gate.acquire().await.unwrap().forget();
                    self.steps.pop_front();
                }
                Some(Step::Quiet(splits, left)) if *left > 0 => {
                    *left -= 50;
                    let splits = splits.clone();
                    self.clock.advance_ms(50);
                    return Ok(SourceEvent::Quiet(splits));
                }
                Some(Step::Quiet(..)) => {
                    self.steps.pop_front();
                }
                _ => break,
            }
        }
        match self.steps.pop_front() {
            Some(Step::Rows(split, rows)) => {
                let positions = (self.read..self.read + rows.len() as i64).collect();
                self.read += rows.len() as i64;
                Ok(SourceEvent::Rows(SourceBatch { split, columns: columns(&rows), kinds: None, positions }))
            }
            Some(Step::Finished(split)) => Ok(SourceEvent::SplitFinished(split)),
            Some(Step::Fail(why)) => Err(Error::job(why)),
            Some(Step::Panic) => panic!("the reader broke"),
            _ => std::future::pending().await,
        }
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let split = |id: &String| Split { id: id.clone(), owner: 0, state: self.read.into() };
        Ok(self.splits.iter().map(split).enumerate().collect())
    }

    fn locate(&self, split: usize, position: i64) -> String {
        format!("topic clicks, partition {}, offset {position}", self.splits[split])
    }
}

/// What a fake sink has taken.
#[derive(Clone, Default)]
pub struct Taken {
    pub batches: Arc<Mutex<Vec<Batch>>>,
    /// If set, each write takes a permit.
    pub gate: Option<Arc<Semaphore>>,
    pub finished: Arc<Mutex<usize>>,
    pub flushes: Arc<Mutex<usize>>,
}

impl Taken {
    /// Rows as text: `+I[a, 1, 10:00:05]`, in arrival order.
    pub fn rows(&self) -> Vec<String> {
        self.batches.lock().unwrap().iter().flat_map(row_texts).collect()
    }

    pub fn sorted(&self) -> Vec<String> {
        let mut rows = self.rows();
        rows.sort();
        rows
    }
}

fn row_texts(batch: &Batch) -> Vec<String> {
    let text = |column: &ArrayRef, row: usize| -> String {
        if column.is_null(row) {
            return "null".into();
        }
        match column.data_type() {
            arrow::datatypes::DataType::Utf8 => column.as_string::<i32>().value(row).into(),
            arrow::datatypes::DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
            _ => {
                let ms = column.as_primitive::<TimestampMillisecondType>().value(row) - TEN;
                format!("{}s", ms as f64 / 1000.0)
            }
        }
    };
    (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = batch.columns.columns().iter().map(|c| text(c, row)).collect();
            format!("{}[{}]", batch.kind(row).short(), cells.join(", "))
        })
        .collect()
}

impl Sink for Taken {
    fn mode(&self) -> SinkMode {
        SinkMode::Changelog
    }

    fn writer(&self, _ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl SinkWriter for Taken {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.batches.lock().unwrap().push(batch);
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        *self.flushes.lock().unwrap() += 1;
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        *self.finished.lock().unwrap() += 1;
        Ok(())
    }
}

/// Tables by name: the identifier of a table is `fake`, its table name chooses the source or sink.
#[derive(Clone, Default)]
pub struct FakeConnector {
    pub sources: HashMap<String, FakeSource>,
    pub sinks: HashMap<String, Taken>,
}

impl ConnectorFactory for FakeConnector {
    fn identifier(&self) -> &'static str {
        "fake"
    }

    fn source(&self, table: &TableDescriptor, _config: &Configuration) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.sources[&table.identifier].clone()))
    }

    fn sink(&self, table: &TableDescriptor, _config: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.sinks[&table.identifier].clone()))
    }
}

/// Columns, literals, `TS_MINUS` (milliseconds), `NOT_SEVEN`, `CURRENT_WATERMARK`, and `COUNT`.
pub struct FakeFunctions;

struct Compiled(Expr);

impl Evaluator for Compiled {
    fn evaluate(&mut self, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
        eval(&self.0, batch, ctx)
    }
}

fn eval(expr: &Expr, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
    let rows = batch.num_rows();
    Ok(match &expr.node {
        ExprNode::Input(i) => batch.column(*i).clone(),
        ExprNode::Literal(Value::Int(n)) => Arc::new(Int64Array::from(vec![*n; rows])),
        ExprNode::Literal(Value::Timestamp(ns)) => {
            Arc::new(TimestampMillisecondArray::from(vec![(*ns / 1_000_000) as i64; rows]))
        }
        ExprNode::Literal(Value::String(s)) => Arc::new(StringArray::from(vec![s.as_str(); rows])),
        ExprNode::Call { function, args } => match function.as_str() {
            "TS_MINUS" => {
                let ts = eval(&args[0], batch, ctx)?;
                let Some(Value::Int(ms)) = args[1].as_literal() else { panic!("a literal delay") };
                let shifted: TimestampMillisecondArray =
                    ts.as_primitive::<TimestampMillisecondType>().unary(|t| t - ms);
                Arc::new(shifted)
            }
            "NOT_SEVEN" => {
                let v = eval(&args[0], batch, ctx)?;
                if let Some(row) = v.as_primitive::<Int64Type>().iter().position(|v| v == Some(-1)) {
                    return Err(RowError::new(row, "minus one is not allowed"));
                }
                let keep: BooleanArray = v.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v != 7)).collect();
                Arc::new(keep)
            }
            "CURRENT_WATERMARK" => Arc::new(TimestampMillisecondArray::from(vec![ctx.watermark; rows])),
            other => panic!("no function {other}"),
        },
        other => panic!("no expression {other:?}"),
    })
}

struct Count(Vec<i64>);

impl GroupedAccumulator for Count {
    fn update(
        &mut self,
        _args: &[ArrayRef],
        _selected: Option<&BooleanArray>,
        groups: &[u32],
        group_count: usize,
    ) -> Result<(), RowError> {
        self.0.resize(group_count.max(self.0.len()), 0);
        groups.iter().for_each(|g| self.0[*g as usize] += 1);
        Ok(())
    }

    fn retract(
        &mut self,
        _args: &[ArrayRef],
        _selected: Option<&BooleanArray>,
        groups: &[u32],
        group_count: usize,
    ) -> Result<(), RowError> {
        self.0.resize(group_count.max(self.0.len()), 0);
        groups.iter().for_each(|g| self.0[*g as usize] -= 1);
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], group_count: usize) -> Result<()> {
        self.0.resize(group_count.max(self.0.len()), 0);
        let counts = states[0].as_primitive::<Int64Type>();
        groups.iter().zip(counts.values()).for_each(|(g, n)| self.0[*g as usize] += n);
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        Ok(Arc::new(groups.iter().map(|g| self.0[*g as usize]).collect::<Int64Array>()))
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl FunctionLibrary for FakeFunctions {
    fn compile(&self, expr: &Expr, _input: &Schema, _zone: &str) -> Result<Box<dyn Evaluator>> {
        Ok(Box::new(Compiled(expr.clone())))
    }

    fn accumulator(&self, _call: &AggregateCall, _retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
        Ok(Box::new(Count(Vec::new())))
    }

    fn state_types(&self, _call: &AggregateCall) -> Result<Vec<LogicalType>> {
        Ok(vec![LogicalType::not_null(TypeKind::BigInt)])
    }
}

fn table(name: &str) -> TableDescriptor {
    TableDescriptor {
        identifier: name.into(),
        options: [("connector".to_owned(), "fake".to_owned())].into(),
        physical: schema(),
        ..TableDescriptor::default()
    }
}

fn node(name: &str, spec: OperatorSpec, output: Schema, parallelism: usize) -> OperatorNode {
    OperatorNode { name: name.into(), description: name.into(), spec, output, parallelism }
}

pub fn inputs(schema: &Schema) -> Vec<Expr> {
    schema.fields.iter().enumerate().map(|(i, f)| Expr::input(i, f.ty.clone())).collect()
}

fn count_spec(kind: WindowKind, by_key: bool) -> WindowAggregateSpec {
    let count = AggregateCall {
        function: "COUNT".into(),
        args: Vec::new(),
        arg_types: Vec::new(),
        params: Vec::new(),
        distinct: false,
        filter: None,
        ty: LogicalType::not_null(TypeKind::BigInt),
        meaning: "COUNT(*)".into(),
        name: "cnt".into(),
    };
    WindowAggregateSpec {
        window: WindowSpec { kind, offset: 0, zone: None },
        input: WindowInput::TimeColumn(2),
        keys: if by_key { vec![0] } else { Vec::new() },
        aggregates: vec![count],
        updating_input: false,
    }
}

fn count_output(by_key: bool) -> Schema {
    let ts = LogicalType::not_null(TypeKind::Timestamp(3));
    let mut fields: Vec<Field> = schema().fields[..usize::from(by_key)].to_vec();
    fields.push(Field::new("cnt", LogicalType::not_null(TypeKind::BigInt)));
    fields.extend(["window_start", "window_end", "window_time"].map(|name| Field::new(name, ts.clone())));
    Schema::new(fields)
}

/// A job under construction.
#[derive(Default)]
pub struct Job {
    pub graph: JobGraph,
    connector: FakeConnector,
    notices: Arc<Mutex<Vec<String>>>,
    clock: Option<Arc<ManualClock>>,
}

impl Job {
    pub fn add(&mut self, name: &str, spec: OperatorSpec, output: Schema, parallelism: usize) -> usize {
        self.graph.nodes.push(node(name, spec, output, parallelism));
        self.graph.nodes.len() - 1
    }

    pub fn edge(&mut self, from: usize, to: usize, partitioner: Partitioner) {
        self.graph.edges.push(Edge { from, to, input: 0, partitioner });
    }

    /// A source with `WATERMARK FOR ts AS ts - delay`.
    pub fn source(&mut self, name: &str, mut source: FakeSource, delay_ms: i64, parallelism: usize) -> usize {
        let ts = schema().fields[2].ty.clone();
        let delay = Expr::literal(Value::Int(delay_ms), LogicalType::not_null(TypeKind::BigInt));
        let watermark = WatermarkSpec {
            rowtime: 2,
            rowtime_name: "ts".into(),
            expr: Expr::call("TS_MINUS", vec![Expr::input(2, ts.clone()), delay], ts),
            idle_timeout_ms: None,
            null_policy: NullRowtimePolicy::Fail,
        };
        let spec = SourceSpec {
            table: table(name),
            read: (0..3).map(ReadColumn::Physical).collect(),
            read_schema: schema(),
            projection: inputs(&schema()),
            watermark: Some(watermark),
        };
        // One clock for all readers and the engine.
        let clock = self.clock.get_or_insert_with(|| source.clock.clone());
        source.clock = clock.clone();
        self.connector.sources.insert(name.into(), source);
        let name = format!("Source: {name}[{}]", self.graph.nodes.len() + 1);
        self.add(&name, OperatorSpec::Source(spec), schema(), parallelism)
    }

    /// The gate of a source.
    pub fn gate(&self, source: &str) -> Arc<Semaphore> {
        self.connector.sources[source].gate.clone()
    }

    pub fn watermark(&mut self, source: usize, change: impl Fn(&mut WatermarkSpec)) {
        if let OperatorSpec::Source(SourceSpec { watermark: Some(w), .. }) = &mut self.graph.nodes[source].spec {
            change(w);
        }
    }

    /// TUMBLE over `ts` by `k`: COUNT(*). Output: k, cnt, window_start, window_end, window_time.
    pub fn tumble_count(&mut self, from: usize, size_ms: i64) -> usize {
        self.window_count(from, WindowKind::Tumble { size: size_ms }, true)
    }

    pub fn window_count(&mut self, from: usize, kind: WindowKind, by_key: bool) -> usize {
        let spec = count_spec(kind, by_key);
        let output = count_output(by_key);
        let name = format!("WindowAggregate[{}]", self.graph.nodes.len() + 1);
        let to = self.add(&name, OperatorSpec::WindowAggregate(spec), output, 1);
        self.edge(from, to, if by_key { Partitioner::Hash(vec![0]) } else { Partitioner::Global });
        to
    }

    /// The same in two phases, by key.
    pub fn two_phase_count(&mut self, from: usize, kind: WindowKind) -> usize {
        let big = LogicalType::not_null(TypeKind::BigInt);
        let mut partial: Vec<Field> = schema().fields[..1].to_vec();
        partial.extend(["count", "slice_end", "row_count"].map(|name| Field::new(name, big.clone())));
        let number = self.graph.nodes.len() + 1;
        let parallelism = self.graph.nodes[from].parallelism;
        let local = OperatorSpec::LocalWindowAggregate(count_spec(kind, true));
        let local = self.add(&format!("LocalWindowAggregate[{number}]"), local, Schema::new(partial), parallelism);
        self.edge(from, local, Partitioner::Forward);
        let global = OperatorSpec::GlobalWindowAggregate(count_spec(kind, true));
        let global = self.add(&format!("GlobalWindowAggregate[{}]", number + 1), global, count_output(true), 1);
        self.edge(local, global, Partitioner::Hash(vec![0]));
        global
    }

    pub fn sink(&mut self, from: usize, name: &str, taken: &Taken) -> usize {
        let mut table = table(name);
        table.physical = self.graph.nodes[from].output.clone();
        let (output, parallelism) = (table.physical.clone(), self.graph.nodes[from].parallelism);
        self.connector.sinks.insert(name.into(), taken.clone());
        let spec = OperatorSpec::Sink(SinkSpec { table, drop_nulls: false, rowtime: None });
        let name = format!("{name}[{}]: Writer", self.graph.nodes.len() + 1);
        let to = self.add(&name, spec, output, parallelism);
        self.edge(from, to, Partitioner::Forward);
        to
    }

    pub fn start(self) -> Running {
        self.start_on(2)
    }

    pub fn start_on(self, worker_threads: usize) -> Running {
        let mut connectors = ConnectorRegistry::default();
        connectors.register(Arc::new(self.connector));
        let notices = self.notices.clone();
        let clock = self.clock.unwrap_or_else(|| Arc::new(ManualClock::new(TEN)));
        let mut options = ClusterOptions::new(connectors, Arc::new(FakeFunctions));
        options.worker_threads = worker_threads;
        options.clock = clock as Arc<dyn Clock>;
        options.notices = Arc::new(move |n: Notice| notices.lock().unwrap().push(n.text));
        let cluster = LocalCluster::new(options).unwrap();
        let handle = cluster.submit(self.graph).unwrap();
        Running { handle, notices: self.notices, _cluster: cluster }
    }
}

/// A job that runs.
pub struct Running {
    pub handle: JobHandle,
    pub notices: Arc<Mutex<Vec<String>>>,
    _cluster: LocalCluster,
}

impl Running {
    /// The job's end, which must come soon.
    pub fn wait(&self) -> Result<tidegate_runtime::JobSummary> {
        block_on(async {
            tokio::time::timeout(Duration::from_secs(20), self.handle.wait()).await.expect("the job does not end")
        })
    }

    /// Waits until `ready` holds; fails if that takes too long.
    pub fn until(&self, what: &str, ready: impl Fn(&Running) -> bool) {
        block_on(async {
            for _ in 0..4_000 {
                if ready(self) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("in vain waited for: {what}");
        });
    }

    /// A metric of the operator whose name starts like this, of one subtask.
    pub fn metric(&self, operator: &str, subtask: usize, metric: &str) -> Option<i64> {
        let view = self.handle.view();
        let mut found = view.vertices.iter().flat_map(|v| v.subtasks.get(subtask)).flat_map(|s| &s.operators);
        let (_, metrics) = found.find(|(name, _)| name.starts_with(operator))?;
        metrics.iter().find(|(name, _)| name == metric).map(|(_, value)| *value)
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
