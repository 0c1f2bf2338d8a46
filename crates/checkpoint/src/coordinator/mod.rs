//! Decides when checkpoints begin, when they are complete and what becomes of the others.
//!
//! ```text
//!            tick, request                all acknowledged            manifest stored
//!   (none) ───────────────> in progress ───────────────────> storing ────────────────> complete
//!                               │ timeout, decline,             │ storing failed
//!                               │ subsumed, job failed          │
//!                               └────────────> aborted <────────┘
//! ```
//!
//! Rules that hold throughout:
//! - ids only rise, also over restarts;
//! - while a manifest is being stored its checkpoint is not aborted, whatever happens: the manifest
//!   decides whether the checkpoint exists, and its files must be there if it does. A job that failed
//!   meanwhile may choose where to restart only when [`Coordinator::may_restore`] says so;
//! - a savepoint that does not stop the job leaves no trace in it: it subsumes nothing, is never
//!   subsumed, and sinks do not commit with it;
//! - a task that has ended is in every later manifest with what it said last.

mod assemble;
mod decision;
mod fact;
mod failures;
mod history;
mod machine;
mod pending;
mod plan;
mod schedule;
mod trigger;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use decision::{AbortReason, Decision};
pub use fact::{DeclineReason, Fact};
pub use history::{AckMetrics, CheckpointRecord, Counts, History, Outcome, RestoredFrom, Sample};
pub use machine::Coordinator;
pub use plan::{InputEdge, JobPlan, OperatorPlan, VertexPlan};
pub use schedule::Settings;
