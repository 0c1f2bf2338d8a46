//! Writes a state file: one run after the other, each from sorted entries.
//!
//! Index pages are written behind the blocks they cover, so a writer holds one page and the list of
//! pages in memory, however large the run is.

use super::block::BlockBuilder;
use super::footer::{Footer, GroupShare, PagePlace, RunCounts};
use super::format::{DirectoryEntry, Tail, encode_directory, head};
use super::frame::{Compression, put_frame};
use super::page::PageBuilder;
use crate::batch::check_value;
use crate::entry::{Entry, EntryKind};
use crate::error::{Result, StateError};
use crate::io::{Append, RunDir};
use crate::range::{check_key, group_of};
use crate::store::ExpirySpan;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes collected before they are handed to the file.
const BUFFER_BYTES: usize = 256 << 10;

/// A run that has been written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenRun {
    pub(crate) footer_offset: u64,
    pub(crate) footer_bytes: u32,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) counts: RunCounts,
    pub(crate) expiry: Option<ExpirySpan>,
}

/// A file that has been written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrittenFile {
    pub(crate) bytes: u64,
    /// Checksum in the file's tail.
    pub(crate) checksum: u64,
    /// XXH3-64 of all bytes.
    pub(crate) content_hash: u64,
}

/// Writes one file.
pub(crate) struct FileWriter {
    name: String,
    file: Box<dyn Append>,
    compression: Compression,
    block_bytes: usize,
    buffer: Vec<u8>,
    /// Bytes handed to the file.
    flushed: u64,
    content: Xxh3,
    block: BlockBuilder,
    page: PageBuilder,
    scratch: Vec<u8>,
    runs: Vec<DirectoryEntry>,
    // The run being written.
    run: RunParts,
}

#[derive(Default)]
struct RunParts {
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    block_first: Vec<u8>,
    page_keys: Vec<Vec<u8>>,
    pages: Vec<PagePlace>,
    groups: Vec<GroupShare>,
    counts: RunCounts,
    expiry: Option<ExpirySpan>,
}

impl FileWriter {
    pub(crate) fn create(
        dir: &dyn RunDir,
        name: &str,
        compression: Compression,
        block_bytes: usize,
    ) -> Result<FileWriter> {
        let file = dir.create(name).map_err(|source| StateError::Io { file: name.into(), action: "create", source })?;
        Ok(FileWriter {
            name: name.into(),
            file,
            compression,
            block_bytes,
            buffer: head().to_vec(),
            flushed: 0,
            content: Xxh3::new(),
            block: BlockBuilder::default(),
            page: PageBuilder::default(),
            scratch: Vec::new(),
            runs: Vec::new(),
            run: RunParts::default(),
        })
    }

    fn offset(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Bytes of data blocks of the run being written, as far as they are full.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.run.counts.data_bytes
    }

