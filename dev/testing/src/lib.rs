//! What tests of Tidegate stand on: Kafka brokers of two kinds, the clients of other
//! languages, and the `tidegate` binary as a child process.
//!
//! These are tests' edges, so they read the wall clock and wait. Everything they start ends with the
//! test process, however that ends.
#![allow(clippy::disallowed_methods)]

pub mod chaos;
pub mod gate;
pub mod java;
pub mod kafka;
pub mod lab;
pub mod leash;
pub mod process;
pub mod python;
pub mod random;
pub mod rest;
pub mod s3;
pub mod tmux;
mod topics;

/// The Kafka client the tests speak with.
pub use rdkafka;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The workspace's root folder.
pub fn workspace() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(|dev| dev.parent()).map(PathBuf::from).unwrap_or(here)
}

/// Where built and downloaded things are kept: cargo's target folder.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Asks until the answer is `Some`, at most for `limit`.
pub fn wait_for<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a test does without something it needs: it fails under `CI=true`, else it says so loudly and
/// is skipped (the caller returns).
pub fn unavailable(what: &str, reason: &str) {
    let ci = std::env::var("CI").is_ok_and(|v| v == "true" || v == "1");
    assert!(!ci, "{what} is not available, and CI must not skip tests: {reason}");
    eprintln!("\n*** TEST SKIPPED: {what} is not available: {reason}\n");
}
