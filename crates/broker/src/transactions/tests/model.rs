//! Random producers against a model that only remembers what they were told.
//!
//! Sessions of producers share transactional ids, so they fence each other; some go on as zombies, retry
//! ends whose answer was lost, or speak the other version of the protocol. The broker is killed at any
//! byte of its journals, with any number of markers written. What the model then demands:
//!
//! - a value is visible only if its commit was asked for, and never if its transaction was aborted;
//! - a value whose commit was acknowledged is visible in the end;
//! - group offsets follow the same two rules;
//! - of a transaction's records and offsets, all are visible or none, whatever became of it;
//! - an identity is given to one session only, and the epochs of a producer id never go back;
//! - in the end no transaction is open.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use proptest::prelude::*;

use super::super::Identity;
use super::world::World;

const IDS: [&str; 2] = ["x", "y"];

#[derive(Clone, Debug)]
enum Op {
    /// A session asks for an identity, as a new producer or as one that goes on.
    Init {
        session: usize,
        goes_on: bool,
    },
    Produce {
        session: usize,
        partition: i32,
    },
    /// Produces in version 1 without adding the partition first, as a buggy or delayed client.
    ProduceUnadded {
        session: usize,
        partition: i32,
    },
    Stage {
        session: usize,
    },
    End {
        session: usize,
        commit: bool,
    },
    Pass {
        ms: i64,
    },
    Restart,
    /// Ends, but the broker is killed meanwhile: after some markers, at some byte.
    KilledEnd {
        session: usize,
        commit: bool,
        markers: usize,
        at: f64,
    },
    KilledInit {
        session: usize,
        at: f64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..6_usize;
    let partition = 0..3_i32;
    prop_oneof![
        3 => (session.clone(), any::<bool>()).prop_map(|(session, goes_on)| Op::Init { session, goes_on }),
        8 => (session.clone(), partition.clone()).prop_map(|(session, partition)| Op::Produce { session, partition }),
        1 => (session.clone(), partition).prop_map(|(session, partition)| Op::ProduceUnadded { session, partition }),
        2 => session.clone().prop_map(|session| Op::Stage { session }),
        6 => (session.clone(), any::<bool>()).prop_map(|(session, commit)| Op::End { session, commit }),
        1 => (0..70_000_i64).prop_map(|ms| Op::Pass { ms }),
        1 => Just(Op::Restart),
        3 => (session.clone(), any::<bool>(), 0..4_usize, 0.0..1.0).prop_map(|(session, commit, markers, at)| {
            Op::KilledEnd { session, commit, markers, at }
        }),
        1 => (session, 0.0..1.0).prop_map(|(session, at)| Op::KilledInit { session, at }),
    ]
}

/// What the producer of a value knows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Its transaction was never asked to commit.
    Open,
    /// A commit was asked for, and the answer was lost.
    Unknown,
    Committed,
    Aborted,
}

#[derive(Debug, Default)]
struct Session {
    identity: Option<Identity>,
    /// Values of the transaction that is open as far as the session knows.
    values: Vec<u64>,
    offset: Option<u64>,
    /// An end whose answer was lost.
    asked: Option<bool>,
}

struct Model {
    world: World,
    sessions: Vec<Session>,
    fates: BTreeMap<u64, Fate>,
    /// By transactional id: the offset of each end, in order.
    offsets: BTreeMap<&'static str, Vec<(u64, Fate)>>,
    /// Values and offset of every transaction that was ended in any way.
    ended: Vec<(Vec<u64>, Option<u64>)>,
    holders: BTreeMap<(i64, i16), usize>,
    newest: BTreeMap<i64, i16>,
    next_value: u64,
}

/// Sessions 0, 2, 4 share one transactional id, and half of all sessions speak version 2.
fn id(session: usize) -> &'static str {
    IDS[session % 2]
}

fn speaks_v2(session: usize) -> bool {
    session < 3
}

