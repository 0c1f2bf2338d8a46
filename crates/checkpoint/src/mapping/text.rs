//! The mapping as `--dry-run` prints it.

use std::fmt;

use crate::identity::is_stateless;
use crate::ids::OperatorId;
use crate::mapping::{Fate, Mapping};

/// The catalog and database every session begins in; they say nothing.
const DEFAULT_PLACE: &str = "default_catalog.default_database.";

impl fmt::Display for Mapping {
    /// One line for each operator that keeps something: `source(b): kept`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, _, fate) in &self.operators {
            match fate {
                Fate::Kept { .. } | Fate::New if is_stateless(id) => {}
                Fate::Gone => {}
                fate => writeln!(f, "{}: {fate}", short(id))?,
            }
        }
        Ok(())
    }
}

/// An id without the default catalog and database.
pub(super) fn short(id: &OperatorId) -> String {
    id.0.replace(DEFAULT_PLACE, "")
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Kept { changes, added, parallelism: (before, after), .. } => {
                f.write_str("kept")?;
                if before != after {
                    write!(f, ", parallelism {before} -> {after}")?;
                }
                for (state, list) in changes {
                    for change in list {
                        write!(f, ", state '{state}': {change}")?;
                    }
                }
                added.iter().try_for_each(|state| write!(f, ", state '{state}' begins empty"))
            }
            Fate::New => f.write_str("new"),
            Fate::Dropped => f.write_str("dropped"),
            Fate::Gone => f.write_str("gone"),
            Fate::Refused { reasons } => write!(f, "refused: {}", reasons.join("; ")),
        }
    }
}
