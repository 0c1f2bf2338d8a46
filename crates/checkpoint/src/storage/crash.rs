//! Dies at every operation, before and after it took effect: no manifest ever names a file that is not
//! there, and nothing that was acknowledged is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::double::{Death, Dying};
use super::tests::{checkpoint, job};
use super::*;
use crate::ids::CheckpointId;
use crate::manifest::{FilePlace, FileRef};

const KEPT: usize = 2;

/// A job as it checkpoints: what it knows, and what it was promised.
struct Job {
    storage: CheckpointStorage,
    retained: Retained,
    next: CheckpointId,
    /// Shared files of the checkpoint before, which the next one builds on.
    shared: Vec<FileRef>,
    /// The newest checkpoint that was said to be stored.
    promised: Option<CheckpointId>,
    savepoint: Option<String>,
}

fn place(store: Arc<dyn ObjectStore>) -> Place {
    Place { store, path: Path::from("ckpt"), prefix: "memory:".to_owned() }
}

fn content(name: &str) -> Bytes {
    Bytes::from(format!("content of {name}"))
}

impl Job {
    async fn recover(store: Arc<dyn ObjectStore>) -> Result<Job, StorageError> {
        let storage = CheckpointStorage::new(&place(store), &job(), true);
        let latest = storage.latest().await?;
        let complete = storage.complete().await?;
        let next = storage.next_id(None).await?;
        storage.sweep(i64::MAX).await?;
        let shared = latest.iter().flat_map(|loaded| loaded.manifest.files());
        let shared = shared.filter(|file| file.place == FilePlace::Shared).cloned().collect();
        let retained = Retained::restore(KEPT, &complete);
        Ok(Job { storage, retained, next, shared, promised: None, savepoint: None })
    }

    /// One checkpoint: two new files and one of the last. Every third is aborted.
    async fn checkpoint(&mut self) -> Result<(), StorageError> {
        let id = self.next;
        self.next = id.next();
        self.retained.begun(id);
        let folder = self.storage.folder(id).path;
        let mut files = Vec::new();
        for (place, name) in [(FilePlace::Shared, format!("run-{id}")), (FilePlace::Exclusive, "part".to_owned())] {
            files.push(self.storage.put_file(id, place, &name, content(&name)).await?);
        }
        files.extend(self.shared.iter().rev().take(1).cloned());
        self.retained.acknowledged(id, &folder, files.iter());
        if id.0.is_multiple_of(3) {
            let condemned = self.retained.discarded(id, &folder, std::iter::empty());
            return self.storage.delete(&condemned).await;
        }
        let manifest = checkpoint(id.0, files.clone());
        let stored = match self.storage.store(&manifest, &self.retained).await {
            Err(error) if !error.is_unknown() => {
                let condemned = self.retained.discarded(id, &folder, std::iter::empty());
                self.storage.delete(&condemned).await?;
                return Err(error);
            }
            outcome => outcome?,
        };
        self.promised = Some(id);
        self.shared = files.into_iter().filter(|file| file.place == FilePlace::Shared).collect();
        let condemned = self.retained.stored(&stored);
        self.storage.delete(&condemned).await
    }

    async fn savepoint(&mut self, store: Arc<dyn ObjectStore>) -> Result<(), StorageError> {
        let latest = self.storage.latest().await?;
        let Some(mut manifest) = latest.map(|loaded| loaded.manifest) else { return Ok(()) };
        manifest.kind = crate::barrier::BarrierKind::Savepoint { stop: None };
        let target = Place { path: Path::from("sp"), ..place(store) };
        let loaded = self.storage.store_savepoint(&manifest, &target, 0xabc).await?;
        self.savepoint = Some(loaded.location());
        Ok(())
    }

    async fn live(&mut self, store: &Arc<dyn ObjectStore>) -> Result<(), StorageError> {
        for round in 0..9 {
            self.checkpoint().await?;
            if round == 3 {
                self.savepoint(store.clone()).await?;
            }
        }
        Ok(())
    }
}

