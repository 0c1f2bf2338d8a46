//! Operators of several subtasks that are stopped between two elements and go on in another number: state is cut and
//! joined by key group, and the rows are those of one operator that never stopped.

use arrow::array::ListArray;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{GroupAggregateSpec, OperatorSpec, UnnestSpec, WindowAggregateSpec, WindowInput};
use tidegate_api::{Schema, WindowKind, WindowSpec};
use tidegate_state::{DEFAULT_MAX_PARALLELISM, KeyGroupRange, key_group, operator_index};
use tidegate_window::CutGrid;

use super::joins::{joined, random_stream};
use super::shares::{SharedStores, Snapshot};
use super::windows::spec;
use super::*;
use crate::exchange::KeyHasher;
use crate::operators::aggregates::runs_of;

/// An operator and the columns its input is spread by; without any, rows take turns.
#[derive(Clone, Debug)]
struct Step {
    spec: (OperatorSpec, Schema, Schema),
    keys: Option<Vec<usize>>,
}

struct Subtask {
    operator: Box<dyn Operator>,
    states: OperatorStates,
    groups: KeyGroupRange,
}

/// The subtasks of an operator.
struct Parallel {
    step: Step,
    hasher: Option<KeyHasher>,
    turn: usize,
    stores: SharedStores,
    late: Arc<Late>,
    metrics: Arc<MetricGroup>,
    subtasks: Vec<Subtask>,
}

impl Parallel {
    fn new(step: &Step, parallelism: usize, table_bytes: Option<usize>) -> Parallel {
        let hasher = step.keys.as_ref().map(|keys| KeyHasher::new(keys, &step.spec.1).unwrap());
        let mut new = Parallel {
            step: step.clone(),
            hasher,
            turn: 0,
            stores: SharedStores::new(table_bytes),
            late: Arc::default(),
            metrics: Arc::default(),
            subtasks: Vec::new(),
        };
        new.start(parallelism, None);
        new
    }

    fn start(&mut self, parallelism: usize, from: Option<&[Snapshot]>) {
        let subtask = |index: usize| {
            let groups = KeyGroupRange::of_subtask(index as u32, parallelism as u32, DEFAULT_MAX_PARALLELISM as u32);
            let states = self.stores.states(groups, from.unwrap_or_default());
            let (late, metrics) = (self.late.clone(), self.metrics.clone());
            let mut operator = make(&self.step.spec, states.clone(), &Time::default(), late, metrics);
            if let Some(from) = from {
                let kept = from.iter().filter(|old| old.concerns(groups)).map(|old| old.kept.clone());
                operator.restore(&kept.collect::<Vec<_>>()).unwrap();
            }
            Subtask { operator, states, groups }
        };
        self.subtasks = (0..parallelism).map(subtask).collect();
    }

    /// Takes a checkpoint and goes on with this many subtasks, whose tables have this much memory; gives what the
    /// barrier pushed out.
    fn rescale(&mut self, parallelism: usize, table_bytes: Option<usize>) -> Vec<StreamElement> {
        let (mut pushed, mut snapshots) = (Vec::new(), Vec::new());
        for Subtask { operator, states, groups } in &mut self.subtasks {
            let mut out = Output::default();
            operator.before_barrier(&mut out).unwrap();
            pushed.extend(out.take());
            snapshots.push(self.stores.snapshot(operator.as_mut(), states, *groups));
        }
        self.stores.limit(table_bytes);
        self.start(parallelism, Some(&snapshots));
        pushed
    }

    /// Rows go to the owners of their keys, everything else to everybody. A watermark leaves when all have sent it.
    fn feed(&mut self, input: usize, element: &StreamElement) -> Vec<StreamElement> {
        let mut out = Vec::new();
        let StreamElement::Batch(batch) = element else {
            for subtask in &mut self.subtasks {
                out.extend(feed(subtask.operator.as_mut(), 0, element.clone()));
            }
            out.retain(|e| matches!(e, StreamElement::Batch(_)));
            out.push(element.clone());
            return out;
        };
        let owners = self.owners(batch);
        for (from, len, owner) in runs_of(owners.len(), |row| owners[row]) {
            let rows = StreamElement::Batch(batch.slice(from, len));
            out.extend(feed(self.subtasks[owner].operator.as_mut(), input, rows));
        }
        out
    }

