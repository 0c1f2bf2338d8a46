//! A disk that can be full: a small file system of its own where that may be made, else a limit on the size of
//! files.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Enough for the checkpoints of a test, and soon filled.
const SIZE: &str = "size=48m";
/// No file of a checkpoint is as small.
const LIMIT_BYTES: u64 = 64;

/// Unmounts when its input ends: when the disk is dropped, or its process has died. Lazily, for whoever still has a
/// file open there may keep it.
const GUARD: &str = r#"cat >/dev/null; umount -l "$1""#;

/// Where checkpoints and staged rows are kept.
pub struct Disk {
    folder: PathBuf,
    /// There if it is mounted.
    guard: Option<Child>,
}

impl Disk {
    /// Makes it at this place, which must not be there yet.
    pub fn new(folder: PathBuf) -> Result<Disk, String> {
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(&folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut disk = Disk { folder, guard: None };
        if mount.status().is_ok_and(|status| status.success()) {
            let mut guard = Command::new("sh");
            // Not reached by the terminal's Ctrl-C.
            guard.args(["-c", GUARD, "guard"]).arg(&disk.folder).stdin(Stdio::piped()).process_group(0);
            disk.guard = Some(guard.spawn().map_err(|e| format!("cannot start a shell: {e}"))?);
        }
        Ok(disk)
    }

    /// Whether a process must ignore SIGXFSZ to hear of a full disk as an error.
    pub fn limits_files(&self) -> bool {
        self.guard.is_none()
    }

    /// From now on nothing can be written by this process.
    pub fn fill(&self, pid: u32) -> Result<(), String> {
        if self.guard.is_none() {
            return limit(pid, &LIMIT_BYTES.to_string());
        }
        let mut ballast = File::create(self.ballast()).map_err(|e| e.to_string())?;
        // First in large pieces, then in the smallest, until nothing goes in.
        for size in [1 << 20, 4096, 1] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// There is room again.
    pub fn free(&self, pid: u32) -> Result<(), String> {
        if self.guard.is_some() {
            return fs::remove_file(self.ballast()).map_err(|e| e.to_string());
        }
        // A process that has ended needs no room.
        match Path::new(&format!("/proc/{pid}")).exists() {
            true => limit(pid, "unlimited"),
            false => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

/// The soft limit only, so that it can be raised again.
fn limit(pid: u32, bytes: &str) -> Result<(), String> {
    let limited = Command::new("prlimit").arg(format!("--pid={pid}")).arg(format!("--fsize={bytes}:")).status();
    match limited {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("prlimit: {status}")),
        Err(e) => Err(format!("prlimit cannot be run: {e}")),
    }
}
