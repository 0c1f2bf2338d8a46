//! What a broker can be told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::report::Report;

/// How a broker runs. The default is an ephemeral broker on a free port of loopback.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// `host:port` that clients are told to connect to; absent means the address it listens on.
    pub advertised: Option<(String, u16)>,
    /// Where logs and metadata live; absent means a temporary folder, removed at the end.
    pub data: Option<PathBuf>,
    /// Partitions of a topic made without a number (`num.partitions`).
    pub default_partitions: i32,
    /// Whether metadata and produce requests make topics that do not exist (`auto.create.topics.enable`).
    pub auto_create_topics: bool,
    /// Longest transaction timeout a producer may ask for (`transaction.max.timeout.ms`).
    pub transaction_timeout_max: Duration,
    /// Highest `transaction.version` that is offered: 1 or 2.
    pub transaction_version: i16,
    /// How often retention and compaction run (`log.retention.check.interval.ms`).
    pub clean_interval: Duration,
    /// Who is told of trouble that no client can be told of.
    pub report: Report,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertised: None,
            data: None,
            default_partitions: 1,
            auto_create_topics: true,
            transaction_timeout_max: Duration::from_secs(15 * 60),
            transaction_version: 2,
            clean_interval: Duration::from_secs(30),
            report: Report::default(),
        }
    }
}
