//! `cargo xtask test`: everything that must hold, from a fresh clone.

use crate::step;

/// Builds, then runs every test; `filter` narrows the cargo tests by name.
pub fn test(filter: &[String]) -> Result<(), String> {
    // One build for all, so that the tests of one crate never wait for another's compiler.
    step::run("build", step::cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let mut tests = step::cargo();
    tests.args(["test", "--workspace", "--quiet", "--"]).args(filter);
    step::run("tests", &mut tests)
}
