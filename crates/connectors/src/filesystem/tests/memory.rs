//! A disk in memory that stops when it is told to, and forgets what was not synced if the power fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::disk::{Disk, DiskFile};

/// The disk; clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: Vec<Contents>,
    /// Names as processes see them, and as they are after a power failure.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    /// Operations until the process dies; that one is still done, or not.
    fuse: Option<(u64, bool)>,
    is_dead: bool,
    /// Operations on paths that contain this fail so.
    refused: Option<(String, io::ErrorKind)>,
    /// What could be seen in a folder when an empty file was made there.
    announced: Vec<(PathBuf, Vec<PathBuf>)>,
}

#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    is_locked: bool,
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    /// The process dies after so many more operations.
    pub(super) fn die_after(&self, operations: u64, is_last_done: bool) {
        self.lock().fuse = Some((operations, is_last_done));
    }

    /// The next process finds the disk; with a power failure in between, what was synced.
    pub(super) fn revive(&self, power_failed: bool) {
        let mut state = self.lock();
        state.fuse = None;
        state.is_dead = false;
        for file in &mut state.files {
            file.is_locked = false;
            if power_failed {
                file.bytes = file.synced.clone();
            }
        }
        if power_failed {
            state.names = state.durable.clone();
        }
    }

    /// Operations on paths that contain `text` fail.
    pub(super) fn refuse(&self, text: &str, kind: io::ErrorKind) {
        self.lock().refused = Some((text.to_owned(), kind));
    }

    /// Names and contents of files with names that readers do not skip.
    pub(super) fn seen(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let seen = state.names.iter().filter(|(path, _)| is_seen(path));
        seen.map(|(path, file)| (path.clone(), state.files[*file].bytes.clone())).collect()
    }

    /// Names that readers skip.
    pub(super) fn hidden(&self) -> Vec<PathBuf> {
        self.lock().names.keys().filter(|path| !is_seen(path)).cloned().collect()
    }

    /// Success files made since this was asked last, each with what could be seen beside it.
    pub(super) fn announced(&self) -> Vec<(PathBuf, Vec<PathBuf>)> {
        std::mem::take(&mut self.lock().announced)
    }

    /// Puts a file there, as somebody else would.
    pub(super) fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.lock();
        state.files.push(Contents { bytes: bytes.to_vec(), synced: bytes.to_vec(), is_locked: false });
        let file = state.files.len() - 1;
        state.names.insert(path.to_owned(), file);
        state.durable.insert(path.to_owned(), file);
    }

    fn step<T>(&self, path: &Path, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.lock();
        if state.is_dead {
            return Err(dead());
        }
        if let Some((text, kind)) = &state.refused
            && path.to_string_lossy().contains(text.as_str())
        {
            return Err((*kind).into());
        }
        match &mut state.fuse {
            Some((0, is_last_done)) => {
                let is_last_done = *is_last_done;
                state.is_dead = true;
                if is_last_done {
                    act(&mut state)?;
                }
                Err(dead())
            }
            Some((left, _)) => {
                *left -= 1;
                act(&mut state)
            }
            None => act(&mut state),
        }
    }

    fn file(&self, path: &Path, file: usize) -> Box<dyn DiskFile> {
        Box::new(MemoryFile { disk: self.clone(), path: path.to_owned(), file, has_lock: false })
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

fn is_seen(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !name.starts_with(['.', '_']))
}

impl State {
    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn add(&mut self, path: &Path) -> usize {
        self.files.push(Contents::default());
        self.names.insert(path.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }
}

impl Disk for MemoryDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<bool> {
        self.step(folder, |state| {
            if folder.ancestors().any(|above| state.names.contains_key(above)) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(state.folders.insert(folder.to_owned()))
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.step(path, |state| match state.names.contains_key(path) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Ok(state.add(path)),
        })?;
        Ok(self.file(path, file))
    }

    fn create_empty(&self, path: &Path) -> io::Result<()> {
        self.step(path, |state| {
            if !state.names.contains_key(path) {
                state.add(path);
            }
            let beside = state.names.keys().filter(|other| other.parent() == path.parent() && is_seen(other));
            let beside = beside.cloned().collect();
            state.announced.push((path.to_owned(), beside));
            Ok(())
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.step(path, |state| state.find(path))?;
        Ok(self.file(path, file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(to, |state| {
            let file = state.find(from)?;
            state.names.remove(from);
            assert!(state.names.insert(to.to_owned(), file).is_none(), "{} is written over", to.display());
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(path, |state| {
            state.find(path)?;
            assert!(!is_seen(path), "{} is removed", path.display());
            state.names.remove(path);
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.step(path, |state| Ok(state.names.contains_key(path)))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step(folder, |state| {
            let here = |path: &Path| path.parent() == Some(folder);
            state.durable.retain(|path, _| !here(path));
            let names: Vec<(PathBuf, usize)> =
                state.names.iter().filter(|(path, _)| here(path)).map(|(path, file)| (path.clone(), *file)).collect();
            state.durable.extend(names);
            Ok(())
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
        self.step(folder, |state| {
            let here = |path: &&PathBuf| path.parent() == Some(folder);
            let folders = state.folders.iter().filter(here).map(|path| (path.clone(), true));
            Ok(folders.chain(state.names.keys().filter(here).map(|path| (path.clone(), false))).collect())
        })
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    path: PathBuf,
    file: usize,
    has_lock: bool,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if self.has_lock {
            self.disk.lock().files[self.file].is_locked = false;
        }
    }
}

impl DiskFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.step(&self.path, |state| {
            state.files[self.file].bytes.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.step(&self.path, |state| Ok(state.files[self.file].bytes.len() as u64))
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.step(&self.path, |state| {
            state.files[self.file].bytes.truncate(usize::try_from(len).expect("small"));
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step(&self.path, |state| {
            let file = &mut state.files[self.file];
            file.synced = file.bytes.clone();
            Ok(())
        })
    }

    fn lock(&mut self) -> io::Result<bool> {
        let has_lock =
            self.disk.step(&self.path, |state| Ok(!std::mem::replace(&mut state.files[self.file].is_locked, true)))?;
        self.has_lock |= has_lock;
        Ok(has_lock)
    }
}
