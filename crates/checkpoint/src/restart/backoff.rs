//! The machine behind a strategy: a failure at a time gives a wait or the end.

use std::collections::VecDeque;

use crate::restart::RestartStrategy;

/// What a failure leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Start the job again after this many milliseconds.
    RestartAfter(i64),
    /// Another failure while a restart is already waiting: the same restart serves both, after this
    /// many milliseconds.
    Joined(i64),
    /// Give up.
    GiveUp {
        /// `Recovery is suppressed by ...`, Flink's text.
        reason: String,
    },
}

/// Counts the failures of one job.
#[derive(Clone, Debug)]
pub struct Backoff {
    strategy: RestartStrategy,
    /// Restarts so far (fixed delay), or since the last reset (exponential delay).
    attempts: u32,
    /// Times of the latest failures, oldest first; at most one more than the rate allows.
    failures: VecDeque<i64>,
    /// When the restart that is waiting begins; exponential delay only.
    next_restart_ms: Option<i64>,
}

impl Backoff {
    /// A job that has not failed yet.
    pub fn new(strategy: RestartStrategy) -> Backoff {
        Backoff { strategy, attempts: 0, failures: VecDeque::new(), next_restart_ms: None }
    }

    /// The strategy.
    pub fn strategy(&self) -> &RestartStrategy {
        &self.strategy
    }

    /// The job failed at `now_ms`. `random` is from `[0, 1)`; it decides the jitter.
    pub fn failure(&mut self, now_ms: i64, random: f64) -> Verdict {
        match self.strategy.clone() {
            RestartStrategy::None => self.give_up(),
            RestartStrategy::FixedDelay { attempts, delay_ms } => {
                if self.attempts >= attempts {
                    return self.give_up();
                }
                self.attempts += 1;
                Verdict::RestartAfter(delay_ms)
            }
            RestartStrategy::FailureRate { max_failures, interval_ms, delay_ms } => {
                if self.failures.len() > max_failures as usize {
                    self.failures.pop_front();
                }
                self.failures.push_back(now_ms);
                let full = self.failures.len() > max_failures as usize;
                match self.failures.front() {
                    Some(oldest) if full && now_ms - oldest <= interval_ms => self.give_up(),
                    _ => Verdict::RestartAfter(delay_ms),
                }
            }
            RestartStrategy::ExponentialDelay { reset_threshold_ms, attempts_before_reset, .. } => {
                match self.next_restart_ms {
                    Some(next) if now_ms <= next => return Verdict::Joined(next - now_ms),
                    Some(next) if now_ms - next >= reset_threshold_ms => self.attempts = 0,
                    _ => {}
                }
                let wait = self.exponential_wait(random);
                self.attempts = self.attempts.saturating_add(1);
                if self.attempts > attempts_before_reset {
                    return self.give_up();
                }
                self.next_restart_ms = Some(now_ms.saturating_add(wait));
                Verdict::RestartAfter(wait)
            }
        }
    }

    /// Flink's formula: the power of the attempts since the reset, plus a jitter to both sides, within
    /// the first and the longest wait.
    fn exponential_wait(&self, random: f64) -> i64 {
        let RestartStrategy::ExponentialDelay { initial_ms, max_ms, multiplier, jitter, .. } = self.strategy else {
            return 0;
        };
        let power = multiplier.powi(i32::try_from(self.attempts).unwrap_or(i32::MAX));
        let base = (initial_ms as f64 * power).min(max_ms as f64);
        let offset = base * jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        ((base + offset) as i64).clamp(initial_ms, max_ms)
    }

    fn give_up(&self) -> Verdict {
        Verdict::GiveUp { reason: format!("Recovery is suppressed by {}", self.strategy) }
    }
}
