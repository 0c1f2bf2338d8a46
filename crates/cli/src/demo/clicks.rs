//! The clicks of the demo, and the truth about them. Pure: the time is a parameter, and a seed always
//! gives the same clicks.
//!
//! A click happens, and arrives later: most soon, some much later, so they come out of order. Now and then
//! the last partition falls silent for a while, and its users' clicks go to the others.

use std::collections::BTreeMap;

/// Length of the windows that the demo's script counts in.
pub const WINDOW_MS: i64 = 5_000;
const USERS: u64 = 20;
/// Clicks made at once at most, so that a machine that was asleep does not make a day's worth.
const DUE_MAX: usize = 50_000;
/// The silences: each lasts 6 s, and begins 12 s into every 30.
const SILENCE_EVERY_MS: i64 = 30_000;
const SILENCE_FROM_MS: i64 = 12_000;
const SILENCE_TO_MS: i64 = 18_000;

/// What clicks to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Clicks per second.
    pub rate: u32,
    /// How late the latest arrive, in milliseconds.
    pub disorder_ms: i64,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Chooses the clicks.
    pub seed: u64,
}

/// One click. Times are in milliseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Click {
    /// Number, from 1.
    pub seq: u64,
    /// When it arrives.
    pub arrives_ms: i64,
    /// When it happened.
    pub happened_ms: i64,
    /// Who clicked.
    pub user: u32,
    /// Where it is sent to.
    pub partition: u32,
}

/// Makes clicks in the order they arrive.
pub struct Clicks {
    plan: Plan,
    next: u64,
}

impl Clicks {
    /// The clicks of a plan.
    pub fn new(plan: Plan) -> Clicks {
        Clicks { plan, next: 0 }
    }

    /// Those that arrive until `elapsed_ms` and were not given before.
    pub fn due(&mut self, elapsed_ms: i64) -> Vec<Click> {
        let mut due = Vec::new();
        while due.len() < DUE_MAX {
            let click = self.click(self.next);
            if click.arrives_ms > elapsed_ms {
                break;
            }
            due.push(click);
            self.next += 1;
        }
        due
    }

    fn click(&self, number: u64) -> Click {
        let Plan { rate, disorder_ms, partitions, seed } = self.plan;
        let arrives_ms = (number * 1_000 / u64::from(rate.max(1))) as i64;
        // The fourth power: half of the clicks are hardly late, one in six is more than half the limit late.
        let lateness = unit(random(seed, number, 0)).powi(4);
        // Nothing happened before the start.
        let late_ms = ((lateness * disorder_ms as f64) as i64).min(arrives_ms);
        let user = (random(seed, number, 1) % USERS) as u32 + 1;
        let speaking = partitions - u32::from(partitions > 1 && is_silence(arrives_ms));
        let partition = (random(seed, number, 2) % u64::from(speaking.max(1))) as u32;
        Click { seq: number + 1, arrives_ms, happened_ms: arrives_ms - late_ms, user, partition }
    }
}

fn is_silence(elapsed_ms: i64) -> bool {
    (SILENCE_FROM_MS..SILENCE_TO_MS).contains(&(elapsed_ms % SILENCE_EVERY_MS))
}

/// SplitMix64 (Steele, Lea, Flood 2014) at a place of its own for each click and question.
fn random(seed: u64, number: u64, question: u64) -> u64 {
    let step = number.wrapping_mul(3).wrapping_add(question).wrapping_add(1);
    let mut z = seed.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number in `0.0..1.0`.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// What has been sent: what every count should be.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Clicks by the start of the window they happened in, in milliseconds since the epoch.
    pub windows: BTreeMap<i64, u64>,
    /// All clicks.
    pub sent: u64,
    /// Every click that happened before this moment has been sent, in milliseconds since the epoch.
    pub settled_ms: i64,
}

impl Truth {
    /// A click that happened at `ts_ms` is in the topic.
    pub fn sent(&mut self, ts_ms: i64) {
        *self.windows.entry(ts_ms.div_euclid(WINDOW_MS) * WINDOW_MS).or_default() += 1;
        self.sent += 1;
    }

    /// Whether no click of the window that starts here can come any more.
    pub fn is_settled(&self, window_start: i64) -> bool {
        window_start + WINDOW_MS <= self.settled_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { rate: 50, disorder_ms: 4_000, partitions: 3, seed: 7 };

    #[test]
    fn a_seed_gives_the_same_clicks_however_they_are_asked_for() {
        let all = Clicks::new(PLAN).due(20_000);
        let mut clicks = Clicks::new(PLAN);
        let by_steps: Vec<Click> = (0..=200).flat_map(|step| clicks.due(step * 100)).collect();
        assert_eq!(all, by_steps);
        assert_eq!(all.len(), 1_001);
        assert_ne!(all, Clicks::new(Plan { seed: 8, ..PLAN }).due(20_000));
    }

    #[test]
    fn clicks_are_late_within_the_limit_and_none_happened_before_the_start() {
        let all = Clicks::new(PLAN).due(60_000);
        assert!(all.iter().all(|c| (0..=4_000).contains(&(c.arrives_ms - c.happened_ms)) && c.happened_ms >= 0));
        let very_late = all.iter().filter(|c| c.arrives_ms - c.happened_ms > 2_000).count();
        assert!((all.len() / 10..all.len() / 4).contains(&very_late), "{very_late} of {}", all.len());
        let in_order = Clicks::new(Plan { disorder_ms: 0, ..PLAN }).due(5_000);
        assert!(in_order.iter().all(|c| c.arrives_ms == c.happened_ms));
    }

    #[test]
    fn the_last_partition_falls_silent_and_comes_back() {
        let all = Clicks::new(PLAN).due(60_000);
        let spoke =
            |from, to, partition| all.iter().any(|c| (from..to).contains(&c.arrives_ms) && c.partition == partition);
        assert!(!spoke(12_000, 18_000, 2) && spoke(12_000, 18_000, 0) && spoke(18_000, 20_000, 2));
        let one = Clicks::new(Plan { partitions: 1, ..PLAN }).due(20_000);
        assert!(one.iter().all(|c| c.partition == 0));
    }

    #[test]
    fn the_truth_is_by_window() {
        let mut truth = Truth { settled_ms: 9_999, ..Truth::default() };
        [0, 4_999, 5_000].into_iter().for_each(|ts| truth.sent(ts));
        assert_eq!(truth.windows, BTreeMap::from([(0, 2), (5_000, 1)]));
        assert!(truth.is_settled(0) && !truth.is_settled(5_000));
    }
}
