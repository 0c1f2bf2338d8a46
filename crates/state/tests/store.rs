//! What the store promises beside right answers: bounds, ownership of files, failures of the disk.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tidegate_state::io::{Append, ReadAt};
use tidegate_state::{
    Entry, KeyGroupRange, KeyRange, KeyedStore, MemoryDir, Namespace, PageCache, RunDir, RunStore, StateError,
    StoreOptions, WriteBatch,
};

fn store_in(dir: Arc<dyn RunDir>, cache_bytes: usize, options: StoreOptions) -> RunStore {
    RunStore::new(dir, options, Arc::new(PageCache::new(cache_bytes)), KeyGroupRange::new(0, 8))
}

fn key(n: u32) -> Vec<u8> {
    [&((n % 8) as u16).to_be_bytes()[..], &n.to_be_bytes()].concat()
}

fn batch(numbers: impl IntoIterator<Item = u32>, expires_ms: Option<i64>) -> WriteBatch {
    let mut keys: Vec<_> = numbers.into_iter().map(|n| (key(n), n)).collect();
    keys.sort();
    let mut batch = WriteBatch::new();
    for (key, n) in keys {
        let value = [n.to_le_bytes(); 16].concat();
        let entry = Entry::put(&value);
        batch.push(&key, expires_ms.map_or(entry, |at| entry.expiring_at(at))).unwrap();
    }
    batch
}

fn count(store: &mut RunStore, namespace: Namespace, now_ms: i64) -> usize {
    let mut n = 0;
    let visit = &mut |_: &[u8], _: tidegate_state::Value<'_>| {
        n += 1;
        ControlFlow::Continue(())
    };
    store.scan(namespace, &KeyRange::all(), now_ms, visit).unwrap();
    n
}

fn look_up(store: &mut RunStore, numbers: impl IntoIterator<Item = u32>) -> Result<usize, StateError> {
    let mut keys: Vec<_> = numbers.into_iter().map(key).collect();
    keys.sort();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = 0;
    store.get(Namespace::GLOBAL, &keys, 0, &mut |_, value| found += usize::from(value.is_some()))?;
    Ok(found)
}

#[test]
fn small_run_sets_of_a_flush_share_a_file() {
    let dir = MemoryDir::default();
    let mut store = store_in(Arc::new(dir.clone()), 1 << 20, StoreOptions::default());
    for window in 0..200 {
        store.write(Namespace(window), batch(0..10, None)).unwrap();
    }
    store.flush(0).unwrap();
    assert_eq!(dir.list().unwrap().len(), 1);
    let bytes = store.usage().file_bytes;
    assert!(bytes < 200 * 1_000, "{bytes} bytes for 200 run sets");
    for window in 0..199 {
        store.drop_namespace(Namespace(window)).unwrap();
    }
    assert_eq!(count(&mut store, Namespace(199), 0), 10);
    assert_eq!(dir.list().unwrap().len(), 1, "the last run set still needs it");
    store.drop_namespace(Namespace(199)).unwrap();
    assert!(dir.list().unwrap().is_empty());
}

#[test]
fn a_window_dropped_after_the_barrier_is_in_the_snapshot() {
    let dir = MemoryDir::default();
    let mut store = store_in(Arc::new(dir.clone()), 0, StoreOptions::default());
    store.write(Namespace(1), batch(0..10, None)).unwrap();
    store.begin_snapshot(7).unwrap();
    let flush = store.flush_job(0).unwrap();
    store.write(Namespace(1), batch(20..25, None)).unwrap();
    store.drop_namespace(Namespace(1)).unwrap();
    store.write(Namespace(1), batch(0..3, None)).unwrap();
    assert_eq!(count(&mut store, Namespace(1), 0), 3);
    assert_eq!(store.take_snapshot(7), None);
    store.apply_flush(flush.run().unwrap()).unwrap();
    let snapshot = store.take_snapshot(7).unwrap();
    let cache = Arc::new(PageCache::new(0));
    let groups = KeyGroupRange::new(0, 8);
    let options = StoreOptions { file_prefix: "next".into(), ..StoreOptions::default() };
    let (mut restored, report) = RunStore::restore(Arc::new(dir.clone()), options, cache, &[snapshot], groups).unwrap();
    assert_eq!((count(&mut restored, Namespace(1), 0), report.orphans.len()), (10, 0));
    assert_eq!(count(&mut store, Namespace(1), 0), 3);
}

