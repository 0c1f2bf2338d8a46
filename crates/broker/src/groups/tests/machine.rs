//! Protocol of one group, as scripts: a line for each request or each step of time, with what is answered.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::machine::{Committer, Group, SyncRequest};
use super::super::member::{JoinRequest, Protocol, Reply};

/// Runs scripts against a group.
///
/// ```text
/// join a                 JoinGroup of member a (an unknown id joins as new and gets its name as id)
/// join a p=x,y m=2 i=s   with protocols, other metadata, group.instance.id, and so on
/// sync a [a=1 b=2]       SyncGroup, with what the leader assigns
/// beat a | leave a | commit a | tick MS
/// ```
/// Answers follow in the order in which they are given, each on a line: `a: joined 1 leader=a [a b]`.
struct Script {
    group: Group,
    now_ms: i64,
    tokens: Vec<String>,
    known: BTreeMap<String, i32>,
}

fn pairs<'a>(words: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    words.iter().filter_map(|word| word.split_once('=')).collect()
}

impl Script {
    fn new() -> Script {
        Script { group: Group::new(0), now_ms: 0, tokens: Vec::new(), known: BTreeMap::new() }
    }

    fn token(&mut self, name: &str) -> u64 {
        self.tokens.push(name.to_owned());
        self.tokens.len() as u64 - 1
    }

    fn join(&mut self, name: &str, words: &[&str]) {
        let options = pairs(words);
        let flag = |name: &str| words.contains(&name);
        let protocols = options.get("p").unwrap_or(&"range").split(',').filter(|name| !name.is_empty());
        let metadata = options.get("m").unwrap_or(&"1").as_bytes().to_vec();
        let protocols = protocols.map(|name| Protocol { name: name.to_owned(), metadata: metadata.clone().into() });
        let number = |name: &str, default| options.get(name).map_or(default, |text| text.parse().expect("a number"));
        let request = JoinRequest {
            member_id: if flag("new") { String::new() } else { name.to_owned() },
            instance_id: options.get("i").map(|text| (*text).to_owned()),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            protocol_type: (*options.get("type").unwrap_or(&"consumer")).to_owned(),
            protocols: protocols.collect(),
            session_timeout_ms: number("session", 10_000),
            rebalance_timeout_ms: number("rebalance", 60_000),
            new_member_id: name.to_owned(),
            must_have_id: flag("must"),
            may_skip_assignment: flag("skip"),
        };
        let token = self.token(name);
        self.group.join(token, &request, self.now_ms);
    }

    fn sync(&mut self, name: &str, words: &[&str]) {
        let options = pairs(words);
        let assignments = words.iter().filter_map(|word| word.split_once('='));
        let assignments = assignments.map(|(id, given)| (id.to_owned(), Bytes::copy_from_slice(given.as_bytes())));
        let generation = options.get("gen").map(|text| text.parse().expect("a number"));
        let request = SyncRequest {
            member_id: name.to_owned(),
            instance_id: options.get("i").map(|text| (*text).to_owned()),
            generation: generation.unwrap_or(self.group.generation),
            protocol_type: options.get("type").map(|text| (*text).to_owned()),
            protocol: options.get("p").map(|text| (*text).to_owned()),
            assignments: assignments.collect(),
        };
        let token = self.token(name);
        self.group.sync(token, &request, self.now_ms);
    }

    fn answers(&mut self, out: &mut Vec<String>) {
        for (token, reply) in self.group.take_replies() {
            let name = &self.tokens[token as usize];
            let text = match reply {
                Reply::Join(Ok(joined)) => {
                    self.known.insert(joined.member_id.clone(), joined.generation);
                    let members: Vec<_> = joined.members.iter().map(|member| member.member_id.as_str()).collect();
                    let skip = if joined.skip_assignment { " skip" } else { "" };
                    let protocol = joined.protocol.unwrap_or_default();
                    let members = members.join(" ");
                    format!("joined {} {protocol} leader={} [{members}]{skip}", joined.generation, joined.leader)
                }
                Reply::Join(Err(refused)) => format!("{} id=\"{}\"", refused.error, refused.member_id),
                Reply::Sync(Ok(synced)) => format!("synced \"{}\"", String::from_utf8_lossy(&synced.assignment)),
                Reply::Sync(Err(error)) => error.to_string(),
            };
            out.push(format!("{name}: {text}"));
        }
    }

