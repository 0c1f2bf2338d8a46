//! Windows: tumble, hop, cumulate and session, as pure arithmetic over timestamps.
//!
//! Nothing here knows rows, keys or state: the crate says which slice or window a timestamp falls
//! into, when a window fires, and when a row is late for it.
//!
//! A window `[start, end)` fires when the watermark reaches its last millisecond, `end - 1`; a row is
//! late for the window under the same condition. A row is dropped only when the *last* window that
//! holds its slice has fired; before that it enters the windows that are still open.

mod assign;
mod session;
mod spec;
mod zone;

pub use assign::{CutGrid, WindowAssigner};
pub use session::{SessionMerge, TimeWindow, merge_session};
pub use spec::{WindowKind, WindowSpec};
pub use zone::{LocalClock, Zone};

#[cfg(test)]
mod tests;