#[test]
fn a_range_deleted_after_the_barrier_is_in_the_snapshot() {
    let dir = MemoryDir::default();
    let mut store = store_in(Arc::new(dir.clone()), 0, StoreOptions::default());
    for _ in 0..4 {
        store.write(Namespace::GLOBAL, batch(0..100, None)).unwrap();
        store.flush(0).unwrap();
    }
    store.write(Namespace::GLOBAL, batch(100..110, None)).unwrap();
    store.begin_snapshot(1).unwrap();
    let flush = store.flush_job(0).unwrap();
    store.delete_range(Namespace::GLOBAL, &KeyRange::all()).unwrap();
    store.merge(0).unwrap();
    assert_eq!((store.usage().runs, count(&mut store, Namespace::GLOBAL, 0)), (1, 0));
    store.apply_flush(flush.run().unwrap()).unwrap();
    let snapshot = store.take_snapshot(1).unwrap();
    let options = StoreOptions { file_prefix: "next".into(), ..StoreOptions::default() };
    let (cache, groups) = (Arc::new(PageCache::new(0)), KeyGroupRange::new(0, 8));
    let (mut restored, _) = RunStore::restore(Arc::new(dir), options, cache, &[snapshot], groups).unwrap();
    assert_eq!(count(&mut restored, Namespace::GLOBAL, 0), 110);
    assert_eq!(count(&mut store, Namespace::GLOBAL, 0), 0);
}

#[test]
fn merges_are_bounded_and_cut_at_key_groups() {
    let dir = MemoryDir::default();
    let options = StoreOptions { file_bytes: 50_000, ..StoreOptions::default() };
    let mut store = store_in(Arc::new(dir.clone()), 1 << 20, options);
    let mut largest = 0;
    for round in 0..60u32 {
        store.write(Namespace::GLOBAL, batch((0..2_000).map(|n| n * 7 + round * 31), None)).unwrap();
        store.flush(0).unwrap();
        while let Some(job) = store.merge_job(0).unwrap() {
            largest = largest.max(job.bytes());
            store.apply_merge(job.run().unwrap()).unwrap();
        }
        assert!(store.pressure().longest_chain <= 16, "{:?}", store.pressure());
    }
    assert!(store.usage().shards >= 4, "{:?}", store.usage());
    assert!(largest <= 8 * 50_000, "a merge of {largest} bytes");
    let longest = dir.list().unwrap().iter().map(|name| dir.bytes(name).unwrap().len()).max().unwrap();
    assert!(longest < 110_000, "a file of {longest} bytes");
}

#[test]
fn what_has_expired_goes_without_new_writes() {
    let mut store = store_in(Arc::new(MemoryDir::default()), 0, StoreOptions::default());
    store.write(Namespace::GLOBAL, batch(0..1_000, Some(100))).unwrap();
    store.flush(0).unwrap();
    assert!(store.merge_job(99).unwrap().is_none());
    assert_eq!(count(&mut store, Namespace::GLOBAL, 99), 1_000);
    assert_eq!(count(&mut store, Namespace::GLOBAL, 100), 0);
    store.merge(100).unwrap();
    assert_eq!((store.usage().runs, store.usage().files), (0, 0));
}

#[test]
fn range_deletes_are_worked_off() {
    let mut store = store_in(Arc::new(MemoryDir::default()), 0, StoreOptions::default());
    store.write(Namespace::GLOBAL, batch(0..8_000, None)).unwrap();
    store.flush(0).unwrap();
    for n in 0..100 {
        store.delete_range(Namespace::GLOBAL, &KeyRange::prefix(&key(n * 10))).unwrap();
    }
    assert_eq!(count(&mut store, Namespace::GLOBAL, 0), 7_900);
    store.merge(0).unwrap();
    assert_eq!(count(&mut store, Namespace::GLOBAL, 0), 7_900);
    let snapshot = store.snapshot(1, 0).unwrap();
    assert!(snapshot.namespaces[0].range_deletes.is_empty());
    assert_eq!(snapshot.namespaces[0].runs.iter().map(|run| run.entries).sum::<u64>(), 7_900);
}

