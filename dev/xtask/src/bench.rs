//! `cargo xtask bench`: the measurements behind `docs/benchmarks.md`.
//!
//! Everything is compared by CPU time within one run on one machine; only ratios go into the docs.

use std::process::Command;

use crate::step;

/// Runs the benchmarks named (`tidegate,datafusion,flink,late,batch,start,kafka`), or all.
pub fn bench(names: &[String]) -> Result<(), String> {
    step::run("release build", step::cargo().args(["build", "--release", "--quiet", "-p", "tidegate-cli"]))?;
    let folder = step::target_dir().join("bench");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let venv = folder.join("venv");
    if !venv.join("bin/python").exists() {
        step::run("python environment", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "datafusion", "apache-flink-libraries==2.3.0"]);
        step::run("datafusion and Flink", &mut pip)?;
    }
    let only: Vec<&str> = names.iter().map(String::as_str).filter(|n| *n != "kafka").collect();
    if names.is_empty() || !only.is_empty() {
        let mut driver = Command::new("python3");
        driver.arg(step::root().join("dev/bench/bench.py"));
        driver.arg("--tidegate").arg(step::target_dir().join("release/tidegate")).arg("--folder").arg(&folder);
        driver.args(["--only", &only.join(",")]);
        step::run("clicks", &mut driver)?;
    }
    if names.is_empty() || names.iter().any(|n| n == "kafka") {
        let mut kafka = step::cargo();
        kafka.args(["run", "--release", "--quiet", "-p", "tidegate-testing", "--bin", "kafka_bench", "--"]);
        kafka.arg(step::target_dir().join("release/tidegate")).arg(&folder);
        step::run("clicks from Kafka", &mut kafka)?;
    }
    Ok(())
}
