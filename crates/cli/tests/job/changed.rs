//! A script that changed goes on from what the old one left, or is refused before anything stops.

use tidegate_testing::wait_for;

use crate::common::{Finished, run_sql};
use crate::rig::{LIMIT, PROMPT, Process, broker, expect_lines, kafka_table, lines, often, row, send};

fn dry_run(script: &str, snapshot: &str) -> Finished {
    run_sql(script, &["--dry-run", "-s", snapshot], LIMIT)
}

/// P54: what a job has counted is there after a clean stop, also before the first checkpoint.
#[test]
fn a_job_stopped_before_its_first_checkpoint_forgets_nothing() {
    let topic = broker().new_topic("p54", 1);
    let script = kafka_table("t", "x DOUBLE", &topic)
        + "CREATE TABLE o (lo DOUBLE, hi DOUBLE, n BIGINT) WITH ('connector' = 'print');
           INSERT INTO o SELECT MIN(x), MAX(x), COUNT(*) FROM t;";
    let folder = tempfile::tempdir().expect("a folder");
    let setting = format!("execution.checkpointing.savepoint-dir={}", folder.path().display());
    let number = |x: &f64| format!("{{\"x\": {x}}}");
    let put = |numbers: &[f64]| {
        let texts: Vec<String> = numbers.iter().map(number).collect();
        broker().send(&topic, 0, &texts.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
    };
    put(&[1.1, 2.1, 3.1, 4.1, 5.1, 6.1, 3.1, 4.1]);
    let mut first = Process::run(&script, &["-D", &setting]);
    let job = first.only_job();
    assert!(first.process.wait_line(LIMIT, |line| line.ends_with("[1.1, 6.1, 8]")).is_some());
    let path = first.savepoint(&["stop", &job]);
    let ended = first.process.wait_exit(LIMIT).expect("the script is over");
    assert!(ended.success(), "{}", first.process.errors());

    put(&[10.0, 11.0, 12.0]);
    let second = Process::run(&script, &["-D", &setting, "-s", &path]);
    let last = second.process.wait_line(LIMIT, |line| line.ends_with("[1.1, 12.0, 11]"));
    assert!(last.is_some(), "{:?} {}", second.process.lines(), second.process.errors());
    let again = second
        .process
        .lines()
        .iter()
        .any(|line| line.ends_with(", 1]") || line.ends_with(", 8]") && line.starts_with("+I"));
    assert!(!again, "nothing is counted from the beginning: {:?}", second.process.lines());
}

/// P55: another input is added, the old one goes on where it was, nothing is written twice.
#[test]
fn a_query_with_another_input_goes_on_from_the_old_ones_savepoint() {
    let (b, c) = (broker().new_topic("b", 1), broker().new_topic("c", 1));
    let cluster = Process::standalone(&[]);
    let out = cluster.path("a");
    let tables = often(cluster.folder.path())
        + &kafka_table("b", "f1 BIGINT", &b)
        + &kafka_table("c", "f1 BIGINT", &c)
        + &format!(
            "CREATE TABLE a (f1 BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', {PROMPT});\n",
            out.display()
        );
    let before = format!("{tables} INSERT INTO a SELECT f1 FROM b;");
    let after = format!("{tables} INSERT INTO a SELECT f1 FROM b UNION ALL SELECT f1 FROM c;");
    send(&b, 0..50);
    let job = cluster.submit(&before, &[]);
    expect_lines(&out, (0..50).map(row));
    let folder = cluster.path("savepoints");
    let path = cluster.savepoint(&["stop", &job, "--savepoint-dir", folder.to_str().expect("text")]);
    send(&b, 50..60);
    send(&c, 1000..1005);

    let plan = dry_run(&after, &path);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let mut said: Vec<&str> = plan.stdout.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["sink(a): kept", "source(b): kept", "source(c): new"]);
    assert_eq!(lines(&out).len(), 50, "a dry run starts nothing");

    let job = cluster.submit(&after, &["-s", &path]);
    let wanted = || (0..60).chain(1000..1005).map(row);
    expect_lines(&out, wanted());
    cluster.savepoint(&["stop", &job, "--savepoint-dir", folder.to_str().expect("text")]);
    expect_lines(&out, wanted());

    // The other way the state of c would be lost, which must be allowed.
    let path = cluster.savepoint_of_last(&folder);
    let back = dry_run(&before, &path);
    assert_eq!(back.code, Some(1));
    assert!(back.stdout.contains("source(c): dropped"), "{}", back.stdout);
    assert!(back.stderr.contains("allowNonRestoredState"), "{}", back.stderr);
    let allowed = run_sql(&before, &["--dry-run", "-s", &path, "-n"], LIMIT);
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
}

