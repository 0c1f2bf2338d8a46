//! Operators as streams see them: lines of rows and watermarks in, lines out.
//!
//! A line is `a 5 1000` (key, value, time in ms), `-U a 5 1000`, `wm 2000` or `end`. A blank line ends a
//! batch. Rows behind `>` are of the right input.

mod groups;
mod joins;
mod library;
mod model;
mod rescale;
mod sessions;
mod shares;
mod stores;
mod ttl;
mod windows;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array};
use arrow::util::display::array_value_to_string;
use tidegate_api::expr::AggregateCall;
use tidegate_api::graph::OperatorSpec;
use tidegate_api::metrics::MetricGroup;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Batch, Field, RowKind, Schema, StreamElement, Watermark};

use super::build;
use crate::operator::{LateListener, LateRows, Operator, OperatorContext, OperatorStates, Output};
use stores::TestStores;

fn column(name: &str, kind: TypeKind) -> Field {
    Field::new(name, LogicalType::new(kind))
}

/// `k STRING, v BIGINT, ts TIMESTAMP(3)`.
fn input() -> Schema {
    Schema::new(vec![
        column("k", LogicalType::string().kind),
        column("v", TypeKind::BigInt),
        column("ts", TypeKind::Timestamp(3)),
    ])
}

fn call(function: &str) -> AggregateCall {
    let args = if function == "COUNT" { vec![] } else { vec![1] };
    let ty = if function == "LIST" { LogicalType::string() } else { LogicalType::new(TypeKind::BigInt) };
    AggregateCall {
        function: function.into(),
        arg_types: args.iter().map(|_| LogicalType::new(TypeKind::BigInt)).collect(),
        args,
        params: vec![],
        distinct: false,
        filter: None,
        ty,
        name: function.to_lowercase(),
        meaning: function.into(),
    }
}

fn window_fields() -> Vec<Field> {
    ["window_start", "window_end", "window_time"].map(|n| column(n, TypeKind::Timestamp(3))).into()
}

#[derive(Default)]
struct Late(Mutex<Vec<LateRows>>);

impl LateListener for Late {
    fn late(&self, rows: LateRows) {
        self.0.lock().unwrap().push(rows);
    }
}

/// An operator with what it reports.
struct Rig {
    operator: Box<dyn Operator>,
    late: Arc<Late>,
    metrics: Arc<MetricGroup>,
    spec: (OperatorSpec, Schema, Schema),
    stores: TestStores,
    time: Time,
    /// Late rows that were fed twice.
    late_twice: u64,
    /// The same operator under other circumstances.
    twins: Vec<(Twin, Rig)>,
}

/// The wall clock, and how long keys live without a row.
#[derive(Clone, Default)]
struct Time {
    now_ms: Arc<AtomicI64>,
    state_ttl_ms: Option<i64>,
}

/// Circumstances that make no difference.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Twin {
    /// Replaced by one restored from its checkpoint after every element.
    Restored,
    /// With no memory for groups: they leave after every batch.
    OnDisk,
    /// Both.
    RestoredOnDisk,
    /// Restored after every element, now in memory, now on disk.
    Moving,
    /// Restored from checkpoints whose state is written when the next element has been worked off: it is as it was
    /// before, and what comes out of the element is the same again.
    WrittenLater,
    /// The same on disk.
    WrittenLaterOnDisk,
    /// After every element a savepoint that writes everything is taken; some are gone on from.
    Whole,
    /// The same, written when the next element has been worked off.
    WholeLater,
}

impl Rig {
    fn new(spec: &OperatorSpec, input: &Schema, output: &Schema) -> Rig {
        Rig::with_time(spec, input, output, &Time::default())
    }

    fn with_time(spec: &OperatorSpec, input: &Schema, output: &Schema, time: &Time) -> Rig {
        let mut rig = Rig::limited(spec, input, output, None, false, time);
        let twin = |twin: Twin| {
            let on_disk = matches!(twin, Twin::OnDisk | Twin::RestoredOnDisk | Twin::WrittenLaterOnDisk);
            let is_whole = matches!(twin, Twin::Whole | Twin::WholeLater);
            (twin, Rig::limited(spec, input, output, on_disk.then_some(0), is_whole, time))
        };
        let all = [
            Twin::Restored,
            Twin::OnDisk,
            Twin::RestoredOnDisk,
            Twin::Moving,
            Twin::WrittenLater,
            Twin::WrittenLaterOnDisk,
            Twin::Whole,
            Twin::WholeLater,
        ];
        rig.twins = all.map(twin).into();
        rig
    }

