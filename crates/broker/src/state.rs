//! What the handlers of all connections share.

use std::net::SocketAddr;
use std::path::PathBuf;

use kafka_protocol::protocol::StrBytes;

use crate::clock::Clock;
use crate::groups::Groups;
use crate::options::BrokerOptions;
use crate::topics::Topics;
use crate::transactions::Transactions;

/// Everything a handler can reach. Each part guards itself; there is no lock around the whole.
pub(crate) struct State {
    pub(crate) options: BrokerOptions,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) clock: Clock,
    pub(crate) node: NodeAddress,
    /// The data folder.
    pub(crate) data: PathBuf,
}

impl State {
    /// The time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

/// How clients reach this node, and what the cluster is called.
pub(crate) struct NodeAddress {
    /// Id of the only node.
    pub(crate) id: i32,
    /// Host and port that clients are told; absent means the address at which they have reached it.
    pub(crate) advertised: Option<(String, u16)>,
    /// Id of the cluster; lasts as long as the data folder.
    pub(crate) cluster: String,
}

impl NodeAddress {
    /// The host and port this client is told to connect to.
    pub(crate) fn endpoint(&self, client: &Client) -> (StrBytes, i32) {
        match &self.advertised {
            Some((host, port)) => (StrBytes::from_string(host.clone()), i32::from(*port)),
            None => (StrBytes::from_string(client.reached.ip().to_string()), i32::from(client.reached.port())),
        }
    }
}

/// Who sent a request.
pub(crate) struct Client {
    /// `client.id`, empty if there is none.
    pub(crate) id: String,
    /// Its address as Kafka shows it: a slash, then the IP address.
    pub(crate) host: String,
    /// The address of this broker at which it has arrived.
    pub(crate) reached: SocketAddr,
}
