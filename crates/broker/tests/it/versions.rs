//! Every request that is served, in every version that is promised.

use bytes::BytesMut;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Request};
use tidegate_broker::{Broker, BrokerOptions};

use crate::client::{Client, batch, broker, fetch_request, name, options, produce_request, text};

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default().with_client_software_name(text("test")).with_client_software_version(text("1.0"))
}

/// The range a broker promises for a request.
fn promised(client: &mut Client, key: ApiKey) -> std::ops::RangeInclusive<i16> {
    let response = client.call(api_versions(), 4);
    let api = response.api_keys.iter().find(|api| api.api_key == key as i16).expect("it is served");
    // Produce 0 to 2 are only named, for the sake of librdkafka.
    let low = if key == ApiKey::Produce { 3 } else { api.min_version };
    low..=api.max_version
}

/// Sends a request in all versions that are promised; it must be answered in each.
fn in_all_versions<R: Request + Clone>(client: &mut Client, request: impl Fn(i16) -> R) -> Vec<R::Response> {
    let key = ApiKey::try_from(R::KEY).expect("a known key");
    promised(client, key).map(|version| client.call(request(version), version)).collect()
}

#[test]
fn the_data_path_speaks_all_its_versions() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let id = client.create("t", 1);
    let produced = in_all_versions(&mut client, |version| {
        let mut request = produce_request(if version >= 13 { "" } else { "t" }, 0, batch(&["a"]));
        if version >= 13 {
            request.topic_data[0].topic_id = id;
        }
        request
    });
    assert!(produced.iter().all(|r| r.responses[0].partition_responses[0].error_code == 0), "{produced:?}");
    let fetched = in_all_versions(&mut client, |version| {
        let mut request = fetch_request(if version >= 13 { "" } else { "t" }, 0, 0).with_isolation_level(1);
        if version >= 13 {
            request.topics[0].topic_id = id;
        }
        request.with_session_epoch(-1)
    });
    for response in fetched {
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        assert_eq!(crate::client::values(partition).len(), produced.len());
    }
    let listed = in_all_versions(&mut client, |_| {
        let partition = list_offsets_request::ListOffsetsPartition::default().with_timestamp(-1);
        let topic =
            list_offsets_request::ListOffsetsTopic::default().with_name(name("t")).with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_topics(vec![topic])
    });
    assert!(listed.iter().all(|r| r.topics[0].partitions[0].offset == produced.len() as i64), "{listed:?}");
}

#[test]
fn administration_speaks_all_its_versions() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    for response in in_all_versions(&mut client, |version| {
        let topic = create_topics_request::CreatableTopic::default()
            .with_name(name(&format!("t{version}")))
            .with_num_partitions(1)
            .with_replication_factor(1);
        CreateTopicsRequest::default().with_topics(vec![topic])
    }) {
        assert_eq!(response.topics[0].error_code, 0);
    }
    for response in in_all_versions(&mut client, |version| {
        // Version 0 has no null, and nothing stands for everything.
        MetadataRequest::default().with_topics((version == 0).then(Vec::new)).with_allow_auto_topic_creation(true)
    }) {
        assert_eq!(response.topics.len(), 6);
    }
    for response in in_all_versions(&mut client, |_| {
        let resource = describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t7"))
            .with_configuration_keys(None);
        DescribeConfigsRequest::default().with_resources(vec![resource]).with_include_synonyms(true)
    }) {
        assert_eq!(response.results[0].error_code, 0);
    }
    for response in in_all_versions(&mut client, |_| DescribeLogDirsRequest::default().with_topics(None)) {
        assert_eq!(response.results[0].topics.len(), 6);
    }
    for response in in_all_versions(&mut client, |version| {
        let topic = delete_topics_request::DeleteTopicState::default().with_name(Some(name("t2")));
        let missing = vec![name("missing")];
        match version {
            6.. => DeleteTopicsRequest::default().with_topics(vec![topic]),
            _ => DeleteTopicsRequest::default().with_topic_names(missing),
        }
    }) {
        assert!([0, 3].contains(&response.responses[0].error_code));
    }
}

