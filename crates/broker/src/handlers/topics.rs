//! CreateTopics, DeleteTopics and CreatePartitions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::configs::{SOURCE_DEFAULT, SOURCE_TOPIC};
use super::{message, refuse};
use crate::state::{Client, State};
use crate::topics::{Refusal, Topic};

/// Stands for the broker's default, of partitions and of replicas.
const DEFAULT: i32 = -1;
/// Number of nodes, so the largest number of replicas.
const NODES: i16 = 1;
/// From this version on topics are deleted by name or id.
const DELETE_BY_ID_SINCE: i16 = 6;
/// From this version on the answer describes the topic.
const DESCRIPTION_SINCE: i16 = 5;

pub(crate) async fn create(
    state: &State,
    request: CreateTopicsRequest,
    version: i16,
    _client: &Client,
) -> CreateTopicsResponse {
    let mut times: HashMap<TopicName, usize> = HashMap::new();
    for topic in &request.topics {
        *times.entry(topic.name.clone()).or_default() += 1;
    }
    let mut results = Vec::with_capacity(times.len());
    for asked in request.topics {
        let outcome = match times.remove(&asked.name) {
            Some(1) => create_one(state, &asked, request.validate_only),
            Some(_) => Err(refuse(ResponseError::InvalidRequest, "the request names this topic several times")),
            // Its name was answered at its first place.
            None => continue,
        };
        results.push(created(state, asked.name, outcome, version));
    }
    CreateTopicsResponse::default().with_topics(results)
}

/// A topic that was made, or could be: its number of partitions, and itself if it was made.
type Created = (i32, Option<Arc<Topic>>);

fn create_one(state: &State, asked: &CreatableTopic, validate_only: bool) -> Result<Created, Refusal> {
    let partitions = partitions(state, asked)?;
    let mut configs = BTreeMap::new();
    for config in &asked.configs {
        let name = config.name.to_string();
        let Some(value) = &config.value else {
            return Err(refuse(ResponseError::InvalidConfig, format!("the setting {name} has no value")));
        };
        if configs.insert(name, value.to_string()).is_some() {
            return Err(refuse(
                ResponseError::InvalidConfig,
                format!("the setting {} is given several times", config.name.as_str()),
            ));
        }
    }
    if validate_only {
        state.topics.validate_create(&asked.name, partitions, &configs)?;
        return Ok((partitions, None));
    }
    let topic = state.topics.create(&asked.name, partitions, &configs, state.now_ms())?;
    Ok((partitions, Some(topic)))
}

/// How many partitions are wanted, by number or by an assignment of replicas.
fn partitions(state: &State, asked: &CreatableTopic) -> Result<i32, Refusal> {
    if asked.assignments.is_empty() {
        check_replication(asked.replication_factor)?;
        return match asked.num_partitions {
            DEFAULT => Ok(state.options.default_partitions),
            number => Ok(number),
        };
    }
    if asked.num_partitions != DEFAULT || i32::from(asked.replication_factor) != DEFAULT {
        return Err(refuse(
            ResponseError::InvalidRequest,
            "an assignment of replicas excludes numbers of partitions and of replicas: both must be -1",
        ));
    }
    let mut indexes: Vec<i32> = asked.assignments.iter().map(|a| a.partition_index).collect();
    indexes.sort_unstable();
    if !indexes.iter().copied().eq(0..indexes.len() as i32) {
        return Err(refuse(
            ResponseError::InvalidReplicaAssignment,
            "the partitions of an assignment must be numbered from 0 without gaps",
        ));
    }
    for assignment in &asked.assignments {
        check_assignment(state, &assignment.broker_ids)?;
    }
    Ok(indexes.len() as i32)
}

fn check_replication(factor: i16) -> Result<(), Refusal> {
    match factor {
        NODES => Ok(()),
        _ if i32::from(factor) == DEFAULT => Ok(()),
        ..=0 => {
            Err(refuse(ResponseError::InvalidReplicationFactor, "the replication factor must be at least 1, or -1"))
        }
        _ => Err(refuse(
            ResponseError::InvalidReplicationFactor,
            format!("a replication factor of {factor} needs as many brokers; this one is alone: take 1"),
        )),
    }
}

fn check_assignment(state: &State, brokers: &[BrokerId]) -> Result<(), Refusal> {
    if matches!(brokers, [BrokerId(id)] if *id == state.node.id) {
        return Ok(());
    }
    let words = format!("the only broker is {}: an assignment can name only it, once", state.node.id);
    Err(refuse(ResponseError::InvalidReplicaAssignment, words))
}

