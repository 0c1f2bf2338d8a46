//! OffsetForLeaderEpoch: where the records of a leader end. There was never another leader.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::{LEADER_EPOCH, check_leader_epoch};
use crate::state::{Client, State};
use crate::topics::Topic;

/// What an answer says of an epoch that never was.
const NO_EPOCH: i32 = -1;
const NO_OFFSET: i64 = -1;

pub(crate) async fn handle(
    state: &State,
    request: OffsetForLeaderEpochRequest,
    _version: i16,
    _client: &Client,
) -> OffsetForLeaderEpochResponse {
    let topics = request
        .topics
        .into_iter()
        .map(|asked| {
            let topic = state.topics.get(&asked.topic);
            let partitions = asked.partitions.iter().map(|p| end_of(topic.as_deref(), p)).collect();
            OffsetForLeaderTopicResult::default().with_topic(asked.topic).with_partitions(partitions)
        })
        .collect();
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

fn end_of(topic: Option<&Topic>, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let response = EpochEndOffset::default().with_partition(asked.partition);
    match find(topic, asked) {
        Ok((epoch, offset)) => response.with_leader_epoch(epoch).with_end_offset(offset),
        Err(error) => response.with_error_code(error.code()).with_leader_epoch(NO_EPOCH).with_end_offset(NO_OFFSET),
    }
}

fn find(topic: Option<&Topic>, asked: &OffsetForLeaderPartition) -> Result<(i32, i64), ResponseError> {
    let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
    let index = usize::try_from(asked.partition).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
    let log = topic.partitions.get(index).ok_or(ResponseError::UnknownTopicOrPartition)?;
    check_leader_epoch(asked.current_leader_epoch)?;
    if asked.leader_epoch != LEADER_EPOCH {
        return Ok((NO_EPOCH, NO_OFFSET));
    }
    Ok((LEADER_EPOCH, log.offsets().high_watermark))
}
