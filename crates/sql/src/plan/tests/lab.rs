//! The lab's scripts: names, numbers, shapes, and what is read.

use tidegate_api::connector::ReadColumn;
use tidegate_api::graph::{OperatorSpec, Partitioner, WindowInput};

use super::support::{graph, names, source};

fn lab(script: &str) -> tidegate_api::graph::JobGraph {
    let path = format!("{}/../../examples/lab/{script}.sql", env!("CARGO_MANIFEST_DIR"));
    graph(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn the_first_script_has_flinks_operators_and_numbers() {
    let g = lab("s1");
    assert_eq!(g.name, "insert-into_default_catalog.default_database.window_counts");
    assert_eq!(
        names(&g),
        [
            "Source: clicks[1]",
            "Calc[2]",
            "LocalWindowAggregate[3]",
            "GlobalWindowAggregate[5]",
            "Calc[6]",
            "window_counts[7]: Writer",
        ]
    );
    assert!(g.nodes.iter().all(|n| n.parallelism == 1));
    let partitioners: Vec<&Partitioner> = g.edges.iter().map(|e| &e.partitioner).collect();
    use Partitioner::{Forward, Global};
    assert_eq!(partitioners, [&Forward, &Forward, &Global, &Forward, &Forward]);
    let OperatorSpec::LocalWindowAggregate(local) = &g.nodes[2].spec else { panic!() };
    assert_eq!(local.input, WindowInput::TimeColumn(0));
    assert!(local.keys.is_empty());
}

#[test]
fn a_source_reads_only_what_the_query_and_the_watermark_need() {
    let g = lab("s1");
    let spec = source(&g, 0);
    assert_eq!(spec.read, [ReadColumn::Physical(1)]);
    assert_eq!(g.nodes[0].output.fields.len(), 1);
    let watermark = spec.watermark.as_ref().unwrap();
    assert_eq!((watermark.rowtime, watermark.rowtime_name.as_str()), (0, "ts"));
    assert_eq!(watermark.idle_timeout_ms, None);
}

#[test]
fn three_tables_of_one_topic_are_three_sources_and_numbers_run_on() {
    let g = lab("s2");
    assert_eq!(g.nodes.len(), 18);
    assert_eq!(g.nodes[6].name, "Source: clicks_d5[8]");
    assert_eq!(g.nodes[17].name, "counts_d10[21]: Writer");
    let name = "insert-into_default_catalog.default_database.counts_d0,default_catalog.default_database.counts_d5,\
                default_catalog.default_database.counts_d10";
    assert_eq!(g.name, name);
}

#[test]
fn one_table_of_three_inserts_is_one_source() {
    let g = lab("s3");
    let sources: Vec<&str> = names(&g).into_iter().filter(|n| n.starts_with("Source")).collect();
    assert_eq!(sources, ["Source: clicks_d0[1]"]);
    assert_eq!(g.edges.iter().filter(|e| e.from == 0).count(), 3);
    // One insert needs only ts, the others all columns.
    assert_eq!(source(&g, 0).read.len(), 3);
    let OperatorSpec::Calc { projection, .. } = &g.nodes[1].spec else { panic!() };
    assert_eq!(projection.len(), 1);
    assert_eq!(projection[0].node, tidegate_api::expr::ExprNode::Input(1));
    // A filter on window_end keeps the window function.
    assert!(names(&g).iter().any(|n| n.starts_with("WindowTableFunction[")));
}
