//! When a part is finished and the next one begun: Flink's rolling policy of tables.
//!
//! | what | when it is looked at | Flink's rule |
//! |---|---|---|
//! | size | before a row is written, at a barrier | more than `file-size` |
//! | age, idleness | every `check-interval` | at least `rollover-interval`, `inactivity-interval` |
//!
//! Files are seen only after a checkpoint, so nobody can tell a check by a timer from one that is made up for
//! when the next row or barrier comes, as of the moment it was due. So there is no timer.

use tidegate_api::Result;

use crate::option::OptionReader;

const MINUTE_MS: i64 = 60_000;

/// `sink.rolling-policy.*`. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RollingPolicy {
    file_size: u64,
    rollover_ms: i64,
    inactivity_ms: i64,
    check_ms: i64,
}

impl RollingPolicy {
    /// Its keys; a source takes them too, without effect.
    pub(super) const KEYS: [&str; 4] = [
        "sink.rolling-policy.file-size",
        "sink.rolling-policy.rollover-interval",
        "sink.rolling-policy.inactivity-interval",
        "sink.rolling-policy.check-interval",
    ];

    pub(super) fn read(options: &mut OptionReader<'_>) -> Result<RollingPolicy> {
        let [file_size, rollover, inactivity, check] = Self::KEYS;
        Ok(RollingPolicy {
            file_size: options.bytes(file_size)?.unwrap_or(128 << 20),
            rollover_ms: options.duration_ms(rollover)?.unwrap_or(30 * MINUTE_MS),
            inactivity_ms: options.duration_ms(inactivity)?.unwrap_or(30 * MINUTE_MS),
            check_ms: options.duration_ms(check)?.unwrap_or(MINUTE_MS).max(1),
        })
    }

    /// Whether a part of this size takes no more rows.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        bytes > self.file_size
    }

    /// Whether a check at `now_ms` finishes a part.
    pub(super) fn is_over(&self, created_ms: i64, updated_ms: i64, now_ms: i64) -> bool {
        now_ms - created_ms >= self.rollover_ms || now_ms - updated_ms >= self.inactivity_ms
    }
}

/// The checks of a writer's life.
#[derive(Clone, Debug)]
pub(super) struct Checks {
    every_ms: i64,
    next_ms: i64,
}

impl Checks {
    /// The first check is an interval after `now_ms`.
    pub(super) fn new(policy: &RollingPolicy, now_ms: i64) -> Checks {
        Checks { every_ms: policy.check_ms, next_ms: now_ms.saturating_add(policy.check_ms) }
    }

    /// The last check that was due up to now and not made yet.
    pub(super) fn due(&mut self, now_ms: i64) -> Option<i64> {
        if now_ms < self.next_ms {
            return None;
        }
        let last = self.next_ms + (now_ms - self.next_ms) / self.every_ms * self.every_ms;
        self.next_ms = last.saturating_add(self.every_ms);
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RollingPolicy> {
        let own = pairs.iter().map(|(key, value)| (format!("sink.rolling-policy.{key}"), (*value).to_owned()));
        let options: BTreeMap<String, String> = own.collect();
        let mut reader = OptionReader::of("filesystem", &options);
        let policy = RollingPolicy::read(&mut reader)?;
        reader.finish()?;
        Ok(policy)
    }

    #[test]
    fn the_defaults_are_flinks() {
        let policy = read(&[]).expect("defaults");
        assert!(!policy.is_full(128 << 20) && policy.is_full((128 << 20) + 1));
        assert!(!policy.is_over(0, 1_799_999, 1_799_999) && policy.is_over(0, 1_800_000, 1_800_000), "rollover");
        assert_eq!(policy.check_ms, 60_000);
        let idle = read(&[("rollover-interval", "1 d"), ("inactivity-interval", "5 s")]).expect("durations");
        assert!(!idle.is_over(0, 10_000, 14_999) && idle.is_over(0, 10_000, 15_000));
        let told = read(&[("file-size", "big")]).expect_err("no size").to_string();
        assert!(told.contains("'sink.rolling-policy.file-size': 'big'"), "{told}");
    }

    #[test]
    fn a_check_is_made_up_for_as_of_when_it_was_due() {
        let mut checks = Checks::new(&read(&[("check-interval", "10 s")]).expect("a duration"), 5_000);
        assert_eq!(checks.due(14_999), None);
        assert_eq!(checks.due(15_000), Some(15_000));
        assert_eq!(checks.due(15_000), None);
        assert_eq!(checks.due(47_000), Some(45_000), "the last of three");
        assert_eq!(checks.due(54_999), None);
        assert_eq!(checks.due(55_000), Some(55_000));
    }
}
