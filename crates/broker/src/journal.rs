//! An append-only file of metadata: each entry is JSON behind its length and its checksum.
//!
//! An entry is there when its last byte is: opening cuts what a killed process left unfinished. Damage before
//! the end is not the mark of a killed process and is refused, because cutting there would lose acknowledged
//! entries. When entries that no longer matter pile up, the owner writes the state anew and the new file takes
//! the old one's place in one rename.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes before an entry: its length and its checksum, both big-endian `u32`.
const FRAME_HEAD: usize = 8;

/// A journal of entries of one type.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    size: u64,
    entries: usize,
    entry: PhantomData<fn(T)>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens or makes the journal; returns what it holds, oldest first.
    ///
    /// # Errors
    /// Trouble of the disk, and `InvalidData` for damage before the end or entries of another shape.
    pub fn open(path: &Path) -> io::Result<(Journal<T>, Vec<T>)> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (entries, size) = decode_all(path, &bytes)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if size < bytes.len() {
            file.set_len(size as u64)?;
        }
        let journal =
            Journal { path: path.into(), file, size: size as u64, entries: entries.len(), entry: PhantomData };
        Ok((journal, entries))
    }

    /// Adds an entry; when this returns it survives the death of the process.
    pub fn append(&mut self, entry: &T) -> io::Result<()> {
        self.append_all(std::slice::from_ref(entry))
    }

    /// Adds entries in one write.
    pub fn append_all(&mut self, entries: &[T]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            put_frame(&mut bytes, entry)?;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // Half an entry would be taken for damage once something follows it.
            self.file.set_len(self.size)?;
            return Err(error);
        }
        self.size += bytes.len() as u64;
        self.entries += entries.len();
        Ok(())
    }

    /// Entries in the file.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Replaces everything by `entries`; a process that dies meanwhile leaves the old or the new content.
    pub fn rewrite(&mut self, entries: impl IntoIterator<Item = T>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut count = 0;
        for entry in entries {
            put_frame(&mut bytes, &entry)?;
            count += 1;
        }
        replace_file(&self.path, &bytes)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.size = bytes.len() as u64;
        self.entries = count;
        Ok(())
    }
}

/// Writes one framed value as a whole file, in one step.
pub(crate) fn write_value<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, value)?;
    replace_file(path, &bytes)
}

/// Reads what [`write_value`] wrote; `None` when the file is absent or damaged.
pub(crate) fn read_value<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(frame(&bytes).and_then(|payload| serde_json::from_slice(payload).ok()))
}

fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

fn put_frame<T: Serialize>(out: &mut Vec<u8>, entry: &T) -> io::Result<()> {
    let payload = serde_json::to_vec(entry)?;
    let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&crc32c::crc32c(&payload).to_be_bytes());
    out.extend_from_slice(&payload);
    Ok(())
}

/// The payload of the frame at the start of `bytes`, if it is whole.
fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.get(..FRAME_HEAD)?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let stated = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let payload = bytes.get(FRAME_HEAD..FRAME_HEAD.checked_add(length)?)?;
    (length > 0 && crc32c::crc32c(payload) == stated).then_some(payload)
}

/// Entries, and where the last whole one ends.
fn decode_all<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> io::Result<(Vec<T>, usize)> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some(payload) = frame(rest) else {
            if is_torn(rest) {
                break;
            }
            return Err(damaged(path, at, "its checksum does not hold"));
        };
        let entry = serde_json::from_slice(payload).map_err(|error| damaged(path, at, &error.to_string()))?;
        entries.push(entry);
        at += FRAME_HEAD + payload.len();
    }
    Ok((entries, at))
}

/// Whether a frame that is not whole is the last thing in the file, as after the death of its writer.
fn is_torn(rest: &[u8]) -> bool {
    if rest.len() < FRAME_HEAD || rest.iter().all(|&byte| byte == 0) {
        return true;
    }
    let length = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
    FRAME_HEAD.saturating_add(length) >= rest.len()
}

fn damaged(path: &Path, at: usize, why: &str) -> io::Error {
    let text = format!(
        "the journal {} is damaged at byte {at}: {why}; restore it, or remove the broker's data folder to start anew",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(path: &Path) -> Vec<String> {
        Journal::<String>::open(path).unwrap().1
    }

    #[test]
    fn holds_what_was_appended_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("journal");
        let (mut journal, found) = Journal::<String>::open(&path).unwrap();
        assert!(found.is_empty());
        journal.append(&"one".to_owned()).unwrap();
        journal.append_all(&["two".to_owned(), "three".to_owned()]).unwrap();
        drop(journal);
        let (mut journal, found) = Journal::<String>::open(&path).unwrap();
        assert_eq!(found, ["one", "two", "three"]);
        journal.rewrite(["three".to_owned()]).unwrap();
        journal.append(&"four".to_owned()).unwrap();
        assert_eq!(journal.len(), 2);
        assert_eq!(entries(&path), ["three", "four"]);
    }

    #[test]
    fn damage_before_the_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::<String>::open(&path).unwrap();
        journal.append_all(&["one".to_owned(), "two".to_owned()]).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[FRAME_HEAD + 1] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = Journal::<String>::open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("damaged at byte 0"), "{error}");
    }

    #[test]
    fn entries_of_another_shape_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        Journal::<String>::open(&path).unwrap().0.append(&"text".to_owned()).unwrap();
        assert_eq!(Journal::<u32>::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn a_cut_loses_only_what_was_not_whole(texts in prop::collection::vec(".{0,20}", 0..12), cut in any::<prop::sample::Index>()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("journal");
            let (mut journal, _) = Journal::<String>::open(&path).unwrap();
            let mut ends = vec![0];
            for text in &texts {
                journal.append(text).unwrap();
                ends.push(fs::metadata(&path).unwrap().len());
            }
            let cut = cut.index(*ends.last().unwrap() as usize + 1) as u64;
            OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
            let whole = ends.iter().filter(|&&end| end > 0 && end <= cut).count();
            let (mut journal, found) = Journal::<String>::open(&path).unwrap();
            prop_assert_eq!(&found[..], &texts[..whole]);
            journal.append(&"after".to_owned()).unwrap();
            prop_assert_eq!(entries(&path).len(), whole + 1);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("journal");
            fs::write(&path, &bytes).unwrap();
            let _ = Journal::<String>::open(&path);
            let _ = read_value::<String>(&path);
        }
    }
}