/// Every manifest can be read, and every file it names has the right bytes; the paths of both.
async fn verify(store: &Arc<InMemory>) -> BTreeSet<String> {
    let all: Vec<_> = store.list(None).try_collect().await.expect("listed");
    let mut named = BTreeSet::new();
    for object in &all {
        if object.location.filename() != Some(METADATA) || object.size == layout::VOID.len() as u64 {
            continue;
        }
        let place = Place { path: object.location.clone(), ..place(store.clone()) };
        let loaded = CheckpointStorage::load(&place).await.expect("a manifest that exists can be restored");
        named.insert(object.location.to_string());
        for file in loaded.manifest.files() {
            let path = resolve(&loaded.folder.path, file);
            let bytes = store.get(&path).await.expect("there").bytes().await.expect("read");
            let name =
                file.path.split_once('-').filter(|_| file.path.starts_with("00")).map_or(&*file.path, |(_, n)| n);
            assert_eq!(bytes, content(name));
            named.insert(path.to_string());
        }
    }
    named
}

async fn die(at: usize, death: Death) -> bool {
    let disk = Arc::new(InMemory::new());
    let dying = Arc::new(Dying::new(disk.clone(), at, death));
    let store: Arc<dyn ObjectStore> = dying.clone();
    let mut promised = None;
    let mut savepoint = None;
    let mut died = true;
    if let Ok(mut job) = Job::recover(store.clone()).await {
        died = job.live(&store).await.is_err();
        (promised, savepoint) = (job.promised, job.savepoint);
    }
    verify(&disk).await;
    let survivor: Arc<dyn ObjectStore> = disk.clone();
    let before = CheckpointStorage::new(&place(survivor.clone()), &job(), true);
    let latest = before.latest().await.expect("whole").map(|loaded| loaded.manifest.checkpoint);
    assert!(latest >= promised, "{at} {death:?}: checkpoint {promised:?} was promised, {latest:?} is there");
    // The next attempt finds its way and leaves no garbage.
    let mut next = Job::recover(survivor.clone()).await.expect("recovers");
    verify(&disk).await;
    for _ in 0..4 {
        next.checkpoint().await.expect("checkpoints again");
    }
    let named = verify(&disk).await;
    if let Some(savepoint) = savepoint {
        let path = savepoint.trim_start_matches("memory:/");
        assert!(named.contains(&format!("{path}/{METADATA}")), "the savepoint stays");
    }
    next.storage.sweep(i64::MAX).await.expect("swept");
    next.storage.sweep(i64::MAX).await.expect("swept: the voids go as well");
    let all: Vec<_> = disk.list(Some(&Path::from("ckpt"))).try_collect().await.expect("listed");
    for object in all {
        assert!(named.contains(object.location.as_ref()), "{at} {death:?}: {} is garbage", object.location);
    }
    let kept: Vec<_> = next.retained.complete().collect();
    assert_eq!(kept.len(), KEPT, "{at} {death:?}: {kept:?}");
    died
}

/// Operations of a life without accidents.
async fn operations() -> usize {
    let dying = Arc::new(Dying::new(Arc::new(InMemory::new()), usize::MAX, Death::Before));
    let store: Arc<dyn ObjectStore> = dying.clone();
    let mut job = Job::recover(store.clone()).await.expect("recovers");
    job.live(&store).await.expect("lives");
    dying.operations()
}

#[tokio::test]
async fn no_crash_leaves_a_manifest_with_a_hole() {
    let operations = operations().await;
    assert!(operations > 50, "{operations}");
    for death in [Death::Before, Death::After, Death::FailsOnce, Death::LiesOnce] {
        let mut deaths = 0;
        for at in 0..operations {
            deaths += usize::from(die(at, death).await);
        }
        // Errors that do not kill are got over where one of the seven manifests is written.
        let survived = operations - deaths;
        let once = matches!(death, Death::FailsOnce | Death::LiesOnce);
        assert!(survived <= if once { 7 } else { 0 }, "{death:?}: {survived} of {operations} survived");
    }
}
