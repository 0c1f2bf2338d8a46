//! Random histories: the store of runs must answer as the map in memory does, whatever is flushed,
//! merged, snapshotted, crashed and restored in between.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use tidegate_state::{
    Compression, Entry, FlushJob, KeyGroupRange, KeyRange, KeyedStore, MemoryDir, MemoryStore, MergeJob, Namespace,
    PageCache, RunDir, RunSetDescriptor, RunStore, StoreOptions, WriteBatch, remove_orphans, verify_file,
};

const GROUPS: u16 = 4;
const NAMESPACES: [Namespace; 3] = [Namespace::GLOBAL, Namespace(10), Namespace(20)];

/// Kind, count, expiry and length of value of one written entry, and which key it is for.
type Put = (u16, u16, u8, u32, Option<i64>, u16);

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<Put>),
    /// Every key at once, large: a base that small merges leave alone.
    Load(usize),
    /// A write that is flushed at once, so that chains grow.
    Churn(usize, Vec<Put>),
    DeletePrefix(usize, u16, Option<u16>),
    DeleteRange(usize, (u16, u16), (u16, u16)),
    Drop(usize),
    Flush,
    /// A flush and a merge begin; they are applied some steps later.
    StartFlush,
    StartMerge,
    ApplyFlush,
    ApplyMerge,
    AbandonMerge,
    MergeAll,
    BeginSnapshot,
    Snapshot,
    Crash,
    Rescale(u32),
    Tick(i64),
}

fn put() -> impl Strategy<Value = Put> {
    let expiry = prop_oneof![4 => Just(None), 1 => (0i64..60).prop_map(Some)];
    (0..GROUPS, 0u16..40, 0u8..6, 1u32..4, expiry, prop_oneof![9 => 0u16..30, 1 => 2_000u16..6_000])
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = prop_oneof![4 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    prop_oneof![
        6 => (namespace.clone(), prop::collection::vec(put(), 1..40)).prop_map(|(n, puts)| Step::Write(n, puts)),
        2 => namespace.clone().prop_map(Step::Load),
        10 => (namespace.clone(), prop::collection::vec(put(), 1..15)).prop_map(|(n, puts)| Step::Churn(n, puts)),
        1 => (namespace.clone(), 0..GROUPS, any::<Option<u16>>()).prop_map(|(n, g, k)| Step::DeletePrefix(n, g, k.map(|k| k % 40))),
        1 => (namespace.clone(), (0..GROUPS, 0u16..40), (0..GROUPS, 0u16..40)).prop_map(|(n, a, b)| Step::DeleteRange(n, a, b)),
        1 => namespace.prop_map(Step::Drop),
        3 => Just(Step::Flush),
        3 => Just(Step::StartFlush),
        3 => Just(Step::StartMerge),
        3 => Just(Step::ApplyFlush),
        3 => Just(Step::ApplyMerge),
        1 => Just(Step::AbandonMerge),
        4 => Just(Step::MergeAll),
        2 => Just(Step::BeginSnapshot),
        2 => Just(Step::Snapshot),
        2 => Just(Step::Crash),
        1 => (1u32..4).prop_map(Step::Rescale),
        2 => (1i64..10).prop_map(Step::Tick),
    ]
}

/// Keys of different lengths, some of which are prefixes of others.
fn key(group: u16, number: u16) -> Vec<u8> {
    let mut key = group.to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', usize::from(number % 5)));
    key.extend_from_slice(&number.to_be_bytes()[usize::from(number % 2)..]);
    key
}

fn batch_of(puts: &[Put], seed: usize) -> WriteBatch {
    let sorted: BTreeMap<Vec<u8>, &Put> = puts.iter().map(|put| (key(put.0, put.1), put)).collect();
    let mut batch = WriteBatch::new();
    for (at, (key, (_, number, kind, count, expiry, length))) in sorted.into_iter().enumerate() {
        let value: Vec<u8> =
            (0..*length).map(|i| (seed + at + usize::from(*number) + usize::from(i) / 7) as u8).collect();
        let entry = match kind {
            0 | 1 => Entry::put(&value),
            2 => Entry::put_list(&value, *count),
            3 | 4 => Entry::append(&value, *count),
            _ => Entry::delete(),
        };
        let entry = match expiry {
            Some(at) if *kind < 5 => entry.expiring_at(*at),
            _ => entry,
        };
        batch.push(&key, entry).unwrap();
    }
    batch
}

type Seen = Vec<(Vec<u8>, Vec<u8>, u32, Option<i64>)>;

fn scan(store: &mut dyn KeyedStore, namespace: Namespace, range: &KeyRange, now_ms: i64, limit: usize) -> Seen {
    let mut seen = Vec::new();
    let visit = &mut |key: &[u8], value: tidegate_state::Value<'_>| {
        seen.push((key.to_vec(), value.bytes.to_vec(), value.count, value.expires_ms));
        if seen.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(namespace, range, now_ms, visit).unwrap();
    seen
}

fn get_all(store: &mut dyn KeyedStore, namespace: Namespace, now_ms: i64) -> Vec<Option<(Vec<u8>, u32, Option<i64>)>> {
    let mut keys: Vec<Vec<u8>> = (0..GROUPS).flat_map(|group| (0..42).map(move |n| key(group, n))).collect();
    keys.sort();
    keys.dedup();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = vec![None; keys.len()];
    let mut calls = vec![0; keys.len()];
    let mut answer = |index: usize, value: Option<tidegate_state::Value<'_>>| {
        calls[index] += 1;
        found[index] = value.map(|value| (value.bytes.to_vec(), value.count, value.expires_ms));
    };
    store.get(namespace, &keys, now_ms, &mut answer).unwrap();
    assert!(calls.iter().all(|calls| *calls == 1), "every key is answered once");
    found
}

