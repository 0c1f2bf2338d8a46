//! Where rows come from and go to: connectors, and the formats they speak.
//!
//! A *connector* finds splits, reads bytes and knows positions (an offset, a line); a *format* turns one
//! message into columns and back. They meet in [`mod@format`]: any connector works with any format.

pub mod blackhole;
pub mod datagen;
pub mod filesystem;
pub mod format;
pub mod kafka;
pub mod option;
pub mod print;
pub mod row_text;

mod column;
mod java_map;
#[cfg(test)]
mod testing;
mod view;

use std::sync::Arc;

use tidegate_api::connector::ConnectorRegistry;

/// Adds every connector of this crate.
pub fn register_all(registry: &mut ConnectorRegistry) {
    registry.register(Arc::new(blackhole::BlackholeFactory));
    registry.register(Arc::new(datagen::DatagenFactory));
    registry.register(Arc::new(filesystem::FilesystemFactory));
    registry.register(Arc::new(print::PrintFactory::default()));
    registry.register(Arc::new(kafka::KafkaFactory));
    registry.register(Arc::new(kafka::UpsertKafkaFactory));
}
