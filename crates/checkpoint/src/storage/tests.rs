use std::collections::BTreeMap;

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use proptest::prelude::*;

use super::*;
use crate::barrier::{Alignment, BarrierKind};
use crate::ids::{CheckpointId, JobId, OperatorId};
use crate::manifest::{FilePlace, FileRef, Manifest, OperatorEntry, SubtaskEntry};
use crate::options::S3Options;

fn at(stores: &Stores, url: &str) -> Place {
    stores.open(url, &S3Options::default()).expect("a place")
}

pub(super) fn job() -> JobId {
    JobId::parse("94e3a1b2c3d4e5f60718293a4b5c6d7e").expect("an id")
}

pub(super) fn checkpoint(id: u64, files: Vec<FileRef>) -> Manifest {
    let operator = OperatorEntry {
        name: "Agg[1]".to_owned(),
        parallelism: 1,
        max_parallelism: 128,
        states: BTreeMap::new(),
        subtasks: vec![SubtaskEntry { files, ..SubtaskEntry::default() }],
    };
    Manifest {
        checkpoint: CheckpointId(id),
        kind: BarrierKind::Checkpoint(Alignment::Aligned),
        job: job(),
        job_name: "job".to_owned(),
        engine: "test".to_owned(),
        triggered_ms: 0,
        acknowledged_ms: 0,
        operators: BTreeMap::from([(OperatorId::new("agg"), operator)]),
    }
}

async fn file(storage: &CheckpointStorage, id: u64, place: FilePlace, name: &str) -> FileRef {
    storage.put_file(CheckpointId(id), place, name, Bytes::from(name.to_owned())).await.expect("written")
}

/// Checkpoint `id` of two files, one of them `shared`.
async fn write(storage: &CheckpointStorage, id: u64, shared: &str) -> Loaded {
    let files =
        vec![file(storage, id, FilePlace::Shared, shared).await, file(storage, id, FilePlace::Exclusive, "own").await];
    storage.store(&checkpoint(id, files), &Retained::restore(1, &[])).await.expect("stored")
}

#[tokio::test]
async fn files_lie_where_flink_puts_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = at(&Stores::new(), &format!("file://{}", folder.path().display()));
    let storage = CheckpointStorage::new(&dir, &job(), true);
    let loaded = write(&storage, 7, "run-1").await;
    let root = folder.path().join(job().as_str());
    for name in ["chk-7/_metadata", "chk-7/own", "shared/run-1"] {
        assert!(root.join(name).is_file(), "{name}");
    }
    assert_eq!(loaded.location(), format!("file:{}", root.join("chk-7").display()));
    let flat = CheckpointStorage::new(&dir, &job(), false);
    write(&flat, 8, "run-2").await;
    assert!(folder.path().join("chk-8/_metadata").is_file());
    assert!(matches!(flat.sweep(i64::MAX).await, Err(StorageError::SharedRoot { .. })));
}

