//! The parts of one writer: one in progress per folder, of which a bounded number has its file open.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_api::{Error, Result};

use super::disk::Disk;
use super::part::{InProgressPart, PartSnapshot, PendingPart};
use super::rolling::{Checks, RollingPolicy};

/// Files a writer holds open: for one more, the one that was not written to for the longest is closed. Its part
/// stays in progress.
pub(super) const OPEN_FILES: usize = 128;

/// What a writer's part of a checkpoint says about parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartsSnapshot {
    /// What all its parts' names begin with; no other writer ever uses it.
    pub name: String,
    /// Parts below this number are published, pending in the checkpoint, or in `open`.
    pub parts: u64,
    /// Parts in progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<PartSnapshot>,
    /// Format and columns of what is in them.
    #[serde(default)]
    pub format: String,
}

impl PartsSnapshot {
    /// Whether a file is a hidden part that was begun after the snapshot: its rows come again.
    fn is_leftover(&self, path: &Path) -> bool {
        let number = || {
            let rest = path.file_name()?.to_str()?.strip_prefix('.')?.strip_prefix(self.name.as_str())?;
            let (number, _) = rest.strip_prefix('-')?.split_once(".inprogress")?;
            number.parse::<u64>().ok()
        };
        number().is_some_and(|number| number >= self.parts)
    }
}

/// Removes what writers had begun after their snapshots. Nobody reads hidden files: what cannot be listed or
/// removed only takes space, and what is locked belongs to somebody who is alive.
pub(super) fn remove_leftovers(disk: &dyn Disk, folder: &Path, of: &[PartsSnapshot]) {
    for (path, is_folder) in disk.list(folder).unwrap_or_default() {
        if is_folder {
            remove_leftovers(disk, &path, of);
        } else if of.iter().any(|writer| writer.is_leftover(&path)) {
            let is_mine = disk.open(&path).and_then(|mut file| file.lock()).unwrap_or(false);
            if is_mine {
                let _ = disk.remove(&path);
            }
        }
    }
}

/// Where and how parts are written.
pub(super) struct PartsPlace {
    pub disk: Arc<dyn Disk>,
    /// The table's folder.
    pub root: PathBuf,
    pub policy: RollingPolicy,
    /// Format and columns: only what is written the same way is appended to.
    pub format: String,
}

/// The parts of one writer.
pub(super) struct Parts {
    place: PartsPlace,
    name: String,
    /// Number of the next part.
    next: u64,
    checks: Checks,
    /// Parts in progress by folder below the root.
    in_progress: BTreeMap<String, InProgressPart>,
    /// Those with an open file, by when it was used last.
    open: BTreeMap<u64, String>,
    /// The turn each of them was used in.
    used: BTreeMap<String, u64>,
    turn: u64,
    /// Whole files that no barrier has handed over.
    pending: Vec<PendingPart>,
    /// Folders with new names.
    unsynced: BTreeSet<PathBuf>,
    /// Parts below this number are known to a barrier.
    handed_over: u64,
}

