//! What a snapshot is: names of files and places in them, as plain data for a checkpoint's manifest.

use super::Namespace;
use crate::range::{KeyGroupRange, KeyRange, hex_bytes};
use crate::run::{RunFacts, WrittenFile};
use serde::{Deserialize, Serialize};

/// A snapshot of one store: everything that is needed to open it again, given the files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunSetDescriptor {
    /// The caller's id of the snapshot (the checkpoint's).
    pub snapshot: u64,
    /// Sequence number of the last batch in it.
    pub sequence: u64,
    /// The key groups whose keys it holds.
    pub key_groups: KeyGroupRange,
    /// The files that must be at hand.
    pub files: Vec<FileDescriptor>,
    /// The run sets.
    pub namespaces: Vec<NamespaceDescriptor>,
}

/// A file of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileDescriptor {
    /// Its name in the store's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Checksum in its tail: read when the file is opened, cheap.
    pub checksum: u64,
    /// XXH3-64 of all its bytes, for whoever copies it.
    pub content_hash: u64,
}

/// The run set of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamespaceDescriptor {
    /// Which one.
    pub namespace: Namespace,
    /// Its runs.
    pub runs: Vec<RunDescriptor>,
    /// Parts of the key space, ascending, and which runs are read for each.
    pub shards: Vec<ShardDescriptor>,
    /// Ranges deleted from older runs.
    pub range_deletes: Vec<RangeDelete>,
}

/// A run: a sorted part of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunDescriptor {
    /// Index into [`RunSetDescriptor::files`].
    pub file: usize,
    /// Where the run's footer begins in the file.
    pub footer_offset: u64,
    /// Length of the footer.
    pub footer_bytes: u32,
    /// Smallest key.
    #[serde(with = "hex_bytes")]
    pub first_key: Vec<u8>,
    /// Largest key.
    #[serde(with = "hex_bytes")]
    pub last_key: Vec<u8>,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Sequence number of the oldest batch in it.
    pub oldest: u64,
    /// Sequence number of the newest batch in it.
    pub newest: u64,
    /// Entries that expire, with the earliest and latest time; absent when none does.
    pub expiry: Option<ExpirySpan>,
}

/// How entries of a run expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExpirySpan {
    /// Number of entries that expire.
    pub entries: u64,
    /// Earliest expiry, milliseconds since the epoch.
    pub first_ms: i64,
    /// Latest expiry.
    pub last_ms: i64,
}

/// A part of the key space and the runs that are read for it. Other parts of these runs belong to
/// other shards, or to nobody any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardDescriptor {
    /// The keys.
    pub range: KeyRange,
    /// Indices into [`NamespaceDescriptor::runs`], newest first.
    pub runs: Vec<usize>,
}

/// Says that the keys of a range are gone from every batch before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RangeDelete {
    /// Its place among the batches.
    pub sequence: u64,
    /// The keys.
    pub range: KeyRange,
}

impl RunDescriptor {
    pub(crate) fn new(file: usize, facts: &RunFacts) -> RunDescriptor {
        let RunFacts { footer_offset, footer_bytes, data_bytes, entries, expiry, .. } = *facts;
        let (first_key, last_key) = (facts.first_key.clone(), facts.last_key.clone());
        let (oldest, newest) = facts.sequences;
        RunDescriptor {
            file,
            footer_offset,
            footer_bytes,
            first_key,
            last_key,
            data_bytes,
            entries,
            oldest,
            newest,
            expiry,
        }
    }

    pub(crate) fn facts(&self) -> RunFacts {
        RunFacts {
            footer_offset: self.footer_offset,
            footer_bytes: self.footer_bytes,
            first_key: self.first_key.clone(),
            last_key: self.last_key.clone(),
            data_bytes: self.data_bytes,
            entries: self.entries,
            sequences: (self.oldest, self.newest),
            expiry: self.expiry,
        }
    }
}

impl FileDescriptor {
    pub(crate) fn new(name: &str, written: &WrittenFile) -> FileDescriptor {
        let WrittenFile { bytes, checksum, content_hash } = *written;
        FileDescriptor { name: name.into(), bytes, checksum, content_hash }
    }

    pub(crate) fn written(&self) -> WrittenFile {
        WrittenFile { bytes: self.bytes, checksum: self.checksum, content_hash: self.content_hash }
    }
}
