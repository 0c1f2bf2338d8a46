//! Every program of `tests/sql`, stopped in the middle and restored: the same rows as without.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::common::programs::{compare, compare_error, expected_error, for_all, names_in, supported, text};
use crate::rig::{Ran, Stretch, run};

/// Parallelism before and after.
const PAIRS: [(usize, usize); 4] = [(1, 1), (1, 2), (2, 1), (2, 3)];

fn seed() -> u64 {
    std::env::var("TIDEGATE_SEED").map_or(1, |seed| seed.parse().expect("TIDEGATE_SEED is a number"))
}

/// A number below `below` that depends on the seed and on what is cut.
fn choose(below: u64, what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed(), what).hash(&mut hasher);
    hasher.finish() % below
}

fn whole(_: usize) -> Vec<Stretch> {
    vec![Stretch { parallelism: 1, events: None }]
}

fn judge(name: &str, ran: &Ran, ended: tidegate_api::Result<()>) -> Result<(), String> {
    match (expected_error(name), ended) {
        (Some(_), Ok(())) => Err("should fail but did not".to_owned()),
        (Some(error), Err(e)) => compare_error(&error, &e.to_string()),
        (None, Err(e)) => Err(e.to_string()),
        (None, Ok(())) => compare(name, &ran.printed),
    }
}

fn check(name: &str, pairs: &[(usize, usize)]) -> Result<(), String> {
    let script = text(name);
    let (plain, ended) = run(&script, &whole);
    judge(name, &plain, ended).map_err(|e| format!("in one go: {e}"))?;
    for (before, after) in pairs.iter().copied() {
        // A job that failed, which is the last, may be cut right before what it failed with.
        let failed = |job| u64::from(job >= plain.summaries.len());
        let places: Vec<u64> = plain.events.iter().enumerate().map(|(job, events)| events + failed(job)).collect();
        let cuts: Vec<u64> =
            places.iter().enumerate().map(|(job, n)| choose(*n.max(&1), (name, before, after, job))).collect();
        let stretches = |job: usize| match cuts.get(job) {
            Some(cut) if places[job] > 0 => {
                vec![Stretch { parallelism: before, events: Some(*cut) }, Stretch { parallelism: after, events: None }]
            }
            _ => whole(job),
        };
        let (ran, ended) = run(&script, &stretches);
        judge(name, &ran, ended)
            .map_err(|e| format!("cut at {cuts:?} of {:?}, {before} to {after}, seed {}: {e}", plain.events, seed()))?;
    }
    Ok(())
}

#[test]
fn programs_go_on_from_a_savepoint() {
    for_all(&supported(), |name| check(name, &PAIRS[..1]));
}

#[test]
fn programs_go_on_at_another_parallelism() {
    let skipped = names_in("order_dependent.txt");
    let names: Vec<String> = supported().into_iter().filter(|n| !skipped.contains(n)).collect();
    for_all(&names, |name| check(name, &PAIRS[1..]));
}
