//! Unaligned checkpoints of SQL jobs: rows that the barrier overtook are part of the checkpoint, and come first
//! after the restore.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidegate_api::Result;
use tidegate_api::graph::JobGraph;
use tidegate_sql::script::split_script;
use tidegate_sql::session::Outcome;
use tokio::sync::Semaphore;

use crate::common::programs::final_rows;
use crate::rig::{Rig, Stretch, run, within};

const ROWS: u64 = 1_200;
const PARALLELISM: usize = 2;
/// How often rows are tried to be overtaken, and how many more the sources read in between.
const ATTEMPTS: u64 = 8;
const EVENTS_BETWEEN: u64 = 40;

/// Rows in two files, so that both subtasks read, in an order that closes windows now and then.
fn script(folder: &Path, sink: &str, query: &str) -> String {
    for file in 0..2 {
        let line = |i: u64| {
            let (ms, key) = (i * 100 + (i * 7 % 13) * 50, i * (file + 3) % 11);
            format!(
                "{{\"k\":\"k{key}\",\"v\":{i},\"ts\":\"2024-01-01 00:{:02}:{:02}.{:03}\"}}\n",
                ms / 60_000,
                ms / 1000 % 60,
                ms % 1000
            )
        };
        let rows: String = (0..ROWS / 2).map(line).collect();
        std::fs::write(folder.join(format!("part-{file}.json")), rows).expect("rows");
    }
    format!(
        "CREATE TABLE T (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '{0}', 'format' = 'json');
         CREATE TABLE behind (k STRING, v BIGINT, ts TIMESTAMP(3), earlier AS ts - INTERVAL '4' SECOND,
           WATERMARK FOR earlier AS earlier - INTERVAL '2' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '{0}', 'format' = 'json');
         CREATE VIEW branches AS SELECT k, v, earlier AS ts FROM behind UNION ALL SELECT k, v, ts FROM T;
         CREATE TABLE out_t ({sink}) WITH ('connector' = 'print');
         INSERT INTO out_t {query};",
        folder.display()
    )
}

fn plan(rig: &Rig, script: &str) -> Result<JobGraph> {
    let mut session = rig.session(PARALLELISM);
    let mut graph = None;
    for statement in split_script(script)? {
        if let Outcome::Job(job) = session.execute(&statement)? {
            graph = Some(job.graph);
        }
    }
    Ok(graph.expect("the script has a job"))
}

/// The printed lines that a checkpoint covers: of each subtask as many rows as it had written before the barrier.
fn covered(printed: &str, marks: &BTreeMap<(u64, usize), usize>, checkpoint: u64) -> String {
    let mut left: BTreeMap<String, usize> =
        (0..PARALLELISM).map(|s| ((s + 1).to_string(), marks.get(&(checkpoint, s)).copied().unwrap_or(0))).collect();
    let mut kept = String::new();
    for line in printed.lines() {
        let (subtask, _) = line.split_once("> ").expect("a subtask");
        let left = left.get_mut(subtask).expect("a subtask's number");
        if *left > 0 {
            *left -= 1;
            kept.push_str(line);
            kept.push('\n');
        }
    }
    assert!(left.values().all(|n| *n == 0), "rows before the barrier were not printed: {left:?}");
    kept
}

/// Waits while the sinks take a batch now and then, slower than the sources read, so that barriers can enter the
/// channels.
async fn while_fed<T>(permits: &Semaphore, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        tokio::select! {
            biased;
            done = &mut future => return done,
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => permits.add_permits(4),
        }
    }
}

/// Files of rows that were on their way when this checkpoint was taken.
fn overtaken_files(location: &str) -> usize {
    let place = Path::new(location.trim_start_matches("file://").trim_start_matches("file:"));
    let files = std::fs::read_dir(place).expect("the checkpoint's folder").flatten();
    files.filter(|file| file.file_name().to_string_lossy().contains("in-flight")).count()
}

