//! Produce: batches into logs.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::records::Compression;

use super::noted;
use crate::batch;
use crate::log::{Appended, TxnCheck};
use crate::state::{Client, State};
use crate::topics::Topic;
use crate::transactions::Appending;
use crate::wire::WireError;
use crate::wire::apis::Outcome;

/// From this version on topics are named by their ids.
const TOPIC_IDS_SINCE: i16 = 13;
/// From this version on zstd may be used (KIP-110).
const ZSTD_SINCE: i16 = 7;
/// `acks` of a client that does not wait.
const ACKS_NONE: i16 = 0;
/// `acks` of a client that waits for all replicas that are in sync.
const ACKS_ALL: i16 = -1;
/// How many replicas each partition has.
const REPLICAS: i32 = 1;

/// How a produce request ends.
pub(crate) enum Produced {
    Answer(ProduceResponse),
    /// The client wants no answer.
    Silent,
    /// The client wants no answer, but something was refused: it finds out as its connection is closed.
    Failed(ResponseError),
}

impl Outcome<ProduceResponse> for Produced {
    fn answer(self) -> Result<Option<ProduceResponse>, WireError> {
        match self {
            Produced::Answer(response) => Ok(Some(response)),
            Produced::Silent => Ok(None),
            Produced::Failed(error) => Err(WireError::Unacknowledged(error)),
        }
    }
}

pub(crate) async fn handle(state: &State, request: ProduceRequest, version: i16, _client: &Client) -> Produced {
    let acks = request.acks;
    let producer =
        Producer { transactional_id: request.transactional_id.as_ref().map(|id| id.as_str()), acks, version };
    let mut refused = None;
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for data in request.topic_data {
        let topic = find(state, &data, version);
        let mut partitions = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data {
            let index = partition.index;
            let outcome = match &topic {
                Ok(topic) => producer.append(state, topic, partition),
                Err(error) => Err(*error),
            };
            refused = refused.or(outcome.as_ref().err().copied());
            partitions.push(partition_response(index, outcome));
        }
        responses.push(
            TopicProduceResponse::default()
                .with_name(data.name)
                .with_topic_id(data.topic_id)
                .with_partition_responses(partitions),
        );
    }
    match refused {
        _ if acks != ACKS_NONE => Produced::Answer(ProduceResponse::default().with_responses(responses)),
        Some(error) => Produced::Failed(error),
        None => Produced::Silent,
    }
}

fn find(state: &State, data: &TopicProduceData, version: i16) -> Result<Arc<Topic>, ResponseError> {
    if version >= TOPIC_IDS_SINCE {
        return state.topics.by_id(data.topic_id).ok_or(ResponseError::UnknownTopicId);
    }
    state.topics.get(&data.name).ok_or(ResponseError::UnknownTopicOrPartition)
}

fn partition_response(index: i32, outcome: Result<Appended, ResponseError>) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default().with_index(index);
    match outcome {
        Ok(appended) => response
            .with_base_offset(appended.base_offset)
            .with_log_append_time_ms(appended.log_append_time_ms)
            .with_log_start_offset(appended.log_start),
        Err(error) => response.with_error_code(error.code()).with_base_offset(-1).with_log_append_time_ms(-1),
    }
}

/// What a request says of its sender.
struct Producer<'a> {
    transactional_id: Option<&'a str>,
    acks: i16,
    version: i16,
}

impl Producer<'_> {
    fn append(&self, state: &State, topic: &Topic, data: PartitionProduceData) -> Result<Appended, ResponseError> {
        if !(ACKS_ALL..=1).contains(&self.acks) {
            return Err(ResponseError::InvalidRequiredAcks);
        }
        let partition = usize::try_from(data.index).ok().and_then(|index| topic.partitions.get(index));
        let log = partition.ok_or(ResponseError::UnknownTopicOrPartition)?;
        if self.acks == ACKS_ALL && topic.config.min_insync_replicas > REPLICAS {
            return Err(ResponseError::NotEnoughReplicas);
        }
        let records = data.records.unwrap_or_default();
        // Kept until the batch is in the log: so an end marker cannot come between.
        let _appending = self.verify(state, topic, data.index, &records)?;
        noted(state, log, log.append(records, TxnCheck::Verified, state.now_ms()))
    }

    /// Checks what the log itself cannot know: that the request's version allows the batch, and that its
    /// transaction is open.
    fn verify(
        &self,
        state: &State,
        topic: &Topic,
        partition: i32,
        records: &Bytes,
    ) -> Result<Option<Appending>, ResponseError> {
        // A batch whose header cannot be read is refused by the log, with the right error.
        let Ok(header) = batch::parse(records) else { return Ok(None) };
        if self.version < ZSTD_SINCE && matches!(header.compression(), Some(Compression::Zstd)) {
            return Err(ResponseError::UnsupportedCompressionType);
        }
        if !header.is_transactional() {
            return Ok(None);
        }
        let id = self.transactional_id.ok_or(ResponseError::InvalidTxnState)?;
        let transactions = &state.transactions;
        let (producer_id, epoch) = (header.producer_id, header.producer_epoch);
        transactions
            .verify_produce(id, producer_id, epoch, &topic.name, partition, self.version, state.now_ms())
            .map(Some)
    }
}
