//! Offsets and groups that nobody needs any more.

use std::io;

use super::machine::Group;
use super::offsets::{Change, Offset};
use super::{Entry, GroupState, Inner};
use crate::transactions::Partition;

/// How long offsets outlive their group's last member (`offsets.retention.minutes`).
pub(super) const RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;
/// How often their age is looked at (`offsets.retention.check.interval.ms`).
const CHECK_MS: i64 = 10 * 60 * 1000;

impl Group {
    /// From when an offset ages; `None` if it does not, because the group is in use.
    fn ages_from(&self, topic: &str, offset: &Offset) -> Option<i64> {
        if self.is_subscribed(topic) {
            return None;
        }
        match (&self.protocol_type, self.state) {
            (None, _) => Some(offset.commit_ms),
            (Some(_), GroupState::Empty) => Some(self.since_ms),
            (Some(_), GroupState::Stable) if self.knows_subscriptions() => Some(offset.commit_ms),
            _ => None,
        }
    }

    fn is_expired(&self, topic: &str, offset: &Offset, now_ms: i64) -> bool {
        let Some(from) = self.ages_from(topic, offset) else { return false };
        match offset.expire_ms {
            Some(expire_ms) => now_ms >= expire_ms,
            None => now_ms.saturating_sub(from) >= RETENTION_MS,
        }
    }
}

impl Inner {
    /// Takes away expired offsets, then groups with neither members nor offsets.
    pub(super) fn expire(&mut self, now_ms: i64) -> io::Result<()> {
        if now_ms < self.expire_at_ms {
            return Ok(());
        }
        self.expire_at_ms = now_ms + CHECK_MS;
        let ids: Vec<String> = self.groups.keys().cloned().collect();
        for id in ids {
            let Some(group) = self.groups.get(&id) else { continue };
            let is_expired = |(partition, offset): (&Partition, &Offset)| {
                let expired = group.is_expired(&partition.0, offset, now_ms) && !self.offsets.is_staged(&id, partition);
                expired.then(|| partition.clone())
            };
            let partitions: Vec<Partition> = self.offsets.of_group(&id).filter_map(is_expired).collect();
            let vacant = group.is_vacant();
            if !partitions.is_empty() {
                let change = Change::Delete { group: id.clone(), partitions };
                self.journal.append(&Entry::Offsets(change.clone()))?;
                self.offsets.apply(change);
            }
            if vacant && !self.offsets.knows_group(&id) {
                self.remove_group(&id)?;
            }
        }
        Ok(())
    }
}
