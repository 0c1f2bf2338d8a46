//! Runs every program of `tests/sql` through the binary and compares with what Flink printed:
//! plain, at another parallelism, and with one row a batch (the row-at-a-time meaning).

mod common;

use std::time::Duration;

use common::programs::{compare, compare_error, expected_error, final_rows, for_all, names_in, supported, text};
use common::{Finished, run_sql};

/// A program may take this long; they are tiny.
const LIMIT: Duration = Duration::from_secs(60);

fn run(name: &str, arguments: &[&str]) -> Finished {
    run_sql(&text(name), arguments, LIMIT)
}

fn check(name: &str, arguments: &[&str]) -> Result<(), String> {
    let ran = run(name, arguments);
    let Some(code) = ran.code else { return Err(format!("still running after {LIMIT:?}\n{}", ran.stderr)) };
    match expected_error(name) {
        Some(_) if code == 0 => Err("should fail but ended with 0".into()),
        Some(_) if code != 1 && code != 2 || ran.stderr.contains("panicked") => {
            Err(format!("exit code {code}: {}", ran.stderr.trim()))
        }
        Some(error) => compare_error(&error, &ran.stderr),
        None if code != 0 => Err(format!("exit code {code}: {}", ran.stderr.trim())),
        None => compare(name, &ran.stdout),
    }
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
