//! Partitions in memory, groups on disk and a coordinator on disk: a broker that can be killed at any byte.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;

use kafka_protocol::ResponseError;
use tempfile::TempDir;

use super::super::{EndRequest, Identity, Participants, Partition, Transactions};
use crate::groups::{Committer, Groups, Offset};
use crate::options::BrokerOptions;
use crate::report::Report;

const T_JOURNAL: &str = "transactions.journal";
const G_JOURNAL: &str = "groups.journal";
/// Longest timeout a producer may ask for.
const TIMEOUT_MAX_MS: i64 = 900_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    Record { producer: i64, value: u64 },
    Marker { producer: i64, commit: bool },
}

/// A partition as far as transactions see it: epochs of producers, open transactions, order.
#[derive(Debug, Default)]
struct Log {
    written: Vec<Written>,
    epochs: BTreeMap<i64, i16>,
    open: BTreeMap<i64, i16>,
}

/// What the disk holds beside the journals, and what was done to it in the current operation.
#[derive(Debug, Default)]
struct Disk {
    logs: BTreeMap<Partition, Log>,
    /// Markers that can still be written before the disk fails; absent if it does not.
    fuse: Option<usize>,
    /// Length of the coordinator's journal when the last effect outside of it came true.
    floor: u64,
    /// The same for the change of the groups' journal.
    floor_at_groups: Option<u64>,
}

pub(super) struct World {
    folder: TempDir,
    disk: Mutex<Disk>,
    pub(super) groups: Option<Groups>,
    pub(super) coordinator: Option<Transactions>,
    pub(super) now_ms: i64,
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

impl World {
    pub(super) fn new() -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut world =
            World { folder, disk: Mutex::default(), groups: None, coordinator: None, now_ms: 1_700_000_000_000 };
        world.open();
        world
    }

    /// Starts the broker on what is on the disk.
    pub(super) fn open(&mut self) {
        self.coordinator = None;
        self.groups = None;
        self.disk.lock().expect("no panic before").fuse = None;
        let options = BrokerOptions { report: Report::silent(), ..BrokerOptions::default() };
        let groups = Groups::open(self.folder.path(), &options, self.now_ms).expect("the groups can be read");
        self.groups = Some(groups);
        let opened = Transactions::open_with(self.folder.path(), self, TIMEOUT_MAX_MS, Report::silent(), self.now_ms);
        self.coordinator = Some(opened.expect("the transactions can be read"));
    }

    pub(super) fn coordinator(&self) -> &Transactions {
        self.coordinator.as_ref().expect("the broker runs")
    }

    pub(super) fn groups(&self) -> &Groups {
        self.groups.as_ref().expect("the broker runs")
    }

    /// Lets the `count`th next marker and all after it fail.
    pub(super) fn fail_after(&self, count: usize) {
        self.disk.lock().expect("no panic before").fuse = Some(count);
    }

    pub(super) fn init(&self, id: &str, expected: Option<Identity>) -> Result<Identity, ResponseError> {
        self.coordinator().init_producer_id(self, Some(id), 60_000, expected, self.now_ms)
    }

    pub(super) fn end(
        &self,
        id: &str,
        producer: Identity,
        commit: bool,
        bumps_epoch: bool,
    ) -> Result<Identity, ResponseError> {
        self.coordinator().end(self, id, EndRequest { producer, commit, bumps_epoch }, self.now_ms)
    }

    pub(super) fn tick(&self) {
        // A disk that fails is tried again at the next tick.
        let _ = self.coordinator().tick_with(self, self.now_ms);
    }

    pub(super) fn produce(
        &self,
        id: &str,
        producer: Identity,
        partition: i32,
        value: u64,
        version: i16,
    ) -> Result<(), ResponseError> {
        let appending =
            self.coordinator().verify_produce(id, producer.id, producer.epoch, "t", partition, version, self.now_ms)?;
        let appended = self.append(partition, producer, value);
        drop(appending);
        appended
    }

    /// What a log does with a transactional record, whether or not a coordinator was asked.
    pub(super) fn append(&self, partition: i32, producer: Identity, value: u64) -> Result<(), ResponseError> {
        let mut disk = self.disk.lock().expect("no panic before");
        let log = disk.logs.entry(("t".to_owned(), partition)).or_default();
        let epoch = log.epochs.entry(producer.id).or_insert(producer.epoch);
        if producer.epoch < *epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        *epoch = producer.epoch;
        log.open.insert(producer.id, producer.epoch);
        log.written.push(Written::Record { producer: producer.id, value });
        Ok(())
    }

    pub(super) fn stage(
        &self,
        id: &str,
        producer: Identity,
        group: &str,
        value: u64,
        version: i16,
    ) -> Result<(), ResponseError> {
        let appending = self.coordinator().verify_offsets(id, producer, group, version, self.now_ms)?;
        let metadata = String::new();
        let offset =
            Offset { offset: value as i64, leader_epoch: -1, metadata, commit_ms: self.now_ms, expire_ms: None };
        let who = Committer { member_id: "", instance_id: None, generation: -1 };
        let offsets = vec![(("t".to_owned(), 0), offset)];
        let staged = self.groups().stage(group, producer.id, who, offsets, self.now_ms);
        drop(appending);
        staged
    }

