//! Files written by a process that is killed at random moments: a finished file never changes, at the end each row
//! is there once, and an announced partition is whole.
//!
//! `TIDEGATE_KILLS=100` kills it as often (5 times without it); `TIDEGATE_SEED` chooses the moments.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::run_sql;
use tidegate_testing::process::{Tidegate, binary};
use tidegate_testing::wait_for;

const LIMIT: Duration = Duration::from_secs(120);
/// One row a second of event time: 25 hours.
const ROWS: u64 = 90_000;
const HOUR: u64 = 3_600;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The next of numbers that look random (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// A job that writes each second into the folder of its hour, and announces an hour when it is over.
struct Folder {
    folder: tempfile::TempDir,
    /// Hashes of files that were finished.
    finished: BTreeMap<PathBuf, u64>,
}

impl Folder {
    fn new() -> Folder {
        Folder { folder: tempfile::tempdir().expect("a folder"), finished: BTreeMap::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, restore: Option<&Path>) -> String {
        let restore = restore.map_or(String::new(), |path| {
            format!("SET 'execution.state-recovery.path' = 'file://{}';\n", path.display())
        });
        format!(
            "SET 'table.local-time-zone' = 'UTC';\n\
             SET 'parallelism.default' = '2';\n\
             SET 'execution.checkpointing.interval' = '60 ms';\n\
             SET 'execution.checkpointing.dir' = 'file://{checkpoints}';\n\
             SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';\n\
             {restore}\
             CREATE TABLE ticks (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 0), WATERMARK FOR ts AS ts)\n\
             WITH ('connector' = 'datagen', 'rows-per-second' = '45000', 'fields.id.kind' = 'sequence',\n\
             'fields.id.start' = '0', 'fields.id.end' = '{last}');\n\
             CREATE TABLE hours (id BIGINT, dt STRING, h STRING) PARTITIONED BY (dt, h)\n\
             WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv',\n\
             'sink.rolling-policy.file-size' = '9 kb', 'sink.partition-commit.trigger' = 'partition-time',\n\
             'partition.time-extractor.timestamp-pattern' = '$dt $h:00:00', 'sink.partition-commit.delay' = '1 h',\n\
             'sink.partition-commit.policy.kind' = 'success-file');\n\
             INSERT INTO hours SELECT id, DATE_FORMAT(ts, 'yyyy-MM-dd'), DATE_FORMAT(ts, 'HH') FROM ticks;",
            checkpoints = self.path("checkpoints").display(),
            last = ROWS - 1,
            out = self.path("out").display(),
        )
    }

    /// The newest complete checkpoint, by its number.
    fn checkpoint(&self) -> Option<(u64, PathBuf)> {
        let jobs = fs::read_dir(self.path("checkpoints")).ok()?.flatten();
        let all = jobs.flat_map(|job| fs::read_dir(job.path()).into_iter().flatten().flatten()).filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("chk-")?.parse().ok()?;
            entry.path().join("_metadata").exists().then(|| (number, entry.path()))
        });
        all.max()
    }

    /// The numbers in each finished file, by its path; those that were finished before are as they were.
    fn check_finished(&mut self) -> BTreeMap<PathBuf, Vec<u64>> {
        let mut found = BTreeMap::new();
        for path in files(&self.path("out")) {
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_'])) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a finished file");
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let before = *self.finished.entry(path.clone()).or_insert(hasher.finish());
            assert_eq!(before, hasher.finish(), "{} has changed", path.display());
            assert!(text.ends_with('\n'), "{} has a torn line", path.display());
            found.insert(path, text.lines().map(|line| line.parse().expect("a number")).collect());
        }
        for path in self.finished.keys() {
            assert!(found.contains_key(path), "{} is gone", path.display());
        }
        found
    }

    /// No row twice or in another hour's folder, and all rows of an hour that is announced.
    fn check(&mut self) -> BTreeSet<u64> {
        let mut rows = BTreeSet::new();
        for (path, ids) in self.check_finished() {
            for id in ids {
                assert!(rows.insert(id), "{id} is there twice, once in {}", path.display());
                assert!(path.starts_with(self.hour(id / HOUR)), "{id} is in {}", path.display());
            }
        }
        for hour in (0..=ROWS / HOUR).filter(|hour| self.hour(*hour).join("_SUCCESS").exists()) {
            let of_hour = hour * HOUR..((hour + 1) * HOUR).min(ROWS);
            let missing: Vec<u64> = of_hour.filter(|id| !rows.contains(id)).collect();
            assert!(missing.is_empty(), "hour {hour} is announced without {missing:?}");
        }
        rows
    }

    fn hour(&self, hour: u64) -> PathBuf {
        self.path("out").join(format!("dt=1970-01-{:02}", 1 + hour / 24)).join(format!("h={:02}", hour % 24))
    }

    fn announced(&self) -> u64 {
        (0..=ROWS / HOUR).map(|hour| u64::from(self.hour(hour).join("_SUCCESS").exists())).sum()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the moment of a kill is a real time")]
fn no_kill_changes_a_finished_file_or_loses_a_row() {
    let (kills, seed) = (number("TIDEGATE_KILLS", 5), number("TIDEGATE_SEED", u64::from(std::process::id())));
    let (mut random_state, mut folder) = (seed, Folder::new());
    let mut goes_on_from = None;
    let mut kept = 0;
    for kill in 0..kills {
        let script = folder.path("job.sql");
        fs::write(&script, folder.script(goes_on_from.as_deref())).expect("a script");
        let arguments = ["run", script.to_str().expect("UTF-8")];
        let mut process = Tidegate::start(&binary(env!("CARGO_BIN_EXE_tidegate")), &arguments, folder.folder.path());
        let mut has_ended = || process.ended().is_some();
        let moved = wait_for(LIMIT, || folder.checkpoint().filter(|(number, _)| *number > kept || has_ended()));
        let (number, _) = moved.unwrap_or_else(|| panic!("seed {seed}, kill {kill}: {}", process.errors()));
        if process.ended().is_none() {
            std::thread::sleep(Duration::from_micros(random(&mut random_state) % 300_000));
        }
        drop(process);
        let (latest, path) = folder.checkpoint().expect("a checkpoint");
        assert!(latest >= number, "seed {seed}, kill {kill}");
        (kept, goes_on_from) = (latest, Some(path));
        folder.check();
    }
    let ran = run_sql(&folder.script(goes_on_from.as_deref()), &[], LIMIT);
    assert_eq!(ran.code, Some(0), "seed {seed}: {}", ran.stderr);
    let rows = folder.check();
    assert_eq!(rows.len() as u64, ROWS, "seed {seed}");
    assert_eq!(folder.announced(), ROWS / HOUR, "seed {seed}: all are announced at the end");
}

#[test]
fn a_bounded_job_without_checkpoints_finishes_and_announces_at_its_end() {
    let mut folder = Folder::new();
    let script = folder.script(None).replace("SET 'execution.checkpointing", "-- ");
    let ran = run_sql(&script, &[], LIMIT);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.check().len() as u64, ROWS);
    assert_eq!(folder.announced(), ROWS / HOUR);
    let left: Vec<PathBuf> = files(&folder.path("out"));
    let hidden = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    assert_eq!(left.iter().find(hidden), None);
}

#[test]
fn what_is_written_can_be_read_by_the_same_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let script = format!(
        "CREATE TABLE t (v INT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = '{}', \
         'format' = 'json', 'sink.partition-commit.policy.kind' = 'success-file');\n\
         CREATE TABLE o (v INT, dt STRING) WITH ('connector' = 'print');\n\
         INSERT INTO t VALUES (1, '2026/10'), (2, CAST(NULL AS STRING)), (3, '2026/10');\n\
         INSERT INTO o SELECT v, dt FROM t;",
        out.display()
    );
    let ran = run_sql(&script, &[], LIMIT);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["+I[1, 2026/10]", "+I[2, null]", "+I[3, 2026/10]"]);
    assert!(out.join("dt=2026%2F10/_SUCCESS").exists() && out.join("dt=__DEFAULT_PARTITION__/_SUCCESS").exists());
}

#[test]
fn a_file_in_the_place_of_the_folder_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    fs::write(&path, "mine").expect("a file");
    let script = format!(
        "CREATE TABLE t (v INT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');\n\
         INSERT INTO t VALUES (1);",
        path.display()
    );
    let ran = run_sql(&script, &[], LIMIT);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains(&*path.to_string_lossy()) && ran.stderr.contains("cannot be made"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&path).expect("it is left alone"), "mine");
}
