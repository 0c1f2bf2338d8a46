//! The contract between the parts of Tidegate.
//!
//! The SQL planner emits a [`graph::JobGraph`] (plain data), the runtime executes it, connectors
//! bring rows in and out, and the function library evaluates expressions. None of these crates
//! knows another: they meet in the traits and data types of this crate, and `cli` wires them.

pub mod audit;
pub mod config;
pub mod connector;
pub mod element;
pub mod error;
pub mod expr;
pub mod fail_point;
pub mod function;
pub mod graph;
pub mod metrics;
pub mod text;
pub mod types;
pub mod value;

pub use element::{Batch, RowKind, StreamElement};
pub use error::{Error, ErrorKind, Result};
pub use tidegate_time::{Timestamp, Watermark, WatermarkStatus};
pub use tidegate_window::{WindowKind, WindowSpec};
pub use types::{Field, LogicalType, Schema, TypeKind};
pub use value::Value;