    fn limited(
        spec: &OperatorSpec,
        input: &Schema,
        output: &Schema,
        table_bytes: Option<usize>,
        writes_whole: bool,
        time: &Time,
    ) -> Rig {
        let spec = (spec.clone(), input.clone(), output.clone());
        let stores = TestStores::default();
        stores.limit(table_bytes);
        if writes_whole {
            stores.write_whole();
        }
        let (late, metrics) = (Arc::new(Late::default()), Arc::new(MetricGroup::default()));
        let operator = make(&spec, stores.states(), time, late.clone(), metrics.clone());
        Rig { operator, late, metrics, spec, stores, time: time.clone(), twins: Vec::new(), late_twice: 0 }
    }

    fn feed(&mut self, element: StreamElement) -> Vec<StreamElement> {
        self.feed_to(0, element)
    }

    /// Feeds an element of this input.
    fn feed_to(&mut self, input: usize, element: StreamElement) -> Vec<StreamElement> {
        feed(self.operator.as_mut(), input, element)
    }

    /// Takes a checkpoint and goes on with a new operator restored from it; gives what the barrier pushed
    /// out.
    fn replace(&mut self) -> Vec<StreamElement> {
        let (out, kept) = self.barrier();
        self.go_on_from(kept);
        out
    }

    /// A barrier passes: gives what it pushed out and what the operator keeps.
    fn barrier(&mut self) -> (Vec<StreamElement>, serde_json::Value) {
        let mut out = Output::default();
        self.operator.before_barrier(&mut out).unwrap();
        let kept = self.operator.checkpoint().unwrap();
        self.stores.ask();
        if self.operator.save_some(0).unwrap() {
            self.stores.begin();
        }
        (out.take(), kept)
    }

    /// Writes what the barrier has noted.
    fn write(&mut self) {
        while !self.operator.save_some(1).unwrap() {}
        self.stores.take();
    }

    /// Goes on with a new operator, restored as of the barrier at which `kept` was.
    fn go_on_from(&mut self, kept: serde_json::Value) {
        self.write();
        self.operator = make(&self.spec, self.stores.states(), &self.time, self.late.clone(), self.metrics.clone());
        self.operator.restore(&[kept]).unwrap();
    }

    /// Feeds an element behind a barrier before the state is written, and again to who goes on from there.
    fn feed_twice(&mut self, input: usize, element: StreamElement) -> Vec<StreamElement> {
        let (mut out, kept) = self.barrier();
        self.operator.save_some(1).unwrap();
        let late = self.late();
        let before = self.feed_to(input, element.clone());
        self.late_twice += self.late() - late;
        self.go_on_from(kept);
        let again = self.feed_to(input, element);
        assert_eq!(
            in_order_of_time(&lines(&again)),
            in_order_of_time(&lines(&before)),
            "what comes out the second time"
        );
        out.extend(again);
        out
    }

    /// Feeds a script and gives what came out, rows as `+I[a, 1]`, watermarks left out. The twins give
    /// the same.
    fn run(&mut self, script: &str) -> Vec<String> {
        self.run_all(&inputs(script))
    }

    /// The same with elements, each of an input.
    fn run_all(&mut self, elements: &[(usize, StreamElement)]) -> Vec<String> {
        let out: Vec<_> = elements.iter().cloned().flat_map(|(input, e)| self.feed_to(input, e)).collect();
        let out = lines(&out);
        let late = self.late();
        for (twin, rig) in &mut self.twins {
            let theirs = lines(&rig.run_as(*twin, elements));
            // A first phase lets go of its partials at a barrier; they only come in other portions.
            if !matches!(self.spec.0, OperatorSpec::LocalWindowAggregate(_)) {
                assert_eq!(in_order_of_time(&theirs), in_order_of_time(&out), "{twin:?}");
                assert_eq!(rig.late(), late, "late rows, {twin:?}");
            }
        }
        out
    }

    fn run_as(&mut self, twin: Twin, elements: &[(usize, StreamElement)]) -> Vec<StreamElement> {
        let mut out = Vec::new();
        for (i, (input, element)) in elements.iter().cloned().enumerate() {
            if matches!(twin, Twin::WrittenLater | Twin::WrittenLaterOnDisk | Twin::WholeLater) {
                out.extend(self.feed_twice(input, element));
                continue;
            }
            out.extend(self.feed_to(input, element));
            if twin == Twin::Moving {
                self.stores.limit((i % 2 == 0).then_some(0));
            }
            match twin {
                Twin::OnDisk => {}
                Twin::Whole if i % 3 < 2 => {
                    out.extend(self.barrier().0);
                    self.write();
                }
                _ => out.extend(self.replace()),
            }
        }
        out
    }

