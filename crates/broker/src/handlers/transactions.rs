//! Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, and what
//! administrators ask about them.

mod views;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse, ProducerId, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};

pub(crate) use self::views::{describe, describe_producers, list};
use super::code;
use super::offsets::check_offset;
use crate::groups::{Committer, Offset};
use crate::state::{Client, State};
use crate::transactions::{EndRequest, Identity, Local, Partition};

/// First InitProducerId whose clients know `PRODUCER_FENCED`.
const INIT_FENCED: i16 = 4;
/// First AddPartitionsToTxn, AddOffsetsToTxn and EndTxn whose clients know `PRODUCER_FENCED`.
const TXN_FENCED: i16 = 2;
/// First AddPartitionsToTxn of several transactions.
const ADD_BATCHED: i16 = 4;
/// First EndTxn of version 2 of the transaction protocol: the epoch rises.
const END_BUMPS: i16 = 5;

fn local(state: &State) -> Local<'_> {
    Local { topics: &state.topics, groups: &state.groups }
}

/// `PRODUCER_FENCED` in the words of clients from before it.
fn known(error: ResponseError, version: i16, knows_fenced: i16) -> ResponseError {
    match error {
        ResponseError::ProducerFenced if version < knows_fenced => ResponseError::InvalidProducerEpoch,
        error => error,
    }
}

pub(crate) async fn init_producer_id(
    state: &State,
    request: InitProducerIdRequest,
    version: i16,
    _client: &Client,
) -> InitProducerIdResponse {
    let expected = match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ResponseError::InvalidRequest),
        (id, epoch) => Ok(Some(Identity { id, epoch })),
    };
    let transactional_id = request.transactional_id.as_ref().map(|id| id.as_str());
    let timeout_ms = request.transaction_timeout_ms;
    let identity = expected.and_then(|expected| {
        let now_ms = state.now_ms();
        state.transactions.init_producer_id(&local(state), transactional_id, timeout_ms, expected, now_ms)
    });
    match identity {
        Ok(identity) => InitProducerIdResponse::default()
            .with_producer_id(ProducerId(identity.id))
            .with_producer_epoch(identity.epoch),
        Err(error) => InitProducerIdResponse::default()
            .with_error_code(known(error, version, INIT_FENCED).code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1),
    }
}

pub(crate) async fn add_partitions(
    state: &State,
    request: AddPartitionsToTxnRequest,
    version: i16,
    _client: &Client,
) -> AddPartitionsToTxnResponse {
    if version >= ADD_BATCHED {
        let results = request.transactions.into_iter().map(|transaction| {
            let producer = Identity { id: transaction.producer_id.0, epoch: transaction.producer_epoch };
            let id = &transaction.transactional_id;
            let results = add(state, id, producer, &transaction.topics, transaction.verify_only);
            AddPartitionsToTxnResult::default()
                .with_topic_results(added(&transaction.topics, results, version))
                .with_transactional_id(transaction.transactional_id)
        });
        return AddPartitionsToTxnResponse::default().with_results_by_transaction(results.collect());
    }
    let producer = Identity { id: request.v3_and_below_producer_id.0, epoch: request.v3_and_below_producer_epoch };
    let topics = &request.v3_and_below_topics;
    let results = add(state, &request.v3_and_below_transactional_id, producer, topics, false);
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(added(topics, results, version))
}

/// Adds all of the partitions or none; one result for each, in order.
fn add(
    state: &State,
    id: &str,
    producer: Identity,
    topics: &[AddPartitionsToTxnTopic],
    verify_only: bool,
) -> Vec<Result<(), ResponseError>> {
    let partitions: Vec<Partition> =
        topics.iter().flat_map(|topic| topic.partitions.iter().map(|&index| (topic.name.to_string(), index))).collect();
    let exists = |(topic, index): &Partition| {
        let topic = state.topics.get(topic);
        topic.is_some_and(|topic| usize::try_from(*index).is_ok_and(|index| index < topic.partitions.len()))
    };
    if !partitions.iter().all(exists) {
        let missing = |partition| match exists(partition) {
            true => Err(ResponseError::OperationNotAttempted),
            false => Err(ResponseError::UnknownTopicOrPartition),
        };
        return partitions.iter().map(missing).collect();
    }
    let results = match verify_only {
        true => state.transactions.verify_partitions(id, producer, &partitions),
        false => {
            let added = state.transactions.add_partitions(id, producer, &partitions, state.now_ms());
            added.map(|()| vec![Ok(()); partitions.len()])
        }
    };
    results.unwrap_or_else(|error| vec![Err(error); partitions.len()])
}