impl Model {
    fn new() -> Model {
        Model {
            world: World::new(),
            sessions: (0..6).map(|_| Session::default()).collect(),
            fates: BTreeMap::new(),
            offsets: BTreeMap::new(),
            ended: Vec::new(),
            holders: BTreeMap::new(),
            newest: BTreeMap::new(),
            next_value: 1,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Init { session, goes_on } => {
                let expected = self.sessions[session].identity.filter(|_| goes_on);
                if let Ok(identity) = self.world.init(id(session), expected) {
                    self.initialized(session, identity, expected.is_some());
                }
            }
            Op::KilledInit { session, at } => {
                let before = self.world.journal_lengths();
                self.world.acknowledged();
                let _ = self.world.init(id(session), None);
                self.world.kill(before, at);
            }
            Op::Produce { session, partition } => self.produce(session, partition, true),
            Op::ProduceUnadded { session, partition } => self.produce(session, partition, false),
            Op::Stage { session } => self.stage(session),
            Op::End { session, commit } => self.end(session, commit, None),
            Op::KilledEnd { session, commit, markers, at } => self.end(session, commit, Some((markers, at))),
            Op::Pass { ms } => {
                self.world.now_ms += ms;
                self.world.tick();
            }
            Op::Restart => self.world.open(),
        }
    }

    /// A session has a new identity; what it had open is aborted.
    fn initialized(&mut self, session: usize, identity: Identity, goes_on: bool) {
        let holder = self.holders.insert((identity.id, identity.epoch), session);
        assert!(holder.is_none() || (goes_on && holder == Some(session)), "{identity:?} was given twice");
        self.raise(identity);
        let of = &mut self.sessions[session];
        self.ended.push((of.values.clone(), of.offset));
        let unknown = of.asked.is_some();
        *of = Session { identity: Some(identity), values: std::mem::take(&mut of.values), ..Session::default() };
        let values = std::mem::take(&mut of.values);
        if !unknown {
            self.decide(&values, Fate::Aborted);
        }
    }

    fn raise(&mut self, identity: Identity) {
        let newest = self.newest.entry(identity.id).or_insert(identity.epoch);
        assert!(*newest <= identity.epoch, "the epoch of {identity:?} went back from {newest}");
        *newest = identity.epoch;
    }

    fn decide(&mut self, values: &[u64], fate: Fate) {
        self.fates.extend(values.iter().map(|&value| (value, fate)));
    }

    fn produce(&mut self, session: usize, partition: i32, adds: bool) {
        let Some(producer) = self.sessions[session].identity else { return };
        if self.sessions[session].asked.is_some() {
            return;
        }
        let version = if speaks_v2(session) { 12 } else { 11 };
        if adds && !speaks_v2(session) {
            let partitions = [("t".to_owned(), partition)];
            let _ = self.world.coordinator().add_partitions(id(session), producer, &partitions, self.world.now_ms);
        }
        let value = self.next_value;
        self.next_value += 1;
        if self.world.produce(id(session), producer, partition, value, version).is_ok() {
            self.sessions[session].values.push(value);
            self.fates.insert(value, Fate::Open);
        }
    }

    fn stage(&mut self, session: usize) {
        let Some(producer) = self.sessions[session].identity else { return };
        if self.sessions[session].asked.is_some() {
            return;
        }
        let version = if speaks_v2(session) { 5 } else { 3 };
        if !speaks_v2(session) {
            let _ = self.world.coordinator().add_offsets(id(session), producer, id(session), self.world.now_ms);
        }
        let value = self.next_value;
        self.next_value += 1;
        if self.world.stage(id(session), producer, id(session), value, version).is_ok() {
            self.sessions[session].offset = Some(value);
        }
    }

