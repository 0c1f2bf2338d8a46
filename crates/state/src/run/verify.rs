//! Reads a whole state file and checks everything in it: for tests, and for whoever doubts a disk.

use super::cursor::RunCursor;
use super::file::{RunFile, Scratch};
use super::footer::{Footer, GroupShare, RunCounts};
use super::format::{DirectoryEntry, corrupt};
use super::reader::{Run, RunFacts};
use crate::error::Result;
use crate::io::RunDir;
use crate::range::{KeyRange, group_of};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// What a state file contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileReport {
    /// Its length.
    pub bytes: u64,
    /// For each run its namespace, counts and key-group directory.
    pub runs: Vec<(i64, RunCounts, Vec<GroupShare>)>,
}

/// Reads all of `file` and checks every checksum, the order of keys, the filters and the counts.
pub fn verify_file(dir: &dyn RunDir, file: &str) -> Result<FileReport> {
    let (open, directory) = RunFile::open(dir, file)?;
    let open = Arc::new(open);
    let mut runs = Vec::new();
    for entry in directory {
        let (counts, groups) = verify_run(&open, &entry)?;
        runs.push((entry.namespace, counts, groups));
    }
    Ok(FileReport { bytes: open.written.bytes, runs })
}

fn verify_run(file: &Arc<RunFile>, entry: &DirectoryEntry) -> Result<(RunCounts, Vec<GroupShare>)> {
    let bad = |detail: String| corrupt(&file.name, "run that ends", entry.footer_offset, detail);
    let mut scratch = Scratch::default();
    let (offset, bytes) = (entry.footer_offset, entry.footer_bytes as usize);
    file.read_frame("footer", offset, bytes, &mut scratch)?;
    let footer = Footer::decode(scratch.bytes()).ok_or_else(|| bad("its footer makes no sense".into()))?;
    if scratch.frame_checksum() != entry.footer_checksum {
        return Err(bad("its footer is not the one that the directory names".into()));
    }
    let facts = RunFacts {
        footer_offset: offset,
        footer_bytes: entry.footer_bytes,
        first_key: footer.keys.key(0),
        last_key: footer.last_key.clone(),
        data_bytes: footer.counts.data_bytes,
        entries: footer.counts.entries,
        sequences: (0, 0),
        expiry: None,
    };
    let (counts, groups) = (footer.counts.clone(), footer.groups.clone());
    let run = Arc::new(Run::new(0, Arc::clone(file), facts));
    let mut cursor = RunCursor::new(&run, &KeyRange::all(), None)?;
    let mut last: Option<Vec<u8>> = None;
    let (mut entries, mut page_index, mut page) = (0, 0, run.page(0, None, &mut scratch)?);
    let mut found: Vec<(u16, u64)> = Vec::new();
    while let Some(key) = cursor.key() {
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(bad("its keys do not ascend".into()));
        }
        while page_index + 1 < footer.pages.len() && footer.keys.compare(page_index + 1, key).is_le() {
            page_index += 1;
            page = run.page(page_index, None, &mut scratch)?;
        }
        if !page.filter.may_have(xxh3_64(key)) {
            return Err(bad("a filter denies a key that is there".into()));
        }
        cursor.entry()?;
        entries += 1;
        let group = group_of(key).unwrap_or_default();
        match found.last_mut() {
            Some((last, n)) if *last == group => *n += 1,
            _ => found.push((group, 1)),
        }
        last = Some(key.to_vec());
        cursor.advance()?;
    }
    let directory = groups.iter().map(|share| (share.key_group, share.entries));
    if entries != counts.entries || last != Some(footer.last_key) || !directory.eq(found) {
        return Err(bad(format!("it has {entries} entries instead of {}, or others", counts.entries)));
    }
    Ok((counts, groups))
}