fn added(
    topics: &[AddPartitionsToTxnTopic],
    results: Vec<Result<(), ResponseError>>,
    version: i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut results = results.into_iter();
    let topics = topics.iter().map(|topic| {
        let indexes = topic.partitions.iter().zip(&mut results);
        let partitions = indexes.map(|(&index, result)| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(index)
                .with_partition_error_code(code(&result.map_err(|error| known(error, version, TXN_FENCED))))
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(partitions.collect())
    });
    topics.collect()
}

pub(crate) async fn add_offsets(
    state: &State,
    request: AddOffsetsToTxnRequest,
    version: i16,
    _client: &Client,
) -> AddOffsetsToTxnResponse {
    let producer = Identity { id: request.producer_id.0, epoch: request.producer_epoch };
    let added = match request.group_id.is_empty() {
        true => Err(ResponseError::InvalidGroupId),
        false => {
            let id = &request.transactional_id;
            state.transactions.add_offsets(id, producer, &request.group_id, state.now_ms())
        }
    };
    AddOffsetsToTxnResponse::default().with_error_code(code(&added.map_err(|error| known(error, version, TXN_FENCED))))
}

pub(crate) async fn commit_offsets(
    state: &State,
    request: TxnOffsetCommitRequest,
    version: i16,
    _client: &Client,
) -> TxnOffsetCommitResponse {
    let now_ms = state.now_ms();
    let mut offsets = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            if check_offset(state, &topic.name, partition.committed_metadata.as_ref()).is_ok() {
                let offset = Offset {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.as_deref().unwrap_or_default().to_owned(),
                    commit_ms: now_ms,
                    expire_ms: None,
                };
                offsets.push(((topic.name.to_string(), partition.partition_index), offset));
            }
        }
    }
    let staged = if offsets.is_empty() { Ok(()) } else { stage(state, &request, offsets, version, now_ms) };
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let result = check_offset(state, &topic.name, partition.committed_metadata.as_ref()).and(staged);
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code(&result))
        });
        TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

fn stage(
    state: &State,
    request: &TxnOffsetCommitRequest,
    offsets: Vec<(Partition, Offset)>,
    version: i16,
    now_ms: i64,
) -> Result<(), ResponseError> {
    if request.group_id.is_empty() {
        return Err(ResponseError::InvalidGroupId);
    }
    let producer = Identity { id: request.producer_id.0, epoch: request.producer_epoch };
    let id = &request.transactional_id;
    let appending = state.transactions.verify_offsets(id, producer, &request.group_id, version, now_ms)?;
    let who = Committer {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let staged = state.groups.stage(&request.group_id, producer.id, who, offsets, now_ms);
    drop(appending);
    staged
}

pub(crate) async fn end(state: &State, request: EndTxnRequest, version: i16, _client: &Client) -> EndTxnResponse {
    let end = EndRequest {
        producer: Identity { id: request.producer_id.0, epoch: request.producer_epoch },
        commit: request.committed,
        bumps_epoch: version >= END_BUMPS,
    };
    let ended = match request.transactional_id.is_empty() {
        true => Err(ResponseError::InvalidRequest),
        false => state.transactions.end(&local(state), &request.transactional_id, end, state.now_ms()),
    };
    match ended {
        Ok(identity) if version >= END_BUMPS => {
            EndTxnResponse::default().with_producer_id(ProducerId(identity.id)).with_producer_epoch(identity.epoch)
        }
        Ok(_) => EndTxnResponse::default(),
        Err(error) => EndTxnResponse::default().with_error_code(known(error, version, TXN_FENCED).code()),
    }
}
