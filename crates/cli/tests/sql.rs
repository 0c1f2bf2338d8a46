//! Runs every program of `tests/sql` through the binary and compares with what Flink printed:
//! plain, at another parallelism, and with one row a batch (the row-at-a-time meaning).

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Finished, run_sql};

/// A program may take this long; they are tiny.
const LIMIT: Duration = Duration::from_secs(60);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql")
}

fn names_in(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_default();
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned).collect()
}

fn programs() -> Vec<String> {
    let mut names = Vec::new();
    for area in std::fs::read_dir(folder()).expect("tests/sql").flatten().filter(|e| e.path().is_dir()) {
        for file in std::fs::read_dir(area.path()).expect("an area").flatten() {
            if file.path().extension().is_some_and(|e| e == "sql") {
                let stem = file.path().file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
                names.push(format!("{}/{stem}", area.file_name().to_string_lossy()));
            }
        }
    }
    names.sort();
    assert!(names.len() > 200, "only {} programs found", names.len());
    names
}

/// Runs `check` over the programs on two threads and fails with all that went wrong.
fn for_all(names: &[String], check: impl Fn(&str) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let failures: Mutex<Vec<String>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = check(name) {
                        failures.lock().expect("no panic holds it").push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no panic holds it");
    failures.sort();
    assert!(failures.is_empty(), "{} of {} programs failed:\n{}", failures.len(), names.len(), failures.join("\n"));
}

fn run(name: &str, arguments: &[&str]) -> Finished {
    let text = std::fs::read_to_string(folder().join(format!("{name}.sql"))).expect("a program");
    let data = folder().join("data").canonicalize().expect("the data folder");
    run_sql(&text.replace("@DATA@", &data.to_string_lossy()), arguments, LIMIT)
}

/// Rows left after applying the printed changelog; a row taken back too often counts below zero.
fn final_rows(output: &str) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for line in output.lines() {
        let (prefix, change) = match line.find("> ") {
            Some(i) if !line[..i].contains(' ') && !line.starts_with(['+', '-']) => (&line[..i], &line[i + 2..]),
            _ => ("", line),
        };
        let sign = match change.get(..2) {
            Some("+I" | "+U") => 1,
            Some("-U" | "-D") => -1,
            _ => continue,
        };
        if !change[2..].starts_with('[') || !change.ends_with(']') {
            continue;
        }
        // The subtask number of a prefix depends on the parallelism.
        let name = if prefix.bytes().all(|b| b.is_ascii_digit()) {
            ""
        } else {
            match prefix.rsplit_once(':') {
                Some((name, n)) if n.bytes().all(|b| b.is_ascii_digit()) => name,
                _ => prefix,
            }
        };
        let key = if name.is_empty() { change[2..].to_owned() } else { format!("{name}> {}", &change[2..]) };
        *rows.entry(key).or_insert(0) += sign;
    }
    rows.retain(|_, n| *n != 0);
    rows
}

fn check(name: &str, arguments: &[&str]) -> Result<(), String> {
    let ran = run(name, arguments);
    let Some(code) = ran.code else { return Err(format!("still running after {LIMIT:?}\n{}", ran.stderr)) };
    if let Ok(error) = std::fs::read_to_string(folder().join(format!("{name}.error"))) {
        return check_error(&error, code, &ran);
    }
    if code != 0 {
        return Err(format!("exit code {code}: {}", ran.stderr.trim()));
    }
    let wanted = std::fs::read_to_string(folder().join(format!("{name}.final"))).map_err(|e| e.to_string())?;
    let mut missing: BTreeMap<String, i64> = BTreeMap::new();
    for line in wanted.lines().filter(|l| !l.is_empty()) {
        *missing.entry(line.to_owned()).or_insert(0) += 1;
    }
    for (row, n) in final_rows(&ran.stdout) {
        *missing.entry(row).or_insert(0) -= n;
    }
    let wrong: Vec<String> = missing
        .iter()
        .filter(|(_, n)| **n != 0)
        .map(|(row, n)| format!("    {} {row}", if *n > 0 { "missing" } else { "extra" }))
        .take(6)
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("rows differ\n{}", wrong.join("\n"))) }
}

fn check_error(error: &str, code: i32, ran: &Finished) -> Result<(), String> {
    if code == 0 {
        return Err("should fail but ended with 0".into());
    }
    if code != 1 && code != 2 || ran.stderr.contains("panicked") {
        return Err(format!("exit code {code}: {}", ran.stderr.trim()));
    }
    let keywords = error.lines().find_map(|l| l.strip_prefix("keywords:")).unwrap_or_default().to_lowercase();
    let said = ran.stderr.to_lowercase();
    let absent: Vec<&str> =
        keywords.split_whitespace().filter(|word| !word.split('|').any(|w| said.contains(w))).collect();
    if absent.is_empty() { Ok(()) } else { Err(format!("the message lacks {absent:?}: {}", ran.stderr.trim())) }
}

fn supported() -> Vec<String> {
    let refused = names_in("unsupported.txt");
    programs().into_iter().filter(|n| !refused.contains(n)).collect()
}

#[test]
fn programs_give_the_rows_flink_gives() {
    for_all(&supported(), |name| check(name, &[]));
}

#[test]
fn another_parallelism_gives_the_same_rows() {
    let skipped = names_in("order_dependent.txt");
    let names: Vec<String> = supported().into_iter().filter(|n| !skipped.contains(n)).collect();
    for_all(&names, |name| check(name, &["-p", "2"]));
}

#[test]
fn one_row_a_batch_gives_the_same_rows() {
    for_all(&supported(), |name| check(name, &["-D", "tidegate.source.batch-rows=1"]));
}

#[test]
fn unsupported_programs_are_refused_clearly() {
    let refused: Vec<String> = names_in("unsupported.txt").into_iter().collect();
    for_all(&refused, |name| {
        let ran = run(name, &[]);
        if ran.code != Some(2) {
            return Err(format!("exit code {:?}, wanted 2: {}", ran.code, ran.stderr.trim()));
        }
        if !final_rows(&ran.stdout).is_empty() {
            return Err("rows were printed before the refusal".into());
        }
        let place = ran.stderr.contains("line ") && ran.stderr.contains("column ");
        let named = ran.stderr.contains("not supported") || ran.stderr.contains("is not supported");
        if place || named { Ok(()) } else { Err(format!("no place in the message: {}", ran.stderr.trim())) }
    });
}
