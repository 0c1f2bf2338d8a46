//! Fetch: batches out of logs, as they lie there.
//!
//! A fetch waits until there is enough to read, until something is wrong, or until its time is over.
//! Sessions (KIP-227) are not kept: every answer says session 0, so clients send full requests.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse, ProducerId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{check_leader_epoch, noted};
use crate::log::{Isolation, PartitionLog, Read};
use crate::state::{Client, State};
use crate::topics::Topic;

/// From this version on topics are named by their ids.
const TOPIC_IDS_SINCE: i16 = 13;
/// `session_epoch` of a request that wants no session, or ends one.
const FINAL_EPOCH: i32 = -1;
/// `session_epoch` of a request that would start a session.
const INITIAL_EPOCH: i32 = 0;
/// Most bytes of records in one answer (`fetch.max.bytes` of Kafka's broker), however many a client wants.
const ANSWER_BYTES_MAX: usize = 55 * 1024 * 1024;
/// What an answer says of offsets that are not known.
const NO_OFFSET: i64 = -1;

/// Tells of the end of a log and of its last stable offset.
type Growth = watch::Receiver<(i64, i64)>;

pub(crate) async fn handle(state: &State, request: FetchRequest, version: i16, _client: &Client) -> FetchResponse {
    if ![FINAL_EPOCH, INITIAL_EPOCH].contains(&request.session_epoch) {
        // It goes on with a session; this broker never gave one.
        return FetchResponse::default().with_error_code(ResponseError::FetchSessionIdNotFound.code());
    }
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let wanted = usize::try_from(request.min_bytes.min(request.max_bytes)).unwrap_or(0).min(ANSWER_BYTES_MAX);
    #[allow(clippy::disallowed_methods, reason = "the runtime's own clock, for a wait of the runtime")]
    let deadline = Instant::now() + wait;
    loop {
        // Taken before reading: what comes in between wakes the wait below.
        let growth = growth(state, &request.topics, version);
        let reading = Reading::of(state, &request, version);
        let over = wait.is_zero() || growth.is_empty();
        if over || reading.failed || reading.bytes >= wanted {
            return reading.response;
        }
        drop(reading);
        if tokio::time::timeout_at(deadline, any_grown(growth)).await.is_err() {
            // As in Kafka: what is there now, however little.
            return Reading::of(state, &request, version).response;
        }
    }
}

/// The signals of all partitions that are asked for.
fn growth(state: &State, topics: &[FetchTopic], version: i16) -> Vec<Growth> {
    let mut growth = Vec::new();
    for asked in topics {
        if let Ok(topic) = find(state, asked, version) {
            let logs = asked.partitions.iter().filter_map(|asked| log_of(&topic, asked.partition).ok());
            growth.extend(logs.map(|log| log.grown()));
        }
    }
    growth
}

/// Waits until one of the logs has grown or is gone.
async fn any_grown(growth: Vec<Growth>) {
    let mut waits: Vec<Pin<Box<_>>> = growth
        .into_iter()
        .map(|mut growth| {
            Box::pin(async move {
                // An error means that the log is gone; the next reading says so to the client.
                let _ = growth.changed().await;
            })
        })
        .collect();
    poll_fn(|cx| {
        let ready = waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready());
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn find(state: &State, asked: &FetchTopic, version: i16) -> Result<Arc<Topic>, ResponseError> {
    if version >= TOPIC_IDS_SINCE {
        return state.topics.by_id(asked.topic_id).ok_or(ResponseError::UnknownTopicId);
    }
    state.topics.get(&asked.topic).ok_or(ResponseError::UnknownTopicOrPartition)
}

fn log_of(topic: &Topic, partition: i32) -> Result<&PartitionLog, ResponseError> {
    let index = usize::try_from(partition).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
    topic.partitions.get(index).map(Arc::as_ref).ok_or(ResponseError::UnknownTopicOrPartition)
}

/// One look at all partitions of a request.
struct Reading {
    response: FetchResponse,
    /// Bytes of records in it.
    bytes: usize,
    /// Whether a partition could not be read.
    failed: bool,
}

impl Reading {
    fn of(state: &State, request: &FetchRequest, version: i16) -> Reading {
        let isolation = Isolation::from_level(request.isolation_level);
        let bytes_max = usize::try_from(request.max_bytes).unwrap_or(0).min(ANSWER_BYTES_MAX);
        let mut reading = Reading { response: FetchResponse::default(), bytes: 0, failed: false };
        for asked in &request.topics {
            let topic = find(state, asked, version);
            let mut partitions = Vec::with_capacity(asked.partitions.len());
            for partition in &asked.partitions {
                let left = bytes_max.saturating_sub(reading.bytes);
                let outcome = match &topic {
                    Ok(topic) => read(state, topic, partition, left, reading.bytes == 0, isolation),
                    Err(error) => Err(*error),
                };
                reading.bytes += outcome.as_ref().map_or(0, |read| read.records.len());
                reading.failed |= outcome.is_err();
                partitions.push(partition_data(partition.partition, outcome, isolation));
            }
            reading.response.responses.push(
                FetchableTopicResponse::default()
                    .with_topic(asked.topic.clone())
                    .with_topic_id(asked.topic_id)
                    .with_partitions(partitions),
            );
        }
        reading
    }
}

/// Reads one partition. The first batch of an answer is read however long it is, or a client with small
/// buffers would wait for ever (KIP-74).
fn read(
    state: &State,
    topic: &Topic,
    asked: &FetchPartition,
    left: usize,
    first: bool,
    isolation: Isolation,
) -> Result<Read, ResponseError> {
    let log = log_of(topic, asked.partition)?;
    check_leader_epoch(asked.current_leader_epoch)?;
    let bytes_max = left.min(usize::try_from(asked.partition_max_bytes).unwrap_or(0));
    noted(state, log, log.read(asked.fetch_offset, bytes_max, first, isolation))
}

fn partition_data(partition: i32, outcome: Result<Read, ResponseError>, isolation: Isolation) -> PartitionData {
    let data = PartitionData::default().with_partition_index(partition);
    let read = match outcome {
        Ok(read) => read,
        Err(error) => {
            return data
                .with_error_code(error.code())
                .with_high_watermark(NO_OFFSET)
                .with_last_stable_offset(NO_OFFSET)
                .with_log_start_offset(NO_OFFSET)
                .with_aborted_transactions(None)
                .with_records(Some(Bytes::new()));
        }
    };
    let aborted = match isolation {
        Isolation::ReadUncommitted => None,
        Isolation::ReadCommitted => Some(
            read.aborted
                .iter()
                .map(|(producer_id, first_offset)| {
                    AbortedTransaction::default()
                        .with_producer_id(ProducerId(*producer_id))
                        .with_first_offset(*first_offset)
                })
                .collect(),
        ),
    };
    data.with_high_watermark(read.offsets.high_watermark)
        .with_last_stable_offset(read.offsets.last_stable)
        .with_log_start_offset(read.offsets.log_start)
        .with_aborted_transactions(aborted)
        .with_records(Some(read.records))
}
