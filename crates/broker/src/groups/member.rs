//! A member of a group, and what it says when it joins.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

/// Names a request that waits for its answer.
pub(crate) type Token = u64;

/// A way of assigning partitions that a member can follow, with what it tells the leader about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: String,
    pub(crate) metadata: Bytes,
}

/// A JoinGroup.
#[derive(Clone, Debug)]
pub(crate) struct JoinRequest {
    /// Empty for a member that has no id yet.
    pub(crate) member_id: String,
    /// `group.instance.id`: the member keeps its place over restarts.
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) protocol_type: String,
    /// In order of preference.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// Id for the member if it has none.
    pub(crate) new_member_id: String,
    /// Whether a member without id is told its id and has to come again (JoinGroup 4).
    pub(crate) must_have_id: bool,
    /// Whether the client knows `skip_assignment` (JoinGroup 9).
    pub(crate) may_skip_assignment: bool,
}

/// A successful JoinGroup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    /// Everybody, for the leader; nobody for others.
    pub(crate) members: Vec<JoinedMember>,
    pub(crate) skip_assignment: bool,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinedMember {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) metadata: Bytes,
}

/// A refused JoinGroup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinRefused {
    pub(crate) error: ResponseError,
    pub(crate) member_id: String,
}

/// A successful SyncGroup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Bytes,
}

/// The answer to a waiting request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Join(Result<Joined, JoinRefused>),
    Sync(Result<Synced, ResponseError>),
}

/// A member as the machine keeps it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    /// Its JoinGroup that waits for the others.
    pub(super) joining: Option<Token>,
    /// Its SyncGroup that waits for the leader's.
    pub(super) syncing: Option<Token>,
    /// When it is taken for dead; absent while the group owes it an answer.
    pub(super) deadline_ms: Option<i64>,
    /// Whether it has not been in a generation yet: then even a waiting one can be taken for dead.
    pub(super) is_new: bool,
}

impl Member {
    pub(super) fn from_join(request: &JoinRequest, deadline_ms: i64) -> Member {
        Member {
            instance_id: request.instance_id.clone(),
            client_id: request.client_id.clone(),
            client_host: request.client_host.clone(),
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            protocols: request.protocols.clone(),
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            deadline_ms: Some(deadline_ms),
            is_new: true,
        }
    }

    /// What it told about itself for a protocol.
    pub(super) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let known = self.protocols.iter().find(|known| Some(known.name.as_str()) == protocol);
        known.map(|known| known.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|known| known.name == protocol)
    }

    /// Gives it the length of its session from now on.
    pub(super) fn keep_alive(&mut self, now_ms: i64) {
        self.deadline_ms = Some(now_ms + i64::from(self.session_timeout_ms));
    }
}

/// A group as the journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupSnapshot {
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) since_ms: i64,
    pub(super) members: Vec<MemberSnapshot>,
}

/// A member as the journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MemberSnapshot {
    id: String,
    instance_id: Option<String>,
    client_id: String,
    client_host: String,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    protocols: Vec<(String, Vec<u8>)>,
    assignment: Vec<u8>,
}

impl MemberSnapshot {
    pub(super) fn of(id: &str, member: &Member) -> MemberSnapshot {
        let protocols = member.protocols.iter().map(|known| (known.name.clone(), known.metadata.to_vec()));
        MemberSnapshot {
            id: id.to_owned(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            protocols: protocols.collect(),
            assignment: member.assignment.to_vec(),
        }
    }

    /// The member, with a full session before it.
    pub(super) fn restore(self, now_ms: i64) -> (String, Member) {
        let protocols = self.protocols.into_iter();
        let member = Member {
            instance_id: self.instance_id,
            client_id: self.client_id,
            client_host: self.client_host,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocols: protocols.map(|(name, metadata)| Protocol { name, metadata: metadata.into() }).collect(),
            assignment: self.assignment.into(),
            joining: None,
            syncing: None,
            deadline_ms: Some(now_ms + i64::from(self.session_timeout_ms)),
            is_new: false,
        };
        (self.id, member)
    }
}
