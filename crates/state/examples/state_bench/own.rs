//! The store under test, with one thread that flushes and one that merges.

use super::workload::{Subject, VALUE_BYTES};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tidegate_state::io::{Append, ReadAt};
use tidegate_state::{
    Entry, FlushJob, FlushResult, JobCost, KeyGroupRange, KeyedStore, LocalDir, MergeJob, MergeResult, Namespace,
    PageCache, RunDir, RunSetDescriptor, RunStore, StoreOptions, WriteBatch,
};

enum Done {
    Flush(FlushResult),
    Merge(MergeResult),
}

pub struct Own {
    pub store: RunStore,
    flushes: Sender<FlushJob>,
    merges: Sender<MergeJob>,
    done: Receiver<Done>,
    merging: bool,
    pub merge_on: bool,
    snapshots: u64,
    uploaded: HashSet<String>,
    pub uploaded_bytes: u64,
    pub flush_cost: JobCost,
    pub merge_cost: JobCost,
    pub largest_merge_bytes: u64,
    pub last: Option<RunSetDescriptor>,
}

impl Own {
    pub fn new(store: RunStore) -> Own {
        let (flushes, flush_jobs) = channel::<FlushJob>();
        let (merges, merge_jobs) = channel::<MergeJob>();
        let (flushed, done) = channel();
        let merged = flushed.clone();
        std::thread::spawn(move || {
            for job in flush_jobs {
                let result = job.run().expect("a flush");
                if flushed.send(Done::Flush(result)).is_err() {
                    return;
                }
            }
        });
        std::thread::spawn(move || {
            for job in merge_jobs {
                let result = job.run().expect("a merge");
                if merged.send(Done::Merge(result)).is_err() {
                    return;
                }
            }
        });
        // A restored store keeps the snapshot it came from; ids go on behind it.
        let snapshots = store.retained_snapshots().last().copied().unwrap_or(0);
        Own {
            store,
            flushes,
            merges,
            done,
            merging: false,
            merge_on: true,
            snapshots,
            uploaded: HashSet::new(),
            uploaded_bytes: 0,
            flush_cost: JobCost::default(),
            merge_cost: JobCost::default(),
            largest_merge_bytes: 0,
            last: None,
        }
    }

    pub fn create(path: &Path, cache_bytes: usize, options: StoreOptions) -> Own {
        let dir = Arc::new(LocalDir::new(path).expect("a folder"));
        let cache = Arc::new(PageCache::new(cache_bytes));
        Own::new(RunStore::new(dir, options, cache, KeyGroupRange::new(0, 128)))
    }

    fn apply(&mut self, done: Done) {
        match done {
            Done::Flush(result) => {
                add(&mut self.flush_cost, result.cost());
                self.store.apply_flush(result).expect("a flush taken in");
            }
            Done::Merge(result) => {
                self.merging = false;
                add(&mut self.merge_cost, result.cost());
                self.largest_merge_bytes = self.largest_merge_bytes.max(result.cost().bytes_written);
                self.store.apply_merge(result).expect("a merge taken in");
            }
        }
    }

    /// Hands out what is due and takes in what is done.
    pub fn pump(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            self.apply(done);
        }
        if let Some(job) = self.store.flush_job(0) {
            self.flushes.send(job).expect("the flusher lives");
        }
        if self.merge_on
            && !self.merging
            && let Some(job) = self.store.merge_job(0).expect("a merge")
        {
            self.merging = true;
            self.merges.send(job).expect("the merger lives");
        }
    }

    /// Waits until nothing is left to do.
    pub fn settle(&mut self) {
        self.pump();
        while self.merging || self.store.pressure().sealed_bytes > 0 {
            let done = self.done.recv().expect("workers live");
            self.apply(done);
            self.pump();
        }
    }

    pub fn write_to(&mut self, namespace: Namespace, batch: WriteBatch) {
        let pressure = self.store.pressure();
        if pressure.wait_for_flush || (self.merge_on && pressure.wait_for_merge && self.merging) {
            let done = self.done.recv().expect("workers live");
            self.apply(done);
        }
        self.store.write(namespace, batch).expect("a batch");
        self.pump();
    }
}

fn add(sum: &mut JobCost, cost: JobCost) {
    sum.entries_read += cost.entries_read;
    sum.bytes_read += cost.bytes_read;
    sum.entries_written += cost.entries_written;
    sum.bytes_written += cost.bytes_written;
}

impl Subject for Own {
    fn get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) {
        self.pump();
        self.store
            .get(Namespace::GLOBAL, keys, 0, &mut |index, value| found(index, value.map(|value| value.bytes)))
            .expect("a lookup");
    }

    fn write(&mut self, entries: &[(Vec<u8>, [u8; VALUE_BYTES])]) {
        let bytes = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        let mut batch = WriteBatch::with_capacity(entries.len(), bytes);
        for (key, value) in entries {
            batch.push(key, Entry::put(value)).expect("ascending keys");
        }
        self.write_to(Namespace::GLOBAL, batch);
    }

    fn barrier(&mut self) {
        let old = self.snapshots;
        self.snapshots += 1;
        self.store.begin_snapshot(self.snapshots).expect("a snapshot begins");
        self.pump();
        let snapshot = loop {
            if let Some(snapshot) = self.store.take_snapshot(self.snapshots) {
                break snapshot;
            }
            let done = self.done.recv().expect("workers live");
            self.apply(done);
            self.pump();
        };
        for file in &snapshot.files {
            if self.uploaded.insert(file.name.clone()) {
                self.uploaded_bytes += file.bytes;
            }
        }
        self.last = Some(snapshot);
        self.store.release(old).expect("the old snapshot is released");
    }
}

/// A folder whose files are read as they come, without asking ahead.
pub struct NoAhead(pub LocalDir);

struct Plain(Arc<dyn ReadAt>);

impl ReadAt for Plain {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

impl RunDir for NoAhead {
    fn create(&self, name: &str) -> io::Result<Box<dyn Append>> {
        self.0.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(Plain(self.0.open(name)?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
}
