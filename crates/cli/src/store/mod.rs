//! What `tidegate standalone --state-dir` knows of its jobs when it is started again.
//!
//! ```text
//! DIR/lock               locked by the process that uses the folder, for as long as it lives
//!     jobs/<id>.json     a job: script, settings, graph; how it ended
//!     checkpoints/<id>/  its checkpoints, unless it names another place
//! ```
//!
//! A record is replaced as a whole: written beside the old one, synced, renamed. So it is the old one or the new
//! one, whenever the process dies. One that cannot be read makes its job a failed one, and stays as it is.

mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_api::{Error, Result};
use tidegate_runtime::{EndedJob, JobId, JobRecords, StopSavepoint};

pub use record::{End, JobRecord};

/// What is found of a job at the start.
#[derive(Clone, Debug)]
pub enum Stored {
    /// A record, of a job that ran or of one that had ended.
    Record(Box<JobRecord>),
    /// A file that is no record.
    Broken {
        /// The job's id, from the file's name.
        id: JobId,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// The folder, as long as this process has it to itself.
#[derive(Debug)]
pub struct JobStore {
    dir: PathBuf,
    /// How many ended jobs are kept.
    ended_max: usize,
    records: Mutex<BTreeMap<String, JobRecord>>,
    /// Holds the lock.
    _lock: File,
}

impl JobStore {
    /// Takes the folder, which is made if it is not there, and reads what it holds, oldest job first.
    pub fn open(dir: &Path, ended_max: usize) -> Result<(JobStore, Vec<Stored>)> {
        let dir = std::path::absolute(dir).map_err(|e| unusable(dir, &e))?;
        let made = fs::create_dir_all(dir.join("jobs")).and_then(|()| sync_folder(&dir));
        made.map_err(|e| unusable(&dir, &e))?;
        let lock = lock(&dir)?;
        let mut stored = Vec::new();
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(dir.join("jobs")).map_err(|e| unusable(&dir, &e))? {
            let path = entry.map_err(|e| unusable(&dir, &e))?.path();
            match read(&path) {
                Some(Stored::Record(record)) => {
                    records.insert(record.id.clone(), (*record).clone());
                    stored.push(Stored::Record(record));
                }
                Some(broken) => stored.push(broken),
                None => {}
            }
        }
        stored.sort_by_key(|stored| match stored {
            Stored::Record(record) => record.submitted_ms,
            Stored::Broken { .. } => i64::MIN,
        });
        Ok((JobStore { dir, ended_max, records: Mutex::new(records), _lock: lock }, stored))
    }

    /// Where checkpoints of jobs go that name no other place.
    pub fn checkpoints(&self) -> String {
        self.dir.join("checkpoints").display().to_string()
    }

    /// Where a job's record is.
    pub fn path(&self, id: &str) -> PathBuf {
        self.dir.join("jobs").join(format!("{id}.json"))
    }

    /// Keeps a record; it is on the disk when this returns.
    pub fn put(&self, record: JobRecord) -> Result<()> {
        let text = serde_json::to_vec_pretty(&record).map_err(|e| Error::internal(e.to_string()))?;
        let path = self.path(&record.id);
        write_durably(&path, &text).map_err(|e| {
            Error::job(format!("The record of job {} cannot be written to '{}': {e}.", record.id, path.display()))
        })?;
        self.lock().insert(record.id.clone(), record);
        Ok(())
    }

    fn change(&self, id: &JobId, change: impl FnOnce(&mut JobRecord)) -> Result<()> {
        let record = self.lock().get(id.as_str()).cloned();
        let Some(mut record) = record else { return Ok(()) };
        change(&mut record);
        self.put(record)
    }

    /// Forgets the oldest of the ended jobs.
    fn forget(&self) {
        let mut records = self.lock();
        let mut ended: Vec<(i64, String)> =
            records.values().filter_map(|record| Some((record.end.as_ref()?.ended_ms(), record.id.clone()))).collect();
        ended.sort();
        let surplus = ended.len().saturating_sub(self.ended_max);
        for (_, id) in ended.into_iter().take(surplus) {
            records.remove(&id);
            // A record that stays is one more to look back at.
            let _ = fs::remove_file(self.path(&id));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, JobRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobRecords for JobStore {
    fn stopping(&self, job: &JobId, savepoint: &StopSavepoint) -> Result<()> {
        self.change(job, |record| record.savepoint = Some(savepoint.into()))
    }

    fn restarted(&self, job: &JobId, times: u64) -> Result<()> {
        self.change(job, |record| record.restarts = times)
    }

    fn ended(&self, job: &EndedJob) -> Result<()> {
        self.change(&job.id, |record| record.end = Some(End::of(job)))?;
        self.forget();
        Ok(())
    }
}

fn unusable(dir: &Path, e: &io::Error) -> Error {
    Error::invalid(format!("The state folder '{}' cannot be used: {e}.", dir.display()))
}

/// Takes the lock that the system lets go when the process dies.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let opened = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = opened.map_err(|e| unusable(dir, &e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // It says who only to help.
            let _ = file.read_to_string(&mut owner);
            let owner = Some(owner.trim()).filter(|pid| !pid.is_empty()).map(|pid| format!(" (process {pid})"));
            return Err(Error::invalid(format!(
                "The state folder '{}' is in use by another `tidegate standalone`{}. Stop that one, or give this one a \
                 folder of its own.",
                dir.display(),
                owner.unwrap_or_default()
            )));
        }
        Err(TryLockError::Error(e)) => return Err(unusable(dir, &e)),
    }
    let named = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    named.map_err(|e| unusable(dir, &e))?;
    Ok(file)
}

/// What a file of the folder holds; `None` if it is none of ours.
fn read(path: &Path) -> Option<Stored> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with('.') {
        // Written when the process died; the record it was to replace is there.
        let _ = fs::remove_file(path);
        return None;
    }
    let id = JobId::parse(name.strip_suffix(".json")?)?;
    let found = fs::read(path).map_err(|e| e.to_string()).and_then(|text| JobRecord::parse(&text));
    let reason = match found {
        Ok(record) if record.id == id.as_str() => return Some(Stored::Record(Box::new(record))),
        Ok(record) => format!("it is the record of job {}", record.id),
        Err(why) => why,
    };
    let reason = format!(
        "Its record '{}' cannot be read: {reason}. Put a good copy in its place and start again, or remove it and submit \
         the script again; its checkpoints are left alone.",
        path.display()
    );
    Some(Stored::Broken { id, reason })
}

/// Replaces a file so that it holds the old text or the new one, whenever the machine stops.
fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it is no file's path"));
    };
    let temporary = folder.join(format!(".{}.new", name.to_string_lossy()));
    let written = (|| {
        let mut file = create_private(&temporary)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Half a file helps nobody, and takes space that may be what is missing.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_folder(folder))
}

/// Settings of a job may hold passwords.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A new name must survive a power failure.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}
