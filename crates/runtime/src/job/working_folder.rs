//! A job's folder for temporary files: made, kept from others, and swept when its process was killed.
//!
//! A folder is called `tidegate-<pid>-<job>`. A process that is killed leaves its folders behind, and its
//! number goes to another process one day, so the number says nothing. What does is a lock on the folder
//! itself, which the system lets go when its owner dies, however it dies: a folder that can be locked has no
//! owner. Owner and sweeper may meet at any moment; whoever has got the lock looks whether the folder it locked
//! is still the one at that path.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_api::{Error, Result};

use super::handle::JobId;

/// How often a folder is made anew because a sweeper took it away in between. One time is enough in practice.
const TRIES: usize = 100;

/// A folder of one job in this process; removed when dropped.
#[derive(Debug)]
pub(crate) struct WorkingFolder {
    path: PathBuf,
    /// Holds the lock; nothing is read from it.
    _lock: File,
}

impl WorkingFolder {
    /// Makes the folder of a job below `parent`, empty.
    pub(crate) fn make(parent: &Path, id: &JobId) -> Result<WorkingFolder> {
        let path = parent.join(format!("tidegate-{}-{id}", std::process::id()));
        let failed = |e: io::Error| {
            Error::job(format!("The folder '{}' cannot be made: {e}. Set 'io.tmp.dirs'.", path.display()))
        };
        for _ in 0..TRIES {
            std::fs::create_dir_all(&path).map_err(failed)?;
            if let Some(lock) = lock(&path, Wait::Yes).map_err(failed)? {
                // A process of the same number may have died with a job of the same id.
                clear(&path).map_err(failed)?;
                return Ok(WorkingFolder { path, _lock: lock });
            }
        }
        Err(failed(io::Error::other("somebody keeps removing it")))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkingFolder {
    fn drop(&mut self) {
        // Nobody needs it; what cannot be removed is in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of dead processes below `parent`, and says how many. What cannot be removed stays: it is
/// in a folder for temporary files.
pub(crate) fn sweep(parent: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(parent) else { return 0 };
    let mut swept = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !name.to_str().is_some_and(is_working_folder) {
            continue;
        }
        let path = entry.path();
        // The lock is held until the folder is gone.
        if let Ok(Some(_lock)) = lock(&path, Wait::No)
            && std::fs::remove_dir_all(&path).is_ok()
        {
            swept += 1;
        }
    }
    swept
}

/// `tidegate-<pid>-<32 hex digits>`.
fn is_working_folder(name: &str) -> bool {
    let parts = name.strip_prefix("tidegate-").and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(pid, job)| {
        !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) && JobId::parse(job).is_some()
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Yes,
    No,
}

/// Locks a folder; `None` if another has it, or it is another one by now.
#[cfg(unix)]
fn lock(path: &Path, wait: Wait) -> io::Result<Option<File>> {
    use std::os::unix::fs::MetadataExt;
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    match wait {
        Wait::Yes => folder.lock()?,
        Wait::No => match folder.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(e)) => return Err(e),
        },
    }
    let (locked, there) = (folder.metadata()?, std::fs::metadata(path));
    let is_same = there.is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(folder))
}

/// Folders cannot be locked here, so none is ever swept.
#[cfg(not(unix))]
fn lock(path: &Path, wait: Wait) -> io::Result<Option<File>> {
    match wait {
        Wait::Yes => File::create(path.with_extension("owner")).map(Some),
        Wait::No => Ok(None),
    }
}

fn clear(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_folders_without_an_owner_are_swept() {
        let parent = tempfile::tempdir().expect("a folder");
        let (alive, dead) = (JobId::random(), JobId::random());
        let folder = WorkingFolder::make(parent.path(), &alive).expect("made");
        std::fs::write(folder.path().join("x"), "x").expect("written");
        // The number is that of a living process, but nobody holds the folder: numbers are used again.
        let orphan = parent.path().join(format!("tidegate-{}-{dead}", std::process::id()));
        std::fs::create_dir_all(orphan.join("a/b")).expect("made");
        let strangers = ["tidegate-12-abc", "tidegate-x-00000000000000000000000000000000", "other"];
        strangers.iter().for_each(|name| std::fs::create_dir(parent.path().join(name)).expect("made"));
        let file = parent.path().join("tidegate-1-00000000000000000000000000000000");
        std::fs::write(&file, "").expect("written");
        assert_eq!(sweep(parent.path()), 1);
        assert!(!orphan.exists() && folder.path().join("x").exists() && file.exists());
        strangers.iter().for_each(|name| assert!(parent.path().join(name).exists(), "{name}"));
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
        assert_eq!(sweep(parent.path()), 0);
    }

    #[test]
    fn what_a_namesake_left_is_not_found_again() {
        let parent = tempfile::tempdir().expect("a folder");
        let id = JobId::random();
        let path = parent.path().join(format!("tidegate-{}-{id}", std::process::id()));
        std::fs::create_dir_all(path.join("attempt-1")).expect("made");
        let folder = WorkingFolder::make(parent.path(), &id).expect("made");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    /// Makers and sweepers at once: nobody's folder goes, whoever comes first.
    #[test]
    fn a_sweeper_never_takes_a_folder_that_has_an_owner() {
        let parent = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..300).map(|_| sweep(parent.path())).sum::<usize>());
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..150 {
                        let folder = WorkingFolder::make(parent.path(), &JobId::random()).expect("made");
                        let file = folder.path().join("x");
                        std::fs::write(&file, "x").expect("the folder is there");
                        std::thread::yield_now();
                        assert_eq!(std::fs::read(&file).expect("it still is"), b"x");
                    }
                });
            }
        });
    }
}
