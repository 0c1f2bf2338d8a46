//! Window operators, line by line.

use tidegate_api::graph::{OperatorSpec, UnnestSpec, WindowAggregateSpec, WindowInput};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Schema, WindowKind, WindowSpec};

use super::*;

pub(super) fn spec(kind: WindowKind, functions: &[&str], updating_input: bool) -> WindowAggregateSpec {
    WindowAggregateSpec {
        window: WindowSpec { kind, offset: 0, zone: None },
        input: WindowInput::TimeColumn(2),
        keys: vec![0],
        aggregates: functions.iter().map(|f| call(f)).collect(),
        updating_input,
    }
}

pub(super) fn one_phase(spec: &WindowAggregateSpec) -> Rig {
    let keys = spec.keys.iter().map(|k| input().fields[*k].clone());
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    let output = Schema::new(keys.chain(results).chain(window_fields()).collect());
    Rig::new(&OperatorSpec::WindowAggregate(spec.clone()), &input(), &output)
}

#[test]
fn a_window_fires_at_its_last_millisecond_and_not_before() {
    let mut rig = one_phase(&spec(WindowKind::Tumble { size: 60_000 }, &["COUNT", "SUM"], false));
    assert!(rig.run("a 1 0\na 2 50000\nb 3 65000\na 4 55000\nwm 59998").is_empty());
    assert_eq!(rig.run("wm 59999"), ["+I[a, 3, 7, 0, 60000, 59999]"]);
    assert!(rig.run("a 5 59999\na 6 3").is_empty());
    assert_eq!(rig.late(), 2);
    assert_eq!(rig.run("end"), ["+I[b, 1, 3, 60000, 120000, 119999]"]);
}

#[test]
fn a_late_row_enters_the_hopping_windows_that_are_open() {
    let mut rig = one_phase(&spec(WindowKind::Hop { slide: 10, size: 20 }, &["COUNT"], false));
    assert_eq!(rig.run("a 1 5\nwm 9"), ["+I[a, 1, -10, 10, 9]"]);
    assert_eq!(rig.run("a 1 6\nwm 19"), ["+I[a, 2, 0, 20, 19]"]);
    assert!(rig.run("a 1 7").is_empty());
    assert_eq!(rig.late(), 1);
}

#[test]
fn cumulating_windows_fire_every_step() {
    let mut rig = one_phase(&spec(WindowKind::Cumulate { step: 10, size: 30 }, &["COUNT"], false));
    assert_eq!(rig.run("a 1 5\nwm 9"), ["+I[a, 1, 0, 10, 9]"]);
    assert_eq!(rig.run("a 1 6\nend"), ["+I[a, 2, 0, 20, 19]", "+I[a, 2, 0, 30, 29]"]);
}

#[test]
fn sessions_merge_across_batches_and_end_a_gap_after_their_last_row() {
    let sessions = spec(WindowKind::Session { gap: 10_000 }, &["COUNT", "LIST"], false);
    let mut rig = one_phase(&sessions);
    let out = rig.run("a 1 0\nwm 0\na 2 4000\nwm 4000\na 3 8000\nwm 8000\nb 4 30000\nwm 30000");
    assert_eq!(out, ["+I[a, 3, [1, 2, 3], 0, 18000, 17999]"]);
    // A row between two sessions makes them one; exactly a gap apart is one, too.
    let out = rig.run("b 5 50000\n\nb 6 40000\nb 7 70001\nend");
    assert_eq!(out, ["+I[b, 3, [4, 5, 6], 30000, 60000, 59999]", "+I[b, 1, [7], 70001, 80001, 80000]"]);
    assert_eq!(rig.late(), 0);
    let mut rig = one_phase(&sessions);
    assert_eq!(rig.run("a 1 0\nwm 9999").len(), 1);
    assert!(rig.run("a 2 -1\na 3 0").is_empty(), "their session ends at 10 s, which is over");
    assert_eq!(rig.late(), 2);
}

#[test]
fn sessions_without_a_key() {
    let mut sessions = spec(WindowKind::Session { gap: 5_000 }, &["COUNT"], false);
    sessions.keys.clear();
    let mut rig = one_phase(&sessions);
    assert_eq!(rig.run("a 1 0\nb 1 3000\nc 1 20000\nwm 20000"), ["+I[2, 0, 8000, 7999]"]);
    assert_eq!(rig.run("end"), ["+I[1, 20000, 25000, 24999]"]);
}

#[test]
fn a_group_whose_rows_were_taken_back_is_gone() {
    let mut rig = one_phase(&spec(WindowKind::Tumble { size: 10 }, &["COUNT", "SUM", "MAX"], true));
    let out = rig.run("a 5 1\nb 9 4\n-U b 9 4\n+U b 2 6\n-U a 5 1\n+U a 7 12\nend");
    assert_eq!(out, ["+I[b, 1, 2, 2, 0, 10, 9]", "+I[a, 1, 7, 7, 10, 20, 19]"]);
}

