//! The group coordinator: members of consumer groups, and the offsets they commit.
//!
//! [`machine`] decides who is in a group, [`offsets`] which offsets are visible; both are told the time.
//! This file writes their changes to the journal before anybody learns of them, and lets requests wait:
//! a JoinGroup waits for the other members, a SyncGroup for the leader.
//!
//! Offsets of a transaction are kept here from TxnOffsetCommit on, invisible, until the transaction
//! coordinator says how it ended. A group's members and generation are kept too, so that a restart of the
//! broker does not make its members start over.

mod expiry;
mod machine;
mod member;
mod offsets;
mod subscription;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use self::machine::Group;
pub(crate) use self::machine::{Committer, GroupState, SyncRequest};
use self::member::{GroupSnapshot, Reply, Token};
pub(crate) use self::member::{JoinRefused, JoinRequest, Joined, Protocol, Synced};
pub(crate) use self::offsets::Offset;
use self::offsets::{Change, Offsets};
use crate::journal::Journal;
use crate::options::BrokerOptions;
use crate::report::Report;
use crate::transactions::Partition;

/// Shortest and longest session a member may ask for (`group.{min,max}.session.timeout.ms`).
const SESSION_TIMEOUT_MS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;
/// The journal is rewritten when it has this many entries more than needed.
const SLACK: usize = 10_000;

/// One change, written before it is acknowledged.
#[derive(Debug, Serialize, Deserialize)]
enum Entry {
    Offsets(Change),
    /// A group's members and generation; absent if the group is gone.
    Group {
        id: String,
        group: Option<GroupSnapshot>,
    },
}

/// All groups. Every method is a step of its own; they do not overlap.
pub(crate) struct Groups {
    inner: Mutex<Inner>,
    report: Report,
}

struct Inner {
    journal: Journal<Entry>,
    groups: BTreeMap<String, Group>,
    offsets: Offsets,
    waiting: HashMap<Token, oneshot::Sender<Reply>>,
    next_token: Token,
    /// When offsets are next looked at for their age.
    expire_at_ms: i64,
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug)]
pub(crate) struct GroupView {
    pub(crate) id: String,
    pub(crate) state: GroupState,
    pub(crate) protocol_type: String,
    /// The protocol of a stable group, else empty.
    pub(crate) protocol: String,
    pub(crate) members: Vec<MemberView>,
}

/// A member as DescribeGroups shows it, with its last assignment; metadata is empty unless the group is stable.
#[derive(Clone, Debug)]
pub(crate) struct MemberView {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}