    pub(super) fn committed_offset(&self, group: &str) -> Option<u64> {
        let fetched = self.groups().fetch(group, Some(vec![("t".to_owned(), 0)]), false);
        fetched.into_iter().find_map(|(_, offset)| offset.ok().flatten()).map(|offset| offset.offset as u64)
    }

    /// Values that a read_committed consumer gets to see.
    pub(super) fn visible(&self) -> Vec<u64> {
        let disk = self.disk.lock().expect("no panic before");
        let mut visible = Vec::new();
        for log in disk.logs.values() {
            for (at, written) in log.written.iter().enumerate() {
                let &Written::Record { producer, value } = written else { continue };
                let marker = log.written[at..].iter().find_map(|later| match *later {
                    Written::Marker { producer: of, commit } if of == producer => Some(commit),
                    _ => None,
                });
                if marker == Some(true) {
                    visible.push(value);
                }
            }
        }
        visible
    }

    /// How many transactions keep readers from going on.
    pub(super) fn open_count(&self) -> usize {
        self.disk.lock().expect("no panic before").logs.values().map(|log| log.open.len()).sum()
    }

    pub(super) fn journal_lengths(&self) -> (u64, u64) {
        (len(&self.folder.path().join(T_JOURNAL)), len(&self.folder.path().join(G_JOURNAL)))
    }

    /// Kills the broker in the middle of an operation that began when the journals were `before` long,
    /// at the moment that `at` (0 to 1) says: what later moments wrote is not there. Then starts it.
    pub(super) fn kill(&mut self, before: (u64, u64), at: f64) {
        let after = self.journal_lengths();
        let (floor, at_groups) = {
            let mut disk = self.disk.lock().expect("no panic before");
            (std::mem::take(&mut disk.floor).max(before.0), disk.floor_at_groups.take())
        };
        let between = |low: u64, high: u64, part: f64| low + ((high - low) as f64 * part) as u64;
        match at_groups {
            Some(then) if at < 0.5 => {
                self.cut(G_JOURNAL, between(before.1, after.1, at * 2.0));
                self.cut(T_JOURNAL, then);
            }
            Some(_) => self.cut(T_JOURNAL, between(floor, after.0, at * 2.0 - 1.0)),
            None => self.cut(T_JOURNAL, between(floor, after.0, at)),
        }
        self.open();
    }

    fn cut(&self, journal: &str, length: u64) {
        let file = OpenOptions::new().write(true).open(self.folder.path().join(journal)).expect("the journal");
        file.set_len(length).expect("it can be cut");
    }

    /// Forgets what the last operation touched; it was acknowledged.
    pub(super) fn acknowledged(&self) {
        let mut disk = self.disk.lock().expect("no panic before");
        disk.floor = 0;
        disk.floor_at_groups = None;
    }
}

impl Participants for World {
    fn write_marker(
        &self,
        partition: &Partition,
        producer: Identity,
        commit: bool,
        _now_ms: i64,
    ) -> Result<(), ResponseError> {
        let mut disk = self.disk.lock().expect("no panic before");
        if let Some(fuse) = &mut disk.fuse {
            *fuse = fuse.checked_sub(1).ok_or(ResponseError::KafkaStorageError)?;
        }
        disk.floor = self.journal_lengths().0;
        let log = disk.logs.entry(partition.clone()).or_default();
        let known = log.epochs.entry(producer.id).or_insert(producer.epoch);
        if producer.epoch < *known {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        let repeated = *known == producer.epoch && !log.open.contains_key(&producer.id);
        *known = producer.epoch;
        log.open.remove(&producer.id);
        if !repeated {
            log.written.push(Written::Marker { producer: producer.id, commit });
        }
        Ok(())
    }

    fn end_offsets(&self, producer_id: i64, commit: bool, now_ms: i64) -> Result<(), ResponseError> {
        let before = self.journal_lengths();
        if self.disk.lock().expect("no panic before").fuse == Some(0) {
            return Err(ResponseError::KafkaStorageError);
        }
        let ended = self.groups().end_transaction(producer_id, commit, now_ms);
        if self.journal_lengths().1 > before.1 {
            let mut disk = self.disk.lock().expect("no panic before");
            disk.floor = before.0;
            disk.floor_at_groups = Some(before.0);
        }
        ended
    }

    fn open_transactions(&self) -> Vec<(Partition, Identity)> {
        let disk = self.disk.lock().expect("no panic before");
        let of_log = |(partition, log): (&Partition, &Log)| {
            let of = |(&id, &epoch): (&i64, &i16)| (partition.clone(), Identity { id, epoch });
            log.open.iter().map(of).collect::<Vec<_>>()
        };
        disk.logs.iter().flat_map(of_log).collect()
    }
}
