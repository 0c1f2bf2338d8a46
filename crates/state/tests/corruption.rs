//! No damage to a file gives wrong data: it is an error that names the file, and never a panic.

use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use tidegate_state::{
    Compression, Entry, KeyGroupRange, KeyRange, KeyedStore, MemoryDir, Namespace, PageCache, RunDir, RunSetDescriptor,
    RunStore, StateError, StoreOptions, Value, WriteBatch, verify_file,
};

const WINDOW: Namespace = Namespace(60_000);

fn key(n: u32) -> Vec<u8> {
    [&((n / 100) as u16).to_be_bytes()[..], b"user-", &n.to_be_bytes()].concat()
}

fn restored(dir: &MemoryDir, snapshot: &RunSetDescriptor) -> Result<RunStore, StateError> {
    let cache = Arc::new(PageCache::new(1 << 20));
    let snapshots = std::slice::from_ref(snapshot);
    let all = KeyGroupRange::all();
    RunStore::restore(Arc::new(dir.clone()), StoreOptions::default(), cache, snapshots, all).map(|(store, _)| store)
}

/// A pack of two run sets, several blocks and pages long.
fn written(compression: Compression) -> (MemoryDir, RunSetDescriptor, String) {
    let dir = MemoryDir::default();
    let cache = Arc::new(PageCache::new(1 << 20));
    let options = StoreOptions { compression, ..StoreOptions::default() };
    let mut store = RunStore::new(Arc::new(dir.clone()), options, cache, KeyGroupRange::all());
    let mut batch = WriteBatch::new();
    for n in 0..600 {
        let value = [n as u8; 40];
        batch.push(&key(n), if n % 7 == 0 { Entry::append(&value, 2) } else { Entry::put(&value) }).unwrap();
    }
    store.write(Namespace::GLOBAL, batch).unwrap();
    let mut batch = WriteBatch::new();
    batch.push(&key(5), Entry::put(b"small").expiring_at(99)).unwrap();
    store.write(WINDOW, batch).unwrap();
    let snapshot = store.snapshot(1, 0).unwrap();
    let name = snapshot.files[0].name.clone();
    assert_eq!(snapshot.files.len(), 1, "one pack for both");
    (dir, snapshot, name)
}

/// Everything that reads can say, by scans and by lookups.
fn read_all(dir: &MemoryDir, snapshot: &RunSetDescriptor) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StateError> {
    let mut store = restored(dir, snapshot)?;
    let mut seen = Vec::new();
    for namespace in [Namespace::GLOBAL, WINDOW] {
        store.scan(namespace, &KeyRange::all(), 0, &mut |key, value| {
            seen.push((key.to_vec(), value.bytes.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    let keys: Vec<Vec<u8>> = (0..700).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    store.get(Namespace::GLOBAL, &keys, 0, &mut |index, value: Option<Value<'_>>| {
        seen.extend(value.map(|value| (keys[index].to_vec(), value.bytes.to_vec())));
    })?;
    Ok(seen)
}

proptest! {
    #[test]
    fn any_flipped_byte_is_found(at: proptest::sample::Index, mask in 1u8.., lz4: bool) {
        let compression = if lz4 { Compression::Lz4 } else { Compression::None };
        let (dir, snapshot, name) = written(compression);
        let before = read_all(&dir, &snapshot).unwrap();
        let mut bytes = dir.bytes(&name).unwrap().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        dir.put(&name, bytes);
        let error = verify_file(&dir, &name).expect_err("the flip is found").to_string();
        prop_assert!(error.contains(&name), "{}", error);
        match read_all(&dir, &snapshot) {
            Ok(after) => prop_assert_eq!(before, after, "a part that was not read may be damaged"),
            Err(error) => prop_assert!(error.to_string().contains(&name), "{}", error),
        }
    }

    #[test]
    fn a_file_that_was_cut_is_found(length: proptest::sample::Index) {
        let (dir, snapshot, name) = written(Compression::Lz4);
        let bytes = dir.bytes(&name).unwrap();
        dir.put(&name, bytes[..length.index(bytes.len())].to_vec());
        prop_assert!(verify_file(&dir, &name).is_err());
        prop_assert!(restored(&dir, &snapshot).is_err());
    }

    #[test]
    fn foreign_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let dir = MemoryDir::default();
        dir.put("x.run", bytes);
        prop_assert!(verify_file(&dir, "x.run").is_err());
    }
}

#[test]
fn a_whole_file_is_sound() {
    let (dir, snapshot, name) = written(Compression::Lz4);
    let report = verify_file(&dir, &name).unwrap();
    assert_eq!(report.bytes, snapshot.files[0].bytes);
    let [(global, counts, groups), (window, small, _)] = &report.runs[..] else {
        panic!("two runs: {report:?}");
    };
    assert_eq!((*global, *window), (i64::MIN, 60_000));
    assert_eq!(
        (counts.entries, counts.deletes, counts.appends, small.expiring),
        (600, 0, 0, 1),
        "nothing is older: appends are puts"
    );
    assert_eq!(
        groups.iter().map(|share| (share.key_group, share.entries)).collect::<Vec<_>>(),
        [(0, 100), (1, 100), (2, 100), (3, 100), (4, 100), (5, 100)]
    );
}

#[test]
fn errors_say_what_and_where() {
    let (dir, snapshot, name) = written(Compression::Lz4);
    let bytes = dir.bytes(&name).unwrap().to_vec();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        dir.put(&name, bytes);
        read_all(&dir, &snapshot).expect_err("damage is found")
    };
    assert!(matches!(damaged(&|bytes| bytes[..4].copy_from_slice(b"PAR1")), StateError::Foreign { .. }));
    let StateError::WrongLength { expected, found, .. } = damaged(&|bytes| bytes.truncate(10)) else {
        panic!("a cut file has the wrong length");
    };
    assert!(expected > found);
    let StateError::Corrupt { place, .. } = damaged(&|bytes| bytes[30] ^= 1) else {
        panic!("a flipped bit in the first block is corruption");
    };
    assert_eq!(place, "data block at byte 16");
    let newer = damaged(&|bytes| {
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..12]) as u32;
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    });
    assert!(matches!(newer, StateError::NewerVersion { found: 2, supported: 1, .. }), "{newer}");
}

#[test]
fn another_file_of_the_same_name_is_refused() {
    let (dir, snapshot, name) = written(Compression::Lz4);
    let (other, _, other_name) = written(Compression::None);
    dir.put(&name, other.bytes(&other_name).unwrap().to_vec());
    assert!(matches!(restored(&dir, &snapshot), Err(StateError::WrongLength { .. })));
    let mut claimed = snapshot.clone();
    claimed.files[0].bytes = other.bytes(&other_name).unwrap().len() as u64;
    assert!(matches!(restored(&dir, &claimed), Err(StateError::AnotherFile { .. })));
    dir.remove(&name).unwrap();
    assert!(matches!(restored(&dir, &snapshot), Err(StateError::Io { action: "open", .. })));
}

#[test]
fn snapshots_that_overlap_are_refused() {
    let (dir, snapshot, _) = written(Compression::Lz4);
    let cache = Arc::new(PageCache::new(0));
    let twice = [snapshot.clone(), snapshot];
    let restored =
        RunStore::restore(Arc::new(dir), StoreOptions::default(), cache, &twice, KeyGroupRange::all()).map(drop);
    assert!(matches!(restored, Err(StateError::Restore { snapshot: 1, .. })));
}