/// One subtask with its folder, and the model it must agree with.
struct Subtask {
    dir: MemoryDir,
    store: RunStore,
    flush: Option<FlushJob>,
    merges: Vec<MergeJob>,
}

struct World {
    options: StoreOptions,
    cache: Arc<PageCache>,
    subtasks: Vec<Subtask>,
    model: MemoryStore,
    now_ms: i64,
    next_snapshot: u64,
    attempt: u32,
    /// Begun and not yet complete, with the state as it was.
    begun: Vec<(u64, MemoryStore)>,
    /// The last complete snapshot, one descriptor for each subtask.
    last: Option<(u64, Vec<RunSetDescriptor>, MemoryStore)>,
}

impl World {
    fn new(file_bytes: u64, cache_bytes: usize, compression: Compression) -> World {
        let options = StoreOptions {
            file_bytes,
            compression,
            longest_chain: 8,
            file_prefix: "a0".into(),
            ..StoreOptions::default()
        };
        let cache = Arc::new(PageCache::new(cache_bytes));
        let dir = MemoryDir::default();
        let store = RunStore::new(Arc::new(dir.clone()), options.clone(), Arc::clone(&cache), groups_of(0, 1));
        let subtask = Subtask { dir, store, flush: None, merges: Vec::new() };
        World {
            options,
            cache,
            subtasks: vec![subtask],
            model: MemoryStore::new(),
            now_ms: 0,
            next_snapshot: 1,
            attempt: 0,
            begun: Vec::new(),
            last: None,
        }
    }

    fn step(&mut self, at: usize, step: &Step) {
        match step {
            Step::Write(namespace, puts) => self.write(NAMESPACES[*namespace], puts, at),
            Step::Load(namespace) => {
                let all: Vec<Put> =
                    (0..GROUPS).flat_map(|group| (0..40).map(move |n| (group, n, 0, 1, None, 200))).collect();
                self.write(NAMESPACES[*namespace], &all, at);
                self.each(|subtask, now_ms| subtask.store.flush(now_ms).unwrap());
            }
            Step::Churn(namespace, puts) => {
                self.write(NAMESPACES[*namespace], puts, at);
                self.each(|subtask, now_ms| subtask.store.flush(now_ms).unwrap());
            }
            Step::DeletePrefix(namespace, group, number) => {
                let prefix = number.map_or_else(|| group.to_be_bytes().to_vec(), |number| key(*group, number));
                self.delete(NAMESPACES[*namespace], &KeyRange::prefix(&prefix));
            }
            Step::DeleteRange(namespace, from, to) => {
                self.delete(NAMESPACES[*namespace], &KeyRange::new(key(from.0, from.1), key(to.0, to.1)));
            }
            Step::Drop(namespace) => {
                self.model.drop_namespace(NAMESPACES[*namespace]).unwrap();
                self.each(|subtask, _| subtask.store.drop_namespace(NAMESPACES[*namespace]).unwrap());
            }
            Step::Flush => self.each(|subtask, now_ms| subtask.store.flush(now_ms).unwrap()),
            Step::StartFlush => self.each(|subtask, now_ms| {
                if subtask.flush.is_none() {
                    subtask.flush = subtask.store.flush_job(now_ms);
                }
            }),
            Step::ApplyFlush => self.each(|subtask, _| {
                if let Some(job) = subtask.flush.take() {
                    subtask.store.apply_flush(job.run().unwrap()).unwrap();
                }
            }),
            Step::StartMerge => {
                self.each(|subtask, now_ms| subtask.merges.extend(subtask.store.merge_job(now_ms).unwrap()));
            }
            Step::ApplyMerge => self.each(|subtask, _| {
                if !subtask.merges.is_empty() {
                    let job = subtask.merges.remove(0);
                    subtask.store.apply_merge(job.run().unwrap()).unwrap();
                }
            }),
            Step::AbandonMerge => self.each(|subtask, _| {
                if let Some(job) = subtask.merges.pop() {
                    subtask.store.abandon(job.id());
                }
            }),
            Step::MergeAll => self.each(|subtask, now_ms| subtask.store.merge(now_ms).unwrap()),
            Step::BeginSnapshot => {
                self.begin_snapshot();
            }
            Step::Snapshot => self.finish_snapshot(),
            Step::Crash => self.restore(self.subtasks.len() as u32),
            Step::Rescale(parallelism) => self.restore(*parallelism),
            Step::Tick(ms) => self.now_ms += ms,
        }
        self.collect_snapshots();
    }

