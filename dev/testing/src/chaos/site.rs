//! Where a job of a kill test lives: its script, its checkpoints, its files and its log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::chaos::disk::Disk;

/// What stands in place of a manifest that will never be written.
const VOID: &[u8] = b"TIDEVOID";

/// A folder with all that a job leaves behind.
pub struct Site {
    /// Before the folder it lies in, so that it goes first.
    disk: Disk,
    folder: TempDir,
}

/// A complete checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number, which grows over all lives of a job.
    pub id: u64,
    /// Its folder.
    pub folder: PathBuf,
}

impl Site {
    /// An empty one.
    pub fn new() -> Result<Site, String> {
        let folder = tempfile::Builder::new().prefix("tidegate-kills-").tempdir().map_err(|e| e.to_string())?;
        let site = Site { disk: Disk::new(folder.path().join("disk"))?, folder };
        for dir in [site.checkpoints(), site.temporary()] {
            fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        Ok(site)
    }

    /// The folder of everything.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What the next two are on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The folder of checkpoints, one in it for each life.
    pub fn checkpoints(&self) -> PathBuf {
        self.path().join("disk/checkpoints")
    }

    /// Where a life works.
    pub fn temporary(&self) -> PathBuf {
        self.path().join("disk/tmp")
    }

    /// The table of files.
    pub fn files(&self) -> PathBuf {
        self.path().join("files")
    }

    /// What all lives have said.
    pub fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// How many lines of the log tell of a disk without room.
    pub fn complaints(&self) -> usize {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let tells = |line: &&str| line.contains("No space left on device") || line.contains("File too large");
        log.lines().filter(tells).count()
    }

    /// Leaves the folder where it is, for somebody to look at.
    pub fn keep(self) -> PathBuf {
        let Site { disk, folder } = self;
        // What is on a disk of its own would go with it.
        let copied = folder.path().join("disk.copy");
        let _ = std::process::Command::new("cp").arg("-a").arg(folder.path().join("disk")).arg(&copied).status();
        drop(disk);
        folder.keep()
    }

    /// The folders of all lives.
    pub fn jobs(&self) -> Vec<PathBuf> {
        entries(&self.checkpoints())
    }

    /// The newest complete checkpoint of all lives.
    pub fn latest(&self) -> Option<Found> {
        self.jobs().iter().flat_map(|job| complete(job)).max_by_key(|found| found.id)
    }

    /// Files of the table that readers see, with their sizes.
    pub fn finished_files(&self) -> BTreeMap<PathBuf, u64> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.files()];
        while let Some(folder) = folders.pop() {
            for entry in entries(&folder) {
                let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if entry.is_dir() {
                    folders.push(entry);
                } else if !name.starts_with('.') && !name.starts_with('_') {
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    found.insert(entry, bytes);
                }
            }
        }
        found
    }

    /// All lines of the files that readers see.
    pub fn file_lines(&self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        for path in self.finished_files().keys() {
            let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            lines.extend(text.lines().map(str::to_owned));
        }
        Ok(lines)
    }
}

/// The complete checkpoints in the folder of one life.
pub fn complete(job: &Path) -> Vec<Found> {
    let ids = entries(job).into_iter().filter_map(|folder| {
        let id = folder.file_name()?.to_str()?.strip_prefix("chk-")?.parse().ok()?;
        let manifest = fs::read(folder.join("_metadata")).ok()?;
        (manifest != VOID).then_some(Found { id, folder })
    });
    ids.collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    // A folder that is not there yet, or not any more, has nothing in it.
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
