//! The coordinator of transactions: its tables, and random lives with crashes.

mod coordinator;
mod model;
mod table;
mod world;
