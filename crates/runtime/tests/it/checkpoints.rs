//! Jobs that fail and go on, are stopped and go on elsewhere: every row counts once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::*;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{
    JobGraph, NullRowtimePolicy, OperatorSpec, Partitioner, SinkSpec, SourceSpec, WatermarkSpec,
};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Batch, Error, Result, Value, WindowKind};
use tidegate_checkpoint::Stop;
use tidegate_runtime::{ClusterOptions, JobHandle, LocalCluster, Notice};

use crate::fakes::{FakeFunctions, Job, inputs, schema};

const ROWS: i64 = 4_000;
const SPLITS: u64 = 3;
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Splits of numbered rows, and when reading them fails.
#[derive(Clone, Default)]
struct Numbers {
    read: Arc<AtomicI64>,
    fail_at: Arc<Mutex<Vec<i64>>>,
    /// Nothing is read behind so many rows while this is set.
    held: Arc<AtomicBool>,
    /// The first split that is not at its end is read far more often than the others.
    uneven: bool,
    /// More splits may come for ever.
    endless: bool,
    /// The subtask that reads the first split.
    first_owner: u64,
}

const HELD_AT: i64 = 3_000;

struct NumbersEnumerator {
    given: bool,
    endless: bool,
    first_owner: u64,
}

struct NumbersReader {
    numbers: Numbers,
    splits: Vec<(Split, i64)>,
    finished: Vec<bool>,
    turn: usize,
}

impl Source for Numbers {
    fn is_bounded(&self) -> bool {
        !self.endless
    }

    fn enumerator(&self, _: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(NumbersEnumerator { given: false, endless: self.endless, first_owner: self.first_owner }))
    }

    fn reader(&self, _: &[ReadColumn], _: ReaderContext) -> Result<Box<dyn SourceReader>> {
        let numbers = self.clone();
        Ok(Box::new(NumbersReader { numbers, splits: Vec::new(), finished: Vec::new(), turn: 0 }))
    }
}

#[async_trait]
impl SplitEnumerator for NumbersEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let splits = if std::mem::replace(&mut self.given, true) { 0 } else { SPLITS };
        let split = |i| Split { id: format!("numbers-{i}"), owner: i + self.first_owner, state: 0.into() };
        Ok((0..splits).map(split).collect())
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.endless.then_some(Duration::from_secs(3600))
    }

    fn assignment(&self) -> SplitAssignment {
        SplitAssignment::Eager
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        Ok(self.given.into())
    }

    fn restore(&mut self, state: serde_json::Value) -> Result<()> {
        self.given = state.as_bool().unwrap();
        Ok(())
    }
}

/// Row `i` of a split: up to two seconds out of order.
fn time_of(i: i64) -> i64 {
    i * 50 - (i * 37 % 11) * 200
}

#[async_trait]
impl SourceReader for NumbersReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let next = split.state.as_i64().unwrap();
        self.splits.push((split, next));
        self.finished.push(false);
        Ok(())
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        tokio::time::sleep(Duration::from_micros(400)).await;
        while self.numbers.held.load(Ordering::SeqCst) && self.numbers.read.load(Ordering::SeqCst) >= HELD_AT {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if self.finished.iter().all(|f| *f) {
            return std::future::pending().await;
        }
        while self.finished[self.turn % self.splits.len()] {
            self.turn += 1;
        }
        let mut split = self.turn % self.splits.len();
        self.turn += 1;
        if self.numbers.uneven && !self.turn.is_multiple_of(32) {
            split = self.finished.iter().position(|finished| !finished).unwrap_or(split);
        }
        let from = self.splits[split].1;
        if from >= ROWS {
            self.finished[split] = true;
            return Ok(SourceEvent::SplitFinished(split));
        }
        let rows: Vec<i64> = (from..(from + 9).min(ROWS)).collect();
        let read = self.numbers.read.fetch_add(rows.len() as i64, Ordering::SeqCst);
        let mut fail_at = self.numbers.fail_at.lock().unwrap();
        if fail_at.first().is_some_and(|at| read >= *at) {
            fail_at.remove(0);
            return Err(Error::job("the disk caught fire"));
        }
        self.splits[split].1 += rows.len() as i64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|i| Some(KEYS[(i % 8) as usize])).collect::<StringArray>()),
            Arc::new(rows.iter().copied().collect::<Int64Array>()),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|i| time_of(*i)))),
        ];
        let columns = RecordBatch::try_new(schema().to_arrow(), columns).unwrap();
        Ok(SourceEvent::Rows(SourceBatch { split, columns, kinds: None, positions: rows }))
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let open = self.splits.iter().enumerate().filter(|(i, _)| !self.finished[*i]);
        Ok(open.map(|(i, (split, next))| (i, Split { state: (*next).into(), ..split.clone() })).collect())
    }

    fn locate(&self, split: usize, position: i64) -> String {
        format!("split {split}, row {position}")
    }
}

