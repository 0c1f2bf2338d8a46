//! Windows whose groups are not all in memory fire from the state, some key groups at a time: what they emit
//! need not fit into memory either.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use tidegate_api::Result;
use tidegate_state::{DEFAULT_MAX_PARALLELISM, KeyGroupRange};
use tidegate_window::TimeWindow;

use super::aggregates::AggregateSet;
use super::group_set::GroupSet;
use super::group_state::{GroupState, Home};

/// Groups that are emitted at one time, about.
const STEP_GROUPS: u64 = 65_536;

/// A window that fires from the state. All its groups have been saved.
pub(super) struct StoredFire {
    pub(super) window: TimeWindow,
    /// Namespaces whose groups add up to it.
    namespaces: Vec<i64>,
    /// What makes its groups distinct in their namespaces.
    more: Vec<i64>,
    /// What has not been emitted.
    key_groups: KeyGroupRange,
    step: u32,
}

impl StoredFire {
    /// Fires a window of about `groups` groups.
    pub(super) fn new(
        window: TimeWindow,
        namespaces: Vec<i64>,
        more: Vec<i64>,
        state: &GroupState,
        groups: u64,
    ) -> StoredFire {
        let owned = state.keyed.owned();
        let key_groups = KeyGroupRange::new(owned.first, owned.end.min(DEFAULT_MAX_PARALLELISM as u32));
        let width = key_groups.end.saturating_sub(key_groups.first);
        let pieces = groups.div_ceil(STEP_GROUPS).clamp(1, u64::from(width.max(1)));
        StoredFire { window, namespaces, more, key_groups, step: width.div_ceil(pieces as u32).max(1) }
    }

    /// Keys and results of the next key groups, with their numbers of rows; `None` when all have been given.
    pub(super) fn next(
        &mut self,
        state: &mut GroupState,
        set: &AggregateSet,
        key_types: &[DataType],
    ) -> Result<Option<Vec<(Vec<ArrayRef>, usize)>>> {
        if self.key_groups.is_empty() {
            return Ok(None);
        }
        let first = self.key_groups.first;
        let part = KeyGroupRange::new(first, self.key_groups.end.min(first + self.step));
        self.key_groups.first = part.end;
        let mut results = Vec::new();
        if let [one] = self.namespaces[..] {
            Home::new(state, one, &self.more).read(part, set, |stored| {
                results.push(stored.results()?);
                Ok(())
            })?;
            return Ok(Some(results));
        }
        let mut sum = GroupSet::new(key_types, set, None)?;
        for namespace in &self.namespaces {
            let home = Home::new(state, *namespace, &self.more);
            home.read(part, set, |stored| sum.absorb_stored(&stored, None))?;
        }
        for chunk in sum.chunks() {
            results.push((sum.results(&chunk)?, chunk.len()));
        }
        Ok(Some(results))
    }
}
