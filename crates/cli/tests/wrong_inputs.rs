//! What a user types wrong: one clear message and the right exit code, never a panic or a stack trace.

mod common;

use std::time::Duration;

use common::{run_sql, tidegate};

const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn fails(script: &str, code: i32, words: &[&str]) {
    let ran = run_sql(script, &[], LIMIT);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    // Warnings may come before it.
    assert!(ran.stderr.lines().any(|line| line.starts_with("error:")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "no '{word}' in: {}", ran.stderr);
    }
}

const SINK: &str = "CREATE TABLE o (id INT) WITH ('connector' = 'print');\n";

fn from_file(path: &str, more: &str) -> String {
    format!(
        "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json'{more});\n\
         {SINK}INSERT INTO o SELECT id FROM t;"
    )
}

#[test]
fn a_script_that_is_not_there() {
    let ran = tidegate(&["run", "no/such/script.sql"], LIMIT);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no/such/script.sql"), "{}", ran.stderr);
}

#[test]
fn a_syntax_error_is_found_before_anything_runs() {
    let script = format!("{SINK}INSERT INTO o VALUES (1);\nSELECT FROM WHERE;");
    let ran = run_sql(&script, &[], LIMIT);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 3, column 8"), "{}", ran.stderr);
}

#[test]
fn an_unfinished_string_says_where_it_began() {
    fails("SELECT 'abc;\n", 2, &["line 1"]);
}

#[test]
fn an_unknown_option_lists_the_known_ones() {
    fails(&from_file("x.json", ", 'colour' = 'red'"), 2, &["colour", "Supported options", "source.monitor-interval"]);
}

#[test]
fn a_file_that_is_not_there() {
    fails(&from_file("/no/such/rows.json", ""), 1, &["/no/such/rows.json"]);
}

#[test]
fn a_bad_record_is_named_by_file_line_and_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.json");
    std::fs::write(&path, "{\"id\":1}\n{\"id\":\"one\"}\n").expect("data");
    fails(&from_file(&path.to_string_lossy(), ""), 1, &["rows.json", "line 2", "id"]);
}

#[test]
fn an_unreachable_broker_is_named() {
    let script = format!(
        "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = '127.0.0.1:1',
           'scan.startup.mode' = 'earliest-offset', 'format' = 'json');\n{SINK}INSERT INTO o SELECT id FROM t;"
    );
    fails(&script, 1, &["127.0.0.1:1"]);
}

#[test]
fn settings_are_checked() {
    let script = format!("SET 'parallelism.default' = 'many';\n{SINK}INSERT INTO o VALUES (1);");
    fails(&script, 2, &["parallelism.default", "many"]);
    let ran = tidegate(&["run", "-D", "nothing", "x.sql"], LIMIT);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn an_unsupported_clause_is_refused_by_name_and_place() {
    let script =
        format!("{SINK}INSERT INTO o SELECT a.x FROM (VALUES (1)) AS a (x)\nJOIN (VALUES (1)) AS b (y) ON a.x = b.y;");
    fails(&script, 2, &["JOIN", "not supported", "line 3, column 6"]);
}

#[test]
fn a_standalone_process_that_is_not_there() {
    let ran = tidegate(&["job", "list", "--endpoint", "http://127.0.0.1:1"], LIMIT);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("tidegate standalone"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let script = "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '200000');\n\
         CREATE TABLE o (id BIGINT) WITH ('connector' = 'print');\nINSERT INTO o SELECT id FROM n;";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.sql");
    std::fs::write(&file, script).expect("a script");
    let piped = format!("{} run --quiet {} | head -n 1", env!("CARGO_BIN_EXE_tidegate"), file.display());
    let ran = std::process::Command::new("sh").args(["-c", &piped]).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 1);
    assert!(!String::from_utf8_lossy(&ran.stderr).contains("panicked"), "{ran:?}");
}

#[test]
fn settings_of_results_are_checked() {
    for (key, value) in [
        ("table.display.max-column-width", "0"),
        ("table.display.max-column-width", "wide"),
        ("sql-client.display.max-column-width", "-1"),
    ] {
        fails(&format!("SET '{key}' = '{value}';\nSELECT 1;"), 2, &["max-column-width"]);
    }
}
