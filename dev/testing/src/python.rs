//! Python programs with packages of their own.

use std::path::PathBuf;
use std::process::Command;

use crate::target_dir;

/// A Python that can import `module`, which `package` brings; made once per target folder, in `folder` there.
pub fn with(folder: &str, package: &str, module: &str) -> Result<PathBuf, String> {
    let venv = target_dir().join(folder);
    let python = venv.join("bin/python");
    let import = format!("import {module}");
    let usable = || Command::new(&python).args(["-c", &import]).output().is_ok_and(|o| o.status.success());
    if usable() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    run(Command::new(&python).args(["-m", "pip", "install", "-q", "--disable-pip-version-check", package]))?;
    match usable() {
        true => Ok(python),
        false => Err(format!("{package} was installed but '{module}' cannot be imported")),
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
