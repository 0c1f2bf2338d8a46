//! The interactive client on a real terminal: keys in, screen out.

#![cfg(unix)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidegate_testing::process::binary;
use tidegate_testing::tmux::Tmux;
use tidegate_testing::wait_for;

/// A terminal with the client at its prompt, and the folder it works in; `None` if there is no tmux.
fn client(width: u16, height: u16, before: &str) -> Option<(Tmux, tempfile::TempDir)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tmux = Tmux::start(width, height, folder.path())?;
    tmux.line(&start(before, folder.path()));
    tmux.wait("Tidegate SQL>");
    Some((tmux, folder))
}

/// The command that starts the client, after these settings of the environment.
fn start(before: &str, folder: &Path) -> String {
    let tidegate = binary(env!("CARGO_BIN_EXE_tidegate"));
    format!("clear; {before} {} sql --history {}/history", tidegate.display(), folder.display())
}

const NUMBERS: &str = "CREATE TABLE n (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '20', \
                       'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000');";

/// Waits for a prompt at which nothing is typed yet: keys that come between two statements may be lost.
#[track_caller]
fn prompt(tmux: &Tmux) {
    tmux.wait_until("an empty prompt", |screen| screen.lines().last() == Some("Tidegate SQL>"));
}

fn tableau(tmux: &Tmux) {
    tmux.line("SET 'sql-client.execution.result-mode' = 'tableau';");
    tmux.wait("[INFO] Execute statement succeeded.");
}

#[test]
fn statements_are_typed_at_a_prompt_and_quit_leaves() {
    let Some((tmux, _folder)) = client(100, 30, "") else { return };
    tableau(&tmux);
    tmux.line("SELECT 40 + 2 AS answer;");
    let screen = tmux.wait("Received a total of 1 row (");
    assert!(screen.contains("| +I |          42 |"), "{screen}");
    tmux.line("SHOW TABLES;");
    tmux.wait("Empty set");
    tmux.line("quit");
    tmux.wait("READY:");
}

#[test]
fn a_statement_may_take_several_lines_and_comes_back_from_the_history() {
    let Some((tmux, folder)) = client(100, 30, "") else { return };
    tableau(&tmux);
    tmux.line("SELECT 'a;b' AS x, -- ;");
    tmux.wait_until("a second line's prompt", |s| s.lines().last().is_some_and(|l| l.trim() == ">"));
    tmux.line("2 AS y;");
    tmux.wait("Received a total of 1 row");
    tmux.press(&["C-d"]);
    tmux.wait("READY:");
    tmux.line(&start("", folder.path()));
    tmux.wait("Tidegate SQL>");
    tmux.press(&["Up"]);
    tmux.wait_until("the statement again", |s| s.contains("SELECT 'a;b' AS x, -- ;") && s.contains("> 2 AS y;"));
}

#[test]
fn tab_completes_what_the_session_knows() {
    let Some((tmux, _folder)) = client(100, 30, "") else { return };
    tmux.line("CREATE TABLE clicks (user_id BIGINT, url STRING) WITH ('connector' = 'datagen');");
    tmux.wait("succeeded");
    tmux.press(&["C-l"]);
    prompt(&tmux);
    tmux.type_text("desc");
    tmux.press(&["Tab"]);
    tmux.wait("describe");
    tmux.press(&["C-u"]);
    prompt(&tmux);
    tmux.type_text("SELECT * FROM cli");
    tmux.press(&["Tab"]);
    tmux.wait("SELECT * FROM clicks");
    tmux.press(&["C-u"]);
    prompt(&tmux);
    // Two columns of the table that comes after the cursor: the menu shows both.
    tmux.type_text("SELECT  FROM clicks;");
    (0.." FROM clicks;".len()).for_each(|_| tmux.press(&["Left"]));
    tmux.press(&["Tab"]);
    tmux.wait_until("both columns", |s| s.contains("user_id") && s.contains("url") && s.contains("BIGINT"));
    tmux.press(&["Enter"]);
    tmux.wait_until("the first column", |s| s.lines().last() == Some("Tidegate SQL> SELECT user_id FROM clicks;"));
    tmux.press(&["C-c"]);
    prompt(&tmux);
    tmux.type_text("SET 'table.dml");
    tmux.press(&["Tab"]);
    tmux.wait("SET 'table.dml-sync'");
}

