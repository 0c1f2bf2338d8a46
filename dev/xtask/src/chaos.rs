//! `cargo xtask chaos`: jobs of real processes, killed for as long as one likes.

use std::process::Command;

use crate::step;

/// Builds the binary with its fail points, and lets the harness of `dev/testing` kill it.
pub fn chaos(options: &[String]) -> Result<(), String> {
    let packages = ["-p", "tidegate-cli", "-p", "tidegate-testing", "--bins"];
    step::run("build", step::cargo().args(["build", "--quiet"]).args(packages))?;
    let folder = step::target_dir().join("debug");
    let mut chaos = Command::new(folder.join("chaos"));
    chaos.arg(folder.join("tidegate")).args(options);
    step::run("chaos", &mut chaos)
}
