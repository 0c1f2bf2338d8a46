//! What crashes leave over.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use tidegate_api::fail_point::{self, FailPoint};

use crate::storage::folder::{create, delete};
use crate::storage::layout::{METADATA, TASK_OWNED, VOID, parent};
use crate::storage::{CheckpointStorage, StorageError, resolve};

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files deleted.
    pub deleted: usize,
    /// Files that nobody names and that were too young to be judged.
    pub young: usize,
}

impl CheckpointStorage {
    /// Deletes files of this job that no manifest names and that were last changed before `cutoff_ms`
    /// (by the store's clock): the earlier of the start of this attempt and the trigger of the oldest
    /// checkpoint in progress, less what clocks may differ. Every manifest is read first; if one cannot
    /// be, nothing is deleted.
    ///
    /// A folder without a manifest gets a void in its place before its files go, so that a job manager
    /// that does not know yet that it was replaced cannot complete that checkpoint.
    pub async fn sweep(&self, cutoff_ms: i64) -> Result<Swept, StorageError> {
        let root = &self.root;
        if !self.is_own_root {
            return Err(StorageError::SharedRoot { root: root.url(&root.path) });
        }
        // Files before manifests: one that is named only by a manifest that comes now is not listed.
        let listed: Vec<_> = root
            .store
            .list(Some(&root.path))
            .try_collect::<Vec<_>>()
            .await
            .map_err(StorageError::store("list", root, &root.path))?;
        let mut needed: BTreeSet<Path> = BTreeSet::new();
        for loaded in self.complete().await? {
            needed.extend(loaded.manifest.files().map(|file| resolve(&loaded.folder.path, file)));
            needed.insert(loaded.folder.path.join(METADATA));
        }
        let task_owned = root.path.clone().join(TASK_OWNED);
        let mut swept = Swept::default();
        // Folders by whether their files may go.
        let mut voided: BTreeMap<Path, bool> = BTreeMap::new();
        for object in listed {
            let path = object.location;
            if needed.contains(&path) || path.prefix_matches(&task_owned) {
                continue;
            }
            if object.last_modified.timestamp_millis() >= cutoff_ms {
                swept.young += 1;
                continue;
            }
            let folder = parent(&path);
            let metadata = folder.clone().join(METADATA);
            let is_void = path == metadata;
            let in_checkpoint = folder.filename().is_some_and(|name| name.starts_with("chk-"));
            if in_checkpoint && !is_void {
                if !voided.contains_key(&folder) {
                    let is_void = match create(root, &metadata, Bytes::from_static(VOID)).await {
                        Ok(()) => true,
                        // It was completed after all: the next sweep knows what it names.
                        Err(StorageError::Occupied { .. }) => false,
                        Err(error) => return Err(error),
                    };
                    voided.insert(folder.clone(), is_void);
                }
                if voided.get(&folder) == Some(&false) {
                    continue;
                }
            }
            delete(root, path).await?;
            swept.deleted += 1;
            fail_point::reached(FailPoint::DuringSweep);
        }
        Ok(swept)
    }
}