    /// The last key of the run being written; empty at its start.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.run.last_key
    }

    /// Adds an entry to the run; keys must ascend.
    pub(crate) fn push(&mut self, key: &[u8], entry: &Entry<'_>) -> Result<()> {
        check_key(key)?;
        check_value(entry)?;
        if key <= self.run.last_key.as_slice() {
            return Err(StateError::Misuse(format!("keys of run {} must ascend", self.name)));
        }
        if self.run.counts.entries == 0 {
            self.run.first_key = key.to_vec();
        }
        if self.block.is_empty() {
            self.run.block_first.clear();
            self.run.block_first.extend_from_slice(key);
        }
        let group = group_of(key).unwrap_or_default();
        match self.run.groups.last_mut() {
            Some(share) if share.key_group == group => share.entries += 1,
            _ => {
                let offset = self.offset();
                self.run.groups.push(GroupShare { key_group: group, entries: 1, offset });
            }
        }
        let counts = &mut self.run.counts;
        counts.entries += 1;
        counts.deletes += u64::from(entry.kind == EntryKind::Delete);
        counts.appends += u64::from(entry.kind == EntryKind::Append);
        counts.expiring += u64::from(entry.expires_ms.is_some() || entry.segmented);
        counts.raw_bytes += (key.len() + entry.value.len()) as u64;
        if let Some(at) = entry.expires_ms {
            let span = self.run.expiry.get_or_insert(ExpirySpan { entries: 0, first_ms: at, last_ms: at });
            span.entries += 1;
            span.first_ms = span.first_ms.min(at);
            span.last_ms = span.last_ms.max(at);
        }
        self.run.last_key.clear();
        self.run.last_key.extend_from_slice(key);
        self.page.push_key(xxh3_64(key));
        self.block.push(key, entry);
        if self.block.is_full(self.block_bytes) {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let offset = self.offset();
        let raw = self.block.finish();
        put_frame(&mut self.buffer, raw, self.compression, offset, &mut self.scratch);
        let bytes = self.offset() - offset;
        self.page.push_block(self.run.block_first.clone(), offset, bytes as u32);
        self.run.counts.blocks += 1;
        self.run.counts.data_bytes += bytes;
        if self.page.is_full(self.block_bytes) {
            self.end_page();
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn end_page(&mut self) {
        let Some(first_key) = self.page.first_key().map(<[u8]>::to_vec) else {
            return;
        };
        let data_start = self.page.start();
        let offset = self.offset();
        let mut raw = Vec::new();
        self.page.finish(&mut raw);
        put_frame(&mut self.buffer, &raw, Compression::None, offset, &mut self.scratch);
        let page_bytes = (self.offset() - offset) as u32;
        self.run.page_keys.push(first_key);
        self.run.pages.push(PagePlace { data_start, data_bytes: offset - data_start, page_bytes });
    }

    fn flush(&mut self) -> Result<()> {
        self.content.update(&self.buffer);
        self.file.append(&self.buffer).map_err(|source| self.error("write", source))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn error(&self, action: &'static str, source: std::io::Error) -> StateError {
        StateError::Io { file: self.name.clone(), action, source }
    }

    /// Ends the run; `None` when it has no entries.
    pub(crate) fn end_run(&mut self, namespace: i64) -> Result<Option<WrittenRun>> {
        self.end_block()?;
        if !self.page.is_empty() {
            self.end_page();
        }
        let run = std::mem::take(&mut self.run);
        if run.counts.entries == 0 {
            return Ok(None);
        }
        let footer_offset = self.offset();
        let mut raw = Vec::new();
        Footer::encode(&run.counts, &run.groups, &run.page_keys, &run.pages, &run.last_key, &mut raw);
        put_frame(&mut self.buffer, &raw, Compression::None, footer_offset, &mut self.scratch);
        let footer_bytes = (self.offset() - footer_offset) as u32;
        let footer_checksum = self.buffer.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.runs.push(DirectoryEntry { namespace, footer_offset, footer_bytes, footer_checksum });
        let RunParts { first_key, last_key, counts, expiry, .. } = run;
        Ok(Some(WrittenRun { footer_offset, footer_bytes, first_key, last_key, counts, expiry }))
    }

    /// Ends the file; with `sync` it survives a power failure from here on.
    pub(crate) fn finish(mut self, sync: bool) -> Result<WrittenFile> {
        let offset = self.offset();
        let start = self.buffer.len();
        let directory = encode_directory(&self.runs);
        put_frame(&mut self.buffer, &directory, Compression::None, offset, &mut self.scratch);
        let tail = Tail::new(offset, &self.buffer[start..]);
        self.buffer.extend_from_slice(&tail.encode());
        self.flush()?;
        if sync {
            self.file.sync().map_err(|source| self.error("sync", source))?;
        }
        Ok(WrittenFile { bytes: self.flushed, checksum: tail.checksum, content_hash: self.content.digest() })
    }
}
