//! Membership of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and their administration.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::code;
use crate::groups::{GroupView, JoinRefused, JoinRequest, Joined, MemberView, Protocol, SyncRequest};
use crate::state::{Client, State};

/// First JoinGroup whose members wait separately for a session and for a rebalance.
const JOIN_REBALANCE_TIMEOUT: i16 = 1;
/// First JoinGroup whose members are told their id before they join (KIP-394).
const JOIN_MUST_HAVE_ID: i16 = 4;
/// First JoinGroup whose answer may name no protocol.
const JOIN_NO_PROTOCOL: i16 = 7;
/// First JoinGroup whose leader can be told not to assign (KIP-814).
const JOIN_SKIP_ASSIGNMENT: i16 = 9;
/// First SyncGroup that says what the group agreed on.
const SYNC_PROTOCOL: i16 = 5;
/// First LeaveGroup of several members.
const LEAVE_SEVERAL: i16 = 3;
/// First DescribeGroups with an error for a group that is not there (KIP-1043).
const DESCRIBE_NOT_FOUND: i16 = 6;
/// The only type of groups here.
const CLASSIC: &str = "classic";
/// READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: without access control everybody may do all.
const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

fn text(string: impl Into<String>) -> StrBytes {
    StrBytes::from_string(string.into())
}

fn owned(string: Option<StrBytes>) -> Option<String> {
    string.map(|string| string.to_string())
}

pub(crate) async fn join(state: &State, request: JoinGroupRequest, version: i16, client: &Client) -> JoinGroupResponse {
    let instance_id = owned(request.group_instance_id);
    let name = instance_id.as_deref().unwrap_or(&client.id);
    let protocols = request
        .protocols
        .into_iter()
        .map(|protocol| Protocol { name: protocol.name.to_string(), metadata: protocol.metadata });
    let with_rebalance_timeout = version >= JOIN_REBALANCE_TIMEOUT;
    let join = JoinRequest {
        new_member_id: format!("{name}-{}", Uuid::new_v4()),
        member_id: request.member_id.to_string(),
        client_id: client.id.clone(),
        client_host: client.host.clone(),
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: match with_rebalance_timeout {
            true => request.rebalance_timeout_ms,
            false => request.session_timeout_ms,
        },
        must_have_id: version >= JOIN_MUST_HAVE_ID,
        may_skip_assignment: version >= JOIN_SKIP_ASSIGNMENT,
        instance_id,
    };
    match state.groups.join(&request.group_id, join, state.now_ms()).await {
        Ok(joined) => welcome(joined, version),
        Err(refused) => turn_away(refused, version),
    }
}

fn welcome(joined: Joined, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|member| {
        JoinGroupResponseMember::default()
            .with_member_id(text(member.member_id))
            .with_group_instance_id(member.instance_id.map(text))
            .with_metadata(member.metadata)
    });
    JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_type(joined.protocol_type.map(text))
        .with_protocol_name(protocol_name(joined.protocol, version))
        .with_leader(text(joined.leader))
        .with_skip_assignment(joined.skip_assignment)
        .with_member_id(text(joined.member_id))
        .with_members(members.collect())
}

fn turn_away(refused: JoinRefused, version: i16) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(refused.error.code())
        .with_member_id(text(refused.member_id))
        .with_protocol_name(protocol_name(None, version))
}

fn protocol_name(name: Option<String>, version: i16) -> Option<StrBytes> {
    if version >= JOIN_NO_PROTOCOL { name.map(text) } else { Some(text(name.unwrap_or_default())) }
}

pub(crate) async fn sync(
    state: &State,
    request: SyncGroupRequest,
    version: i16,
    _client: &Client,
) -> SyncGroupResponse {
    if version >= SYNC_PROTOCOL && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return SyncGroupResponse::default().with_error_code(ResponseError::InconsistentGroupProtocol.code());
    }
    let assignments = request.assignments.into_iter().map(|given| (given.member_id.to_string(), given.assignment));
    let sync = SyncRequest {
        member_id: request.member_id.to_string(),
        instance_id: owned(request.group_instance_id),
        generation: request.generation_id,
        protocol_type: owned(request.protocol_type),
        protocol: owned(request.protocol_name),
        assignments: assignments.collect::<BTreeMap<_, _>>(),
    };
    match state.groups.sync(&request.group_id, sync, state.now_ms()).await {
        Ok(synced) => SyncGroupResponse::default()
            .with_protocol_type(synced.protocol_type.map(text))
            .with_protocol_name(synced.protocol.map(text))
            .with_assignment(synced.assignment),
        Err(error) => SyncGroupResponse::default().with_error_code(error.code()),
    }
}

