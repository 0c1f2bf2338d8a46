//! What a job finds of itself after its process died.

use crate::ids::JobId;
use crate::storage::folder::{load_folder, read_manifest};
use crate::storage::{CheckpointStorage, Loaded, StorageError};

impl CheckpointStorage {
    /// The complete checkpoints of this job, oldest first. The newest is looked at with all its files, and one
    /// that cannot be read is an error: what sinks have published since the one before would be published again.
    /// Older ones that cannot be read are passed over.
    pub async fn resume(&self, job: &JobId) -> Result<Vec<Loaded>, StorageError> {
        let complete = self.list().await?.into_iter().filter(|(_, complete)| *complete).map(|(id, _)| id);
        let mut found: Vec<Loaded> = Vec::new();
        for id in complete.rev() {
            let folder = self.folder(id);
            if found.is_empty() {
                let loaded = load_folder(folder).await?;
                // A folder may be shared with jobs that are no business of this one.
                if loaded.manifest.job == *job {
                    found.push(loaded);
                }
            } else if let Ok(manifest) = read_manifest(&folder).await
                && manifest.job == *job
            {
                found.push(Loaded { manifest, folder });
            }
        }
        found.reverse();
        Ok(found)
    }
}
