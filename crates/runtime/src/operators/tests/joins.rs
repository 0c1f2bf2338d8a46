//! Interval joins against the definition, a row at a time.

use proptest::prelude::*;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{IntervalJoinSpec, JoinKind, JoinSpec, OperatorSpec, WindowJoinSpec};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Schema, Watermark, WindowKind, WindowSpec};

use super::*;

/// A join of two inputs `k, v, ts` by these key columns.
pub(super) fn join(kind: JoinKind, keys: &[usize], lower_ms: i64, upper_ms: i64) -> IntervalJoinSpec {
    let join = JoinSpec {
        kind,
        left_keys: keys.to_vec(),
        right_keys: keys.to_vec(),
        null_safe: vec![false; keys.len()],
        condition: None,
    };
    IntervalJoinSpec { join, left_time: 2, right_time: 2, lower_ms, upper_ms, meaning: "join".into() }
}

/// `left v < right v`.
pub(super) fn ascending() -> Expr {
    let v = |column| Expr::input(column, LogicalType::new(TypeKind::BigInt));
    Expr::call("<", vec![v(1), v(4)], LogicalType::new(TypeKind::Boolean))
}

/// Both inputs side by side.
pub(super) fn joined() -> Schema {
    Schema::new([input().fields, input().fields].concat())
}

fn rig(spec: &IntervalJoinSpec) -> Rig {
    Rig::new(&OperatorSpec::IntervalJoin(spec.clone()), &input(), &joined())
}

/// An interval join, or a window join of rows whose time is that of their window.
#[derive(Clone, Debug)]
pub(super) struct Case {
    spec: IntervalJoinSpec,
    of_windows: bool,
}

/// The length of windows, in units.
const WINDOW: i64 = 6;

impl Case {
    pub(super) fn keys(&self) -> Vec<usize> {
        self.spec.join.left_keys.clone()
    }

    pub(super) fn operator(&self) -> OperatorSpec {
        let IntervalJoinSpec { join, left_time, right_time, meaning, .. } = self.spec.clone();
        if !self.of_windows {
            return OperatorSpec::IntervalJoin(self.spec.clone());
        }
        let window = WindowSpec { kind: WindowKind::Tumble { size: WINDOW }, offset: 0, zone: None };
        // The time of a window says as much as its bounds.
        let bound = join.left_keys.len() - 1;
        let (start_key, end_key) = (bound, bound);
        OperatorSpec::WindowJoin(WindowJoinSpec { join, window, left_time, right_time, start_key, end_key, meaning })
    }

    fn rig(&self) -> Rig {
        Rig::new(&self.operator(), &input(), &joined())
    }

    fn unit(&self) -> i64 {
        let is_long = |ms: i64| ms != 0 && ms % 15_000 == 0;
        if is_long(self.spec.lower_ms) || is_long(self.spec.upper_ms) { 15_000 } else { 1 }
    }

    /// The time of a row: that of its window, if windows are joined.
    fn time(&self, at: i64) -> i64 {
        let time = if self.of_windows { (at.div_euclid(WINDOW) + 1) * WINDOW - 1 } else { at };
        time * self.unit()
    }

    /// Rows of both inputs, some far behind, and watermarks that trail the rows before them.
    fn events(&self, moves: &[(u8, u8, i64, i64, bool)], delay: i64) -> Vec<Event> {
        let (mut at, mut watermark, mut events) = (-20, i64::MIN, Vec::new());
        for (side, key, value, step, advance) in moves {
            at += (*step).max(0);
            let key = (*key > 0).then(|| format!("key {key}"));
            let row = (key, (*value > 0).then_some(*value), self.time(at + (*step).min(0)), RowKind::Insert);
            events.push(Event::Row(usize::from(*side), row));
            if *advance && (at - delay) * self.unit() > watermark {
                watermark = (at - delay) * self.unit();
                events.push(Event::Watermark(watermark));
            }
        }
        events
    }
}

/// An event of a stream of two inputs.
#[derive(Clone, Debug)]
enum Event {
    Row(usize, Row),
    Watermark(i64),
}

/// A kept row of the model: the row, and whether it has met a partner.
type Waiting = (Row, bool);

/// The join in the words of its definition.
struct Model<'a> {
    spec: &'a IntervalJoinSpec,
    of_windows: bool,
    watermark: i64,
    waiting: [Vec<Waiting>; 2],
    out: Vec<String>,
    late: u64,
}

