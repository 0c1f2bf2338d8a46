//! One group of the classic protocol: who is in it, and which generation it is in.
//!
//! ```text
//!            first join             all joined, or           leader's sync
//!                                   rebalance timeout
//!  Empty ───────────▶ PreparingRebalance ───▶ CompletingRebalance ───▶ Stable
//!    ▲                 │      ▲                       │                  │
//!    └── nobody left ──┘      └── join, leave, dead member, lost sync ───┘
//! ```
//!
//! A rebalance collects a JoinGroup of every member, elects a leader, tells it who is there, and hands out
//! what the leader assigns in its SyncGroup. A request that has to wait is known by its [`Token`]; the
//! answers pile up in an outbox that the owner empties after each call. Time is a parameter, and
//! [`Group::tick`] lets it pass.
//!
//! The rules are those of Kafka's `GroupMetadataManager` and `ClassicGroup`, with
//! `group.initial.rebalance.delay.ms = 0` as in the `server.properties` that Kafka ships: the first member
//! does not wait for others.

mod rebalance;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::ResponseError;

use super::member::{
    GroupSnapshot, JoinRefused, JoinRequest, Joined, JoinedMember, Member, MemberSnapshot, Reply, Synced, Token,
};

/// How long a new member may wait for its first generation (`group.new.member.join.timeout.ms`).
const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 5 * 60 * 1000;
/// Protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";

/// Where a group stands; names and meaning are Kafka's. `Dead` is the group that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl GroupState {
    /// The name as DescribeGroups and ListGroups write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
        }
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) state: GroupState,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    /// `group.instance.id` to member id.
    statics: BTreeMap<String, String>,
    /// Ids that were given out and did not come back yet, with the end of their time.
    pending: BTreeMap<String, i64>,
    /// Members of this generation whose SyncGroup did not come yet.
    unsynced: BTreeSet<String>,
    /// When the join phase ends without those that are missing.
    join_deadline_ms: Option<i64>,
    /// When the members that did not sync are thrown out.
    sync_deadline_ms: Option<i64>,
    /// Topics the members read; absent if they do not say.
    subscribed: Option<BTreeSet<String>>,
    /// When it came into its state.
    pub(super) since_ms: i64,
    /// Whether something must be written to the journal before the outbox is emptied.
    changed: bool,
    outbox: Vec<(Token, Reply)>,
}

impl Group {
    /// A group without members.
    pub(crate) fn new(now_ms: i64) -> Group {
        Group {
            state: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            join_deadline_ms: None,
            sync_deadline_ms: None,
            subscribed: None,
            since_ms: now_ms,
            changed: false,
            outbox: Vec::new(),
        }
    }

    /// The group that a snapshot describes; its members get a full session to show up again.
    pub(crate) fn restore(snapshot: GroupSnapshot, now_ms: i64) -> Group {
        let members: BTreeMap<_, _> = snapshot.members.into_iter().map(|member| member.restore(now_ms)).collect();
        let statics =
            members.iter().filter_map(|(id, member)| Some((member.instance_id.clone()?, id.clone()))).collect();
        let state = if members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        let mut group = Group {
            state,
            generation: snapshot.generation,
            protocol_type: snapshot.protocol_type,
            protocol: snapshot.protocol,
            leader: snapshot.leader,
            statics,
            members,
            since_ms: snapshot.since_ms,
            ..Group::new(now_ms)
        };
        group.subscribed = group.subscribed_topics();
        group
    }

    /// What the journal keeps of it.
    pub(crate) fn snapshot(&self) -> GroupSnapshot {
        GroupSnapshot {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since_ms: self.since_ms,
            members: self.members.iter().map(|(id, member)| MemberSnapshot::of(id, member)).collect(),
        }
    }

    /// Whether the journal has to learn of the last calls; asked once for each time.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The answers to requests that need not wait any longer.
    pub(crate) fn take_replies(&mut self) -> Vec<(Token, Reply)> {
        std::mem::take(&mut self.outbox)
    }

