//! The few things the sink does with files, so that a test can do them in memory and stop between any two.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where files are.
pub(super) trait Disk: Send + Sync {
    /// Makes a folder and those above it; true if it was not there.
    fn create_folder(&self, folder: &Path) -> io::Result<bool>;

    /// Makes a file that must not exist, to be appended to.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file, whatever was there.
    fn create_empty(&self, path: &Path) -> io::Result<()>;

    /// Opens a file that exists, to be appended to.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Whether there is anything of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Names in a folder survive a power failure when this returns.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// What is in a folder: paths, and whether each is a folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, bool)>>;
}

/// An open file.
pub(super) trait DiskFile: Send {
    /// Writes behind what is there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts what is behind `len`.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// What was written survives a power failure when this returns.
    fn sync(&mut self) -> io::Result<()>;

    /// Keeps other processes from opening it as their own; false if one has done so. Lasts until the file is
    /// closed, by a kill too.
    fn lock(&mut self) -> io::Result<bool>;
}

/// The machine's disks.
pub(super) struct LocalDisk;

impl Disk for LocalDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<bool> {
        if folder.is_dir() {
            return Ok(false);
        }
        let mut missing = Vec::new();
        let mut above = folder;
        while !above.is_dir() {
            missing.push(above.to_owned());
            match above.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => above = parent,
                _ => break,
            }
        }
        fs::create_dir_all(folder)?;
        for made in missing {
            match made.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_folder(parent)?,
                _ => self.sync_folder(Path::new("."))?,
            }
        }
        Ok(true)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    fn create_empty(&self, path: &Path) -> io::Result<()> {
        File::create(path)?.sync_all()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.path(), entry.file_type()?.is_dir()))
        };
        fs::read_dir(folder)?.map(entry).collect()
    }
}

impl DiskFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn lock(&mut self) -> io::Result<bool> {
        match self.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            // A file system without locks: then nobody can be kept away.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(true),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}
