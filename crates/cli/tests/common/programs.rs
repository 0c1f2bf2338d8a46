//! The programs of `tests/sql` and the rules by which their output is compared with what Flink printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where they are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql")
}

/// The names in a list of programs.
pub fn names_in(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_default();
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned).collect()
}

/// All programs, as `area/name`.
pub fn programs() -> Vec<String> {
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

/// The programs that run.
pub fn supported() -> Vec<String> {
    let refused = names_in("unsupported.txt");
    programs().into_iter().filter(|n| !refused.contains(n)).collect()
}

/// A program's text, with its data found.
pub fn text(name: &str) -> String {
    let text = std::fs::read_to_string(folder().join(format!("{name}.sql"))).expect("a program");
    let data = folder().join("data").canonicalize().expect("the data folder");
    text.replace("@DATA@", &data.to_string_lossy())
}

/// Runs `check` over the programs on two threads and fails with all that went wrong.
pub fn for_all(names: &[String], check: impl Fn(&str) -> Result<(), String> + Sync) {
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

/// Rows left after applying the printed changelog; a row taken back too often counts below zero.
pub fn final_rows(output: &str) -> BTreeMap<String, i64> {
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

/// Compares what is left of the printed changelog with the rows Flink left.
pub fn compare(name: &str, output: &str) -> Result<(), String> {
    let wanted = std::fs::read_to_string(folder().join(format!("{name}.final"))).map_err(|e| e.to_string())?;
    let mut missing: BTreeMap<String, i64> = BTreeMap::new();
    for line in wanted.lines().filter(|l| !l.is_empty()) {
        *missing.entry(line.to_owned()).or_insert(0) += 1;
    }
    for (row, n) in final_rows(output) {
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

/// What the program must fail with, if it must.
pub fn expected_error(name: &str) -> Option<String> {
    std::fs::read_to_string(folder().join(format!("{name}.error"))).ok()
}

/// Compares a message with the words an error must have.
pub fn compare_error(error: &str, said: &str) -> Result<(), String> {
    let keywords = error.lines().find_map(|l| l.strip_prefix("keywords:")).unwrap_or_default().to_lowercase();
    let lower = said.to_lowercase();
    let absent: Vec<&str> =
        keywords.split_whitespace().filter(|word| !word.split('|').any(|w| lower.contains(w))).collect();
    if absent.is_empty() { Ok(()) } else { Err(format!("the message lacks {absent:?}: {}", said.trim())) }
}
