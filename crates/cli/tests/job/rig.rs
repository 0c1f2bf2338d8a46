//! Processes, topics and folders of these tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testing::kafka::{self, Kafka, Kind};
use tidegate_testing::process::Tidegate;
use tidegate_testing::rest::Rest;
use tidegate_testing::wait_for;

use crate::common::{Finished, binary, run_sql, tidegate};

/// Longer than anything here takes.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The broker of these tests.
pub fn broker() -> &'static Kafka {
    kafka::shared(Kind::Embedded).expect("the embedded broker")
}

/// A table over a topic that is read from its beginning.
pub fn kafka_table(name: &str, columns: &str, topic: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
           'properties.bootstrap.servers' = '{}', 'scan.startup.mode' = 'earliest-offset');\n",
        broker().bootstrap()
    )
}

/// Sends `{"f1": n}` for each number.
pub fn send(topic: &str, numbers: impl IntoIterator<Item = i64>) {
    let texts: Vec<String> = numbers.into_iter().map(|n| format!("{{\"f1\": {n}}}")).collect();
    let messages: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
    broker().send(topic, 0, &messages);
}

/// Settings of a script that takes checkpoints often.
pub fn often(folder: &Path) -> String {
    format!(
        "SET 'execution.checkpointing.interval' = '50 ms';
         SET 'execution.checkpointing.dir' = '{}';
         SET 'execution.checkpointing.num-retained' = '1000';\n",
        folder.join("checkpoints").display()
    )
}

/// Options of a `filesystem` table whose rows are seen once the next checkpoint is complete.
pub const PROMPT: &str =
    "'sink.rolling-policy.inactivity-interval' = '1 ms', 'sink.rolling-policy.check-interval' = '10 ms'";

/// A process that serves REST, with a folder for its jobs.
pub struct Process {
    pub process: Tidegate,
    pub address: String,
    pub folder: TempDir,
}

impl Process {
    /// `tidegate standalone`.
    pub fn standalone(arguments: &[&str]) -> Process {
        let mut all = vec!["standalone", "--port", "0"];
        all.extend(arguments);
        Process::start(&all, tempfile::tempdir().expect("a folder"))
    }

    /// `tidegate run`, with REST beside the script.
    pub fn run(script: &str, arguments: &[&str]) -> Process {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("script.sql"), script).expect("a script");
        let mut all = vec!["run", "script.sql", "--rest-port", "0"];
        all.extend(arguments);
        Process::start(&all, folder)
    }

    fn start(arguments: &[&str], folder: TempDir) -> Process {
        let process = Tidegate::start(&binary(), arguments, folder.path());
        let address = wait_for(LIMIT, || {
            let errors = process.errors();
            let after = errors.split_once("REST on http://")?.1;
            after.split_whitespace().next().map(str::to_owned)
        });
        let address = address.unwrap_or_else(|| panic!("no address in: {}", process.errors()));
        Process { process, address, folder }
    }

    /// A folder of this test's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn rest(&self) -> Rest {
        let (_, port) = self.address.rsplit_once(':').expect("a port");
        Rest::at(port.parse().expect("a number"))
    }

    /// What REST answers; panics if it answers with an error.
    pub fn get(&self, path: &str) -> Value {
        self.rest().get(path).unwrap_or_else(|| panic!("no answer to {path}; {}", self.process.errors()))
    }

    /// The job of `tidegate run`.
    pub fn only_job(&self) -> String {
        wait_for(LIMIT, || self.rest().running_job()).unwrap_or_else(|| panic!("no job: {}", self.process.errors()))
    }

    /// Submits a script and gives its job's id.
    pub fn submit(&self, script: &str, arguments: &[&str]) -> String {
        let mut all = vec!["--endpoint", &self.address];
        all.extend(arguments);
        let ran = run_sql(script, &all, LIMIT);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout.lines().find_map(|line| line.strip_prefix("Job ID: ")).expect("an id").to_owned()
    }

    /// `tidegate job ...` of this process.
    pub fn job(&self, arguments: &[&str]) -> Finished {
        let mut all = vec!["job"];
        all.extend(arguments);
        all.extend(["--endpoint", &self.address]);
        tidegate(&all, LIMIT)
    }

    /// Takes a savepoint, or stops the job with one, and gives its path.
    #[track_caller]
    pub fn savepoint(&self, arguments: &[&str]) -> String {
        let taken = self.job(arguments);
        assert_eq!(taken.code, Some(0), "{}{}", taken.stdout, taken.stderr);
        let path = taken.stdout.lines().find_map(|line| line.strip_prefix("Savepoint completed. Path: "));
        path.unwrap_or_else(|| panic!("no path in: {}", taken.stdout)).to_owned()
    }

    pub fn state(&self, job: &str) -> String {
        self.get(&format!("/jobs/{job}/status"))["status"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn wait_for_state(&self, job: &str, state: &str) {
        let reached = wait_for(LIMIT, || (self.state(job) == state).then_some(()));
        assert!(reached.is_some(), "{job} is {} and not {state}: {}", self.state(job), self.process.errors());
    }

    /// Waits until more checkpoints are complete than now, so all that was read before is in one, and gives the last.
    #[track_caller]
    pub fn next_checkpoint(&self, job: &str) -> String {
        let path = format!("/jobs/{job}/checkpoints");
        let id = || self.get(&path)["latest"]["completed"]["id"].as_u64().unwrap_or(0);
        let before = id();
        // One that is under way may have begun before.
        let done = wait_for(LIMIT, || (id() >= before + 2).then_some(()));
        assert!(done.is_some(), "no checkpoint after {before}: {}", self.process.errors());
        self.get(&path)["latest"]["completed"]["external_path"].as_str().expect("a path").to_owned()
    }
}

/// `file:/a/b` as a path.
pub fn local(url: &str) -> PathBuf {
    PathBuf::from(url.strip_prefix("file:").expect("a local place"))
}

/// The lines of all finished files in a folder, sorted.
pub fn lines(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for (path, bytes) in tree(folder) {
        let is_hidden = path.split('/').any(|part| part.starts_with('.') || part.starts_with('_'));
        if !is_hidden {
            all.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
        }
    }
    all.sort();
    all
}

/// Every file below a folder, by its path in there.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                let name = path.strip_prefix(folder).expect("below the folder").to_string_lossy().into_owned();
                files.insert(name, bytes);
            }
        }
    }
    files
}

/// Waits until a folder holds exactly these lines.
#[track_caller]
pub fn expect_lines(folder: &Path, wanted: impl IntoIterator<Item = String>) {
    let mut wanted: Vec<String> = wanted.into_iter().collect();
    wanted.sort();
    let same = wait_for(LIMIT, || (lines(folder) == wanted).then_some(()));
    if same.is_none() {
        assert_eq!(lines(folder), wanted);
    }
}

/// `{"f1":n}` as the file sink writes it.
pub fn row(n: i64) -> String {
    format!("{{\"f1\":{n}}}")
}
