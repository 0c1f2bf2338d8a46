//! The phases of a rebalance, and the deadlines that end them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::ResponseError;

use super::super::member::{Member, Reply};
use super::super::subscription;
use super::{CONSUMER, Group, GroupState};

impl Group {
    /// Lets time pass: sessions, the join phase and the sync phase end.
    pub(crate) fn tick(&mut self, now_ms: i64) {
        self.expire_pending(now_ms);
        self.expire_sessions(now_ms);
        if self.join_deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
            self.complete_join(now_ms);
        }
        if self.sync_deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
            for id in std::mem::take(&mut self.unsynced) {
                self.remove(&id);
            }
            self.prepare_rebalance(now_ms);
        }
    }

    fn expire_pending(&mut self, now_ms: i64) {
        let before = self.pending.len();
        self.pending.retain(|_, &mut deadline| deadline > now_ms);
        if self.pending.len() < before {
            self.complete_join_if_all(now_ms);
        }
    }

    fn expire_sessions(&mut self, now_ms: i64) {
        let late = |member: &Member| member.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
        let late: Vec<String> =
            self.members.iter().filter(|(_, member)| late(member)).map(|(id, _)| id.clone()).collect();
        for id in late {
            let Some(member) = self.members.get_mut(&id) else { continue };
            if !member.is_new && (member.joining.is_some() || member.syncing.is_some()) {
                // It waits for us; its session begins again with our answer.
                member.deadline_ms = None;
                continue;
            }
            self.remove(&id);
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(now_ms),
                GroupState::PreparingRebalance => self.complete_join_if_all(now_ms),
                GroupState::Empty => {}
            }
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        let Some(member) = self.members.remove(id) else { return };
        if let Some(token) = member.joining {
            self.refuse_join(token, ResponseError::UnknownMemberId, "");
        }
        if let Some(token) = member.syncing {
            self.outbox.push((token, Reply::Sync(Err(ResponseError::UnknownMemberId))));
        }
        if let Some(instance) = &member.instance_id {
            self.statics.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.unsynced.remove(id);
    }

    pub(super) fn rebalance_or_complete(&mut self, now_ms: i64) {
        match self.state {
            GroupState::PreparingRebalance => self.complete_join_if_all(now_ms),
            _ => self.prepare_rebalance(now_ms),
        }
    }

    pub(super) fn prepare_rebalance(&mut self, now_ms: i64) {
        for member in self.members.values_mut().filter(|_| self.state == GroupState::CompletingRebalance) {
            member.assignment = Bytes::new();
            if let Some(token) = member.syncing.take() {
                member.keep_alive(now_ms);
                self.outbox.push((token, Reply::Sync(Err(ResponseError::RebalanceInProgress))));
            }
        }
        self.unsynced.clear();
        self.sync_deadline_ms = None;
        let first = self.state == GroupState::Empty;
        self.enter(GroupState::PreparingRebalance, now_ms);
        if first {
            self.complete_join(now_ms);
        } else {
            self.join_deadline_ms = Some(now_ms + self.rebalance_timeout_ms());
            self.complete_join_if_all(now_ms);
        }
    }

    pub(super) fn complete_join_if_all(&mut self, now_ms: i64) {
        let all = self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some());
        if self.state == GroupState::PreparingRebalance && all {
            self.complete_join(now_ms);
        }
    }

    /// Ends the join phase: a new generation of those who joined.
    fn complete_join(&mut self, now_ms: i64) {
        self.join_deadline_ms = None;
        let absent = |member: &Member| member.joining.is_none() && member.instance_id.is_none();
        let absent: Vec<String> =
            self.members.iter().filter(|(_, member)| absent(member)).map(|(id, _)| id.clone()).collect();
        absent.iter().for_each(|id| self.remove(id));
        if !self.elect_leader() {
            // Only static members that are away: give them their time once more.
            self.join_deadline_ms = Some(now_ms + self.rebalance_timeout_ms());
            return;
        }
        self.generation = self.generation.wrapping_add(1).max(0);
        self.unsynced.clear();
        self.sync_deadline_ms = None;
        self.protocol = self.select_protocol();
        self.subscribed = self.subscribed_topics();
        if self.members.is_empty() {
            self.enter(GroupState::Empty, now_ms);
            self.changed = true;
            return;
        }
        self.enter(GroupState::CompletingRebalance, now_ms);
        self.unsynced = self.members.keys().cloned().collect();
        self.sync_deadline_ms = Some(now_ms + self.rebalance_timeout_ms());
        for id in self.unsynced.clone() {
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.is_new = false;
            member.keep_alive(now_ms);
            if let Some(token) = member.joining.take() {
                self.answer_current(token, &id, false);
            }
        }
    }

    /// Makes sure that the leader is somebody who joined; false if nobody did, though somebody is there.
    fn elect_leader(&mut self) -> bool {
        let joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if self.members.is_empty() || self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let Some(id) = self.members.keys().find(|id| joined(id)).cloned() else { return false };
        self.leader = Some(id);
        true
    }

    /// The protocol that most members like best of those that all can follow.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let candidate =
                member.protocols.iter().find(|known| self.members.values().all(|m| m.supports(&known.name)));
            if let Some(known) = candidate {
                *votes.entry(&known.name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|&(_, count)| count).map(|(name, _)| name.to_owned())
    }

    pub(super) fn subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        let protocol = self.protocol.as_deref();
        let topics: Option<Vec<_>> =
            self.members.values().map(|member| subscription::topics(&member.metadata(protocol))).collect();
        topics.map(|topics| topics.into_iter().flatten().collect())
    }
}
