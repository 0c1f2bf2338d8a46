//! Event time: timestamps, watermarks and the pure machines that merge them.
//!
//! This crate holds no I/O and no async, and reads no clock but through [`Clock`]. Facts go in (a
//! row's timestamp, an input's watermark, the current time as a number), decisions come out.
//! Everything that decides *when* a window may close lives here, so that it can be tested without
//! a running job:
//!
//! - [`WatermarkValve`] merges the watermarks of many inputs into one that never goes back;
//! - [`IdlenessTimer`] says when an input that has nothing stops holding time back;
//! - [`Cutter`] says where a batch must be cut so that results are as if rows came one by one.

mod clock;
mod cut;
mod idleness;
mod valve;
mod watermark;

pub use clock::{Clock, ManualClock, SystemClock};
pub use cut::{Cut, CutPosition, CutRule, Cutter, NO_CANDIDATE, SliceGrid};
pub use idleness::IdlenessTimer;
pub use valve::{ValveChange, ValveEvent, WatermarkValve};
pub use watermark::{Timestamp, Watermark, WatermarkStatus};