fn text(row: Option<&Row>) -> String {
    let null = || "null".to_owned();
    row.map_or("null, null, null".into(), |(key, value, time, _)| {
        format!("{}, {}, {time}", key.clone().unwrap_or_else(null), value.map_or_else(null, |v| v.to_string()))
    })
}

impl Model<'_> {
    fn last_partner(&self, side: usize, time: i64) -> i64 {
        if side == 0 { time - self.spec.lower_ms } else { time + self.spec.upper_ms }
    }

    fn keeps(&self, side: usize) -> bool {
        if side == 0 { self.spec.join.kind.keeps_left() } else { self.spec.join.kind.keeps_right() }
    }

    /// A row that no other could be a partner of: with NULL in its key, or because no times are within the bounds.
    fn is_alone(&self, row: &Row) -> bool {
        let is_null = |column: &usize| [row.0.is_none(), row.1.is_none(), false][*column];
        let has_null = self.spec.join.left_keys.iter().any(is_null) && !self.spec.join.null_safe.contains(&true);
        has_null || self.spec.lower_ms > self.spec.upper_ms
    }

    fn are_partners(&self, left: &Row, right: &Row) -> bool {
        let is_equal = |column: &usize| [left.0 == right.0, left.1 == right.1, left.2 == right.2][*column];
        let same_key = self.spec.join.left_keys.iter().all(is_equal);
        let near = (self.spec.lower_ms..=self.spec.upper_ms).contains(&(left.2 - right.2));
        let holds = self.spec.join.condition.is_none() || left.1.zip(right.1).is_some_and(|(a, b)| a < b);
        same_key && !self.is_alone(left) && near && holds
    }

    fn emit(&mut self, left: Option<&Row>, right: Option<&Row>) {
        self.out.push(format!("+I[{}, {}]", text(left), text(right)));
    }

    fn emit_alone(&mut self, side: usize, row: &Row) {
        if side == 0 { self.emit(Some(row), None) } else { self.emit(None, Some(row)) }
    }

    fn row(&mut self, side: usize, row: &Row) {
        if self.of_windows && row.2 <= self.watermark {
            self.late += 1;
            return;
        }
        let mut met = false;
        let mut others = std::mem::take(&mut self.waiting[1 - side]);
        for (other, other_met) in &mut others {
            let (left, right) = if side == 0 { (row, &*other) } else { (&*other, row) };
            if self.are_partners(left, right) {
                self.emit(Some(left), Some(right));
                (met, *other_met) = (true, true);
            }
        }
        self.waiting[1 - side] = others;
        if !self.is_alone(row) && self.watermark < self.last_partner(side, row.2) {
            self.waiting[side].push((row.clone(), met));
        } else if !met && self.keeps(side) {
            self.emit_alone(side, row);
        } else if !met && !self.is_alone(row) && row.2 <= self.watermark {
            self.late += 1;
        }
    }

    fn advance(&mut self, watermark: i64) {
        self.watermark = watermark;
        for side in 0..2 {
            let waiting = std::mem::take(&mut self.waiting[side]);
            for (row, met) in waiting {
                let last = self.last_partner(side, row.2);
                if last > watermark || (last == watermark && !self.of_windows) {
                    self.waiting[side].push((row, met));
                } else if !met && self.keeps(side) {
                    self.emit_alone(side, &row);
                }
            }
        }
    }
}

/// Rows and late rows by the model.
fn by_definition(case: &Case, events: &[Event]) -> (Vec<String>, u64) {
    let Case { spec, of_windows } = case;
    let (waiting, out, of_windows) = (Default::default(), Vec::new(), *of_windows);
    let mut model = Model { spec, of_windows, watermark: i64::MIN, waiting, out, late: 0 };
    for event in events {
        match event {
            Event::Row(side, row) => model.row(*side, row),
            Event::Watermark(at) => model.advance(*at),
        }
    }
    model.advance(i64::MAX);
    (in_order_of_time(&model.out), model.late)
}

