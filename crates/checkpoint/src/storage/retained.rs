//! Which files are needed: reference counts over complete checkpoints and those in progress. Pure.
//!
//! A file is needed while a complete checkpoint names it, or one in progress has acknowledged it. One
//! that is needed no more is deleted only when every checkpoint that had begun by then is over: a task
//! may have decided to name it and not said so yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use object_store::path::Path;

use crate::ids::CheckpointId;
use crate::manifest::{FilePlace, FileRef};
use crate::storage::{Loaded, METADATA, resolve};

/// Paths to delete, manifests before files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is condemned here is known nowhere else"]
pub struct Condemned {
    /// Manifests.
    pub manifests: Vec<String>,
    /// Files no manifest names any more.
    pub files: Vec<String>,
}

#[derive(Clone, Debug)]
struct Complete {
    id: CheckpointId,
    manifest: String,
    files: BTreeSet<String>,
}

/// The checkpoints of a job and the files they need.
#[derive(Clone, Debug)]
pub struct Retained {
    max: usize,
    /// Oldest first.
    complete: VecDeque<Complete>,
    /// In progress, with the files acknowledged so far.
    open: BTreeMap<CheckpointId, BTreeSet<String>>,
    latest_begun: CheckpointId,
    /// Files of finished tasks: every later checkpoint will name them.
    carried: BTreeSet<String>,
    /// Files that nobody is known to need, and the newest checkpoint that had begun by then.
    doomed: BTreeMap<String, CheckpointId>,
}

impl Retained {
    /// A job that keeps the `max` newest checkpoints, and has these: a claimed snapshot first, then its
    /// own, oldest first.
    pub fn restore(max: usize, complete: &[Loaded]) -> Retained {
        let entry = |loaded: &Loaded| Complete {
            id: loaded.manifest.checkpoint,
            manifest: loaded.folder.path.clone().join(METADATA).to_string(),
            files: paths(&loaded.folder.path, loaded.manifest.files()),
        };
        Retained {
            max: max.max(1),
            complete: complete.iter().map(entry).collect(),
            open: BTreeMap::new(),
            carried: BTreeSet::new(),
            latest_begun: complete.iter().map(|l| l.manifest.checkpoint).max().unwrap_or(CheckpointId(0)),
            doomed: BTreeMap::new(),
        }
    }

    /// Complete checkpoints, oldest first.
    pub fn complete(&self) -> impl Iterator<Item = CheckpointId> {
        self.complete.iter().map(|entry| entry.id)
    }

    /// A checkpoint begins.
    pub fn begun(&mut self, id: CheckpointId) {
        self.latest_begun = self.latest_begun.max(id);
        self.open.entry(id).or_default();
    }

    /// A task has acknowledged these files for a checkpoint in progress, whose folder is `folder`.
    pub fn acknowledged<'a>(&mut self, id: CheckpointId, folder: &Path, files: impl Iterator<Item = &'a FileRef>) {
        if let Some(open) = self.open.get_mut(&id) {
            open.extend(paths(folder, files));
        }
    }

    /// A task is finished and left these files, which are not a checkpoint's own.
    pub fn carried<'a>(&mut self, root: &Path, files: impl Iterator<Item = &'a FileRef>) {
        // Any checkpoint's folder resolves them alike.
        self.carried.extend(paths(&root.clone().join("chk-0"), files));
    }

    /// Files that `files` names and that were given up already: a manifest that names them must not be
    /// stored.
    pub fn given_up<'a>(&self, folder: &Path, files: impl Iterator<Item = &'a FileRef>) -> Vec<String> {
        let named = paths(folder, files);
        named.into_iter().filter(|path| self.doomed.contains_key(path) && !self.is_needed(path)).collect()
    }

    /// A checkpoint is complete: those that are too many go.
    pub fn stored(&mut self, loaded: &Loaded) -> Condemned {
        let id = loaded.manifest.checkpoint;
        let acknowledged = self.open.remove(&id).unwrap_or_default();
        let files = paths(&loaded.folder.path, loaded.manifest.files());
        let manifest = loaded.folder.path.clone().join(METADATA).to_string();
        let place = self.complete.iter().take_while(|entry| entry.id < id).count();
        self.complete.insert(place, Complete { id, manifest, files });
        let mut condemned = Condemned::default();
        while self.complete.len() > self.max {
            if let Some(oldest) = self.complete.pop_front() {
                condemned.manifests.push(oldest.manifest);
                self.doom(oldest.files);
            }
        }
        self.doom(acknowledged);
        self.collect(&mut condemned);
        condemned
    }

    /// A checkpoint will never exist, or was a savepoint that has its own copies: its files go, and
    /// these late ones.
    pub fn discarded<'a>(
        &mut self,
        id: CheckpointId,
        folder: &Path,
        late: impl Iterator<Item = &'a FileRef>,
    ) -> Condemned {
        let mut files = self.open.remove(&id).unwrap_or_default();
        files.extend(paths(folder, late));
        self.doom(files);
        let mut condemned = Condemned::default();
        self.collect(&mut condemned);
        condemned
    }

    /// A checkpoint is over, and it is not known whether its manifest exists: its files stay.
    pub fn unknown(&mut self, id: CheckpointId) {
        self.open.remove(&id);
    }

    /// The job is over and keeps nothing.
    pub fn all(&mut self) -> Condemned {
        let mut condemned = Condemned::default();
        let open = std::mem::take(&mut self.open);
        let carried = std::mem::take(&mut self.carried);
        for entry in std::mem::take(&mut self.complete) {
            condemned.manifests.push(entry.manifest);
            self.doom(entry.files);
        }
        self.doom(open.into_values().flatten().chain(carried));
        self.collect(&mut condemned);
        condemned
    }

    /// True if a complete checkpoint names this file, by path in the store.
    pub fn is_complete_file(&self, path: &str) -> bool {
        self.complete.iter().any(|entry| entry.files.contains(path))
    }

    fn is_needed(&self, path: &str) -> bool {
        self.is_complete_file(path) || self.carried.contains(path) || self.open.values().any(|open| open.contains(path))
    }

    /// Candidates for deletion; [`Retained::collect`] spares those that are needed.
    fn doom(&mut self, files: impl IntoIterator<Item = String>) {
        let begun = self.latest_begun;
        self.doomed.extend(files.into_iter().map(|file| (file, begun)));
    }

    /// Condemns the doomed that no checkpoint still in progress can come to name.
    fn collect(&mut self, condemned: &mut Condemned) {
        let oldest_open = self.open.keys().next().copied();
        let doomed = std::mem::take(&mut self.doomed);
        for (file, begun) in doomed {
            if self.is_needed(&file) {
                continue;
            }
            match oldest_open {
                Some(open) if open <= begun => drop(self.doomed.insert(file, begun)),
                _ => condemned.files.push(file),
            }
        }
    }
}

/// The files a coordinator may delete, by path in the store.
fn paths<'a>(folder: &Path, files: impl Iterator<Item = &'a FileRef>) -> BTreeSet<String> {
    files.filter(|file| file.place != FilePlace::TaskOwned).map(|file| resolve(folder, file).to_string()).collect()
}
