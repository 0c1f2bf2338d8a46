//! GROUP BY as a changelog.

use proptest::prelude::*;
use tidegate_api::graph::{GroupAggregateSpec, OperatorSpec};

use super::*;

fn group_by(functions: &[&str], updating_input: bool, emit_update_before: bool) -> Rig {
    let spec = GroupAggregateSpec {
        keys: vec![0],
        aggregates: functions.iter().map(|f| call(f)).collect(),
        updating_input,
        emit_update_before,
    };
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    let output = Schema::new(input().fields[..1].iter().cloned().chain(results).collect());
    Rig::new(&OperatorSpec::GroupAggregate(spec), &input(), &output)
}

#[test]
fn one_change_per_row_that_changes_something() {
    let mut rig = group_by(&["COUNT", "MAX"], false, true);
    let out = rig.run("a 5 0\nnull 1 0\na 3 0\na 9 0\nnull null 0");
    assert_eq!(
        out,
        [
            "+I[a, 1, 5]",
            "+I[null, 1, 1]",
            "-U[a, 1, 5]",
            "+U[a, 2, 5]",
            "-U[a, 2, 5]",
            "+U[a, 3, 9]",
            "-U[null, 1, 1]",
            "+U[null, 2, 1]",
        ]
    );
    let mut rig = group_by(&["MAX"], false, false);
    assert_eq!(rig.run("a 5 0\na 5 0\na 3 0\na 6 0"), ["+I[a, 5]", "+U[a, 6]"]);
}

#[test]
fn a_group_that_empties_is_deleted_and_may_come_again() {
    let mut rig = group_by(&["SUM"], true, true);
    let out = rig.run("-D a 1 0\na 5 0\n-D a 5 0\na 7 0\n-U a 7 0\n+U a 8 0");
    assert_eq!(out, ["+I[a, 5]", "-D[a, 5]", "+I[a, 7]", "-D[a, 7]", "+I[a, 8]"]);
}

#[test]
fn distinct_rows_once() {
    assert_eq!(
        group_by(&[], false, true).run("a 1 0\nb 1 0\na 2 0\n\nb 1 0\nnull 1 0"),
        ["+I[a]", "+I[b]", "+I[null]"]
    );
    assert_eq!(group_by(&[], true, true).run("a 1 0\na 2 0\n-D a 1 0\n-D a 2 0"), ["+I[a]", "-D[a]"]);
}

proptest! {
    /// Whatever the batches, the changelog is the one of rows fed one at a time.
    #[test]
    fn batches_do_not_show(
        rows in prop::collection::vec((0..4u8, 0..5i64, any::<bool>()), 1..60),
        cut in 1..20usize,
        updating in any::<bool>(),
    ) {
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(k, v, back)| {
                let kind = if back && updating { RowKind::Delete } else { RowKind::Insert };
                (Some(k.to_string()), (v > 0).then_some(v), 0, kind)
            })
            .collect();
        let run = |size: usize| {
            let mut rig = group_by(&["COUNT", "SUM", "LIST"], updating, true);
            let out: Vec<_> = rows.chunks(size).flat_map(|part| rig.feed(batch(part))).collect();
            lines(&out)
        };
        prop_assert_eq!(run(cut), run(1));
    }
}

#[test]
fn dead_groups_give_their_memory_back() {
    let mut rig = group_by(&["SUM"], true, true);
    rig.run("keep 1 0");
    for round in 0..4 {
        let rows: Vec<Row> = (0..4_000)
            .flat_map(|i| {
                let key = Some(format!("{round}-{i}"));
                [(key.clone(), Some(i), 0, RowKind::Insert), (key, Some(i), 0, RowKind::Delete)]
            })
            .collect();
        assert_eq!(lines(&rig.feed(batch(&rows))).len(), 8_000);
    }
    assert_eq!(rig.run("keep 2 0\n0-1 5 0"), ["-U[keep, 1]", "+U[keep, 3]", "+I[0-1, 5]"]);
}
