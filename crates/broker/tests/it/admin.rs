//! Topics, their settings and their sizes.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_configs_request as replaced;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::incremental_alter_configs_request as changed;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;
use tidegate_broker::{Broker, BrokerOptions};

use crate::client::{Client, batch, broker, name, options, text};

fn asked(topic: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic::default().with_name(Some(name(topic)));
    MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true)
}

#[test]
fn a_topic_is_made_when_a_client_asks_for_it_if_that_is_wanted() {
    let with = Broker::start(BrokerOptions { default_partitions: 3, ..options() }).expect("starts");
    let mut client = Client::new(with.address());
    let topic = client.call(asked("t"), 12).topics[0].clone();
    assert_eq!((topic.error_code, topic.partitions.len()), (0, 3));
    assert_eq!(client.call(asked("no/name"), 12).topics[0].error_code, 17, "INVALID_TOPIC_EXCEPTION");
    let quiet = asked("u").with_allow_auto_topic_creation(false);
    assert_eq!(client.call(quiet, 12).topics[0].error_code, 3);

    let without = Broker::start(BrokerOptions { auto_create_topics: false, ..options() }).expect("starts");
    let mut client = Client::new(without.address());
    assert_eq!(client.call(asked("t"), 12).topics[0].error_code, 3);
    assert!(client.call(MetadataRequest::default().with_topics(None), 12).topics.is_empty());
}

#[test]
fn metadata_finds_topics_by_id_and_names_the_node() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let id = client.create("t", 2);
    let by_id = |id| {
        let topic = MetadataRequestTopic::default().with_name(None).with_topic_id(id);
        MetadataRequest::default().with_topics(Some(vec![topic]))
    };
    let response = client.call(by_id(id), 12);
    assert_eq!(response.topics[0].name, Some(name("t")));
    assert_eq!(response.brokers.len(), 1);
    assert_eq!(response.brokers[0].port, i32::from(broker.address().port()));
    assert_eq!(response.brokers[0].node_id, response.controller_id);
    assert_eq!(client.call(by_id(uuid::Uuid::from_u128(1)), 12).topics[0].error_code, 100, "UNKNOWN_TOPIC_ID");
    let cluster = client.call(DescribeClusterRequest::default(), 1);
    assert_eq!(Some(cluster.cluster_id), response.cluster_id);
    assert_eq!(client.call(DescribeClusterRequest::default().with_endpoint_type(2), 1).error_code, 114);
}

#[test]
fn an_advertised_address_is_told() {
    let advertised = Some(("broker.example".to_owned(), 19_092));
    let broker = Broker::start(BrokerOptions { advertised, ..options() }).expect("starts");
    assert_eq!(broker.bootstrap(), "broker.example:19092");
    let response = Client::new(broker.address()).call(MetadataRequest::default().with_topics(None), 12);
    assert_eq!((response.brokers[0].host.as_str(), response.brokers[0].port), ("broker.example", 19_092));
}

#[test]
fn creation_is_refused_with_kafkas_codes() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let topic = |topic: &str| {
        CreatableTopic::default().with_name(name(topic)).with_num_partitions(1).with_replication_factor(1)
    };
    let mut create = |topics: Vec<CreatableTopic>| -> Vec<i16> {
        let response = client.call(CreateTopicsRequest::default().with_topics(topics), 7);
        response.topics.iter().map(|t| t.error_code).collect()
    };
    assert_eq!(create(vec![topic("t")]), [0]);
    assert_eq!(create(vec![topic("t")]), [36], "TOPIC_ALREADY_EXISTS");
    assert_eq!(create(vec![topic("u"), topic("u")]), [42], "INVALID_REQUEST, once");
    assert_eq!(create(vec![topic("a/b")]), [17], "INVALID_TOPIC_EXCEPTION");
    assert_eq!(create(vec![topic("v").with_num_partitions(0)]), [37], "INVALID_PARTITIONS");
    assert_eq!(create(vec![topic("v").with_replication_factor(3)]), [38], "INVALID_REPLICATION_FACTOR");
    let assignment = |broker| CreatableReplicaAssignment::default().with_broker_ids(vec![BrokerId(broker)]);
    let assigned = |broker| {
        topic("v").with_num_partitions(-1).with_replication_factor(-1).with_assignments(vec![assignment(broker)])
    };
    assert_eq!(create(vec![assigned(2)]), [39], "INVALID_REPLICA_ASSIGNMENT");
    assert_eq!(create(vec![assigned(1)]), [0]);
    let defaults = topic("w").with_num_partitions(-1).with_replication_factor(-1);
    let response = client.call(CreateTopicsRequest::default().with_topics(vec![defaults]).with_validate_only(true), 7);
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 1));
    assert_eq!(client.call(asked("w").with_allow_auto_topic_creation(false), 12).topics[0].error_code, 3);
}

