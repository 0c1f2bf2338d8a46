//! Groups on disk: what survives a restart, what expires, and what is refused.

use kafka_protocol::ResponseError;
use tempfile::TempDir;

use super::super::expiry::RETENTION_MS;
use super::super::{
    Committer, GroupState, Groups, JoinRefused, JoinRequest, Joined, Offset, Protocol, SLACK, SyncRequest,
};
use crate::options::BrokerOptions;
use crate::transactions::Partition;

const NOBODY: Committer<'_> = Committer { member_id: "", instance_id: None, generation: -1 };
const START_MS: i64 = 1_700_000_000_000;

struct World {
    folder: TempDir,
    groups: Groups,
    now_ms: i64,
}

fn at(topic: &str, partition: i32) -> Partition {
    (topic.to_owned(), partition)
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let groups = Groups::open(folder.path(), &BrokerOptions::default(), START_MS).expect("it can be opened");
        World { folder, groups, now_ms: START_MS }
    }

    fn restart(&mut self) {
        let options = BrokerOptions::default();
        self.groups = Groups::open(self.folder.path(), &options, self.now_ms).expect("it can be opened");
    }

    fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        self.groups.tick(self.now_ms).expect("the journal can be written");
    }

    fn offset(&self, offset: i64) -> Offset {
        let metadata = format!("m{offset}");
        Offset { offset, leader_epoch: 3, metadata, commit_ms: self.now_ms, expire_ms: None }
    }

    fn commit(&self, group: &str, topic: &str, offset: i64) -> Result<(), ResponseError> {
        let offsets = vec![(at(topic, 0), self.offset(offset))];
        self.groups.commit(group, NOBODY, offsets, ResponseError::IllegalGeneration, self.now_ms)
    }

    fn visible(&self, group: &str) -> Vec<(String, i64)> {
        let fetched = self.groups.fetch(group, None, false).into_iter();
        let offset =
            |(partition, offset): (Partition, Result<Option<Offset>, _>)| Some((partition.0, offset.ok()??.offset));
        fetched.filter_map(offset).collect()
    }

    async fn join(&self, group: &str, member_id: &str, topics: &[&str]) -> Result<Joined, JoinRefused> {
        let mut metadata = vec![0, 0];
        metadata.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            metadata.extend((topic.len() as i16).to_be_bytes());
            metadata.extend(topic.as_bytes());
        }
        let request = JoinRequest {
            member_id: member_id.to_owned(),
            instance_id: None,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![Protocol { name: "range".to_owned(), metadata: metadata.into() }],
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            new_member_id: "new".to_owned(),
            must_have_id: false,
            may_skip_assignment: false,
        };
        self.groups.join(group, request, self.now_ms).await
    }

    async fn sync(&self, group: &str, joined: &Joined) {
        let request = SyncRequest {
            member_id: joined.member_id.clone(),
            instance_id: None,
            generation: joined.generation,
            protocol_type: None,
            protocol: None,
            assignments: [(joined.member_id.clone(), "all"[..].into())].into(),
        };
        let synced = self.groups.sync(group, request, self.now_ms).await.expect("the leader's sync needs nobody");
        assert_eq!(&synced.assignment[..], b"all");
    }
}

#[test]
fn committed_offsets_survive_a_restart_with_all_they_hold() {
    let mut world = World::new();
    world.commit("g", "t", 5).expect("it can be committed");
    world.commit("g", "t", 6).expect("it can be committed");
    let before = world.groups.fetch("g", Some(vec![at("t", 0), at("t", 1)]), true);
    assert_eq!(before, [(at("t", 0), Ok(Some(world.offset(6)))), (at("t", 1), Ok(None))]);
    world.restart();
    assert_eq!(world.groups.fetch("g", Some(vec![at("t", 0), at("t", 1)]), true), before);
    assert_eq!(world.groups.describe("g").expect("it is there").state, GroupState::Empty);
    assert!(world.groups.fetch("h", None, true).is_empty());
}

