//! `tidegate broker`: a Kafka-protocol broker for development.

use std::net::SocketAddr;

use tidegate_api::{Error, Result};
use tidegate_broker::{Broker, BrokerOptions};

use crate::args::BrokerArgs;
use crate::console::Console;
use crate::signals::Signals;

/// Serves until Ctrl-C or SIGTERM.
pub async fn broker(args: BrokerArgs, signals: Signals) -> Result<()> {
    let console = Console::new(false);
    let options = options(&args);
    let listen = options.listen;
    // Recovery reads the logs, which may take a while; the signals are listened to meanwhile.
    let started = tokio::task::spawn_blocking(move || Broker::start(options)).await;
    let broker = started.map_err(|e| Error::internal(format!("The broker's start has failed: {e}.")))?;
    let broker = broker.map_err(|e| Error::job(e.to_string()))?;
    console.notice(&greeting(&args, &broker));
    if !listen.ip().is_loopback() {
        console.notice(&warning(broker.address()));
    }
    signals.wait().await;
    let stopped = tokio::task::spawn_blocking(move || broker.shutdown()).await;
    stopped.map_err(|e| Error::internal(format!("The broker's end has failed: {e}.")))?;
    Err(Error::cancelled())
}

fn options(args: &BrokerArgs) -> BrokerOptions {
    BrokerOptions {
        listen: SocketAddr::new(args.listen, args.port),
        data: args.data.clone(),
        default_partitions: args.partitions,
        auto_create_topics: !args.no_auto_create,
        transaction_version: args.transaction_version,
        ..BrokerOptions::default()
    }
}

/// Where it listens, where the data lie, what it is for, and how to do without it: on one line, since it
/// is one event in a log.
fn greeting(args: &BrokerArgs, broker: &Broker) -> String {
    let data = match &args.data {
        Some(folder) => format!("data in {}", folder.display()),
        None => "data in a temporary folder that goes with it (--data DIR keeps them)".to_owned(),
    };
    format!(
        "Kafka-protocol broker for development on {}, {data}. Scripts reach it with \
         'properties.bootstrap.servers' = '{}', and a real cluster with its address there",
        broker.address(),
        broker.bootstrap()
    )
}

fn warning(address: SocketAddr) -> String {
    format!(
        "warning: everybody who reaches {address} over a network can read, write and delete everything: there is no \
         TLS and no authentication"
    )
}
