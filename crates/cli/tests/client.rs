//! How the binary talks as a client and as a process: Flink's client messages, signals, closed streams.

#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{run_sql, tidegate};

const LIMIT: Duration = Duration::from_secs(60);
const ENDLESS: &str = "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');\n";

#[test]
fn sql_prints_the_messages_of_flinks_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.sql");
    let script = "SET 'table.dml-sync' = 'true';\nCREATE TABLE o (id INT) WITH ('connector' = 'print');\n\
                  INSERT INTO o VALUES (7);\nSHOW TABLES;\nSELECT 1 AS a;\n";
    std::fs::write(&file, script).expect("a script");
    let ran = tidegate(&["sql", "-f", &file.to_string_lossy()], LIMIT);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let id = ran.stdout.lines().find_map(|l| l.strip_prefix("Job ID: ")).expect("a job id").to_owned();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    let wanted = "\
[INFO] Execute statement succeeded.
[INFO] Execute statement succeeded.
[INFO] Submitting SQL update statement to the cluster...
[INFO] SQL update statement has been successfully submitted to the cluster:
Job ID: ID
+I[7]
[INFO] Complete execution of the SQL update statement.
+------------+
| table name |
+------------+
|          o |
+------------+
1 row in set
+----+-------------+
| op |           a |
+----+-------------+
| +I |           1 |
+----+-------------+
Received a total of 1 row
";
    // The row may come before the message.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ran.stdout.replace(&id, "ID")), sorted(wanted));
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    let ran = run_sql(
        "\u{feff}CREATE TABLE o (id INT)\r\nWITH ('connector' = 'print');\r\nINSERT INTO o VALUES (1);\r\n",
        &[],
        LIMIT,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "+I[1]\n"), "{}", ran.stderr);
}

#[test]
fn a_script_without_statements_is_said_to_be_one() {
    let ran = run_sql("-- nothing yet\n", &[], LIMIT);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.contains("has no statement"), "{}", ran.stderr);
    assert_eq!(run_sql("-- nothing yet\n", &["--quiet"], LIMIT).stderr, "");
}

#[test]
fn an_endpoint_is_an_address() {
    for endpoint in ["", "http://", "ftp://x", ":8081", "127.0.0.1:x", "http://x:70000"] {
        let ran = tidegate(&["job", "list", "--endpoint", endpoint], LIMIT);
        assert_eq!(ran.code, Some(2), "{endpoint}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: --endpoint takes"), "{}", ran.stderr);
    }
}

/// Sends the signal once the process has printed a row, and gives its exit code and standard output.
fn interrupted(script: &str, signal: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.sql");
    let rows = folder.path().join("rows");
    std::fs::write(&file, script).expect("a script");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("run")
        .arg(&file)
        .stdout(Stdio::from(std::fs::File::create(&rows).expect("a file")))
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    while !std::fs::read_to_string(&rows).is_ok_and(|text| text.contains("+I")) {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended before the first row");
        std::thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    let code = child.wait().expect("it ends").code();
    (code, std::fs::read_to_string(&rows).expect("the rows"))
}

#[test]
fn signals_end_jobs_in_order() {
    let insert =
        format!("{ENDLESS}CREATE TABLE o (id BIGINT) WITH ('connector' = 'print');\nINSERT INTO o SELECT id FROM n;");
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (ended, rows) = interrupted(&insert, signal);
        assert_eq!(ended, Some(code));
        assert!(rows.ends_with("]\n"), "a row is cut: {rows}");
    }
    let (ended, rows) = interrupted(&format!("{ENDLESS}SELECT * FROM n;"), "-INT");
    assert_eq!(ended, Some(130));
    assert!(rows.lines().last().is_some_and(|l| l.starts_with("Query terminated, received a total of")), "{rows}");
}

#[test]
fn a_reader_that_goes_away_ends_even_an_endless_query() {
    for script in [
        format!("{ENDLESS}SELECT * FROM n;"),
        format!("{ENDLESS}CREATE TABLE o (id BIGINT) WITH ('connector' = 'print');\nINSERT INTO o SELECT id FROM n;"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("s.sql");
        std::fs::write(&file, script).expect("a script");
        let piped =
            format!("{{ {} run {}; echo $? >&2; }} | head -n 1", env!("CARGO_BIN_EXE_tidegate"), file.display());
        let ran = Command::new("sh").args(["-c", &piped]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "141\n");
    }
}