#[test]
fn keys_pressed_while_a_statement_runs_are_kept() {
    let Some((tmux, _folder)) = client(100, 40, "") else { return };
    // All at once: the later ones arrive while the earlier ones run.
    let lines = ["SHOW CATALOGS;", "SHOW DATABASES;", "SELECT 1 AS a;", "q", "SHOW CURRENT DATABASE;"];
    tmux.type_text(&lines.map(|line| format!("{line}\r")).join("").replace("q\r", "q"));
    let screen = tmux.wait("current database name");
    for answer in ["catalog name", "database name", "[INFO] "] {
        assert!(screen.contains(answer), "{screen}");
    }
    tmux.wait_until("the prompt", |s| s.contains("1 row in set") && s.lines().last() == Some("Tidegate SQL>"));
    tmux.line("quit;");
    tmux.wait("READY:");
    // The shell shows again what is typed.
    tmux.line("echo still here");
    tmux.wait_until("the shell", |s| s.matches("still here").count() == 2);
}

#[test]
fn a_history_that_cannot_be_written_is_said_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "").expect("a file");
    let Some(tmux) = Tmux::start(100, 24, folder.path()) else { return };
    tmux.line(&format!("clear; {} sql --history file/in/the/way", binary(env!("CARGO_BIN_EXE_tidegate")).display()));
    tmux.wait("Tidegate SQL>");
    tmux.line("SHOW CATALOGS;");
    let screen = tmux.wait("1 row in set");
    assert_eq!(screen.matches("[WARNING] No history is kept: 'file/in/the/way': ").count(), 1, "{screen}");
}

#[test]
fn a_terminal_that_goes_away_ends_the_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(tmux) = Tmux::start(80, 24, folder.path()) else { return };
    tmux.line(&format!(
        "sh -c 'echo $$ > pid; exec {}'",
        start("", folder.path()).trim_start_matches("clear; ").trim()
    ));
    tmux.wait("Tidegate SQL>");
    let pid = std::fs::read_to_string(folder.path().join("pid")).expect("the process has said its id");
    drop(tmux);
    let alive = || Command::new("kill").args(["-0", pid.trim()]).output().is_ok_and(|o| o.status.success());
    assert!(wait_for(Duration::from_secs(10), || (!alive()).then_some(())).is_some(), "process {pid} lives on");
}

#[test]
fn an_error_shows_its_place_and_the_session_goes_on() {
    let Some((tmux, _folder)) = client(100, 30, "") else { return };
    tmux.line("SELECT nope FROM (VALUES (1)) AS t (x);");
    let screen = tmux.wait("^^^^");
    assert!(screen.contains("[ERROR] Could not execute SQL statement. Reason:"), "{screen}");
    assert!(screen.contains("  1 | SELECT nope FROM (VALUES (1)) AS t (x);\n    |        ^^^^"), "{screen}");
    tmux.line("SELEC 1;");
    tmux.wait("Encountered \"SELEC\" at line 1, column 1.");
    tmux.line("SHOW CATALOGS;");
    tmux.wait("1 row in set");
}

