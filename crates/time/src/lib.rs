//! Event time: timestamps, watermarks and the pure machines that merge them.
//!
//! This crate holds no clock, no I/O and no async. Facts go in (a row's timestamp, an input's
//! watermark, the current time as a number), decisions come out. Everything that decides *when* a
//! window may close lives here, so that it can be tested without a running job.

mod watermark;

pub use watermark::{Timestamp, Watermark, WatermarkStatus};