#[test]
fn a_deleted_topic_is_gone_and_its_name_free() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    let first = client.create("t", 1);
    client.produce("t", 0, batch(&["old"]));
    let by_name = DeleteTopicsRequest::default().with_topic_names(vec![name("t")]);
    assert_eq!(client.call(by_name.clone(), 5).responses[0].error_code, 0);
    assert_eq!(client.call(by_name, 5).responses[0].error_code, 3);
    let second = client.create("t", 1);
    assert_ne!(first, second);
    assert!(client.values("t", 0).is_empty());
    let by_id = |id| {
        let state = DeleteTopicState::default().with_name(None).with_topic_id(id);
        DeleteTopicsRequest::default().with_topics(vec![state])
    };
    assert_eq!(client.call(by_id(first), 6).responses[0].error_code, 100, "UNKNOWN_TOPIC_ID");
    let response = client.call(by_id(second), 6);
    assert_eq!((response.responses[0].error_code, response.responses[0].name.clone()), (0, Some(name("t"))));
}

#[test]
fn partitions_can_be_added_and_not_taken_away() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 2);
    let mut grow = |count, validate_only| {
        let topic = CreatePartitionsTopic::default().with_name(name("t")).with_count(count).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_validate_only(validate_only);
        client.call(request, 3).results[0].error_code
    };
    assert_eq!(grow(4, true), 0);
    assert_eq!(grow(2, false), 37, "INVALID_PARTITIONS");
    assert_eq!(grow(4, false), 0);
    assert_eq!(client.call(asked("t"), 12).topics[0].partitions.len(), 4);
    client.produce("t", 3, batch(&["a"]));
}

/// The settings of a topic that are its own.
fn own_settings(client: &mut Client, topic: &str) -> BTreeMap<String, String> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(topic))
        .with_configuration_keys(None);
    let response = client.call(DescribeConfigsRequest::default().with_resources(vec![resource]), 4);
    assert_eq!(response.results[0].error_code, 0);
    assert!(response.results[0].configs.len() > 10, "all settings are described");
    let own = response.results[0].configs.iter().filter(|config| config.config_source == 1);
    own.map(|c| (c.name.to_string(), c.value.clone().unwrap_or_default().to_string())).collect()
}

#[test]
fn settings_are_changed_replaced_and_described() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create_with("t", 1, &[("retention.ms", "1000")]);
    let mut change = |setting: &str, operation: i8, value: Option<&str>| {
        let config = changed::AlterableConfig::default()
            .with_name(text(setting))
            .with_config_operation(operation)
            .with_value(value.map(text));
        let resource = changed::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        client.call(request, 1).responses[0].error_code
    };
    assert_eq!(change("cleanup.policy", 2, Some("compact")), 0);
    assert_eq!(change("segment.bytes", 0, Some("1048576")), 0);
    assert_eq!(change("retention.ms", 1, None), 0);
    assert_eq!(change("segment.bytes", 0, Some("many")), 40, "INVALID_CONFIG");
    assert_eq!(change("no.such", 0, Some("1")), 40);
    assert_eq!(change("segment.bytes", 9, Some("1")), 42, "INVALID_REQUEST");
    let own = own_settings(&mut client, "t");
    assert_eq!(own["segment.bytes"], "1048576");
    assert_eq!(own["cleanup.policy"], "delete,compact");
    assert_eq!(own.len(), 2);

    let config = replaced::AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("5")));
    let resource = replaced::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    assert_eq!(client.call(request, 2).responses[0].error_code, 0);
    assert_eq!(own_settings(&mut client, "t"), BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]));
}