pub(crate) async fn heartbeat(
    state: &State,
    request: HeartbeatRequest,
    _version: i16,
    _client: &Client,
) -> HeartbeatResponse {
    let instance = request.group_instance_id.as_deref();
    let beat =
        state.groups.heartbeat(&request.group_id, &request.member_id, instance, request.generation_id, state.now_ms());
    HeartbeatResponse::default().with_error_code(code(&beat))
}

pub(crate) async fn leave(
    state: &State,
    request: LeaveGroupRequest,
    version: i16,
    _client: &Client,
) -> LeaveGroupResponse {
    let leaving: Vec<(String, Option<String>)> = if version >= LEAVE_SEVERAL {
        request.members.into_iter().map(|one| (one.member_id.to_string(), owned(one.group_instance_id))).collect()
    } else {
        vec![(request.member_id.to_string(), None)]
    };
    let results = match state.groups.leave(&request.group_id, &leaving, state.now_ms()) {
        Ok(results) => results,
        Err(error) => return LeaveGroupResponse::default().with_error_code(error.code()),
    };
    if version < LEAVE_SEVERAL {
        return LeaveGroupResponse::default().with_error_code(results.first().map_or(0, code));
    }
    let members = leaving.into_iter().zip(results).map(|((id, instance), result)| {
        MemberResponse::default()
            .with_member_id(text(id))
            .with_group_instance_id(instance.map(text))
            .with_error_code(code(&result))
    });
    LeaveGroupResponse::default().with_members(members.collect())
}

pub(crate) async fn list(
    state: &State,
    request: ListGroupsRequest,
    _version: i16,
    _client: &Client,
) -> ListGroupsResponse {
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|one| one.eq_ignore_ascii_case(value))
    };
    let groups =
        state.groups.list().into_iter().filter(|group| {
            wanted(&request.states_filter, group.state.name()) && wanted(&request.types_filter, CLASSIC)
        });
    let groups = groups.map(|group| {
        ListedGroup::default()
            .with_group_id(GroupId(text(group.id)))
            .with_protocol_type(text(group.protocol_type))
            .with_group_state(StrBytes::from_static_str(group.state.name()))
            .with_group_type(StrBytes::from_static_str(CLASSIC))
    });
    ListGroupsResponse::default().with_groups(groups.collect())
}

pub(crate) async fn describe(
    state: &State,
    request: DescribeGroupsRequest,
    version: i16,
    _client: &Client,
) -> DescribeGroupsResponse {
    let operations = if request.include_authorized_operations { ALL_OPERATIONS } else { i32::MIN };
    let groups = request.groups.into_iter().map(|id| match state.groups.describe(&id) {
        Some(group) => described(group).with_authorized_operations(operations),
        None => not_found(id, version),
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn described(group: GroupView) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(GroupId(text(group.id)))
        .with_group_state(StrBytes::from_static_str(group.state.name()))
        .with_protocol_type(text(group.protocol_type))
        .with_protocol_data(text(group.protocol))
        .with_members(group.members.into_iter().map(described_member).collect())
        .with_error_message(None)
}

fn described_member(member: MemberView) -> DescribedGroupMember {
    DescribedGroupMember::default()
        .with_member_id(text(member.id))
        .with_group_instance_id(member.instance_id.map(text))
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}

/// A group that is not there is `Dead`; clients before version 6 know that by the state alone.
fn not_found(id: GroupId, version: i16) -> DescribedGroup {
    let dead = DescribedGroup::default().with_group_state(StrBytes::from_static_str("Dead"));
    if version < DESCRIBE_NOT_FOUND {
        return dead.with_group_id(id).with_error_message(None);
    }
    let message = format!("Group {} not found.", id.as_str());
    dead.with_group_id(id)
        .with_error_code(ResponseError::GroupIdNotFound.code())
        .with_error_message(Some(text(message)))
}

pub(crate) async fn delete(
    state: &State,
    request: DeleteGroupsRequest,
    _version: i16,
    _client: &Client,
) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|id| {
        let deleted = state.groups.delete(&id);
        DeletableGroupResult::default().with_group_id(id).with_error_code(code(&deleted))
    });
    DeleteGroupsResponse::default().with_results(results.collect())
}
