use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since 1970-01-01T00:00:00, signed; before 1970 it is negative.
pub type Timestamp = i64;

/// "No more rows with a timestamp at or below this are expected."
///
/// Unit: milliseconds since the epoch. A watermark never goes back on one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Watermark(pub Timestamp);

impl Watermark {
    /// Nothing is known yet; the value of every operator before its first watermark.
    pub const MIN: Watermark = Watermark(Timestamp::MIN);
    /// The end of time: a bounded input is over and every window fires.
    pub const MAX: Watermark = Watermark(Timestamp::MAX);

    /// The timestamp this watermark stands at, in milliseconds.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Watermark::MIN => f.write_str("none yet"),
            Watermark::MAX => f.write_str("end of input"),
            Watermark(ms) => write!(f, "{ms}"),
        }
    }
}

/// Whether an input takes part in the minimum that makes the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WatermarkStatus {
    /// The input delivers rows or may at any moment; it holds the watermark back.
    Active,
    /// The input was asked and had nothing for its idle timeout; it does not hold time back.
    Idle,
}