/// Batches of at most `size` rows of one input, and watermarks where they are.
fn stream(events: &[Event], size: usize) -> Vec<(usize, StreamElement)> {
    let (mut elements, mut part, mut of): (Vec<_>, Vec<Row>, usize) = (Vec::new(), Vec::new(), 0);
    let flush = |part: &mut Vec<Row>, of: usize, elements: &mut Vec<_>| {
        if !part.is_empty() {
            elements.push((of, batch(&std::mem::take(part))));
        }
    };
    for event in events {
        match event {
            Event::Row(side, row) => {
                if *side != of || part.len() == size {
                    flush(&mut part, of, &mut elements);
                }
                of = *side;
                part.push(row.clone());
            }
            Event::Watermark(at) => {
                flush(&mut part, of, &mut elements);
                elements.push((0, StreamElement::Watermark(Watermark(*at))));
            }
        }
    }
    flush(&mut part, of, &mut elements);
    elements.extend([(0, StreamElement::Watermark(Watermark::MAX)), (0, StreamElement::EndOfInput)]);
    elements
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let kind = prop_oneof![Just(JoinKind::Inner), Just(JoinKind::Left), Just(JoinKind::Right), Just(JoinKind::Full)];
    let keys = prop_oneof![4 => Just(vec![0]), 1 => Just(vec![]), 1 => Just(vec![1, 0])];
    // Some intervals lie ahead or behind as a whole, some hold nothing, some are long enough for many buckets.
    let bounds = (-12..12i64, -2..16i64, prop_oneof![Just(1), Just(15_000)]);
    let flags = (any::<bool>(), any::<bool>(), prop_oneof![3 => Just(false), 1 => Just(true)]);
    (kind, keys, bounds, flags).prop_map(|(kind, mut keys, (lower, span, unit), (less, null_safe, of_windows))| {
        let mut null_safe = vec![null_safe; keys.len()];
        let (lower, upper) = if of_windows { (0, 0) } else { (lower * unit, (lower + span) * unit) };
        if of_windows {
            keys.push(2);
            null_safe.push(false);
        }
        let mut spec = join(kind, &keys, lower, upper);
        spec.join.condition = less.then(ascending);
        spec.join.null_safe = null_safe;
        Case { spec, of_windows }
    })
}

fn moves(most: usize) -> impl Strategy<Value = Vec<(u8, u8, i64, i64, bool)>> {
    prop::collection::vec((0..2u8, 0..5u8, 0..4i64, -20..6i64, any::<bool>()), 1..most)
}

#[test]
fn bounds_are_inclusive_at_both_ends() {
    let spec = join(JoinKind::Inner, &[0], -45, 10);
    let out = rig(&spec).run("a 1 100\n> a 2 145\n> a 3 146\n> a 4 90\n> a 5 89\n> b 6 100\nend");
    assert_eq!(out, ["+I[a, 1, 100, a, 2, 145]", "+I[a, 1, 100, a, 4, 90]"]);
}

#[test]
fn rows_without_a_partner_come_when_none_can_come_any_more() {
    let spec = join(JoinKind::Full, &[0], -10, 0);
    let mut rig = Rig::limited(&OperatorSpec::IntervalJoin(spec), &input(), &joined(), None, false, &Time::default());
    let mut step = |script: &str| -> Vec<String> {
        lines(&inputs(script).into_iter().flat_map(|(input, e)| rig.feed_to(input, e)).collect::<Vec<_>>())
    };
    assert_eq!(step("a 1 100\n> b 2 100\nnull 3 100\nwm 100"), ["+I[null, 3, 100, null, null, null]"]);
    assert_eq!(step("wm 101"), ["+I[null, null, null, b, 2, 100]"]);
    assert_eq!(step("wm 110"), [""; 0]);
    assert_eq!(step("wm 111"), ["+I[a, 1, 100, null, null, null]"]);
}

#[test]
fn state_goes_with_time_and_not_with_rows_of_its_key() {
    // risingwavelabs/risingwave#16045: both inputs with a delay of 5 s, ts1 = ts2.
    let (five, later) = (18_000_000, 20_023_520);
    let spec = OperatorSpec::IntervalJoin(join(JoinKind::Inner, &[], 0, 0));
    for table_bytes in [None, Some(0), Some(1 << 20)] {
        let mut rig = Rig::limited(&spec, &input(), &joined(), table_bytes, false, &Time::default());
        let in_state =
            |rig: &Rig| ["leftRowsInState", "rightRowsInState"].map(|name| rig.metrics.gauge(name, -1).get());
        let mut out = Vec::new();
        for (at, wanted) in [(five, [1, 1]), (later, [1, 1])] {
            for input in 0..2 {
                out.extend(rig.feed_to(input, batch(&[(Some("k".into()), Some(1), at, RowKind::Insert)])));
            }
            out.extend(rig.feed(StreamElement::Watermark(Watermark(at - 5_000))));
            assert_eq!(in_state(&rig), wanted, "{table_bytes:?}");
        }
        assert_eq!(lines(&out).len(), 2);
    }
}

