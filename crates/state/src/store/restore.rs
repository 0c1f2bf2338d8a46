//! Opens snapshots again: one, or those of several old subtasks of which this one gets key groups.

use super::descriptor::{NamespaceDescriptor, RangeDelete, RunSetDescriptor};
use super::run_set::RunSet;
use super::run_store::{FILE_ENDING, RunStore, StoreOptions};
use super::shard::{Level, Shard};
use crate::cache::PageCache;
use crate::error::{Result, StateError};
use crate::io::RunDir;
use crate::range::{KeyGroupRange, KeyRange};
use crate::run::{Run, RunFile};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// What restoring found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreReport {
    /// State files in the folder that no snapshot names: left over from a crash. See [`remove_orphans`].
    pub orphans: Vec<String>,
    /// State files in the folder that a snapshot names, but that hold nothing of the key groups opened.
    /// The store leaves them alone.
    pub unused: Vec<String>,
    /// Files that were opened.
    pub files: usize,
    /// Their bytes.
    pub file_bytes: u64,
}

/// Removes files that [`RestoreReport`] named as left over.
pub fn remove_orphans(dir: &dyn RunDir, orphans: &[String]) -> Result<()> {
    for file in orphans {
        dir.remove(file).map_err(|source| StateError::Io { file: file.clone(), action: "remove", source })?;
    }
    Ok(())
}

impl RunStore {
    /// Opens the `key_groups` of one or more snapshots. All files that hold some of them must be in
    /// `dir`; they are checked at both ends, blocks when they are read. The snapshots are retained until
    /// they are [released](Self::release).
    pub fn restore(
        dir: Arc<dyn RunDir>,
        options: StoreOptions,
        cache: Arc<PageCache>,
        snapshots: &[RunSetDescriptor],
        key_groups: KeyGroupRange,
    ) -> Result<(RunStore, RestoreReport)> {
        check_disjoint(snapshots, key_groups)?;
        let mut store = RunStore::new(Arc::clone(&dir), options, cache, key_groups);
        store.sequence = snapshots.iter().map(|snapshot| snapshot.sequence).max().unwrap_or(0);
        for snapshot in snapshots {
            let clip = snapshot.key_groups.intersect(&key_groups).keys();
            for namespace in &snapshot.namespaces {
                store.add_namespace(snapshot, namespace, &clip)?;
            }
            let named = snapshot.files.iter().filter_map(|file| store.files.get(&file.name)).cloned();
            let named: Vec<_> = named.collect();
            store.retained.entry(snapshot.snapshot).or_default().extend(named);
        }
        for set in store.sets.values_mut() {
            fill_gaps(&mut set.shards);
            set.range_deletes.sort_by_key(|delete| delete.sequence);
            set.trim_range_deletes();
            set.split_large_shards(store.options.file_bytes)?;
        }
        let report = store.look_around(snapshots)?;
        Ok((store, report))
    }

    fn add_namespace(
        &mut self,
        snapshot: &RunSetDescriptor,
        from: &NamespaceDescriptor,
        clip: &KeyRange,
    ) -> Result<()> {
        let created = self.next_sequence();
        let mut runs: HashMap<usize, Arc<Run>> = HashMap::new();
        let mut shards = Vec::new();
        for shard in &from.shards {
            let range = shard.range.intersect(clip);
            if range.is_empty() {
                continue;
            }
            let mut listed = Vec::new();
            for index in &shard.runs {
                let run = match runs.get(index) {
                    Some(run) => Arc::clone(run),
                    None => {
                        let Some(run) = self.open_run(snapshot, from, *index, clip)? else { continue };
                        runs.insert(*index, Arc::clone(&run));
                        run
                    }
                };
                if run.touches(&range) {
                    listed.push(run);
                }
            }
            shards.push(Shard { levels: listed.into_iter().map(Level::of).collect(), ..Shard::new(range) });
        }
        let deletes = from
            .range_deletes
            .iter()
            .map(|delete| RangeDelete { sequence: delete.sequence, range: delete.range.intersect(clip) });
        let set =
            self.sets.entry(from.namespace).or_insert_with(|| RunSet { shards: Vec::new(), ..RunSet::new(created) });
        set.shards.extend(shards);
        set.range_deletes.extend(deletes.filter(|delete| !delete.range.is_empty()));
        Ok(())
    }