    /// Whether nobody is in it or about to come.
    pub(crate) fn is_vacant(&self) -> bool {
        self.state == GroupState::Empty && self.pending.is_empty()
    }

    /// Whether the members say that they read a topic, or could without saying so.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.protocol_type.as_deref() == Some(CONSUMER),
        }
    }

    /// Whether the members say which topics they read.
    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some() && self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// A JoinGroup. The answer comes by the outbox, now or later.
    pub(crate) fn join(&mut self, token: Token, request: &JoinRequest, now_ms: i64) {
        if !self.supports(&request.protocol_type, request) {
            self.refuse_join(token, ResponseError::InconsistentGroupProtocol, &request.member_id);
        } else if request.member_id.is_empty() {
            self.join_new(token, request, now_ms);
        } else if self.pending.contains_key(&request.member_id) {
            self.add_member(token, &request.member_id.clone(), request, now_ms);
        } else {
            self.join_existing(token, request, now_ms);
        }
    }

    fn join_new(&mut self, token: Token, request: &JoinRequest, now_ms: i64) {
        let new_id = &request.new_member_id;
        let known = request.instance_id.as_ref().and_then(|instance| self.statics.get(instance).cloned());
        if let Some(old_id) = known {
            self.replace_static(token, &old_id, request, now_ms);
        } else if request.must_have_id && request.instance_id.is_none() {
            self.pending.insert(new_id.clone(), now_ms + i64::from(request.session_timeout_ms));
            self.refuse_join(token, ResponseError::MemberIdRequired, new_id);
        } else {
            self.add_member(token, new_id, request, now_ms);
        }
    }

    fn join_existing(&mut self, token: Token, request: &JoinRequest, now_ms: i64) {
        let id = request.member_id.as_str();
        if let Err(error) = self.check_member(id, request.instance_id.as_deref()) {
            return self.refuse_join(token, error, id);
        }
        let same = self.members.get(id).is_some_and(|member| member.protocols == request.protocols);
        let is_leader = self.leader.as_deref() == Some(id);
        match self.state {
            // The answer to the JoinGroup got lost: give it again.
            GroupState::CompletingRebalance if same => self.answer_current(token, id, false),
            GroupState::Stable if same && !is_leader => self.answer_current(token, id, false),
            GroupState::Empty => self.refuse_join(token, ResponseError::UnknownMemberId, id),
            _ => {
                self.update_member(token, id, request);
                self.rebalance_or_complete(now_ms);
            }
        }
    }

    /// Takes a member in; a new one, or one that comes back with the id it was given.
    fn add_member(&mut self, token: Token, id: &str, request: &JoinRequest, now_ms: i64) {
        self.pending.remove(id);
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        if let Some(instance) = &request.instance_id {
            self.statics.insert(instance.clone(), id.to_owned());
        }
        self.leader.get_or_insert_with(|| id.to_owned());
        let mut member = Member::from_join(request, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS);
        member.joining = Some(token);
        self.members.insert(id.to_owned(), member);
        self.rebalance_or_complete(now_ms);
    }

    fn update_member(&mut self, token: Token, id: &str, request: &JoinRequest) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.protocols.clone_from(&request.protocols);
        member.session_timeout_ms = request.session_timeout_ms;
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        let superseded = member.joining.replace(token);
        if let Some(old) = superseded.filter(|&old| old != token) {
            self.refuse_join(old, ResponseError::RebalanceInProgress, id);
        }
    }

    /// A static member came back after a restart: it takes the place, and the old one is fenced.
    fn replace_static(&mut self, token: Token, old_id: &str, request: &JoinRequest, now_ms: i64) {
        let new_id = request.new_member_id.as_str();
        let Some(mut member) = self.members.remove(old_id) else { return };
        if let Some(joining) = member.joining.take() {
            self.refuse_join(joining, ResponseError::FencedInstanceId, old_id);
        }
        if let Some(syncing) = member.syncing.take() {
            self.outbox.push((syncing, Reply::Sync(Err(ResponseError::FencedInstanceId))));
        }
        let old_leader = self.leader.clone().unwrap_or_default();
        if old_leader == old_id {
            self.leader = Some(new_id.to_owned());
        }
        if self.unsynced.remove(old_id) {
            self.unsynced.insert(new_id.to_owned());
        }
        if let Some(instance) = &member.instance_id {
            self.statics.insert(instance.clone(), new_id.to_owned());
        }
        member.keep_alive(now_ms);
        self.members.insert(new_id.to_owned(), member);
        self.update_member(token, new_id, request);
        match self.state {
            GroupState::Stable if self.protocol == self.select_protocol() => {
                if let Some(member) = self.members.get_mut(new_id) {
                    member.joining = None;
                }
                self.changed = true;
                if request.may_skip_assignment {
                    self.answer_current(token, new_id, self.leader.as_deref() == Some(new_id));
                } else {
                    // An old client that reads that it leads would assign anew: it is told of the old leader.
                    self.answer_as_follower(token, new_id, old_leader);
                }
            }
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(now_ms),
            GroupState::Empty | GroupState::PreparingRebalance => self.complete_join_if_all(now_ms),
        }
    }

    /// A SyncGroup. The answer comes by the outbox, now or later.
    pub(crate) fn sync(&mut self, token: Token, request: &SyncRequest, now_ms: i64) {
        let id = request.member_id.as_str();
        if let Err(error) = self.check_sync(request) {
            self.outbox.push((token, Reply::Sync(Err(error))));
            return;
        }
        match self.state {
            GroupState::Empty => self.outbox.push((token, Reply::Sync(Err(ResponseError::UnknownMemberId)))),
            GroupState::PreparingRebalance => {
                self.outbox.push((token, Reply::Sync(Err(ResponseError::RebalanceInProgress))));
            }
            GroupState::CompletingRebalance => {
                self.synced(id);
                let superseded = self.members.get_mut(id).and_then(|member| member.syncing.replace(token));
                if let Some(old) = superseded {
                    self.outbox.push((old, Reply::Sync(Err(ResponseError::RebalanceInProgress))));
                }
                if self.leader.as_deref() == Some(id) {
                    self.assign(&request.assignments, now_ms);
                }
            }
            GroupState::Stable => {
                self.synced(id);
                let assignment = self.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default();
                self.outbox.push((token, Reply::Sync(Ok(self.assigned(assignment)))));
            }
        }
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), ResponseError> {
        self.check_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        let differs = |said: &Option<String>, known: &Option<String>| said.is_some() && said != known;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol, &self.protocol) {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn synced(&mut self, id: &str) {
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.sync_deadline_ms = None;
        }
    }

    fn assign(&mut self, assignments: &BTreeMap<String, Bytes>, now_ms: i64) {
        for (id, member) in &mut self.members {
            member.assignment = assignments.get(id).cloned().unwrap_or_default();
        }
        self.enter(GroupState::Stable, now_ms);
        self.changed = true;
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        for member in self.members.values_mut() {
            if let Some(token) = member.syncing.take() {
                member.keep_alive(now_ms);
                let assignment = member.assignment.clone();
                let (protocol_type, protocol) = (protocol_type.clone(), protocol.clone());
                self.outbox.push((token, Reply::Sync(Ok(Synced { protocol_type, protocol, assignment }))));
            }
        }
    }

    fn assigned(&self, assignment: Bytes) -> Synced {
        Synced { protocol_type: self.protocol_type.clone(), protocol: self.protocol.clone(), assignment }
    }

    /// A Heartbeat.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID`, `FENCED_INSTANCE_ID`, `ILLEGAL_GENERATION`, `REBALANCE_IN_PROGRESS`.
    pub(crate) fn heartbeat(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        self.keep_alive(id, now_ms);
        match self.state {
            GroupState::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
            GroupState::Empty => Err(ResponseError::UnknownMemberId),
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        }
    }

    /// LeaveGroup of several members, each by its id or, without one, by its `group.instance.id`.
    pub(crate) fn leave(
        &mut self,
        leaving: &[(String, Option<String>)],
        now_ms: i64,
    ) -> Vec<Result<(), ResponseError>> {
        let results: Vec<_> = leaving.iter().map(|(id, instance)| self.leave_one(id, instance.as_deref())).collect();
        if results.iter().any(Result::is_ok) {
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(now_ms),
                GroupState::PreparingRebalance => self.complete_join_if_all(now_ms),
                GroupState::Empty => {}
            }
        }
        results
    }

    fn leave_one(&mut self, id: &str, instance: Option<&str>) -> Result<(), ResponseError> {
        if id.is_empty() {
            let known = instance.and_then(|instance| self.statics.get(instance).cloned());
            self.remove(&known.ok_or(ResponseError::UnknownMemberId)?);
            return Ok(());
        }
        if self.pending.remove(id).is_none() {
            self.check_member(id, instance)?;
            self.remove(id);
        }
        Ok(())
    }

    /// Whether offsets may be committed by who says so.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID`, `FENCED_INSTANCE_ID`, `ILLEGAL_GENERATION`, and `REBALANCE_IN_PROGRESS` unless
    /// it is part of a transaction.
    pub(crate) fn check_commit(&self, who: &Committer<'_>, transactional: bool) -> Result<(), ResponseError> {
        if who.generation < 0 && self.state == GroupState::Empty {
            return Ok(());
        }
        if who.generation >= 0 || !who.member_id.is_empty() || who.instance_id.is_some() {
            self.check_member(who.member_id, who.instance_id)?;
            if who.generation != self.generation {
                return Err(ResponseError::IllegalGeneration);
            }
        } else if !transactional {
            return Err(ResponseError::UnknownMemberId);
        }
        if !transactional && self.state == GroupState::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        Ok(())
    }

    /// A sign of life of a member.
    pub(crate) fn keep_alive(&mut self, id: &str, now_ms: i64) {
        if let Some(member) = self.members.get_mut(id) {
            member.keep_alive(now_ms);
        }
    }

    fn supports(&self, protocol_type: &str, request: &JoinRequest) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let shared = |name: &str| self.members.values().all(|member| member.supports(name));
        self.protocol_type.as_deref() == Some(protocol_type)
            && request.protocols.iter().any(|known| shared(&known.name))
    }

    fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), ResponseError> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(known) if known != id => return Err(ResponseError::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(ResponseError::UnknownMemberId) }
    }

    fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    fn enter(&mut self, state: GroupState, now_ms: i64) {
        self.state = state;
        self.since_ms = now_ms;
    }

    fn refuse_join(&mut self, token: Token, error: ResponseError, member_id: &str) {
        self.outbox.push((token, Reply::Join(Err(JoinRefused { error, member_id: member_id.to_owned() }))));
    }

    /// Answers a JoinGroup with the generation that is there.
    fn answer_current(&mut self, token: Token, id: &str, skip_assignment: bool) {
        let leader = self.leader.clone().unwrap_or_default();
        let members = if leader == id { self.joined_members() } else { Vec::new() };
        self.answer(token, id, leader, members, skip_assignment);
    }

    fn answer_as_follower(&mut self, token: Token, id: &str, leader: String) {
        self.answer(token, id, leader, Vec::new(), false);
    }

    fn answer(&mut self, token: Token, id: &str, leader: String, members: Vec<JoinedMember>, skip_assignment: bool) {
        let joined = Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader,
            member_id: id.to_owned(),
            members,
            skip_assignment,
        };
        self.outbox.push((token, Reply::Join(Ok(joined))));
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let member = |(id, member): (&String, &Member)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(self.protocol.as_deref()),
        };
        self.members.iter().map(member).collect()
    }
}

/// A SyncGroup.
#[derive(Clone, Debug)]
pub(crate) struct SyncRequest {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) generation: i32,
    /// What the member thinks the group agreed on, if it says so (SyncGroup 5).
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    /// From the leader: what each member gets.
    pub(crate) assignments: BTreeMap<String, Bytes>,
}

/// Who commits offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committer<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// -1 for somebody who is no member.
    pub(crate) generation: i32,
}
