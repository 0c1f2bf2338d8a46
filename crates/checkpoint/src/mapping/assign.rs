//! What each new subtask gets of an operator's old subtasks.
//!
//! | what | goes to |
//! |---|---|
//! | keyed state | whoever has key groups of it, clipped to them |
//! | splits | the subtask that `owner(split)` names |
//! | operator state | round, whole pieces; a subtask may get several or none |
//! | watermark | everybody: the lowest, so that no window closes before its rows are there |
//! | committables | round, in order; the sink may move them, see [`crate::sequences::spread`] |
//! | overtaken rows | their own subtask, so only at the same parallelism |

use serde_json::Value;
use tidegate_api::error::{Error, Result};

use crate::manifest::{Committable, FileRef, InFlight, KeyGroupRange, OperatorEntry, SplitPosition};

/// Keyed state of one old subtask, as one new subtask uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedPart {
    /// Which old subtask.
    pub from: u32,
    /// The key groups to use; all others in it belong to somebody else.
    pub clip: KeyGroupRange,
    /// The stores' run sets.
    pub runs: Value,
    /// Their files.
    pub files: Vec<FileRef>,
}

/// What one new subtask begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubtaskRestore {
    /// Keyed state, by key group.
    pub keyed: Vec<KeyedPart>,
    /// Where its splits are.
    pub splits: Vec<SplitPosition>,
    /// Pieces of operator state.
    pub operator_state: Vec<Value>,
    /// The watermark, milliseconds.
    pub watermark_ms: Option<i64>,
    /// Staged output to finish.
    pub committables: Vec<Committable>,
    /// Rows to process before any others.
    pub in_flight: Vec<InFlight>,
    /// It has read its inputs to the end and has only to commit.
    pub finished: bool,
}

/// Spreads an operator's state over `parallelism` subtasks. `owner` is a split's owner, of which the
/// remainder by the parallelism counts.
pub fn assign(
    old: &OperatorEntry,
    parallelism: u32,
    owner: impl Fn(&SplitPosition) -> u64,
) -> Result<Vec<SubtaskRestore>> {
    let is_same = old.parallelism == parallelism;
    if parallelism == 0 || (!is_same && old.subtasks.iter().any(|subtask| !subtask.in_flight.is_empty())) {
        return Err(Error::invalid(format!(
            "Operator '{}' cannot go from parallelism {} to {parallelism} with this checkpoint: it was unaligned and holds \
             rows on their way between subtasks. Restore a savepoint or an aligned checkpoint, or keep the parallelism.",
            old.name, old.parallelism
        )));
    }
    let begin = |index| SubtaskRestore {
        keyed: keyed(old, KeyGroupRange::of(index, parallelism, old.max_parallelism)),
        watermark_ms: lowest_watermark(old),
        finished: old.is_finished(),
        ..SubtaskRestore::default()
    };
    let mut new: Vec<SubtaskRestore> = (0..parallelism).map(begin).collect();
    let mut turn = 0;
    for (index, subtask) in old.subtasks.iter().enumerate() {
        for split in &subtask.splits {
            new[(owner(split) % u64::from(parallelism)) as usize].splits.push(split.clone());
        }
        // At the same parallelism everybody gets back what was theirs.
        let receiver = if is_same { index } else { turn % parallelism as usize };
        if is_same {
            new[index].finished = subtask.finished;
            new[index].in_flight = subtask.in_flight.clone();
        }
        if !subtask.operator_state.is_null() || !subtask.committables.is_empty() {
            turn += 1;
        }
        if !subtask.operator_state.is_null() {
            new[receiver].operator_state.push(subtask.operator_state.clone());
        }
        new[receiver].committables.extend(subtask.committables.iter().cloned());
    }
    Ok(new)
}

fn keyed(old: &OperatorEntry, range: KeyGroupRange) -> Vec<KeyedPart> {
    let part = |(from, subtask): (u32, &crate::manifest::SubtaskEntry)| {
        let clip = subtask.key_groups?.intersection(range)?;
        let (runs, files) = (subtask.runs.clone(), subtask.files.clone());
        (!runs.is_null()).then_some(KeyedPart { from, clip, runs, files })
    };
    (0u32..).zip(&old.subtasks).filter_map(part).collect()
}