impl Parts {
    /// Goes on from what checkpoints remember of the writers this one takes over from.
    pub(super) fn new(place: PartsPlace, subtask: usize, restored: &[PartsSnapshot], now_ms: i64) -> Result<Parts> {
        let mut parts = Parts {
            name: format!("part-{}-{subtask}", random_uuid()),
            next: 0,
            checks: Checks::new(&place.policy, now_ms),
            place,
            in_progress: BTreeMap::new(),
            open: BTreeMap::new(),
            used: BTreeMap::new(),
            turn: 0,
            pending: Vec::new(),
            unsynced: BTreeSet::new(),
            handed_over: 0,
        };
        for snapshot in restored {
            for state in &snapshot.open {
                parts.resume(state, snapshot.format == parts.place.format, now_ms)?;
            }
        }
        if !restored.is_empty() {
            remove_leftovers(parts.disk().as_ref(), &parts.place.root, restored);
        }
        Ok(parts)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.place.disk)
    }

    /// A part goes on if it still has its place; if another has it, or the table has moved or writes otherwise,
    /// it is finished as it is.
    fn resume(&mut self, state: &PartSnapshot, is_same_format: bool, now_ms: i64) -> Result<()> {
        let part = InProgressPart::resume(self.place.disk.as_ref(), state.clone(), now_ms)?;
        let has_place = part.folder() == Some(self.place.root.join(part.directory()).as_path());
        if is_same_format && has_place && !self.in_progress.contains_key(part.directory()) {
            return self.put_back(part);
        }
        self.finish(part)
    }

    /// Gives the records that `records` makes to the part of a folder.
    pub(super) fn write(
        &mut self,
        directory: &str,
        now_ms: i64,
        records: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let disk = self.disk();
        let mut part = match self.take(directory) {
            Some(part) => part,
            None => self.begin(directory, now_ms)?,
        };
        records(&mut |record| {
            if self.place.policy.is_full(part.bytes()) {
                let next = self.begin(directory, now_ms)?;
                self.finish(std::mem::replace(&mut part, next))?;
            }
            part.append(disk.as_ref(), record)
        })?;
        part.updated(now_ms);
        self.put_back(part)
    }

    fn begin(&mut self, directory: &str, now_ms: i64) -> Result<InProgressPart> {
        let name = format!("{}-{}", self.name, self.next);
        self.next += 1;
        let PartsPlace { disk, root, .. } = &self.place;
        let part = InProgressPart::begin(disk.as_ref(), root, directory, &name, &random_uuid(), now_ms)?;
        self.unsynced.extend(part.folder().map(Path::to_owned));
        Ok(part)
    }

    fn take(&mut self, directory: &str) -> Option<InProgressPart> {
        if let Some(turn) = self.used.remove(directory) {
            self.open.remove(&turn);
        }
        self.in_progress.remove(directory)
    }

    fn put_back(&mut self, part: InProgressPart) -> Result<()> {
        let directory = part.directory().to_owned();
        if part.is_open() {
            self.turn += 1;
            self.open.insert(self.turn, directory.clone());
            self.used.insert(directory.clone(), self.turn);
        }
        self.in_progress.insert(directory, part);
        while self.open.len() > OPEN_FILES {
            let Some((_, idle)) = self.open.pop_first() else { break };
            self.used.remove(&idle);
            if let Some(part) = self.in_progress.get_mut(&idle) {
                part.park(self.place.disk.as_ref())?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, part: InProgressPart) -> Result<()> {
        self.pending.push(part.finish(self.place.disk.as_ref())?);
        Ok(())
    }

    fn finish_those(&mut self, is_over: impl Fn(&InProgressPart) -> bool) -> Result<()> {
        let over = self.in_progress.values().filter(|part| is_over(part));
        let over: Vec<String> = over.map(|part| part.directory().to_owned()).collect();
        over.iter().try_for_each(|directory| self.finish_directory(directory))
    }

    /// Finishes the part of a folder, if one is in progress.
    pub(super) fn finish_directory(&mut self, directory: &str) -> Result<()> {
        self.take(directory).map_or(Ok(()), |part| self.finish(part))
    }

    pub(super) fn finish_all(&mut self) -> Result<()> {
        self.finish_those(|_| true)
    }

    /// Makes the checks that are due: finishes what is too old or was idle for too long.
    pub(super) fn check(&mut self, now_ms: i64) -> Result<()> {
        let Some(as_of_ms) = self.checks.due(now_ms) else { return Ok(()) };
        let policy = self.place.policy.clone();
        self.finish_those(|part| policy.is_over(part.created_ms(), part.updated_ms(), as_of_ms))
    }

    /// Writes what is buffered.
    pub(super) fn flush(&mut self) -> Result<()> {
        let disk = self.disk();
        let mut open = self.in_progress.values_mut().filter(|part| part.is_open());
        open.try_for_each(|part| part.flush(disk.as_ref()))
    }

    /// A barrier: finishes what is too large, makes everything durable, and hands the whole files over.
    pub(super) fn hand_over(&mut self) -> Result<Vec<PendingPart>> {
        let policy = self.place.policy.clone();
        self.finish_those(|part| policy.is_full(part.bytes()))?;
        let disk = self.disk();
        self.in_progress.values_mut().try_for_each(|part| part.sync(disk.as_ref()))?;
        for folder in std::mem::take(&mut self.unsynced) {
            disk.sync_folder(&folder)
                .map_err(|e| Error::job(format!("The folder '{}' cannot be synced: {e}.", folder.display())))?;
        }
        self.handed_over = self.next;
        Ok(std::mem::take(&mut self.pending))
    }

    /// What a checkpoint keeps, right after [`Parts::hand_over`].
    pub(super) fn snapshot(&self) -> PartsSnapshot {
        PartsSnapshot {
            name: self.name.clone(),
            parts: self.next,
            open: self.in_progress.values().map(InProgressPart::snapshot).collect(),
            format: self.place.format.clone(),
        }
    }

    /// Whether no part is in progress and none waits to be handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.in_progress.is_empty() && self.pending.is_empty()
    }

    /// Whether a part of a folder is in progress.
    pub(super) fn is_in_progress(&self, directory: &str) -> bool {
        self.in_progress.contains_key(directory)
    }
}

impl Drop for Parts {
    /// Parts that no barrier has seen are worth nothing once their writer is gone.
    fn drop(&mut self) {
        let in_progress = self.in_progress.values().map(|part| part.snapshot().hidden);
        let hidden: Vec<PathBuf> = in_progress.chain(self.pending.iter().map(|part| part.hidden.clone())).collect();
        let unseen = PartsSnapshot { name: self.name.clone(), parts: self.handed_over, ..PartsSnapshot::default() };
        for path in hidden.iter().filter(|path| unseen.is_leftover(path)) {
            // What cannot be removed only takes space.
            let _ = self.place.disk.remove(path);
        }
    }
}

/// A random version 4 UUID: part files of different jobs must never meet.
fn random_uuid() -> String {
    let bits: u128 = rand::random();
    let bits = bits & !(0xf << 76) | 4 << 76;
    let bits = bits & !(0b11 << 62) | 0b10 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_say_that_they_are_random_ones() {
        let uuid = random_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uuid}");
    }

    #[test]
    fn leftovers_are_told_by_name_and_number() {
        let snapshot = PartsSnapshot { name: "part-u-1".into(), parts: 3, ..PartsSnapshot::default() };
        let is_leftover = |name: &str| snapshot.is_leftover(&Path::new("/t/dt=1").join(name));
        assert!(is_leftover(".part-u-1-3.inprogress.x") && is_leftover(".part-u-1-10.inprogress.x"));
        assert!(!is_leftover(".part-u-1-2.inprogress.x"), "the checkpoint knows it");
        assert!(!is_leftover("part-u-1-3") && !is_leftover(".part-u-11-3.inprogress.x"));
    }
}
