//! Bytes of a manifest.

use xxhash_rust::xxh3::xxh3_64;

use crate::manifest::{Manifest, ManifestError};

/// The newest format version this engine reads, and the one it writes. Any change of what the body
/// means raises it.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"TIDECKPT";
const HEAD: usize = 8 + 4 + 8;
const CHECKSUM: usize = 8;

/// First bytes of Flink's `_metadata`.
const FLINK_MAGIC: [u8; 4] = [0x49, 0x60, 0x67, 0x2d];

/// The bytes of a manifest. Refuses one that [`decode`] would refuse.
pub fn encode(manifest: &Manifest) -> Result<Vec<u8>, ManifestError> {
    manifest.validate()?;
    let body = serde_json::to_vec(manifest).map_err(|error| ManifestError::Unreadable { reason: error.to_string() })?;
    let mut bytes = Vec::with_capacity(HEAD + body.len() + CHECKSUM);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&body);
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Reads a manifest, and says exactly why it cannot.
pub fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let begin = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(begin) || bytes.is_empty() {
        return Err(foreign(begin));
    }
    let found = bytes.len() as u64;
    let Some((version, length)) = head(bytes) else {
        return Err(ManifestError::Truncated { expected: (HEAD + CHECKSUM) as u64, found });
    };
    // A newer version may be laid out differently, so that comes before the length.
    if version > FORMAT_VERSION {
        return Err(ManifestError::Newer { found: version, supported: FORMAT_VERSION });
    }
    let expected = length.saturating_add((HEAD + CHECKSUM) as u64);
    if found < expected {
        return Err(ManifestError::Truncated { expected, found });
    }
    if found > expected {
        return Err(ManifestError::Trailing { extra: found - expected });
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    let expected = u64::from_le_bytes(checksum.try_into().unwrap_or_default());
    let found = xxh3_64(content);
    if found != expected {
        return Err(ManifestError::Corrupt { expected, found });
    }
    let manifest: Manifest = serde_json::from_slice(&content[HEAD..])
        .map_err(|error| ManifestError::Unreadable { reason: error.to_string() })?;
    manifest.validate()?;
    Ok(manifest)
}

fn head(bytes: &[u8]) -> Option<(u32, u64)> {
    let version = bytes.get(8..12)?.try_into().ok()?;
    let length = bytes.get(12..20)?.try_into().ok()?;
    Some((u32::from_le_bytes(version), u64::from_le_bytes(length)))
}

fn foreign(begin: &[u8]) -> ManifestError {
    let begins = if begin.is_empty() {
        "nothing, it is empty".to_owned()
    } else {
        begin.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let hint = if begin.starts_with(&FLINK_MAGIC) {
        "It is a snapshot of Apache Flink, whose state Tidegate cannot read: start the job without it."
    } else {
        "Name the folder of a checkpoint (`chk-7`) or savepoint, or its `_metadata` file."
    };
    ManifestError::Foreign { begins, hint }
}
