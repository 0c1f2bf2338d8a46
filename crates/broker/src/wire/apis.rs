//! Which requests are served, in which versions, by which handler.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::{WireError, shape};
use crate::handlers::{
    api_versions, configs, coordinator, fetch, groups, leader_epoch, list_offsets, log_dirs, metadata, offsets,
    produce, records, topics, transactions,
};
use crate::state::{Client, State};

/// One kind of request this broker serves.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) name: &'static str,
    pub(crate) key: ApiKey,
    pub(crate) low: i16,
    pub(crate) high: i16,
}

/// The two ends of a connection.
pub(crate) struct Peer {
    /// The client's address, as [`Client::host`].
    pub(crate) host: String,
    /// The address of this broker at which it has arrived.
    pub(crate) reached: SocketAddr,
}

/// The start of every request. It stands at the same place in all versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
}

/// Bytes between the start of an answer's buffer and its correlation id: the frame's length.
const LENGTH_BYTES: usize = 4;

/// What a handler leaves behind.
pub(crate) trait Outcome<R> {
    /// The answer to send, or none.
    ///
    /// # Errors
    ///
    /// If the connection is to be closed instead.
    fn answer(self) -> Result<Option<R>, WireError>;
}

impl<R: Encodable> Outcome<R> for R {
    fn answer(self) -> Result<Option<R>, WireError> {
        Ok(Some(self))
    }
}

macro_rules! serve {
    ($($key:ident, $request:ident => $response:ident, $low:literal ..= $high:literal, $handler:path;)*) => {
        /// The requests that are served, by ascending key.
        pub(crate) const SERVED: &[Api] = &[
            $(Api { name: stringify!($key), key: ApiKey::$key, low: $low, high: $high },)*
        ];

        /// Reads the request behind its header, has it handled and writes the answer's frame; none if
        /// the request wants no answer.
        async fn handle(
            state: &State,
            api: &'static Api,
            start: Start,
            mut body: Bytes,
            client: &Client,
        ) -> Result<Option<BytesMut>, WireError> {
            match api.key {
                $(ApiKey::$key => {
                    let request = $request::decode(&mut body, start.version)
                        .map_err(|reason| malformed(api, start.version, reason))?;
                    let outcome = Box::pin($handler(state, request, start.version, client)).await;
                    let answer: Option<$response> = outcome.answer()?;
                    answer.map(|answer| encode(api, start, &answer)).transpose()
                })*
                _ => Err(WireError::UnknownApi(start.api_key)),
            }
        }
    };
}

serve! {
    Produce, ProduceRequest => ProduceResponse, 3..=13, produce::handle;
    Fetch, FetchRequest => FetchResponse, 4..=17, fetch::handle;
    ListOffsets, ListOffsetsRequest => ListOffsetsResponse, 1..=10, list_offsets::handle;
    Metadata, MetadataRequest => MetadataResponse, 0..=13, metadata::handle;
    OffsetCommit, OffsetCommitRequest => OffsetCommitResponse, 2..=9, offsets::commit;
    OffsetFetch, OffsetFetchRequest => OffsetFetchResponse, 1..=9, offsets::fetch;
    FindCoordinator, FindCoordinatorRequest => FindCoordinatorResponse, 0..=6, coordinator::find;
    JoinGroup, JoinGroupRequest => JoinGroupResponse, 0..=9, groups::join;
    Heartbeat, HeartbeatRequest => HeartbeatResponse, 0..=4, groups::heartbeat;
    LeaveGroup, LeaveGroupRequest => LeaveGroupResponse, 0..=5, groups::leave;
    SyncGroup, SyncGroupRequest => SyncGroupResponse, 0..=5, groups::sync;
    DescribeGroups, DescribeGroupsRequest => DescribeGroupsResponse, 0..=6, groups::describe;
    ListGroups, ListGroupsRequest => ListGroupsResponse, 0..=5, groups::list;
    ApiVersions, ApiVersionsRequest => ApiVersionsResponse, 0..=4, api_versions::handle;
    CreateTopics, CreateTopicsRequest => CreateTopicsResponse, 2..=7, topics::create;
    DeleteTopics, DeleteTopicsRequest => DeleteTopicsResponse, 1..=6, topics::delete;
    DeleteRecords, DeleteRecordsRequest => DeleteRecordsResponse, 0..=2, records::delete;
    InitProducerId, InitProducerIdRequest => InitProducerIdResponse, 0..=5, transactions::init_producer_id;
    OffsetForLeaderEpoch, OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse, 2..=4, leader_epoch::handle;
    AddPartitionsToTxn, AddPartitionsToTxnRequest => AddPartitionsToTxnResponse, 0..=5, transactions::add_partitions;
    AddOffsetsToTxn, AddOffsetsToTxnRequest => AddOffsetsToTxnResponse, 0..=4, transactions::add_offsets;
    EndTxn, EndTxnRequest => EndTxnResponse, 0..=5, transactions::end;
    TxnOffsetCommit, TxnOffsetCommitRequest => TxnOffsetCommitResponse, 0..=5, transactions::commit_offsets;
    DescribeConfigs, DescribeConfigsRequest => DescribeConfigsResponse, 1..=4, configs::describe;
    AlterConfigs, AlterConfigsRequest => AlterConfigsResponse, 0..=2, configs::alter;
    DescribeLogDirs, DescribeLogDirsRequest => DescribeLogDirsResponse, 1..=4, log_dirs::handle;
    CreatePartitions, CreatePartitionsRequest => CreatePartitionsResponse, 0..=3, topics::add_partitions;
    DeleteGroups, DeleteGroupsRequest => DeleteGroupsResponse, 0..=2, groups::delete;
    IncrementalAlterConfigs, IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse, 0..=1, configs::alter_incrementally;
    OffsetDelete, OffsetDeleteRequest => OffsetDeleteResponse, 0..=0, offsets::delete;
    DescribeCluster, DescribeClusterRequest => DescribeClusterResponse, 0..=2, metadata::describe_cluster;
    DescribeProducers, DescribeProducersRequest => DescribeProducersResponse, 0..=0, transactions::describe_producers;
    DescribeTransactions, DescribeTransactionsRequest => DescribeTransactionsResponse, 0..=0, transactions::describe;
    ListTransactions, ListTransactionsRequest => ListTransactionsResponse, 0..=2, transactions::list;
    DescribeTopicPartitions, DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse, 0..=0, metadata::describe_topic_partitions;
}

