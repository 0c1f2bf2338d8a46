//! A single-node Kafka-protocol broker for development, tests and the demo.
//!
//! It knows nothing of streams, SQL or the engine. Everything a client sends ends up in one of three
//! places: a partition's log on disk, the topic catalogue, or a coordinator (groups, transactions). The
//! coordinators decide purely, with the time as a parameter; the server around them does the waiting.
//!
//! Whatever was acknowledged survives the death of the process at any moment.

mod batch;
mod clock;
mod folder;
mod groups;
mod handlers;
mod journal;
mod log;
mod options;
mod report;
mod server;
mod state;
mod topics;
mod transactions;
mod wire;

pub use clock::Clock;
pub use options::BrokerOptions;
pub use report::Report;
pub use server::{Broker, BrokerError};
