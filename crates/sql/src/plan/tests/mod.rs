//! Scripts in, job graphs and messages out.

mod aggregates;
mod errors;
mod joins;
mod lab;
mod sinks;
mod support;
