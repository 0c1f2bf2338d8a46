//! What reaches a sink: columns, casts, changes, options.

use tidegate_api::expr::ExprNode;
use tidegate_api::graph::{JobGraph, OperatorSpec, SinkSpec};
use tidegate_api::types::TypeKind;
use tidegate_api::value::Value;

use super::support::{error, graph, source};

const TABLES: &str = "
CREATE TABLE t (a INT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'x');
CREATE TABLE wide (x BIGINT, y VARCHAR(3), z DOUBLE) WITH ('connector' = 'print');
CREATE TABLE solo (a INT) WITH ('connector' = 'print');
CREATE TABLE append_only (b STRING, n BIGINT) WITH ('connector' = 'filesystem');
";

fn plan(statement: &str) -> JobGraph {
    graph(&format!("{TABLES} {statement};"))
}

fn sink(g: &JobGraph) -> &SinkSpec {
    match &g.nodes.last().unwrap().spec {
        OperatorSpec::Sink(spec) => spec,
        other => panic!("not a sink: {other:?}"),
    }
}

#[test]
fn a_partial_column_list_leaves_null_in_the_others() {
    let g = plan("INSERT INTO wide (z, x) SELECT 1.5e0, a FROM t");
    let OperatorSpec::Calc { projection, .. } = &g.nodes[g.nodes.len() - 2].spec else { panic!() };
    let kinds: Vec<&TypeKind> = projection.iter().map(|e| &e.ty.kind).collect();
    assert_eq!(kinds, [&TypeKind::BigInt, &TypeKind::Varchar(3), &TypeKind::Double]);
    assert!(matches!(projection[0].node, ExprNode::Cast { .. }));
    assert_eq!(projection[1].as_literal(), Some(&Value::Null));
}

#[test]
fn columns_that_do_not_fit_are_named_with_both_schemas() {
    let text = error(&format!("{TABLES} INSERT INTO solo SELECT b FROM t;"));
    let wanted = "Column types of query result and sink for 'default_catalog.default_database.solo' do not match.\nCause: \
                  Incompatible types for sink column 'a' at position 1.\n\nQuery schema: [b: STRING]\nSink schema:  [a: INT]";
    assert!(text.contains(wanted), "{text}");
    let text = error(&format!("{TABLES} INSERT INTO solo SELECT a, b FROM t;"));
    assert!(text.contains("Cause: Different number of columns."), "{text}");
    let text = error(&format!("{TABLES} INSERT INTO wide (x, x) SELECT a, a FROM t;"));
    assert!(text.contains("Target column 'x' is assigned more than once"), "{text}");
    let text = error(&format!("{TABLES} INSERT INTO wide (x, q) SELECT a, a FROM t;"));
    assert!(text.contains("Unknown target column 'q'"), "{text}");
}

#[test]
fn an_append_sink_refuses_updates() {
    let text = error(&format!("{TABLES} INSERT INTO append_only SELECT b, COUNT(*) FROM t GROUP BY b;"));
    let wanted = "Table sink 'default_catalog.default_database.append_only' doesn't support consuming update changes which \
                  is produced by node GroupAggregate(groupBy=[b], select=[b, COUNT(*) AS EXPR$0])";
    assert!(text.contains(wanted), "{text}");
    // A DISTINCT only ever inserts.
    plan("INSERT INTO append_only SELECT DISTINCT b, 1 FROM t");
}

#[test]
fn an_upsert_sink_wants_the_querys_key() {
    let upsert =
        "CREATE TABLE u (b STRING, n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');";
    let text = error(&format!("{TABLES} {upsert} INSERT INTO u SELECT b, COUNT(*) FROM t GROUP BY b;"));
    assert!(text.contains("Primary key: [n], upsert key: [b]."), "{text}");
}

#[test]
fn the_rowtime_goes_with_the_row_unless_there_are_two() {
    let out = "CREATE TABLE o (s TIMESTAMP(3), u TIMESTAMP(3)) WITH ('connector' = 'print');";
    let g = graph(&format!("{TABLES} {out} INSERT INTO o SELECT CAST(ts AS TIMESTAMP(3)), ts FROM t;"));
    assert_eq!(sink(&g).rowtime, Some(1));
    let text = error(&format!("{TABLES} {out} INSERT INTO o SELECT ts, ts FROM t;"));
    assert!(text.contains("more than one rowtime attribute column [ts, ts0] for writing into table"), "{text}");
}

#[test]
fn hints_change_a_reference_and_watermark_options_stay_with_the_engine() {
    let g = plan(
        "EXECUTE STATEMENT SET BEGIN
           INSERT INTO solo SELECT a FROM t /*+ OPTIONS('topic' = 'y', 'scan.watermark.idle-timeout' = '2 s') */;
           INSERT INTO solo SELECT a FROM t;
         END",
    );
    let sources: Vec<usize> =
        (0..g.nodes.len()).filter(|&i| matches!(g.nodes[i].spec, OperatorSpec::Source(_))).collect();
    assert_eq!(sources.len(), 2);
    let hinted = source(&g, sources[0]);
    assert_eq!(hinted.table.options["topic"], "y");
    assert!(!hinted.table.options.contains_key("scan.watermark.idle-timeout"));
    assert_eq!(hinted.watermark.as_ref().and_then(|w| w.idle_timeout_ms), Some(2000));
    assert_eq!(source(&g, sources[1]).watermark.as_ref().and_then(|w| w.idle_timeout_ms), None);
}

#[test]
fn metadata_is_cast_and_persisted_metadata_comes_last() {
    let table = "CREATE TABLE m (stamp TIMESTAMP(3) METADATA FROM 'timestamp', a INT, p BIGINT METADATA FROM 'partition' VIRTUAL)
                 WITH ('connector' = 'kafka');";
    let g = graph(&format!("{TABLES} {table} INSERT INTO m SELECT stamp, CAST(p AS INT) FROM m;"));
    let spec = source(&g, 0);
    assert_eq!(spec.read.len(), 2);
    assert!(spec.projection.iter().all(|e| matches!(e.node, ExprNode::Cast { .. })));
    let fields: Vec<&str> = g.nodes.last().unwrap().output.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(fields, ["a", "stamp"]);
    assert_eq!(g.nodes.last().unwrap().output.fields[1].ty.kind, TypeKind::TimestampLtz(3));
}

#[test]
fn union_all_meets_in_a_common_type() {
    let g = plan("SELECT a, 'x' FROM t UNION ALL SELECT CAST(1 AS BIGINT), 'long' UNION ALL SELECT 2, b FROM t");
    let union = g.nodes.iter().position(|n| n.name.starts_with("Union")).unwrap();
    assert_eq!(g.edges.iter().filter(|e| e.to == union).count(), 3);
    assert_eq!(g.nodes[union].output.fields[0].ty.kind, TypeKind::BigInt);
}

#[test]
fn views_are_bound_where_they_were_made() {
    let g = plan(
        "CREATE CATALOG side WITH ('type' = 'generic_in_memory', 'default-database' = 'yard');
         USE CATALOG side;
         CREATE TABLE inner_t (q INT) WITH ('connector' = 'filesystem');
         CREATE VIEW v (r) AS SELECT q FROM inner_t WHERE q < 3;
         USE CATALOG default_catalog;
         INSERT INTO solo SELECT r FROM side.yard.v",
    );
    assert_eq!(g.nodes[0].name, "Source: inner_t[1]");
}