    fn run(&mut self, line: &str, out: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let generation = |options: &BTreeMap<&str, &str>, group: &Group| {
            options.get("gen").map_or(group.generation, |text| text.parse().expect("a number"))
        };
        let said = |result: Result<(), kafka_protocol::ResponseError>| {
            result.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
        };
        match words[0] {
            "join" => self.join(words[1], &words[2..]),
            "sync" => self.sync(words[1], &words[2..]),
            "beat" => {
                let options = pairs(&words[2..]);
                let generation = generation(&options, &self.group);
                let beat = self.group.heartbeat(words[1], options.get("i").copied(), generation, self.now_ms);
                out.push(format!("{}: {}", words[1], said(beat)));
            }
            "leave" => {
                let leaving: Vec<_> = words[1..]
                    .iter()
                    .map(|word| match word.split_once('=') {
                        Some((id, instance)) => (id.to_owned(), Some(instance.to_owned())),
                        None => ((*word).to_owned(), None),
                    })
                    .collect();
                let results = self.group.leave(&leaving, self.now_ms);
                let results: Vec<_> = results.into_iter().map(said).collect();
                out.push(format!("left: {}", results.join(" ")));
            }
            "commit" | "txncommit" => {
                let options = pairs(&words[1..]);
                let who = Committer {
                    member_id: words.get(1).filter(|word| !word.contains('=')).unwrap_or(&""),
                    instance_id: options.get("i").copied(),
                    generation: generation(&options, &self.group),
                };
                out.push(format!("commit: {}", said(self.group.check_commit(&who, words[0] == "txncommit"))));
            }
            "tick" => {
                self.now_ms += words[1].parse::<i64>().expect("milliseconds");
                self.group.tick(self.now_ms);
            }
            "restart" => {
                self.group = Group::restore(self.group.snapshot(), self.now_ms);
            }
            word => panic!("no command {word}"),
        }
        self.answers(out);
        out.push(format!("= {} {}", self.group.state.name(), self.group.generation));
    }
}

/// A script is commands, each followed by what it brings about, indented; the state only where it changes.
fn check(script: &str) {
    let mut runner = Script::new();
    let mut state = String::new();
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        expected.push(line.to_owned());
        let Some(command) = line.strip_prefix('>') else { continue };
        let mut out = Vec::new();
        runner.run(command, &mut out);
        got.push(line.to_owned());
        let now = out.pop().expect("the state");
        got.extend(out);
        if now != state {
            got.push(now.clone());
            state = now;
        }
    }
    assert_eq!(got.join("\n"), expected.join("\n"));
}

#[test]
fn the_first_member_does_not_wait_and_the_second_starts_a_rebalance() {
    check(
        "
        > join a new
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a a=all
        a: synced \"all\"
        = Stable 1
        > beat a
        a: ok
        > join b new
        = PreparingRebalance 1
        > beat a
        a: RebalanceInProgress
        > join a
        a: joined 2 range leader=a [a b]
        b: joined 2 range leader=a []
        = CompletingRebalance 2
        > sync b
        > beat b
        b: ok
        > sync a a=0 b=1
        a: synced \"0\"
        b: synced \"1\"
        = Stable 2
        # A repeated request gets the same answer.
        > sync b
        b: synced \"1\"
        > join b
        b: joined 2 range leader=a []
        # The leader may want to assign anew.
        > join a
        = PreparingRebalance 2
        > join b
        a: joined 3 range leader=a [a b]
        b: joined 3 range leader=a []
        = CompletingRebalance 3
        > join b
        b: joined 3 range leader=a []
        > sync a a=0
        a: synced \"0\"
        = Stable 3
        > sync b
        b: synced \"\"
    ",
    );
}

