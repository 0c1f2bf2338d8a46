//! A folder, and a program working in it, that go when this process goes.
//!
//! They hang on a pipe: a shell reads it, and at its end kills the program and removes the folder. So
//! they are gone even after this process was killed, and one in a `static` leaks nothing.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder that holds this file stays when its shell ends.
const KEEP: &str = "keep";
const LOG: &str = "program.log";
const PID: &str = "pid";
/// `$1` is the folder, the rest the program and its arguments, if there is one.
const SCRIPT: &str = r#"
dir=$1; shift
if [ $# -gt 0 ]; then "$@" </dev/null & echo $! >"$dir/pid"; fi
cat >/dev/null
if [ -n "$!" ]; then kill -KILL $!; wait $! 2>/dev/null; fi
test -e "$dir/keep" || rm -rf "$dir"
"#;

/// A temporary folder and the program in it.
pub struct Leash {
    dir: PathBuf,
    shell: Option<Child>,
}

impl Leash {
    /// Makes a folder whose name begins with `prefix`; no program runs yet.
    pub fn new(prefix: &str) -> Result<Leash, String> {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().map_err(|e| e.to_string())?;
        // The shell removes it, after the program's death.
        let mut leash = Leash { dir: dir.keep(), shell: None };
        leash.run(&[])?;
        Ok(leash)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a program, in place of the one that may run; its output goes to a log in the folder.
    pub fn run(&mut self, command: &[OsString]) -> Result<(), String> {
        self.kill();
        let log = File::options().create(true).append(true).open(self.dir.join(LOG)).map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "leash"])
            .arg(&self.dir)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            // Not reached by the terminal's Ctrl-C: the pipe's end is what stops it.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start a shell: {e}"))?;
        self.shell = Some(shell);
        // From here on the shell is what removes the folder.
        let _ = fs::remove_file(self.dir.join(KEEP));
        Ok(())
    }

    /// Kills the program with SIGKILL and waits for its end; the folder stays.
    pub fn kill(&mut self) {
        let _ = fs::write(self.dir.join(KEEP), "");
        self.end();
    }

    /// The program's process id.
    pub fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.dir.join(PID)).ok()?.trim().parse().ok()
    }

    /// The last lines the program wrote.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn end(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
