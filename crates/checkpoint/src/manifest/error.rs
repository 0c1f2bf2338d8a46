//! Why a manifest cannot be used.

/// Why a manifest cannot be used. The place it was read from is added by whoever read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not one of ours.
    #[error("this is not a checkpoint of Tidegate: it begins with {begins}. {hint}")]
    Foreign {
        /// The first bytes, as hex.
        begins: String,
        /// What it may be instead.
        hint: &'static str,
    },
    /// Written by a newer engine.
    #[error(
        "the manifest has format version {found}, this engine reads versions up to {supported}: use the newer engine \
         that wrote it"
    )]
    Newer {
        /// Version in the file.
        found: u32,
        /// The newest version this engine reads.
        supported: u32,
    },
    /// The file ends too early.
    #[error("the manifest is truncated: {expected} bytes were written, {found} are there. Use another checkpoint")]
    Truncated {
        /// Length the file should have.
        expected: u64,
        /// Length it has.
        found: u64,
    },
    /// The file goes on after its end.
    #[error("the manifest has {extra} bytes after its end: it was overwritten or joined. Use another checkpoint")]
    Trailing {
        /// Bytes too many.
        extra: u64,
    },
    /// The bytes are not those that were written.
    #[error("the manifest is corrupt: checksum {found:016x}, expected {expected:016x}. Use another checkpoint")]
    Corrupt {
        /// Checksum in the file.
        expected: u64,
        /// Checksum of the bytes.
        found: u64,
    },
    /// The checksum is right and the content is not.
    #[error("the manifest cannot be read though its checksum is right: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// The content contradicts itself.
    #[error("the manifest contradicts itself: {reason}")]
    Inconsistent {
        /// How.
        reason: String,
    },
    /// A file's path would leave its folder.
    #[error("the manifest names a file with a path that is not allowed: '{path}'")]
    BadPath {
        /// The path.
        path: String,
    },
}