impl Groups {
    /// Reads `<data>/groups.journal`.
    pub(crate) fn open(data: &Path, options: &BrokerOptions, now_ms: i64) -> io::Result<Groups> {
        let (journal, entries) = Journal::open(&data.join("groups.journal"))?;
        let mut snapshots = BTreeMap::new();
        let mut offsets = Offsets::default();
        for entry in entries {
            match entry {
                Entry::Offsets(change) => offsets.apply(change),
                Entry::Group { id, group: Some(group) } => drop(snapshots.insert(id, group)),
                Entry::Group { id, group: None } => drop(snapshots.remove(&id)),
            }
        }
        let restored = snapshots.into_iter().map(|(id, snapshot)| (id, Group::restore(snapshot, now_ms)));
        let mut groups: BTreeMap<String, Group> = restored.collect();
        for id in offsets.groups() {
            groups.entry(id.clone()).or_insert_with(|| Group::new(now_ms));
        }
        let waiting = HashMap::new();
        let inner = Inner { journal, groups, offsets, waiting, next_token: 0, expire_at_ms: now_ms };
        Ok(Groups { inner: Mutex::new(inner), report: options.report.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No method leaves a change half made, so a panic elsewhere does not spoil what is here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports trouble of the disk; the client is told to look for the coordinator again, which it retries.
    fn storage(&self, error: &io::Error) -> ResponseError {
        self.report.trouble(&format!("cannot write the journal of consumer groups: {error}"));
        ResponseError::NotCoordinator
    }

    /// JoinGroup; waits until the group has a new generation.
    ///
    /// # Errors
    /// Kafka's, with the id that the member goes on with.
    pub(crate) async fn join(&self, id: &str, request: JoinRequest, now_ms: i64) -> Result<Joined, JoinRefused> {
        let refused = |error| Err(JoinRefused { error, member_id: request.member_id.clone() });
        if id.is_empty() {
            return refused(ResponseError::InvalidGroupId);
        }
        if !SESSION_TIMEOUT_MS.contains(&request.session_timeout_ms) {
            return refused(ResponseError::InvalidSessionTimeout);
        }
        let answer = {
            let mut inner = self.lock();
            if !inner.groups.contains_key(id) {
                if !request.member_id.is_empty() {
                    return refused(ResponseError::UnknownMemberId);
                }
                inner.groups.insert(id.to_owned(), Group::new(now_ms));
            }
            self.ask(&mut inner, id, |group, token| group.join(token, &request, now_ms))
        };
        match answer.await {
            Ok(Reply::Join(joined)) => joined,
            _ => refused(ResponseError::CoordinatorNotAvailable),
        }
    }

    /// SyncGroup; waits for the leader's.
    ///
    /// # Errors
    /// Kafka's.
    pub(crate) async fn sync(&self, id: &str, request: SyncRequest, now_ms: i64) -> Result<Synced, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let answer = {
            let mut inner = self.lock();
            if !inner.groups.contains_key(id) {
                return Err(ResponseError::UnknownMemberId);
            }
            self.ask(&mut inner, id, |group, token| group.sync(token, &request, now_ms))
        };
        match answer.await {
            Ok(Reply::Sync(synced)) => synced,
            _ => Err(ResponseError::CoordinatorNotAvailable),
        }
    }

    fn ask(&self, inner: &mut Inner, id: &str, question: impl FnOnce(&mut Group, Token)) -> oneshot::Receiver<Reply> {
        let (sender, answer) = oneshot::channel();
        let token = inner.next_token;
        inner.next_token += 1;
        inner.waiting.insert(token, sender);
        if let Some(group) = inner.groups.get_mut(id) {
            question(group, token);
        }
        self.settle(inner, id);
        answer
    }

    /// Writes what changed in a group, then gives its answers.
    fn settle(&self, inner: &mut Inner, id: &str) {
        let Some(group) = inner.groups.get_mut(id) else { return };
        let mut failed = None;
        if group.take_changed() {
            let entry = Entry::Group { id: id.to_owned(), group: Some(group.snapshot()) };
            failed = inner.journal.append(&entry).err().map(|error| self.storage(&error));
        }
        for (token, reply) in group.take_replies() {
            let reply = match (reply, failed) {
                (Reply::Sync(Ok(_)), Some(error)) => Reply::Sync(Err(error)),
                (reply, _) => reply,
            };
            if let Some(sender) = inner.waiting.remove(&token) {
                // Who does not wait any more has closed the connection.
                let _ = sender.send(reply);
            }
        }
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// Kafka's.
    pub(crate) fn heartbeat(
        &self,
        id: &str,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let mut inner = self.lock();
        let group = inner.groups.get_mut(id).ok_or(ResponseError::UnknownMemberId)?;
        group.heartbeat(member_id, instance_id, generation, now_ms)
    }

    /// LeaveGroup of several members, by id or else by `group.instance.id`; one result for each.
    ///
    /// # Errors
    /// `INVALID_GROUP_ID`.
    pub(crate) fn leave(
        &self,
        id: &str,
        leaving: &[(String, Option<String>)],
        now_ms: i64,
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let mut inner = self.lock();
        let Some(group) = inner.groups.get_mut(id) else {
            return Ok(vec![Err(ResponseError::UnknownMemberId); leaving.len()]);
        };
        let results = group.leave(leaving, now_ms);
        self.settle(&mut inner, id);
        Ok(results)
    }

    /// OffsetCommit.
    ///
    /// # Errors
    /// `unknown_group` if a member commits to a group that is not there; else see [`Group::check_commit`].
    pub(crate) fn commit(
        &self,
        id: &str,
        who: Committer<'_>,
        offsets: Vec<(Partition, Offset)>,
        unknown_group: ResponseError,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        let mut inner = self.lock();
        inner.check_commit(id, who, false, unknown_group, now_ms)?;
        self.change(&mut inner, Change::Commit { group: id.to_owned(), offsets })
    }

    /// TxnOffsetCommit: the offsets wait for the end of the producer's transaction, which the transaction
    /// coordinator keeps from ending meanwhile.
    ///
    /// # Errors
    /// See [`Group::check_commit`].
    pub(crate) fn stage(
        &self,
        id: &str,
        producer_id: i64,
        who: Committer<'_>,
        offsets: Vec<(Partition, Offset)>,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        let mut inner = self.lock();
        inner.check_commit(id, who, true, ResponseError::IllegalGeneration, now_ms)?;
        self.change(&mut inner, Change::Stage { producer_id, group: id.to_owned(), offsets })
    }

    /// The end of a transaction: what its producer staged becomes visible, or goes. May be repeated.
    pub(crate) fn end_transaction(&self, producer_id: i64, commit: bool, _now_ms: i64) -> Result<(), ResponseError> {
        let mut inner = self.lock();
        if !inner.offsets.is_staging(producer_id) {
            return Ok(());
        }
        self.change(&mut inner, Change::End { producer_id, commit })
    }

    fn change(&self, inner: &mut Inner, change: Change) -> Result<(), ResponseError> {
        let entry = Entry::Offsets(change);
        inner.journal.append(&entry).map_err(|error| self.storage(&error))?;
        if let Entry::Offsets(change) = entry {
            inner.offsets.apply(change);
        }
        Ok(())
    }

    /// OffsetFetch of some partitions, or of all that have an offset. `None` is "no offset".
    ///
    /// With `require_stable`, a partition whose offset an open transaction may change gives
    /// `UNSTABLE_OFFSET_COMMIT`.
    pub(crate) fn fetch(
        &self,
        id: &str,
        partitions: Option<Vec<Partition>>,
        require_stable: bool,
    ) -> Vec<(Partition, Result<Option<Offset>, ResponseError>)> {
        let inner = self.lock();
        let offsets = &inner.offsets;
        let partitions = partitions.unwrap_or_else(|| offsets.of_group(id).map(|(at, _)| at.clone()).collect());
        let offset = |partition: &Partition| match require_stable && offsets.is_staged(id, partition) {
            true => Err(ResponseError::UnstableOffsetCommit),
            false => Ok(offsets.get(id, partition).cloned()),
        };
        partitions.into_iter().map(|partition| (partition.clone(), offset(&partition))).collect()
    }

    /// OffsetDelete; one result for each partition.
    ///
    /// # Errors
    /// `INVALID_GROUP_ID`, `GROUP_ID_NOT_FOUND`, `NON_EMPTY_GROUP`.
    pub(crate) fn delete_offsets(
        &self,
        id: &str,
        partitions: &[Partition],
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let mut inner = self.lock();
        let group = inner.groups.get(id).ok_or(ResponseError::GroupIdNotFound)?;
        if group.state != GroupState::Empty && group.protocol_type.as_deref() != Some(machine::CONSUMER) {
            return Err(ResponseError::NonEmptyGroup);
        }
        let subscribed: BTreeSet<&Partition> =
            partitions.iter().filter(|(topic, _)| group.is_subscribed(topic)).collect();
        let results = partitions.iter().map(|partition| match subscribed.contains(partition) {
            true => Err(ResponseError::GroupSubscribedToTopic),
            false => Ok(()),
        });
        let results = results.collect();
        let partitions = partitions.iter().filter(|at| !subscribed.contains(at)).cloned().collect();
        self.change(&mut inner, Change::Delete { group: id.to_owned(), partitions })?;
        Ok(results)
    }

    /// DeleteGroups, of one group.
    ///
    /// # Errors
    /// `INVALID_GROUP_ID`, `GROUP_ID_NOT_FOUND`, `NON_EMPTY_GROUP`.
    pub(crate) fn delete(&self, id: &str) -> Result<(), ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let mut inner = self.lock();
        let group = inner.groups.get(id).ok_or(ResponseError::GroupIdNotFound)?;
        if group.state != GroupState::Empty {
            return Err(ResponseError::NonEmptyGroup);
        }
        inner.remove_group(id).map_err(|error| self.storage(&error))
    }

    /// Takes the offsets of a deleted topic away.
    pub(crate) fn topic_deleted(&self, topic: &str) -> io::Result<()> {
        let mut inner = self.lock();
        if !inner.offsets.knows_topic(topic) {
            return Ok(());
        }
        let change = Change::DeleteTopic { topic: topic.to_owned() };
        inner.journal.append(&Entry::Offsets(change.clone()))?;
        inner.offsets.apply(change);
        Ok(())
    }

    /// All groups, in order, without their members.
    pub(crate) fn list(&self) -> Vec<GroupView> {
        self.lock().groups.iter().map(|(id, group)| GroupView { members: Vec::new(), ..view(id, group) }).collect()
    }

    /// One group.
    pub(crate) fn describe(&self, id: &str) -> Option<GroupView> {
        self.lock().groups.get(id).map(|group| view(id, group))
    }

    /// Lets time pass: sessions, rebalances, the age of offsets; shortens the journal.
    pub(crate) fn tick(&self, now_ms: i64) -> io::Result<()> {
        let mut inner = self.lock();
        let ids: Vec<String> = inner.groups.keys().cloned().collect();
        for id in ids {
            if let Some(group) = inner.groups.get_mut(&id) {
                group.tick(now_ms);
            }
            self.settle(&mut inner, &id);
        }
        inner.expire(now_ms)?;
        inner.compact()
    }
}

fn view(id: &str, group: &Group) -> GroupView {
    let stable = group.state == GroupState::Stable;
    let members = group.members.iter().map(|(id, member)| MemberView {
        id: id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        metadata: if stable { member.metadata(group.protocol.as_deref()) } else { Bytes::new() },
        assignment: member.assignment.clone(),
    });
    GroupView {
        id: id.to_owned(),
        state: group.state,
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        protocol: group.protocol.clone().filter(|_| stable).unwrap_or_default(),
        members: members.collect(),
    }
}

impl Inner {
    fn check_commit(
        &mut self,
        id: &str,
        who: Committer<'_>,
        transactional: bool,
        unknown_group: ResponseError,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        if !self.groups.contains_key(id) {
            if who.generation >= 0 {
                return Err(unknown_group);
            }
            self.groups.insert(id.to_owned(), Group::new(now_ms));
        }
        let Some(group) = self.groups.get_mut(id) else { return Err(unknown_group) };
        group.check_commit(&who, transactional)?;
        if !transactional && matches!(group.state, GroupState::Stable | GroupState::PreparingRebalance) {
            group.keep_alive(who.member_id, now_ms);
        }
        Ok(())
    }

    fn remove_group(&mut self, id: &str) -> io::Result<()> {
        let offsets = Change::DeleteGroup { group: id.to_owned() };
        let gone = Entry::Group { id: id.to_owned(), group: None };
        self.journal.append_all(&[Entry::Offsets(offsets.clone()), gone])?;
        self.offsets.apply(offsets);
        self.groups.remove(id);
        Ok(())
    }

    fn compact(&mut self) -> io::Result<()> {
        if self.journal.len() < SLACK + 2 * (self.offsets.len() + self.groups.len()) {
            return Ok(());
        }
        let offsets = self.offsets.snapshot().into_iter().map(Entry::Offsets);
        // A simple group is made by its offsets.
        let groups = self.groups.iter().filter(|(_, group)| group.protocol_type.is_some());
        let groups = groups.map(|(id, group)| Entry::Group { id: id.clone(), group: Some(group.snapshot()) });
        let entries: Vec<Entry> = offsets.chain(groups).collect();
        self.journal.rewrite(entries)
    }
}
