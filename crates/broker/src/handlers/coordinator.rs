//! FindCoordinator: every group and every transactional id is coordinated here.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use crate::state::{Client, State};

/// First version that asks for several keys at once.
const BATCHED: i16 = 4;
/// Kinds of coordinators: groups and transactions.
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=1;

pub(crate) async fn find(
    state: &State,
    request: FindCoordinatorRequest,
    version: i16,
    client: &Client,
) -> FindCoordinatorResponse {
    if version >= BATCHED {
        let coordinators =
            request.coordinator_keys.into_iter().map(|key| find_one(state, key, request.key_type, client));
        return FindCoordinatorResponse::default().with_coordinators(coordinators.collect());
    }
    let one = find_one(state, request.key, request.key_type, client);
    FindCoordinatorResponse::default()
        .with_error_code(one.error_code)
        .with_error_message(one.error_message)
        .with_node_id(one.node_id)
        .with_host(one.host)
        .with_port(one.port)
}

fn find_one(state: &State, key: StrBytes, key_type: i8, client: &Client) -> Coordinator {
    let coordinator = Coordinator::default().with_key(key);
    if !KEY_TYPES.contains(&key_type) {
        let message = format!("There is no coordinator of type {key_type} here; 0 is for groups, 1 for transactions.");
        return coordinator
            .with_error_code(ResponseError::InvalidRequest.code())
            .with_error_message(Some(StrBytes::from_string(message)))
            .with_node_id(BrokerId(-1))
            .with_port(-1);
    }
    let (host, port) = state.node.endpoint(client);
    coordinator.with_node_id(BrokerId(state.node.id)).with_host(host).with_port(port)
}
