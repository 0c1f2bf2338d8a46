//! Windows: tumble, hop, cumulate and session, as pure arithmetic over timestamps.
//!
//! Nothing here knows rows, keys or state: the crate says which slice or window a timestamp falls
//! into, when a window fires, and when a row is late for it.

mod spec;

pub use spec::{WindowKind, WindowSpec};
