//! Sequences are whole, random values keep their bounds, and mistakes are named.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    ConnectorFactory, EnumeratorContext, ReadColumn, ReaderContext, SourceEvent, TableDescriptor,
};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Result, Schema, TypeKind};

use super::DatagenFactory;
use crate::testing::{STRING, array, print, read_with, schema};

fn table(columns: Schema, options: &[(&str, &str)]) -> TableDescriptor {
    let options: BTreeMap<String, String> = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    TableDescriptor { options, physical: columns, ..TableDescriptor::default() }
}

/// All rows of a bounded table, split by split.
fn rows(table: &TableDescriptor) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let source = DatagenFactory.source(table, &Configuration::default())?;
        assert!(source.is_bounded());
        let columns: Vec<ReadColumn> = (0..table.physical.len()).map(ReadColumn::Physical).collect();
        let metrics = Arc::new(MetricGroup::default());
        let mut reader =
            source.reader(&columns, ReaderContext { subtask: 0, parallelism: 1, batch_rows: 100, metrics })?;
        let splits = source.enumerator(EnumeratorContext::silent())?.discover().await?;
        let mut left = splits.len();
        for split in splits {
            reader.add_split(split)?;
        }
        let mut lines = Vec::new();
        while left > 0 {
            match reader.next().await? {
                SourceEvent::Rows(rows) => lines.extend(print(&table.physical, &rows.columns)?),
                SourceEvent::SplitFinished(_) => left -= 1,
                SourceEvent::Quiet(_) => {}
            }
        }
        Ok(lines)
    })
}

#[test]
fn a_sequence_is_whole_however_many_subtasks_make_it() {
    let columns = schema(&[("id", TypeKind::BigInt), ("s", STRING)]);
    let sequence = [
        ("scan.parallelism", "3"),
        ("fields.id.kind", "sequence"),
        ("fields.id.start", "5"),
        ("fields.id.end", "14"),
        ("fields.s.kind", "sequence"),
        ("fields.s.start", "1"),
        ("fields.s.end", "7"),
    ];
    let mut lines = rows(&table(columns, &sequence)).expect("rows");
    lines.sort_by_key(|line| line.len());
    let expected = ["[5, 1]", "[6, 2]", "[7, 3]", "[8, 4]", "[9, 5]", "[10, 6]", "[11, 7]"].map(str::to_owned);
    lines.sort_by_key(|l| l[1..].split(',').next().and_then(|n| n.parse::<i64>().ok()));
    assert_eq!(lines, expected, "the shortest sequence wins");
}

#[test]
fn random_values_keep_their_bounds_and_their_seed() {
    let columns = schema(&[
        ("n", TypeKind::Int),
        ("s", STRING),
        ("c", TypeKind::Char(2)),
        ("d", TypeKind::Decimal(4, 2)),
        ("a", array(TypeKind::Double)),
        ("z", TypeKind::Boolean),
    ]);
    let options = [
        ("number-of-rows", "200"),
        ("rows-per-second", "1000000"),
        ("tidegate.seed", "7"),
        ("fields.n.min", "-1"),
        ("fields.n.max", "1"),
        ("fields.s.length", "4"),
        ("fields.s.var-len", "true"),
        ("fields.a.length", "1"),
        ("fields.a.element.max", "0.5"),
        ("fields.z.null-rate", "1"),
    ];
    let lines = rows(&table(columns.clone(), &options)).expect("rows");
    assert_eq!(lines.len(), 200);
    for line in &lines {
        let parts: Vec<&str> = line.trim_matches(['[', ']']).split(", ").collect();
        assert!(["-1", "0", "1"].contains(&parts[0]), "{line}");
        assert!((1..=4).contains(&parts[1].len()) && parts[2].len() == 2, "{line}");
        assert_eq!(parts[5], "null", "{line}");
    }
    assert_eq!(rows(&table(columns, &options)).expect("rows"), lines);
}

#[test]
fn mistakes_are_named() {
    let source = |options: &[(&str, &str)]| {
        let table = table(schema(&[("n", TypeKind::Int)]), options);
        DatagenFactory.source(&table, &Configuration::default()).map(|_| ()).expect_err("a mistake").to_string()
    };
    assert!(source(&[("fields.n.maximum", "1")]).contains("Unsupported options:\n\nfields.n.maximum"));
    assert!(source(&[("fields.n.kind", "sequence")]).contains("fields.n.end\nfields.n.start"));
    assert!(source(&[("fields.n.min", "3"), ("fields.n.max", "2")]).contains("fields.n.max"));
    assert!(source(&[("rows-per-second", "0")]).contains("rows-per-second"));
}

#[test]
fn making_goes_on_where_a_snapshot_was_taken() {
    let columns = schema(&[("id", TypeKind::BigInt), ("n", TypeKind::Int), ("s", STRING)]);
    let options = [
        ("fields.id.kind", "sequence"),
        ("fields.id.start", "0"),
        ("fields.id.end", "9999"),
        ("fields.s.length", "3"),
        ("rows-per-second", "1000000"),
        ("scan.parallelism", "2"),
        ("tidegate.seed", "11"),
    ];
    let table = table(columns, &options);
    let source = DatagenFactory.source(&table, &Configuration::default()).expect("a source");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let whole = runtime.block_on(read_with(source.as_ref(), &table.physical, 1000, false)).expect("rows");
    assert_eq!(whole.len(), 10_000);
    assert_eq!(runtime.block_on(read_with(source.as_ref(), &table.physical, 1000, true)).expect("rows"), whole);
}
