//! The process under test, and what a topic shows.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_api::fail_point;
use tidegate_testing::kafka::Kafka;
use tidegate_testing::process::binary;
use tidegate_testing::rdkafka::consumer::{BaseConsumer, Consumer};
use tidegate_testing::rdkafka::error::KafkaError;
use tidegate_testing::rdkafka::message::Message;
use tidegate_testing::rdkafka::{Offset, TopicPartitionList};
use tidegate_testing::wait_for;

/// How long anything may take on a machine that is busy with other tests.
pub const LIMIT: Duration = Duration::from_secs(90);

/// The binary with these arguments, run to its end.
pub fn tidegate(arguments: &[&str]) -> Output {
    Command::new(binary(env!("CARGO_BIN_EXE_tidegate"))).args(arguments).output().expect("the binary runs")
}

/// A broker that is a process of its own.
pub fn broker() -> Kafka {
    Kafka::start_program(&binary(env!("CARGO_BIN_EXE_tidegate"))).expect("the broker starts")
}

/// `tidegate standalone --state-dir DIR` on a free port; killed with SIGKILL when dropped.
pub struct Standalone {
    process: Child,
    pub address: String,
    said: Arc<Mutex<String>>,
}

impl Standalone {
    /// Starts it on the folder `state` below `dir`, with `dir` for temporary files too, and waits until it serves.
    pub fn start(dir: &Path) -> Standalone {
        Standalone::start_dying(dir, "")
    }

    /// The same; it dies at a fail point, if one is named.
    pub fn start_dying(dir: &Path, fail_point: &str) -> Standalone {
        let mut command = Command::new(binary(env!("CARGO_BIN_EXE_tidegate")));
        command.args(["standalone", "--port", "0", "--state-dir"]).arg(dir.join("state")).env("TMPDIR", dir);
        if !fail_point.is_empty() {
            command.env(fail_point::VARIABLE, fail_point);
        }
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, heard) = (BufReader::new(process.stderr.take().expect("piped")), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut said = heard.lock().expect("not poisoned");
                said.push_str(&line);
                said.push('\n');
            }
        });
        let address = wait_for(LIMIT, || {
            let said = said.lock().expect("not poisoned");
            let after = said.split_once("REST on http://")?.1;
            after.split_once(' ').map(|(address, _)| address.to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("it does not serve: {}", said.lock().expect("not poisoned")));
        Standalone { process, address, said }
    }

    /// What it has written to standard error.
    pub fn said(&self) -> String {
        self.said.lock().expect("not poisoned").clone()
    }

    /// Waits until it has died by itself.
    pub fn wait_for_death(&mut self) {
        let ended = wait_for(LIMIT, || self.process.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| !status.success()), "it did not die: {ended:?} {}", self.said());
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().expect("it lives");
        self.process.wait().expect("it ends");
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks for an orderly end and waits for it.
    pub fn terminate(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        wait_for(LIMIT, || self.process.try_wait().expect("a child")).expect("it ends");
    }

    /// Submits a script of one job and gives its id.
    pub fn submit(&self, script: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script.sql");
        std::fs::write(&file, script).expect("written");
        let path = file.to_str().expect("UTF-8");
        let output = tidegate(&["sql", "--endpoint", &self.address, "-f", path]);
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.lines().find_map(|line| line.strip_prefix("Job ID: "));
        id.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
    }

    /// `tidegate job ...`: what it prints.
    pub fn job(&self, arguments: &[&str]) -> String {
        let mut all = vec!["job"];
        all.extend(arguments);
        all.extend(["--endpoint", &self.address]);
        let output = tidegate(&all);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The JSON at a path.
    pub fn get(&self, path: &str) -> Value {
        let mut answer = ureq::get(format!("http://{}{path}", self.address)).call().expect("it answers");
        answer.body_mut().read_json().expect("JSON")
    }

    /// Jobs and their states.
    pub fn jobs(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let jobs = self.get("/jobs");
        let jobs = jobs["jobs"].as_array().expect("a list");
        jobs.iter().map(|job| (text(&job["id"]), text(&job["status"]))).collect()
    }

    pub fn wait_for_state(&self, job: &str, state: &str) {
        let found = wait_for(LIMIT, || (self.jobs().get(job).map(String::as_str) == Some(state)).then_some(()));
        assert!(found.is_some(), "{job} is not {state} but {:?}\n{}", self.jobs(), self.said());
    }

    /// Waits until something can be seen, and gives it.
    pub fn wait<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        wait_for(LIMIT, ask).unwrap_or_else(|| panic!("{what} does not come\n{}", self.said()))
    }

    /// Waits for a complete checkpoint that has read each of these splits at least so far.
    pub fn wait_for_positions(&self, job: &str, wanted: &[(String, i64)]) -> u64 {
        self.wait(&format!("a checkpoint behind {wanted:?}"), || {
            let audit = self.get(&format!("/jobs/{job}/tidegate/audit"));
            let newest = audit["checkpoints"].as_array()?.last()?.clone();
            let sources = newest["sources"].as_array()?;
            let reached = |(split, offset): &(String, i64)| {
                let found = sources.iter().find(|source| source["split"] == split.as_str());
                found.and_then(|found| found["position"]["start"].as_i64()).is_some_and(|start| start >= *offset)
            };
            wanted.iter().all(reached).then(|| newest["id"].as_u64()).flatten()
        })
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        // SIGKILL; it may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a reader of committed records sees of a topic: the JSON of each record.
pub fn committed(kafka: &Kafka, topic: &str, partitions: i32) -> Vec<Value> {
    let mut config = kafka.client();
    config.set("group.id", "check").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    // While a job writes on there is no end but this one.
    let mut ends = BTreeMap::new();
    for partition in 0..partitions {
        let (_, end) = consumer.fetch_watermarks(topic, partition, LIMIT).expect("the broker answers");
        ends.insert(partition, end);
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a place");
    }
    consumer.assign(&list).expect("assigned");
    let mut rows = Vec::new();
    let deadline = Instant::now() + LIMIT;
    while !ends.is_empty() {
        assert!(Instant::now() < deadline, "{topic} has no end");
        match consumer.poll(Duration::from_secs(1)) {
            Some(Ok(message)) => {
                let value = message.payload().expect("a value");
                rows.push(serde_json::from_slice(value).expect("JSON"));
                if ends.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= *end) {
                    ends.remove(&message.partition());
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(ends.remove(&partition)),
            Some(Err(error)) => panic!("{topic}: {error}"),
            None => {}
        }
    }
    rows
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// `TIDEGATE_SEED`, or this one.
    pub fn seeded(otherwise: u64) -> Random {
        Random(number("TIDEGATE_SEED", otherwise))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A number from the environment.
pub fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |v| v.parse().unwrap_or_else(|e| panic!("{variable}={v}: {e}")))
}
