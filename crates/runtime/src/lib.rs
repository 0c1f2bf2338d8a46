//! Runs a job graph: sources, operators, tasks, exchange, metrics, the local job manager.
//!
//! This crate knows neither Kafka nor SQL nor HTTP: connectors and functions are injected.
//!
//! ```text
//!   JobGraph --plan--> vertices (chained operators) --deploy--> tasks, one per subtask
//!
//!   source task:  reader -> computed columns -> event time (watermarks, cuts) -> chain
//!   other task:   queue  -> watermark valve  -> chain
//!                                               chain -> result partitions, sinks
//! ```
//!
//! [`LocalCluster`] is the way in: it owns the data runtime, takes job graphs and gives
//! [`JobHandle`]s. [`view`] is what others may see.

pub mod audit;
mod builtin;
mod cut_rules;
mod exchange;
mod job;
mod late;
mod notices;
pub mod operator;
mod operators;
mod plan;
mod source;
mod state;
mod table;
mod task;
pub mod view;
mod window_board;

pub use job::{
    ClusterOptions, EndedJob, JobHandle, JobId, JobRecords, JobSummary, LocalCluster, OperatorRows, PreparedJob,
    RestorePlan, ResumedJob, StopSavepoint, WrapSource,
};
pub use notices::{Notice, Notices, Severity};
