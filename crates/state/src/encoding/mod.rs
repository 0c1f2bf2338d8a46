//! How keys and values are written as bytes. Fixed for ever: state on disk outlives every release. A
//! form is never changed; a new one gets a new name.
//!
//! - [`KeyWriter`]: **order-preserving**. Bytes compare as the values do, column after column, so a
//!   prefix of columns is a prefix of bytes.
//! - [`ValueWriter`]: **compact**, not ordered.

mod key;
mod value;

pub use key::{KeyReader, KeyWriter};
pub use value::{ValueReader, ValueWriter};
