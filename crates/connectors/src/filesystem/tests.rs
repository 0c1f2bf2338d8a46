//! Files in, files out.

mod job;
mod lifecycle;
mod memory;
mod partition_commit;
mod rolling;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    CommitterContext, ConnectorFactory, EnumeratorContext, MetadataColumn, Notifier, ReadColumn, ReaderContext, Sink,
    SinkCommitter, SinkWriter, Source, SourceEvent, TableDescriptor, WriterContext,
};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, LogicalType, Result, Schema, TypeKind};

use super::FilesystemFactory;
use crate::testing::{STRING, print, read_with, schema};
use tidegate_time::ManualClock;

fn table(path: &Path, options: &[(&str, &str)], columns: Schema, partition_keys: Vec<usize>) -> TableDescriptor {
    let own = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let mut options: BTreeMap<String, String> = own.collect();
    options.insert("connector".to_owned(), "filesystem".to_owned());
    options.insert("path".to_owned(), path.to_string_lossy().into_owned());
    options.entry("format".to_owned()).or_insert_with(|| "json".to_owned());
    TableDescriptor { options, physical: columns, partition_keys, ..TableDescriptor::default() }
}

fn source(table: &TableDescriptor) -> Result<Arc<dyn Source>> {
    FilesystemFactory.source(table, &Configuration::default())
}

/// Reads a table to its end: each batch's columns and positions.
async fn read(
    table: &TableDescriptor,
    columns: &[ReadColumn],
    batch_rows: usize,
) -> Result<(Vec<(Batch, Vec<i64>)>, Vec<String>)> {
    let source = source(table)?;
    let splits = source.enumerator(EnumeratorContext::silent())?.discover().await?;
    let metrics = Arc::new(MetricGroup::default());
    let mut reader = source.reader(columns, ReaderContext { subtask: 0, parallelism: 1, batch_rows, metrics })?;
    let ids: Vec<String> = splits.iter().map(|s| s.id.clone()).collect();
    let mut batches = Vec::new();
    for split in splits {
        reader.add_split(split)?;
        loop {
            match reader.next().await? {
                SourceEvent::Rows(rows) => {
                    assert!(rows.columns.num_rows() <= batch_rows);
                    batches.push((Batch::inserts(rows.columns), rows.positions));
                }
                SourceEvent::SplitFinished(_) => break,
                SourceEvent::Quiet(_) => {}
            }
        }
    }
    Ok((batches, ids))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime").block_on(future)
}

fn all(table: &TableDescriptor) -> Vec<ReadColumn> {
    let physical = (0..table.physical.len()).map(ReadColumn::Physical);
    physical.chain((0..table.metadata.len()).map(ReadColumn::Metadata)).collect()
}

#[test]
fn a_directory_is_read_in_order_without_hidden_files() {
    let dir = tempfile::tempdir().expect("directory");
    fs::create_dir(dir.path().join("b")).expect("directory");
    fs::create_dir(dir.path().join(".folder")).expect("directory");
    for (name, text) in [
        ("b/2.json", "{\"v\":3}\n"),
        ("a.json", "{\"v\":1}\n\n{\"v\":2}"),
        ("_SUCCESS", "x"),
        (".part-u-0-1.inprogress.x", "x"),
        ("b/_SUCCESS", ""),
        (".folder/part-u-0-0", "x"),
        ("empty", ""),
    ] {
        fs::write(dir.path().join(name), text).expect("file");
    }
    let mut table = table(dir.path(), &[], schema(&[("v", TypeKind::Int)]), vec![]);
    let ty = LogicalType::string();
    table.metadata.push(MetadataColumn { name: "f".into(), key: "file.name".into(), ty: ty.clone(), is_virtual: true });
    let (batches, ids) = block_on(read(&table, &all(&table), 1)).expect("rows");
    let mut row = table.physical.clone();
    row.fields.push(tidegate_api::Field::new("f", ty));
    let printed: Vec<String> = batches.iter().flat_map(|(b, _)| print(&row, &b.columns).expect("rows")).collect();
    assert_eq!(printed, ["[1, a.json]", "[2, a.json]", "[3, 2.json]"]);
    assert_eq!(batches.iter().flat_map(|(_, p)| p.clone()).collect::<Vec<_>>(), [1, 3, 1]);
    assert_eq!(ids.len(), 3);
    let (batches, _) = block_on(read(&table, &[], 8)).expect("rows");
    assert_eq!(batches.iter().map(|(b, _)| b.num_rows()).sum::<usize>(), 3, "rows without columns are counted");
}

