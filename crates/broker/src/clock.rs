//! Where the time comes from.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time, in milliseconds since 1970-01-01T00:00:00Z.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The clock on the wall: the one place of this crate that asks the system for the time.
pub(crate) fn wall() -> Clock {
    #[allow(clippy::disallowed_methods, reason = "the edge: everything behind it takes the time as a parameter")]
    Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
}
