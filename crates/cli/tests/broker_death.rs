//! Brokers that die. Both kinds are killed once, with a transaction open; `tidegate broker` is killed at random
//! moments too, while producers, transactions and groups are at work. Whatever was acknowledged must be there
//! afterwards, and nothing that was aborted.
//!
//! `TIDEGATE_KILLS=100` kills the embedded broker as often (15 times without it); `TIDEGATE_SEED` chooses
//! other moments.
#![allow(clippy::disallowed_methods)] // a test of a process reads the wall clock

mod death;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_testing::kafka::{self, Kafka, Kind, Settings};
use tidegate_testing::process::binary;
use tidegate_testing::random::Random;
use tidegate_testing::{each_broker, lab, wait_for, workspace};

use death::{Committer, Plain, Transactional};

each_broker! {
    what_was_acknowledged_survives_a_restart,
}

const LIMIT: Duration = Duration::from_secs(60);
/// So many that some are within a transaction while others wait for the broker's return.
const PRODUCERS: u64 = 6;

/// A broker that is a program of its own; `None` if there can be no real one, which has then been said.
fn program(kind: Kind) -> Option<Kafka> {
    let started = match kind {
        Kind::Embedded => Kafka::start_program(&binary(env!("CARGO_BIN_EXE_tidegate"))),
        Kind::Real => {
            // Says so, and fails in CI, where there is none.
            kafka::real::available()?;
            Kafka::start(kind, Settings::default())
        }
    };
    Some(started.expect("the broker starts"))
}

fn what_was_acknowledged_survives_a_restart(kind: Kind) {
    let (Some(mut kafka), Some(python)) = (program(kind), lab::python()) else { return };
    let phase = |kafka: &Kafka, name: &str| {
        let mut command = Command::new(python);
        command.arg("-B").arg(workspace().join("dev/testing/kafka/restart.py")).args([kafka.bootstrap(), name]);
        let output = command.output().expect("Python runs");
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {text}{errors}\n{}", kafka.log_tail());
    };
    phase(&kafka, "write");
    kafka.interrupt();
    kafka.resume().expect("it starts again");
    phase(&kafka, "read");
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |v| v.parse().unwrap_or_else(|e| panic!("{variable}={v}: {e}")))
}

#[test]
fn no_kill_loses_what_is_committed_or_shows_what_is_aborted() {
    let mut kafka = program(Kind::Embedded).expect("it is never missing");
    let kills = number("TIDEGATE_KILLS", 15);
    let seed = number("TIDEGATE_SEED", 1);
    kafka.create_topic(death::TRANSACTIONS, death::PARTITIONS);
    kafka.create_topic(death::PLAIN, 1);
    let bootstrap = kafka.bootstrap().to_owned();
    let (steps, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (producers, plain, committer) = thread::scope(|scope| {
        let (steps, done, bootstrap) = (&steps, &done, bootstrap.as_str());
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|id| {
                scope.spawn(move || {
                    let mut producer = Transactional::new(bootstrap, id, Random::new(seed * 1000 + id));
                    producer.run(steps, done);
                    producer
                })
            })
            .collect();
        let plain = scope.spawn(move || Plain::run(bootstrap, done));
        let committer = scope.spawn(move || Committer::run(bootstrap, done));
        kill_and_resume(&mut kafka, kills, Random::new(seed), steps);
        done.store(true, Ordering::Relaxed);
        let producers: Vec<Transactional> = producers.into_iter().map(|p| p.join().expect("a producer")).collect();
        (producers, plain.join().expect("a producer"), committer.join().expect("a consumer"))
    });
    let (committed, unclear) = death::check_transactions(&kafka, &producers);
    let stored = plain.check(&kafka);
    let offset = committer.check(&kafka);
    println!(
        "{kills} kills (seed {seed}): {committed} transactions committed, the outcome of {unclear} asked for \
         afterwards; {stored} plain records; {offset} offsets committed"
    );
    assert!(committed > 0 && stored > 0 && offset > 0);
}

/// Kills the broker after random numbers of steps of the transactions, and starts it again.
fn kill_and_resume(kafka: &mut Kafka, kills: u64, mut random: Random, steps: &AtomicU64) {
    for kill in 0..kills {
        let wanted = steps.load(Ordering::Relaxed) + 3 + random.below(40);
        let reached = wait_for(LIMIT, || (steps.load(Ordering::Relaxed) >= wanted).then_some(()));
        assert!(
            reached.is_some(),
            "kill {kill}: the transactions do not go on; the broker's log:\n{}",
            kafka.log_tail()
        );
        // Somewhere within a step.
        thread::sleep(Duration::from_micros(random.below(3000)));
        kafka.interrupt();
        kafka.resume().unwrap_or_else(|e| panic!("after kill {kill}: {e}"));
    }
}
