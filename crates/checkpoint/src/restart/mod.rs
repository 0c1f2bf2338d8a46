//! Whether and when a failed job is started again. Keys, defaults and texts are Flink's.

mod backoff;
mod strategy;
#[cfg(test)]
mod tests;

pub use backoff::{Backoff, Verdict};
pub use strategy::RestartStrategy;
