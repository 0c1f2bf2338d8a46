//! A state file that is open: checked at both ends, then read frame by frame.

use super::format::{DirectoryEntry, HEAD_BYTES, TAIL_BYTES, Tail, check_head, corrupt, decode_directory};
use super::frame::{Body, open_frame, read_frame};
use super::writer::WrittenFile;
use crate::error::{Result, StateError};
use crate::io::{ReadAt, RunDir};
use std::sync::Arc;

/// An open state file.
pub(crate) struct RunFile {
    pub(crate) name: String,
    pub(crate) written: WrittenFile,
    reader: Arc<dyn ReadAt>,
}

impl std::fmt::Debug for RunFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunFile").field("name", &self.name).field("written", &self.written).finish_non_exhaustive()
    }
}

/// Buffers for one frame, reused from read to read.
#[derive(Default)]
pub(crate) struct Scratch {
    frame: Vec<u8>,
    raw: Vec<u8>,
    body: Option<Body>,
}

impl Scratch {
    /// The checksum that the frame read last ends with.
    pub(crate) fn frame_checksum(&self) -> u64 {
        self.frame.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The raw bytes of the frame read last.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.body {
            Some(Body::InPlace(range)) => &self.frame[range.clone()],
            Some(Body::Decompressed) => &self.raw,
            None => &[],
        }
    }
}

fn opened(dir: &dyn RunDir, name: &str) -> Result<Arc<dyn ReadAt>> {
    dir.open(name).map_err(|source| StateError::Io { file: name.into(), action: "open", source })
}

impl RunFile {
    /// Opens a file that was just written here.
    pub(crate) fn just_written(dir: &dyn RunDir, name: &str, written: WrittenFile) -> Result<RunFile> {
        Ok(RunFile { name: name.into(), written, reader: opened(dir, name)? })
    }

    /// Opens a file that a snapshot names; fails when it is another one, or not whole.
    pub(crate) fn open_described(dir: &dyn RunDir, name: &str, written: WrittenFile) -> Result<RunFile> {
        let (file, _) = RunFile::open(dir, name)?;
        if file.written.bytes != written.bytes {
            let (expected, found) = (written.bytes, file.written.bytes);
            return Err(StateError::WrongLength { file: name.into(), expected, found });
        }
        if file.written.checksum != written.checksum {
            let (expected, found) = (written.checksum, file.written.checksum);
            return Err(StateError::AnotherFile { file: name.into(), expected, found });
        }
        Ok(RunFile { written, ..file })
    }

    /// Opens any state file and reads its directory.
    pub(crate) fn open(dir: &dyn RunDir, name: &str) -> Result<(RunFile, Vec<DirectoryEntry>)> {
        let reader = opened(dir, name)?;
        let length = reader.length().map_err(|source| StateError::Io { file: name.into(), action: "stat", source })?;
        let written = WrittenFile { bytes: length, checksum: 0, content_hash: 0 };
        let mut file = RunFile { name: name.into(), written, reader };
        if length < (HEAD_BYTES + TAIL_BYTES) as u64 {
            return Err(StateError::WrongLength {
                file: name.into(),
                expected: (HEAD_BYTES + TAIL_BYTES) as u64,
                found: length,
            });
        }
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head, 0)?;
        check_head(name, &head)?;
        let mut tail = [0; TAIL_BYTES];
        file.read_exact(&mut tail, length - TAIL_BYTES as u64)?;
        let tail = Tail::decode(name, &tail, length)?;
        let mut frame = vec![0; tail.directory_bytes as usize];
        file.read_exact(&mut frame, tail.directory_offset)?;
        let bad = |detail: String| corrupt(name, "directory", tail.directory_offset, detail);
        if !tail.matches(&frame) {
            return Err(bad("not the one that the tail was written for".into()));
        }
        let mut raw = Vec::new();
        let raw = read_frame(&frame, tail.directory_offset, &mut raw).map_err(bad)?;
        let runs = decode_directory(raw).ok_or_else(|| bad("makes no sense".into()))?;
        file.written.checksum = tail.checksum;
        Ok((file, runs))
    }

    /// Reads bytes as they are.
    pub(crate) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.reader.read_exact_at(buffer, offset).map_err(|source| StateError::Io {
            file: self.name.clone(),
            action: "read",
            source,
        })
    }

    fn read_if_at_hand(&self, buffer: &mut [u8], offset: u64) -> Result<bool> {
        let read = self.reader.read_if_at_hand(buffer, offset);
        read.map_err(|source| StateError::Io { file: self.name.clone(), action: "read", source })
    }

    /// Says that these bytes will be read soon.
    pub(crate) fn will_need(&self, offset: u64, bytes: u64) {
        self.reader.will_need(offset, bytes);
    }

    /// Reads and checks the frame at a place; `part` names it in errors.
    pub(crate) fn read_frame(&self, part: &str, offset: u64, bytes: usize, scratch: &mut Scratch) -> Result<()> {
        self.make_room(part, offset, bytes, scratch)?;
        self.read_exact(&mut scratch.frame, offset)?;
        self.open_scratch(part, offset, scratch)
    }

    /// As [`read_frame`](Self::read_frame); `before_waiting` is called when the disk has to be waited for.
    pub(crate) fn read_frame_or_wait(
        &self,
        part: &str,
        offset: u64,
        bytes: usize,
        scratch: &mut Scratch,
        before_waiting: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.make_room(part, offset, bytes, scratch)?;
        if !self.read_if_at_hand(&mut scratch.frame, offset)? {
            before_waiting()?;
            self.read_exact(&mut scratch.frame, offset)?;
        }
        self.open_scratch(part, offset, scratch)
    }

    fn make_room(&self, part: &str, offset: u64, bytes: usize, scratch: &mut Scratch) -> Result<()> {
        let is_inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.written.bytes);
        if !is_inside {
            return Err(corrupt(&self.name, part, offset, format!("{bytes} bytes reach behind the end of the file")));
        }
        scratch.body = None;
        scratch.frame.resize(bytes, 0);
        Ok(())
    }

    fn open_scratch(&self, part: &str, offset: u64, scratch: &mut Scratch) -> Result<()> {
        let body = open_frame(&scratch.frame, offset, &mut scratch.raw);
        scratch.body = Some(body.map_err(|detail| corrupt(&self.name, part, offset, detail))?);
        Ok(())
    }
}