    fn each(&mut self, mut act: impl FnMut(&mut Subtask, i64)) {
        let now_ms = self.now_ms;
        self.subtasks.iter_mut().for_each(|subtask| act(subtask, now_ms));
    }

    fn write(&mut self, namespace: Namespace, puts: &[Put], seed: usize) {
        self.model.write(namespace, batch_of(puts, seed)).unwrap();
        let batch = batch_of(puts, seed);
        self.each(|subtask, _| {
            let groups = subtask.store.key_groups().keys();
            let mut share = WriteBatch::new();
            for (key, entry) in batch.iter().filter(|(key, _)| groups.contains(key)) {
                share.push(key, entry).unwrap();
            }
            subtask.store.write(namespace, share).unwrap();
        });
    }

    fn delete(&mut self, namespace: Namespace, range: &KeyRange) {
        self.model.delete_range(namespace, range).unwrap();
        self.each(|subtask, _| subtask.store.delete_range(namespace, range).unwrap());
    }

    fn begin_snapshot(&mut self) {
        let id = self.next_snapshot;
        self.next_snapshot += 1;
        self.begun.push((id, self.model.clone()));
        self.each(|subtask, _| subtask.store.begin_snapshot(id).unwrap());
    }

    fn finish_snapshot(&mut self) {
        self.begin_snapshot();
        self.each(|subtask, now_ms| {
            if let Some(job) = subtask.flush.take() {
                subtask.store.apply_flush(job.run().unwrap()).unwrap();
            }
            subtask.store.flush(now_ms).unwrap();
        });
    }

    /// Takes the snapshots that every subtask has completed, in order; older ones are released.
    fn collect_snapshots(&mut self) {
        while let Some((id, _)) = self.begun.first() {
            let id = *id;
            if !self.subtasks.iter().all(|subtask| subtask.store.retained_snapshots().contains(&id)) {
                return;
            }
            let parts = self.subtasks.iter_mut().map(|subtask| subtask.store.take_snapshot(id).unwrap()).collect();
            let (_, model) = self.begun.remove(0);
            if let Some((old, ..)) = self.last.replace((id, parts, model)) {
                self.each(|subtask, _| subtask.store.release(old).unwrap());
            }
        }
    }