    /// Opens a run, or says that none of its keys lies in `clip`.
    fn open_run(
        &mut self,
        snapshot: &RunSetDescriptor,
        from: &NamespaceDescriptor,
        index: usize,
        clip: &KeyRange,
    ) -> Result<Option<Arc<Run>>> {
        let bad = |detail: String| StateError::Restore { snapshot: snapshot.snapshot, detail };
        let run = from.runs.get(index).ok_or_else(|| bad(format!("it has no run {index}")))?;
        if run.last_key < clip.start || !clip.is_before_end(&run.first_key) {
            return Ok(None);
        }
        let file = snapshot.files.get(run.file).ok_or_else(|| bad(format!("it has no file {}", run.file)))?;
        let open = match self.files.get(&file.name) {
            Some(open) if open.written == file.written() => Arc::clone(open),
            Some(_) => return Err(bad(format!("two snapshots mean different files by {}", file.name))),
            None => {
                let open = Arc::new(RunFile::open_described(self.dir.as_ref(), &file.name, file.written())?);
                self.files.insert(file.name.clone(), Arc::clone(&open));
                open
            }
        };
        Ok(Some(Arc::new(Run::new(self.cache.new_uid(), open, run.facts()))))
    }

    /// Finds left-over files, and a number for new ones that no name in the folder has.
    fn look_around(&mut self, snapshots: &[RunSetDescriptor]) -> Result<RestoreReport> {
        let list = self.dir.list();
        let names = list.map_err(|source| StateError::Io { file: ".".into(), action: "list", source })?;
        let named: HashSet<&str> =
            snapshots.iter().flat_map(|snapshot| &snapshot.files).map(|file| file.name.as_str()).collect();
        let all = names.iter().map(String::as_str).chain(named.iter().copied());
        self.next_file = all.filter_map(|name| number_of(name, &self.options.file_prefix)).max().unwrap_or(0);
        let is_state = |name: &&String| name.strip_suffix(FILE_ENDING).is_some_and(|stem| stem.ends_with('.'));
        let others = names.iter().filter(is_state).filter(|name| !self.files.contains_key(name.as_str())).cloned();
        let (mut unused, mut orphans): (Vec<_>, Vec<_>) = others.partition(|name| named.contains(name.as_str()));
        unused.sort();
        orphans.sort();
        let file_bytes = self.files.values().map(|file| file.written.bytes).sum();
        Ok(RestoreReport { orphans, unused, files: self.files.len(), file_bytes })
    }
}

/// Two snapshots must not both hold a key group that is wanted.
fn check_disjoint(snapshots: &[RunSetDescriptor], wanted: KeyGroupRange) -> Result<()> {
    for (at, one) in snapshots.iter().enumerate() {
        for other in &snapshots[at + 1..] {
            let both = one.key_groups.intersect(&other.key_groups).intersect(&wanted);
            if !both.is_empty() {
                let detail = format!("key groups {}..{} are in two of the snapshots given", both.first, both.end);
                return Err(StateError::Restore { snapshot: other.snapshot, detail });
            }
        }
    }
    Ok(())
}

/// Sorts shards and covers the keys between them, so that every key has a shard.
fn fill_gaps(shards: &mut Vec<Shard>) {
    shards.sort_by(|a, b| a.range.start.cmp(&b.range.start));
    let mut filled = Vec::with_capacity(shards.len() + 2);
    let mut from = Some(Vec::new());
    for shard in shards.drain(..) {
        if let Some(start) = from.filter(|start| *start < shard.range.start) {
            filled.push(Shard::new(KeyRange::new(start, shard.range.start.clone())));
        }
        from = shard.range.end.clone();
        filled.push(shard);
    }
    if let Some(start) = from {
        filled.push(Shard::new(KeyRange { start, end: None }));
    }
    *shards = filled;
}

/// The number in the name of a file of this prefix.
fn number_of(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}
