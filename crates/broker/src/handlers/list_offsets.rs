//! ListOffsets: which offset stands at an end of a log, or at a time.

use std::collections::HashSet;
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::{LEADER_EPOCH, check_leader_epoch, noted};
use crate::log::{Isolation, OffsetQuery};
use crate::state::{Client, State};
use crate::topics::Topic;

/// From this version on an answer tells the epoch of the leader that wrote the record.
const EPOCHS_SINCE: i16 = 4;
/// What an answer says if no record is so late.
const NOTHING: i64 = -1;

pub(crate) async fn handle(
    state: &State,
    request: ListOffsetsRequest,
    version: i16,
    _client: &Client,
) -> ListOffsetsResponse {
    let isolation = Isolation::from_level(request.isolation_level);
    let mut seen = HashSet::new();
    let topics = request
        .topics
        .into_iter()
        .map(|asked| {
            let topic = state.topics.get(&asked.name);
            let partitions = asked
                .partitions
                .iter()
                .map(|partition| {
                    if !seen.insert((asked.name.clone(), partition.partition_index)) {
                        return response(partition.partition_index, Err(ResponseError::InvalidRequest), version);
                    }
                    let outcome = find(state, topic.as_ref(), partition, isolation, version);
                    response(partition.partition_index, outcome, version)
                })
                .collect();
            ListOffsetsTopicResponse::default().with_name(asked.name).with_partitions(partitions)
        })
        .collect();
    ListOffsetsResponse::default().with_topics(topics)
}

fn find(
    state: &State,
    topic: Option<&Arc<Topic>>,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
    version: i16,
) -> Result<Option<(i64, i64)>, ResponseError> {
    let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
    let index = usize::try_from(asked.partition_index).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
    let log = topic.partitions.get(index).ok_or(ResponseError::UnknownTopicOrPartition)?;
    check_leader_epoch(asked.current_leader_epoch)?;
    match query(asked.timestamp, isolation, version)? {
        Some(query) => noted(state, log, log.offset_for(query)),
        None => Ok(None),
    }
}

/// What a timestamp asks for: the negative ones are Kafka's `ListOffsetsRequest` constants. None if the
/// answer is always that there is nothing.
fn query(timestamp: i64, isolation: Isolation, version: i16) -> Result<Option<OffsetQuery>, ResponseError> {
    match timestamp {
        0.. => Ok(Some(OffsetQuery::Timestamp(timestamp, isolation))),
        -1 => Ok(Some(OffsetQuery::Latest(isolation))),
        -2 => Ok(Some(OffsetQuery::Earliest)),
        -3 if version >= 7 => Ok(Some(OffsetQuery::MaxTimestamp(isolation))),
        // The earliest record on local disks, where all of them are.
        -4 if version >= 8 => Ok(Some(OffsetQuery::Earliest)),
        // The latest record in remote storage, where none is.
        -5 if version >= 9 => Ok(None),
        _ => Err(ResponseError::UnsupportedVersion),
    }
}

fn response(
    partition: i32,
    outcome: Result<Option<(i64, i64)>, ResponseError>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let response = ListOffsetsPartitionResponse::default().with_partition_index(partition);
    match outcome {
        Ok(Some((offset, timestamp))) => {
            let response = response.with_offset(offset).with_timestamp(timestamp);
            if version >= EPOCHS_SINCE { response.with_leader_epoch(LEADER_EPOCH) } else { response }
        }
        Ok(None) => response.with_offset(NOTHING).with_timestamp(NOTHING),
        Err(error) => response.with_error_code(error.code()).with_offset(NOTHING).with_timestamp(NOTHING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_came_with_versions() {
        let ask = |timestamp, version| query(timestamp, Isolation::ReadUncommitted, version);
        assert!(matches!(ask(-1, 1), Ok(Some(OffsetQuery::Latest(_)))));
        assert!(matches!(ask(-2, 1), Ok(Some(OffsetQuery::Earliest))));
        assert!(matches!(ask(-3, 6), Err(ResponseError::UnsupportedVersion)));
        assert!(matches!(ask(-3, 7), Ok(Some(OffsetQuery::MaxTimestamp(_)))));
        assert!(matches!(ask(-4, 8), Ok(Some(OffsetQuery::Earliest))));
        assert!(matches!(ask(-5, 9), Ok(None)));
        assert!(matches!(ask(i64::MIN, 10), Err(ResponseError::UnsupportedVersion)));
        assert!(matches!(ask(0, 1), Ok(Some(OffsetQuery::Timestamp(0, _)))));
    }
}
