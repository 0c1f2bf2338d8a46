//! Bytes of strangers: whatever comes, the broker answers or closes that connection, and goes on.

use std::sync::LazyLock;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use proptest::prelude::*;
use tidegate_broker::Broker;

use crate::client::{Client, batch, broker, fetch_request, frame, name, produce_request, text};

/// Connections are cheap and cases many: all share one broker, which must outlive them.
static BROKER: LazyLock<Broker> = LazyLock::new(|| {
    let broker = broker();
    Client::new(broker.address()).create("t", 2);
    broker
});

/// Valid frames of requests that have arrays, texts and bytes of all sorts.
static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut frames = Vec::new();
    fn add<R: Request>(frames: &mut Vec<Vec<u8>>, request: R, versions: &[i16]) {
        frames.extend(versions.iter().map(|version| frame(&request, *version, 1).to_vec()));
    }
    add(&mut frames, produce_request("t", 0, batch(&["value", "another"])), &[3, 9, 12]);
    add(&mut frames, fetch_request("t", 0, 0), &[4, 11, 12]);
    add(&mut frames, MetadataRequest::default().with_topics(Some(vec![Default::default()])), &[12]);
    add(&mut frames, MetadataRequest::default().with_topics(None), &[1, 9]);
    let topic = create_topics_request::CreatableTopic::default()
        .with_name(name("u"))
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(vec![create_topics_request::CreatableTopicConfig::default().with_name(text("retention.ms"))]);
    // Only looked at, so that mutations cannot make thousands of partitions.
    add(&mut frames, CreateTopicsRequest::default().with_topics(vec![topic]).with_validate_only(true), &[4, 7]);
    let commit = offset_commit_request::OffsetCommitRequestPartition::default().with_committed_offset(3);
    let topic =
        offset_commit_request::OffsetCommitRequestTopic::default().with_name(name("t")).with_partitions(vec![commit]);
    let request = OffsetCommitRequest::default().with_group_id(GroupId(text("g"))).with_topics(vec![topic]);
    add(&mut frames, request, &[2, 8, 9]);
    add(&mut frames, OffsetFetchRequest::default().with_group_id(GroupId(text("g"))).with_topics(None), &[2, 6]);
    let member = join_group_request::JoinGroupRequestProtocol::default().with_name(text("range"));
    let request = JoinGroupRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_protocol_type(text("consumer"))
        .with_session_timeout_ms(6000)
        .with_rebalance_timeout_ms(1)
        .with_protocols(vec![member]);
    add(&mut frames, request, &[4, 9]);
    add(&mut frames, FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]), &[4, 6]);
    add(&mut frames, InitProducerIdRequest::default().with_transaction_timeout_ms(1000), &[0, 4]);
    add(&mut frames, ApiVersionsRequest::default(), &[0, 3, 4]);
    frames
});

/// Sends bytes on a connection of their own, and then looks whether the broker still answers others.
fn survives(bytes: &[u8]) {
    let mut stranger = Client::new(BROKER.address());
    // The broker may close before it has read everything.
    let _ = stranger.write(bytes);
    drop(stranger);
    let mut client = Client::new(BROKER.address());
    let response = client.call(MetadataRequest::default().with_topics(None), 12);
    assert!(response.topics.iter().any(|topic| topic.name == Some(name("t"))), "{response:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        survives(&bytes);
    }

    /// A frame whose start is right, so that the rest reaches a decoder.
    #[test]
    fn random_bodies(
        key in 0_i16..76,
        version in 0_i16..14,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
        bytes.extend(key.to_be_bytes());
        bytes.extend(version.to_be_bytes());
        bytes.extend(7_i32.to_be_bytes());
        bytes.extend(body);
        survives(&bytes);
    }

    /// Frames that are almost right: some bytes differ.
    #[test]
    fn damaged_frames(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = which.get(&FRAMES).clone();
        for (place, byte) in damage {
            // The length stays: a longer one would only wait for more.
            let place = 4 + place.index(bytes.len() - 4);
            bytes[place] = byte;
        }
        survives(&bytes);
    }

    /// Counts and lengths, which are where four bytes of one value stand, become huge.
    #[test]
    fn huge_counts(which in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), huge in 0x7000_0000_u32..) {
        let mut bytes = which.get(&FRAMES).clone();
        let place = 8 + place.index(bytes.len() - 11);
        bytes[place..place + 4].copy_from_slice(&huge.to_be_bytes());
        survives(&bytes);
    }

    /// Frames that end too early by their own length.
    #[test]
    fn cut_frames(which in any::<prop::sample::Index>(), length in any::<prop::sample::Index>()) {
        let whole = which.get(&FRAMES);
        let kept = length.index(whole.len() - 4);
        let mut bytes = (kept as u32).to_be_bytes().to_vec();
        bytes.extend(&whole[4..4 + kept]);
        survives(&bytes);
    }
}