    fn owners(&mut self, batch: &Batch) -> Vec<usize> {
        let (parallelism, mut owners) = (self.subtasks.len(), Vec::new());
        match &mut self.hasher {
            Some(hasher) => hasher
                .each(&batch.columns, |hash| {
                    let group = key_group(hash, DEFAULT_MAX_PARALLELISM);
                    owners.push(operator_index(group, parallelism, DEFAULT_MAX_PARALLELISM));
                })
                .unwrap(),
            None => {
                owners.extend((0..batch.num_rows()).map(|row| (self.turn + row) % parallelism));
                self.turn += batch.num_rows();
            }
        }
        owners
    }

    fn late(&self) -> u64 {
        let counted = self.metrics.counter("numLateRecordsDropped").get();
        assert_eq!(counted, self.late.0.lock().unwrap().iter().map(|l| l.count).sum::<u64>());
        counted
    }
}

/// Before which element a chain stops, its parallelism from then on, and the memory of its tables.
type Stop = (usize, usize, Option<usize>);

/// Runs a chain of operators, each over the output of the one before.
fn run(
    steps: &[Step],
    elements: &[(usize, StreamElement)],
    stops: &[Stop],
    first: usize,
    table_bytes: Option<usize>,
) -> (Vec<String>, Vec<u64>) {
    let mut chain: Vec<Parallel> = steps.iter().map(|step| Parallel::new(step, first, table_bytes)).collect();
    let mut out = Vec::new();
    for (i, (input, element)) in elements.iter().enumerate() {
        for (_, parallelism, table_bytes) in stops.iter().filter(|(at, _, _)| *at == i) {
            // The barrier passes one operator after the other, and what it pushes out goes before it.
            let mut pushed = Vec::new();
            for operator in &mut chain {
                let mut next: Vec<StreamElement> = pushed.iter().flat_map(|e| operator.feed(0, e)).collect();
                next.extend(operator.rescale(*parallelism, *table_bytes));
                pushed = next;
            }
            out.extend(pushed);
        }
        let (mut passed, mut input) = (vec![element.clone()], *input);
        for operator in &mut chain {
            passed = passed.iter().flat_map(|e| operator.feed(input, e)).collect();
            input = 0;
        }
        out.extend(passed);
    }
    (in_order_of_time(&lines(&out)), chain.iter().map(Parallel::late).collect())
}

fn with_windows(fields: &[Field]) -> Schema {
    Schema::new([fields.to_vec(), window_fields()].concat())
}

fn results(keys: &[Field], spec: &WindowAggregateSpec) -> Schema {
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    with_windows(&keys.iter().cloned().chain(results).collect::<Vec<_>>())
}

fn fields(columns: &[usize]) -> Vec<Field> {
    columns.iter().map(|c| input().fields[*c].clone()).collect()
}

/// A window aggregate in one phase, by these keys.
fn one_phase(kind: WindowKind, keys: &[usize], updating: bool) -> Vec<Step> {
    let mut spec = spec(kind, &["COUNT", "SUM", "MAX", "LIST"], updating);
    spec.keys = keys.to_vec();
    let output = results(&fields(keys), &spec);
    let keys = Some(spec.keys.clone());
    vec![Step { spec: (OperatorSpec::WindowAggregate(spec), input(), output), keys }]
}

/// The same in two phases; sessions have only one.
fn two_phases(kind: WindowKind, keys: &[usize]) -> Vec<Step> {
    let mut spec = spec(kind, &["COUNT", "SUM", "MAX"], false);
    spec.keys = keys.to_vec();
    let list = LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))));
    let states = spec.aggregates.iter().map(|a| Field::new(&a.name, list.clone()));
    let ends = [column("slice_end", TypeKind::BigInt), column("row_count", TypeKind::BigInt)];
    let partial = Schema::new(fields(keys).into_iter().chain(states).chain(ends).collect());
    let output = results(&fields(keys), &spec);
    let owners = Some((0..keys.len()).collect());
    vec![
        Step { spec: (OperatorSpec::LocalWindowAggregate(spec.clone()), input(), partial.clone()), keys: None },
        Step { spec: (OperatorSpec::GlobalWindowAggregate(spec), partial, output), keys: owners },
    ]
}

