//! State on disk gives the rows that state in memory gives: larger than its memory, killed, and restored at another
//! parallelism.
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::tidegate;

const LIMIT: Duration = Duration::from_secs(240);
const KILLS: usize = 2;

/// What a job reads and computes.
struct Query {
    rows: u64,
    keys: u64,
    /// Event time in milliseconds by row number.
    time: &'static str,
    select: String,
}

/// 300,000 rows of 60,000 keys; windows hold about 40,000 groups, several times what the least budget has room for.
fn totals(window: &str) -> Query {
    let select = format!(
        "SELECT id, window_start, COUNT(*), SUM(v), MAX(s) FROM TABLE({window}) GROUP BY id, window_start, window_end"
    );
    Query { rows: 300_000, keys: 60_000, time: "n", select }
}

/// Rows that come back to every one of 100,000 keys after 100 seconds, and then after 300: with a gap in between
/// there are 100,000 sessions at one time, each of two rows.
fn sessions(rows: u64, select: &str) -> Query {
    let window = "SESSION(TABLE numbers PARTITION BY id, DESCRIPTOR(ts), INTERVAL '150' SECOND)";
    Query { rows, keys: 100_000, time: "n + n / 200000 * 200000", select: select.replace("{sessions}", window) }
}

fn script(folder: &Path, backend: &str, query: &Query) -> String {
    let folder = folder.display();
    let Query { rows, keys, time, select } = query;
    format!(
        "SET 'state.backend.type' = '{backend}';
         SET 'taskmanager.memory.managed.size' = '16mb';
         SET 'io.tmp.dirs' = '{folder}/tmp';
         CREATE TABLE numbers (
           n BIGINT, id AS MOD(n * 2654435761, {keys}), ts AS TO_TIMESTAMP_LTZ({time}, 3), v AS MOD(n, 1000),
           s AS LPAD(CAST(MOD(n * 31, 97) AS STRING), 60, '-'), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
         ) WITH ('connector' = 'datagen', 'rows-per-second' = '100000000',
           'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{}');
         CREATE TABLE totals (id BIGINT, w TIMESTAMP(3), c BIGINT, s BIGINT, m STRING)
         WITH ('connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'csv');
         INSERT INTO totals {select};",
        rows - 1
    )
}

/// A job in a folder of its own.
struct Job {
    folder: tempfile::TempDir,
    script: PathBuf,
}

impl Job {
    fn new(backend: &str, query: &Query, settings: &str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let settings = settings.replace("{folder}", &folder.path().display().to_string());
        let path = folder.path().join("job.sql");
        std::fs::write(&path, settings + &script(folder.path(), backend, query)).unwrap();
        Job { folder, script: path }
    }

    /// All files below a folder of the job.
    fn files(&self, below: &str) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.folder.path().join(below)]);
        while let Some(folder) = folders.pop() {
            // What is read here may be deleted meanwhile.
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(ty) if ty.is_dir() => folders.push(entry.path()),
                    _ => files.push(entry.path()),
                }
            }
        }
        files
    }

    /// The newest checkpoint.
    fn latest(&self) -> Option<PathBuf> {
        let metadata = self.files("checkpoints").into_iter().filter(|file| file.ends_with("_metadata"));
        let written = |file: &PathBuf| std::fs::metadata(file).and_then(|m| m.modified()).ok();
        metadata.max_by_key(written).and_then(|file| file.parent().map(Path::to_path_buf))
    }

    fn start(&self, parallelism: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg("-q").arg(&self.script).args(["-p", parallelism]);
        if let Some(latest) = self.latest() {
            command.arg("-s").arg(latest);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs to the end.
    fn finish(&self, parallelism: &str) {
        let latest = self.latest();
        let mut arguments = vec!["run", "-q", self.script.to_str().unwrap(), "-p", parallelism];
        if let Some(latest) = &latest {
            arguments.extend(["-s", latest.to_str().unwrap()]);
        }
        let ran = tidegate(&arguments, LIMIT);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }

    /// The rows of all finished files.
    fn rows(&self) -> Vec<String> {
        let is_hidden = |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let files = self.files("out").into_iter().filter(|file| !is_hidden(file));
        let text = files.map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort();
        rows
    }
}

/// Waits until `holds`; fails the test if it takes too long.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn same_rows(query: &Query) {
    let memory = Job::new("hashmap", query, "");
    memory.finish("1");
    let expected = memory.rows();
    assert!(expected.len() > 100_000, "{} rows", expected.len());

    let disk = Job::new("rocksdb", query, "");
    let mut process = disk.start("1");
    let mut has_left_memory = false;
    wait_until("the job ends", || {
        has_left_memory |= disk.files("tmp").iter().any(|file| file.extension().is_some_and(|e| e == "run"));
        process.try_wait().unwrap().is_some()
    });
    assert!(process.wait().unwrap().success());
    assert!(has_left_memory, "no state was written to disk");
    assert!(disk.rows() == expected, "rows with state on disk differ");

    let checkpoints = "SET 'execution.checkpointing.interval' = '100ms';
         SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
         SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';\n";
    let killed = Job::new("rocksdb", query, checkpoints);
    for kill in 0..KILLS {
        let before = killed.latest();
        let mut process = killed.start(["1", "2"][kill % 2]);
        let mut is_over = false;
        wait_until("a checkpoint is complete", || {
            is_over = process.try_wait().unwrap().is_some();
            is_over || killed.latest() != before
        });
        assert!(!is_over, "the job ended before it was killed");
        process.kill().unwrap();
        process.wait().unwrap();
    }
    killed.finish("2");
    assert!(killed.rows() == expected, "rows differ after {KILLS} kills");
}

#[test]
fn tumbling_windows() {
    same_rows(&totals("TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '100' SECOND)"));
}

#[test]
fn hopping_windows() {
    same_rows(&totals("HOP(TABLE numbers, DESCRIPTOR(ts), INTERVAL '50' SECOND, INTERVAL '100' SECOND)"));
}

#[test]
fn cumulating_windows() {
    same_rows(&totals("CUMULATE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '50' SECOND, INTERVAL '100' SECOND)"));
}

#[test]
fn session_windows() {
    same_rows(&sessions(
        800_000,
        "SELECT id, window_start, COUNT(*), SUM(v), MAX(s) FROM TABLE({sessions}) GROUP BY id, window_start, window_end",
    ));
}

#[test]
fn rows_of_sessions() {
    same_rows(&sessions(400_000, "SELECT id, window_start, n, v, s FROM TABLE({sessions})"));
}

/// Each row meets the one with its key that comes 60 seconds later; the last ones meet nobody.
#[test]
fn interval_joins() {
    let select = "SELECT a.id, CAST(a.ts AS TIMESTAMP(3)), a.n, b.v, b.s FROM numbers a LEFT JOIN numbers b
         ON a.id = b.id AND b.ts BETWEEN a.ts + INTERVAL '1' SECOND AND a.ts + INTERVAL '100' SECOND";
    same_rows(&Query { rows: 200_000, keys: 60_000, time: "n", select: select.to_owned() });
}
