//! The folder of one job: files in, manifest last, and back.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tidegate_api::fail_point::{self, FailPoint};

use crate::ids::{CheckpointId, JobId};
use crate::manifest::{FilePlace, FileRef, Manifest, ManifestError, decode, encode};
use crate::storage::layout::{self, METADATA, VOID};
use crate::storage::reason::why;
use crate::storage::{Condemned, Place, Retained, StorageError, resolve};

/// Requests to the store at one time.
const CONCURRENT: usize = 16;

/// The checkpoints of one job.
#[derive(Clone, Debug)]
pub struct CheckpointStorage {
    pub(super) root: Place,
    /// False if other jobs keep their checkpoints in the same folder.
    pub(super) is_own_root: bool,
}

/// A complete checkpoint or savepoint.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it consists of.
    pub manifest: Manifest,
    /// Where.
    pub folder: Place,
}

impl Loaded {
    /// Its folder as users write it.
    pub fn location(&self) -> String {
        self.folder.url(&self.folder.path)
    }

    /// The manifest for a job that takes the snapshot over (claim mode `CLAIM`): it names files by
    /// where they lie, so that later checkpoints can name them too.
    pub fn claimed(&self, job: &CheckpointStorage) -> Result<Manifest, StorageError> {
        if !self.folder.is_same_store(&job.root) {
            return Err(StorageError::ClaimElsewhere { folder: self.location() });
        }
        let mut manifest = self.manifest.clone();
        for file in manifest.files_mut().filter(|file| file.place != FilePlace::TaskOwned) {
            *file = FileRef::new(FilePlace::Claimed, resolve(&self.folder.path, file).to_string(), file.bytes);
        }
        Ok(manifest)
    }
}

impl CheckpointStorage {
    /// The checkpoints of `job` in `dir`; in a folder of its own unless `create_subdir` is false.
    pub fn new(dir: &Place, job: &JobId, create_subdir: bool) -> CheckpointStorage {
        let root = if create_subdir { dir.below(job.as_str()) } else { dir.clone() };
        CheckpointStorage { root, is_own_root: create_subdir }
    }

    /// The folder of the job.
    pub fn root(&self) -> &Place {
        &self.root
    }

    /// The folder of a checkpoint.
    pub fn folder(&self, id: CheckpointId) -> Place {
        Place { path: layout::checkpoint_folder(&self.root.path, id), ..self.root.clone() }
    }

    /// Writes a file of a checkpoint. The name must be new in its folder; the same bytes once more are
    /// taken for a retry.
    pub async fn put_file(
        &self,
        id: CheckpointId,
        place: FilePlace,
        name: &str,
        bytes: Bytes,
    ) -> Result<FileRef, StorageError> {
        let file = FileRef::new(place, name, bytes.len() as u64);
        let folder = self.folder(id).path;
        file.check().map_err(|source| StorageError::Manifest { path: self.root.url(&folder), source })?;
        let path = resolve(&folder, &file);
        create(&self.root, &path, bytes).await?;
        Ok(file)
    }

    /// Makes a local file that never changes one of a checkpoint without copying it. `None` if that cannot be:
    /// the storage is elsewhere, or the name is taken; then it has to be [put](CheckpointStorage::put_file).
    pub fn link_file(
        &self,
        id: CheckpointId,
        place: FilePlace,
        name: &str,
        local: &std::path::Path,
    ) -> Option<FileRef> {
        let file = FileRef::new(place, name, std::fs::metadata(local).ok()?.len());
        file.check().ok()?;
        let to = self.folder(id).local_path(&file)?;
        let folder = to.parent()?;
        std::fs::create_dir_all(folder).ok()?;
        std::fs::hard_link(local, &to).ok()?;
        // Without its entry in the folder the file is not there after a power failure.
        std::fs::File::open(folder).and_then(|folder| folder.sync_all()).ok()?;
        Some(file)
    }

    /// Reads a file that a manifest in `folder` names.
    pub async fn read_file(&self, folder: &Path, file: &FileRef) -> Result<Bytes, StorageError> {
        read(&self.root, &resolve(folder, file)).await
    }

    /// Makes a checkpoint exist, and says where. Every file it names that no complete checkpoint names is
    /// looked for first. On an error it does not exist, unless that is
    /// [unknown](StorageError::is_unknown).
    pub async fn store(&self, manifest: &Manifest, retained: &Retained) -> Result<Loaded, StorageError> {
        let folder = self.folder(manifest.checkpoint);
        if let Some(file) = retained.given_up(&folder.path, manifest.files()).into_iter().next() {
            let file = folder.url(&Path::from(file.as_str()));
            return Err(StorageError::GivenUp { folder: folder.url(&folder.path), file });
        }
        check_files(&folder, manifest, |path| retained.is_complete_file(path)).await?;
        put_manifest(&folder, manifest).await?;
        Ok(Loaded { manifest: manifest.clone(), folder })
    }

