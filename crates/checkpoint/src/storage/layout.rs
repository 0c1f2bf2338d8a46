//! Names of folders and files.

use object_store::path::Path;

use crate::ids::{CheckpointId, JobId};
use crate::manifest::{FilePlace, FileRef};

/// The name of a manifest.
pub const METADATA: &str = "_metadata";

pub(super) const SHARED: &str = "shared";
pub(super) const TASK_OWNED: &str = "taskowned";

/// What stands in the place of a manifest that will never be written.
pub(super) const VOID: &[u8] = b"TIDEVOID";

/// Where a file that a manifest in `folder` names lies in the store.
pub fn resolve(folder: &Path, file: &FileRef) -> Path {
    match file.place {
        FilePlace::Exclusive => below(folder, &file.path),
        FilePlace::Shared => below(&parent(folder).join(SHARED), &file.path),
        FilePlace::TaskOwned => below(&parent(folder).join(TASK_OWNED), &file.path),
        FilePlace::Claimed => Path::from(file.path.as_str()),
    }
}

pub(super) fn below(folder: &Path, relative: &str) -> Path {
    relative.split('/').fold(folder.clone(), |path, part| path.join(part))
}

pub(super) fn parent(folder: &Path) -> Path {
    let parts: Vec<_> = folder.parts().collect();
    Path::from_iter(parts.into_iter().rev().skip(1).collect::<Vec<_>>().into_iter().rev())
}

pub(super) fn checkpoint_folder(root: &Path, id: CheckpointId) -> Path {
    root.clone().join(format!("chk-{id}"))
}

/// The number of a checkpoint's folder.
pub(super) fn checkpoint_id(folder: &Path) -> Option<CheckpointId> {
    folder.filename()?.strip_prefix("chk-")?.parse().ok().map(CheckpointId)
}

/// The name of a savepoint's folder; `random` keeps two apart.
pub(super) fn savepoint_name(job: &JobId, random: u64) -> String {
    format!("savepoint-{}-{:012x}", &job.as_str()[..6], random & 0xffff_ffff_ffff)
}
