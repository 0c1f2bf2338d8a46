//! Files a manifest names.

use serde::{Deserialize, Serialize};

use crate::manifest::ManifestError;

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePlace {
    /// Beside the manifest, for it alone. The path is relative to the manifest's folder, so that the
    /// folder can be moved.
    Exclusive,
    /// In `shared/` of the job: later checkpoints may name it too. Relative to that folder.
    Shared,
    /// In `taskowned/` of the job: written and deleted by tasks, never by the coordinator.
    TaskOwned,
    /// In a snapshot that this job was restored from and has taken over (claim mode `CLAIM`). The path
    /// is from the root of the same store.
    Claimed,
}

/// A file a manifest names. Files are immutable: one name, one content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileRef {
    /// Which folder the path is relative to.
    pub place: FilePlace,
    /// Path with `/` between its parts.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
}

impl FileRef {
    /// A file of these bytes.
    pub fn new(place: FilePlace, path: impl Into<String>, bytes: u64) -> FileRef {
        FileRef { place, path: path.into(), bytes }
    }

    /// Refuses a path that would leave its folder, or that a store cannot keep as it stands.
    pub fn check(&self) -> Result<(), ManifestError> {
        let plain = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && !part.starts_with('_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.=".contains(&b))
        };
        // Claimed paths come from a folder of the user's choice; only the way out is barred there.
        let good = match self.place {
            FilePlace::Claimed => self.path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."),
            _ => self.path.split('/').all(plain),
        };
        if good { Ok(()) } else { Err(ManifestError::BadPath { path: self.path.clone() }) }
    }
}
