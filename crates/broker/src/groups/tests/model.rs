//! Random members against what any group must keep to.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;

use super::super::machine::{Group, GroupState, SyncRequest};
use super::super::member::{JoinRequest, Protocol, Reply};

#[derive(Clone, Debug)]
enum Op {
    Join { client: usize, fresh: bool, static_member: bool, metadata: u8, must: bool },
    Sync { client: usize },
    Beat { client: usize },
    Leave { client: usize },
    Tick { ms: i64 },
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..4_usize;
    let flags = (any::<bool>(), any::<bool>(), 0..2_u8, any::<bool>());
    prop_oneof![
        8 => (client.clone(), flags).prop_map(|(client, (fresh, static_member, metadata, must))| {
            Op::Join { client, fresh, static_member: static_member && client == 0, metadata, must }
        }),
        6 => client.clone().prop_map(|client| Op::Sync { client }),
        2 => client.clone().prop_map(|client| Op::Beat { client }),
        1 => client.prop_map(|client| Op::Leave { client }),
        3 => (0..9_000_i64).prop_map(|ms| Op::Tick { ms }),
        1 => Just(Op::Restart),
    ]
}

#[derive(Default)]
struct Client {
    member_id: String,
    instance_id: Option<String>,
    generation: i32,
}

struct Model {
    group: Group,
    now_ms: i64,
    clients: Vec<Client>,
    /// Client of each request that has no answer yet.
    waiting: BTreeMap<u64, usize>,
    next_token: u64,
    next_member: u32,
    /// What was handed out, by generation and member: one answer for all times.
    handed: BTreeMap<(i32, String), Bytes>,
    leaders: BTreeMap<i32, BTreeSet<String>>,
    generation: i32,
}

impl Model {
    fn new() -> Model {
        Model {
            group: Group::new(0),
            now_ms: 0,
            clients: (0..4).map(|_| Client::default()).collect(),
            waiting: BTreeMap::new(),
            next_token: 0,
            next_member: 0,
            handed: BTreeMap::new(),
            leaders: BTreeMap::new(),
            generation: 0,
        }
    }

    fn token(&mut self, client: usize) -> u64 {
        self.next_token += 1;
        self.waiting.insert(self.next_token, client);
        self.next_token
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Join { client, fresh, static_member, metadata, must } => {
                self.next_member += 1;
                let member_id = if fresh { String::new() } else { self.clients[client].member_id.clone() };
                let instance_id = if fresh {
                    static_member.then(|| "static".to_owned())
                } else {
                    self.clients[client].instance_id.clone()
                };
                self.clients[client].instance_id.clone_from(&instance_id);
                let request = JoinRequest {
                    member_id,
                    instance_id,
                    client_id: String::new(),
                    client_host: String::new(),
                    protocol_type: "consumer".to_owned(),
                    protocols: vec![Protocol { name: "range".to_owned(), metadata: vec![metadata].into() }],
                    session_timeout_ms: 10_000,
                    rebalance_timeout_ms: 20_000,
                    new_member_id: format!("m{}", self.next_member),
                    must_have_id: must,
                    may_skip_assignment: must,
                };
                let token = self.token(client);
                self.group.join(token, &request, self.now_ms);
            }
            Op::Sync { client } => self.sync(client),
            Op::Beat { client } => {
                let of = &self.clients[client];
                let instance = of.instance_id.as_deref();
                let _ = self.group.heartbeat(&of.member_id, instance, of.generation, self.now_ms);
            }
            Op::Leave { client } => {
                let of = &self.clients[client];
                self.group.leave(&[(of.member_id.clone(), of.instance_id.clone())], self.now_ms);
            }
            Op::Tick { ms } => {
                self.now_ms += ms;
                self.group.tick(self.now_ms);
            }
            Op::Restart => {
                // Only a settled group is in the journal; connections and their requests are gone.
                if matches!(self.group.state, GroupState::Stable | GroupState::Empty) {
                    self.group = Group::restore(self.group.snapshot(), self.now_ms);
                    self.waiting.clear();
                }
            }
        }
        self.answers();
        self.check();
    }

    fn sync(&mut self, client: usize) {
        let token = self.token(client);
        let of = &self.clients[client];
        let members = self.group.members.keys();
        let given = |id: &String| (id.clone(), Bytes::from(format!("{} {id} {token}", of.generation)));
        let request = SyncRequest {
            member_id: of.member_id.clone(),
            instance_id: of.instance_id.clone(),
            generation: of.generation,
            protocol_type: None,
            protocol: None,
            assignments: members.map(given).collect(),
        };
        self.group.sync(token, &request, self.now_ms);
    }

    fn answers(&mut self) {
        for (token, reply) in self.group.take_replies() {
            let client = self.waiting.remove(&token).expect("a request is answered once");
            match reply {
                Reply::Join(Ok(joined)) => {
                    self.leaders.entry(joined.generation).or_default().insert(joined.leader.clone());
                    self.clients[client].member_id = joined.member_id;
                    self.clients[client].generation = joined.generation;
                }
                Reply::Join(Err(refused)) => self.clients[client].member_id = refused.member_id,
                Reply::Sync(Ok(synced)) => {
                    let of = &self.clients[client];
                    let handed = self.handed.entry((of.generation, of.member_id.clone()));
                    let first = handed.or_insert_with(|| synced.assignment.clone());
                    // A static member that took another's place has the assignment under the old name.
                    assert_eq!(*first, synced.assignment, "generation {} of {}", of.generation, of.member_id);
                }
                Reply::Sync(Err(_)) => {}
            }
        }
    }

    fn check(&mut self) {
        let group = &self.group;
        assert!(group.generation >= self.generation, "a generation came again");
        self.generation = group.generation;
        match group.state {
            GroupState::Empty => assert!(group.members.is_empty()),
            GroupState::PreparingRebalance => {}
            GroupState::CompletingRebalance | GroupState::Stable => {
                let leader = group.leader.as_ref().expect("a generation has a leader");
                assert!(group.members.contains_key(leader));
            }
        }
        let asked = group.members.values().flat_map(|member| [member.joining, member.syncing]).flatten();
        let asked: BTreeSet<u64> = asked.collect();
        let waiting: BTreeSet<u64> = self.waiting.keys().copied().collect();
        assert_eq!(asked, waiting, "every request without answer is a member's, and no other");
        if group.state == GroupState::Stable {
            assert!(waiting.is_empty(), "nobody waits for a stable group");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn every_request_is_answered_and_every_generation_is_one(ops in proptest::collection::vec(op(), 1..100)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
        }
        // Left alone, a group is empty after the longest of its timeouts, and owes nobody an answer.
        for _ in 0..20 {
            model.apply(&Op::Tick { ms: 300_000 });
        }
        prop_assert_eq!(model.group.state, GroupState::Empty);
        prop_assert!(model.waiting.is_empty());
    }
}