/// What was published, by the name of the committable: publishing twice is publishing once.
#[derive(Clone, Default)]
struct Ledger {
    pages: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    /// Milliseconds each batch takes to write.
    slow_ms: u64,
    /// How many of the next attempts to publish fail.
    fail: Arc<AtomicI64>,
}

struct LedgerWriter {
    rows: Vec<String>,
    slow_ms: u64,
    subtask: usize,
}

impl Sink for Ledger {
    fn mode(&self) -> SinkMode {
        SinkMode::Append
    }

    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(LedgerWriter { rows: Vec::new(), slow_ms: self.slow_ms, subtask: ctx.subtask }))
    }

    fn committer(&self, _: CommitterContext) -> Result<Option<Box<dyn SinkCommitter>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

#[async_trait]
impl SinkWriter for LedgerWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(self.slow_ms)).await;
        let (keys, counts) = (batch.columns.column(0).as_string::<i32>(), batch.columns.column(1));
        let starts = batch.columns.column(2).as_primitive::<TimestampMillisecondType>();
        for row in 0..batch.num_rows() {
            let count = counts.as_primitive::<Int64Type>().value(row);
            self.rows.push(format!("{} {} {count}", starts.value(row), keys.value(row)));
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn pre_commit(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        static NEXT: AtomicI64 = AtomicI64::new(0);
        let name = format!("{checkpoint}-{}-{}", self.subtask, NEXT.fetch_add(1, Ordering::SeqCst));
        let rows = std::mem::take(&mut self.rows);
        let count = rows.len() as u64;
        Ok(vec![Committable { state: serde_json::json!({ "name": name, "rows": rows }), rows: count, files: vec![] }])
    }

    async fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl SinkCommitter for Ledger {
    async fn recover(&mut self, pending: Vec<Committable>) -> Result<()> {
        self.commit(pending).await
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()> {
        if !committables.is_empty() && self.fail.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Err(Error::job("the ledger is locked"));
        }
        for committable in committables {
            let name = committable.state["name"].as_str().unwrap().to_owned();
            let rows: Vec<String> = serde_json::from_value(committable.state["rows"].clone()).unwrap();
            self.pages.lock().unwrap().insert(name, rows);
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Connector {
    numbers: Numbers,
    ledger: Ledger,
}

impl ConnectorFactory for Connector {
    fn identifier(&self) -> &'static str {
        "fake"
    }

    fn source(&self, _: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.numbers.clone()))
    }

    fn sink(&self, _: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.ledger.clone()))
    }
}

fn table(name: &str, physical: tidegate_api::Schema) -> TableDescriptor {
    let options = [("connector".to_owned(), "fake".to_owned())].into();
    TableDescriptor { identifier: name.into(), options, physical, ..TableDescriptor::default() }
}

fn numbers_source() -> OperatorSpec {
    let ts = schema().fields[2].ty.clone();
    let delay = Expr::literal(Value::Int(2_000), LogicalType::not_null(TypeKind::BigInt));
    OperatorSpec::Source(SourceSpec {
        table: table("numbers", schema()),
        read: (0..3).map(ReadColumn::Physical).collect(),
        read_schema: schema(),
        projection: inputs(&schema()),
        watermark: Some(WatermarkSpec {
            rowtime: 2,
            rowtime_name: "ts".into(),
            expr: Expr::call("TS_MINUS", vec![Expr::input(2, ts.clone()), delay], ts),
            idle_timeout_ms: None,
            null_policy: NullRowtimePolicy::Fail,
        }),
    })
}

/// A source and a sink that takes its rows as they are: one vertex.
fn add_copies(job: &mut Job, source: OperatorSpec, parallelism: usize) {
    let number = job.graph.nodes.len();
    let source = job.add(&format!("Source[{number}]"), source, schema(), parallelism);
    let sink = SinkSpec { table: table(&format!("ledger{number}"), schema()), drop_nulls: false, rowtime: None };
    let sink = job.add(&format!("ledger[{number}]: Writer"), OperatorSpec::Sink(sink), schema(), parallelism);
    job.edge(source, sink, Partitioner::Forward);
}