/// Runs until rows wait everywhere for a sink that does not take them, takes a checkpoint that overtakes them, kills
/// the job, and goes on from the checkpoint.
async fn overtake(rows: &Path, sink: &str, query: &str, events: u64) -> Result<String> {
    let rig = Rig::new();
    let folder = tempfile::tempdir().expect("a folder for checkpoints");
    let dir = folder.path().to_str().expect("a UTF-8 path");
    let graph = plan(&rig, &script(rows, sink, query))?;
    let permits = Arc::new(Semaphore::new(0));
    *rig.sinks.permits.lock().expect("no panic holds it") = Some(permits.clone());
    let unaligned = [
        ("tidegate.source.batch-rows", "1"),
        ("execution.checkpointing.interval", "1 h"),
        ("execution.checkpointing.dir", dir),
        ("execution.checkpointing.unaligned.enabled", "true"),
        ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
    ];
    let started = rig.start(graph.clone(), None, &unaligned)?;
    // So many that windows have closed, and rows wait wherever they can. Whether any are on their way to a task when
    // the barrier comes is a matter of moments, so there are several.
    let mut tries = 0..ATTEMPTS;
    let location = loop {
        let attempt = tries.next().expect("rows were never on their way");
        while_fed(&permits, started.gate.reached(events + attempt * EVENTS_BETWEEN)).await;
        let location = while_fed(&permits, started.job.checkpoint()).await?.location;
        if overtaken_files(&location) > 0 {
            break location;
        }
    };
    started.job.cancel()?;
    let _ = started.job.wait().await;
    let marks = rig.sinks.marks.lock().expect("no panic holds it").clone();
    let last = marks.keys().map(|(checkpoint, _)| *checkpoint).max().expect("a mark");
    let mut printed = covered(&rig.printed.take(), &marks, last);

    *rig.sinks.permits.lock().expect("no panic holds it") = None;
    let restored = rig.start(graph, None, &[("execution.state-recovery.path", &location)])?;
    restored.job.wait().await?;
    printed.push_str(&rig.printed.take());
    Ok(printed)
}

fn check(sink: &str, query: &str) {
    check_after(ROWS / 3, sink, query);
}

/// Overtakes when the sources have read so many rows.
fn check_after(events: u64, sink: &str, query: &str) {
    let rows = tempfile::tempdir().expect("a folder");
    // One after the other, the second file's rows would be late.
    let stretch = Stretch { parallelism: PARALLELISM, events: None };
    let (plain, ended) = run(&script(rows.path(), sink, query), &|_| vec![stretch]);
    ended.expect("it runs");
    let wanted = final_rows(&plain.printed);
    assert!(wanted.len() > 10, "{wanted:?}");
    let printed = within(overtake(rows.path(), sink, query, events)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(final_rows(&printed), wanted);
}

#[test]
fn groups_go_on_with_the_rows_a_barrier_overtook() {
    check(
        "k STRING, cnt BIGINT, total BIGINT, hi BIGINT, uniq BIGINT",
        "SELECT k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM T GROUP BY k",
    );
}

#[test]
fn windows_go_on_with_the_rows_a_barrier_overtook() {
    check(
        "k STRING, ws TIMESTAMP(3), cnt BIGINT, total BIGINT",
        "SELECT k, window_start, COUNT(*), SUM(v)
         FROM TABLE(TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
    );
}

#[test]
fn window_joins_go_on_with_the_rows_a_barrier_overtook() {
    let windows = "TABLE(TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '1' SECOND))";
    check(
        "k STRING, a BIGINT, b BIGINT",
        &format!(
            "SELECT x.k, x.v, y.v FROM {windows} x LEFT JOIN {windows} y
             ON x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end AND x.v < y.v"
        ),
    );
}

#[test]
fn joins_go_on_with_the_rows_a_barrier_overtook() {
    check(
        "k STRING, a BIGINT, b BIGINT",
        "SELECT x.k, x.v, y.v FROM T x FULL JOIN T y
         ON x.k = y.k AND y.ts BETWEEN x.ts + INTERVAL '0.1' SECOND AND x.ts + INTERVAL '0.4' SECOND",
    );
}

/// Both branches lead to the same input, the first some seconds behind the second, whose watermarks make its rows late
/// if they come back on its way. Sessions, for what comes before them is not aggregated on the branch.
#[test]
fn branches_of_a_union_go_on_with_what_a_barrier_overtook_in_them() {
    check_after(
        ROWS,
        "k STRING, ws TIMESTAMP(3), cnt BIGINT, total BIGINT",
        "SELECT k, window_start, COUNT(*), SUM(v)
         FROM TABLE(SESSION(TABLE branches PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
         GROUP BY k, window_start, window_end",
    );
}
