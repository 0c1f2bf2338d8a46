//! One life of a job: a `tidegate run` that may be killed, or ends by itself.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::chaos::site::Site;
use crate::process::signal;
use crate::wait_for;

/// The variable that arms a fail point.
pub const FAIL_POINT: &str = "TIDEGATE_FAIL_POINT";

/// A process; killed when dropped.
pub struct Life {
    child: Child,
}

impl Life {
    /// Starts the binary, with a fail point if one is named; what it says goes to the site's log.
    pub fn start(binary: &Path, arguments: &[String], fail_point: Option<&str>, site: &Site) -> Result<Life, String> {
        let mut log = File::options().create(true).append(true).open(site.log()).map_err(|e| e.to_string())?;
        writeln!(log, "--- {} {}", arguments.join(" "), fail_point.unwrap_or_default()).map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = match site.disk().limits_files() {
            false => Command::new(binary),
            true => {
                let mut shell = Command::new("sh");
                shell.args(["-c", r#"trap '' XFSZ; exec "$0" "$@""#]).arg(binary);
                shell
            }
        };
        command.args(arguments).current_dir(site.path()).env_remove(FAIL_POINT);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        if let Some(point) = fail_point {
            command.env(FAIL_POINT, point);
        }
        let child = command.spawn().map_err(|e| format!("{} does not start: {e}", binary.display()))?;
        Ok(Life { child })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end; `None` if it still runs then.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_for(limit, || self.ended())
    }

    /// Kills it, as by `kill -9`. False if it had ended by itself.
    pub fn kill(&mut self) -> bool {
        let was_alive = self.ended().is_none();
        let _ = self.child.kill();
        let _ = self.child.wait();
        was_alive
    }

    /// Asks it to end, as by `kill`.
    pub fn terminate(&self) -> Result<(), String> {
        signal("TERM", self.pid())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.kill();
    }
}