/// P55: an aggregate that means something else is refused by name while the old job still runs.
#[test]
fn a_changed_aggregate_is_refused_by_name_before_the_old_job_is_stopped() {
    let topic = broker().new_topic("agg", 1);
    let cluster = Process::standalone(&[]);
    let script = |aggregate: &str| {
        often(cluster.folder.path())
            + &kafka_table("b", "f1 BIGINT", &topic)
            + &format!(
                "CREATE TABLE sums (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
                 INSERT INTO sums SELECT f1 % 3, {aggregate} FROM b GROUP BY f1 % 3;"
            )
    };
    send(&topic, 0..50);
    let job = cluster.submit(&script("SUM(f1)"), &[]);
    cluster.wait_for_state(&job, "RUNNING");
    let latest = cluster.next_checkpoint(&job);

    let same = dry_run(&script("SUM(f1)"), &latest);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.contains("group_aggregate(sums): kept"), "{}", same.stdout);
    let changed = dry_run(&script("MAX(f1)"), &latest);
    assert_eq!(changed.code, Some(1), "{}", changed.stdout);
    let refused = changed.stdout.lines().find(|line| line.starts_with("group_aggregate(sums): refused: "));
    let refused = refused.unwrap_or_else(|| panic!("no refusal in: {}", changed.stdout));
    assert!(refused.contains("SUM") && refused.contains("MAX"), "{refused}");
    assert!(changed.stderr.contains("GroupAggregate") && changed.stderr.contains("does not fit"), "{}", changed.stderr);
    assert_eq!(cluster.state(&job), "RUNNING", "the old job is not touched");

    // Whoever starts it all the same is told the same, and nothing runs.
    let started = run_sql(&script("MAX(f1)"), &["-s", &latest], LIMIT);
    assert!(started.code.is_some_and(|code| code != 0), "{}", started.stdout);
    assert!(started.stderr.contains("GroupAggregate") && started.stderr.contains("MAX"), "{}", started.stderr);
}

#[test]
fn a_dry_run_wants_a_snapshot_and_a_job() {
    let select = run_sql("SELECT 1;", &["--dry-run"], LIMIT);
    assert_eq!(select.code, Some(2));
    assert!(select.stderr.contains("execution.state-recovery.path"), "{}", select.stderr);
    let nothing =
        run_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole');", &["--dry-run", "-s", "/x"], LIMIT);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.stderr.contains("starts no job"), "{}", nothing.stderr);
    let legacy = run_sql("SELECT 1;", &["-s", "/x", "--claim-mode", "LEGACY"], LIMIT);
    assert_eq!(legacy.code, Some(2));
    assert!(legacy.stderr.contains("NO_CLAIM or CLAIM"), "{}", legacy.stderr);
    let set = run_sql("SET 'execution.state-recovery.claim-mode' = 'LEGACY'; SELECT 1;", &[], LIMIT);
    assert_eq!(set.code, Some(2));
    assert!(set.stderr.contains("'LEGACY'") && set.stderr.contains("'NO_CLAIM'"), "{}", set.stderr);
}

impl Process {
    /// The savepoint that was taken last in a folder.
    fn savepoint_of_last(&self, folder: &std::path::Path) -> String {
        let newest = wait_for(LIMIT, || {
            let found = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
            let changed = |path: &std::path::PathBuf| path.join("_metadata").metadata().and_then(|m| m.modified()).ok();
            found.filter(|path| changed(path).is_some()).max_by_key(changed)
        });
        newest.expect("a savepoint").to_string_lossy().into_owned()
    }
}
