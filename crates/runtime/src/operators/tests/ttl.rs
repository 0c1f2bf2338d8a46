//! Keys that expire.

use tidegate_api::graph::{GroupAggregateSpec, OperatorSpec};

use super::*;

const TTL_MS: i64 = 1_000;

fn group_by(functions: &[&str]) -> (Rig, Time) {
    let spec = GroupAggregateSpec {
        keys: vec![0],
        aggregates: functions.iter().map(|f| call(f)).collect(),
        updating_input: false,
        emit_update_before: true,
    };
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    let output = Schema::new(input().fields[..1].iter().cloned().chain(results).collect());
    let time = Time { state_ttl_ms: Some(TTL_MS), ..Time::default() };
    (Rig::with_time(&OperatorSpec::GroupAggregate(spec), &input(), &output, &time), time)
}

#[test]
fn a_key_is_forgotten_a_while_after_its_last_row() {
    let (mut rig, time) = group_by(&["SUM"]);
    assert_eq!(rig.run("a 1 0\nb 1 0"), ["+I[a, 1]", "+I[b, 1]"]);
    time.now_ms.store(TTL_MS - 1, Ordering::Relaxed);
    assert_eq!(rig.run("a 2 0"), ["-U[a, 1]", "+U[a, 3]"]);
    time.now_ms.store(TTL_MS, Ordering::Relaxed);
    assert_eq!(rig.run("b 5 0\na 1 0"), ["+I[b, 5]", "-U[a, 3]", "+U[a, 4]"]);
    time.now_ms.store(5 * TTL_MS, Ordering::Relaxed);
    assert_eq!(rig.run("c 1 0\n\na 7 0"), ["+I[c, 1]", "+I[a, 7]"]);
}

#[test]
fn what_does_not_change_is_passed_on_so_that_nobody_below_forgets() {
    let (mut rig, _) = group_by(&["MAX"]);
    assert_eq!(rig.run("a 5 0\na 1 0"), ["+I[a, 5]", "-U[a, 5]", "+U[a, 5]"]);
    let (mut rig, time) = group_by(&[]);
    assert_eq!(rig.run("a 5 0\na 1 0"), ["+I[a]", "-U[a]", "+U[a]"]);
    time.now_ms.store(TTL_MS, Ordering::Relaxed);
    assert_eq!(rig.run("a 5 0"), ["+I[a]"]);
}