    /// Ends, or repeats an end whose answer was lost.
    fn end(&mut self, session: usize, commit: bool, killed: Option<(usize, f64)>) {
        let Some(producer) = self.sessions[session].identity else { return };
        let commit = self.sessions[session].asked.unwrap_or(commit);
        self.ended.push((self.sessions[session].values.clone(), self.sessions[session].offset));
        let before = self.world.journal_lengths();
        self.world.acknowledged();
        if let Some((markers, at)) = killed {
            self.world.fail_after(markers);
            let _ = self.world.end(id(session), producer, commit, speaks_v2(session));
            self.world.kill(before, at);
            self.sessions[session].asked = Some(commit);
            self.end_offset(session, if commit { Fate::Unknown } else { Fate::Aborted });
            let values = self.sessions[session].values.clone();
            self.decide(&values, if commit { Fate::Unknown } else { Fate::Aborted });
            return;
        }
        let asked = self.sessions[session].asked;
        match self.world.end(id(session), producer, commit, speaks_v2(session)) {
            Ok(identity) => {
                self.raise(identity);
                if identity != producer {
                    let holder = self.holders.insert((identity.id, identity.epoch), session);
                    assert!(holder.is_none() || holder == Some(session), "{identity:?} was given twice");
                }
                let fate = if commit { Fate::Committed } else { Fate::Aborted };
                let values = std::mem::take(&mut self.sessions[session].values);
                self.decide(&values, fate);
                self.end_offset(session, fate);
                self.sessions[session] = Session { identity: Some(identity), ..Session::default() };
            }
            Err(ResponseError::ConcurrentTransactions) => {}
            // It is over for this session; what it asked for before may have come true.
            Err(_) => {
                let values = std::mem::take(&mut self.sessions[session].values);
                if asked.is_none() {
                    self.decide(&values, Fate::Aborted);
                }
                self.sessions[session] = Session::default();
            }
        }
    }

    /// The end of the offset that a session staged, if it did; a later answer replaces an unknown one.
    fn end_offset(&mut self, session: usize, fate: Fate) {
        let Some(value) = self.sessions[session].offset else { return };
        let ends = self.offsets.entry(id(session)).or_default();
        ends.retain(|&(of, _)| of != value);
        ends.push((value, fate));
    }

    fn check(&self) {
        for value in self.world.visible() {
            let fate = self.fates.get(&value).copied().unwrap_or(Fate::Aborted);
            assert!(matches!(fate, Fate::Committed | Fate::Unknown), "{value} is visible and was {fate:?}");
        }
        for id in IDS {
            let ends = self.offsets.get(id).map_or(&[][..], Vec::as_slice);
            let seen = self.world.committed_offset(id);
            let last = ends.iter().filter(|end| end.1 == Fate::Committed).map(|end| end.0).max();
            let allowed = |value| seen == Some(value) && last.is_none_or(|last| value >= last);
            let possible = ends.iter().any(|end| end.1 != Fate::Aborted && allowed(end.0));
            assert!(possible || (seen.is_none() && last.is_none()), "offset {seen:?} of {id}, after {ends:?}");
        }
    }

    fn check_end(&mut self) {
        self.world.open();
        self.world.now_ms += 100_000;
        self.world.tick();
        self.check();
        let visible = self.world.visible();
        for (value, fate) in &self.fates {
            assert!(*fate != Fate::Committed || visible.contains(value), "{value} was committed and is lost");
        }
        assert_eq!(self.world.open_count(), 0);
        let offsets: Vec<_> = IDS.iter().filter_map(|id| self.world.committed_offset(id)).collect();
        for (values, offset) in &self.ended {
            let seen = values.iter().filter(|value| visible.contains(value)).count();
            assert!(seen == 0 || seen == values.len(), "{seen} of {values:?} are visible");
            let whole = values.is_empty() || seen > 0;
            assert!(whole || !offset.is_some_and(|offset| offsets.contains(&offset)), "{offset:?} without {values:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn no_committed_record_is_lost_and_no_other_is_visible(ops in proptest::collection::vec(op(), 1..80)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
            model.check();
        }
        model.check_end();
    }
}
