//! Runs a job graph: sources, operators, tasks, exchange, metrics, the local job manager.
//!
//! This crate knows neither Kafka nor SQL nor HTTP: connectors and functions are injected.

pub mod operator;
pub mod view;