#[test]
fn windows_of_windows_lose_nothing() {
    // 5 s tumbling, then 10 s over its window_time, with the same watermarks.
    let mut first = one_phase(&spec(WindowKind::Tumble { size: 5_000 }, &["COUNT"], false));
    let mut second = spec(WindowKind::Tumble { size: 10_000 }, &["SUM"], false);
    second.input = WindowInput::TimeColumn(4);
    let input = Schema::new(
        [vec![column("k", LogicalType::string().kind), column("n", TypeKind::BigInt)], window_fields()].concat(),
    );
    let output = Schema::new([input.fields[..2].to_vec(), window_fields()].concat());
    let mut second = Rig::new(&OperatorSpec::WindowAggregate(second), &input, &output);
    let mut run = |script: &str| {
        let between: Vec<_> = elements(script).into_iter().flat_map(|e| first.feed(e)).collect();
        lines(&between.into_iter().flat_map(|e| second.feed(e)).collect::<Vec<_>>())
    };
    assert!(run("a 1 1000\nwm 1000\na 1 6000\nwm 6000").is_empty());
    assert_eq!(run("a 1 12000\nwm 12000"), ["+I[a, 2, 0, 10000, 9999]"]);
    assert_eq!(run("a 1 21000\nwm 21000"), ["+I[a, 1, 10000, 20000, 19999]"]);
    assert_eq!(run("end"), ["+I[a, 1, 20000, 30000, 29999]"]);
    assert_eq!(second.late(), 0);
}

#[test]
fn attached_windows_are_late_once_they_have_fired() {
    let mut attached = spec(WindowKind::Tumble { size: 10 }, &["COUNT"], false);
    attached.input = WindowInput::Attached { start: 2, end: 3 };
    let fields =
        [vec![column("k", LogicalType::string().kind), column("n", TypeKind::BigInt)], window_fields()].concat();
    let output = Schema::new(fields.clone());
    let function = OperatorSpec::WindowTableFunction { window: attached.window.clone(), time_column: 2, keys: vec![] };
    let tvf_output = Schema::new([input().fields, window_fields()].concat());
    let mut tvf = Rig::new(&function, &input(), &tvf_output);
    attached.input = WindowInput::Attached { start: 3, end: 4 };
    let mut aggregate = Rig::new(&OperatorSpec::WindowAggregate(attached), &tvf_output, &output);
    let between: Vec<_> =
        elements("a 1 3\na 2 12\nwm 9\na 3 4\na 4 13\nend").into_iter().flat_map(|e| tvf.feed(e)).collect();
    let out: Vec<_> = between.into_iter().flat_map(|e| aggregate.feed(e)).collect();
    assert_eq!(lines(&out), ["+I[a, 1, 0, 10, 9]", "+I[a, 2, 10, 20, 19]"]);
    assert_eq!((tvf.late(), aggregate.late()), (0, 1));
}

#[test]
fn table_functions_pass_late_rows_and_hold_sessions() {
    let output = Schema::new([input().fields, window_fields()].concat());
    let function = |kind, keys: Vec<usize>| {
        let window = WindowSpec { kind, offset: 0, zone: None };
        Rig::new(&OperatorSpec::WindowTableFunction { window, time_column: 2, keys }, &input(), &output)
    };
    let mut hop = function(WindowKind::Hop { slide: 10, size: 20 }, vec![]);
    let out = hop.run("wm 100\n-D a 1 5\na 2 15");
    assert_eq!(
        out,
        ["-D[a, 1, 5, 0, 20, 19]", "-D[a, 1, 5, -10, 10, 9]", "+I[a, 2, 15, 10, 30, 29]", "+I[a, 2, 15, 0, 20, 19]",]
    );
    let mut session = function(WindowKind::Session { gap: 10 }, vec![0]);
    assert!(session.run("a 1 0\nb 2 1\n\na 3 8\nwm 5").is_empty());
    assert_eq!(session.run("wm 12"), ["+I[b, 2, 1, 1, 11, 10]"]);
    assert_eq!(
        session.run("a 4 30\nend"),
        ["+I[a, 1, 0, 0, 18, 17]", "+I[a, 3, 8, 0, 18, 17]", "+I[a, 4, 30, 30, 40, 39]",]
    );
    // Batches whose rows are gone make place for others, while rows of a batch between still wait.
    let mut session = function(WindowKind::Session { gap: 10 }, vec![0]);
    assert_eq!(session.run("a 1 0\n\nb 2 5\nwm 9"), ["+I[a, 1, 0, 0, 10, 9]"]);
    assert_eq!(session.run("c 3 11\nb 4 14\n\nd 5 12\nwm 20"), ["+I[c, 3, 11, 11, 21, 20]"]);
    assert_eq!(session.run("b 6 22\nwm 21"), ["+I[d, 5, 12, 12, 22, 21]"]);
    assert_eq!(session.run("end"), ["+I[b, 2, 5, 5, 32, 31]", "+I[b, 4, 14, 5, 32, 31]", "+I[b, 6, 22, 5, 32, 31]"]);
}

#[test]
fn unnest_makes_a_row_of_each_element() {
    use arrow::array::ListArray;
    use arrow::datatypes::Int64Type;
    let list = LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))));
    let input = Schema::new(vec![column("id", TypeKind::BigInt), Field::new("l", list.clone())]);
    let lists = [Some(vec![Some(3), None]), None, Some(vec![])];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
    ];
    let columns = arrow::array::RecordBatch::try_new(input.to_arrow(), columns).unwrap();
    for (outer, expected) in [
        (false, vec!["+I[1, [3, ], 3, 1]", "+I[1, [3, ], null, 2]"]),
        (true, vec!["+I[1, [3, ], 3, 1]", "+I[1, [3, ], null, 2]", "+I[2, null, null, null]", "+I[3, [], null, null]"]),
    ] {
        let collection = tidegate_api::expr::Expr::input(1, list.clone());
        let fields = [input.fields.clone(), vec![column("e", TypeKind::BigInt), column("o", TypeKind::Int)]].concat();
        let spec = OperatorSpec::Unnest(UnnestSpec { collection, with_ordinality: true, outer });
        let mut rig = Rig::new(&spec, &input, &Schema::new(fields));
        assert_eq!(lines(&rig.feed(StreamElement::Batch(Batch::inserts(columns.clone())))), expected);
    }
}