#[test]
fn rows_before_a_bad_line_go_out_before_the_error() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("x.json");
    fs::write(&path, "{\"v\":1}\n{\"v\":\"one\"}\n").expect("file");
    let table = table(&path, &[], schema(&[("v", TypeKind::Int)]), vec![]);
    let outcome = block_on(async {
        let source = source(&table)?;
        let metrics = Arc::new(MetricGroup::default());
        let ctx = ReaderContext { subtask: 0, parallelism: 1, batch_rows: 100, metrics };
        let mut reader = source.reader(&all(&table), ctx)?;
        reader.add_split(source.enumerator(EnumeratorContext::silent())?.discover().await?.remove(0))?;
        assert!(matches!(reader.next().await?, SourceEvent::Rows(rows) if rows.columns.num_rows() == 1));
        reader.next().await
    });
    let message = outcome.expect_err("a bad line").to_string();
    let place = format!("at file {}, line 2: field 'v': \"one\" is no INT", path.display());
    assert!(message.ends_with(&place), "{message}");
}

#[test]
fn long_lines_and_quotes_over_lines_cross_the_reads() {
    let dir = tempfile::tempdir().expect("directory");
    let long = "x".repeat(3 << 20);
    fs::write(dir.path().join("a"), format!("1,\"{long}\ny\"\n2,b\n")).expect("file");
    let table = table(dir.path(), &[("format", "csv")], schema(&[("id", TypeKind::Int), ("v", STRING)]), vec![]);
    let (batches, _) = block_on(read(&table, &all(&table), 100)).expect("rows");
    let (batch, positions) = &batches[0];
    assert_eq!(positions, &[1, 3]);
    assert_eq!(print(&table.physical, &batch.columns).expect("rows")[0], format!("[1, {long}\ny]"));
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let columns = || schema(&[("v", TypeKind::Int)]);
    let absent = table(Path::new("/no/such/file.json"), &[], columns(), vec![]);
    assert!(block_on(read(&absent, &[], 8)).expect_err("absent").to_string().contains("/no/such/file.json"));
    let remote = table(Path::new("s3://bucket/x"), &[], columns(), vec![]);
    assert!(source(&remote).err().expect("remote").to_string().contains("s3://bucket/x"));
    let typo = table(Path::new("/tmp"), &[("json.ignore-errors", "true")], columns(), vec![]);
    assert!(source(&typo).err().expect("typo").to_string().contains("json.ignore-errors"));
    let morse = table(Path::new("/tmp"), &[("format", "morse")], columns(), vec![]);
    assert!(source(&morse).err().expect("morse").to_string().contains("identifier 'morse' in the classpath"));
    let mut no_path = table(Path::new("/tmp"), &[], columns(), vec![]);
    no_path.options.remove("path");
    assert!(source(&no_path).err().expect("no path").to_string().ends_with("Missing required options are:\n\npath"));
}