    /// Numbers of all checkpoints that were begun, complete or not, in order; and whether they are
    /// complete.
    pub async fn list(&self) -> Result<Vec<(CheckpointId, bool)>, StorageError> {
        let listed = self.root.store.list_with_delimiter(Some(&self.root.path)).await;
        let listed = listed.map_err(StorageError::store("list", &self.root, &self.root.path))?;
        let mut found = Vec::new();
        for folder in &listed.common_prefixes {
            if let Some(id) = layout::checkpoint_id(folder) {
                let path = folder.clone().join(METADATA);
                let complete = match self.root.store.head(&path).await {
                    Ok(meta) => meta.size != VOID.len() as u64,
                    Err(object_store::Error::NotFound { .. }) => false,
                    Err(source) => return Err(StorageError::store("read", &self.root, &path)(source)),
                };
                found.push((id, complete));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The id after every checkpoint that has left something here, and after `restored`. (One that was
    /// aborted and cleaned away before the process died may lend its number to another.)
    pub async fn next_id(&self, restored: Option<CheckpointId>) -> Result<CheckpointId, StorageError> {
        let begun = self.list().await?.last().map(|(id, _)| *id);
        Ok(begun.max(restored).unwrap_or(CheckpointId(0)).next())
    }

    /// The newest complete checkpoint. One that cannot be read is an error and not passed over: what
    /// sinks have published since the one before would be published again.
    pub async fn latest(&self) -> Result<Option<Loaded>, StorageError> {
        match self.list().await?.iter().rev().find(|(_, complete)| *complete) {
            Some((id, _)) => Ok(Some(load_folder(self.folder(*id)).await?)),
            None => Ok(None),
        }
    }

    /// All complete checkpoints, oldest first, for [`crate::storage::Retained::restore`].
    pub async fn complete(&self) -> Result<Vec<Loaded>, StorageError> {
        let mut loaded = Vec::new();
        for (id, _) in self.list().await?.into_iter().filter(|(_, complete)| *complete) {
            let folder = self.folder(id);
            let manifest = read_manifest(&folder).await?;
            loaded.push(Loaded { manifest, folder });
        }
        Ok(loaded)
    }

    /// Loads a checkpoint or savepoint from its folder or its `_metadata`, with all it needs.
    pub async fn load(place: &Place) -> Result<Loaded, StorageError> {
        let mut folder = place.clone();
        if folder.path.filename() == Some(METADATA) {
            folder.path = layout::parent(&folder.path);
        }
        load_folder(folder).await
    }

    /// Deletes what is condemned: manifests first, so that none is left that names what is gone.
    pub async fn delete(&self, condemned: &Condemned) -> Result<(), StorageError> {
        for (step, paths) in [&condemned.manifests, &condemned.files].into_iter().enumerate() {
            if step > 0 && !condemned.manifests.is_empty() {
                fail_point::reached(FailPoint::DuringDeletion);
            }
            // Boxed one by one: a stream over borrows would not be `Send` in the eyes of the compiler.
            let deletions: Vec<_> =
                paths.iter().map(|path| delete(&self.root, Path::from(path.as_str())).boxed()).collect();
            futures::stream::iter(deletions).buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await?;
        }
        Ok(())
    }
}

pub(super) async fn delete(place: &Place, path: Path) -> Result<(), StorageError> {
    match place.store.delete(&path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(source) => Err(StorageError::store("delete", place, &path)(source)),
    }
}

pub(super) async fn read(place: &Place, path: &Path) -> Result<Bytes, StorageError> {
    let result = place.store.get(path).await.map_err(StorageError::store("read", place, path))?;
    result.bytes().await.map_err(StorageError::store("read", place, path))
}

/// Creates a file, or finds it there with the same bytes.
pub(super) async fn create(place: &Place, path: &Path, bytes: Bytes) -> Result<(), StorageError> {
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match place.store.put_opts(path, PutPayload::from_bytes(bytes.clone()), options).await {
        Ok(_) => Ok(()),
        Err(object_store::Error::AlreadyExists { .. }) if read(place, path).await? == bytes => Ok(()),
        Err(object_store::Error::AlreadyExists { .. }) => Err(StorageError::Occupied { path: place.url(path) }),
        Err(source) => Err(StorageError::store("write", place, path)(source)),
    }
}

/// Creates a manifest and leaves no doubt about it, if that can be had.
pub(super) async fn put_manifest(folder: &Place, manifest: &Manifest) -> Result<(), StorageError> {
    let path = folder.path.clone().join(METADATA);
    let refuse = |source: ManifestError| StorageError::Manifest { path: folder.url(&path), source };
    let bytes = Bytes::from(encode(manifest).map_err(refuse)?);
    match create(folder, &path, bytes.clone()).await {
        Err(error @ StorageError::Store { action: "write", .. }) if error.is_final() => Err(error),
        Err(StorageError::Store { action: "write", source, path: text }) => {
            match create(folder, &path, Bytes::from_static(VOID)).await {
                // The void is there: the manifest is not, and cannot come any more.
                Ok(()) => Err(StorageError::Store { action: "write", source, path: text }),
                // Something is there: the manifest, or what somebody else wrote.
                Err(StorageError::Occupied { .. }) => match read(folder, &path).await {
                    Ok(found) if found == bytes => Ok(()),
                    Ok(_) => Err(StorageError::Occupied { path: folder.url(&path) }),
                    Err(_) => Err(StorageError::Unknown { path: text, source }),
                },
                Err(_) => Err(StorageError::Unknown { path: text, source }),
            }
        }
        // It exists and cannot be compared.
        Err(StorageError::Store { source, path, .. }) => Err(StorageError::Unknown { path, source }),
        outcome => outcome,
    }
}

pub(super) async fn read_manifest(folder: &Place) -> Result<Manifest, StorageError> {
    let path = folder.path.clone().join(METADATA);
    let bytes = match folder.store.get(&path).await {
        Ok(result) => result.bytes().await.map_err(StorageError::store("read", folder, &path))?,
        Err(object_store::Error::NotFound { .. }) => return Err(no_manifest(folder).await),
        Err(_) if is_file(folder).await => return Err(no_manifest(folder).await),
        Err(source) => return Err(StorageError::store("read", folder, &path)(source)),
    };
    if bytes == VOID {
        let hint = "This checkpoint was given up before it was complete: use another one.".to_owned();
        return Err(StorageError::NoManifest { folder: folder.url(&folder.path), hint });
    }
    decode(&bytes).map_err(|source| StorageError::Manifest { path: folder.url(&path), source })
}

/// Whether what should be a folder is a file.
async fn is_file(folder: &Place) -> bool {
    folder.store.head(&folder.path).await.is_ok()
}

/// Says what is in the folder instead.
async fn no_manifest(folder: &Place) -> StorageError {
    if is_file(folder).await {
        let hint = "It is a file: name the folder of a checkpoint or savepoint.".to_owned();
        return StorageError::NoManifest { folder: folder.url(&folder.path), hint };
    }
    let hint = match folder.store.list_with_delimiter(Some(&folder.path)).await {
        Err(error) => format!("It cannot be listed either: {}.", why(&error)),
        Ok(listed) => {
            let names: Vec<&str> = listed.common_prefixes.iter().filter_map(Path::filename).collect();
            let mut snapshots: Vec<&str> = names
                .iter()
                .copied()
                .filter(|name| name.starts_with("chk-") || name.starts_with("savepoint-"))
                .collect();
            snapshots.sort_unstable();
            match (snapshots.is_empty(), names.is_empty() && listed.objects.is_empty()) {
                (false, _) => format!("It holds {}: name one of them.", snapshots.join(", ")),
                (true, true) => "There is nothing at that place: check the path.".to_owned(),
                (true, false) => {
                    "It holds other files: the checkpoint was not complete, or this is a folder above it.".to_owned()
                }
            }
        }
    };
    StorageError::NoManifest { folder: folder.url(&folder.path), hint }
}

pub(super) async fn load_folder(folder: Place) -> Result<Loaded, StorageError> {
    let manifest = read_manifest(&folder).await?;
    check_files(&folder, &manifest, |_| false).await?;
    Ok(Loaded { manifest, folder })
}

/// Every file is there with its length. Their contents have checksums of their own.
async fn check_files(
    folder: &Place,
    manifest: &Manifest,
    is_trusted: impl Fn(&str) -> bool,
) -> Result<(), StorageError> {
    let named = manifest.files().map(|file| (resolve(&folder.path, file).to_string(), file.bytes));
    let files: BTreeMap<String, u64> = named.filter(|(path, _)| !is_trusted(path)).collect();
    // Boxed one by one: a stream over borrows would not be `Send` in the eyes of the compiler.
    let checks: Vec<_> = files.iter().map(|(path, bytes)| is_missing(folder, path, *bytes).boxed()).collect();
    let checked: Vec<bool> = futures::stream::iter(checks).buffered(CONCURRENT).try_collect().await?;
    let missing: Vec<&String> =
        files.keys().zip(checked).filter_map(|(path, is_missing)| is_missing.then_some(path)).collect();
    match missing.first() {
        None => Ok(()),
        Some(first) => Err(StorageError::MissingFiles {
            folder: folder.url(&folder.path),
            first: folder.url(&Path::from(first.as_str())),
            count: missing.len(),
        }),
    }
}

/// Whether there is no file of this length at a path.
async fn is_missing(folder: &Place, path: &str, bytes: u64) -> Result<bool, StorageError> {
    let path = Path::from(path);
    match folder.store.head(&path).await {
        Ok(meta) => Ok(meta.size != bytes),
        Err(object_store::Error::NotFound { .. }) => Ok(true),
        Err(source) => Err(StorageError::store("read", folder, &path)(source)),
    }
}
