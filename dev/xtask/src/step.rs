//! Running commands: say what runs, stop at the first that fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The workspace's root folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(PathBuf::from).unwrap_or(here)
}

/// Where build output goes.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `cargo`, in the root folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command and fails with its name if it does.
pub fn run(what: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("xtask: {what}");
    let status = command.status().map_err(|e| format!("{what}: cannot start {:?}: {e}", command.get_program()))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed ({status})")) }
}

/// Whether a command runs and exits with 0; prints nothing.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The standard output of a command.
pub fn output(command: &mut Command) -> Result<String, String> {
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        Err(format!("{:?} failed ({})", command.get_program(), out.status))
    }
}
