//! The lab: scripts and events of `examples/lab`, and its Python producer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::python::{self, run};
use crate::{unavailable, workspace};

const CLIENT: &str = "confluent-kafka==2.15.1";

/// A Python with the Kafka client, made once per target folder; `None` if it cannot be had, which has
/// then been said.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PYTHON.get_or_init(|| python::with("lab-venv", CLIENT, "confluent_kafka")) {
        Ok(path) => Some(path),
        Err(reason) => {
            unavailable("Python's confluent-kafka", reason);
            None
        }
    }
}

/// A file of `examples/lab`.
pub fn file(name: &str) -> PathBuf {
    workspace().join("examples/lab").join(name)
}

/// A script of the lab for another broker and topic.
pub fn script(name: &str, bootstrap: &str, topic: &str) -> String {
    let text = fs::read_to_string(file(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.replace("localhost:9092", bootstrap).replace("'clicks1'", &format!("'{topic}'"))
}

/// The seconds an event file holds.
pub fn seconds(name: &str) -> Vec<u32> {
    let text = fs::read_to_string(file(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.lines().map(|line| line.trim().parse().expect("a second per line")).collect()
}

fn producer(python: &Path, bootstrap: &str, topic: &str, events: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(workspace().join("dev/testing/lab/produce.py"));
    command.args(["--bootstrap", bootstrap, "--topic", topic, "--partition", "0"]).arg(events);
    command
}

/// Sends a whole event file at once.
pub fn send_all(python: &Path, bootstrap: &str, topic: &str, events: &Path) {
    let mut command = producer(python, bootstrap, topic, events);
    run(command.arg("--all-at-once")).expect("the producer sends all");
}

/// A producer that sends one event each time it is told to.
pub struct Stepper {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Stepper {
    /// Starts it on an event file.
    pub fn start(python: &Path, bootstrap: &str, topic: &str, events: &Path) -> Stepper {
        let mut command = producer(python, bootstrap, topic, events);
        let mut child =
            command.arg("--step").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the producer starts");
        let commands = child.stdin.take().expect("piped");
        let mut stepper = Stepper { commands, answers: BufReader::new(child.stdout.take().expect("piped")), child };
        stepper.answer();
        stepper
    }

    /// Sends the next event, waits until the broker has it, and returns the producer's line.
    pub fn step(&mut self) -> String {
        self.commands.write_all(b"\n").and_then(|()| self.commands.flush()).expect("the producer listens");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the producer speaks");
        assert!(!line.is_empty(), "the producer ended early");
        line.trim_end().to_owned()
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