/// The table function, alone or with an aggregate by the windows it attached.
fn table_function(kind: WindowKind, keys: &[usize], aggregate: bool) -> Vec<Step> {
    let window = WindowSpec { kind, offset: 0, zone: None };
    let is_session = matches!(window.kind, WindowKind::Session { .. });
    let function = OperatorSpec::WindowTableFunction {
        window,
        time_column: 2,
        keys: if is_session { keys.to_vec() } else { vec![] },
    };
    let rows = with_windows(&input().fields);
    let spread = is_session.then(|| keys.to_vec());
    let mut steps = vec![Step { spec: (function, input(), rows.clone()), keys: spread }];
    if aggregate {
        let mut spec = spec(kind, &["COUNT", "SUM", "LIST"], false);
        spec.keys = keys.to_vec();
        spec.input = WindowInput::Attached { start: 3, end: 4 };
        let output = results(&fields(keys), &spec);
        steps.push(Step { spec: (OperatorSpec::WindowAggregate(spec), rows, output), keys: Some(keys.to_vec()) });
    }
    steps
}

/// `GROUP BY`, or without aggregates `SELECT DISTINCT`.
fn groups(keys: &[usize], functions: &[&str], updating_input: bool, emit_update_before: bool) -> Vec<Step> {
    let aggregates = functions.iter().map(|f| call(f)).collect();
    let spec = GroupAggregateSpec { keys: keys.to_vec(), aggregates, updating_input, emit_update_before };
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    let output = Schema::new(fields(keys).into_iter().chain(results).collect());
    vec![Step { spec: (OperatorSpec::GroupAggregate(spec), input(), output), keys: Some(keys.to_vec()) }]
}

fn kind() -> impl Strategy<Value = WindowKind> {
    (0..4u8, 1..12i64, 1..5i64).prop_map(|(shape, unit, times)| match shape {
        0 => WindowKind::Tumble { size: unit * times },
        1 => WindowKind::Hop { slide: unit, size: unit * times },
        2 => WindowKind::Cumulate { step: unit, size: unit * times },
        _ => WindowKind::Session { gap: unit },
    })
}

fn keys() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![0]), Just(vec![1]), Just(vec![0, 1]), Just(vec![1, 0])]
}

/// Operators with the window that decides where sources cut their batches, if any does.
fn chain() -> impl Strategy<Value = (Vec<Step>, Option<WindowKind>)> {
    let is_session = |kind: &WindowKind| matches!(kind, WindowKind::Session { .. });
    prop_oneof![
        (kind(), keys(), any::<bool>())
            .prop_map(|(kind, keys, updating)| { (one_phase(kind, &keys, updating), Some(kind)) }),
        (kind(), keys()).prop_map(move |(kind, keys)| match is_session(&kind) {
            true => (one_phase(kind, &keys, false), Some(kind)),
            false => (two_phases(kind, &keys), Some(kind)),
        }),
        (kind(), keys(), any::<bool>())
            .prop_map(|(kind, keys, aggregate)| { (table_function(kind, &keys, aggregate), Some(kind)) }),
        (keys(), any::<bool>(), any::<bool>()).prop_map(|(keys, updating, before)| {
            (groups(&keys, &["COUNT", "SUM", "MAX", "LIST"], updating, before), None)
        }),
        (keys(), any::<bool>()).prop_map(|(keys, updating)| (groups(&keys, &[], updating, true), None)),
    ]
}

/// The memory of tables: all there is, none, or some.
fn memory() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(0)), (500..20_000usize).prop_map(Some)]
}

/// Rows as a source of this delay sends them: cut where a window's answer changes, with their watermarks.
fn stream(rows: &[Row], kind: Option<WindowKind>, delay: i64, size: usize) -> Vec<StreamElement> {
    let windows = kind.map(|kind| WindowSpec { kind, offset: 0, zone: None }.assigner().unwrap());
    let mut cuts = windows.map(CutGrid::new);
    let (mut sent, mut watermark, mut part) = (i64::MIN, i64::MIN, Vec::new());
    let mut elements = Vec::new();
    for row in rows {
        let must_cut = cuts.as_mut().is_some_and(|cuts| cuts.must_cut(row.2, sent, watermark));
        if must_cut || part.len() == size {
            if !part.is_empty() {
                elements.push(batch(&std::mem::take(&mut part)));
            }
            elements.push(StreamElement::Watermark(Watermark(watermark)));
            sent = watermark;
        }
        part.push(row.clone());
        watermark = watermark.max(row.2 - delay);
    }
    elements.extend([batch(&part), StreamElement::Watermark(Watermark::MAX), StreamElement::EndOfInput]);
    elements
}

