//! Jobs that are killed, with a broker and a disk that fail: real processes, and every row counted. `cargo xtask
//! chaos` does the same for longer.
//!
//! `TIDEGATE_JOB_KILLS=200` kills as often at random moments (15 times without it), half of them on each broker;
//! `TIDEGATE_SEED` chooses other moments.
#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

use std::process::Command;

use tidegate_api::fail_point::{FailPoint, VARIABLE};
use tidegate_testing::chaos::Round;
use tidegate_testing::each_broker;
use tidegate_testing::kafka::Kind;
use tidegate_testing::process::binary;

each_broker! {
    no_death_loses_or_doubles_a_row,
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |v| v.parse().unwrap_or_else(|e| panic!("{variable}={v}: {e}")))
}

fn no_death_loses_or_doubles_a_row(kind: Kind) {
    let (kills, seed) = (number("TIDEGATE_JOB_KILLS", 15), number("TIDEGATE_SEED", 1));
    let round = Round {
        kind,
        seed,
        kills: if kind == Kind::Embedded { kills.div_ceil(2) } else { kills / 2 },
        points: FailPoint::ALL.to_vec(),
        outages: 1,
        full_disks: 1,
    };
    let played = round.play(&binary(env!("CARGO_BIN_EXE_tidegate"))).unwrap_or_else(|e| panic!("{e}"));
    let Some(outcome) = played else { return };
    println!("{kind:?}, seed {seed}:\n{outcome}");
    assert!(outcome.is_exact(), "{outcome}");
    assert_eq!(outcome.points.len() + outcome.unreached.len(), FailPoint::ALL.len(), "{outcome}");
    assert!(
        outcome.rows > 0
            && outcome.deaths() + outcome.unreached.len() as u64 >= round.kills + round.points.len() as u64,
        "{outcome}"
    );
}

#[test]
fn a_fail_point_that_is_none_is_refused_with_the_list() {
    let mut command = Command::new(binary(env!("CARGO_BIN_EXE_tidegate")));
    let output = command.args(["completions", "bash"]).env(VARIABLE, "after-lunch").output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("'after-lunch'"), "{told}");
    for point in FailPoint::ALL {
        assert!(told.contains(point.name()), "no {} in {told}", point.name());
    }
}
