//! Who finishes what after a restore.

use std::collections::BTreeMap;

use crate::sequences::{LaneState, SinkName};

/// Gives the ids of all old subtasks to new ones: an id that a new subtask writes under goes to that
/// subtask, for two users of one id would fence each other; the others go round in their order. Each
/// id goes to exactly one.
pub fn spread(old: impl IntoIterator<Item = LaneState>, new: &[SinkName]) -> Vec<Vec<LaneState>> {
    let mut by_name: BTreeMap<SinkName, LaneState> = BTreeMap::new();
    for state in old {
        match by_name.get_mut(&state.name) {
            None => drop(by_name.insert(state.name.clone(), state)),
            Some(known) => merge(known, state),
        }
    }
    let mut shares = vec![Vec::new(); new.len()];
    let mut turn = 0;
    for (name, state) in by_name {
        let owner = new.iter().position(|own| *own == name).unwrap_or_else(|| {
            turn += 1;
            (turn - 1) % new.len().max(1)
        });
        if let Some(share) = shares.get_mut(owner) {
            share.push(state);
        }
    }
    shares
}

/// Two entries of one id, as two checkpointed subtasks that knew of it would leave.
fn merge(known: &mut LaneState, other: LaneState) {
    known.highest = known.highest.max(other.highest);
    known.confirmed = known.confirmed.max(other.confirmed);
    known.confirmed_ms = known.confirmed_ms.max(other.confirmed_ms);
    for segment in other.pending {
        if known.pending.iter().all(|pending| pending.sequence != segment.sequence) {
            known.pending.push(segment);
        }
    }
    let confirmed = known.confirmed;
    known.pending.retain(|segment| segment.sequence > confirmed);
    known.pending.sort_by_key(|segment| segment.sequence);
}
