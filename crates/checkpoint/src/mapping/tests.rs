use std::collections::BTreeMap;

use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};

use super::*;
use crate::barrier::BarrierKind;
use crate::ids::{CheckpointId, JobId};
use crate::manifest::{KeyGroupRange, SplitPosition, StateKind, SubtaskEntry};

fn ty(text: &str) -> LogicalType {
    let (kind, nullable) = text.strip_suffix('!').map_or((text, true), |kind| (kind, false));
    let kind = match kind {
        "tiny" => TypeKind::TinyInt,
        "int" => TypeKind::Int,
        "big" => TypeKind::BigInt,
        "float" => TypeKind::Float,
        "double" => TypeKind::Double,
        "dec10" => TypeKind::Decimal(10, 2),
        "dec12" => TypeKind::Decimal(12, 2),
        "dec12.3" => TypeKind::Decimal(12, 3),
        "str5" => TypeKind::Varchar(5),
        "str9" => TypeKind::Varchar(9),
        "ts3" => TypeKind::Timestamp(3),
        "ts6" => TypeKind::Timestamp(6),
        "ltz6" => TypeKind::TimestampLtz(6),
        "ints" => TypeKind::Array(Box::new(ty("int"))),
        "bigs" => TypeKind::Array(Box::new(ty("big"))),
        other => panic!("unknown type {other}"),
    };
    LogicalType { kind, nullable }
}

fn schema(text: &str) -> Schema {
    let field = |part: &str| part.split_once(' ').map(|(name, kind)| Field::new(name, ty(kind)));
    Schema::new(text.split(", ").filter_map(field).collect())
}

fn state(key: &str, value: &str) -> StateSchema {
    StateSchema { kind: StateKind::Value, key: schema(key), value: schema(value) }
}

fn compared(old: (&str, &str), new: (&str, &str)) -> String {
    match schema::compare(&state(old.0, old.1), &state(new.0, new.1)) {
        Ok(changes) => changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(reasons) => format!("REFUSED {}", reasons.join("; ")),
    }
}

#[test]
fn wider_types_and_nullable_columns_at_the_end_are_accepted() {
    for (from, to) in [
        ("tiny", "int"),
        ("int", "big"),
        ("float", "double"),
        ("dec10", "dec12"),
        ("str5", "str9"),
        ("ts3", "ts6"),
        ("ints", "bigs"),
        ("int!", "int"),
        ("int!", "big!"),
    ] {
        let text = compared(("k str5", &format!("v {from}")), ("k str5", &format!("v {to}")));
        assert!(text.contains("becomes"), "{from} to {to}: {text}");
        let back = compared(("k str5", &format!("v {to}")), ("k str5", &format!("v {from}")));
        assert!(back.starts_with("REFUSED column 'v' was"), "{to} to {from}: {back}");
    }
    assert_eq!(compared(("k int", "v int"), ("k int", "v int")), "");
    assert_eq!(compared(("k int", "v int"), ("k big", "v int")), "column 'k' INT becomes BIGINT");
    let added = compared(("k int", "v int"), ("k int", "v int, w str5"));
    assert_eq!(added, "column 'w' VARCHAR(5) is added, NULL so far");
}

#[test]
fn all_else_is_refused_with_both_sides_named() {
    for (old, new, words) in [
        (("k int", "SUM(v) big"), ("k int", "MAX(v) big"), "column 1 was 'SUM(v)' BIGINT and is now 'MAX(v)' BIGINT"),
        (("k int", "v int"), ("k int", "v int, w int!"), "may not be NULL"),
        (("k int", "v int, w int"), ("k int", "v int"), "'w' INT is missing"),
        (("k int", "v int"), ("k int", "w int, v int"), "was 'v' INT and is now 'w' INT"),
        (("k int", "v int"), ("k int, l int", "v int"), "key column 'l' is new"),
        (("k int", "v int"), ("k str5", "v int"), "key 'k' was INT and is now VARCHAR(5)"),
        (("k int", "v dec10"), ("k int", "v dec12.3"), "DECIMAL(12, 3)"),
        (("k int", "v ts3"), ("k int", "v ltz6"), "TIMESTAMP_LTZ(6)"),
        (("k int", "v int"), ("k int", "v double"), "cannot hold every value"),
        (("k int", "v int"), ("k int", "v int!"), "INT NOT NULL"),
    ] {
        let text = compared(old, new);
        assert!(text.starts_with("REFUSED") && text.contains(words), "{text} lacks {words}");
    }
}

fn entry(name: &str, states: &[(&str, StateSchema)], keyed: bool) -> OperatorEntry {
    let subtask = |index| SubtaskEntry {
        key_groups: keyed.then(|| KeyGroupRange::of(index, 2, 128)),
        splits: if keyed { Vec::new() } else { vec![position(index)] },
        ..SubtaskEntry::default()
    };
    OperatorEntry {
        name: name.to_owned(),
        parallelism: 2,
        max_parallelism: 128,
        states: states.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect(),
        subtasks: vec![subtask(0), subtask(1)],
    }
}