/// The lowest of those that said one and go on. A subtask without a watermark has closed nothing, so
/// then nobody has; one that is finished holds nobody back.
fn lowest_watermark(old: &OperatorEntry) -> Option<i64> {
    let mut running = old.subtasks.iter().filter(|subtask| !subtask.finished).map(|subtask| subtask.watermark_ms);
    let first = match running.next() {
        Some(first) => first?,
        None => return old.subtasks.iter().filter_map(|subtask| subtask.watermark_ms).max(),
    };
    running.try_fold(first, |low, watermark| Some(low.min(watermark?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::manifest::{FilePlace, SubtaskEntry};

    fn entry(parallelism: u32, max_parallelism: u32, each: impl Fn(u32) -> SubtaskEntry) -> OperatorEntry {
        OperatorEntry {
            name: "Op[1]".to_owned(),
            parallelism,
            max_parallelism,
            states: BTreeMap::new(),
            subtasks: (0..parallelism).map(each).collect(),
        }
    }

    fn split(name: u32) -> SplitPosition {
        SplitPosition { split: name.to_string(), position: json!(name), watermark_ms: None, finished: false }
    }

    fn owner(split: &SplitPosition) -> u64 {
        split.position.as_u64().expect("a number")
    }

    proptest! {
        #[test]
        fn every_piece_has_one_new_owner(before in 1u32..20, after in 1u32..20, max in 20u32..200) {
            let old = entry(before, max, |index| SubtaskEntry {
                key_groups: Some(KeyGroupRange::of(index, before, max)),
                runs: json!(index),
                operator_state: json!(index),
                splits: vec![split(index), split(index + 100)],
                committables: vec![Committable { state: json!(index), files: Vec::new() }],
                watermark_ms: Some(i64::from(index) + 5),
                ..SubtaskEntry::default()
            });
            let new = assign(&old, after, owner).expect("assigned");
            let mut groups = Vec::new();
            for (index, restore) in (0u32..).zip(&new) {
                for part in &restore.keyed {
                    let theirs = KeyGroupRange::of(index, after, max);
                    prop_assert!(part.clip.start >= theirs.start && part.clip.end <= theirs.end);
                    prop_assert_eq!(part.runs.clone(), json!(part.from));
                    groups.extend(part.clip.start..=part.clip.end);
                }
                prop_assert!(restore.splits.iter().all(|split| owner(split) % u64::from(after) == u64::from(index)));
                prop_assert_eq!(restore.watermark_ms, Some(5));
            }
            prop_assert_eq!(groups, (0..max).collect::<Vec<_>>());
            let mut pieces: Vec<u64> =
                new.iter().flat_map(|r| r.operator_state.iter()).filter_map(Value::as_u64).collect();
            pieces.sort_unstable();
            prop_assert_eq!(pieces, (0..u64::from(before)).collect::<Vec<_>>());
            prop_assert_eq!(new.iter().map(|r| r.splits.len()).sum::<usize>(), 2 * before as usize);
            prop_assert_eq!(new.iter().map(|r| r.committables.len()).sum::<usize>(), before as usize);
            let uneven = new.iter().map(|r| r.operator_state.len());
            prop_assert!(uneven.clone().max().unwrap_or(0) - uneven.min().unwrap_or(0) <= 1, "spread evenly");
        }
    }

    #[test]
    fn the_watermark_is_the_lowest_that_is_known() {
        let with = |watermarks: &[(Option<i64>, bool)]| {
            let each = |index: u32| {
                let (watermark_ms, finished) = watermarks[index as usize];
                SubtaskEntry { watermark_ms, finished, ..SubtaskEntry::default() }
            };
            assign(&entry(watermarks.len() as u32, 8, each), 1, owner).expect("assigned")[0].watermark_ms
        };
        assert_eq!(with(&[(Some(7), false), (Some(3), false)]), Some(3));
        assert_eq!(with(&[(Some(7), false), (None, false)]), None);
        assert_eq!(with(&[(Some(7), false), (Some(3), true)]), Some(7), "a finished one holds nobody back");
        assert_eq!(with(&[(Some(i64::MAX), true)]), Some(i64::MAX));
    }

    #[test]
    fn rows_on_their_way_stay_with_their_subtask() {
        let file = FileRef::new(FilePlace::Exclusive, "channels", 9);
        let old = entry(2, 8, |index| SubtaskEntry {
            in_flight: vec![InFlight { input: 0, sender: index, file: file.clone(), offset: 0, bytes: 9, elements: 1 }],
            finished: index == 1,
            ..SubtaskEntry::default()
        });
        let same = assign(&old, 2, owner).expect("assigned");
        assert_eq!(same.iter().map(|restore| restore.in_flight[0].sender).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(same.iter().map(|restore| restore.finished).collect::<Vec<_>>(), [false, true]);
        let message = assign(&old, 3, owner).expect_err("refused").message;
        assert!(message.contains("from parallelism 2 to 3") && message.contains("savepoint"), "{message}");
    }
}
