//! A real Kafka broker for tests: the released jars from Maven Central, one KRaft node, a folder that
//! goes away.
//!
//! The broker hangs on a pipe: a shell reads it and kills the broker at its end. So it dies with the
//! test process, even if that is killed, and a broker in a `static` leaks nothing.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::{target_dir, unavailable, wait_for, workspace};

const VERSION: &str = "4.3.1";
const CONFIG: &str = "server.properties";
/// A broker whose folder holds this file ends without removing the folder.
const KEEP: &str = "keep";

/// A broker that runs.
pub struct Kafka {
    bootstrap: String,
    own: Option<Own>,
}

/// A broker this process started.
struct Own {
    dir: PathBuf,
    shell: Option<Child>,
}

/// The broker all tests of this binary share, started at first use; `None` if there can be none, which
/// has then been said. `TIDEGATE_TEST_KAFKA=host:port` names a running broker to use instead.
pub fn shared() -> Option<&'static Kafka> {
    static SHARED: OnceLock<Result<Kafka, String>> = OnceLock::new();
    let made = SHARED.get_or_init(|| match std::env::var("TIDEGATE_TEST_KAFKA") {
        Ok(bootstrap) => Ok(Kafka { bootstrap, own: None }),
        Err(_) => Kafka::start(),
    });
    match made {
        Ok(kafka) => Some(kafka),
        Err(reason) => {
            unavailable("a Kafka broker", reason);
            None
        }
    }
}

impl Kafka {
    /// Starts a broker of one's own, gone when it is dropped.
    pub fn start() -> Result<Kafka, String> {
        let libs = libraries()?;
        let dir = tempfile::Builder::new().prefix("tidegate-kafka-").tempdir().map_err(|e| e.to_string())?;
        // The shell removes it, after the broker's death.
        let dir = dir.keep();
        let (broker, controller) = (free_port()?, free_port()?);
        let config = dir.join(CONFIG);
        fs::write(&config, server_properties(&dir, broker, controller)).map_err(|e| e.to_string())?;
        format_storage(&libs, &config)?;
        let own = Own { shell: Some(spawn(&libs, &dir)?), dir };
        let kafka = Kafka { bootstrap: format!("127.0.0.1:{broker}"), own: Some(own) };
        kafka.wait_until_ready()?;
        Ok(kafka)
    }

    /// Kills the broker, but keeps its data for [`Kafka::resume`].
    pub fn interrupt(&mut self) {
        if let Some(own) = &mut self.own {
            let _ = fs::write(own.dir.join(KEEP), "");
            own.end();
        }
    }

    /// Starts an interrupted broker again, with its data and at its address.
    pub fn resume(&mut self) -> Result<(), String> {
        let own = self.own.as_mut().ok_or("this broker was not started here")?;
        let _ = fs::remove_file(own.dir.join(KEEP));
        own.shell = Some(spawn(&libraries()?, &own.dir)?);
        self.wait_until_ready()
    }

    /// `host:port` for clients.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create().map_err(|e| e.to_string())?;
        let ready = wait_for(Duration::from_secs(60), || {
            let answer = consumer.fetch_metadata(None, Duration::from_secs(1)).ok()?;
            (!answer.brokers().is_empty()).then_some(())
        });
        let log = || self.own.as_ref().map(Own::log_tail).unwrap_or_default();
        ready.ok_or_else(|| format!("the broker at {} did not answer within 60 s; its log:\n{}", self.bootstrap, log()))
    }
}

impl Own {
    fn end(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The folder of the broker's jars, fetched once per target folder.
fn libraries() -> Result<PathBuf, String> {
    static FETCH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FETCH.get_or_init(fetch_libraries).clone()
}

fn fetch_libraries() -> Result<PathBuf, String> {
    let libs = target_dir().join("kafka-libs").join(VERSION);
    if libs.join(format!("kafka-clients-{VERSION}.jar")).exists() {
        return Ok(libs);
    }
    // Several test binaries may do this at once; whoever renames first wins.
    let part = libs.with_extension(format!("part-{}", std::process::id()));
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(workspace().join("dev/testing/kafka/pom.xml"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", part.display()))
        .output()
        .map_err(|e| format!("Maven cannot be run ('mvn': {e}), and TIDEGATE_TEST_KAFKA is not set"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return Err(format!("Maven could not fetch Kafka's jars: {}", text.trim()));
    }
    match fs::rename(&part, &libs) {
        Ok(()) => Ok(libs),
        Err(_) if libs.exists() => {
            let _ = fs::remove_dir_all(&part);
            Ok(libs)
        }
        Err(e) => Err(format!("cannot keep Kafka's jars in {}: {e}", libs.display())),
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}

fn server_properties(dir: &Path, broker: u16, controller: u16) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\n\
         num.partitions=1\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         log.retention.ms=-1\n\
         group.initial.rebalance.delay.ms=0\n",
        dir.join("data").display()
    )
}

fn java(libs: &Path) -> Vec<String> {
    let flags = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
    let mut words: Vec<String> = flags.iter().map(|w| (*w).to_owned()).collect();
    words.push("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".to_owned());
    words.extend(["-cp".to_owned(), format!("{}/*", libs.display())]);
    words
}

fn format_storage(libs: &Path, config: &Path) -> Result<(), String> {
    let words = java(libs);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c"])
        .arg(config)
        .output()
        .map_err(|e| format!("Java cannot be run ('java': {e}), and TIDEGATE_TEST_KAFKA is not set"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("Kafka's storage could not be formatted: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn spawn(libs: &Path, dir: &Path) -> Result<Child, String> {
    let log = File::options().create(true).append(true).open(dir.join("broker.log")).map_err(|e| e.to_string())?;
    let errors = log.try_clone().map_err(|e| e.to_string())?;
    let script = format!(
        "dir=$1; shift; \"$@\" </dev/null & cat >/dev/null; kill -KILL $!; wait $! 2>/dev/null; \
         test -e \"$dir/{KEEP}\" || rm -rf \"$dir\""
    );
    Command::new("sh")
        .args(["-c", script.as_str(), "kafka-for-tests"])
        .arg(dir)
        .args(java(libs))
        .arg("kafka.Kafka")
        .arg(dir.join(CONFIG))
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(errors)
        // Not reached by the terminal's Ctrl-C: the pipe's end is what stops it.
        .process_group(0)
        .spawn()
        .map_err(|e| format!("cannot start a shell: {e}"))
}
