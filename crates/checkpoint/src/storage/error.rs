//! What can go wrong, and what to do.

use crate::manifest::ManifestError;
use crate::storage::Place;
use crate::storage::reason::why;

/// What can go wrong with storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The location is none.
    #[error("'{url}' is no place for checkpoints: {reason}")]
    Location {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// There is no manifest.
    #[error("Cannot find meta data file '_metadata' in directory '{folder}'. {hint}")]
    NoManifest {
        /// The folder.
        folder: String,
        /// What is there instead.
        hint: String,
    },
    /// The manifest cannot be used.
    #[error("'{path}': {source}")]
    Manifest {
        /// The manifest.
        path: String,
        /// Why.
        source: ManifestError,
    },
    /// A file the manifest names is not there as it was.
    #[error(
        "'{folder}' is incomplete: {count} files are missing or cut, the first is '{first}'. It was copied without them, \
         or something else deletes in that folder. Use another checkpoint"
    )]
    MissingFiles {
        /// The checkpoint's folder.
        folder: String,
        /// The first such file.
        first: String,
        /// How many.
        count: usize,
    },
    /// A file the manifest names was given up before; a bug of whoever named it.
    #[error(
        "'{folder}' would name '{file}', which no complete checkpoint needed any more: state stores may build only on \
         files of checkpoints they were told are complete"
    )]
    GivenUp {
        /// The checkpoint's folder.
        folder: String,
        /// The file.
        file: String,
    },
    /// Somebody else wrote there.
    #[error("'{path}' exists with other content: another job manager runs this job. This one must stop")]
    Occupied {
        /// The file.
        path: String,
    },
    /// A snapshot cannot be taken over where it lies.
    #[error(
        "'{folder}' cannot be claimed: it lies in another store than the job's checkpoints. Use \
         'execution.state-recovery.claim-mode' = 'NO_CLAIM', or set 'execution.checkpointing.dir' to the same store"
    )]
    ClaimElsewhere {
        /// The snapshot.
        folder: String,
    },
    /// The store writes over what is there, although it was told not to.
    #[error(
        "the store of '{folder}' takes no conditional writes ('If-None-Match: *'): two job managers could write one \
         checkpoint over the other. Use another store, or a newer release of it"
    )]
    Unconditional {
        /// Where that was found.
        folder: String,
    },
    /// Sweeping would touch what is not this job's.
    #[error("checkpoints of several jobs may lie in '{root}' (no folder for each job), so nothing is swept there")]
    SharedRoot {
        /// The folder.
        root: String,
    },
    /// The manifest may have been stored or not, and nobody can tell now.
    #[error("it is not known whether '{path}' was written: {}. Its files stay until the next recovery", why(source))]
    Unknown {
        /// The manifest.
        path: String,
        /// What the store said.
        source: object_store::Error,
    },
    /// The store failed.
    #[error("could not {action} '{path}': {}", why(source))]
    Store {
        /// Read, write, list, delete, copy.
        action: &'static str,
        /// Which object, as users write it.
        path: String,
        /// What the store said.
        source: object_store::Error,
    },
}

impl StorageError {
    /// True if a manifest that could not be stored may be there all the same.
    pub fn is_unknown(&self) -> bool {
        matches!(self, StorageError::Unknown { .. })
    }

    /// True if what could not be written cannot come to be there later either: the store has refused the place.
    pub(super) fn is_final(&self) -> bool {
        use std::io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem};
        let StorageError::Store { source, .. } = self else { return false };
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(source);
        while let Some(error) = next {
            let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            if matches!(kind, Some(NotADirectory | PermissionDenied | ReadOnlyFilesystem)) {
                return true;
            }
            next = error.source();
        }
        false
    }

    pub(super) fn store(
        action: &'static str,
        place: &Place,
        path: &object_store::path::Path,
    ) -> impl FnOnce(object_store::Error) -> Self {
        let path = place.url(path);
        move |source| StorageError::Store { action, path, source }
    }
}
