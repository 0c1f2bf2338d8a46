//! The `tidegate` binary as a child process: its lines with the time each came.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::wait_for;

/// The binary to test: `TIDEGATE_BIN`, else the one named (`env!("CARGO_BIN_EXE_tidegate")`).
pub fn binary(built: &str) -> PathBuf {
    std::env::var_os("TIDEGATE_BIN").map_or_else(|| PathBuf::from(built), PathBuf::from)
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Sends a signal to a process of ours.
pub fn signal(name: &str, pid: u32) -> Result<(), String> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("kill -{name} {pid}: {status}")),
        Err(e) => Err(format!("kill cannot be run: {e}")),
    }
}

/// A line of output.
#[derive(Clone, Debug)]
pub struct Line {
    /// When it was read.
    pub at: Instant,
    /// Without the line end.
    pub text: String,
}

#[derive(Default)]
struct Output {
    lines: Mutex<Vec<Line>>,
    grown: Condvar,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(self: &Arc<Self>, stream: impl Read + Send + 'static) {
        let output = Arc::clone(self);
        thread::spawn(move || {
            for text in BufReader::new(stream).lines().map_while(Result::ok) {
                output.lock().push(Line { at: Instant::now(), text });
                output.grown.notify_all();
            }
        });
    }
}

/// A running `tidegate`; killed when dropped.
pub struct Tidegate {
    child: Child,
    stdout: Arc<Output>,
    stderr: Arc<Output>,
}

impl Tidegate {
    /// Starts `binary` with these arguments in `dir`.
    pub fn start(binary: &Path, args: &[&str], dir: &Path) -> Tidegate {
        let mut child = Command::new(binary)
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{} does not start: {e}", binary.display()));
        let (stdout, stderr) = (Arc::new(Output::default()), Arc::new(Output::default()));
        stdout.collect(child.stdout.take().expect("piped"));
        stderr.collect(child.stderr.take().expect("piped"));
        Tidegate { child, stdout, stderr }
    }

    /// Lines of standard output so far.
    pub fn lines(&self) -> Vec<String> {
        self.stdout.lock().iter().map(|line| line.text.clone()).collect()
    }

    /// Lines of standard output so far, with their times.
    pub fn timed_lines(&self) -> Vec<Line> {
        self.stdout.lock().clone()
    }

    /// Standard error so far.
    pub fn errors(&self) -> String {
        let lines: Vec<String> = self.stderr.lock().iter().map(|line| line.text.clone()).collect();
        lines.join("\n")
    }

    /// Waits for a line of standard output that `wanted` accepts; `None` if none came in time.
    pub fn wait_line(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> Option<Line> {
        self.wait_lines(limit, |lines| lines.iter().find(|line| wanted(&line.text)).cloned())
    }

    /// Waits until there are `count` lines of standard output and returns what there is then.
    pub fn wait_count(&self, limit: Duration, count: usize) -> Vec<String> {
        self.wait_lines(limit, |lines| (lines.len() >= count).then_some(()));
        self.lines()
    }

    fn wait_lines<T>(&self, limit: Duration, check: impl Fn(&[Line]) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        let mut lines = self.stdout.lock();
        loop {
            if let Some(found) = check(&lines) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let (guard, _) = self.stdout.grown.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner);
            lines = guard;
        }
    }

    /// Waits for the end of the process; `None` if it still runs.
    pub fn wait_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_for(limit, || self.child.try_wait().ok().flatten())
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Tidegate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
