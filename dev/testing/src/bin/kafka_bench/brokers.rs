//! `tidegate broker` against Apache Kafka: speed side by side in one run, and the memory of ours.

use std::path::Path;
use std::time::Instant;

use tidegate_testing::kafka::{Kafka, Kind, Settings};

use crate::PARTITIONS;
use crate::traffic::{Taken, consume, produce};

const MESSAGES: u64 = 1_000_000;
const MESSAGE_BYTES: usize = 173;
/// Messages per second, best of these many rounds.
const ROUNDS: usize = 3;
/// Messages of a log of 2 GB.
const LARGE: u64 = 2_000_000_000 / MESSAGE_BYTES as u64;

/// Messages per second.
#[derive(Clone, Copy, Default)]
struct Speed {
    produced: f64,
    consumed: f64,
}

/// Measures both and prints a table.
pub fn compare(tidegate: &Path) -> Result<(), String> {
    let ours = Kafka::start_program(tidegate)?;
    let real = Kafka::start(Kind::Real, Settings::default())?;
    let (mut best_ours, mut best_real) = (Speed::default(), Speed::default());
    // Taken in turns, so that what else the machine does meets both.
    for round in 0..ROUNDS {
        best_ours = best(best_ours, round_trip(&ours, &format!("round-{round}"))?);
        best_real = best(best_real, round_trip(&real, &format!("round-{round}"))?);
    }
    println!("{MESSAGES} messages of {MESSAGE_BYTES} bytes, {PARTITIONS} partitions, best of {ROUNDS}");
    let line = |what: &str, ours: f64, real: f64| {
        println!("{what:10} tidegate {ours:>10.0}/s   kafka {real:>10.0}/s   ratio {:.2}", ours / real);
    };
    line("produced", best_ours.produced, best_real.produced);
    line("consumed", best_ours.consumed, best_real.consumed);
    drop(real);
    ours.create_topic("large", PARTITIONS);
    let message = [b'x'; MESSAGE_BYTES];
    produce(ours.bootstrap(), "large", PARTITIONS, (0..LARGE).map(|_| &message[..]))?;
    let taken = consume(ours.bootstrap(), "large", PARTITIONS)?;
    expect(taken, LARGE)?;
    let pid = ours.pid().ok_or("the broker has no process id")?;
    println!("peak memory of tidegate with a log of 2 GB: {} MB", peak_memory_mb(pid)?);
    Ok(())
}

fn best(a: Speed, b: Speed) -> Speed {
    Speed { produced: a.produced.max(b.produced), consumed: a.consumed.max(b.consumed) }
}

fn round_trip(kafka: &Kafka, topic: &str) -> Result<Speed, String> {
    kafka.create_topic(topic, PARTITIONS);
    let message = [b'x'; MESSAGE_BYTES];
    let start = Instant::now();
    produce(kafka.bootstrap(), topic, PARTITIONS, (0..MESSAGES).map(|_| &message[..]))?;
    let produced = MESSAGES as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    expect(consume(kafka.bootstrap(), topic, PARTITIONS)?, MESSAGES)?;
    Ok(Speed { produced, consumed: MESSAGES as f64 / start.elapsed().as_secs_f64() })
}

fn expect(taken: Taken, rows: u64) -> Result<(), String> {
    let expected = Taken { rows, bytes: rows * MESSAGE_BYTES as u64 };
    if taken == expected { Ok(()) } else { Err(format!("{taken} came back instead of {expected}")) }
}

/// The largest resident memory a process has had.
fn peak_memory_mb(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.map(|kb: u64| kb / 1024).ok_or_else(|| format!("{path} does not say VmHWM"))
}