/// A request with nothing in it is answered too, in every version: with an error or with nothing, but not
/// by closing the connection.
#[test]
fn an_empty_request_of_every_kind_and_version_is_answered() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let served = client.call(api_versions(), 4).api_keys;
    assert_eq!(served.len(), 35);
    for api in served {
        let key = ApiKey::try_from(api.api_key).expect("a known key");
        let low = if key == ApiKey::Produce { 3 } else { api.min_version };
        for version in low..=api.max_version {
            let mut frame = BytesMut::new();
            let header_version = key.request_header_version(version);
            RequestHeader::default()
                .with_request_api_key(api.api_key)
                .with_request_api_version(version)
                .with_correlation_id(5)
                .encode(&mut frame, header_version)
                .expect("a header");
            let header = frame.len();
            empty(key).encode(&mut frame, version).unwrap_or_else(|e| panic!("{key:?} {version}: {e}"));
            assert!(frame.len() > header || matches!(key, ApiKey::ApiVersions | ApiKey::ListGroups));
            let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
            bytes.extend(&frame);
            client.write(&bytes).expect("the broker reads");
            if key == ApiKey::Produce {
                // Its default wants no acknowledgement.
                continue;
            }
            let mut answer = client.read_frame().unwrap_or_else(|e| panic!("{key:?} {version}: {e}"));
            let header_version = key.response_header_version(version);
            let header = <ResponseHeader as kafka_protocol::protocol::Decodable>::decode(&mut answer, header_version);
            assert_eq!(header.expect("a header").correlation_id, 5, "{key:?} {version}");
            ResponseKind::decode(key, &mut answer, version).unwrap_or_else(|e| panic!("{key:?} {version}: {e}"));
            assert!(answer.is_empty(), "{key:?} {version}: {} bytes too many", answer.len());
        }
    }
}

/// The default request of a kind.
fn empty(key: ApiKey) -> RequestKind {
    macro_rules! kinds {
        ($($kind:ident $request:ident),* $(,)?) => {
            match key {
                $(ApiKey::$kind => RequestKind::$kind($request::default()),)*
                other => panic!("{other:?} is served and not tested"),
            }
        };
    }
    kinds! {
        Produce ProduceRequest, Fetch FetchRequest, ListOffsets ListOffsetsRequest, Metadata MetadataRequest,
        OffsetCommit OffsetCommitRequest, OffsetFetch OffsetFetchRequest, FindCoordinator FindCoordinatorRequest,
        JoinGroup JoinGroupRequest, Heartbeat HeartbeatRequest, LeaveGroup LeaveGroupRequest,
        SyncGroup SyncGroupRequest, DescribeGroups DescribeGroupsRequest, ListGroups ListGroupsRequest,
        ApiVersions ApiVersionsRequest, CreateTopics CreateTopicsRequest, DeleteTopics DeleteTopicsRequest,
        DeleteRecords DeleteRecordsRequest, InitProducerId InitProducerIdRequest,
        OffsetForLeaderEpoch OffsetForLeaderEpochRequest, AddPartitionsToTxn AddPartitionsToTxnRequest,
        AddOffsetsToTxn AddOffsetsToTxnRequest, EndTxn EndTxnRequest, TxnOffsetCommit TxnOffsetCommitRequest,
        DescribeConfigs DescribeConfigsRequest, AlterConfigs AlterConfigsRequest,
        DescribeLogDirs DescribeLogDirsRequest, CreatePartitions CreatePartitionsRequest,
        DeleteGroups DeleteGroupsRequest, IncrementalAlterConfigs IncrementalAlterConfigsRequest,
        OffsetDelete OffsetDeleteRequest, DescribeCluster DescribeClusterRequest,
        DescribeProducers DescribeProducersRequest, DescribeTransactions DescribeTransactionsRequest,
        ListTransactions ListTransactionsRequest, DescribeTopicPartitions DescribeTopicPartitionsRequest,
    }
}

/// Clients choose how to end transactions by this (KIP-890).
#[test]
fn the_transaction_version_is_offered_as_it_was_configured() {
    for level in [1, 2] {
        let options = BrokerOptions { transaction_version: level, ..options() };
        let broker = Broker::start(options).expect("a broker starts");
        let mut client = Client::new(broker.address());
        let response = client.call(api_versions(), 4);
        assert_eq!(response.finalized_features_epoch, 0);
        let finalized: Vec<(&str, i16)> =
            response.finalized_features.iter().map(|f| (f.name.as_str(), f.max_version_level)).collect();
        assert_eq!(finalized, [("transaction.version", level)]);
        let supported: Vec<(&str, i16, i16)> =
            response.supported_features.iter().map(|f| (f.name.as_str(), f.min_version, f.max_version)).collect();
        assert_eq!(supported, [("transaction.version", 0, level)]);
        // A lowest level of 0 would be an error to clients of version 3.
        assert!(client.call(api_versions(), 3).supported_features.is_empty());
        assert!(client.call(api_versions(), 2).finalized_features.is_empty());
    }
    let broker = broker();
    let nameless = Client::new(broker.address()).call(ApiVersionsRequest::default(), 3);
    assert_eq!(nameless.error_code, 42, "INVALID_REQUEST");
}