/// Whether an operator takes rows back.
fn takes_back(steps: &[Step]) -> bool {
    match &steps[0].spec.0 {
        OperatorSpec::WindowAggregate(spec) => spec.updating_input,
        OperatorSpec::GroupAggregate(spec) => spec.updating_input,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// However often, wherever, from and to whatever parallelism and memory: rows and late rows are the same.
    #[test]
    fn no_parallelism_and_no_restore_shows(
        (steps, kind) in chain(),
        moves in prop::collection::vec((0..9u8, 0..4i64, -40..25i64, any::<bool>()), 1..60),
        delay in 0..30i64,
        size in 1..12usize,
        first in 1..4usize,
        stops in prop::collection::vec((0..60usize, 1..4usize, memory()), 0..6),
        table_bytes in memory(),
    ) {
        let mut at = -100;
        let mut held: Vec<Row> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        for (key, value, step, back) in moves {
            at += step.max(0);
            let row = ((key > 0).then(|| format!("key {key}")), (value > 0).then_some(value), at + step.min(0), RowKind::Insert);
            // What is taken back was there.
            match held.len() {
                n if back && takes_back(&steps) && n > 0 => {
                    let old = held.swap_remove(step.unsigned_abs() as usize % n);
                    rows.push((old.0, old.1, old.2, RowKind::Delete));
                }
                _ => {
                    held.push(row.clone());
                    rows.push(row);
                }
            }
        }
        let elements: Vec<_> = stream(&rows, kind, delay, size).into_iter().map(|element| (0, element)).collect();
        let (wanted, late) = run(&steps, &elements, &[], 1, None);
        let stops: Vec<Stop> = stops.into_iter().map(|(at, to, bytes)| (at % elements.len(), to, bytes)).collect();
        let (restored, restored_late) = run(&steps, &elements, &stops, first, table_bytes);
        prop_assert_eq!(restored, wanted);
        prop_assert_eq!(restored_late, late);
    }

    /// The same for joins.
    #[test]
    fn joins_go_on_anywhere(
        (case, elements) in random_stream(),
        first in 1..4usize,
        stops in prop::collection::vec((0..60usize, 1..4usize, memory()), 0..6),
        table_bytes in memory(),
    ) {
        let keys = case.keys();
        // Without keys there is one subtask.
        let at_most = |parallelism: usize| if keys.is_empty() { 1 } else { parallelism };
        let steps = [Step { spec: (case.operator(), input(), joined()), keys: Some(keys.clone()) }];
        let stops: Vec<Stop> =
            stops.into_iter().map(|(at, to, bytes)| (at % elements.len(), at_most(to), bytes)).collect();
        prop_assert_eq!(
            run(&steps, &elements, &stops, at_most(first), table_bytes),
            run(&steps, &elements, &[], 1, None)
        );
    }

    /// What has no state has nothing to lose.
    #[test]
    fn unnest_goes_on_anywhere(
        lists in prop::collection::vec(prop::option::of(prop::collection::vec(prop::option::of(0..9i64), 0..4)), 1..20),
        outer in any::<bool>(),
        stops in prop::collection::vec((0..20usize, 1..4usize, memory()), 0..4),
    ) {
        let list = LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))));
        let input = Schema::new(vec![column("id", TypeKind::BigInt), Field::new("l", list.clone())]);
        let fields = [input.fields.clone(), vec![column("e", TypeKind::BigInt), column("o", TypeKind::Int)]].concat();
        let unnest = UnnestSpec { collection: Expr::input(1, list), with_ordinality: true, outer };
        let step = Step { spec: (OperatorSpec::Unnest(unnest), input.clone(), Schema::new(fields)), keys: None };
        let rows = lists.into_iter().enumerate().map(|(id, list)| {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(vec![id as i64])),
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([list])),
            ];
            let columns = arrow::array::RecordBatch::try_new(input.to_arrow(), columns).unwrap();
            StreamElement::Batch(Batch::inserts(columns))
        });
        let elements: Vec<_> = rows.chain([StreamElement::EndOfInput]).map(|element| (0, element)).collect();
        let steps = [step];
        prop_assert_eq!(run(&steps, &elements, &stops, 2, None), run(&steps, &elements, &[], 1, None));
    }
}
