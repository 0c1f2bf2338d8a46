//! DeleteRecords: drops the start of a log.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_request::DeleteRecordsPartition;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::{code, noted};
use crate::state::{Client, State};
use crate::topics::Topic;

/// What an answer says of a log whose start was not moved.
const NO_OFFSET: i64 = -1;

pub(crate) async fn delete(
    state: &State,
    request: DeleteRecordsRequest,
    _version: i16,
    _client: &Client,
) -> DeleteRecordsResponse {
    let topics = request
        .topics
        .into_iter()
        .map(|asked| {
            let topic = state.topics.get(&asked.name);
            let partitions = asked
                .partitions
                .iter()
                .map(|partition| {
                    let outcome = delete_before(state, topic.as_deref(), partition);
                    DeleteRecordsPartitionResult::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(code(&outcome))
                        .with_low_watermark(outcome.unwrap_or(NO_OFFSET))
                })
                .collect();
            DeleteRecordsTopicResult::default().with_name(asked.name).with_partitions(partitions)
        })
        .collect();
    DeleteRecordsResponse::default().with_topics(topics)
}

fn delete_before(state: &State, topic: Option<&Topic>, asked: &DeleteRecordsPartition) -> Result<i64, ResponseError> {
    let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
    let index = usize::try_from(asked.partition_index).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
    let log = topic.partitions.get(index).ok_or(ResponseError::UnknownTopicOrPartition)?;
    // What compaction alone may shorten is not cut off at its start.
    if !topic.config.delete {
        return Err(ResponseError::PolicyViolation);
    }
    noted(state, log, log.delete_before(asked.offset))
}
