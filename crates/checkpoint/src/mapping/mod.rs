//! Which state goes to which operator when a job is restored, perhaps by another script.
//!
//! Operators meet by their stable ids. What both have is *kept* if the state means the same or can be
//! read as the wider type; what only the new job has begins empty; what only the snapshot has is
//! *dropped*, and that must be allowed. Everything else is refused by name, before anything stops or
//! starts.

mod assign;
mod schema;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use tidegate_api::error::{Error, Result};

use crate::ids::OperatorId;
use crate::manifest::{Manifest, OperatorEntry, StateSchema};

pub use assign::{KeyedPart, SubtaskRestore, assign};
pub use schema::SchemaChange;

/// An operator of the job to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOperator {
    /// Its stable id.
    pub id: OperatorId,
    /// Its name in the graph.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups if the user set it; a derived one follows the snapshot's.
    pub max_parallelism: Option<u32>,
    /// Its states.
    pub states: BTreeMap<String, StateSchema>,
}

/// What happens to an operator's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// Goes to the operator of the same id.
    Kept {
        /// States whose schema widens: state, and what changes in it.
        changes: Vec<(String, Vec<SchemaChange>)>,
        /// States that begin empty.
        added: Vec<String>,
        /// Subtasks before and after.
        parallelism: (u32, u32),
        /// Number of key groups from now on: the snapshot's.
        max_parallelism: u32,
    },
    /// Begins empty.
    New,
    /// Has no operator any more.
    Dropped,
    /// Had no state, and has no operator any more.
    Gone,
    /// Cannot be given to the operator of the same id.
    Refused {
        /// Why.
        reasons: Vec<String>,
    },
}

/// What happens to every operator, in the new job's order, then what is dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// Id, name and fate.
    pub operators: Vec<(OperatorId, String, Fate)>,
}

impl Mapping {
    /// Compares a snapshot with a job.
    pub fn new(snapshot: &Manifest, job: &[NewOperator]) -> Mapping {
        let mut operators: Vec<(OperatorId, String, Fate)> = job
            .iter()
            .map(|new| {
                let fate = snapshot.operators.get(&new.id).map_or(Fate::New, |old| compare(old, new));
                (new.id.clone(), new.name.clone(), fate)
            })
            .collect();
        for (id, old) in &snapshot.operators {
            if job.iter().all(|new| new.id != *id) {
                let fate = if old.has_state() { Fate::Dropped } else { Fate::Gone };
                operators.push((id.clone(), old.name.clone(), fate));
            }
        }
        Mapping { operators }
    }

    /// Refuses what cannot be restored. `path` names the snapshot.
    pub fn check(&self, path: &str, allow_non_restored: bool) -> Result<()> {
        for (id, name, fate) in &self.operators {
            match fate {
                Fate::Refused { reasons } => {
                    return Err(Error::invalid(format!(
                        "Failed to restore from '{path}'. The state of operator '{name}' ({}) does not fit: {}. Keep its \
                         query as it was, or write to another table: its operators begin without state.",
                        text::short(id),
                        reasons.join("; ")
                    )));
                }
                Fate::Dropped if !allow_non_restored => {
                    return Err(Error::invalid(format!(
                        "Failed to rollback to checkpoint/savepoint {path}. Cannot map checkpoint/savepoint state for \
                         operator {name} ({id}) to the new program, because the operator is not available in the new \
                         program. If you want to allow to skip this, you can set the --allowNonRestoredState option \
                         on the CLI."
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn compare(old: &OperatorEntry, new: &NewOperator) -> Fate {
    let mut reasons = Vec::new();
    let (mut changes, mut added) = (Vec::new(), Vec::new());
    let is_keyed = old.subtasks.iter().any(|subtask| subtask.key_groups.is_some());
    let explicit = new.max_parallelism.filter(|max| *max != old.max_parallelism);
    if let Some(max) = explicit.filter(|_| is_keyed) {
        reasons.push(format!(
            "max parallelism mismatch: the snapshot has {} key groups, the job sets {max}. They are fixed by the first \
             checkpoint",
            old.max_parallelism
        ));
    }
    if is_keyed && new.parallelism > old.max_parallelism {
        reasons.push(format!(
            "the maximum parallelism ({}) of the restored state is lower than the configured parallelism ({})",
            old.max_parallelism, new.parallelism
        ));
    }
    for (name, schema) in &new.states {
        match old.states.get(name) {
            None => added.push(name.clone()),
            Some(before) => match schema::compare(before, schema) {
                Ok(list) if list.is_empty() => {}
                Ok(list) => changes.push((name.clone(), list)),
                Err(list) => reasons.extend(list.into_iter().map(|reason| format!("state '{name}': {reason}"))),
            },
        }
    }
    for name in old.states.keys().filter(|name| !new.states.contains_key(*name)) {
        reasons.push(format!("state '{name}' is in the snapshot and the operator has none of that name"));
    }
    if !reasons.is_empty() {
        return Fate::Refused { reasons };
    }
    Fate::Kept {
        changes,
        added,
        parallelism: (old.parallelism, new.parallelism),
        max_parallelism: if is_keyed {
            old.max_parallelism
        } else {
            new.max_parallelism.unwrap_or(old.max_parallelism)
        },
    }
}