    fn late(&self) -> u64 {
        let counted = self.metrics.counter("numLateRecordsDropped").get();
        assert_eq!(counted, self.late.0.lock().unwrap().iter().map(|l| l.count).sum::<u64>());
        counted - self.late_twice
    }
}

/// Gives an operator an element of an input and takes what comes out.
fn feed(operator: &mut dyn Operator, input: usize, element: StreamElement) -> Vec<StreamElement> {
    let mut out = Output::default();
    match element {
        StreamElement::Batch(batch) => operator.process_batch(input, batch, &mut out).unwrap(),
        StreamElement::Watermark(watermark) => operator.process_watermark(watermark, &mut out).unwrap(),
        StreamElement::EndOfInput => operator.end_of_input(&mut out).unwrap(),
        StreamElement::Status(_) => {}
    }
    while operator.resume(&mut out).unwrap() {}
    out.take()
}

fn make(
    (spec, input, output): &(OperatorSpec, Schema, Schema),
    states: OperatorStates,
    time: &Time,
    late: Arc<Late>,
    metrics: Arc<MetricGroup>,
) -> Box<dyn Operator> {
    let ctx = OperatorContext {
        functions: Arc::new(library::TestLibrary),
        zone: "UTC".into(),
        metrics,
        now_ms: {
            let now_ms = time.now_ms.clone();
            Arc::new(move || now_ms.load(Ordering::Relaxed))
        },
        state_ttl_ms: time.state_ttl_ms,
        late,
        states,
        windows: Arc::default(),
    };
    // Who joins has inputs that look the same.
    build(spec, &[input.clone(), input.clone()], output, ctx).unwrap().unwrap()
}

/// Rows that one watermark pushes out come in the order of the table, which a restore changes.
fn in_order_of_time(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.sort();
    lines
}

/// Key, value, time and kind.
type Row = (Option<String>, Option<i64>, i64, RowKind);

fn batch(rows: &[Row]) -> StreamElement {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.2))),
    ];
    let columns = arrow::array::RecordBatch::try_new(input().to_arrow(), columns).unwrap();
    let inserts = rows.iter().all(|r| r.3 == RowKind::Insert);
    let kinds = (!inserts).then(|| UInt8Array::from_iter_values(rows.iter().map(|r| r.3.to_byte())));
    StreamElement::Batch(Batch { columns, kinds })
}

fn elements(script: &str) -> Vec<StreamElement> {
    inputs(script).into_iter().map(|(_, element)| element).collect()
}

/// The elements of a script with their inputs.
fn inputs(script: &str) -> Vec<(usize, StreamElement)> {
    let (mut elements, mut rows): (Vec<(usize, StreamElement)>, Vec<Row>) = (Vec::new(), Vec::new());
    let mut input = 0;
    for line in script.lines().map(str::trim).chain([""]) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let of = usize::from(words.first() == Some(&">"));
        if of == 1 {
            words.remove(0);
        }
        if of != input && !rows.is_empty() {
            elements.push((input, batch(&std::mem::take(&mut rows))));
        }
        input = of;
        let kind = match words.first() {
            Some(&"-U") => RowKind::UpdateBefore,
            Some(&"+U") => RowKind::UpdateAfter,
            Some(&"-D") => RowKind::Delete,
            _ => RowKind::Insert,
        };
        if kind != RowKind::Insert {
            words.remove(0);
        }
        if let [key, value, ts] = words[..] {
            let key = (key != "null").then(|| key.to_owned());
            rows.push((key, value.parse().ok(), ts.parse().unwrap(), kind));
            continue;
        }
        if !rows.is_empty() {
            elements.push((input, batch(&std::mem::take(&mut rows))));
        }
        match words[..] {
            ["wm", ts] => elements.push((0, StreamElement::Watermark(Watermark(ts.parse().unwrap())))),
            ["end"] => elements.extend([(0, StreamElement::Watermark(Watermark::MAX)), (0, StreamElement::EndOfInput)]),
            _ => {}
        }
    }
    elements
}

fn lines(elements: &[StreamElement]) -> Vec<String> {
    let mut lines = Vec::new();
    for element in elements {
        let StreamElement::Batch(batch) = element else { continue };
        for row in 0..batch.num_rows() {
            let values = batch.columns.columns().iter().map(|c| match c.is_null(row) {
                true => "null".to_owned(),
                false => match arrow::compute::cast(c, &arrow::datatypes::DataType::Int64) {
                    // Times as milliseconds.
                    Ok(ms) if c.data_type().is_temporal() => array_value_to_string(&ms, row).unwrap(),
                    _ => array_value_to_string(c, row).unwrap(),
                },
            });
            lines.push(format!("{}[{}]", batch.kind(row).short(), values.collect::<Vec<_>>().join(", ")));
        }
    }
    lines
}