/// Answers one frame: the answer's frame with its length, or none if the request wants no answer.
///
/// # Errors
///
/// If the frame is not a request that is served, or is malformed: the connection is to be closed.
pub(crate) async fn answer(state: &State, frame: Bytes, peer: &Peer) -> Result<Option<BytesMut>, WireError> {
    let start = start(&frame)?;
    let api = SERVED.iter().find(|api| api.key as i16 == start.api_key).ok_or(WireError::UnknownApi(start.api_key))?;
    if !(api.low..=api.high).contains(&start.version) {
        if api.key == ApiKey::ApiVersions {
            // A client that is newer than this broker finds out here how to speak with it (KIP-35).
            return encode(api, Start { version: 0, ..start }, &api_versions::unsupported()).map(Some);
        }
        return Err(WireError::Version { api: api.name, version: start.version, low: api.low, high: api.high });
    }
    let header_version = api.key.request_header_version(start.version);
    let mut body = frame;
    let header =
        RequestHeader::decode(&mut body, header_version).map_err(|reason| malformed(api, start.version, reason))?;
    // Requests have compact lengths and tagged fields exactly if their header has.
    shape::check(api.key, start.version, header_version >= 2, &body)
        .map_err(|reason| malformed(api, start.version, reason))?;
    let client = Client {
        id: header.client_id.map(|id| id.to_string()).unwrap_or_default(),
        host: peer.host.clone(),
        reached: peer.reached,
    };
    handle(state, api, start, body, &client).await
}

fn start(frame: &[u8]) -> Result<Start, WireError> {
    let [k0, k1, v0, v1, c0, c1, c2, c3, ..] = *frame else {
        return Err(WireError::FrameSize(frame.len() as i32));
    };
    Ok(Start {
        api_key: i16::from_be_bytes([k0, k1]),
        version: i16::from_be_bytes([v0, v1]),
        correlation_id: i32::from_be_bytes([c0, c1, c2, c3]),
    })
}

fn encode<R: Encodable>(api: &'static Api, start: Start, response: &R) -> Result<BytesMut, WireError> {
    let write = || -> Result<BytesMut, String> {
        let header = ResponseHeader::default().with_correlation_id(start.correlation_id);
        let header_version = api.key.response_header_version(start.version);
        let body_bytes = response.compute_size(start.version).map_err(|e| e.to_string())?;
        let header_bytes = header.compute_size(header_version).map_err(|e| e.to_string())?;
        let length =
            i32::try_from(header_bytes + body_bytes).map_err(|_| format!("{body_bytes} bytes are too many"))?;
        let mut frame = BytesMut::with_capacity(LENGTH_BYTES + header_bytes + body_bytes);
        frame.put_i32(length);
        header.encode(&mut frame, header_version).map_err(|e| e.to_string())?;
        response.encode(&mut frame, start.version).map_err(|e| e.to_string())?;
        Ok(frame)
    };
    write().map_err(|reason| WireError::Answer { api: api.name, version: start.version, reason })
}

fn malformed(api: &'static Api, version: i16, reason: impl ToString) -> WireError {
    WireError::Malformed { api: api.name, version, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_versions_are_known_to_the_codec() {
        assert!(SERVED.windows(2).all(|pair| (pair[0].key as i16) < (pair[1].key as i16)));
        for api in SERVED {
            let known = api.key.valid_versions();
            assert!(known.min <= api.low && api.high <= known.max, "{api:?}, the codec has {known}");
        }
    }
}
