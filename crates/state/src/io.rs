//! The edge: where files are written and read. Everything else in this crate decides.
//!
//! A store sees a flat folder of immutable files. A file is written once from front to end, then read
//! at random, then removed; nothing is ever changed in place.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that can be read at any place, by several threads at once.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer` from `offset` on. Fails with `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// As [`read_exact_at`](Self::read_exact_at), but only if that needs no waiting for a disk: `false`
    /// when it would, or when only a part is at hand.
    fn read_if_at_hand(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.read_exact_at(buffer, offset).map(|()| true)
    }

    /// Says that these bytes will be read soon, so that a disk can fetch many places at once.
    fn will_need(&self, _offset: u64, _bytes: u64) {}

    /// Length of the file in bytes.
    fn length(&self) -> io::Result<u64>;
}

/// A file being written.
pub trait Append: Send {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended survive a power failure.
    fn sync(&mut self) -> io::Result<()>;
}

/// The flat folder a store keeps its files in.
pub trait RunDir: Send + Sync {
    /// Creates a file; fails with `AlreadyExists` when there is one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn Append>>;

    /// Opens a finished file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadAt>>;

    /// Removes a file; readers that have it open may go on.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
}

/// A folder of the local file system.
#[derive(Clone, Debug)]
pub struct LocalDir {
    path: PathBuf,
}

impl LocalDir {
    /// Uses `path`, which is created when it is missing.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<LocalDir> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        Ok(LocalDir { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

struct LocalFile {
    file: File,
    /// Whether the file system can say that a read would wait. Not all can.
    knows_waiting: AtomicBool,
}

impl ReadAt for LocalFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.file, buffer, offset)
    }

    fn read_if_at_hand(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        if !self.knows_waiting.load(Ordering::Relaxed) {
            return self.read_exact_at(buffer, offset).map(|()| true);
        }
        match read_without_waiting(&self.file, buffer, offset) {
            Ok(bytes) => Ok(bytes == buffer.len()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => {
                self.knows_waiting.store(false, Ordering::Relaxed);
                self.read_exact_at(buffer, offset).map(|()| true)
            }
        }
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        fetch_ahead(&self.file, offset, bytes);
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(target_os = "linux")]
fn read_without_waiting(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut buffers = [io::IoSliceMut::new(buffer)];
    Ok(rustix::io::preadv2(file, &mut buffers, offset, rustix::io::ReadWriteFlags::NOWAIT)?)
}

#[cfg(target_os = "linux")]
fn fetch_ahead(file: &File, offset: u64, bytes: u64) {
    // Only a hint: a read that comes too early waits.
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(bytes), rustix::fs::Advice::WillNeed);
}

#[cfg(not(target_os = "linux"))]
fn read_without_waiting(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn fetch_ahead(_: &File, _: u64, _: u64) {}

struct LocalAppend {
    file: File,
    dir: PathBuf,
}

impl Append for LocalAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        // The file's name is in the folder, which is synced apart.
        File::open(&self.dir)?.sync_all()
    }
}

impl RunDir for LocalDir {
    fn create(&self, name: &str) -> io::Result<Box<dyn Append>> {
        let file = OpenOptions::new().write(true).create_new(true).open(self.path.join(name))?;
        Ok(Box::new(LocalAppend { file, dir: self.path.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadAt>> {
        let file = File::open(self.path.join(name))?;
        Ok(Arc::new(LocalFile { file, knows_waiting: AtomicBool::new(true) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// A folder in memory: for tests, and for state that need not outlive the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryDir {
    files: Arc<Mutex<BTreeMap<String, Arc<Vec<u8>>>>>,
}

impl MemoryDir {
    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        self.lock().get(name).cloned()
    }

    /// Puts a file, whole.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.lock().insert(name.to_owned(), Arc::new(bytes));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Vec<u8>>>> {
        // The map is whole after every statement, so a panic elsewhere leaves nothing half done.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct MemoryFile(Arc<Vec<u8>>);

impl ReadAt for MemoryFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = start.checked_add(buffer.len()).and_then(|end| self.0.get(start..end));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

struct MemoryAppend {
    dir: MemoryDir,
    name: String,
}

impl Append for MemoryAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.dir.lock();
        let file = files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?;
        Arc::make_mut(file).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RunDir for MemoryDir {
    fn create(&self, name: &str) -> io::Result<Box<dyn Append>> {
        let mut files = self.lock();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.insert(name.to_owned(), Arc::default());
        Ok(Box::new(MemoryAppend { dir: self.clone(), name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadAt>> {
        let bytes = self.bytes(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile(bytes)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every folder keeps to the same rules.
    fn check(dir: &dyn RunDir) {
        let mut file = dir.create("a").unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"there").unwrap();
        file.sync().unwrap();
        assert_eq!(dir.create("a").map(drop).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let open = dir.open("a").unwrap();
        let mut bytes = [0; 5];
        open.read_exact_at(&mut bytes, 6).unwrap();
        assert_eq!((&bytes, open.length().unwrap()), (b"there", 11));
        open.will_need(0, 5);
        if open.read_if_at_hand(&mut bytes, 0).unwrap() {
            assert_eq!(&bytes, b"hello");
        }
        assert_eq!(open.read_exact_at(&mut bytes, 7).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(dir.list().unwrap(), ["a"]);
        dir.remove("a").unwrap();
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"hello", "who has it open may go on");
        assert_eq!(dir.remove("a").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(dir.open("a").map(drop).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn folders_keep_to_the_rules() {
        let temporary = tempfile::tempdir().unwrap();
        check(&LocalDir::new(temporary.path().join("new/folder")).unwrap());
        check(&MemoryDir::default());
    }
}
