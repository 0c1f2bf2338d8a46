//! The mapping as `--dry-run` prints it.

use std::fmt;

use crate::mapping::{Fate, Mapping};

impl fmt::Display for Mapping {
    /// One line an operator: `kept     Source: b[1]`, with what changes below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, name, fate) in &self.operators {
            let word = match fate {
                Fate::Kept { .. } => "kept",
                Fate::New => "new",
                Fate::Dropped => "DROPPED",
                Fate::Gone => "gone",
                Fate::Refused { .. } => "REFUSED",
            };
            writeln!(f, "{word:<8} {name}  ({id})")?;
            match fate {
                Fate::Kept { changes, added, parallelism: (before, after), .. } => {
                    if before != after {
                        writeln!(f, "         parallelism {before} -> {after}")?;
                    }
                    for (state, list) in changes {
                        for change in list {
                            writeln!(f, "         state '{state}': {change}")?;
                        }
                    }
                    for state in added {
                        writeln!(f, "         state '{state}' begins empty")?;
                    }
                }
                Fate::Refused { reasons } => {
                    for reason in reasons {
                        writeln!(f, "         {reason}")?;
                    }
                }
                Fate::New | Fate::Dropped | Fate::Gone => {}
            }
        }
        Ok(())
    }
}