#[test]
fn pages_stay_within_their_budget() {
    let mut store = store_in(Arc::new(MemoryDir::default()), 30_000, StoreOptions::default());
    store.write(Namespace::GLOBAL, batch(0..60_000, None)).unwrap();
    store.flush(0).unwrap();
    for round in 0..5 {
        assert_eq!(look_up(&mut store, (0..6_000).map(|n| n * 10 + round)).unwrap(), 6_000);
        let usage = store.usage();
        assert!(usage.cache.bytes <= 30_000, "{usage:?}");
        assert!(usage.cache.bytes > 10_000 && usage.footer_bytes < 10_000, "{usage:?}");
    }
}

#[test]
fn writers_are_told_to_wait() {
    let options =
        StoreOptions { flush_bytes: 10_000, sealed_limit_bytes: 100_000, longest_chain: 3, ..Default::default() };
    let mut store = store_in(Arc::new(MemoryDir::default()), 0, options);
    store.write(Namespace::GLOBAL, batch(0..200, None)).unwrap();
    assert!(store.pressure().wants_flush && !store.pressure().wait_for_flush);
    store.write(Namespace::GLOBAL, batch(0..2_000, None)).unwrap();
    assert!(store.pressure().wait_for_flush && !store.pressure().wait_for_merge);
    store.flush(0).unwrap();
    assert_eq!(store.pressure().sealed_bytes, 0);
    for _ in 0..2 {
        store.write(Namespace::GLOBAL, batch(0..10, None)).unwrap();
        store.flush(0).unwrap();
    }
    assert!(store.pressure().wait_for_merge);
    store.merge(0).unwrap();
    assert!(!store.pressure().wait_for_merge);
}

#[test]
fn wrong_use_is_refused() {
    let mut store = store_in(Arc::new(MemoryDir::default()), 0, StoreOptions::default());
    let mut foreign = WriteBatch::new();
    foreign.push(&[0, 8, 1], Entry::put(b"")).unwrap();
    assert!(matches!(store.write(Namespace::GLOBAL, foreign), Err(StateError::Misuse(_))));
    let mut ignore = |_: usize, _: Option<tidegate_state::Value<'_>>| {};
    let unsorted = store.get(Namespace::GLOBAL, &[&[0, 2], &[0, 1]], 0, &mut ignore);
    assert!(matches!(unsorted, Err(StateError::Misuse(_))));
    store.begin_snapshot(1).unwrap();
    assert!(matches!(store.begin_snapshot(1), Err(StateError::Misuse(_))));
}