#[tokio::test]
async fn members_go_on_after_a_restart_as_if_nothing_happened() {
    let mut world = World::new();
    let joined = world.join("g", "", &["t"]).await.expect("the first member need not wait");
    world.sync("g", &joined).await;
    world.restart();
    let beat = |world: &World| world.groups.heartbeat("g", "new", None, joined.generation, world.now_ms);
    assert_eq!(beat(&world), Ok(()));
    let view = world.groups.describe("g").expect("it is there");
    assert_eq!((view.state, view.protocol.as_str(), view.members.len()), (GroupState::Stable, "range", 1));
    assert_eq!(&view.members[0].assignment[..], b"all");
    let who = Committer { member_id: "new", instance_id: None, generation: joined.generation };
    let offsets = vec![(at("t", 0), world.offset(9))];
    world.groups.commit("g", who, offsets, ResponseError::IllegalGeneration, world.now_ms).expect("a member commits");

    world.pass(10_000);
    assert_eq!(beat(&world), Err(ResponseError::UnknownMemberId));
    world.restart();
    let view = world.groups.describe("g").expect("its offsets are there");
    assert_eq!((view.state, view.protocol_type.as_str()), (GroupState::Empty, "consumer"));
    let again = world.join("g", "", &["t"]).await.expect("the first member need not wait");
    assert!(again.generation > joined.generation, "an old generation must not come again");
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    let refused = |error, member_id: &str| Err(JoinRefused { error, member_id: member_id.to_owned() });
    assert_eq!(world.join("", "", &[]).await, refused(ResponseError::InvalidGroupId, ""));
    assert_eq!(world.join("g", "a", &[]).await, refused(ResponseError::UnknownMemberId, "a"));
    assert!(world.groups.list().is_empty(), "a refused member makes no group");
    for session_timeout_ms in [0, 5_999, 1_800_001] {
        let request = JoinRequest {
            member_id: String::new(),
            instance_id: None,
            client_id: String::new(),
            client_host: String::new(),
            protocol_type: "consumer".to_owned(),
            protocols: Vec::new(),
            session_timeout_ms,
            rebalance_timeout_ms: 0,
            new_member_id: String::new(),
            must_have_id: false,
            may_skip_assignment: false,
        };
        let joined = world.groups.join("g", request, world.now_ms).await;
        assert_eq!(joined, refused(ResponseError::InvalidSessionTimeout, ""));
    }
    assert_eq!(world.groups.heartbeat("g", "a", None, 0, 0), Err(ResponseError::UnknownMemberId));
    assert_eq!(world.groups.heartbeat("", "a", None, 0, 0), Err(ResponseError::InvalidGroupId));
    assert_eq!(world.groups.leave("", &[], 0), Err(ResponseError::InvalidGroupId));
    let leaving = [("a".to_owned(), None), ("b".to_owned(), None)];
    assert_eq!(world.groups.leave("g", &leaving, 0), Ok(vec![Err(ResponseError::UnknownMemberId); 2]));
    let member = Committer { member_id: "a", instance_id: None, generation: 1 };
    let commit = |error| world.groups.commit("g", member, Vec::new(), error, 0);
    assert_eq!(commit(ResponseError::GroupIdNotFound), Err(ResponseError::GroupIdNotFound));
    assert_eq!(world.groups.stage("g", 1, member, Vec::new(), 0), Err(ResponseError::IllegalGeneration));
}

#[tokio::test]
async fn only_empty_groups_and_unread_topics_are_deleted() {
    let mut world = World::new();
    assert_eq!(world.groups.delete(""), Err(ResponseError::InvalidGroupId));
    assert_eq!(world.groups.delete("g"), Err(ResponseError::GroupIdNotFound));
    assert_eq!(world.groups.delete_offsets("g", &[at("t", 0)]), Err(ResponseError::GroupIdNotFound));
    world.commit("g", "t", 1).expect("it can be committed");
    world.commit("g", "u", 2).expect("it can be committed");
    let joined = world.join("g", "", &["t"]).await.expect("the first member need not wait");
    world.sync("g", &joined).await;
    assert_eq!(world.groups.delete("g"), Err(ResponseError::NonEmptyGroup));
    let deleted = world.groups.delete_offsets("g", &[at("t", 0), at("u", 0), at("v", 0)]);
    assert_eq!(deleted, Ok(vec![Err(ResponseError::GroupSubscribedToTopic), Ok(()), Ok(())]));
    assert_eq!(world.visible("g"), [("t".to_owned(), 1)]);
    world.groups.leave("g", &[("new".to_owned(), None)], world.now_ms).expect("it may leave");
    world.groups.delete("g").expect("it is empty");
    world.restart();
    assert!(world.groups.list().is_empty() && world.visible("g").is_empty());
}

