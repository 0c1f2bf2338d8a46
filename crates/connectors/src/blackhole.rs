//! `blackhole`: takes every change and forgets it; for measuring everything before the sink.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, SinkMode, SinkWriter, TableDescriptor, WriterContext};
use tidegate_api::{Batch, Result};

use crate::option::OptionReader;

/// The factory of `'connector' = 'blackhole'`.
pub struct BlackholeFactory;

impl ConnectorFactory for BlackholeFactory {
    fn identifier(&self) -> &'static str {
        "blackhole"
    }

    fn sink(&self, table: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        OptionReader::new(self.identifier(), table).finish()?;
        Ok(Arc::new(Blackhole))
    }
}

struct Blackhole;

impl Sink for Blackhole {
    fn mode(&self) -> SinkMode {
        SinkMode::Changelog
    }

    fn writer(&self, _: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Blackhole))
    }
}

#[async_trait]
impl SinkWriter for Blackhole {
    async fn write(&mut self, _: Batch) -> Result<()> {
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