#[test]
fn a_member_is_told_its_id_first() {
    check(
        "
        > join a new must
        a: MemberIdRequired id=\"a\"
        = Empty 0
        > beat a
        a: UnknownMemberId
        > join a must
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new must
        b: MemberIdRequired id=\"b\"
        # A rebalance waits for who was promised a place, for as long as its session.
        > join c new
        = PreparingRebalance 1
        > join a
        > tick 9999
        > tick 1
        a: joined 2 range leader=a [a c]
        c: joined 2 range leader=a []
        = CompletingRebalance 2
        > join b
        b: UnknownMemberId id=\"b\"
        > leave b
        left: UnknownMemberId
    ",
    );
}

#[test]
fn a_promised_place_can_be_given_back() {
    check(
        "
        > join a new
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new must
        b: MemberIdRequired id=\"b\"
        > join a
        = PreparingRebalance 1
        > leave b
        left: ok
        a: joined 2 range leader=a [a]
        = CompletingRebalance 2
    ",
    );
}

#[test]
fn silent_members_are_taken_for_dead() {
    check(
        "
        > join a new
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new session=20000
        = PreparingRebalance 1
        > join a
        a: joined 2 range leader=a [a b]
        b: joined 2 range leader=a []
        = CompletingRebalance 2
        > sync b
        > sync a
        a: synced \"\"
        b: synced \"\"
        = Stable 2
        > tick 9999
        > beat b
        b: ok
        > tick 1
        = PreparingRebalance 2
        > beat a
        a: UnknownMemberId
        > join b session=20000
        b: joined 3 range leader=b [b]
        = CompletingRebalance 3
        > tick 20000
        = Empty 4
        > beat b
        b: UnknownMemberId
    ",
    );
}

#[test]
fn who_does_not_join_or_sync_in_time_is_out() {
    check(
        "
        > join a new session=1000000
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new session=1000000 rebalance=5000
        = PreparingRebalance 1
        > tick 59999
        > tick 1
        b: joined 2 range leader=b [b]
        = CompletingRebalance 2
        > beat a
        a: UnknownMemberId
        > tick 4999
        > tick 1
        = Empty 3
        > sync b
        b: UnknownMemberId
    ",
    );
}

#[test]
fn a_waiting_member_is_not_dead_however_short_its_session() {
    check(
        "
        > join a new session=1000000
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new session=6000
        = PreparingRebalance 1
        > tick 50000
        > join a session=1000000
        a: joined 2 range leader=a [a b]
        b: joined 2 range leader=a []
        = CompletingRebalance 2
        > sync b
        > tick 7000
        > sync a b=1
        a: synced \"\"
        b: synced \"1\"
        = Stable 2
        > tick 5999
        > beat b
        b: ok
    ",
    );
}

#[test]
fn leaving_rebalances_and_refuses_what_was_waiting() {
    check(
        "
        > join a new
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > join b new
        = PreparingRebalance 1
        > join a
        a: joined 2 range leader=a [a b]
        b: joined 2 range leader=a []
        = CompletingRebalance 2
        > sync b
        # The follower that waits for the leader's assignment has to join again.
        > leave a
        left: ok
        b: RebalanceInProgress
        = PreparingRebalance 2
        > join b
        b: joined 3 range leader=b [b]
        = CompletingRebalance 3
        > sync b
        b: synced \"\"
        = Stable 3
        > leave nobody b
        left: UnknownMemberId ok
        = Empty 4
    ",
    );
}