fn created(state: &State, name: TopicName, outcome: Result<Created, Refusal>, version: i16) -> CreatableTopicResult {
    let result = CreatableTopicResult::default().with_name(name);
    let (partitions, topic) = match outcome {
        Ok(created) => created,
        Err(refusal) => {
            return result.with_error_code(refusal.error.code()).with_error_message(message(&refusal));
        }
    };
    let id = topic.as_ref().map(|topic| topic.id).unwrap_or_default();
    let result = result.with_topic_id(id);
    if version < DESCRIPTION_SINCE {
        return result;
    }
    let configs = topic.and_then(|topic| state.topics.configs(&topic.name)).unwrap_or_default();
    let configs = configs
        .into_iter()
        .map(|entry| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_static_str(entry.name))
                .with_value(Some(StrBytes::from_string(entry.value)))
                .with_config_source(if entry.is_default { SOURCE_DEFAULT } else { SOURCE_TOPIC })
        })
        .collect();
    result.with_num_partitions(partitions).with_replication_factor(NODES).with_configs(Some(configs))
}

pub(crate) async fn delete(
    state: &State,
    request: DeleteTopicsRequest,
    version: i16,
    _client: &Client,
) -> DeleteTopicsResponse {
    let asked: Vec<DeleteTopicState> = if version >= DELETE_BY_ID_SINCE {
        request.topics
    } else {
        request.topic_names.into_iter().map(|name| DeleteTopicState::default().with_name(Some(name))).collect()
    };
    let responses = asked.into_iter().map(|asked| delete_one(state, asked, version)).collect();
    DeleteTopicsResponse::default().with_responses(responses)
}

fn delete_one(state: &State, asked: DeleteTopicState, version: i16) -> DeletableTopicResult {
    let result = DeletableTopicResult::default();
    let (found, name, unknown) = match asked.name {
        Some(name) => (state.topics.get(&name), Some(name), ResponseError::UnknownTopicOrPartition),
        None => (state.topics.by_id(asked.topic_id), None, ResponseError::UnknownTopicId),
    };
    let outcome = match &found {
        Some(topic) => delete_found(state, topic),
        None => Err(refuse(unknown, "there is no such topic")),
    };
    // The name is told only to those who may see it, that is, who have found it or know it.
    let name = name.or_else(|| found.as_ref().map(|t| TopicName(StrBytes::from_string(t.name.clone()))));
    let id =
        if version >= DELETE_BY_ID_SINCE { found.map_or(asked.topic_id, |topic| topic.id) } else { asked.topic_id };
    let result = result.with_name(name).with_topic_id(id);
    match outcome {
        Ok(()) => result,
        Err(refusal) if version >= 5 => {
            result.with_error_code(refusal.error.code()).with_error_message(message(&refusal))
        }
        Err(refusal) => result.with_error_code(refusal.error.code()),
    }
}

fn delete_found(state: &State, topic: &Topic) -> Result<(), Refusal> {
    state.topics.delete(&topic.name)?;
    let groups = state.groups.topic_deleted(&topic.name);
    let transactions = state.transactions.topic_deleted(&topic.name);
    groups.and(transactions).map_err(|e| {
        state.options.report.trouble(&format!("cannot write that the topic '{}' is gone: {e}", topic.name));
        refuse(ResponseError::KafkaStorageError, format!("the topic is gone, its committed offsets may not be: {e}"))
    })
}

pub(crate) async fn add_partitions(
    state: &State,
    request: CreatePartitionsRequest,
    _version: i16,
    _client: &Client,
) -> CreatePartitionsResponse {
    let mut times: HashMap<TopicName, usize> = HashMap::new();
    for topic in &request.topics {
        *times.entry(topic.name.clone()).or_default() += 1;
    }
    let mut results = Vec::with_capacity(times.len());
    for asked in request.topics {
        let outcome = match times.remove(&asked.name) {
            Some(1) => add_partitions_to(state, &asked, request.validate_only),
            Some(_) => Err(refuse(ResponseError::InvalidRequest, "the request names this topic several times")),
            None => continue,
        };
        let result = CreatePartitionsTopicResult::default().with_name(asked.name);
        results.push(match outcome {
            Ok(()) => result,
            Err(refusal) => result.with_error_code(refusal.error.code()).with_error_message(message(&refusal)),
        });
    }
    CreatePartitionsResponse::default().with_results(results)
}

fn add_partitions_to(state: &State, asked: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let topic = state.topics.get(&asked.name);
    let topic = topic.ok_or_else(|| refuse(ResponseError::UnknownTopicOrPartition, "there is no such topic"))?;
    let there = topic.partitions.len() as i32;
    if asked.count <= there {
        let words = format!("the topic has {there} partitions already; {} are not more", asked.count);
        return Err(refuse(ResponseError::InvalidPartitions, words));
    }
    if let Some(assignments) = &asked.assignments {
        if assignments.len() as i32 != asked.count - there {
            let words = format!("{} new partitions need as many assignments", asked.count - there);
            return Err(refuse(ResponseError::InvalidReplicaAssignment, words));
        }
        for assignment in assignments {
            check_assignment(state, &assignment.broker_ids)?;
        }
    }
    if validate_only {
        return Ok(());
    }
    state.topics.add_partitions(&asked.name, asked.count, state.now_ms()).map(drop)
}