#[test]
fn what_is_written_in_partitions_is_read_back() {
    let dir = tempfile::tempdir().expect("directory");
    let out = dir.path().join("deep/out");
    let columns = schema(&[("day", TypeKind::Date), ("v", TypeKind::Int), ("place", STRING)]);
    let flat = dir.path().join("in.json");
    let text = "{\"day\":\"2026-10-01\",\"v\":1,\"place\":\"a/b\"}\n{\"v\":2,\"place\":\"c\"}\n\
                {\"day\":\"2026-10-01\",\"v\":3,\"place\":\"a/b\"}\n";
    fs::write(&flat, text).expect("file");
    let from = table(&flat, &[], columns.clone(), vec![]);
    let to = table(&out, &[("format", "csv")], columns.clone(), vec![0, 2]);
    block_on(async {
        let (batches, _) = read(&from, &all(&from), 2).await?;
        let sink = FilesystemFactory.sink(&to, &Configuration::default())?;
        let metrics = Arc::new(MetricGroup::default());
        let mut writer = sink.writer(WriterContext {
            subtask: 0,
            parallelism: 1,
            rowtime: None,
            metrics,
            staging: None,
            restored: Vec::new(),
            clock: Arc::new(ManualClock::new(0)),
        })?;
        for (batch, _) in batches {
            writer.write(batch).await?;
        }
        writer.flush().await?;
        let (before, _) = read(&to, &all(&to), 8).await?;
        assert!(before.is_empty(), "nothing is visible before the job has finished");
        writer.finish().await?;
        assert!(writer.holds_output());
        let written = writer.pre_commit(0).await?;
        committer(sink.as_ref()).commit(written).await
    })
    .expect("written");
    let (batches, ids) = block_on(read(&to, &all(&to), 8)).expect("rows");
    let mut printed: Vec<String> =
        batches.iter().flat_map(|(b, _)| print(&columns, &b.columns).expect("rows")).collect();
    printed.sort();
    assert_eq!(printed, ["[2026-10-01, 1, a/b]", "[2026-10-01, 3, a/b]", "[null, 2, c]"]);
    assert!(ids[0].contains("day=2026-10-01/place=a%2Fb/part-"), "{ids:?}");
    assert!(ids[1].contains("day=__DEFAULT_PARTITION__/place=c/part-"), "{ids:?}");
}

/// A writer of a job with checkpoints, that goes on from these.
fn checkpointed(sink: &dyn Sink, restored: Vec<serde_json::Value>) -> Result<Box<dyn SinkWriter>> {
    let (metrics, staging) = (Arc::new(MetricGroup::default()), Some(std::path::PathBuf::from("unused")));
    let clock = Arc::new(ManualClock::new(0));
    sink.writer(WriterContext { subtask: 0, parallelism: 1, rowtime: None, metrics, staging, restored, clock })
}

fn committer(sink: &dyn Sink) -> Box<dyn SinkCommitter> {
    let ctx = CommitterContext {
        subtask: 0,
        parallelism: 1,
        metrics: Arc::new(MetricGroup::default()),
        notices: Notifier::silent(),
        audit: tidegate_api::audit::Auditor::silent(),
    };
    sink.committer(ctx).expect("a committer").expect("one that publishes")
}

