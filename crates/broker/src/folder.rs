//! The data folder: who may use it, and which format it has.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::server::BrokerError;

/// The format this version reads and writes. It rises when an older broker could misread the folder.
const FORMAT: u32 = 1;
/// What says that a folder is a broker's, and in which format.
const MARK: &str = "broker.json";
/// Locked for as long as a broker uses the folder.
const LOCK: &str = "broker.lock";

/// A data folder that belongs to this process until it is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Id of the cluster, made with the folder.
    pub(crate) cluster: String,
    /// Held for its lock, which ends with the process at the latest.
    _lock: File,
    /// Removes the folder in the end if it is a temporary one.
    _temporary: Option<tempfile::TempDir>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Mark {
    format: u32,
    cluster_id: String,
}

impl DataFolder {
    /// Opens the folder, or makes one: there, or a temporary one if no path is given.
    ///
    /// # Errors
    ///
    /// If another broker uses it, if it holds something else, if a newer broker wrote it, or if it cannot
    /// be read or written.
    pub(crate) fn open(path: Option<&Path>) -> Result<DataFolder, BrokerError> {
        let (path, temporary) = match path {
            Some(path) => {
                fs::create_dir_all(path).map_err(|source| trouble(path, source))?;
                (path.to_owned(), None)
            }
            None => {
                let parent = std::env::temp_dir();
                let folder = tempfile::Builder::new().prefix("tidegate-broker-").tempdir();
                let folder = folder.map_err(|source| trouble(&parent, source))?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let mark = read_mark(&path)?;
        if mark.is_none() && !is_vacant(&path).map_err(|source| trouble(&path, source))? {
            return Err(BrokerError::Foreign { path });
        }
        let lock = lock(&path)?;
        let mark = match mark {
            Some(mark) => mark,
            None => write_mark(&path).map_err(|source| trouble(&path, source))?,
        };
        Ok(DataFolder { path, cluster: mark.cluster_id, _lock: lock, _temporary: temporary })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn read_mark(path: &Path) -> Result<Option<Mark>, BrokerError> {
    let file = path.join(MARK);
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(trouble(&file, source)),
    };
    let unreadable = |reason: String| BrokerError::Format { path: file.clone(), reason };
    let mark: Mark = serde_json::from_slice(&text).map_err(|e| unreadable(e.to_string()))?;
    if mark.format != FORMAT {
        return Err(unreadable(format!("it has format {}, this broker knows format {FORMAT}", mark.format)));
    }
    Ok(Some(mark))
}

/// Whether nothing is in the folder but what a broker leaves that was ended while it made it.
fn is_vacant(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != new_mark_name().as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lock(path: &Path) -> Result<File, BrokerError> {
    let name = path.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|source| trouble(&name, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BrokerError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(trouble(&name, source)),
    }
}

fn new_mark_name() -> String {
    format!("{MARK}.new")
}

/// Written aside and renamed, so that there is none or a whole one.
fn write_mark(path: &Path) -> io::Result<Mark> {
    let mark = Mark { format: FORMAT, cluster_id: Uuid::new_v4().simple().to_string() };
    let new = path.join(new_mark_name());
    fs::write(&new, serde_json::to_vec(&mark)?)?;
    fs::rename(&new, path.join(MARK))?;
    Ok(mark)
}

fn trouble(path: &Path, source: io::Error) -> BrokerError {
    BrokerError::Data { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_cluster_and_refuses_a_second_user() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("deep").join("data");
        let first = DataFolder::open(Some(&path)).expect("makes the folder");
        assert!(matches!(DataFolder::open(Some(&path)), Err(BrokerError::Locked { path: p }) if p == path));
        let cluster = first.cluster.clone();
        drop(first);
        assert_eq!(DataFolder::open(Some(&path)).expect("is free again").cluster, cluster);
    }

    #[test]
    fn leaves_foreign_folders_and_newer_formats_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("thesis.txt"), "mine").expect("a file");
        assert!(matches!(DataFolder::open(Some(folder.path())), Err(BrokerError::Foreign { .. })));
        assert!(!folder.path().join(LOCK).exists());

        let folder = tempfile::tempdir().expect("a temporary folder");
        for mark in [r#"{"format":2,"cluster_id":"c"}"#, "{", ""] {
            fs::write(folder.path().join(MARK), mark).expect("a mark");
            assert!(matches!(DataFolder::open(Some(folder.path())), Err(BrokerError::Format { .. })), "{mark}");
        }
    }

    #[test]
    fn a_temporary_folder_ends_with_its_user() {
        let folder = DataFolder::open(None).expect("a temporary folder");
        let path = folder.path().to_owned();
        assert!(path.join(MARK).exists());
        drop(folder);
        assert!(!path.exists());
    }
}
