//! `cargo xtask test`: everything that must hold, from a fresh clone.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::step;

/// Builds, then runs every test; `filter` narrows the cargo tests by name. The last line sums up all
/// test programs in cargo's own words. A run without a single test fails.
pub fn test(filter: &[String]) -> Result<(), String> {
    // One build for all, so that the tests of one crate never wait for another's compiler.
    step::run("build", step::cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    eprintln!("xtask: tests");
    let mut tests = step::cargo();
    tests.args(["test", "--workspace", "--quiet", "--no-fail-fast", "--"]).args(filter).stdout(Stdio::piped());
    let mut child = tests.spawn().map_err(|e| format!("tests: cannot start cargo: {e}"))?;
    let mut total = Total::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|e| format!("tests: cannot read their output: {e}"))?;
            total.add(&line);
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("tests: {e}"))?;
    let verdict = match status.success() && total.failed == 0 {
        true if total.passed == 0 => Err("no test ran".to_owned()),
        true => Ok(()),
        false => Err(format!("tests failed ({status})")),
    };
    println!("\n{}", total.line(verdict.is_ok()));
    verdict
}

/// The sum of the `test result:` lines of all test programs.
#[derive(Debug, Default, PartialEq)]
struct Total {
    passed: u64,
    failed: u64,
    ignored: u64,
    measured: u64,
    filtered_out: u64,
    seconds: f64,
}

impl Total {
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let (_, counts) = counts.split_once(". ").unwrap_or_default();
        for part in counts.split("; ") {
            if let Some(seconds) = part.strip_prefix("finished in ").and_then(|s| s.strip_suffix('s')) {
                self.seconds += seconds.parse().unwrap_or(0.0);
                continue;
            }
            let (number, what) = part.split_once(' ').unwrap_or_default();
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                "measured" => self.measured += number,
                "filtered out" => self.filtered_out += number,
                _ => {}
            }
        }
    }

    fn line(&self, ok: bool) -> String {
        let Total { passed, failed, ignored, measured, filtered_out, seconds } = self;
        let verdict = if ok { "ok" } else { "FAILED" };
        format!(
            "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; {measured} measured; \
             {filtered_out} filtered out; finished in {seconds:.2}s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_programs_are_summed() {
        let mut total = Total::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 1.25s",
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
        ] {
            total.add(line);
        }
        let sum = "test result: FAILED. 7 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 1.75s";
        assert_eq!(total.line(false), sum);
        let mut again = Total::default();
        again.add(sum);
        assert_eq!(again, total);
    }
}
