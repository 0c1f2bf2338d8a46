//! Runs the binary on a script and collects what it says.
#![allow(dead_code)] // Each test file uses what it needs.

pub mod programs;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A finished run.
pub struct Finished {
    /// Exit code; `None` if it was still running at the limit and was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `tidegate run` on the script text.
pub fn run_sql(script: &str, arguments: &[&str], limit: Duration) -> Finished {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).expect("a script file");
    let mut all = vec!["run", file.to_str().expect("a UTF-8 path")];
    all.extend(arguments);
    tidegate(&all, limit)
}

/// The binary to test.
pub fn binary() -> std::path::PathBuf {
    tidegate_testing::process::binary(env!("CARGO_BIN_EXE_tidegate"))
}

/// Runs the binary with these arguments.
#[allow(clippy::disallowed_methods)] // A test of a real process waits in real time.
pub fn tidegate(arguments: &[&str], limit: Duration) -> Finished {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut out = child.stdout.take().expect("piped");
    let mut err = child.stderr.take().expect("piped");
    let stdout = std::thread::spawn(move || read_all(&mut out));
    let stderr = std::thread::spawn(move || read_all(&mut err));
    let deadline = Instant::now() + limit;
    let code = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break Some(status.code().unwrap_or(-1));
        }
        if Instant::now() > deadline {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child ends");
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Finished { code, stdout: stdout.join().expect("a reader"), stderr: stderr.join().expect("a reader") }
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("a pipe can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
