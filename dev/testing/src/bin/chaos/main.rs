//! `chaos TIDEGATE [--kills N] [--seed N] [--minutes M] [--broker embedded|real] [--outages N]`: kills jobs until
//! there were so many deaths, or for so long, with so many outages of the broker in a round; see
//! [`tidegate_testing::chaos`].
#![allow(clippy::disallowed_methods)] // It kills real processes in real time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_api::fail_point::FailPoint;
use tidegate_testing::chaos::{Outcome, Round};
use tidegate_testing::kafka::Kind;

const USAGE: &str = "usage: chaos TIDEGATE [--kills N] [--seed N] [--minutes M] [--broker embedded|real] [--outages N]";
/// Kills at random moments in a round, besides the fail points.
const KILLS_OF_ROUND: u64 = 12;
const BOTH: [Kind; 2] = [Kind::Embedded, Kind::Real];

struct Wish {
    binary: PathBuf,
    kills: u64,
    seed: u64,
    minutes: Option<u64>,
    kinds: Vec<Kind>,
    outages: u64,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match wish(&args).and_then(|wish| soak(&wish)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("chaos: {e}");
            ExitCode::FAILURE
        }
    }
}

fn wish(args: &[String]) -> Result<Wish, String> {
    let (binary, options) = args.split_first().ok_or(USAGE)?;
    let binary = PathBuf::from(binary);
    let mut wish = Wish { binary, kills: 200, seed: 1, minutes: None, kinds: BOTH.to_vec(), outages: 1 };
    for pair in options.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|e| format!("{name} {value}: {e}"));
        match (name.as_str(), value.as_str()) {
            ("--kills", _) => wish.kills = number()?,
            ("--seed", _) => wish.seed = number()?,
            ("--minutes", _) => wish.minutes = Some(number()?),
            ("--outages", _) => wish.outages = number()?,
            ("--broker", "embedded") => wish.kinds = vec![Kind::Embedded],
            ("--broker", "real") => wish.kinds = vec![Kind::Real],
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(wish)
}

/// Round after round on one broker and the other; true if no row differs.
fn soak(wish: &Wish) -> Result<bool, String> {
    let began = Instant::now();
    let (mut total, mut rounds) = (Outcome::default(), 0);
    let mut kinds = wish.kinds.clone();
    let is_over = |total: &Outcome| match wish.minutes {
        Some(minutes) => began.elapsed() >= Duration::from_secs(minutes * 60),
        None => total.deaths() >= wish.kills,
    };
    while !is_over(&total) && !kinds.is_empty() {
        let kind = kinds[rounds as usize % kinds.len()];
        let left = wish.kills.saturating_sub(total.deaths() + FailPoint::ALL.len() as u64);
        let kills = if wish.minutes.is_some() { KILLS_OF_ROUND } else { left.min(KILLS_OF_ROUND) };
        let seed = wish.seed + rounds;
        let round = Round { kind, seed, kills, points: FailPoint::ALL.to_vec(), outages: wish.outages, full_disks: 1 };
        let broker = if kind == Kind::Embedded { "embedded" } else { "real" };
        let again = format!(
            "Alone: cargo xtask chaos --kills {} --seed {seed} --broker {broker} --outages {}",
            round.deaths(),
            wish.outages
        );
        match round.play(&wish.binary).map_err(|e| format!("round {rounds}: {e}\n{again}"))? {
            None => kinds.retain(|kind| *kind == Kind::Embedded),
            Some(outcome) => {
                println!("round {rounds} ({kind:?}, seed {seed}): {outcome}\n{again}\n");
                total.add(outcome);
                rounds += 1;
            }
        }
    }
    if rounds == 0 {
        return Err("there is no broker, so nothing was killed".to_owned());
    }
    println!("{rounds} rounds, seeds {} to {}: {total}", wish.seed, wish.seed + rounds.saturating_sub(1));
    println!("The same again: cargo xtask chaos --kills {} --seed {}", wish.kills, wish.seed);
    Ok(total.is_exact())
}
