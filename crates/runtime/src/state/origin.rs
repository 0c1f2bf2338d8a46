//! Where restored state came from, for whoever must be told that it cannot be read.

use std::collections::BTreeMap;

use tidegate_api::Error;
use tidegate_state::StateError;

/// A snapshot that a store was restored from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// Where it lies.
    pub snapshot: String,
    /// Where each file of the store lies, by its name in the store.
    pub files: BTreeMap<String, String>,
}

/// A failure to read state, in words that name the snapshot's file and not a copy of it.
pub(crate) fn unreadable(error: &StateError, origin: Option<&Origin>) -> Error {
    let Some(origin) = origin else { return Error::job(format!("State cannot be read: {error}")) };
    let snapshot = &origin.snapshot;
    Error::job(match error.file().and_then(|file| origin.files.get(file)) {
        Some(file) => format!("State cannot be read from '{file}', a file of the snapshot '{snapshot}': {error}"),
        None => format!("State that was restored from the snapshot '{snapshot}' cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_snapshot_is_named() {
        let files = BTreeMap::from([("a.run".to_owned(), "s3://b/shared/7-a.run".to_owned())]);
        let origin = Origin { snapshot: "s3://b/chk-7".to_owned(), files };
        let broken = |file: &str| StateError::Foreign { file: file.to_owned() };
        let said = unreadable(&broken("a.run"), Some(&origin)).to_string();
        assert!(
            said.contains("'s3://b/shared/7-a.run', a file of the snapshot 's3://b/chk-7': a.run is not"),
            "{said}"
        );
        // Written since.
        let said = unreadable(&broken("b.run"), Some(&origin)).to_string();
        assert!(said.contains("restored from the snapshot 's3://b/chk-7' cannot be read: b.run is not"), "{said}");
        assert!(unreadable(&broken("b.run"), None).to_string().contains("cannot be read: b.run is not"));
    }
}
