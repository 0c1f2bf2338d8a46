//! Start, end and what lies between two lives of a broker.

use std::net::TcpStream;

use tidegate_broker::{Broker, BrokerError, BrokerOptions};

use crate::client::{Client, batch, broker, broker_in, fetch_request, options};

#[test]
fn two_brokers_live_in_one_process() {
    let (first, second) = (broker(), broker());
    assert_ne!(first.address(), second.address());
    assert_ne!(first.data(), second.data());
    let (mut to_first, mut to_second) = (Client::new(first.address()), Client::new(second.address()));
    to_first.create("t", 1);
    to_second.create("t", 1);
    to_first.produce("t", 0, batch(&["first"]));
    to_second.produce("t", 0, batch(&["second"]));
    assert_eq!(to_first.values("t", 0), ["first"]);
    first.shutdown();
    assert_eq!(to_second.values("t", 0), ["second"]);
}

#[test]
fn the_end_closes_listener_connections_and_waiting_requests() {
    let broker = broker();
    let address = broker.address();
    let data = broker.data().to_owned();
    let mut idle = Client::new(address);
    let mut waiting = Client::new(address);
    waiting.create("t", 1);
    waiting.send(&fetch_request("t", 0, 0).with_max_wait_ms(i32::MAX), 12);
    broker.shutdown();
    assert!(idle.is_closed());
    assert!(waiting.is_closed());
    assert!(TcpStream::connect(address).is_err());
    assert!(!data.exists(), "the temporary folder is left: {}", data.display());
}

/// A program that runs on a runtime of its own can start and stop a broker.
#[tokio::test]
async fn lives_within_an_asynchronous_program() {
    let broker = broker();
    let address = broker.address();
    let values = tokio::task::spawn_blocking(move || {
        let mut client = Client::new(address);
        client.create("t", 1);
        client.produce("t", 0, batch(&["a"]));
        client.values("t", 0)
    });
    assert_eq!(values.await.expect("no panic"), ["a"]);
    drop(broker);
}

#[test]
fn what_was_acknowledged_outlives_the_broker() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = broker_in(folder.path());
    let mut client = Client::new(first.address());
    let id = client.create_with("t", 2, &[("retention.ms", "3600000000000")]);
    client.produce("t", 1, batch(&["a", "b"]));
    first.shutdown();

    let second = broker_in(folder.path());
    let mut client = Client::new(second.address());
    assert_eq!(client.values("t", 1), ["a", "b"]);
    assert_eq!(client.produce("t", 1, batch(&["c"])).base_offset, 2);
    let request = kafka_protocol::messages::MetadataRequest::default().with_topics(None);
    let metadata = client.call(request, 12);
    assert_eq!(metadata.topics.len(), 1);
    assert_eq!(metadata.topics[0].topic_id, id);
    assert_eq!(metadata.topics[0].partitions.len(), 2);
}

#[test]
fn start_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let broker = broker_in(folder.path());
    let start = |options: BrokerOptions| Broker::start(options).expect_err("must not start");

    let error = start(BrokerOptions { data: Some(folder.path().to_owned()), ..options() });
    assert!(matches!(error, BrokerError::Locked { .. }), "{error}");
    let error = start(BrokerOptions { listen: broker.address(), ..options() });
    assert!(matches!(error, BrokerError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&broker.address().to_string()), "{error}");
    let file = folder.path().join("broker.json");
    let error = start(BrokerOptions { data: Some(file.clone()), ..options() });
    assert!(matches!(&error, BrokerError::Data { path, .. } if *path == file), "{error}");

    drop(broker);
    std::fs::write(&file, r#"{"format":99,"cluster_id":"x"}"#).expect("a file");
    let error = start(BrokerOptions { data: Some(folder.path().to_owned()), ..options() });
    assert!(error.to_string().contains("format 99"), "{error}");
}
