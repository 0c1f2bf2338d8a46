//! Metadata, DescribeCluster and DescribeTopicPartitions: who is there, and which topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterRequest, DescribeClusterResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{LEADER_EPOCH, message, refuse, replicas};
use crate::state::{Client, State};
use crate::topics::Topic;

/// Whatever can be done with a topic, as the bits Kafka's `AclOperation` numbers: READ, WRITE, CREATE,
/// DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS. Without an authorizer everybody may.
const TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// The same for the cluster: CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS,
/// IDEMPOTENT_WRITE.
const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// Said of operations nobody asked for.
const NOT_ASKED: i32 = i32::MIN;
/// Endpoints that are brokers; the others would be controllers.
const BROKER_ENDPOINTS: i8 = 1;
const CONTROLLER_ENDPOINTS: i8 = 2;
/// Most partitions in one answer to DescribeTopicPartitions (`max.request.partition.size.limit`).
const DESCRIBED_PARTITIONS_MAX: usize = 2000;

pub(crate) async fn handle(state: &State, request: MetadataRequest, version: i16, client: &Client) -> MetadataResponse {
    let may_create = state.options.auto_create_topics && (version < 4 || request.allow_auto_topic_creation);
    let operations = if request.include_topic_authorized_operations { TOPIC_OPERATIONS } else { NOT_ASKED };
    let topics = match request.topics {
        // In version 0 nothing stands for everything; later null does.
        None => all_topics(state),
        Some(asked) if asked.is_empty() && version == 0 => all_topics(state),
        Some(asked) => asked.into_iter().map(|topic| one_topic(state, topic, may_create)).collect(),
    };
    let (host, port) = state.node.endpoint(client);
    let broker =
        MetadataResponseBroker::default().with_node_id(BrokerId(state.node.id)).with_host(host).with_port(port);
    let response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(cluster(state)))
        .with_controller_id(BrokerId(state.node.id))
        .with_topics(topics.into_iter().map(|t| t.with_topic_authorized_operations(operations)).collect());
    if request.include_cluster_authorized_operations {
        return response.with_cluster_authorized_operations(CLUSTER_OPERATIONS);
    }
    response
}

fn all_topics(state: &State) -> Vec<MetadataResponseTopic> {
    state
        .topics
        .names()
        .iter()
        .filter_map(|name| state.topics.get(name))
        .map(|topic| described(state, &topic))
        .collect()
}

