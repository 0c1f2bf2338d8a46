use serde::{Deserialize, Serialize};

/// The shape of a window, lengths in milliseconds, all positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// Windows of `size` side by side.
    Tumble {
        /// Length of a window.
        size: i64,
    },
    /// Windows of `size`, one starting every `slide`.
    Hop {
        /// Distance between two window starts.
        slide: i64,
        /// Length of a window.
        size: i64,
    },
    /// Windows that start every `size` and grow by `step` up to `size`.
    Cumulate {
        /// Growth of a window.
        step: i64,
        /// The longest window; Flink's `maxSize`.
        size: i64,
    },
    /// A window per burst of rows; it ends `gap` after its last row.
    Session {
        /// The silence that ends a session.
        gap: i64,
    },
}

/// A window definition as a query states it: shape, offset and the zone whose midnight it follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowSpec {
    /// The shape.
    pub kind: WindowKind,
    /// Shift of the window grid in milliseconds; may be negative.
    pub offset: i64,
    /// IANA zone (or `+08:00`) for windows over `TIMESTAMP_LTZ`; `None` for `TIMESTAMP`, whose
    /// windows lie on the epoch grid of the written digits.
    pub zone: Option<String>,
}
