//! Publishing part files: a rename from the hidden name to the final one.
//!
//! A part that a barrier finds open is closed there, so a checkpoint holds names only, and both names lie in
//! the table's own folder. A rename that has happened is told by the final name being there: publishing twice
//! is publishing once. What a crash leaves under a hidden name and no checkpoint knows, nobody ever sees.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_api::connector::{Committable, SinkCommitter};
use tidegate_api::{Error, Result};

/// A whole file, on disk under its hidden name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FinishedPart {
    pub hidden: PathBuf,
    pub visible: PathBuf,
    pub rows: u64,
}

impl FinishedPart {
    /// As what a checkpoint keeps of it.
    pub fn committable(&self) -> Result<Committable> {
        let state = serde_json::to_value(self).map_err(|e| Error::internal(e.to_string()))?;
        Ok(Committable { state, rows: self.rows, files: Vec::new() })
    }

    /// Gives the file its own name, if it has not got it yet, for good.
    pub fn publish(&self) -> Result<()> {
        match fs::rename(&self.hidden, &self.visible) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.visible.exists() => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Error::job(format!(
                    "The finished file '{}' with {} rows is gone, and '{}' is not there either: somebody has removed \
                     it. Its rows are lost unless the job goes on from an older checkpoint.",
                    self.hidden.display(),
                    self.rows,
                    self.visible.display()
                )));
            }
            Err(e) => return Err(cannot_publish(&self.visible, &e)),
        }
        let Some(folder) = self.visible.parent() else { return Ok(()) };
        // The new name must survive a power failure before the checkpoint forgets the part.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| cannot_publish(&self.visible, &e))
    }
}

/// What a writer's part of a checkpoint says: parts below this number are published or in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WriterSnapshot {
    /// What all its parts' names begin with; no other writer ever uses it.
    pub name: String,
    pub parts: u64,
}

impl WriterSnapshot {
    /// Whether a file name is a hidden part that was begun after the snapshot: its rows come again.
    fn is_leftover(&self, file: &str) -> bool {
        let number = file.strip_prefix('.').and_then(|rest| rest.strip_prefix(self.name.as_str()));
        let number = number.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".inprogress")?.parse::<u64>().ok());
        number.is_some_and(|number| number >= self.parts)
    }
}

/// Removes what writers had begun after their snapshots.
pub(super) fn remove_leftovers(folder: &Path, of: &[WriterSnapshot]) {
    // Nobody reads hidden files: what cannot be listed or removed only takes space.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_leftovers(&entry.path(), of),
            Ok(_) if of.iter().any(|writer| writer.is_leftover(name)) => drop(fs::remove_file(entry.path())),
            _ => {}
        }
    }
}

fn cannot_publish(path: &Path, e: &io::Error) -> Error {
    Error::job(format!("File '{}' cannot get its final name: {e}.", path.display()))
}

/// Publishes the parts of one subtask.
pub(super) struct FileCommitter;

#[async_trait]
impl SinkCommitter for FileCommitter {
    async fn recover(&mut self, pending: Vec<Committable>) -> Result<()> {
        self.commit(pending).await
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()> {
        let mut parts = Vec::with_capacity(committables.len());
        for committable in committables {
            let part: FinishedPart = serde_json::from_value(committable.state).map_err(|e| {
                Error::job(format!("What the checkpoint holds of a finished file cannot be read: {e}."))
            })?;
            parts.push(part);
        }
        let published = tokio::task::spawn_blocking(move || parts.iter().try_for_each(FinishedPart::publish)).await;
        published.map_err(|e| Error::internal(format!("publishing files broke: {e}")))?
    }
}
