//! What holds for a connection whatever is asked on it.

use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, ResponseHeader};
use kafka_protocol::protocol::Decodable;

use crate::client::{Client, batch, broker, fetch_request, frame, text};

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default().with_client_software_name(text("test")).with_client_software_version(text("1.0"))
}

/// Answers leave in the order of the requests, also if a later one could be answered sooner.
#[test]
fn answers_leave_in_order() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    let fetch = client.send(&fetch_request("t", 0, 0).with_max_wait_ms(300), 12);
    let versions = client.send(&api_versions(), 3);
    assert!(client.receive::<FetchRequest>(fetch, 12).responses[0].partitions[0].error_code == 0);
    assert_eq!(client.receive::<ApiVersionsRequest>(versions, 3).error_code, 0);
}

/// A fetch that waits on one connection does not hold up another one.
#[test]
fn connections_do_not_wait_for_each_other() {
    let broker = broker();
    let mut waiting: Vec<Client> = (0..20).map(|_| Client::new(broker.address())).collect();
    waiting[0].create("t", 1);
    let ids: Vec<i32> =
        waiting.iter_mut().map(|c| c.send(&fetch_request("t", 0, 0).with_max_wait_ms(15_000), 12)).collect();
    let mut other = Client::new(broker.address());
    other.produce("t", 0, batch(&["a"]));
    // The record wakes all of them, long before their time is over.
    for (client, id) in waiting.iter_mut().zip(ids) {
        let response = client.receive::<FetchRequest>(id, 12);
        assert_eq!(crate::client::values(&response.responses[0].partitions[0]), ["a"]);
    }
}

/// A client that is newer than the broker is answered in version 0, with what is served (KIP-35).
#[test]
fn a_newer_client_learns_what_is_served() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    // Header and body of a version this test's codec does not know: only their start is looked at.
    let mut bytes = frame(&api_versions(), 3, 77).to_vec();
    bytes[6..8].copy_from_slice(&99_i16.to_be_bytes());
    client.write(&bytes).expect("the broker reads");
    let mut body = client.read_frame().expect("an answer");
    assert_eq!(ResponseHeader::decode(&mut body, 0).expect("a header").correlation_id, 77);
    let response = ApiVersionsResponse::decode(&mut body, 0).expect("version 0");
    assert_eq!(response.error_code, 35);
    let own = response.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions as i16).expect("itself");
    assert_eq!(own.min_version, 0);
    // And the connection goes on.
    assert_eq!(client.call(api_versions(), own.max_version).error_code, 0);
}

#[test]
fn what_is_no_request_closes_only_its_connection() {
    let broker = broker();
    let valid = frame(&api_versions(), 3, 1);
    let mut unknown_api = valid.to_vec();
    unknown_api[4..6].copy_from_slice(&9_999_i16.to_be_bytes());
    let mut old_fetch = frame(&fetch_request("t", 0, 0), 4, 1).to_vec();
    old_fetch[6..8].copy_from_slice(&3_i16.to_be_bytes());
    let huge = [0x7f, 0xff, 0xff, 0xff, 0, 18, 0, 3, 0, 0, 0, 1].to_vec();
    let negative = [0xff; 12].to_vec();
    let empty = [0; 4].to_vec();
    for bytes in [unknown_api, old_fetch, huge, negative, empty] {
        let mut client = Client::new(broker.address());
        client.write(&bytes).expect("the broker reads");
        assert!(client.is_closed(), "{bytes:?}");
    }
    assert_eq!(Client::new(broker.address()).call(api_versions(), 3).error_code, 0);
}
