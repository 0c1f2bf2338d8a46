//! Tidegate's broker in the test's own process.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_broker::{Broker, BrokerOptions};

use super::Settings;
use crate::leash::Leash;

/// A broker in this process, with a folder that goes with it.
pub struct Embedded {
    broker: Option<Broker>,
    options: BrokerOptions,
    _folder: Leash,
}

impl Embedded {
    /// Starts it on a free port.
    pub fn start(settings: Settings) -> Result<Embedded, String> {
        let folder = Leash::new("tidegate-broker-")?;
        let mut options = BrokerOptions {
            data: Some(folder.dir().join("data")),
            auto_create_topics: settings.auto_create_topics,
            transaction_version: settings.transaction_version,
            clean_interval: Duration::from_millis(300),
            ..BrokerOptions::default()
        };
        let broker = Broker::start(options.clone()).map_err(|e| e.to_string())?;
        options.listen = broker.address();
        Ok(Embedded { broker: Some(broker), options, _folder: folder })
    }

    /// `host:port` for clients.
    pub fn bootstrap(&self) -> String {
        let address: SocketAddr = self.options.listen;
        address.to_string()
    }

    /// Ends it; its data and its address stay.
    pub fn stop(&mut self) {
        if let Some(broker) = self.broker.take() {
            broker.shutdown();
        }
    }

    /// Starts it again.
    pub fn resume(&mut self) -> Result<(), String> {
        self.broker = Some(Broker::start(self.options.clone()).map_err(|e| e.to_string())?);
        Ok(())
    }
}