#[test]
fn the_broker_describes_itself_and_cannot_be_changed() {
    let broker = Broker::start(BrokerOptions { default_partitions: 7, ..options() }).expect("starts");
    let mut client = Client::new(broker.address());
    let resource = DescribeConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text("1"))
        .with_configuration_keys(Some(vec![text("num.partitions")]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource.clone()]).with_include_synonyms(true);
    let response = client.call(request, 4);
    let configs = &response.results[0].configs;
    assert_eq!(configs.len(), 1);
    assert_eq!((configs[0].value.clone(), configs[0].read_only), (Some(text("7")), true));
    assert_eq!(configs[0].synonyms.len(), 1);
    let elsewhere = DescribeConfigsRequest::default().with_resources(vec![resource.with_resource_name(text("2"))]);
    assert_eq!(client.call(elsewhere, 4).results[0].error_code, 42, "INVALID_REQUEST");
    let resource = changed::AlterConfigsResource::default().with_resource_type(4).with_resource_name(text("1"));
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    assert_eq!(client.call(request, 1).responses[0].error_code, 42);
}

#[test]
fn the_start_of_a_log_can_be_dropped() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    client.create_with("compacted", 1, &[("cleanup.policy", "compact")]);
    for value in ["a", "b", "c"] {
        client.produce("t", 0, batch(&[value]));
    }
    let mut drop_before = |topic: &str, offset| {
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topic = DeleteRecordsTopic::default().with_name(name(topic)).with_partitions(vec![partition]);
        let response = client.call(DeleteRecordsRequest::default().with_topics(vec![topic]), 2);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.low_watermark)
    };
    assert_eq!(drop_before("t", 1), (0, 1));
    assert_eq!(drop_before("t", 9), (1, -1), "OFFSET_OUT_OF_RANGE");
    assert_eq!(drop_before("compacted", 0), (44, -1), "POLICY_VIOLATION");
    assert_eq!(drop_before("t", -1), (0, 3));
    assert_eq!(client.fetch("t", 0, 3).log_start_offset, 3);
}

#[test]
fn there_was_only_one_leader() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 1);
    client.produce("t", 0, batch(&["a", "b"]));
    let mut ask = |epoch| {
        let partition = OffsetForLeaderPartition::default().with_current_leader_epoch(-1).with_leader_epoch(epoch);
        let topic = OffsetForLeaderTopic::default().with_topic(name("t")).with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
        let response = client.call(request, 4).topics[0].partitions[0].clone();
        (response.error_code, response.leader_epoch, response.end_offset)
    };
    assert_eq!(ask(0), (0, 0, 2));
    assert_eq!(ask(1), (0, -1, -1));
}

#[test]
fn log_dirs_tell_sizes() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    client.create("t", 2);
    let records = batch(&["a"]);
    client.produce("t", 1, records.clone());
    let response = client.call(DescribeLogDirsRequest::default().with_topics(None), 4);
    assert_eq!(response.results[0].log_dir.as_str(), broker.data().to_str().expect("text"));
    let sizes: Vec<i64> = response.results[0].topics[0].partitions.iter().map(|p| p.partition_size).collect();
    assert_eq!(sizes, [0, records.len() as i64]);
}

#[test]
fn partitions_are_described_page_by_page() {
    let broker = broker();
    let mut client = Client::new(broker.address());
    for (topic, partitions) in [("a", 3), ("b", 1), ("c", 2)] {
        client.create(topic, partitions);
    }
    let mut cursor = None;
    let mut pages = Vec::new();
    loop {
        let request =
            DescribeTopicPartitionsRequest::default().with_response_partition_limit(2).with_cursor(cursor.take());
        let response = client.call(request, 0);
        let page: Vec<(String, Vec<i32>)> = response
            .topics
            .iter()
            .map(|t| {
                let indexes = t.partitions.iter().map(|p| p.partition_index).collect();
                (t.name.clone().expect("a name").to_string(), indexes)
            })
            .collect();
        pages.push(page);
        match response.next_cursor {
            Some(next) => {
                cursor =
                    Some(Cursor::default().with_topic_name(next.topic_name).with_partition_index(next.partition_index));
            }
            None => break,
        }
    }
    let page = |topics: &[(&str, &[i32])]| -> Vec<(String, Vec<i32>)> {
        topics.iter().map(|(name, indexes)| ((*name).to_owned(), indexes.to_vec())).collect()
    };
    assert_eq!(pages, [page(&[("a", &[0, 1])]), page(&[("a", &[2]), ("b", &[0])]), page(&[("c", &[0, 1])])]);

    let topics = ["c", "missing"].map(|t| TopicRequest::default().with_name(name(t))).to_vec();
    let request = DescribeTopicPartitionsRequest::default().with_topics(topics).with_response_partition_limit(2000);
    let codes: Vec<i16> = client.call(request, 0).topics.iter().map(|t| t.error_code).collect();
    assert_eq!(codes, [0, 3]);
}
