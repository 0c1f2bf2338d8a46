//! Produce.

use kafka_protocol::messages::init_producer_id_response::InitProducerIdResponse;
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId};
use kafka_protocol::records::Record;

use crate::client::{Client, batch, batch_with, broker, produce_request};

fn init(client: &mut Client) -> InitProducerIdResponse {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let response = client.call(request, 4);
    assert_eq!(response.error_code, 0);
    response
}

/// A batch of one producer, whose records are numbered from `sequence` on.
fn sequenced(values: &[&str], producer: &InitProducerIdResponse, sequence: i32) -> bytes::Bytes {
    batch_with(values, |record| Record {
        producer_id: producer.producer_id.0,
        producer_epoch: producer.producer_epoch,
        sequence: sequence + record.offset as i32,
        ..record
    })
}

#[test]
fn offsets_ascend_and_records_come_back() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 2);
    assert_eq!(client.produce("t", 0, batch(&["a", "b"])).base_offset, 0);
    assert_eq!(client.produce("t", 0, batch(&["c"])).base_offset, 2);
    assert_eq!(client.produce("t", 1, batch(&["d"])).base_offset, 0);
    assert_eq!(client.values("t", 0), ["a", "b", "c"]);
    assert_eq!(client.values("t", 1), ["d"]);
    let data = client.fetch("t", 0, 0);
    assert_eq!((data.high_watermark, data.last_stable_offset, data.log_start_offset), (3, 3, 0));
}

#[test]
fn a_repeated_batch_is_stored_once() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    let producer = init(&mut client);
    assert_eq!(client.produce("t", 0, sequenced(&["a", "b"], &producer, 0)).base_offset, 0);
    assert_eq!(client.produce("t", 0, sequenced(&["c"], &producer, 2)).base_offset, 2);
    assert_eq!(client.produce("t", 0, sequenced(&["a", "b"], &producer, 0)).base_offset, 0);
    let response = client.call(produce_request("t", 0, sequenced(&["e"], &producer, 7)), 9);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 45, "OUT_OF_ORDER_SEQUENCE_NUMBER");
    assert_eq!(client.values("t", 0), ["a", "b", "c"]);
}

#[test]
fn without_acknowledgement_nothing_is_answered() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    client.send(&produce_request("t", 0, batch(&["a"])).with_acks(0), 9);
    // The next answer is the next request's.
    assert_eq!(client.values("t", 0), ["a"]);
    // A failure can only be told by closing.
    client.send(&produce_request("missing", 0, batch(&["a"])).with_acks(0), 9);
    assert!(client.is_closed());
}

#[test]
fn refusals_name_their_reason() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    client.create_with("compacted", 1, &[("cleanup.policy", "compact")]);
    client.create_with("small", 1, &[("max.message.bytes", "200")]);
    client.create_with("strict", 1, &[("min.insync.replicas", "2")]);
    let mut code =
        |request: ProduceRequest, version| client.call(request, version).responses[0].partition_responses[0].error_code;
    let good = || batch(&["a"]);
    assert_eq!(code(produce_request("missing", 0, good()), 9), 3, "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(code(produce_request("t", 1, good()), 9), 3);
    assert_eq!(code(produce_request("t", 0, good()).with_acks(2), 9), 21, "INVALID_REQUIRED_ACKS");
    assert_eq!(code(produce_request("strict", 0, good()), 9), 19, "NOT_ENOUGH_REPLICAS");
    assert_eq!(code(produce_request("small", 0, batch(&[&"x".repeat(300)])), 9), 10, "MESSAGE_TOO_LARGE");
    assert_eq!(code(produce_request("compacted", 0, good()), 9), 87, "INVALID_RECORD");
    assert_eq!(code(produce_request("t", 0, bytes::Bytes::new()), 9), 87);
    assert_eq!(code(produce_request("", 0, good()), 13), 100, "UNKNOWN_TOPIC_ID");
    let mut damaged = good().to_vec();
    *damaged.last_mut().expect("bytes") ^= 1;
    assert_eq!(code(produce_request("t", 0, damaged.into()), 9), 2, "CORRUPT_MESSAGE");
    let transactional = batch_with(&["a"], |record| Record {
        transactional: true,
        producer_id: 1,
        producer_epoch: 0,
        sequence: record.offset as i32,
        ..record
    });
    assert_eq!(code(produce_request("t", 0, transactional), 9), 48, "INVALID_TXN_STATE");
    assert_eq!(client.fetch("t", 0, 0).high_watermark, 0, "something was stored");
}

#[test]
fn topics_are_named_by_id_from_version_13_on() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let id = client.create("t", 1);
    let mut request = produce_request("", 0, batch(&["a"]));
    request.topic_data[0].topic_id = id;
    let response = client.call(request, 13);
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(client.values("t", 0), ["a"]);
}