    /// Everything in memory is lost; the last snapshot is opened at some parallelism.
    fn restore(&mut self, parallelism: u32) {
        let Some((id, parts, model)) = self.last.clone() else {
            return;
        };
        self.begun.clear();
        self.attempt += 1;
        let parts: Vec<RunSetDescriptor> =
            parts.iter().map(|part| serde_json::from_str(&serde_json::to_string(part).unwrap()).unwrap()).collect();
        let old: Vec<MemoryDir> = self.subtasks.drain(..).map(|subtask| subtask.dir).collect();
        for index in 0..parallelism {
            // A local restart finds its old folder; a new subtask gets copies of the files it needs.
            let dir =
                if parallelism as usize == old.len() { old[index as usize].clone() } else { MemoryDir::default() };
            for file in parts.iter().flat_map(|part| &part.files) {
                let bytes = old.iter().find_map(|dir| dir.bytes(&file.name)).expect("a retained file is kept");
                assert_eq!(bytes.len() as u64, file.bytes);
                dir.put(&file.name, bytes.to_vec());
            }
            let options = StoreOptions { file_prefix: format!("a{}-{index}", self.attempt), ..self.options.clone() };
            let groups = groups_of(index, parallelism);
            let (store, report) =
                RunStore::restore(Arc::new(dir.clone()), options, Arc::clone(&self.cache), &parts, groups).unwrap();
            remove_orphans(&dir, &report.orphans).unwrap();
            remove_orphans(&dir, &report.unused).unwrap();
            assert_eq!(dir.list().unwrap().len(), report.files);
            self.subtasks.push(Subtask { dir, store, flush: None, merges: Vec::new() });
        }
        self.model = model;
        // The next snapshot is cut from what was restored, so the one restored from can be named again.
        let clipped = id;
        assert!(self.subtasks.iter().all(|subtask| subtask.store.retained_snapshots().contains(&clipped)));
    }

    fn check(&mut self) {
        for namespace in NAMESPACES {
            let now_ms = self.now_ms;
            let ranges = [KeyRange::all(), KeyRange::prefix(&key(1, 7)), KeyRange::new(key(0, 20), key(2, 9))];
            for range in &ranges {
                let expected = scan(&mut self.model, namespace, range, now_ms, usize::MAX);
                let stores = self.subtasks.iter_mut().map(|subtask| &mut subtask.store);
                let found: Seen = stores.flat_map(|store| scan(store, namespace, range, now_ms, usize::MAX)).collect();
                assert_eq!(found, expected);
            }
            let expected = get_all(&mut self.model, namespace, now_ms);
            let mut found = vec![None; expected.len()];
            for subtask in &mut self.subtasks {
                for (found, one) in found.iter_mut().zip(get_all(&mut subtask.store, namespace, now_ms)) {
                    *found = found.take().or(one);
                }
            }
            assert_eq!(found, expected);
            let first = scan(&mut self.model, namespace, &KeyRange::all(), now_ms, 3);
            if let [only] = &mut self.subtasks[..] {
                assert_eq!(scan(&mut only.store, namespace, &KeyRange::all(), now_ms, 3), first);
            }
        }
    }

    /// At rest no file is left that nothing names, and every file is sound.
    fn check_files(&mut self) {
        for subtask in &mut self.subtasks {
            subtask.merges.drain(..).for_each(|job| subtask.store.abandon(job.id()));
            if let Some(job) = subtask.flush.take() {
                subtask.store.abandon(job.id());
            }
            subtask.store.flush(self.now_ms).unwrap();
            for id in subtask.store.retained_snapshots() {
                subtask.store.release(id).unwrap();
            }
            let snapshot = subtask.store.snapshot(u64::MAX, self.now_ms).unwrap();
            let files = subtask.dir.list().unwrap();
            assert!(snapshot.files.iter().all(|file| files.contains(&file.name)));
            assert_eq!(files.len(), subtask.store.usage().files, "no other file is left");
            files.iter().for_each(|name| drop(verify_file(&subtask.dir, name).unwrap()));
            for namespace in NAMESPACES {
                subtask.store.drop_namespace(namespace).unwrap();
            }
            subtask.store.release(u64::MAX).unwrap();
            assert_eq!(subtask.dir.list().unwrap(), Vec::<String>::new());
        }
    }
}

fn groups_of(index: u32, parallelism: u32) -> KeyGroupRange {
    KeyGroupRange::of_subtask(index, parallelism, u32::from(GROUPS))
}

fn run(steps: &[Step], file_bytes: u64, cache_bytes: usize, compression: Compression) {
    let mut world = World::new(file_bytes, cache_bytes, compression);
    for (at, step) in steps.iter().enumerate() {
        world.step(at, step);
        world.check();
    }
    world.check_files();
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn runs_answer_as_memory_does(
        steps in prop::collection::vec(step(), 1..80),
        file_bytes in prop_oneof![Just(1u64), Just(5_000), Just(1 << 20)],
        cache_bytes in prop_oneof![Just(0usize), Just(2_000), Just(1 << 20)],
        lz4: bool,
    ) {
        run(&steps, file_bytes, cache_bytes, if lz4 { Compression::Lz4 } else { Compression::None });
    }
}
