//! Clients of other projects against each kind of broker: librdkafka through Python, Kafka's Java client,
//! Flink's connector, kcat. Each says facts; they must be those that are written here, for both kinds.
#![allow(clippy::disallowed_methods)] // a test of processes reads the wall clock

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tidegate_testing::kafka::{self, Kafka, Kind, Settings};
use tidegate_testing::{each_broker, java, lab, unavailable, workspace};

each_broker! {
    python_finds_all_it_expects,
    javas_client_sees_what_kafka_shows,
    javas_client_sees_what_kafka_shows_in_the_older_transactions,
    flinks_connector_delivers_exactly_once,
    kcat_writes_and_reads,
}

const LENIENT: Settings = Settings { auto_create_topics: true, transaction_version: 2 };

/// What a command printed, which must end well.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} does not start: {e}"));
    text_of(command, &output)
}

fn text_of(command: &Command, output: &Output) -> String {
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}; it said:\n{text}\n{errors}", output.status);
    text.into_owned()
}

fn python_finds_all_it_expects(kind: Kind) {
    let Some(kafka) = kafka::shared_with(kind, LENIENT) else { return };
    let Some(python) = lab::python() else { return };
    let checks = || {
        let mut command = Command::new(python);
        command.arg("-B").arg(workspace().join("dev/testing/kafka/broker_checks.py"));
        command
    };
    let names = said(checks().arg("--list"));
    let text = said(checks().arg(kafka.bootstrap()));
    let last = text.lines().last().expect("a line of results");
    let results: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text}"));
    let passed: Vec<&str> = results["passed"].as_array().expect("names").iter().filter_map(|n| n.as_str()).collect();
    assert_eq!(passed, names.lines().collect::<Vec<_>>());
    assert!(passed.len() >= 22, "{}", passed.len());
}

/// Java with classes of this source and these jars.
fn java_program(source: &str, libs: &Path) -> Result<Command, String> {
    let words = java::command(&[&java::compile(source, libs)?, libs], "512m");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

/// `None` if there are no jars or no compiler, which has then been said.
fn java(source: &str, libs: Result<std::path::PathBuf, String>) -> Option<Command> {
    match libs.and_then(|libs| java_program(source, &libs)) {
        Ok(command) => Some(command),
        Err(reason) => {
            unavailable("a Java program", &reason);
            None
        }
    }
}

fn java_client(kafka: &Kafka, scenarios: &[&str]) -> Option<String> {
    let mut command = java("dev/testing/kafka/Client.java", kafka::real::libraries())?;
    let name = kafka.new_name("java");
    Some(said(command.args(["Client", kafka.bootstrap(), &name]).args(scenarios)))
}

fn javas_client_sees_what_kafka_shows(kind: Kind) {
    let Some(kafka) = kafka::shared_with(kind, LENIENT) else { return };
    let Some(text) = java_client(kafka, &[]) else { return };
    assert_lines(&text, include_str!("../kafka/client-facts.txt"));
}

fn javas_client_sees_what_kafka_shows_in_the_older_transactions(kind: Kind) {
    let Some(kafka) = kafka::shared_with(kind, Settings { transaction_version: 1, ..LENIENT }) else { return };
    let scenarios = ["transactions", "fencing", "offsets in transactions", "transaction timeout", "open transactions"];
    let Some(text) = java_client(kafka, &scenarios) else { return };
    assert_lines(&text, include_str!("../kafka/client-facts-tv1.txt"));
}

/// Compares line by line, so that a difference is easy to see.
fn assert_lines(found: &str, expected: &str) {
    let different: Vec<(&str, &str)> = found.lines().zip(expected.lines()).filter(|(f, e)| f != e).collect();
    assert!(different.is_empty(), "(found, expected): {different:#?}");
    assert_eq!(found.lines().count(), expected.lines().count(), "{found}");
}

fn flinks_connector_delivers_exactly_once(kind: Kind) {
    let Some(kafka) = kafka::shared_with(kind, LENIENT) else { return };
    let libs = java::libraries("dev/testing/flink/pom.xml", "flink-libs/2.3.0-5.0.0");
    let Some(mut command) = java("dev/testing/flink/ExactlyOnce.java", libs) else { return };
    let text = said(command.args(["ExactlyOnce", kafka.bootstrap(), &kafka.new_name("flink")]));
    assert_lines(&text, include_str!("../flink/facts.txt"));
}

/// kcat with this input; `None` if it is not installed, which has then been said.
fn kcat(kafka: &Kafka, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("kcat");
    command.args(["-b", kafka.bootstrap(), "-q"]).args(args);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) => {
            unavailable("kcat", &e.to_string());
            return None;
        }
    };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("kcat reads");
    Some(text_of(&command, &child.wait_with_output().expect("kcat ends")))
}

fn kcat_writes_and_reads(kind: Kind) {
    let Some(kafka) = kafka::shared_with(kind, LENIENT) else { return };
    let topic = &kafka.new_topic("kcat", 2);
    let id = format!("transactional.id={topic}");
    for (partition, options) in [("0", vec!["-H", "h=1", "-z", "lz4"]), ("1", vec!["-X", &id])] {
        let args: Vec<&str> = ["-P", "-t", topic, "-p", partition, "-K:"].into_iter().chain(options).collect();
        let Some(_) = kcat(kafka, &args, "a:1\nb:2\nc:3\n") else { return };
    }
    let read = |args: &[&str]| kcat(kafka, args, "").expect("it was there before");
    let format = "%p %o %k=%s [%h]\\n";
    let all = |partition| read(&["-C", "-t", topic, "-p", partition, "-o", "beginning", "-e", "-f", format]);
    assert_eq!(all("0"), "0 0 a=1 [h=1]\n0 1 b=2 [h=1]\n0 2 c=3 [h=1]\n");
    assert_eq!(all("1"), "1 0 a=1 []\n1 1 b=2 []\n1 2 c=3 []\n");
    let last = read(&["-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-f", format]);
    assert_eq!(last, "0 2 c=3 [h=1]\n");
    // The commit's marker takes offset 3 of partition 1.
    let ends = ["0", "1"].map(|partition| read(&["-Q", "-t", &format!("{topic}:{partition}:-1")]));
    assert_eq!(ends, [format!("{topic} [0] offset 3\n"), format!("{topic} [1] offset 4\n")]);
    let metadata: serde_json::Value = serde_json::from_str(&read(&["-L", "-J", "-t", topic])).expect("JSON");
    assert_eq!(metadata["topics"][0]["partitions"].as_array().map(Vec::len), Some(2), "{metadata}");
    let group = format!("group-of-{topic}");
    let args = ["-G", &group, "-e", "-X", "auto.offset.reset=earliest", "-f", "%k=%s\\n", topic];
    let text = read(&args);
    let mut grouped: Vec<&str> = text.lines().collect();
    grouped.sort_unstable();
    assert_eq!(grouped, ["a=1", "a=1", "b=2", "b=2", "c=3", "c=3"]);
    assert_eq!(read(&args), "", "the group has committed");
}
