//! What must be true of every manifest, checked before writing and after reading.

use std::collections::BTreeMap;

use crate::ids::OperatorId;
use crate::manifest::{FilePlace, KeyGroupRange, Manifest, ManifestError, OperatorEntry};

impl Manifest {
    /// Checks that the manifest does not contradict itself.
    pub fn validate(&self) -> Result<(), ManifestError> {
        if self.checkpoint.0 == 0 {
            return inconsistent("checkpoint ids begin at 1".to_owned());
        }
        for (id, operator) in &self.operators {
            operator.validate(id)?;
        }
        self.validate_files()
    }

    /// One name, one content; and a savepoint needs nothing but its own folder.
    fn validate_files(&self) -> Result<(), ManifestError> {
        let mut sizes: BTreeMap<(FilePlace, &str), u64> = BTreeMap::new();
        for file in self.files() {
            file.check()?;
            let size = *sizes.entry((file.place, &file.path)).or_insert(file.bytes);
            if size != file.bytes {
                return inconsistent(format!("file '{}' has both {size} and {} bytes", file.path, file.bytes));
            }
        }
        for part in self.operators.values().flat_map(|o| o.subtasks.iter()).flat_map(|s| s.in_flight.iter()) {
            if part.offset.checked_add(part.bytes).is_none_or(|end| end > part.file.bytes) {
                return inconsistent(format!(
                    "overtaken rows at {} + {} lie outside file '{}' of {} bytes",
                    part.offset, part.bytes, part.file.path, part.file.bytes
                ));
            }
        }
        Ok(())
    }
}

impl OperatorEntry {
    fn validate(&self, id: &OperatorId) -> Result<(), ManifestError> {
        if self.parallelism == 0 || self.max_parallelism < self.parallelism {
            return inconsistent(format!(
                "operator '{id}' has parallelism {} and max parallelism {}",
                self.parallelism, self.max_parallelism
            ));
        }
        if self.subtasks.len() != self.parallelism as usize {
            return inconsistent(format!(
                "operator '{id}' has parallelism {} but {} subtasks",
                self.parallelism,
                self.subtasks.len()
            ));
        }
        for (index, subtask) in (0u32..).zip(&self.subtasks) {
            let expected = KeyGroupRange::of(index, self.parallelism, self.max_parallelism);
            if let Some(range) = subtask.key_groups
                && range != expected
            {
                return inconsistent(format!(
                    "operator '{id}' subtask {index} has key groups {}..={}, its share is {}..={}",
                    range.start, range.end, expected.start, expected.end
                ));
            }
        }
        Ok(())
    }
}

fn inconsistent(reason: String) -> Result<(), ManifestError> {
    Err(ManifestError::Inconsistent { reason })
}
