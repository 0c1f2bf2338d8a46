//! The life of a part file.
//!
//! ```text
//!   in progress ─────────────> pending ─────────────────────> finished
//!   .part-u-0-7.inprogress.x   the same name; whole, synced   part-u-0-7
//!       │        ^                 a checkpoint names it          its checkpoint is complete
//!       └────────┘ a barrier: synced, its length goes into the checkpoint;
//!                  a restart cuts off what was written later
//! ```
//!
//! A finished file never changes, never goes, and no other gets its name.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_api::{Error, Result};

use super::disk::{Disk, DiskFile};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// What a checkpoint remembers of a part in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartSnapshot {
    /// Its folder below the table's, `dt=2026-10-01/`.
    pub directory: String,
    pub hidden: PathBuf,
    pub visible: PathBuf,
    /// Bytes before the barrier.
    pub bytes: u64,
    pub rows: u64,
    pub created_ms: i64,
}

/// A part that takes rows.
pub(super) struct InProgressPart {
    state: PartSnapshot,
    /// When it got its last row.
    updated_ms: i64,
    /// Absent while another file needed the place.
    file: Option<Box<dyn DiskFile>>,
    buffer: Vec<u8>,
    is_synced: bool,
}

impl InProgressPart {
    /// Begins a part named `name`; `unique` tells its hidden name from all others.
    pub(super) fn begin(
        disk: &dyn Disk,
        root: &Path,
        directory: &str,
        name: &str,
        unique: &str,
        now_ms: i64,
    ) -> Result<InProgressPart> {
        let folder = root.join(directory);
        disk.create_folder(&folder)
            .map_err(|e| Error::job(format!("The folder '{}' cannot be made: {e}.", folder.display())))?;
        let (hidden, visible) = (folder.join(format!(".{name}.inprogress.{unique}")), folder.join(name));
        let mut file = disk.create(&hidden).map_err(|e| cannot_write(&hidden, &e))?;
        lock(file.as_mut(), &hidden)?;
        let directory = directory.to_owned();
        Ok(InProgressPart {
            state: PartSnapshot { directory, hidden, visible, bytes: 0, rows: 0, created_ms: now_ms },
            updated_ms: now_ms,
            file: Some(file),
            buffer: Vec::new(),
            is_synced: false,
        })
    }

    /// Goes on behind the bytes that a checkpoint knows; what came later is cut off.
    pub(super) fn resume(disk: &dyn Disk, state: PartSnapshot, now_ms: i64) -> Result<InProgressPart> {
        let path = &state.hidden;
        let mut file = match disk.open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(gone(disk, &state)),
            Err(e) => return Err(cannot_write(path, &e)),
        };
        lock(file.as_mut(), path)?;
        let len = file.len().map_err(|e| cannot_write(path, &e))?;
        if len < state.bytes {
            return Err(Error::job(format!(
                "File '{}' has {len} bytes, but the checkpoint was taken when it had {}: somebody has changed it, or \
                 the disk has lost it. Its rows are lost unless the job goes on from an older checkpoint.",
                path.display(),
                state.bytes
            )));
        }
        file.truncate(state.bytes).map_err(|e| cannot_write(path, &e))?;
        Ok(InProgressPart { state, updated_ms: now_ms, file: Some(file), buffer: Vec::new(), is_synced: false })
    }

    pub(super) fn directory(&self) -> &str {
        &self.state.directory
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.state.hidden.parent()
    }

    /// Bytes of all its rows.
    pub(super) fn bytes(&self) -> u64 {
        self.state.bytes
    }

    pub(super) fn created_ms(&self) -> i64 {
        self.state.created_ms
    }

    pub(super) fn updated_ms(&self) -> i64 {
        self.updated_ms
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a record and a line end.
    pub(super) fn append(&mut self, disk: &dyn Disk, record: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(record);
        self.buffer.push(b'\n');
        self.state.bytes += record.len() as u64 + 1;
        self.state.rows += 1;
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush(disk) }
    }

    /// Rows came at this time.
    pub(super) fn updated(&mut self, now_ms: i64) {
        self.updated_ms = now_ms;
    }

    /// Writes what is buffered.
    pub(super) fn flush(&mut self, disk: &dyn Disk) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut file = self.take_file(disk)?;
        file.append(&self.buffer).map_err(|e| cannot_write(&self.state.hidden, &e))?;
        self.buffer.clear();
        self.is_synced = false;
        self.file = Some(file);
        Ok(())
    }

    /// The file, opened again if it is not open.
    fn take_file(&mut self, disk: &dyn Disk) -> Result<Box<dyn DiskFile>> {
        if let Some(file) = self.file.take() {
            return Ok(file);
        }
        let path = &self.state.hidden;
        let mut file = disk.open(path).map_err(|e| cannot_write(path, &e))?;
        lock(file.as_mut(), path)?;
        let (len, written) = (file.len(), self.state.bytes - self.buffer.len() as u64);
        let len = len.map_err(|e| cannot_write(path, &e))?;
        if len != written {
            return Err(Error::job(format!(
                "File '{}' has {len} bytes, but {written} were written: somebody else has changed it. Does another job \
                 go on from the same checkpoint?",
                path.display()
            )));
        }
        Ok(file)
    }

    /// Closes the file, though the part goes on.
    pub(super) fn park(&mut self, disk: &dyn Disk) -> Result<()> {
        self.flush(disk)?;
        self.file = None;
        self.buffer = Vec::new();
        Ok(())
    }

    /// Makes sure that all rows so far are on disk.
    pub(super) fn sync(&mut self, disk: &dyn Disk) -> Result<()> {
        let was_open = self.is_open();
        self.flush(disk)?;
        if !self.is_synced {
            let mut file = self.take_file(disk)?;
            file.sync().map_err(|e| cannot_write(&self.state.hidden, &e))?;
            self.is_synced = true;
            self.file = Some(file);
        }
        if !was_open {
            self.file = None;
        }
        Ok(())
    }

    /// What a checkpoint keeps, right after [`InProgressPart::sync`].
    pub(super) fn snapshot(&self) -> PartSnapshot {
        self.state.clone()
    }

    /// Makes it a whole file.
    pub(super) fn finish(mut self, disk: &dyn Disk) -> Result<PendingPart> {
        self.sync(disk)?;
        let PartSnapshot { hidden, visible, rows, .. } = self.state;
        Ok(PendingPart { hidden, visible, rows })
    }
}

