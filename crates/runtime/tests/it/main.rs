//! Jobs run by the engine with connectors and functions made for the test.

mod backpressure;
mod batching;
mod checkpoints;
mod engine;
mod event_time;
mod fakes;
mod joins;
mod view;
