//! Which kind of aggregate a GROUP BY becomes, and over which columns.

use tidegate_api::expr::ExprNode;
use tidegate_api::graph::{JobGraph, OperatorSpec, Partitioner, WindowAggregateSpec, WindowInput};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_window::WindowKind;

use super::support::{graph, names, source};

const TABLES: &str = "
CREATE TABLE t (k STRING, v BIGINT, arr ARRAY<INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE l (k STRING, ms BIGINT, rt AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE cdc (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'format' = 'debezium-json');
";

fn plan(query: &str) -> JobGraph {
    graph(&format!("{TABLES} {query};"))
}

fn kinds(g: &JobGraph) -> Vec<String> {
    names(g).iter().map(|n| n.split('[').next().unwrap_or_default().to_string()).collect()
}

fn one_phase(g: &JobGraph) -> &WindowAggregateSpec {
    let found = g.nodes.iter().find_map(|n| match &n.spec {
        OperatorSpec::WindowAggregate(spec) => Some(spec),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no one-phase window aggregate in {:?}", names(g)))
}

const HOP: &str = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))";

#[test]
fn a_filter_that_leaves_the_window_alone_goes_below_the_aggregate() {
    let g =
        plan(&format!("SELECT k, window_start, SUM(v) FROM {HOP} WHERE v > 1 GROUP BY k, window_start, window_end"));
    assert_eq!(kinds(&g), ["Source: t", "Calc", "LocalWindowAggregate", "GlobalWindowAggregate", "Calc", "collect"]);
    let OperatorSpec::Calc { filter: Some(_), .. } = &g.nodes[1].spec else { panic!("no filter") };
    let OperatorSpec::LocalWindowAggregate(local) = &g.nodes[2].spec else { panic!() };
    assert_eq!(local.window.kind, WindowKind::Hop { slide: 5000, size: 10_000 });
    let hash = g.edges.iter().find(|e| e.from == 2).map(|e| e.partitioner.clone());
    assert_eq!(hash, Some(Partitioner::Hash(vec![0])));
}

#[test]
fn a_filter_on_the_window_keeps_the_window_function_below() {
    let g = plan(&format!(
        "SELECT window_start, COUNT(*) FROM {HOP} WHERE window_start > TIMESTAMP '2031-01-01 00:00:00'
         GROUP BY window_start, window_end"
    ));
    assert!(matches!(one_phase(&g).input, WindowInput::Attached { .. }));
    assert!(kinds(&g).contains(&"WindowTableFunction".to_string()));
}

#[test]
fn a_window_aggregate_of_a_window_aggregate_takes_its_bounds() {
    let g = plan(&format!(
        "SELECT window_start, window_end, MAX(n) FROM
           (SELECT k, window_start, window_end, COUNT(*) AS n FROM {HOP} GROUP BY k, window_start, window_end)
         GROUP BY window_start, window_end"
    ));
    assert!(matches!(one_phase(&g).input, WindowInput::Attached { .. }));
    assert!(!kinds(&g).contains(&"WindowTableFunction".to_string()));
}

#[test]
fn window_time_is_a_rowtime_for_the_next_window() {
    let g = plan(
        "SELECT window_start, SUM(n) FROM TABLE(TUMBLE(
           (SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))
            GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '10' SECOND))
         GROUP BY window_start, window_end",
    );
    assert_eq!(kinds(&g).iter().filter(|k| *k == "GlobalWindowAggregate").count(), 2);
}

#[test]
fn window_start_alone_groups_for_ever() {
    let g = plan(&format!("SELECT window_start, COUNT(*) FROM {HOP} GROUP BY window_start"));
    assert!(kinds(&g).contains(&"GroupAggregate".to_string()));
    assert!(kinds(&g).contains(&"WindowTableFunction".to_string()));
}

#[test]
fn sessions_are_one_phase_and_keep_a_partition_of_their_own() {
    let session = |partition: &str| format!("TABLE(SESSION(TABLE t {partition}, DESCRIPTOR(ts), INTERVAL '9' SECOND))");
    let same = plan(&format!(
        "SELECT k, window_start, COUNT(*) FROM {} GROUP BY k, window_start, window_end",
        session("PARTITION BY k")
    ));
    assert!(matches!(one_phase(&same).input, WindowInput::TimeColumn(_)));
    // Sessions of all rows together, then counted per key.
    let other =
        plan(&format!("SELECT k, window_start, COUNT(*) FROM {} GROUP BY k, window_start, window_end", session("")));
    assert!(matches!(one_phase(&other).input, WindowInput::Attached { .. }));
}

#[test]
fn aggregates_that_go_by_arrival_are_one_phase() {
    let g = plan(&format!("SELECT window_start, LAST_VALUE(v) FROM {HOP} GROUP BY window_start, window_end"));
    assert!(matches!(one_phase(&g).input, WindowInput::TimeColumn(_)));
}

#[test]
fn a_legacy_window_is_one_operator() {
    let g = plan(
        "SELECT k, TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND), COUNT(*)
         FROM t GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
    );
    assert_eq!(kinds(&g), ["Source: t", "Calc", "GroupWindowAggregate", "Calc", "collect"]);
    let OperatorSpec::Sink(sink) = &g.nodes[4].spec else { panic!() };
    assert_eq!(sink.rowtime, Some(2));
}

