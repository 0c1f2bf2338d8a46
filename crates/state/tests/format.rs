//! State written by any release is read by every later one. The files in `fixtures` were written once
//! and are never written again; a format that cannot be read any more would lose people's state.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use tidegate_state::{
    Compression, Entry, KeyGroupRange, KeyRange, KeyedStore, MemoryDir, Namespace, PageCache, RunSetDescriptor,
    RunStore, StoreOptions, WriteBatch, verify_file,
};

const WINDOW: Namespace = Namespace(60_000);

/// Two namespaces, three runs, every kind of entry, a range delete.
fn write(dir: &MemoryDir, compression: Compression) -> RunSetDescriptor {
    let options = StoreOptions { compression, file_prefix: "fixture".into(), ..StoreOptions::default() };
    let cache = Arc::new(PageCache::new(0));
    let mut store = RunStore::new(Arc::new(dir.clone()), options, cache, KeyGroupRange::new(0, 128));
    let mut base = WriteBatch::new();
    for n in 0u16..300 {
        let key = [&(n / 100).to_be_bytes()[..], b"user", &n.to_be_bytes()].concat();
        let value = format!("value of {n}, {n} and {n}");
        base.push(&key, Entry::put_list(value.as_bytes(), 3)).unwrap();
    }
    store.write(Namespace::GLOBAL, base).unwrap();
    store.flush(0).unwrap();
    store.delete_range(Namespace::GLOBAL, &KeyRange::prefix(b"\0\x01user")).unwrap();
    let mut change = WriteBatch::new();
    change.push(b"\0\0user\0\x01", Entry::delete()).unwrap();
    change.push(b"\0\0user\0\x02", Entry::append(b" and more", 2).expiring_at(5_000)).unwrap();
    change.push(b"\0\0user\0\x03", Entry::put(b"").expiring_at(-1)).unwrap();
    store.write(Namespace::GLOBAL, change).unwrap();
    let mut window = WriteBatch::new();
    window.push(b"\0\x7fw", Entry::put(b"in a window")).unwrap();
    store.write(WINDOW, window).unwrap();
    store.snapshot(42, -10).unwrap()
}

type Seen = Vec<(Vec<u8>, Vec<u8>, u32, Option<i64>)>;

fn read(dir: &MemoryDir, snapshot: &RunSetDescriptor, namespace: Namespace) -> Seen {
    let cache = Arc::new(PageCache::new(0));
    let all = KeyGroupRange::all();
    let (mut store, _) =
        RunStore::restore(Arc::new(dir.clone()), StoreOptions::default(), cache, std::slice::from_ref(snapshot), all)
            .unwrap();
    let mut seen = Vec::new();
    let visit = &mut |key: &[u8], value: tidegate_state::Value<'_>| {
        seen.push((key.to_vec(), value.bytes.to_vec(), value.count, value.expires_ms));
        ControlFlow::Continue(())
    };
    store.scan(namespace, &KeyRange::all(), 0, visit).unwrap();
    seen
}

fn fixture(name: &str) -> (MemoryDir, RunSetDescriptor) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let descriptor = std::fs::read_to_string(folder.join("snapshot.json")).unwrap();
    let snapshot: RunSetDescriptor = serde_json::from_str(&descriptor).unwrap();
    let dir = MemoryDir::default();
    for file in &snapshot.files {
        dir.put(&file.name, std::fs::read(folder.join(&file.name)).unwrap());
    }
    (dir, snapshot)
}

#[test]
fn version_1_is_read() {
    for name in ["version-1", "version-1-lz4"] {
        let (dir, snapshot) = fixture(name);
        snapshot.files.iter().for_each(|file| drop(verify_file(&dir, &file.name).unwrap()));
        let seen = read(&dir, &snapshot, Namespace::GLOBAL);
        assert_eq!(seen.len(), 198, "300 less a group of 100, one deleted and one expired");
        assert_eq!(seen[0], (b"\0\0user\0\0".to_vec(), b"value of 0, 0 and 0".to_vec(), 3, None));
        assert_eq!(seen[1], (b"\0\0user\0\x02".to_vec(), b"value of 2, 2 and 2 and more".to_vec(), 5, None));
        assert_eq!(seen[2].1, b"value of 4, 4 and 4");
        let window = read(&dir, &snapshot, WINDOW);
        assert_eq!(window, [(b"\0\x7fw".to_vec(), b"in a window".to_vec(), 1, None)]);
    }
}

#[test]
fn version_1_is_what_is_written() {
    // LZ4 may compress otherwise one day; everything else is fixed byte for byte.
    let dir = MemoryDir::default();
    let snapshot = write(&dir, Compression::None);
    let (expected_dir, expected) = fixture("version-1");
    assert_eq!(snapshot, expected);
    for file in &snapshot.files {
        assert_eq!(dir.bytes(&file.name), expected_dir.bytes(&file.name));
    }
    let compressed = MemoryDir::default();
    let snapshot = write(&compressed, Compression::Lz4);
    assert_eq!(read(&compressed, &snapshot, Namespace::GLOBAL), read(&dir, &expected, Namespace::GLOBAL));
}
