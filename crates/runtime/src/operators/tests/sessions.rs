//! Sessions that do not fit into the memory they have.

use proptest::prelude::*;
use tidegate_api::graph::OperatorSpec;
use tidegate_api::{Schema, WindowKind, WindowSpec};

use super::windows::spec;
use super::*;

/// Session windows with this gap by these keys: an aggregate, or the table function.
fn sessions(gap: i64, keys: &[usize], aggregate: bool, updating: bool) -> (OperatorSpec, Schema) {
    let kind = WindowKind::Session { gap };
    if aggregate {
        let mut spec = spec(kind, &["COUNT", "SUM", "MAX", "LIST"], updating);
        spec.keys = keys.to_vec();
        let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
        let keys = keys.iter().map(|key| input().fields[*key].clone());
        let output = Schema::new(keys.chain(results).chain(window_fields()).collect());
        return (OperatorSpec::WindowAggregate(spec), output);
    }
    let window = WindowSpec { kind, offset: 0, zone: None };
    let function = OperatorSpec::WindowTableFunction { window, time_column: 2, keys: keys.to_vec() };
    (function, Schema::new([input().fields, window_fields()].concat()))
}

fn rig((spec, output): &(OperatorSpec, Schema), table_bytes: Option<usize>) -> Rig {
    Rig::limited(spec, &input(), output, table_bytes, false, &Time::default())
}

/// The end of the window of an emitted row.
fn end(line: &str) -> i64 {
    line.rsplit(", ").nth(1).unwrap().parse().unwrap()
}

fn insert(key: usize, value: i64, ts: i64) -> Row {
    (Some(format!("key {key}")), Some(value), ts, RowKind::Insert)
}

#[test]
fn sessions_that_end_together_fire_bit_by_bit() {
    let keys = 5_000;
    let rows: Vec<Row> = (0..keys).map(|key| insert(key, 1, 0)).collect();
    for aggregate in [true, false] {
        let mut rig = rig(&sessions(10, &[0], aggregate, false), Some(100_000));
        rows.chunks(100).for_each(|rows| assert!(rig.feed(batch(rows)).is_empty()));
        let mut out = Output::default();
        rig.operator.process_watermark(Watermark(9), &mut out).unwrap();
        let (mut emitted, mut steps) = (Vec::new(), 0);
        loop {
            let step = lines(&out.take());
            assert!(step.len() < keys / 5, "{} rows at one time", step.len());
            steps += usize::from(!step.is_empty());
            emitted.extend(step);
            if !rig.operator.resume(&mut out).unwrap() {
                break;
            }
        }
        emitted.sort();
        emitted.dedup();
        assert_eq!(emitted.len(), keys);
        assert!(steps > 5, "{steps} steps");
        assert!(rig.feed(StreamElement::Watermark(Watermark::MAX)).len() == 1, "nothing is left");
    }
}

#[test]
fn a_timer_whose_session_has_grown_is_nobodys() {
    let script = "a 1 0\nb 1 0\n\na 2 8\n\na 3 16\n\nwm 9";
    for aggregate in [true, false] {
        let mut rig = rig(&sessions(10, &[0], aggregate, false), Some(0));
        let run = |rig: &mut Rig, script: &str| -> Vec<StreamElement> {
            elements(script).into_iter().flat_map(|e| rig.feed(e)).collect()
        };
        assert_eq!(lines(&run(&mut rig, script)).len(), 1, "b is over, a is not");
        let rest = lines(&run(&mut rig, "wm 24\nwm 25"));
        assert!(rest.iter().all(|line| end(line) == 26), "{rest:?}");
        assert_eq!(rest.len(), if aggregate { 1 } else { 3 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What memory there is makes no difference, and aggregates come in the order of their sessions' ends.
    #[test]
    fn sessions_larger_than_memory_are_those_in_memory(
        moves in prop::collection::vec((0..60usize, 0..4i64, -60..8i64, 0..9u8), 1..400),
        (gap, delay, size) in (1..40i64, 0..60i64, 1..64usize),
        keys in prop_oneof![4 => Just(vec![0]), 1 => Just(vec![]), 1 => Just(vec![1, 0])],
        (aggregate, updating) in (any::<bool>(), any::<bool>()),
        table_bytes in 0..60_000usize,
        barrier in 1..20usize,
    ) {
        let spec = sessions(gap, &keys, aggregate, updating && aggregate);
        let (mut memory, mut disk) = (rig(&spec, None), rig(&spec, Some(table_bytes)));
        let (mut at, mut watermark) = (0, i64::MIN);
        let (mut expected, mut given) = (Vec::new(), Vec::new());
        let mut held: Vec<Row> = Vec::new();
        for (i, moves) in moves.chunks(size).enumerate() {
            let mut rows = Vec::new();
            for (key, value, step, back) in moves {
                at += (*step).max(0);
                match held.len() {
                    n if *back == 0 && updating && aggregate && n > 0 => {
                        let old = held.swap_remove(key % n);
                        rows.push((old.0, old.1, old.2, RowKind::Delete));
                    }
                    _ => {
                        let row = insert(*key, *value, at + (*step).min(0));
                        held.push(row.clone());
                        rows.push(row);
                    }
                }
            }
            watermark = watermark.max(at - delay);
            for element in [batch(&rows), StreamElement::Watermark(Watermark(watermark))] {
                expected.extend(lines(&memory.feed(element.clone())));
                given.extend(lines(&disk.feed(element)));
            }
            if i % barrier == 0 {
                // What is written stays in memory as well.
                disk.operator.checkpoint().unwrap();
            }
        }
        expected.extend(lines(&memory.feed(StreamElement::Watermark(Watermark::MAX))));
        given.extend(lines(&disk.feed(StreamElement::Watermark(Watermark::MAX))));
        prop_assert!(!aggregate || given.is_sorted_by_key(|line| end(line)), "{given:?}");
        prop_assert_eq!(in_order_of_time(&given), in_order_of_time(&expected));
        prop_assert_eq!(disk.late(), memory.late());
    }
}
