//! Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::code;
use crate::groups::{Committer, Offset};
use crate::state::{Client, State};
use crate::transactions::Partition;

/// First OffsetCommit that names a missing group as such.
const COMMIT_GROUP_NOT_FOUND: i16 = 9;
/// First OffsetFetch of several groups.
const FETCH_GROUPS: i16 = 8;
/// Longest text beside an offset (`offset.metadata.max.bytes`).
pub(super) const METADATA_MAX_BYTES: usize = 4096;

/// An offset as a client fetches it, or why it does not get it.
type Fetched = (Partition, Result<Option<Offset>, ResponseError>);

pub(crate) async fn commit(
    state: &State,
    request: OffsetCommitRequest,
    version: i16,
    _client: &Client,
) -> OffsetCommitResponse {
    let now_ms = state.now_ms();
    let expire_ms = (request.retention_time_ms >= 0).then(|| now_ms.saturating_add(request.retention_time_ms));
    let mut offsets = Vec::new();
    for topic in &request.topics {
        let accepted = topic.partitions.iter().filter(|partition| check(state, topic, partition).is_ok());
        offsets.extend(accepted.map(|partition| {
            let metadata = partition.committed_metadata.as_deref().unwrap_or_default().to_owned();
            let offset = Offset {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata,
                commit_ms: now_ms,
                expire_ms,
            };
            ((topic.name.to_string(), partition.partition_index), offset)
        }));
    }
    let who = Committer {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id_or_member_epoch,
    };
    let unknown_group = match version >= COMMIT_GROUP_NOT_FOUND {
        true => ResponseError::GroupIdNotFound,
        false => ResponseError::IllegalGeneration,
    };
    let committed = match offsets.is_empty() {
        true => Ok(()),
        false => state.groups.commit(&request.group_id, who, offsets, unknown_group, now_ms),
    };
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code(&check(state, topic, partition).and(committed)))
        });
        OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

fn check(
    state: &State,
    topic: &OffsetCommitRequestTopic,
    partition: &OffsetCommitRequestPartition,
) -> Result<(), ResponseError> {
    check_offset(state, &topic.name, partition.committed_metadata.as_ref())
}

/// Whether an offset can be committed at all.
///
/// # Errors
/// `UNKNOWN_TOPIC_OR_PARTITION`, `OFFSET_METADATA_TOO_LARGE`.
pub(super) fn check_offset(state: &State, topic: &str, metadata: Option<&StrBytes>) -> Result<(), ResponseError> {
    if state.topics.get(topic).is_none() {
        Err(ResponseError::UnknownTopicOrPartition)
    } else if metadata.is_some_and(|metadata| metadata.len() > METADATA_MAX_BYTES) {
        Err(ResponseError::OffsetMetadataTooLarge)
    } else {
        Ok(())
    }
}

pub(crate) async fn fetch(
    state: &State,
    request: OffsetFetchRequest,
    version: i16,
    _client: &Client,
) -> OffsetFetchResponse {
    let stable = request.require_stable;
    if version >= FETCH_GROUPS {
        let groups = request.groups.into_iter().map(|group| {
            let wanted = group.topics.map(|topics| {
                let topics = topics.into_iter().map(|topic| (topic.name, topic.partition_indexes));
                partitions(topics)
            });
            let topics = by_topic(state.groups.fetch(&group.group_id, wanted, stable));
            let topics = topics.into_iter().map(|(name, fetched)| {
                OffsetFetchResponseTopics::default()
                    .with_name(name)
                    .with_partitions(fetched.into_iter().map(fetched_in_group).collect())
            });
            OffsetFetchResponseGroup::default().with_group_id(group.group_id).with_topics(topics.collect())
        });
        return OffsetFetchResponse::default().with_groups(groups.collect());
    }
    let wanted = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| (topic.name, topic.partition_indexes));
        partitions(topics)
    });
    let topics = by_topic(state.groups.fetch(&request.group_id, wanted, stable)).into_iter();
    let topics = topics.map(|(name, fetched)| {
        OffsetFetchResponseTopic::default()
            .with_name(name)
            .with_partitions(fetched.into_iter().map(fetched_alone).collect())
    });
    OffsetFetchResponse::default().with_topics(topics.collect())
}

fn partitions(topics: impl Iterator<Item = (TopicName, Vec<i32>)>) -> Vec<Partition> {
    let of_topic =
        |(name, indexes): (TopicName, Vec<i32>)| indexes.into_iter().map(move |index| (name.to_string(), index));
    topics.flat_map(of_topic).collect()
}

/// Groups what stands together, without changing its order.
fn by_topic(fetched: Vec<Fetched>) -> Vec<(TopicName, Vec<Fetched>)> {
    let mut topics: Vec<(TopicName, Vec<Fetched>)> = Vec::new();
    for one in fetched {
        match topics.last_mut() {
            Some((name, together)) if name.as_str() == one.0.0 => together.push(one),
            _ => topics.push((TopicName(StrBytes::from_string(one.0.0.clone())), vec![one])),
        }
    }
    topics
}

fn fetched_alone(((_, index), fetched): Fetched) -> OffsetFetchResponsePartition {
    let answer = OffsetFetchResponsePartition::default().with_partition_index(index).with_error_code(code(&fetched));
    match fetched.ok().flatten() {
        None => answer.with_committed_offset(-1),
        Some(found) => answer
            .with_committed_offset(found.offset)
            .with_committed_leader_epoch(found.leader_epoch)
            .with_metadata(Some(StrBytes::from_string(found.metadata))),
    }
}

fn fetched_in_group(((_, index), fetched): Fetched) -> OffsetFetchResponsePartitions {
    let answer = OffsetFetchResponsePartitions::default().with_partition_index(index).with_error_code(code(&fetched));
    match fetched.ok().flatten() {
        None => answer.with_committed_offset(-1),
        Some(found) => answer
            .with_committed_offset(found.offset)
            .with_committed_leader_epoch(found.leader_epoch)
            .with_metadata(Some(StrBytes::from_string(found.metadata))),
    }
}

pub(crate) async fn delete(
    state: &State,
    request: OffsetDeleteRequest,
    _version: i16,
    _client: &Client,
) -> OffsetDeleteResponse {
    let known: Vec<_> = request.topics.iter().filter(|topic| state.topics.get(&topic.name).is_some()).collect();
    let partitions: Vec<Partition> = known
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|one| (topic.name.to_string(), one.partition_index)))
        .collect();
    let results = match state.groups.delete_offsets(&request.group_id, &partitions) {
        Ok(results) => results,
        Err(error) => return OffsetDeleteResponse::default().with_error_code(error.code()),
    };
    let mut results = results.into_iter();
    let topics = request.topics.iter().map(|topic| {
        let known = state.topics.get(&topic.name).is_some();
        let partitions = topic.partitions.iter().map(|one| {
            let result = if known { results.next() } else { None };
            OffsetDeleteResponsePartition::default()
                .with_partition_index(one.partition_index)
                .with_error_code(code(&result.unwrap_or(Err(ResponseError::UnknownTopicOrPartition))))
        });
        OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    OffsetDeleteResponse::default().with_topics(topics.collect())
}