#[test]
fn a_table_is_paged_and_fits_every_size() {
    let Some((tmux, _folder)) = client(100, 24, "") else { return };
    let values: Vec<String> = (1..=60).map(|i| format!("({i}, 'name {i}', 'a longer text of row {i}')")).collect();
    let folder = _folder.path().join("init.sql");
    let view = format!("CREATE VIEW v AS SELECT * FROM (VALUES {}) AS t (id, name, remark);", values.join(", "));
    std::fs::write(&folder, view).expect("a file");
    tmux.line("quit;");
    tmux.wait("READY:");
    tmux.line(&format!("{} -i {}", start("", _folder.path()), folder.display()));
    tmux.wait("Tidegate SQL>");
    tmux.line("SELECT * FROM v;");
    tmux.wait_until("the first page", |s| s.contains("rows 1-21 of 60") && s.contains("finished"));
    tmux.press(&["n"]);
    tmux.wait_until("the second page", |s| {
        s.contains("page 2 of 3") && s.contains("name 42") && !s.contains("name 21 ")
    });
    tmux.press(&["G"]);
    tmux.wait_until("the last page", |s| s.contains("last page") && s.contains("name 60"));
    tmux.press(&["g"]);
    tmux.wait("page 1 of 3");
    tmux.resize(30, 8);
    let narrow =
        tmux.wait_until("five rows", |s| s.contains("name 5") && !s.contains("name 6") && s.lines().count() == 8);
    assert!(narrow.lines().all(|l| l.chars().count() <= 30), "{narrow}");
    assert_eq!(narrow.lines().next(), Some(" Table | finished | rows 1-..."), "the last character is there");
    tmux.press(&["Right", "Right"]);
    tmux.wait("a longer text of row 5");
    tmux.resize(120, 40);
    tmux.wait("rows 1-37 of 60");
    tmux.press(&["Enter"]);
    tmux.wait_until("one row", |s| s.contains("Row 1 of 60") && s.contains("name 1") && !s.contains("name 2"));
    tmux.press(&["q"]);
    tmux.wait("rows 1-37 of 60");
    tmux.press(&["q"]);
    tmux.wait("[INFO] Received a total of 60 rows");
}

#[test]
fn a_changelog_shows_the_changes_and_a_table_what_they_make() {
    let Some((tmux, _folder)) = client(100, 24, "") else { return };
    let counts = "SELECT k, COUNT(*) AS c FROM (VALUES ('a'), ('b'), ('a')) AS t (k) GROUP BY k;";
    tmux.line(counts);
    tmux.wait_until("the counts", |s| s.contains("finished") && s.contains("rows 1-2 of 2") && s.contains("a  2"));
    tmux.press(&["q"]);
    tmux.wait("Received a total of 4 rows");
    tmux.line("SET 'sql-client.execution.result-mode' = 'changelog';");
    tmux.wait("succeeded");
    tmux.line(counts);
    let screen = tmux.wait_until("the changes", |s| s.contains("of 4") && s.contains("finished"));
    for change in ["+I  a  1", "-U  a  1", "+U  a  2", "+I  b  1"] {
        assert!(screen.contains(change), "no {change}: {screen}");
    }
}

#[test]
fn a_live_view_goes_on_until_it_is_left() {
    let Some((tmux, _folder)) = client(100, 24, "") else { return };
    tmux.line(NUMBERS);
    tmux.wait("succeeded");
    tmux.line("SELECT COUNT(*) AS c FROM n;");
    tmux.wait("refresh 1 s");
    tmux.press(&["-", "-"]);
    tmux.wait("refresh 100 ms");
    let count = |screen: &str| screen.lines().nth(2).and_then(|l| l.trim().parse::<u32>().ok());
    let first = count(&tmux.wait_until("a count", |s| count(s).is_some())).expect("a count");
    tmux.wait_until("a higher count", |s| count(s).is_some_and(|n| n > first));
    tmux.press(&["C-c"]);
    tmux.wait("[INFO] Result retrieval cancelled.");
    tmux.line("SHOW JOBS;");
    let jobs = tmux.wait("1 row in set");
    assert!(jobs.contains("CANCELED"), "{jobs}");
}

#[test]
fn ctrl_c_clears_a_line_and_cancels_a_query_but_not_the_session() {
    let Some((tmux, _folder)) = client(100, 30, "") else { return };
    tmux.line(NUMBERS);
    tmux.wait("succeeded");
    tableau(&tmux);
    tmux.type_text("SELECT 1 FROM nonsense");
    tmux.wait("nonsense");
    tmux.press(&["C-c"]);
    prompt(&tmux);
    tmux.line("SELECT id FROM n;");
    tmux.wait("| +I |");
    tmux.press(&["C-c"]);
    tmux.wait("Query terminated, received a total of");
    prompt(&tmux);
    tmux.press(&["C-d"]);
    tmux.wait("READY:");
}

