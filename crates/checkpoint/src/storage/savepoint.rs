//! Savepoints: a checkpoint made self-contained.

use std::collections::BTreeMap;

use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::manifest::{FilePlace, FileRef, Manifest};
use crate::storage::folder::{create, delete, put_manifest, read};
use crate::storage::{CheckpointStorage, Loaded, Place, StorageError, layout, resolve};

impl CheckpointStorage {
    /// Copies all that a savepoint needs into a folder of its own in `target` and writes its manifest
    /// there. The files of the checkpoint it was made from are untouched. `random` names the folder.
    pub async fn store_savepoint(
        &self,
        manifest: &Manifest,
        target: &Place,
        random: u64,
    ) -> Result<Loaded, StorageError> {
        let source = self.folder(manifest.checkpoint).path;
        let folder = target.below(&layout::savepoint_name(&manifest.job, random));
        let mut copied: BTreeMap<Path, FileRef> = BTreeMap::new();
        let mut manifest = manifest.clone();
        for file in manifest.files_mut() {
            let from = resolve(&source, file);
            let number = copied.len();
            // Files of different folders may share a name.
            let name = || format!("{number:06}-{}", from.filename().unwrap_or("file"));
            let to =
                copied.entry(from.clone()).or_insert_with(|| FileRef::new(FilePlace::Exclusive, name(), file.bytes));
            *file = to.clone();
        }
        let outcome = self.fill(&folder, &manifest, &copied).await;
        if outcome.as_ref().is_err_and(|error| !error.is_unknown()) {
            for file in copied.values() {
                // What cannot be deleted now is in a folder without a manifest: it is no savepoint.
                let _ = delete(&folder, resolve(&folder.path, file)).await;
            }
        }
        outcome?;
        Ok(Loaded { manifest, folder })
    }

    async fn fill(
        &self,
        folder: &Place,
        manifest: &Manifest,
        copied: &BTreeMap<Path, FileRef>,
    ) -> Result<(), StorageError> {
        for (from, file) in copied {
            let to = resolve(&folder.path, file);
            if folder.is_same_store(&self.root) {
                self.root.store.copy(from, &to).await.map_err(StorageError::store("copy", &self.root, from))?;
            } else {
                create(folder, &to, read(&self.root, from).await?).await?;
            }
        }
        put_manifest(folder, manifest).await
    }
}