/// One topic that was asked for, made if there is none and that is wanted.
fn one_topic(state: &State, asked: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic {
    let Some(name) = asked.name else {
        return match state.topics.by_id(asked.topic_id) {
            Some(topic) => described(state, &topic),
            None => MetadataResponseTopic::default()
                .with_name(None)
                .with_topic_id(asked.topic_id)
                .with_error_code(ResponseError::UnknownTopicId.code()),
        };
    };
    match find_or_create(state, &name, may_create) {
        Ok(topic) => described(state, &topic),
        Err(error) => MetadataResponseTopic::default().with_name(Some(name)).with_error_code(error.code()),
    }
}

fn find_or_create(state: &State, name: &str, may_create: bool) -> Result<Arc<Topic>, ResponseError> {
    if let Some(topic) = state.topics.get(name) {
        return Ok(topic);
    }
    if !may_create {
        return Err(ResponseError::UnknownTopicOrPartition);
    }
    let partitions = state.options.default_partitions;
    let created = state.topics.create(name, partitions, &BTreeMap::new(), state.now_ms());
    created.or_else(|refusal| match refusal.error {
        // Somebody else was faster.
        ResponseError::TopicAlreadyExists => state.topics.get(name).ok_or(ResponseError::UnknownTopicOrPartition),
        error => Err(error),
    })
}

fn described(state: &State, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..topic.partitions.len() as i32)
        .map(|index| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(BrokerId(state.node.id))
                .with_leader_epoch(LEADER_EPOCH)
                .with_replica_nodes(replicas(state))
                .with_isr_nodes(replicas(state))
        })
        .collect();
    MetadataResponseTopic::default()
        .with_name(Some(topic_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_partitions(partitions)
}

pub(crate) async fn describe_cluster(
    state: &State,
    request: DescribeClusterRequest,
    _version: i16,
    client: &Client,
) -> DescribeClusterResponse {
    let response = DescribeClusterResponse::default().with_cluster_id(cluster(state));
    let refusal = match request.endpoint_type {
        BROKER_ENDPOINTS => None,
        CONTROLLER_ENDPOINTS => Some(refuse(
            ResponseError::MismatchedEndpointType,
            "the request asks for controllers, but was sent to a broker",
        )),
        other => Some(refuse(
            ResponseError::UnsupportedEndpointType,
            format!("there is no endpoint type {other}; brokers are 1"),
        )),
    };
    if let Some(refusal) = refusal {
        return response.with_error_code(refusal.error.code()).with_error_message(message(&refusal));
    }
    let (host, port) = state.node.endpoint(client);
    let broker =
        DescribeClusterBroker::default().with_broker_id(BrokerId(state.node.id)).with_host(host).with_port(port);
    let response = response.with_controller_id(BrokerId(state.node.id)).with_brokers(vec![broker]);
    if request.include_cluster_authorized_operations {
        return response.with_cluster_authorized_operations(CLUSTER_OPERATIONS);
    }
    response
}

pub(crate) async fn describe_topic_partitions(
    state: &State,
    request: DescribeTopicPartitionsRequest,
    _version: i16,
    _client: &Client,
) -> DescribeTopicPartitionsResponse {
    let asked: BTreeSet<String> = request.topics.iter().map(|topic| topic.name.to_string()).collect();
    let (from_topic, from_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.to_string(), cursor.partition_index),
        None => (String::new(), 0),
    };
    let Ok(limit) = usize::try_from(request.response_partition_limit) else {
        return refused_description(asked);
    };
    let (Ok(from_partition), 1..) = (usize::try_from(from_partition), limit) else {
        return refused_description(asked);
    };
    let everything = asked.is_empty();
    let names = if everything { state.topics.names().into_iter().collect() } else { asked };
    let mut left = limit.min(DESCRIBED_PARTITIONS_MAX);
    let mut described = Vec::new();
    for name in names.range(from_topic.clone()..) {
        let first = if *name == from_topic { from_partition } else { 0 };
        if left == 0 {
            return DescribeTopicPartitionsResponse::default()
                .with_topics(described)
                .with_next_cursor(Some(cursor(name, first)));
        }
        let Some(topic) = state.topics.get(name) else {
            // One that was deleted between the two looks was never asked for.
            if !everything {
                described.push(unknown_description(name, ResponseError::UnknownTopicOrPartition));
            }
            continue;
        };
        let end = topic.partitions.len().min(first.saturating_add(left));
        described.push(description(state, &topic, first, end));
        left -= end.saturating_sub(first);
        if end < topic.partitions.len() {
            return DescribeTopicPartitionsResponse::default()
                .with_topics(described)
                .with_next_cursor(Some(cursor(name, end)));
        }
    }
    DescribeTopicPartitionsResponse::default().with_topics(described)
}

fn cursor(topic: &str, partition: usize) -> Cursor {
    Cursor::default().with_topic_name(topic_name(topic)).with_partition_index(partition as i32)
}

fn refused_description(asked: BTreeSet<String>) -> DescribeTopicPartitionsResponse {
    let topics = asked.iter().map(|name| unknown_description(name, ResponseError::InvalidRequest)).collect();
    DescribeTopicPartitionsResponse::default().with_topics(topics)
}

fn unknown_description(name: &str, error: ResponseError) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default().with_name(Some(topic_name(name))).with_error_code(error.code())
}

fn description(state: &State, topic: &Topic, first: usize, end: usize) -> DescribeTopicPartitionsResponseTopic {
    let partitions = (first..end)
        .map(|index| {
            DescribeTopicPartitionsResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(BrokerId(state.node.id))
                .with_leader_epoch(LEADER_EPOCH)
                .with_replica_nodes(replicas(state))
                .with_isr_nodes(replicas(state))
                .with_eligible_leader_replicas(Some(Vec::new()))
                .with_last_known_elr(Some(Vec::new()))
        })
        .collect();
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(topic_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_partitions(partitions)
        .with_topic_authorized_operations(TOPIC_OPERATIONS)
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn cluster(state: &State) -> StrBytes {
    StrBytes::from_string(state.node.cluster.clone())
}