#[test]
fn instants_are_windowed_in_the_session_zone() {
    let g = graph(&format!(
        "SET 'table.local-time-zone' = 'Asia/Tokyo'; {TABLES}
         SELECT window_start, window_time, COUNT(*) FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(rt), INTERVAL '1' DAY))
         GROUP BY window_start, window_end, window_time;"
    ));
    let global = g.nodes.iter().find_map(|n| match &n.spec {
        OperatorSpec::GlobalWindowAggregate(spec) => Some(spec),
        _ => None,
    });
    assert_eq!(global.and_then(|s| s.window.zone.as_deref()), Some("Asia/Tokyo"));
    let output = &g.nodes.last().unwrap().output.fields;
    assert_eq!(output[0].ty, LogicalType::not_null(TypeKind::Timestamp(3)));
    assert_eq!(output[1].ty, LogicalType::not_null(TypeKind::TimestampLtz(3)));
    // The computed rowtime needs the column below it and nothing else.
    assert_eq!(source(&g, 0).read.len(), 1);
}

#[test]
fn grouping_sets_expand_below_an_absorbed_window() {
    let g = plan(&format!(
        "SELECT window_start, k, GROUPING(k), COUNT(v) FROM {HOP}
         GROUP BY window_start, window_end, GROUPING SETS ((k), ())"
    ));
    assert_eq!(
        kinds(&g),
        ["Source: t", "Calc", "Expand", "LocalWindowAggregate", "GlobalWindowAggregate", "Calc", "collect"]
    );
    let OperatorSpec::Expand { projections } = &g.nodes[2].spec else { panic!() };
    assert_eq!(projections.len(), 2);
}

#[test]
fn cube_and_rollup_list_their_sets() {
    let sets = |clause: &str| {
        let g = plan(&format!("SELECT k, v, COUNT(*) FROM t GROUP BY {clause}"));
        g.nodes.iter().find_map(|n| match &n.spec {
            OperatorSpec::Expand { projections } => Some(projections.len()),
            _ => None,
        })
    };
    assert_eq!(sets("CUBE (k, v)"), Some(4));
    assert_eq!(sets("ROLLUP (k, v)"), Some(3));
    assert_eq!(sets("GROUPING SETS ((k), (v)), GROUPING SETS ((k), ())"), Some(4));
    assert_eq!(sets("k, v"), None);
}

#[test]
fn equal_expressions_of_keys_and_items_are_one_column() {
    let g = plan("SELECT UPPER(k) || '!', COUNT(*) FROM t GROUP BY UPPER(k)");
    assert_eq!(kinds(&g), ["Source: t", "Calc", "GroupAggregate", "Calc", "collect"]);
    let OperatorSpec::Calc { projection, .. } = &g.nodes[3].spec else { panic!() };
    assert!(!projection[0].calls("UPPER"));
}

#[test]
fn before_images_are_made_for_those_who_need_them() {
    let emits = |g: &JobGraph| {
        let specs = g.nodes.iter().filter_map(|n| match &n.spec {
            OperatorSpec::GroupAggregate(spec) => Some((spec.emit_update_before, spec.updating_input)),
            _ => None,
        });
        specs.collect::<Vec<_>>()
    };
    let upsert =
        "CREATE TABLE u (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');";
    let to = |sink: &str, query: &str| emits(&graph(&format!("{TABLES} {upsert} {sink} {query};")));
    let count = "SELECT k, COUNT(*) AS n FROM t GROUP BY k";
    let print = "CREATE TABLE p (k STRING, n BIGINT) WITH ('connector' = 'print');";
    assert_eq!(to("", &format!("INSERT INTO u {count}")), [(false, false)]);
    assert_eq!(to(print, &format!("INSERT INTO p {count}")), [(true, false)]);
    assert_eq!(to("", &format!("INSERT INTO u {count} HAVING COUNT(*) > 1")), [(true, false)]);
    let nested =
        "INSERT INTO p SELECT CAST(n AS STRING), COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n";
    assert_eq!(to(print, nested), [(true, false), (true, true)]);
    assert_eq!(to(print, "INSERT INTO p SELECT k, COUNT(*) FROM cdc GROUP BY k"), [(true, true)]);
}

#[test]
fn a_global_aggregate_runs_in_one_task() {
    let g = graph(&format!("SET 'parallelism.default' = '4'; {TABLES} SELECT COUNT(*) FROM t;"));
    let of = |name: &str| g.nodes.iter().find(|n| n.name.starts_with(name)).map(|n| n.parallelism);
    assert_eq!(of("Source"), Some(4));
    assert_eq!(of("GroupAggregate"), Some(1));
    let into_group = g.edges.iter().find(|e| g.nodes[e.to].name.starts_with("GroupAggregate"));
    assert_eq!(into_group.map(|e| e.partitioner.clone()), Some(Partitioner::Global));
}

#[test]
fn unnest_adds_the_elements_columns() {
    let g = plan("SELECT k, n, pos FROM t CROSS JOIN UNNEST(arr) WITH ORDINALITY AS u (n, pos)");
    let OperatorSpec::Unnest(spec) = &g.nodes.iter().find(|n| n.name.starts_with("Correlate")).unwrap().spec else {
        panic!()
    };
    assert!(spec.with_ordinality && !spec.outer);
    assert!(matches!(spec.collection.node, ExprNode::Input(_)));
    let left = plan("SELECT k, n FROM t LEFT JOIN UNNEST(arr) AS u (n) ON TRUE");
    assert!(left.nodes.last().unwrap().output.fields[1].ty.nullable);
}
