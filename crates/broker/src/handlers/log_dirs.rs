//! DescribeLogDirs: how large the logs are.

use std::sync::Arc;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::state::{Client, State};
use crate::topics::Topic;

pub(crate) async fn handle(
    state: &State,
    request: DescribeLogDirsRequest,
    _version: i16,
    _client: &Client,
) -> DescribeLogDirsResponse {
    let topics = match request.topics {
        None => state
            .topics
            .names()
            .iter()
            .filter_map(|name| state.topics.get(name))
            .map(|topic| describe(&topic, None))
            .collect(),
        // What does not exist is left out, as in Kafka.
        Some(asked) => asked
            .iter()
            .filter_map(|asked| state.topics.get(&asked.topic).map(|topic| describe(&topic, Some(&asked.partitions))))
            .collect(),
    };
    let result = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_string(state.data.display().to_string()))
        .with_topics(topics);
    DescribeLogDirsResponse::default().with_results(vec![result])
}

fn describe(topic: &Arc<Topic>, wanted: Option<&[i32]>) -> DescribeLogDirsTopic {
    let partitions = (0_i32..)
        .zip(&topic.partitions)
        .filter(|(index, _)| wanted.is_none_or(|wanted| wanted.contains(index)))
        .map(|(index, log)| {
            DescribeLogDirsPartition::default().with_partition_index(index).with_partition_size(log.size_bytes() as i64)
        })
        .collect();
    DescribeLogDirsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.name.clone())))
        .with_partitions(partitions)
}
