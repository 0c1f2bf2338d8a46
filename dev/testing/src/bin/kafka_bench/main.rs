//! Measurements on Kafka brokers.
//!
//! `kafka_bench TIDEGATE FOLDER` fills a topic of a real Kafka with clicks, then lets `dev/bench/bench.py`
//! measure the job against a bare consume loop of the same client; `kafka_bench consume BOOTSTRAP TOPIC` is
//! that loop. `kafka_bench brokers TIDEGATE` compares `tidegate broker` with a real Kafka.
#![allow(unsafe_code)] // The loop calls what the connector calls: librdkafka's batch consumption.
#![allow(clippy::disallowed_methods)]

mod brokers;
mod traffic;

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode};

use tidegate_testing::kafka::{Kafka, Kind, Settings};
use tidegate_testing::workspace;

const PARTITIONS: i32 = 4;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["consume", bootstrap, topic] => traffic::consume(bootstrap, topic, PARTITIONS).map(|t| println!("{t}")),
        ["brokers", tidegate] => brokers::compare(tidegate.as_ref()),
        [tidegate, folder] => clicks(tidegate, folder),
        _ => Err("usage: kafka_bench TIDEGATE FOLDER | kafka_bench brokers TIDEGATE".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("kafka_bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn clicks(tidegate: &str, folder: &str) -> Result<(), String> {
    let python = |more: &[&str]| {
        let mut command = Command::new("python3");
        command
            .arg(workspace().join("dev/bench/bench.py"))
            .args(["--tidegate", tidegate, "--folder", folder])
            .args(more);
        command.status().map_err(|e| e.to_string()).and_then(|s| if s.success() { Ok(()) } else { Err(s.to_string()) })
    };
    python(&["--only", "generate"])?;
    let kafka = Kafka::start(Kind::Real, Settings::default())?;
    kafka.create_topic("clicks", PARTITIONS);
    let path = format!("{folder}/clicks-5000000.json");
    let file = BufReader::new(std::fs::File::open(&path).map_err(|e| format!("{path}: {e}"))?);
    let lines = file.lines().collect::<Result<Vec<String>, _>>().map_err(|e| e.to_string())?;
    traffic::produce(kafka.bootstrap(), "clicks", PARTITIONS, lines.iter().map(String::as_bytes))?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let own = own.to_str().ok_or("a path that is not UTF-8")?;
    python(&["--only", "kafka", "--kafka", kafka.bootstrap(), "--consumer", own])
}