#[test]
fn a_deleted_topic_takes_its_offsets_along() {
    let mut world = World::new();
    world.commit("g", "t", 1).expect("it can be committed");
    world.commit("g", "u", 2).expect("it can be committed");
    world.groups.stage("g", 7, NOBODY, vec![(at("t", 1), world.offset(3))], world.now_ms).expect("it can be staged");
    world.groups.topic_deleted("t").expect("the journal can be written");
    world.groups.end_transaction(7, true, world.now_ms).expect("it can be ended");
    assert_eq!(world.visible("g"), [("u".to_owned(), 2)]);
    world.restart();
    assert_eq!(world.visible("g"), [("u".to_owned(), 2)]);
}

#[tokio::test]
async fn offsets_outlive_their_group_by_the_retention() {
    let mut world = World::new();
    // A simple group's offsets age from their commit, the last one included.
    world.commit("simple", "t", 1).expect("it can be committed");
    let joined = world.join("used", "", &["t"]).await.expect("the first member need not wait");
    world.sync("used", &joined).await;
    let who = Committer { member_id: "new", instance_id: None, generation: joined.generation };
    let offsets = vec![(at("t", 0), world.offset(1)), (at("u", 0), world.offset(2))];
    world.groups.commit("used", who, offsets, ResponseError::IllegalGeneration, world.now_ms).expect("it commits");
    let keep = |world: &World| world.groups.heartbeat("used", "new", None, joined.generation, world.now_ms);

    world.now_ms += RETENTION_MS - 1;
    keep(&world).expect("its session did not tick");
    world.pass(0);
    assert_eq!((world.visible("simple").len(), world.visible("used").len()), (1, 2));
    world.now_ms += 10 * 60 * 1000;
    keep(&world).expect("its session did not tick");
    world.pass(0);
    assert!(world.visible("simple").is_empty() && world.groups.describe("simple").is_none());
    assert_eq!(world.visible("used"), [("t".to_owned(), 1)], "a topic that nobody reads any more ages");

    world.groups.leave("used", &[("new".to_owned(), None)], world.now_ms).expect("it may leave");
    world.pass(RETENTION_MS - 1);
    assert_eq!(world.visible("used").len(), 1);
    world.pass(10 * 60 * 1000);
    world.restart();
    assert!(world.groups.list().is_empty());
}

#[test]
fn an_offset_with_a_time_of_its_own_expires_then() {
    let mut world = World::new();
    let short = Offset { expire_ms: Some(START_MS + 5_000), ..world.offset(1) };
    let offsets = vec![(at("t", 0), short), (at("t", 1), world.offset(2))];
    world.groups.commit("g", NOBODY, offsets, ResponseError::IllegalGeneration, world.now_ms).expect("it commits");
    world.pass(4_999);
    world.pass(10 * 60 * 1000);
    assert_eq!(world.visible("g"), [("t".to_owned(), 2)]);
}

#[test]
fn the_journal_stays_short_and_keeps_what_counts() {
    let mut world = World::new();
    world.groups.stage("g", 7, NOBODY, vec![(at("t", 0), world.offset(1))], world.now_ms).expect("it can be staged");
    let last = SLACK as i64 + 10;
    for offset in 0..=last {
        world.commit("g", "u", offset).expect("it can be committed");
    }
    let size =
        |world: &World| std::fs::metadata(world.folder.path().join("groups.journal")).expect("the journal").len();
    let long = size(&world);
    world.pass(0);
    assert!(size(&world) < 1_000 && long > 100_000);
    world.restart();
    assert_eq!(world.visible("g"), [("u".to_owned(), last)]);
    world.groups.end_transaction(7, true, world.now_ms).expect("it can be ended");
    assert_eq!(world.visible("g").len(), 2, "what was staged is still there");
}