#[test]
fn watermarks_are_held_back_by_the_larger_bound() {
    let mut rig = rig(&join(JoinKind::Left, &[0], -45, 10));
    let mut sent = |at: Watermark| match rig.feed(StreamElement::Watermark(at))[..] {
        [StreamElement::Watermark(sent)] => sent,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(sent(Watermark(100)), Watermark(55));
    assert_eq!(sent(Watermark::MAX), Watermark::MAX);
}

#[test]
fn late_rows_are_counted_if_nobody_hears_of_them() {
    let mut inner = rig(&join(JoinKind::Inner, &[0], -10, 10));
    assert_eq!(
        inner.run("> a 1 95\nwm 100\na 2 89\na 3 90\na 4 85\nnull 5 0\nend"),
        ["+I[a, 2, 89, a, 1, 95]", "+I[a, 3, 90, a, 1, 95]", "+I[a, 4, 85, a, 1, 95]"]
    );
    assert_eq!(inner.late(), 0, "they have met somebody; a row with a NULL key never would");
    let mut inner = rig(&join(JoinKind::Inner, &[0], -10, 10));
    assert_eq!(inner.run("> a 1 95\nwm 100\na 2 84\na 3 91\na 4 80\nend"), ["+I[a, 3, 91, a, 1, 95]"]);
    assert_eq!(inner.late(), 2);
    let late = inner.late.0.lock().unwrap();
    assert_eq!((late[0].count, late[0].window_start, late[0].window_end), (2, 70, 91));
    let mut left = rig(&join(JoinKind::Left, &[0], -10, 10));
    assert_eq!(left.run("wm 100\na 2 84\nend"), ["+I[a, 2, 84, null, null, null]"]);
    assert_eq!(left.late(), 0);
}

#[test]
fn a_window_is_joined_until_it_closes() {
    let mut spec = join(JoinKind::Left, &[0, 2], 0, 0);
    spec.join.null_safe = vec![false; 2];
    let case = Case { spec, of_windows: true };
    let mut rig = case.rig();
    let out = rig.run("a 1 9\na 2 19\n> a 3 9\nwm 9\n> a 4 9\na 5 9\n> a 6 19\nend");
    assert_eq!(out, ["+I[a, 1, 9, a, 3, 9]", "+I[a, 2, 19, a, 6, 19]"]);
    assert_eq!(rig.late(), 2, "on either side");
    let mut rig = case.rig();
    assert_eq!(rig.run("a 1 9\nnull 2 9\nwm 9\n> a 3 9\nend").len(), 2, "padded");
}

#[test]
fn a_batch_with_many_partners_comes_bit_by_bit() {
    for table_bytes in [None, Some(0)] {
        let spec = OperatorSpec::IntervalJoin(join(JoinKind::Inner, &[], -10, 10));
        let mut rig = Rig::limited(&spec, &input(), &joined(), table_bytes, false, &Time::default());
        let rows: Vec<Row> = (0..300).map(|i| (None, Some(i), i % 7, RowKind::Insert)).collect();
        rig.feed_to(0, batch(&rows));
        let StreamElement::Batch(right) = batch(&rows) else { unreachable!() };
        let (mut out, mut pairs, mut steps) = (Output::default(), 0, 0);
        rig.operator.process_batch(1, right, &mut out).unwrap();
        loop {
            let step = lines(&out.take()).len();
            assert!(step <= 8_192, "{step} rows at one time");
            (pairs, steps) = (pairs + step, steps + usize::from(step > 0));
            if !rig.operator.resume(&mut out).unwrap() {
                break;
            }
        }
        assert_eq!((pairs, steps), (90_000, 11));
    }
}

#[test]
fn keys_whose_rows_are_gone_are_forgotten() {
    // Every row of a key of its own; each other one has a partner.
    let (rounds, keys) = (8, 1_200);
    let mut elements = Vec::new();
    for round in 0..rounds {
        let row = |key: i64| (Some(format!("{round} {key}")), Some(key), round * 50, RowKind::Insert);
        elements.push((0, batch(&(0..keys).map(row).collect::<Vec<_>>())));
        elements.push((0, StreamElement::Watermark(Watermark(round * 50 - 10))));
        elements.push((1, batch(&(0..keys).step_by(2).map(row).collect::<Vec<_>>())));
    }
    elements.push((0, StreamElement::Watermark(Watermark::MAX)));
    let mut rig = rig(&join(JoinKind::Left, &[0], -20, 20));
    let out = rig.run_all(&elements);
    assert_eq!(out.len() as i64, rounds * keys);
    let padded = out.iter().filter(|line| line.contains("null")).count();
    assert_eq!(padded as i64, rounds * keys / 2);
    assert_eq!(rig.late(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// However rows are batched, wherever they are kept and whenever the operator is restored.
    #[test]
    fn joins_are_what_their_definition_says(
        case in case(),
        moves in moves(50),
        delay in 0..30i64,
        size in 1..12usize,
    ) {
        let events = case.events(&moves, delay);
        let (wanted, late) = by_definition(&case, &events);
        let mut rig = case.rig();
        let out = rig.run_all(&stream(&events, size));
        prop_assert_eq!(in_order_of_time(&out), wanted);
        prop_assert_eq!(rig.late(), late);
    }

    /// With some memory, rows leave and come back, and each is counted once.
    #[test]
    fn joins_larger_than_memory_are_those_in_memory(
        case in case(),
        moves in moves(300),
        delay in 0..30i64,
        size in 1..64usize,
        table_bytes in 0..40_000usize,
        barrier in 1..20usize,
    ) {
        let events = case.events(&moves, delay);
        let (wanted, late) = by_definition(&case, &events);
        let mut disk = Rig::limited(&case.operator(), &input(), &joined(), Some(table_bytes), false, &Time::default());
        let mut out = Vec::new();
        for (i, (input, element)) in stream(&events, size).into_iter().enumerate() {
            out.extend(disk.feed_to(input, element));
            if i % barrier == 0 {
                // What is written stays in memory as well.
                disk.operator.checkpoint().unwrap();
            }
        }
        prop_assert_eq!(in_order_of_time(&lines(&out)), wanted);
        prop_assert_eq!(disk.late(), late);
        prop_assert_eq!(disk.metrics.gauge("leftRowsInState", -1).get(), 0);
        prop_assert_eq!(disk.metrics.gauge("rightRowsInState", -1).get(), 0);
    }

    /// If no row is late, the watermark decides only when rows come, and none comes behind the watermark sent.
    #[test]
    fn no_watermark_shows_if_no_row_is_late(case in case(), moves in moves(60), size in 1..12usize) {
        let events = case.events(&moves, 21);
        let rows: Vec<Event> = events.iter().filter(|e| matches!(e, Event::Row(..))).cloned().collect();
        let (wanted, _) = by_definition(&case, &rows);
        let mut rig = case.rig();
        let (mut sent, mut out) = (i64::MIN, Vec::new());
        for (input, element) in stream(&events, size) {
            for element in rig.feed_to(input, element) {
                match &element {
                    StreamElement::Watermark(watermark) => sent = watermark.timestamp(),
                    StreamElement::Batch(batch) => {
                        for column in [2, 5] {
                            let times = batch.columns.column(column);
                            let times: &TimestampMillisecondArray = times.as_any().downcast_ref().unwrap();
                            prop_assert!(times.iter().flatten().all(|time| time >= sent), "behind {sent}: {batch:?}");
                        }
                    }
                    _ => {}
                }
                out.push(element);
            }
        }
        prop_assert_eq!(in_order_of_time(&lines(&out)), wanted);
        prop_assert_eq!(rig.late(), 0);
    }
}

/// For tests of other numbers of subtasks.
pub(super) fn random_stream() -> impl Strategy<Value = (Case, Vec<(usize, StreamElement)>)> {
    (case(), moves(60), 0..30i64, 1..12usize).prop_map(|(case, moves, delay, size)| {
        let events = case.events(&moves, delay);
        (case, stream(&events, size))
    })
}