/// A crash at each step between writing and publishing, in each format, with the machine's files: each row is there
/// once, by the last complete checkpoint.
#[test]
fn no_crash_loses_or_doubles_a_row() {
    for (format, crash) in ["json", "csv", "raw"].iter().flat_map(|format| (0..5).map(move |crash| (*format, crash))) {
        let dir = tempfile::tempdir().expect("directory");
        let columns = schema(&[("v", STRING)]);
        let to = table(&dir.path().join("out"), &[("format", format)], columns.clone(), vec![]);
        let row = |text: &str| {
            let column = Arc::new(arrow::array::StringArray::from(vec![text.to_owned()]));
            Batch::inserts(arrow::array::RecordBatch::try_new(columns.to_arrow(), vec![column]).expect("a row"))
        };
        block_on(async {
            let sink = FilesystemFactory.sink(&to, &Configuration::default())?;
            let mut writer = checkpointed(sink.as_ref(), Vec::new())?;
            writer.write(row("a")).await?;
            let first = (writer.pre_commit(1).await?, writer.snapshot()?);
            committer(sink.as_ref()).commit(first.0.clone()).await?;
            writer.write(row("b")).await?;
            // The last complete checkpoint: what is staged in it, and which rows come after it.
            let ((pending, snapshot), rest) = match crash {
                // Before the barrier, and between the barrier and the completion.
                0 => (first, vec!["b", "c"]),
                1 => {
                    writer.finish().await?;
                    writer.pre_commit(2).await?;
                    (first, vec!["b", "c"])
                }
                // Complete and not published; published and not known to be; once more.
                _ => {
                    writer.finish().await?;
                    let second = (writer.pre_commit(2).await?, writer.snapshot()?);
                    for _ in 2..crash {
                        committer(sink.as_ref()).commit(second.0.clone()).await?;
                    }
                    (second, vec!["c"])
                }
            };
            drop(writer);
            committer(sink.as_ref()).recover(pending).await?;
            let mut writer = checkpointed(sink.as_ref(), vec![snapshot])?;
            for text in rest {
                writer.write(row(text)).await?;
            }
            writer.finish().await?;
            let last = writer.pre_commit(3).await?;
            committer(sink.as_ref()).commit(last).await
        })
        .expect("published");
        let (batches, _) = block_on(read(&to, &all(&to), 8)).expect("rows");
        let mut printed: Vec<String> =
            batches.iter().flat_map(|(b, _)| print(&columns, &b.columns).expect("rows")).collect();
        printed.sort();
        assert_eq!(printed, ["[a]", "[b]", "[c]"], "{format}, crash {crash}");
    }
}