#[test]
fn an_insert_runs_behind_the_prompt_until_it_is_stopped() {
    let Some((tmux, _folder)) = client(110, 40, "") else { return };
    tmux.line(NUMBERS);
    tmux.wait("succeeded");
    tmux.line("CREATE TABLE p (id BIGINT) WITH ('connector' = 'print');");
    tmux.line("INSERT INTO p SELECT id FROM n;");
    let screen = tmux.wait_until("rows above the prompt", |s| s.contains("Job ID: ") && s.contains("+I[3]"));
    let id = screen.lines().find_map(|l| l.strip_prefix("Job ID: ")).expect("a job id").to_owned();
    // Rows are printed above what is being typed, and never into it.
    tmux.type_text("SHOW JO");
    tmux.wait_until("a whole line", |s| s.lines().last() == Some("Tidegate SQL> SHOW JO"));
    let rows = |s: &str| s.lines().filter(|l| l.starts_with("+I[")).count();
    let before = rows(&tmux.screen());
    tmux.wait_until("more rows above it", |s| rows(s) > before && s.lines().last() == Some("Tidegate SQL> SHOW JO"));
    tmux.line("BS;");
    tmux.wait("RUNNING");
    // Nor do they tear a statement of several lines apart: they wait for its end.
    tmux.press(&["C-l"]);
    tmux.line("SHOW");
    tmux.type_text("CATALOGS");
    tmux.wait_until("two lines", |s| s.ends_with("> SHOW\n            > CATALOGS"));
    let whole = tmux.screen();
    let id_of = |s: &str| s.lines().filter_map(|l| l.strip_prefix("+I[")?.strip_suffix(']')?.parse::<u64>().ok()).max();
    let seen = id_of(&whole).unwrap_or(0);
    tmux.line(";");
    let after =
        tmux.wait_until("the rows that waited", |s| id_of(s).is_some_and(|id| id > seen) && s.contains("1 row in set"));
    assert!(after.contains("SQL> SHOW\n            > CATALOGS;\n"), "{after}");
    tmux.line(&format!("STOP JOB '{id}';"));
    tmux.wait_until("the end of it", |s| {
        s.matches("Execute statement succeeded").count() >= 1 && s.contains("STOP JOB")
    });
    tmux.line("SHOW JOBS;");
    tmux.wait("CANCELED");
    tmux.line("INSERT INTO p SELECT id FROM n;");
    tmux.wait_until("another job", |s| s.matches("Job ID: ").count() >= 1);
    tmux.line("exit;");
    let end = tmux.wait("READY:");
    assert!(end.contains("[INFO] Cancelling 1 job that still runs:"), "{end}");
}

#[test]
fn no_colour_means_none() {
    let coloured = |before: &str| {
        let (tmux, _folder) = client(100, 24, before)?;
        tmux.type_text("SELECT 'x'");
        tmux.wait("SELECT 'x'");
        Some(tmux.coloured_screen())
    };
    let (Some(with), Some(without)) = (coloured(""), coloured("NO_COLOR=1")) else { return };
    assert!(with.contains("\u{1b}["), "{with:?}");
    assert!(!without.contains("\u{1b}["), "{without:?}");
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let Some((tmux, _folder)) = client(100, 24, "TERM=dumb") else { return };
    tmux.line("SELECT");
    tmux.wait_until("a second prompt", |s| s.lines().last().is_some_and(|l| l.trim() == ">"));
    tmux.line("1 AS x;");
    tmux.wait("Received a total of 1 row");
    tmux.line("exit");
    tmux.wait("READY:");
}

#[test]
fn a_reader_that_goes_away_ends_the_session() {
    let Some((tmux, _folder)) = client(100, 24, "") else { return };
    tmux.line("quit;");
    tmux.wait("READY:");
    tmux.line(&format!("{{ {}; echo code $? >&2; }} | head -n 1", start("", _folder.path())));
    tmux.wait("Tidegate SQL>");
    tmux.line("SHOW CATALOGS;");
    tmux.wait("code 141");
    // The terminal is as it was: what is typed can be seen.
    tmux.line("echo still here");
    tmux.wait_until("the shell", |s| s.matches("still here").count() == 2);
}
