//! The project's own commands: `cargo xtask test | ci | tidy | bench | chaos`.
//!
//! CI has one entry point, in the project's own language; what it runs is what a developer runs.

mod bench;
mod chaos;
mod step;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <command>

  test [FILTER]   build, then run every test: unit, property, SQL, real Kafka, the lab
  ci              fmt, tidy, clippy, doc, then test: what must pass before a change lands
  tidy            house rules: crate edges, file sizes, dead files, words
  bench [NAME]    the benchmarks behind docs/benchmarks.md (long; not part of ci)
  chaos [--kills 200] [--seed 1] [--minutes M] [--broker embedded|real] [--outages 1]
                  kills jobs, with a broker and a disk that fail, and counts every row (long; not part of ci)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or_default();
    let outcome = match args.first().map(String::as_str) {
        Some("test") => test::test(rest),
        Some("ci") => ci(),
        Some("tidy") => tidy::tidy(),
        Some("bench") => bench::bench(rest),
        Some("chaos") => chaos::chaos(rest),
        _ => {
            print!("{HELP}");
            return if args.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), String> {
    if step::succeeds(step::cargo().args(["fmt", "--version"])) {
        step::run("fmt", step::cargo().args(["fmt", "--all", "--check"]))?;
    } else {
        eprintln!("xtask: the toolchain has no rustfmt; skipped");
    }
    tidy::tidy()?;
    if step::succeeds(step::cargo().args(["clippy", "--version"])) {
        let mut clippy = step::cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--quiet", "--"]);
        clippy.args(["-D", "warnings", "-D", "clippy::too_many_lines"]);
        step::run("clippy", &mut clippy)?;
        // Nothing else builds it without its feature.
        let mut without = step::cargo();
        without.args(["clippy", "-p", "tidegate-checkpoint", "--all-targets", "--quiet", "--", "-D", "warnings"]);
        step::run("checkpoints without S3", &mut without)?;
    } else {
        eprintln!("xtask: the toolchain has no clippy; skipped");
    }
    let mut doc = step::cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    step::run("doc", &mut doc)?;
    test::test(&[])
}