#[test]
fn what_was_begun_after_the_snapshot_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().expect("directory");
    let columns = schema(&[("p", TypeKind::Int), ("v", TypeKind::Int)]);
    let to = table(dir.path(), &[("sink.rolling-policy.file-size", "1")], columns.clone(), vec![0]);
    let rows = |from: i32, to: i32| {
        let column = || Arc::new(arrow::array::Int32Array::from_iter_values(from..to));
        let rows = arrow::array::RecordBatch::try_new(columns.to_arrow(), vec![column(), column()]);
        Batch::inserts(rows.expect("rows"))
    };
    let count = |hidden: bool| {
        let all = walk(dir.path());
        all.iter().filter(|name| name.starts_with('.') == hidden).count()
    };
    block_on(async {
        let sink = FilesystemFactory.sink(&to, &Configuration::default())?;
        let mut writer = checkpointed(sink.as_ref(), Vec::new())?;
        // More partitions than files may be open.
        writer.write(rows(0, 200)).await?;
        let staged = writer.pre_commit(1).await?;
        let snapshot = writer.snapshot()?;
        assert_eq!((staged.len(), count(true)), (200, 200));
        writer.write(rows(0, 3)).await?;
        assert_eq!(count(true), 203);
        drop(writer);
        assert_eq!(count(true), 200, "a writer that gives up takes its last files with it");
        // One that is killed does not.
        let name = snapshot["name"].as_str().expect("a name");
        for left in [format!("p=0/.{name}-200.inprogress.x"), ".part-of-another-0.inprogress.x".to_owned()] {
            fs::write(dir.path().join(left), "x").expect("file");
        }
        committer(sink.as_ref()).recover(staged).await?;
        checkpointed(sink.as_ref(), vec![snapshot])?;
        assert_eq!((count(false), count(true)), (200, 1));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("recovered");
}

#[test]
fn sink_options_that_cannot_be_kept_are_refused_by_name() {
    let columns = || schema(&[("dt", STRING), ("v", TypeKind::Int)]);
    let told = |key: &str, value: &str| {
        let table = table(Path::new("/tmp/t"), &[(key, value)], columns(), vec![0]);
        assert!(source(&table).is_ok(), "a source does not mind {key}");
        FilesystemFactory.sink(&table, &Configuration::default()).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(told("sink.partition-commit.policy.kind", "metastore").contains("only configure 'metastore'"));
    assert!(told("sink.partition-commit.policy.kind", "success-file,custom").contains("names a Java class"));
    assert!(told("sink.partition-commit.policy.kind", "mail").contains("'mail'. Expected 'success-file'"));
    assert!(told("sink.partition-commit.trigger", "soon").contains("'process-time' or 'partition-time'"));
    assert!(told("sink.partition-commit.delay", "later").contains("sink.partition-commit.delay"));
    assert!(told("sink.partition-commit.success-file.name", "a/b").contains("the name of a file"));
    assert!(told("partition.time-extractor.kind", "custom").contains("names a Java class"));
    assert!(told("auto-compaction", "true").contains("'auto-compaction' = 'true' is not supported"));
    assert!(told("auto-compaction", "false").is_empty());
}

/// The names of all files below a folder.
fn walk(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let names = |entry: fs::DirEntry| match entry.path().is_dir() {
        true => walk(&entry.path()),
        false => vec![entry.file_name().to_string_lossy().into_owned()],
    };
    entries.flat_map(names).collect()
}

#[test]
fn a_finished_file_that_was_removed_is_missed() {
    let dir = tempfile::tempdir().expect("directory");
    let columns = schema(&[("v", STRING)]);
    let to = table(&dir.path().join("out"), &[], columns.clone(), vec![]);
    let told = block_on(async {
        let sink = FilesystemFactory.sink(&to, &Configuration::default())?;
        let mut writer = checkpointed(sink.as_ref(), Vec::new())?;
        let column = Arc::new(arrow::array::StringArray::from(vec!["a"]));
        let rows = arrow::array::RecordBatch::try_new(columns.to_arrow(), vec![column]).expect("a row");
        writer.write(Batch::inserts(rows)).await?;
        writer.finish().await?;
        let staged = writer.pre_commit(1).await?;
        fs::remove_dir_all(dir.path().join("out")).expect("removed");
        committer(sink.as_ref()).recover(staged).await
    });
    let told = told.expect_err("it is gone").to_string();
    assert!(told.contains("with 1 rows is gone"), "{told}");
}

#[test]
fn reading_goes_on_where_a_snapshot_was_taken() {
    let dir = tempfile::tempdir().expect("directory");
    fs::write(dir.path().join("a.json"), (0..50).map(|i| format!("{{\"v\":{i}}}\n\n")).collect::<String>())
        .expect("file");
    fs::write(dir.path().join("b.json"), "{\"v\":100}\n{\"v\":101}").expect("file");
    let table = table(dir.path(), &[], schema(&[("v", TypeKind::Int)]), vec![]);
    let source = source(&table).expect("a source");
    let whole = block_on(read_with(source.as_ref(), &table.physical, 7, false)).expect("rows");
    assert_eq!((whole.len(), whole[1].as_str()), (52, "3: [1]"));
    assert_eq!(block_on(read_with(source.as_ref(), &table.physical, 7, true)).expect("rows"), whole);
}

#[test]
fn a_file_that_was_cut_is_not_the_one_the_snapshot_was_taken_of() {
    let dir = tempfile::tempdir().expect("directory");
    fs::write(dir.path().join("a.json"), "{\"v\":1}\n").expect("file");
    let table = table(dir.path(), &[], schema(&[("v", TypeKind::Int)]), vec![]);
    let source = source(&table).expect("a source");
    let metrics = Arc::new(MetricGroup::default());
    let ctx = ReaderContext { subtask: 0, parallelism: 1, batch_rows: 7, metrics };
    let mut reader = source.reader(&[ReadColumn::Physical(0)], ctx).expect("a reader");
    let state = serde_json::json!({ "offset": 10, "line": 2 });
    let id = dir.path().join("a.json").to_string_lossy().into_owned();
    let told = reader.add_split(tidegate_api::connector::Split { id, owner: 0, state }).expect_err("too short");
    assert!(told.to_string().contains("at byte 10: it has only 8 bytes now"), "{told}");
}