/// Numbers as they are, into the ledger.
fn copies(parallelism: usize, settings: &[(&str, &str)]) -> JobGraph {
    let mut job = Job::default();
    add_copies(&mut job, numbers_source(), parallelism);
    settings.iter().for_each(|(key, value)| job.graph.config.set(*key, *value));
    job.graph
}

/// Numbers, counted by key in windows of 10 seconds, into the ledger.
fn graph(parallelism: usize, settings: &[(&str, &str)]) -> JobGraph {
    let mut job = Job::default();
    let source = job.add("Source: numbers[1]", numbers_source(), schema(), parallelism);
    let windows = job.two_phase_count(source, WindowKind::Tumble { size: 10_000 });
    job.graph.nodes[windows].parallelism = parallelism;
    let output = job.graph.nodes[windows].output.clone();
    let sink = SinkSpec { table: table("ledger", output.clone()), drop_nulls: false, rowtime: None };
    let sink = job.add("ledger[4]: Writer", OperatorSpec::Sink(sink), output, parallelism);
    job.edge(windows, sink, Partitioner::Forward);
    settings.iter().for_each(|(key, value)| job.graph.config.set(*key, *value));
    job.graph
}

struct Rig {
    connector: Connector,
    cluster: LocalCluster,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    fn new(connector: &Connector) -> Rig {
        let mut connectors = ConnectorRegistry::default();
        connectors.register(Arc::new(connector.clone()));
        let mut options = ClusterOptions::new(connectors, Arc::new(FakeFunctions));
        options.worker_threads = 2;
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = notices.clone();
        options.notices = Arc::new(move |n: Notice| told.lock().unwrap().push(n.text));
        Rig { connector: connector.clone(), cluster: LocalCluster::new(options).unwrap(), notices }
    }

    fn submit(&self, parallelism: usize, settings: &[(&str, &str)]) -> JobHandle {
        self.cluster.submit(graph(parallelism, settings)).unwrap()
    }

    /// Everything published, in order.
    fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.connector.ledger.pages.lock().unwrap().values().flatten().cloned().collect();
        rows.sort();
        rows
    }
}

fn connector(fail_at: &[i64], slow_ms: u64) -> Connector {
    let numbers = Numbers { fail_at: Arc::new(Mutex::new(fail_at.to_vec())), ..Numbers::default() };
    Connector { numbers, ledger: Ledger { slow_ms, ..Ledger::default() } }
}

fn within<T>(seconds: u64, future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let timed = async { tokio::time::timeout(Duration::from_secs(seconds), future).await };
    runtime.block_on(timed).expect("it takes too long")
}

/// What must be published, whatever happens.
fn expected() -> Vec<String> {
    let mut counts: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    for i in 0..ROWS {
        let start = time_of(i).div_euclid(10_000) * 10_000;
        *counts.entry((start, KEYS[(i % 8) as usize])).or_default() += SPLITS as i64;
    }
    let mut rows: Vec<String> = counts.iter().map(|((start, key), n)| format!("{start} {key} {n}")).collect();
    rows.sort();
    rows
}

const EVERY_20_MS: [(&str, &str); 3] = [
    ("execution.checkpointing.interval", "20 ms"),
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "100"),
];

fn often<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut settings = EVERY_20_MS.to_vec();
    settings.push(("restart-strategy.fixed-delay.delay", "1 ms"));
    settings.extend_from_slice(more);
    settings
}

#[test]
fn a_job_that_fails_goes_on_from_its_last_checkpoint_and_counts_every_row_once() {
    for parallelism in [1, 2] {
        let rig = Rig::new(&connector(&[2_000, 5_000, 9_000], 0));
        let job = rig.submit(parallelism, &often(&[]));
        within(60, job.wait()).unwrap();
        assert_eq!(rig.rows(), expected(), "parallelism {parallelism}");
        assert_eq!(job.restarts(), 3, "one for each failure");
        assert_eq!(job.view().past_failures.len(), 3);
        let checkpoints = job.checkpoints();
        assert!(checkpoints.completed > 3 && checkpoints.restored.is_some(), "{checkpoints:?}");
        let history = job.checkpoint_statistics().unwrap().history;
        assert_eq!(history.counts().completed, checkpoints.completed, "over all attempts");
        assert_eq!((history.counts().restored, history.counts().in_progress), (3, 0));
        let last = history.latest_completed().unwrap();
        assert!(history.restored().unwrap().checkpoint < last.barrier.id);
        assert_eq!(last.tasks.len(), last.expected, "{last:?}");
        assert!(history.samples().any(|sample| sample.written_bytes > 0), "{history:?}");
        let notices = rig.notices.lock().unwrap().join("\n");
        assert!(notices.contains("starts again from checkpoint") && notices.contains("caught fire"), "{notices}");
    }
}

