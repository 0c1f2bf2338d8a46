//! Tests of the log, through its public face; readers decode with a client's code.

mod appending;
mod compaction;
mod lookups;
mod model;
mod reading;
mod recovery;
mod retention;
mod throughput;
mod together;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::records::Record;
use tempfile::TempDir;

use super::*;
use crate::batch::samples;

/// The broker's clock in tests.
const NOW: i64 = 1_000_000;

/// A log in a folder of its own, which it can be opened from again.
struct Opened {
    log: PartitionLog,
    config: Arc<TopicConfig>,
    folder: TempDir,
}

/// A log with settings changed by `change`; indexes are dense, so that small logs use them.
fn open(change: impl FnOnce(&mut TopicConfig)) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let mut config = TopicConfig { index_interval_bytes: 100, ..TopicConfig::default() };
    change(&mut config);
    let config = Arc::new(config);
    let log = PartitionLog::open(&folder.path().join("t-0"), Arc::clone(&config), NOW).unwrap();
    Opened { log, config, folder }
}

impl Opened {
    fn path(&self) -> PathBuf {
        self.folder.path().join("t-0")
    }

    /// The log as the next process sees it.
    fn reopen(&mut self) {
        self.log = PartitionLog::open(&self.path(), Arc::clone(&self.config), NOW).unwrap();
    }

    fn append(&self, batch: Bytes) -> Result<Appended, ResponseError> {
        self.log.append(batch, TxnCheck::Verified, NOW)
    }

    /// Appends and says where.
    fn at(&self, batch: Bytes) -> i64 {
        self.append(batch).unwrap().base_offset
    }

    /// Names of the partition's files with this suffix, in order.
    fn files(&self, suffix: &str) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(suffix));
        names.sort();
        names
    }

    /// Everything from `from` on, read as a consumer does, `max_bytes` at a time.
    fn consume(&self, mut from: i64, max_bytes: usize, isolation: Isolation) -> Vec<Record> {
        let mut seen = Vec::new();
        loop {
            let read = self.log.read(from, max_bytes, true, isolation).unwrap();
            if read.records.is_empty() {
                return seen;
            }
            let last = samples::headers(&read.records).last().unwrap().last_offset();
            let fetched = samples::decode(read.records);
            seen.extend(visible(fetched, &read.aborted, from, isolation));
            from = last + 1;
        }
    }

    /// Offsets and values of what a consumer sees.
    fn values(&self, isolation: Isolation) -> Vec<(i64, String)> {
        let records = self.consume(self.log.offsets().log_start, 1 << 20, isolation);
        records.iter().map(|record| (record.offset, text(record.value.as_ref()))).collect()
    }
}

/// What a consumer keeps of a fetch: source, the Java client's `CompletedFetch`.
fn visible(fetched: Vec<Record>, aborted: &[(i64, i64)], from: i64, isolation: Isolation) -> Vec<Record> {
    let mut waiting = aborted.to_vec();
    waiting.sort_by_key(|(_, first)| *first);
    let mut waiting = waiting.into_iter().peekable();
    let mut aborting = BTreeSet::new();
    let mut seen = Vec::new();
    for record in fetched {
        while let Some((producer, _)) = waiting.next_if(|(_, first)| *first <= record.offset) {
            aborting.insert(producer);
        }
        if record.control {
            if record.key.as_ref().unwrap()[3] == 0 {
                aborting.remove(&record.producer_id);
            }
            continue;
        }
        let hidden =
            isolation == Isolation::ReadCommitted && record.transactional && aborting.contains(&record.producer_id);
        if record.offset >= from && !hidden {
            seen.push(record);
        }
    }
    seen
}

fn text(bytes: Option<&Bytes>) -> String {
    bytes.map_or("<none>".to_owned(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// Pairs as `values` gives them.
fn pairs(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|(offset, value)| (*offset, (*value).to_owned())).collect()
}
