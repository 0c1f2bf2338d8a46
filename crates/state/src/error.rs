//! What can go wrong with state on disk. Every error names the file, the place in it, and what to do.

use std::io;

/// An error of a keyed-state store.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The operating system refused a file operation.
    #[error("state file {file}: cannot {action}: {source}")]
    Io {
        /// Name of the file inside the store's folder.
        file: String,
        /// What was tried: `open`, `read`, `write`, ...
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Bytes are not what was written. Restore from another checkpoint.
    #[error("state file {file} is corrupt: {place}: {detail}; restore from another checkpoint")]
    Corrupt {
        /// Name of the file.
        file: String,
        /// Which part of it: `data block at byte 4711`, `footer at byte 99`, ...
        place: String,
        /// What was expected and found.
        detail: String,
    },
    /// The file is of another kind altogether.
    #[error("{file} is not a state file of Tidegate: it does not begin with the magic bytes")]
    Foreign {
        /// Name of the file.
        file: String,
    },
    /// The file was written by a later release.
    #[error("state file {file} has format version {found}, this release reads up to {supported}; use a newer release")]
    NewerVersion {
        /// Name of the file.
        file: String,
        /// Its version.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// The file ends too early, or is longer than when it was described.
    #[error(
        "state file {file} has {found} bytes instead of {expected}: it is incomplete or another file; fetch it again"
    )]
    WrongLength {
        /// Name of the file.
        file: String,
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The file is whole, but not the one that a snapshot names.
    #[error(
        "state file {file} is not the one that the snapshot names (checksum {found:016x} instead of {expected:016x})"
    )]
    AnotherFile {
        /// Name of the file.
        file: String,
        /// Checksum in the snapshot.
        expected: u64,
        /// Checksum of the file.
        found: u64,
    },
    /// A key or value beyond the limits of the format.
    #[error("a state {what} of {bytes} bytes is beyond the limit of {limit}")]
    TooLarge {
        /// `key` or `value`.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The caller broke a rule of the interface (keys out of order, a key without key group, ...).
    #[error("wrong use of the state store: {0}")]
    Misuse(String),
    /// Encoded bytes of a key or value cannot be decoded.
    #[error("encoded state at byte {at}: {detail}")]
    Encoding {
        /// Position in the encoded bytes.
        at: usize,
        /// What was expected.
        detail: &'static str,
    },
    /// A snapshot that cannot be restored here.
    #[error("cannot restore snapshot {snapshot}: {detail}")]
    Restore {
        /// Id of the snapshot.
        snapshot: u64,
        /// Why.
        detail: String,
    },
}

impl StateError {
    /// The name of the file it is about, inside the store's folder.
    pub fn file(&self) -> Option<&str> {
        match self {
            StateError::Io { file, .. }
            | StateError::Corrupt { file, .. }
            | StateError::Foreign { file }
            | StateError::NewerVersion { file, .. }
            | StateError::WrongLength { file, .. }
            | StateError::AnotherFile { file, .. } => Some(file),
            StateError::TooLarge { .. }
            | StateError::Misuse(_)
            | StateError::Encoding { .. }
            | StateError::Restore { .. } => None,
        }
    }
}

/// Result of a store's calls.
pub type Result<T> = std::result::Result<T, StateError>;