#[test]
fn a_job_that_starts_again_keeps_no_folders_of_earlier_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(&connector(&[500, 1_000], 0));
    rig.connector.numbers.held.store(true, Ordering::SeqCst);
    let job = rig.submit(1, &often(&[("io.tmp.dirs", folder.path().to_str().unwrap())]));
    within(60, async {
        while job.restarts() < 2 || rig.connector.numbers.read.load(Ordering::SeqCst) < HELD_AT {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let names = |folder: &Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let own = names(folder.path());
    let attempts = names(&own[0]);
    assert_eq!(attempts, [own[0].join("attempt-3")]);
    job.cancel().unwrap();
    within(60, async {
        job.wait().await.unwrap_err();
        // The last of it goes right after the job has said that it is over.
        while !names(folder.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn barriers_overtake_what_a_slow_sink_holds_up() {
    let rig = Rig::new(&connector(&[6_000], 20));
    let unaligned = [("execution.checkpointing.unaligned.enabled", "true")];
    let job = rig.submit(2, &often(&unaligned));
    within(60, job.wait()).unwrap();
    assert_eq!(rig.rows(), expected());
    let history = job.checkpoint_statistics().unwrap().history;
    let overtaken = history.samples().filter(|sample| sample.persisted_bytes > 0).count();
    assert!(overtaken > 0, "{history:?}");
    assert!(history.records().any(|record| record.type_name() == "UNALIGNED_CHECKPOINT"), "{history:?}");
}

#[test]
fn without_checkpoints_all_is_published_at_the_end() {
    let rig = Rig::new(&connector(&[], 0));
    within(60, rig.submit(2, &[]).wait()).unwrap();
    assert_eq!(rig.rows(), expected());
}

#[test]
fn a_job_gives_up_when_its_strategy_says_so() {
    let rig = Rig::new(&connector(&[100, 200, 300], 0));
    let once = [("restart-strategy.fixed-delay.attempts", "1")];
    let failed = within(60, rig.submit(1, &often(&once)).wait()).unwrap_err();
    assert!(failed.to_string().contains("the disk caught fire"), "{failed}");
}

fn savepoint_then_restore(connector: &Connector, stop: Option<Stop>, before: usize, after: usize) {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(connector);
    let dir = [("execution.checkpointing.savepoint-dir", folder.path().to_str().unwrap())];
    rig.connector.numbers.held.store(true, Ordering::SeqCst);
    let job = rig.submit(before, &often(&dir));
    let location = within(60, async {
        while rig.connector.numbers.read.load(Ordering::SeqCst) < HELD_AT {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let location = job.savepoint(None, stop).await.unwrap();
        if stop.is_none() {
            job.cancel().unwrap();
        }
        let _ = job.wait().await;
        location
    });
    assert!(Path::new(location.trim_start_matches("file:")).join("_metadata").exists(), "{location}");
    assert_ne!(rig.rows(), expected(), "it was stopped in the middle");
    rig.connector.numbers.held.store(false, Ordering::SeqCst);
    if stop.is_none() {
        // What was published after the savepoint is published again: that is what going back means.
        rig.connector.ledger.pages.lock().unwrap().clear();
        return;
    }
    let restore = [("execution.state-recovery.path", location.as_str())];
    within(60, rig.submit(after, &often(&restore)).wait()).unwrap();
    assert_eq!(rig.rows(), expected(), "{before} to {after}");
}

#[test]
fn a_job_stopped_with_a_savepoint_goes_on_from_it_at_any_parallelism() {
    for (before, after) in [(1, 1), (2, 2), (1, 3), (3, 1), (2, 3)] {
        savepoint_then_restore(&connector(&[], 0), Some(Stop::Suspend), before, after);
    }
}

/// Splits go on from where each was, and the one that was ahead does not make the others late.
#[test]
fn splits_that_are_far_behind_are_not_late_after_a_restore() {
    for (before, after) in [(1, 1), (3, 1), (1, 2)] {
        let mut connector = connector(&[], 0);
        connector.numbers.uneven = true;
        savepoint_then_restore(&connector, Some(Stop::Suspend), before, after);
    }
}

#[test]
fn a_job_that_goes_on_looking_for_splits_is_stopped_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut connector = connector(&[], 0);
    connector.numbers.endless = true;
    let rig = Rig::new(&connector);
    rig.connector.numbers.held.store(true, Ordering::SeqCst);
    let job = rig.submit(2, &often(&[("execution.checkpointing.savepoint-dir", folder.path().to_str().unwrap())]));
    within(60, async {
        // It need not run yet: what is asked for waits until it does.
        job.savepoint(None, Some(Stop::Suspend)).await.unwrap();
        job.wait().await.unwrap();
    });
}

#[test]
fn a_savepoint_leaves_the_job_running() {
    savepoint_then_restore(&connector(&[], 0), None, 2, 2);
}

#[test]
fn a_missing_snapshot_is_told_before_anything_runs() {
    let rig = Rig::new(&connector(&[], 0));
    let restore = [("execution.state-recovery.path", "/nowhere/at/all")];
    let told = within(60, rig.submit(1, &often(&restore)).wait()).unwrap_err().to_string();
    assert!(told.contains("/nowhere/at/all"), "{told}");
    assert!(rig.rows().is_empty());
}

/// The numbers themselves, as the ledger writes them.
fn all_copies() -> Vec<String> {
    let row = |i: i64| format!("{} {} {i}", time_of(i), KEYS[(i % 8) as usize]);
    let mut rows: Vec<String> = (0..SPLITS).flat_map(|_| (0..ROWS).map(row)).collect();
    rows.sort();
    rows
}

#[test]
fn what_was_read_to_its_end_is_not_read_again_when_the_last_output_cannot_be_published() {
    for parallelism in [1, 2] {
        let rig = Rig::new(&connector(&[], 0));
        rig.connector.ledger.fail.store(1, Ordering::SeqCst);
        let settings = often(&[("execution.checkpointing.interval", "1 h")]);
        let job = rig.cluster.submit(copies(parallelism, &settings)).unwrap();
        within(300, job.wait()).unwrap();
        assert_eq!(rig.rows().len(), all_copies().len(), "parallelism {parallelism}");
        assert_eq!(rig.rows(), all_copies(), "parallelism {parallelism}");
        assert_eq!(job.restarts(), 1, "one for the failure");
    }
}

#[test]
fn a_subtask_that_has_ended_does_not_begin_again_with_the_others() {
    // Whoever has but one split ends early: the first subtask, or the second.
    for first_owner in [0, 1] {
        let mut connector = connector(&[9_500, 11_000], 0);
        connector.numbers.first_owner = first_owner;
        let rig = Rig::new(&connector);
        let job = rig.cluster.submit(copies(2, &often(&[]))).unwrap();
        within(300, job.wait()).unwrap();
        assert_eq!(rig.rows().len(), all_copies().len(), "first owner {first_owner}");
        assert_eq!(rig.rows(), all_copies(), "first owner {first_owner}");
        assert_eq!(job.restarts(), 2, "one for each failure");
    }
}

#[test]
fn a_source_that_has_ended_is_not_read_again_beside_one_that_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let dir = [("execution.checkpointing.savepoint-dir", folder.path().to_str().unwrap())];
    let rig = Rig::new(&connector(&[], 0));
    let both = |settings: &[(&str, &str)]| {
        let row = |i| vec![Value::String("z".into()), Value::Int(i), Value::Timestamp(0)];
        let mut job = Job::default();
        add_copies(&mut job, numbers_source(), 1);
        add_copies(&mut job, OperatorSpec::Values { rows: (0..5).map(row).collect() }, 1);
        settings.iter().for_each(|(key, value)| job.graph.config.set(*key, *value));
        job.graph
    };
    let has_values = || rig.rows().iter().any(|row| row.contains(" z "));
    rig.connector.numbers.held.store(true, Ordering::SeqCst);
    let job = rig.cluster.submit(both(&often(&dir))).unwrap();
    let location = within(300, async {
        while rig.connector.numbers.read.load(Ordering::SeqCst) < HELD_AT || !has_values() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let location = job.savepoint(None, Some(Stop::Suspend)).await.unwrap();
        job.wait().await.unwrap();
        location
    });
    rig.connector.numbers.held.store(false, Ordering::SeqCst);
    let restore = [("execution.state-recovery.path", location.as_str())];
    within(300, rig.cluster.submit(both(&often(&restore))).unwrap().wait()).unwrap();
    let values = rig.rows().iter().filter(|row| row.contains(" z ")).count();
    assert_eq!((values, rig.rows().len()), (5, 5 + all_copies().len()));
}