/// A folder whose disk fails when it is told to, and has nothing at hand that was not asked for.
#[derive(Clone, Default)]
struct SlowDir {
    files: MemoryDir,
    is_full: Arc<AtomicBool>,
    waited: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

struct SlowFile {
    file: Arc<dyn ReadAt>,
    dir: SlowDir,
    at_hand: AtomicBool,
}

impl ReadAt for SlowFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.dir.waited.fetch_add(1, Ordering::Relaxed);
        self.file.read_exact_at(buffer, offset)
    }

    fn read_if_at_hand(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let at_hand = self.at_hand.load(Ordering::Relaxed);
        if at_hand { self.file.read_exact_at(buffer, offset).map(|()| true) } else { Ok(false) }
    }

    fn will_need(&self, _: u64, _: u64) {
        self.at_hand.store(true, Ordering::Relaxed);
        self.dir.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

struct FullFile(Box<dyn Append>, Arc<AtomicBool>);

impl Append for FullFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.1.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { self.0.append(bytes) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl RunDir for SlowDir {
    fn create(&self, name: &str) -> io::Result<Box<dyn Append>> {
        Ok(Box::new(FullFile(self.files.create(name)?, Arc::clone(&self.is_full))))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(SlowFile { file: self.files.open(name)?, dir: self.clone(), at_hand: AtomicBool::new(false) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = SlowDir::default();
    let mut store = store_in(Arc::new(dir.clone()), 0, StoreOptions::default());
    store.write(Namespace::GLOBAL, batch(0..100, None)).unwrap();
    dir.is_full.store(true, Ordering::Relaxed);
    let failed = store.flush(0);
    assert!(matches!(failed, Err(StateError::Io { action: "write", .. })), "{failed:?}");
    assert!(dir.list().unwrap().is_empty(), "nothing half written is left");
    assert_eq!(look_up(&mut store, 0..100).unwrap(), 100);
    dir.is_full.store(false, Ordering::Relaxed);
    for _ in 0..4 {
        store.write(Namespace::GLOBAL, batch(0..100, None)).unwrap();
        store.flush(0).unwrap();
    }
    dir.is_full.store(true, Ordering::Relaxed);
    assert!(store.merge(0).is_err());
    dir.is_full.store(false, Ordering::Relaxed);
    store.merge(0).unwrap();
    assert_eq!((store.usage().runs, dir.list().unwrap().len()), (1, 1));
    assert_eq!(look_up(&mut store, 0..100).unwrap(), 100);
}

#[test]
fn a_lookup_waits_for_the_disk_once() {
    let dir = SlowDir::default();
    let mut store = store_in(Arc::new(dir.clone()), 1 << 20, StoreOptions::default());
    store.write(Namespace::GLOBAL, batch(0..60_000, None)).unwrap();
    store.flush(0).unwrap();
    let wanted = || (0..60).map(|n| n * 997);
    assert_eq!(look_up(&mut store, wanted()).unwrap(), 60);
    let (waited, asked) = (dir.waited.load(Ordering::Relaxed), dir.asked.load(Ordering::Relaxed));
    let pages = store.usage().cache.misses as usize;
    assert!(asked > 30, "asked for {asked} places at once");
    assert!(waited <= pages + 2, "waited {waited} times: for the footer, {pages} pages and one block");
    assert_eq!(look_up(&mut store, wanted()).unwrap(), 60);
    assert_eq!(dir.asked.load(Ordering::Relaxed), asked, "what is at hand is not asked for");
}

/// Two threads share a lookup of many keys; lists whose newest part is in memory are left to one.
#[test]
fn many_keys_are_answered_as_one_by_one() {
    for in_memory in [false, true] {
        let mut store = store_in(Arc::new(MemoryDir::default()), 1 << 20, StoreOptions::default());
        store.write(Namespace::GLOBAL, batch(0..9_000, None)).unwrap();
        store.flush(0).unwrap();
        store.write(Namespace::GLOBAL, batch((0..9_000).step_by(3), Some(50))).unwrap();
        store.delete_range(Namespace::GLOBAL, &KeyRange { start: key(8), end: Some(key(1_000)) }).unwrap();
        store.flush(0).unwrap();
        let (mut parts, mut keys) = (WriteBatch::new(), (0..12_000).map(key).collect::<Vec<_>>());
        keys.sort();
        for (at, key) in keys.iter().enumerate().filter(|(at, _)| at % 7 == 0) {
            let entry = if at % 2 == 0 { Entry::append(b"more", 1) } else { Entry::delete() };
            parts.push(key, entry).unwrap();
        }
        store.write(Namespace::GLOBAL, parts).unwrap();
        if !in_memory {
            store.flush(0).unwrap();
        }
        let mut answers = |keys: &[&[u8]]| {
            let mut answers = vec![None; keys.len()];
            let answer = &mut |index: usize, value: Option<tidegate_state::Value<'_>>| {
                assert!(answers[index].is_none(), "answered twice");
                answers[index] = Some(value.map(|v| (v.bytes.to_vec(), v.count, v.expires_ms)));
            };
            store.get(Namespace::GLOBAL, keys, 60, answer).unwrap();
            answers.into_iter().map(|answer| answer.expect("answered")).collect::<Vec<_>>()
        };
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let together = answers(&keys);
        let apart: Vec<_> = keys.chunks(100).flat_map(&mut answers).collect();
        assert_eq!(together, apart);
        assert!(together.iter().flatten().count() > 4_000);
    }
}
