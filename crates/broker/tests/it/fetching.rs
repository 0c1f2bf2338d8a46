//! Fetch and ListOffsets.

use std::time::{Duration, Instant};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest};

use crate::client::{Client, batch, broker, fetch_request, name, values};

/// Far longer than any step of these tests takes.
const LONG_MS: i32 = 15_000;

fn two_partitions(max_bytes: i32, partition_max_bytes: i32) -> FetchRequest {
    let partitions = (0..2)
        .map(|p| FetchPartition::default().with_partition(p).with_partition_max_bytes(partition_max_bytes))
        .collect();
    let topic = FetchTopic::default().with_topic(name("t")).with_partitions(partitions);
    fetch_request("t", 0, 0).with_max_bytes(max_bytes).with_topics(vec![topic])
}

#[test]
fn limits_are_kept_but_one_batch_always_comes() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 2);
    let value = "x".repeat(1000);
    for partition in [0, 1] {
        for _ in 0..5 {
            client.produce("t", partition, batch(&[&value]));
        }
    }
    let mut count = |max_bytes, partition_max_bytes| -> Vec<usize> {
        let response = client.call(two_partitions(max_bytes, partition_max_bytes), 12);
        response.responses[0].partitions.iter().map(|p| values(p).len()).collect()
    };
    assert_eq!(count(1 << 20, 1 << 20), [5, 5]);
    assert_eq!(count(1 << 20, 2500), [2, 2], "partition_max_bytes");
    assert_eq!(count(4500, 1 << 20), [4, 0], "max_bytes");
    assert_eq!(count(1, 1), [1, 0], "one batch, however small the limits");
}

#[test]
fn a_fetch_waits_for_the_bytes_it_wants() {
    let broker = broker();
    let mut reader = Client::new(broker.address());
    let mut writer = Client::new(broker.address());
    writer.create("t", 2);
    let value = "x".repeat(1000);
    let request = two_partitions(1 << 20, 1 << 20).with_min_bytes(2500).with_max_wait_ms(LONG_MS);
    let id = reader.send(&request, 12);
    // Three batches in two partitions, each too small alone.
    writer.produce("t", 1, batch(&[&value]));
    writer.produce("t", 0, batch(&[&value]));
    writer.produce("t", 1, batch(&[&value]));
    let response = reader.receive::<FetchRequest>(id, 12);
    let found: Vec<usize> = response.responses[0].partitions.iter().map(|p| values(p).len()).collect();
    assert_eq!(found, [1, 2]);
}

#[test]
fn a_fetch_gives_up_when_its_time_is_over() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    client.produce("t", 0, batch(&["little"]));
    let start = now();
    let response = client.call(fetch_request("t", 0, 0).with_min_bytes(1 << 20).with_max_wait_ms(200), 12);
    assert!(now() - start >= Duration::from_millis(200));
    assert_eq!(values(&response.responses[0].partitions[0]), ["little"]);
}

#[allow(clippy::disallowed_methods, reason = "measures a wait of the broker")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn an_error_is_answered_at_once() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    let mut code = |request: FetchRequest| {
        let response = client.call(request.with_max_wait_ms(LONG_MS), 12);
        response.responses[0].partitions[0].error_code
    };
    assert_eq!(code(fetch_request("missing", 0, 0)), 3);
    assert_eq!(code(fetch_request("t", 1, 0)), 3);
    assert_eq!(code(fetch_request("t", -1, 0)), 3);
    assert_eq!(code(fetch_request("t", 0, 1)), 1, "OFFSET_OUT_OF_RANGE");
    let mut newer = fetch_request("t", 0, 0);
    newer.topics[0].partitions[0].current_leader_epoch = 5;
    assert_eq!(code(newer), 75, "UNKNOWN_LEADER_EPOCH");
}

#[test]
fn a_waiting_fetch_ends_with_its_topic() {
    let broker = broker();
    let mut reader = Client::new(broker.address());
    let mut admin = Client::new(broker.address());
    admin.create("t", 1);
    let id = reader.send(&fetch_request("t", 0, 0).with_max_wait_ms(500), 12);
    let delete = kafka_protocol::messages::DeleteTopicsRequest::default().with_topic_names(vec![name("t")]);
    assert_eq!(admin.call(delete, 4).responses[0].error_code, 0);
    let response = reader.receive::<FetchRequest>(id, 12);
    assert_eq!(response.responses[0].partitions[0].error_code, 3);
}

#[test]
fn sessions_are_not_kept() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    let response = client.call(fetch_request("t", 0, 0).with_session_epoch(0), 12);
    assert_eq!((response.error_code, response.session_id), (0, 0));
    let response = client.call(fetch_request("t", 0, 0).with_session_id(7).with_session_epoch(3), 12);
    assert_eq!(response.error_code, 70, "FETCH_SESSION_ID_NOT_FOUND");
}

#[test]
fn topics_are_named_by_id_from_version_13_on() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let id = client.create("t", 1);
    client.produce("t", 0, batch(&["a"]));
    let mut request = fetch_request("", 0, 0);
    request.topics[0].topic_id = id;
    let response = client.call(request.clone(), 17);
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(values(&response.responses[0].partitions[0]), ["a"]);
    request.topics[0].topic_id = uuid::Uuid::from_u128(1);
    assert_eq!(client.call(request, 13).responses[0].partitions[0].error_code, 100, "UNKNOWN_TOPIC_ID");
}

#[test]
fn offsets_stand_at_the_ends_and_at_times() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    // Times ascend by a millisecond within a batch, from 1,700,000,000,000 on.
    client.produce("t", 0, batch(&["a", "b", "c"]));
    let mut ask = |timestamp: i64| {
        let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(name("t")).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
        let response = client.call(request, 9).topics[0].partitions[0].clone();
        (response.error_code, response.offset, response.timestamp)
    };
    assert_eq!(ask(-1), (0, 3, -1));
    assert_eq!(ask(-2), (0, 0, -1));
    assert_eq!(ask(-3), (0, 2, 1_700_000_000_002));
    assert_eq!(ask(-5), (0, -1, -1));
    assert_eq!(ask(0), (0, 0, 1_700_000_000_000));
    assert_eq!(ask(1_700_000_000_001), (0, 1, 1_700_000_000_001));
    assert_eq!(ask(1_700_000_000_003), (0, -1, -1));
    assert_eq!(ask(-9).0, 35, "UNSUPPORTED_VERSION");
}