fn position(index: u32) -> SplitPosition {
    SplitPosition { split: format!("b-{index}"), position: 50.into(), watermark_ms: None, finished: false }
}

fn manifest(operators: Vec<(&str, OperatorEntry)>) -> Manifest {
    Manifest {
        checkpoint: CheckpointId(3),
        kind: BarrierKind::Savepoint { stop: None },
        job: JobId::parse("0123456789abcdef0123456789abcdef").expect("an id"),
        job_name: "job".to_owned(),
        engine: "test".to_owned(),
        triggered_ms: 0,
        acknowledged_ms: 0,
        operators: operators.into_iter().map(|(id, entry)| (OperatorId::new(id), entry)).collect(),
    }
}

fn operator(id: &str, name: &str, states: &[(&str, StateSchema)]) -> NewOperator {
    NewOperator {
        id: OperatorId::new(id),
        name: name.to_owned(),
        parallelism: 2,
        max_parallelism: None,
        states: states.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect(),
    }
}

#[test]
fn a_query_with_another_input_keeps_what_it_had() {
    let snapshot = manifest(vec![
        ("source(b)", entry("Source: b[1]", &[], false)),
        ("sink(a)", entry("a[2]: Writer", &[], false)),
    ]);
    let job = [
        operator("source(b)", "Source: b[1]", &[]),
        operator("source(c)", "Source: c[2]", &[]),
        operator("sink(a)", "a[4]: Writer", &[]),
    ];
    let mapping = Mapping::new(&snapshot, &job);
    assert_eq!(mapping.check("sp", false).map_err(|e| e.message), Ok(()));
    assert_eq!(mapping.to_string(), "source(b): kept\nsource(c): new\nsink(a): kept\n");
}

#[test]
fn another_aggregate_is_refused_and_a_lost_operator_must_be_allowed() {
    let sum = [("accumulators", state("k str5", "SUM(v) big"))];
    let max = [("accumulators", state("k str5", "MAX(v) big"))];
    let snapshot = manifest(vec![
        ("agg", entry("GroupAggregate[3]", &sum, true)),
        ("none", {
            let mut stateless = entry("Calc[2]", &[], false);
            stateless.subtasks.iter_mut().for_each(|subtask| subtask.splits.clear());
            stateless
        }),
    ]);
    let refused = Mapping::new(&snapshot, &[operator("agg", "GroupAggregate[3]", &max)]);
    for allow in [false, true] {
        let message = refused.check("sp", allow).expect_err("another meaning").message;
        assert!(message.contains("GroupAggregate[3]") && message.contains("SUM(v)") && message.contains("MAX(v)"));
    }
    assert!(refused.to_string().starts_with("agg: refused: state 'accumulators'"), "{refused}");
    let lost = Mapping::new(&snapshot, &[operator("other", "Other[1]", &[])]);
    let message = lost.check("sp", false).expect_err("lost state").message;
    assert!(message.contains("--allowNonRestoredState") && message.contains("GroupAggregate[3]"));
    assert_eq!(lost.check("sp", true).map_err(|e| e.message), Ok(()));
    assert_eq!(lost.to_string(), "other: new\nagg: dropped\n", "who kept nothing is missed by nobody");
}

#[test]
fn key_groups_are_fixed_and_parallelism_is_not() {
    let count = [("accumulators", state("k str5", "COUNT(*) big"))];
    let snapshot = manifest(vec![("agg", entry("Agg[1]", &count, true))]);
    let with = |parallelism, max_parallelism| {
        let job = NewOperator { parallelism, max_parallelism, ..operator("agg", "Agg[1]", &count) };
        Mapping::new(&snapshot, &[job])
    };
    let grown = with(5, None);
    let Fate::Kept { parallelism, max_parallelism, .. } = &grown.operators[0].2 else { panic!("kept") };
    assert_eq!((*parallelism, *max_parallelism), ((2, 5), 128));
    assert!(grown.to_string().contains("parallelism 2 -> 5"));
    assert!(with(2, Some(256)).to_string().contains("128 key groups, the job sets 256"));
    assert!(with(129, None).to_string().contains("(128) of the restored state is lower"));
    assert!(with(2, Some(128)).check("sp", false).is_ok());
}

#[test]
fn states_come_and_go_within_an_operator() {
    let (old, both) = (state("k int", "v int"), state("k int", "t ts3"));
    let snapshot = manifest(vec![("op", entry("Op[1]", &[("rows", old.clone())], true))]);
    let more = Mapping::new(&snapshot, &[operator("op", "Op[1]", &[("rows", old.clone()), ("timers", both.clone())])]);
    assert!(more.to_string().contains("state 'timers' begins empty"));
    let less = Mapping::new(&snapshot, &[operator("op", "Op[1]", &[("timers", both)])]);
    assert!(less.to_string().contains("state 'rows' is in the snapshot"));
    assert_eq!(BTreeMap::from([("rows".to_owned(), old)]), snapshot.operators[&OperatorId::new("op")].states);
}