#[test]
fn old_generations_and_other_protocols_are_refused() {
    check(
        "
        > join a new p=
        a: InconsistentGroupProtocol id=\"\"
        = Empty 0
        > join a new type=
        a: InconsistentGroupProtocol id=\"\"
        > join a
        a: UnknownMemberId id=\"a\"
        > join a new p=x,y
        a: joined 1 x leader=a [a]
        = CompletingRebalance 1
        > sync a gen=0
        a: IllegalGeneration
        > sync a type=connect
        a: InconsistentGroupProtocol
        > sync a p=y
        a: InconsistentGroupProtocol
        > sync a type=consumer p=x
        a: synced \"\"
        = Stable 1
        > beat a gen=0
        a: IllegalGeneration
        > join b new p=z
        b: InconsistentGroupProtocol id=\"\"
        > join b new type=connect
        b: InconsistentGroupProtocol id=\"\"
        # The protocol that all can follow, and that most prefer.
        > join b new p=z,y,x
        = PreparingRebalance 1
        > sync a
        a: RebalanceInProgress
        > join c new p=y,x
        > join a p=x,y
        a: joined 2 y leader=a [a b c]
        b: joined 2 y leader=a []
        c: joined 2 y leader=a []
        = CompletingRebalance 2
    ",
    );
}

#[test]
fn a_static_member_takes_its_place_back() {
    check(
        "
        > join a new i=one
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a a=all
        a: synced \"all\"
        = Stable 1
        # It restarts: no rebalance, the same assignment, and the old self is fenced.
        > join b new i=one must skip
        b: joined 1 range leader=b [b] skip
        > sync b i=one
        b: synced \"all\"
        > beat a i=one
        a: FencedInstanceId
        > join a i=one
        a: FencedInstanceId id=\"a\"
        > sync a i=one
        a: FencedInstanceId
        > beat b i=two
        b: UnknownMemberId
        # An old client must not believe that it leads, or it would assign anew.
        > join c new i=one
        c: joined 1 range leader=b []
        # It is not forgotten by a restart of the broker.
        > restart
        > beat c i=one
        c: ok
        > join d new i=one skip m=2
        d: joined 1 range leader=d [d] skip
        # Another protocol is another matter.
        > join e new i=one p=other,range
        e: joined 2 other leader=e [e]
        = CompletingRebalance 2
        > leave =one
        left: ok
        = Empty 3
    ",
    );
}

#[test]
fn a_static_member_that_restarts_during_a_rebalance_joins_it() {
    check(
        "
        > join a new i=one
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new session=1000000
        = PreparingRebalance 1
        > tick 9000
        > beat a i=one
        a: RebalanceInProgress
        > tick 9000
        > beat a i=one
        a: RebalanceInProgress
        > tick 9000
        > join c new i=one session=100000
        b: joined 2 range leader=c []
        c: joined 2 range leader=c [b c]
        = CompletingRebalance 2
    ",
    );
}

#[test]
fn a_static_member_that_is_away_keeps_its_place_in_a_rebalance() {
    check(
        "
        > join a new i=one session=1000000
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > sync a
        a: synced \"\"
        = Stable 1
        > join b new
        = PreparingRebalance 1
        > tick 60000
        b: joined 2 range leader=b [a b]
        = CompletingRebalance 2
        # Nobody but static members that are away: they get their time once more.
        > leave b
        left: ok
        = PreparingRebalance 2
        > tick 60000
        > join a i=one
        a: joined 3 range leader=a [a]
        = CompletingRebalance 3
    ",
    );
}

#[test]
fn only_who_is_in_the_group_commits() {
    check(
        "
        > commit gen=-1
        commit: ok
        = Empty 0
        > commit a gen=-1
        commit: ok
        > commit a gen=0
        commit: UnknownMemberId
        > join a new i=one
        a: joined 1 range leader=a [a]
        = CompletingRebalance 1
        > commit a
        commit: RebalanceInProgress
        > txncommit a
        commit: ok
        > sync a
        a: synced \"\"
        = Stable 1
        > commit a
        commit: ok
        > commit a i=one
        commit: ok
        > commit b i=one
        commit: FencedInstanceId
        > commit a gen=0
        commit: IllegalGeneration
        > commit gen=-1
        commit: UnknownMemberId
        > txncommit gen=-1
        commit: ok
        > txncommit a gen=0
        commit: IllegalGeneration
        > join b new
        = PreparingRebalance 1
        > commit a
        commit: ok
    ",
    );
}
