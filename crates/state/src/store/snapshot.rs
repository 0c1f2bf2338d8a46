//! Snapshots: a barrier only notes a sequence number; the snapshot is complete when every batch up to it
//! has been flushed.
//!
//! Until then nothing newer may mix with what the snapshot names: flushes stop at its number, merges
//! leave later range deletes alone, and a namespace dropped meanwhile is kept aside.

use super::Namespace;
use super::descriptor::{FileDescriptor, NamespaceDescriptor, RunDescriptor, RunSetDescriptor, ShardDescriptor};
use super::run_set::RunSet;
use super::run_store::RunStore;
use crate::error::{Result, StateError};
use crate::run::RunFile;
use hashbrown::HashMap;
use std::sync::Arc;

impl RunStore {
    /// Begins a snapshot of the state as it is now; returns at once. It is complete, and
    /// [`take_snapshot`](Self::take_snapshot) gives it, once the flushes up to here have been applied.
    pub fn begin_snapshot(&mut self, id: u64) -> Result<()> {
        let is_open = self.open_snapshots.iter().any(|(open, _)| *open == id);
        if is_open || self.retained.contains_key(&id) {
            return Err(StateError::Misuse(format!("there already is a snapshot {id}")));
        }
        self.open_snapshots.push((id, self.sequence));
        self.end_snapshots();
        Ok(())
    }

    /// The snapshot, when it is complete. Its files stay on disk until [`release`](Self::release).
    pub fn take_snapshot(&mut self, id: u64) -> Option<RunSetDescriptor> {
        let at = self.complete_snapshots.iter().position(|snapshot| snapshot.snapshot == id)?;
        Some(self.complete_snapshots.remove(at))
    }

    /// A snapshot of the state as it is now, flushing what is not yet in files.
    pub fn snapshot(&mut self, id: u64, now_ms: i64) -> Result<RunSetDescriptor> {
        self.begin_snapshot(id)?;
        self.flush(now_ms)?;
        self.take_snapshot(id)
            .ok_or_else(|| StateError::Misuse(format!("snapshot {id} waits for a flush that is under way elsewhere")))
    }

    /// Forgets a snapshot, complete or not: files that nothing else needs are removed. One that does not
    /// exist is no error.
    pub fn release(&mut self, id: u64) -> Result<()> {
        self.open_snapshots.retain(|(open, _)| *open != id);
        self.complete_snapshots.retain(|snapshot| snapshot.snapshot != id);
        self.retained.remove(&id);
        self.clear_graves();
        self.remove_unused()
    }

    /// Ids of the snapshots whose files are kept.
    pub fn retained_snapshots(&self) -> Vec<u64> {
        self.retained.keys().copied().collect()
    }

    /// Completes the snapshots that nothing is missing for.
    pub(super) fn end_snapshots(&mut self) {
        while let Some(&(id, sequence)) = self.open_snapshots.first() {
            let is_missing = |set: &RunSet| set.batches.first().is_some_and(|(batch, _)| *batch <= sequence);
            if self.all_sets().any(|(_, set)| is_missing(set)) {
                return;
            }
            let (descriptor, files) = self.describe(id, sequence);
            self.complete_snapshots.push(descriptor);
            self.retained.insert(id, files);
            self.open_snapshots.remove(0);
            self.clear_graves();
        }
    }

    fn clear_graves(&mut self) {
        let open = &self.open_snapshots;
        self.graves
            .retain(|grave| open.iter().any(|(_, sequence)| (grave.set.created..grave.dropped).contains(sequence)));
    }

    fn describe(&self, snapshot: u64, sequence: u64) -> (RunSetDescriptor, Vec<Arc<RunFile>>) {
        let mut files = Vec::new();
        let mut places = HashMap::new();
        let live = self.sets.iter().map(|(namespace, set)| (*namespace, set));
        let dropped = self.graves.iter().filter(|grave| grave.dropped > sequence);
        let dropped = dropped.map(|grave| (grave.namespace, &grave.set));
        let sets = live.chain(dropped).filter(|(_, set)| set.created <= sequence);
        let namespaces =
            sets.map(|(namespace, set)| describe_set(namespace, set, sequence, &mut files, &mut places)).collect();
        let descriptor = RunSetDescriptor {
            snapshot,
            sequence,
            key_groups: self.key_groups,
            files: files.iter().map(|file: &Arc<RunFile>| FileDescriptor::new(&file.name, &file.written)).collect(),
            namespaces,
        };
        (descriptor, files)
    }
}

fn describe_set(
    namespace: Namespace,
    set: &RunSet,
    sequence: u64,
    files: &mut Vec<Arc<RunFile>>,
    places: &mut HashMap<String, usize>,
) -> NamespaceDescriptor {
    let mut runs = Vec::new();
    let mut indices: HashMap<u64, usize> = HashMap::new();
    let mut shards = Vec::new();
    for shard in &set.shards {
        let mut listed = Vec::new();
        for run in shard.durable() {
            let index = *indices.entry(run.uid).or_insert_with(|| {
                let file = *places.entry(run.file.name.clone()).or_insert_with(|| {
                    files.push(Arc::clone(&run.file));
                    files.len() - 1
                });
                runs.push(RunDescriptor::new(file, &run.facts));
                runs.len() - 1
            });
            listed.push(index);
        }
        shards.push(ShardDescriptor { range: shard.range.clone(), runs: listed });
    }
    let deletes = set.range_deletes.iter().filter(|delete| delete.sequence <= sequence);
    NamespaceDescriptor { namespace, runs, shards, range_deletes: deletes.cloned().collect() }
}