fn lock(file: &mut dyn DiskFile, path: &Path) -> Result<()> {
    match file.lock() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::job(format!(
            "File '{}' is being written by another process. Stop the job that writes it before another one goes on \
             from its checkpoint.",
            path.display()
        ))),
        Err(e) => Err(cannot_write(path, &e)),
    }
}

/// The file a checkpoint goes on with is not there.
fn gone(disk: &dyn Disk, state: &PartSnapshot) -> Error {
    let (hidden, visible) = (state.hidden.display(), state.visible.display());
    if disk.exists(&state.visible).unwrap_or(false) {
        return Error::job(format!(
            "File '{hidden}' was in progress at this checkpoint, and has been finished as '{visible}' since: a run has \
             gone on from here and published rows, which would be written twice. Go on from a newer checkpoint; or \
             remove what was published later, rename '{visible}' back to '{hidden}', and start again: what comes after \
             byte {} is then cut off.",
            state.bytes
        ));
    }
    Error::job(format!(
        "File '{hidden}' was in progress at this checkpoint and is gone, and '{visible}' is not there either: somebody \
         has removed it. Its {} rows are lost unless the job goes on from an older checkpoint.",
        state.rows
    ))
}

fn cannot_write(path: &Path, e: &io::Error) -> Error {
    Error::job(format!("Cannot write file '{}': {e}.", path.display()))
}

/// A whole file, on disk under its hidden name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingPart {
    pub hidden: PathBuf,
    pub visible: PathBuf,
    pub rows: u64,
}

impl PendingPart {
    /// Gives the file its own name, if it has not got it yet. Once its folder is synced that is for good.
    pub(super) fn publish(&self, disk: &dyn Disk) -> Result<()> {
        let cannot =
            |e: io::Error| Error::job(format!("File '{}' cannot get its final name: {e}.", self.visible.display()));
        if disk.exists(&self.visible).map_err(cannot)? {
            // A rename leaves one name. Two are two files, and a finished one is never written over.
            if !disk.exists(&self.hidden).map_err(cannot)? {
                return Ok(());
            }
            return Err(Error::job(format!(
                "File '{}' is in the way: '{}' with {} rows is to get this name. Move it away.",
                self.visible.display(),
                self.hidden.display(),
                self.rows
            )));
        }
        match disk.rename(&self.hidden, &self.visible) {
            Ok(()) => Ok(()),
            // Somebody who was given up may have done it a moment ago.
            Err(e) if e.kind() == io::ErrorKind::NotFound && disk.exists(&self.visible).unwrap_or(false) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::job(format!(
                "The finished file '{}' with {} rows is gone, and '{}' is not there either: somebody has removed it. \
                 Its rows are lost unless the job goes on from an older checkpoint.",
                self.hidden.display(),
                self.rows,
                self.visible.display()
            ))),
            Err(e) => Err(cannot(e)),
        }
    }
}