#[tokio::test]
async fn a_snapshot_is_found_by_folder_or_manifest_and_else_a_hint_is_given() {
    let stores = Stores::new();
    let dir = at(&stores, "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    assert!(storage.latest().await.expect("listed").is_none());
    assert_eq!(storage.next_id(None).await.expect("listed"), CheckpointId(1));
    write(&storage, 3, "run-1").await;
    write(&storage, 12, "run-2").await;
    file(&storage, 13, FilePlace::Exclusive, "begun").await;
    assert_eq!(storage.latest().await.expect("whole").expect("one").manifest.checkpoint, CheckpointId(12));
    assert_eq!(storage.next_id(Some(CheckpointId(5))).await.expect("listed"), CheckpointId(14));
    assert_eq!(storage.next_id(Some(CheckpointId(50))).await.expect("listed"), CheckpointId(51));
    let root = format!("memory:/c/{}", job());
    for url in [format!("{root}/chk-12"), format!("{root}/chk-12/"), format!("{root}/chk-12/_metadata")] {
        let place = at(&stores, &url);
        assert_eq!(CheckpointStorage::load(&place).await.expect("loads").manifest.checkpoint.0, 12);
    }
    for (url, words) in [
        (root.clone(), "It holds chk-12, chk-13, chk-3: name one of them."),
        (format!("{root}/chk-13"), "was not complete"),
        (format!("{root}/chk-99"), "nothing at that place"),
    ] {
        let error = CheckpointStorage::load(&at(&stores, &url)).await.expect_err("none");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_broken_newest_checkpoint_is_not_passed_over() {
    let stores = Stores::new();
    let dir = at(&stores, "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    write(&storage, 1, "run-1").await;
    write(&storage, 2, "run-2").await;
    let shared = Path::from(format!("c/{}/shared/run-2", job()));
    dir.store.delete(&shared).await.expect("deleted");
    let error = storage.latest().await.expect_err("a hole");
    assert!(
        matches!(&error, StorageError::MissingFiles { count: 1, first, .. } if first.ends_with("run-2")),
        "{error}"
    );
    dir.store.put(&shared, Bytes::from_static(b"cut").into()).await.expect("put");
    assert!(matches!(storage.latest().await, Err(StorageError::MissingFiles { .. })), "another length");
    let manifest = Path::from(format!("c/{}/chk-2/_metadata", job()));
    dir.store.put(&manifest, Bytes::from_static(b"TIDECKPT....").into()).await.expect("put");
    let error = storage.latest().await.expect_err("cut");
    assert!(error.to_string().contains("truncated") && error.to_string().contains("chk-2/_metadata"), "{error}");
    assert!(matches!(storage.sweep(i64::MAX).await, Err(StorageError::Manifest { .. })), "nothing is swept in doubt");
}

#[tokio::test]
async fn names_and_manifests_are_written_once() {
    let dir = at(&Stores::new(), "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    file(&storage, 1, FilePlace::Shared, "run-1").await;
    file(&storage, 1, FilePlace::Shared, "run-1").await;
    let other = Bytes::from_static(b"other");
    let error = storage.put_file(CheckpointId(2), FilePlace::Shared, "run-1", other.clone()).await.expect_err("taken");
    assert!(matches!(error, StorageError::Occupied { .. }), "{error}");
    for name in ["../run", "a//b", "_metadata", ""] {
        assert!(storage.put_file(CheckpointId(2), FilePlace::Shared, name, other.clone()).await.is_err(), "{name}");
    }
    write(&storage, 5, "run-5").await;
    storage.store(&checkpoint(5, vec![]), &Retained::restore(1, &[])).await.expect_err("another job manager was there");
}

#[tokio::test]
async fn a_manifest_with_a_hole_is_not_stored() {
    let dir = at(&Stores::new(), "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    let mut retained = Retained::restore(1, &[]);
    let missing = checkpoint(1, vec![FileRef::new(FilePlace::Shared, "run-9", 5)]);
    let error = storage.store(&missing, &retained).await.expect_err("a hole");
    assert!(matches!(error, StorageError::MissingFiles { count: 1, .. }), "{error}");
    // A file that checkpoint 1 alone needed is given up when 2 completes; 3 had begun by then.
    for id in 1..=3 {
        retained.begun(CheckpointId(id));
    }
    let first = write(&storage, 1, "run-1").await;
    let second = write(&storage, 2, "run-2").await;
    assert_eq!(retained.stored(&first), Condemned::default());
    let condemned = retained.stored(&second);
    assert_eq!((condemned.manifests.len(), condemned.files.len()), (1, 0), "3 may yet name them");
    let late = checkpoint(3, first.manifest.files().take(1).cloned().collect());
    let error = storage.store(&late, &retained).await.expect_err("given up");
    assert!(matches!(&error, StorageError::GivenUp { file, .. } if file.ends_with("run-1")), "{error}");
    let folder = storage.folder(CheckpointId(3)).path;
    assert_eq!(retained.discarded(CheckpointId(3), &folder, std::iter::empty()).files.len(), 2);
    assert_eq!(storage.list().await.expect("listed").len(), 2);
}

#[test]
fn files_of_finished_tasks_outlive_the_checkpoints_that_name_them() {
    let dir = at(&Stores::new(), "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    let mut retained = Retained::restore(1, &[]);
    let last = [FileRef::new(FilePlace::Shared, "last", 1)];
    retained.carried(&storage.root().path, last.iter());
    retained.begun(CheckpointId(1));
    let folder = storage.folder(CheckpointId(1)).path;
    retained.acknowledged(CheckpointId(1), &folder, last.iter());
    assert_eq!(retained.discarded(CheckpointId(1), &folder, last.iter()), Condemned::default());
    assert_eq!(retained.all().files, [format!("c/{}/shared/last", job())]);
}

#[tokio::test]
async fn savepoints_stand_alone_and_can_be_moved() {
    let stores = Stores::new();
    let folder = tempfile::tempdir().expect("a folder");
    let storage = CheckpointStorage::new(&at(&stores, "memory:///c"), &job(), true);
    let mut manifest = write(&storage, 4, "own").await.manifest;
    manifest.kind = BarrierKind::Savepoint { stop: None };
    let target = at(&stores, &folder.path().display().to_string());
    let savepoint = storage.store_savepoint(&manifest, &target, 0x1234_5678_9abc_def0).await.expect("stored");
    let written = folder.path().join("savepoint-94e3a1-56789abcdef0");
    assert_eq!(savepoint.location(), format!("file:{}", written.display()));
    let moved = folder.path().join("moved");
    std::fs::rename(&written, &moved).expect("moved");
    let place = at(&stores, &moved.display().to_string());
    let loaded = CheckpointStorage::load(&place).await.expect("loads");
    assert_eq!(loaded.manifest.files().count(), 2, "one name in two folders is two files");
    assert!(loaded.manifest.files().all(|file| file.place == FilePlace::Exclusive));
    // In one store it is a copy within it.
    let near = storage.store_savepoint(&manifest, &at(&stores, "memory:/sp"), 1).await.expect("stored");
    assert_eq!(near.location(), "memory:/sp/savepoint-94e3a1-000000000001");
}

#[tokio::test]
async fn a_claimed_snapshot_goes_when_it_is_subsumed_and_others_stay() {
    let stores = Stores::new();
    let dir = at(&stores, "memory:///c");
    let old = CheckpointStorage::new(&dir, &job(), true);
    let snapshot = write(&old, 9, "run-1").await;
    let new_job = JobId::parse("00000000000000000000000000000001").expect("an id");
    let storage = CheckpointStorage::new(&dir, &new_job, true);
    let claimed = snapshot.claimed(&storage).expect("one store");
    let mut retained = Retained::restore(1, std::slice::from_ref(&snapshot));
    // The first checkpoint builds on one of the claimed files.
    let kept: Vec<FileRef> = claimed.files().filter(|file| file.path.ends_with("run-1")).cloned().collect();
    retained.begun(CheckpointId(10));
    let loaded = storage.store(&checkpoint(10, kept.clone()), &retained).await.expect("stored");
    let condemned = retained.stored(&loaded);
    storage.delete(&condemned).await.expect("deleted");
    assert_eq!(condemned.manifests, [format!("c/{}/chk-9/_metadata", job())]);
    assert_eq!(condemned.files, [format!("c/{}/chk-9/own", job())]);
    assert_eq!(
        storage.latest().await.expect("whole").expect("one").manifest.files().cloned().collect::<Vec<_>>(),
        kept
    );
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = at(&stores, &folder.path().display().to_string());
    let far = CheckpointStorage::new(&elsewhere, &new_job, true);
    assert!(matches!(snapshot.claimed(&far), Err(StorageError::ClaimElsewhere { .. })));
}

#[tokio::test]
async fn sweeping_spares_what_is_young_named_or_owned_by_tasks() {
    let dir = at(&Stores::new(), "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    write(&storage, 1, "run-1").await;
    file(&storage, 1, FilePlace::TaskOwned, "log").await;
    file(&storage, 2, FilePlace::Shared, "lost").await;
    file(&storage, 2, FilePlace::Exclusive, "part").await;
    assert_eq!(storage.sweep(0).await.expect("swept"), Swept { deleted: 0, young: 2 });
    assert_eq!(storage.sweep(i64::MAX).await.expect("swept"), Swept { deleted: 2, young: 0 });
    assert!(storage.latest().await.expect("whole").is_some());
    // Whoever still works on checkpoint 2 cannot complete it any more.
    assert!(matches!(
        storage.store(&checkpoint(2, vec![]), &Retained::restore(1, &[])).await,
        Err(StorageError::Occupied { .. })
    ));
    assert_eq!(storage.list().await.expect("listed"), [(CheckpointId(1), true), (CheckpointId(2), false)]);
}

#[tokio::test]
async fn errors_name_places_as_users_write_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    std::fs::write(folder.path().join("plain"), "text").expect("a file");
    let stores = Stores::new();
    let storage = CheckpointStorage::new(&at(&stores, &format!("{root}/plain")), &job(), true);
    let put = storage.put_file(CheckpointId(1), FilePlace::Exclusive, "a", Bytes::from_static(b"x")).await;
    let said = put.expect_err("there is a file in its place").to_string();
    assert!(said.starts_with(&format!("could not write 'file:{root}/plain/{}/chk-1/a': ", job())), "{said}");

    let storage = CheckpointStorage::new(&at(&stores, &root), &job(), true);
    let file = FileRef::new(FilePlace::Shared, "gone", 1);
    let stored = storage.store(&checkpoint(1, vec![file]), &Retained::restore(1, &[])).await;
    let said = stored.expect_err("a file is missing").to_string();
    assert!(said.contains(&format!("the first is 'file:{root}/{}/shared/gone'", job())), "{said}");
}

#[test]
fn places_are_paths_or_urls() {
    let stores = Stores::new();
    let open = |url: &str| {
        stores.open(url, &S3Options::default()).map(|place| place.url(&place.path)).map_err(|error| error.to_string())
    };
    assert_eq!(open("/a/b").as_deref(), Ok("file:/a/b"));
    assert_eq!(open("file:///a/b c").as_deref(), Ok("file:/a/b c"));
    assert_eq!(open("file:/a").as_deref(), Ok("file:/a"));
    assert_eq!(open("memory:///x/").as_deref(), Ok("memory:/x"));
    assert!(open("hdfs://nn/x").expect_err("refused").contains("scheme 'hdfs' is not supported"));
    #[cfg(not(feature = "s3"))]
    assert!(open("s3://bucket/x").expect_err("refused").contains("feature 's3'"));
    #[cfg(feature = "s3")]
    assert!(open("s3:///").expect_err("refused").contains("names no bucket"));
}

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Acknowledge(u8, Vec<u8>),
    Store(u8),
    Discard(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        5 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(c, f)| Step::Acknowledge(c, f)),
        3 => any::<u8>().prop_map(Step::Store),
        1 => any::<u8>().prop_map(Step::Discard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Checkpoints name their own new files and some of the newest complete one, as stores do.
    #[test]
    fn no_file_is_condemned_while_it_is_needed_and_every_one_in_the_end(
        steps in prop::collection::vec(step(), 1..80), max in 1usize..4,
    ) {
        let dir = at(&Stores::new(), "memory:///c");
        let storage = CheckpointStorage::new(&dir, &job(), true);
        let mut retained = Retained::restore(max, &[]);
        let (mut next, mut files) = (1u64, 0u32);
        // What each checkpoint in progress may build on, and what it has acknowledged.
        let mut open: BTreeMap<u64, (Vec<FileRef>, Vec<FileRef>)> = BTreeMap::new();
        let mut complete: BTreeMap<u64, Vec<FileRef>> = BTreeMap::new();
        let (mut gone, mut known) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for step in steps {
            let pick = |choice: u8| open.keys().nth(choice as usize % open.len().max(1)).copied();
            let condemned = match step {
                Step::Begin => {
                    let base = complete.values().next_back().cloned().unwrap_or_default();
                    open.insert(next, (base, Vec::new()));
                    retained.begun(CheckpointId(next));
                    next += 1;
                    continue;
                }
                Step::Acknowledge(choice, picks) => {
                    let Some(id) = pick(choice) else { continue };
                    let Some((base, acknowledged)) = open.get_mut(&id) else { continue };
                    let mut named: Vec<FileRef> =
                        picks.iter().filter_map(|p| base.get(*p as usize % base.len().max(1)).cloned()).collect();
                    files += 1;
                    named.push(FileRef::new(FilePlace::Shared, format!("f{files}"), 1));
                    let folder = storage.folder(CheckpointId(id)).path;
                    prop_assert!(retained.given_up(&folder, named.iter()).iter().all(|path| !gone.contains(path)));
                    retained.acknowledged(CheckpointId(id), &folder, named.iter());
                    known.extend(named.iter().map(|file| resolve(&folder, file).to_string()));
                    acknowledged.extend(named);
                    continue;
                }
                Step::Store(choice) => {
                    let Some(id) = pick(choice) else { continue };
                    let (_, named) = open.remove(&id).expect("open");
                    let manifest = checkpoint(id, named.clone());
                    complete.insert(id, named);
                    while complete.len() > max {
                        complete.pop_first();
                    }
                    retained.stored(&Loaded { manifest, folder: storage.folder(CheckpointId(id)) })
                }
                Step::Discard(choice) => {
                    let Some(id) = pick(choice) else { continue };
                    open.remove(&id);
                    retained.discarded(CheckpointId(id), &storage.folder(CheckpointId(id)).path, std::iter::empty())
                }
            };
            gone.extend(condemned.files);
            let folder = storage.folder(CheckpointId(1)).path;
            let could_name = open.values().flat_map(|(base, acknowledged)| base.iter().chain(acknowledged));
            for file in complete.values().flatten().chain(could_name) {
                let path = resolve(&folder, file).to_string();
                prop_assert!(!gone.contains(&path), "{} is needed", path);
            }
        }
        let condemned = retained.all();
        gone.extend(condemned.files);
        prop_assert_eq!(gone, known, "nothing is left over");
    }
}

#[test]
fn every_operation_may_move_between_threads() {
    fn check<T: Send>(_: T) {}
    let dir = at(&Stores::new(), "memory:///c");
    let storage = CheckpointStorage::new(&dir, &job(), true);
    let (manifest, retained) = (checkpoint(1, vec![]), Retained::restore(1, &[]));
    check(storage.store(&manifest, &retained));
    check(storage.store_savepoint(&manifest, &dir, 0));
    check(storage.delete(&Condemned::default()));
    check(storage.latest());
    check(storage.complete());
    check(storage.next_id(None));
    check(storage.sweep(0));
    check(storage.put_file(CheckpointId(1), FilePlace::Shared, "a", Bytes::new()));
    check(CheckpointStorage::load(&dir));
}

#[tokio::test]
async fn a_job_finds_its_own_checkpoints_and_the_newest_must_be_whole() {
    let stores = Stores::new();
    let dir = at(&stores, "memory:///resume");
    // A folder that two jobs share.
    let storage = CheckpointStorage::new(&dir, &job(), false);
    let ids = |loaded: Vec<Loaded>| loaded.iter().map(|l| l.manifest.checkpoint.0).collect::<Vec<_>>();
    assert!(storage.resume(&job()).await.expect("listed").is_empty());
    write(&storage, 1, "run-1").await;
    write(&storage, 2, "run-2").await;
    write(&storage, 3, "run-3").await;
    let other = JobId::parse("00000000000000000000000000000007").expect("an id");
    let manifest = Manifest { job: other.clone(), ..checkpoint(4, Vec::new()) };
    storage.store(&manifest, &Retained::restore(1, &[])).await.expect("stored");
    assert_eq!(ids(storage.resume(&job()).await.expect("whole")), [1, 2, 3]);
    assert_eq!(ids(storage.resume(&other).await.expect("whole")), [4]);
    let broken = Path::from("resume/chk-2/_metadata");
    dir.store.put(&broken, Bytes::from_static(b"TIDECKPT....").into()).await.expect("put");
    assert_eq!(ids(storage.resume(&job()).await.expect("whole")), [1, 3], "an older one does not matter");
    dir.store.delete(&Path::from("resume/shared/run-3")).await.expect("deleted");
    assert!(matches!(storage.resume(&job()).await, Err(StorageError::MissingFiles { .. })), "the newest does");
}
