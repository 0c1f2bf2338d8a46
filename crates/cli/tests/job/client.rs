//! Jobs in the SQL client: SHOW JOBS, STOP JOB with and without a savepoint, going on by SET.

use std::time::Duration;

use crate::common::{Finished, binary, tidegate};
use crate::rig::{LIMIT, Process, broker, kafka_table, local, often, send};

/// Runs statements in the client.
fn client(statements: &str, arguments: &[&str]) -> Finished {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("statements.sql");
    std::fs::write(&file, statements).expect("a file");
    let mut all = vec!["sql", "-f", file.to_str().expect("text")];
    all.extend(arguments);
    tidegate(&all, Duration::from_secs(60))
}

/// The value of a table of one column and one row.
fn single_value<'a>(printed: &'a str, column: &str) -> &'a str {
    let mut lines = printed.lines().skip_while(|line| !line.contains(column));
    let row = lines.nth(2).unwrap_or_else(|| panic!("no table of {column} in: {printed}"));
    row.trim_matches(['|', ' '])
}

#[test]
fn a_job_of_a_cluster_is_stopped_with_a_savepoint_and_goes_on() {
    let (cluster, topic) = (Process::standalone(&[]), broker().new_topic("client", 1));
    let folder = cluster.path("savepoints");
    let tables = often(cluster.folder.path())
        + &kafka_table("b", "f1 BIGINT", &topic)
        + "CREATE TABLE o (n BIGINT) WITH ('connector' = 'print');";
    let insert = format!("{tables} INSERT INTO o SELECT COUNT(*) FROM b;");
    send(&topic, 0..5);
    let at = ["--endpoint", cluster.address.as_str()];
    let submitted = client(&insert, &at);
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);
    let job = submitted.stdout.lines().find_map(|line| line.strip_prefix("Job ID: ")).expect("an id");
    assert!(cluster.process.wait_line(LIMIT, |line| line.ends_with("[5]")).is_some());

    let shown = client("SHOW JOBS;", &at).stdout;
    assert!(shown.contains("job id") && shown.contains(job) && shown.contains("RUNNING"), "{shown}");
    let drain = client(&format!("STOP JOB '{job}' WITH DRAIN;"), &at);
    assert_eq!(drain.code, Some(2));
    assert!(drain.stderr.contains("WITH DRAIN could only be used after WITH SAVEPOINT."), "{}", drain.stderr);
    let nowhere = client(&format!("STOP JOB '{job}' WITH SAVEPOINT;"), &at);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.contains("[execution.checkpointing.savepoint-dir] is not set"), "{}", nowhere.stderr);
    let dir = format!("SET 'execution.checkpointing.savepoint-dir' = '{}';", folder.display());
    let stopped = client(&format!("{dir} STOP JOB '{job}' WITH SAVEPOINT;"), &at);
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    let path = single_value(&stopped.stdout, "savepoint path");
    assert!(local(path).join("_metadata").exists(), "{path}");
    assert_eq!(cluster.state(job), "FINISHED");

    send(&topic, 5..8);
    // The key of Flink 1 is understood too.
    for (key, more) in [("execution.state-recovery.path", 8), ("execution.savepoint.path", 8)] {
        let lines = cluster.process.lines().len();
        let again = client(&format!("SET '{key}' = '{path}'; {insert}"), &at);
        let job = again.stdout.lines().find_map(|line| line.strip_prefix("Job ID: ")).expect("an id");
        let counted = tidegate_testing::wait_for(LIMIT, || {
            let printed = cluster.process.lines();
            printed[lines..]
                .iter()
                .any(|line| line.ends_with(&format!("[{more}]")))
                .then_some(printed[lines..].to_vec())
        });
        let counted = counted.unwrap_or_else(|| panic!("{:?}", cluster.process.lines()));
        assert!(!counted.iter().any(|line| line.ends_with("[1]")), "it begins at 5: {counted:?}");
        let drained = client(&format!("{dir} STOP JOB '{job}' WITH SAVEPOINT WITH DRAIN;"), &at);
        assert_eq!(drained.code, Some(0), "{}", drained.stderr);
        assert!(local(single_value(&drained.stdout, "savepoint path")).join("_metadata").exists());
    }
}

#[test]
fn a_job_of_the_client_itself_is_stopped() {
    // The id of a job is not known before it runs, so the statements come one after the other.
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Command::new(binary())
        .arg("sql")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the binary starts");
    let mut input = client.stdin.take().expect("piped");
    let mut printed = BufReader::new(client.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let script = often(folder.path())
        + &format!("SET 'execution.checkpointing.savepoint-dir' = '{}';", folder.path().join("savepoints").display())
        + "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
           CREATE TABLE o (n BIGINT) WITH ('connector' = 'blackhole');
           INSERT INTO o SELECT COUNT(*) FROM n;\n";
    for mode in ["", " WITH SAVEPOINT", " WITH SAVEPOINT WITH DRAIN"] {
        let script = if mode.is_empty() { script.as_str() } else { "INSERT INTO o SELECT COUNT(*) FROM n;\n" };
        input.write_all(script.as_bytes()).expect("it reads");
        let job = printed.find_map(|line| line.strip_prefix("Job ID: ").map(str::to_owned)).expect("an id");
        // It need not run yet: the statement waits until it can be done.
        input.write_all(format!("STOP JOB '{job}'{mode};\n").as_bytes()).expect("it reads");
        match mode {
            "" => assert!(printed.any(|line| line == "[INFO] Execute statement succeeded.")),
            _ => {
                let path = printed.find(|line| line.contains("file:")).expect("a path");
                let path = path.trim_matches(['|', ' ']);
                assert!(local(path).join("_metadata").exists(), "{path}");
            }
        }
    }
    drop(input);
    assert!(printed.all(|line| !line.contains("[ERROR]")));
    assert_eq!(client.wait().expect("it ends").code(), Some(0));
}
