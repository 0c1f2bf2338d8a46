//! How the binary talks as a client and as a process: Flink's client messages, signals, closed streams.

#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

mod common;

use std::io::{BufRead, BufReader, Write};
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

/// Runs `tidegate sql` with these arguments and this standard input.
fn piped(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("sql")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn statements_are_read_from_standard_input_without_a_prompt() {
    let (code, out, err) = piped(&[], "SHOW CURRENT\nCATALOG; SELECT 1 AS a;\nSHOW JOBS");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("+----------------------+\n| current catalog name |"), "{out}");
    assert!(out.contains("Received a total of 1 row\n") && out.contains("| FINISHED |"), "{out}");
    assert_eq!(piped(&[], ""), (Some(0), String::new(), String::new()));
}

#[test]
fn the_first_error_of_standard_input_ends_it_with_its_code() {
    let (code, out, err) = piped(&[], "SHOW CATALOGS;\nSELECT\n nope;\nSHOW DATABASES;\n");
    assert_eq!(code, Some(2), "{err}");
    assert!(out.contains("default_catalog") && !out.contains("default_database"), "{out}");
    assert!(err.starts_with("error:") && err.contains("line 3, column 2"), "{err}");
    let (code, _, err) = piped(&[], "SELECT 'abc;\n");
    assert_eq!(code, Some(2));
    assert!(err.contains("string that starts at line 1, column 8"), "{err}");
    let (code, out, _) = piped(&[], "QUIT;\nSHOW CATALOGS;\n");
    assert_eq!((code, out.as_str()), (Some(0), ""));
}

#[test]
fn a_script_may_list_and_stop_jobs() {
    let script = format!(
        "{ENDLESS}CREATE TABLE b (id BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO b SELECT id FROM n;\nSHOW JOBS;\n"
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("sql")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    input.write_all(script.as_bytes()).expect("it reads");
    let id = lines.find_map(|line| line.strip_prefix("Job ID: ").map(str::to_owned)).expect("a job id");
    // A job that was just submitted may not run yet.
    let row = loop {
        let row = lines.find(|line| line.contains(&id)).expect("the job's row");
        if !row.contains("CREATED") {
            break row;
        }
        writeln!(input, "SHOW JOBS;").expect("it reads");
    };
    assert!(row.contains("insert-into_default_catalog.default_database.b") && row.contains("RUNNING"), "{row}");
    writeln!(input, "STOP JOB '{id}';").expect("it reads");
    drop(input);
    // It ended as it was told to.
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn an_init_file_sets_the_session_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let init = folder.path().join("init.sql");
    let init_text = init.to_string_lossy().into_owned();
    let with = |text: &str, input: &str| {
        std::fs::write(&init, text).expect("a file");
        piped(&["-i", &init_text], input)
    };
    let setup = "CREATE VIEW v AS SELECT 1 AS a;\nSET 'pipeline.name' = 'mine';\nCREATE DATABASE d;\n";
    let (code, out, err) = with(setup, "SHOW VIEWS;\nSELECT * FROM v;\nDESCRIBE JOB 'x';\n");
    assert_eq!(code, Some(2), "{err}");
    assert!(out.contains("|         v |") && out.contains("| +I |           1 |"), "{out}");
    assert!(err.contains("There is no job 'x'"), "{err}");
    for wrong in [
        "SELECT 1;",
        "INSERT INTO v SELECT 1;",
        "SHOW TABLES;",
        "CREATE TABLE t WITH ('connector'='print') AS SELECT 1 AS a;",
    ] {
        let (code, out, err) = with(&format!("CREATE VIEW v AS SELECT 1 AS a;\n{wrong}"), "SHOW VIEWS;");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{wrong}");
        assert!(err.contains("Unsupported operation in sql init file at line 2, column 1"), "{err}");
    }
    let (code, _, err) = piped(&["-i", "no/such/file.sql"], "SHOW VIEWS;");
    assert_eq!(code, Some(2));
    assert!(err.contains("no/such/file.sql"), "{err}");
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
