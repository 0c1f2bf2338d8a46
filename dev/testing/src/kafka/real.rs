//! Apache Kafka: the released jars from Maven Central, one KRaft node.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Settings;
use crate::process::free_port;
use crate::{java, unavailable};

/// The release.
pub const VERSION: &str = "4.3.1";
const CONFIG: &str = "server.properties";

/// The folder of the broker's jars, and of Kafka's Java client, fetched once per target folder.
pub fn libraries() -> Result<PathBuf, String> {
    java::libraries("dev/testing/kafka/pom.xml", &format!("kafka-libs/{VERSION}"))
}

/// Whether there are the jars of a broker; `None` if not, which has then been said.
pub fn available() -> Option<()> {
    libraries().map_err(|reason| unavailable("a Kafka broker", &reason)).ok().map(drop)
}

/// Makes a node's storage in a folder and returns the words that start it.
pub fn prepare(dir: &Path, port: u16, settings: Settings) -> Result<Vec<OsString>, String> {
    let libs = libraries()?;
    let config = dir.join(CONFIG);
    fs::write(&config, server_properties(dir, port, settings)).map_err(|e| e.to_string())?;
    format_storage(&libs, &config, settings)?;
    let mut command = java::command(&[&libs], "384m");
    command.extend(["kafka.Kafka".into(), config.into()]);
    Ok(command)
}

/// `controlled.shutdown.enable`: in order, a broker gives its partitions away before it stops. Those without another
/// replica have no leader then, and a transaction that ends in that moment is never ended in them, for its coordinator
/// takes partitions without a leader for deleted: what Kafka has confirmed stays invisible.
fn server_properties(dir: &Path, broker: u16, settings: Settings) -> String {
    let controller = free_port();
    let auto_create = settings.auto_create_topics;
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
         auto.create.topics.enable={auto_create}\n\
         controlled.shutdown.enable=false\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         log.retention.ms=-1\n\
         log.initial.task.delay.ms=100\n\
         log.retention.check.interval.ms=500\n\
         log.cleaner.backoff.ms=300\n\
         transaction.abort.timed.out.transaction.cleanup.interval.ms=500\n\
         group.initial.rebalance.delay.ms=0\n",
        dir.join("data").display()
    )
}

fn format_storage(libs: &Path, config: &Path, settings: Settings) -> Result<(), String> {
    let words = java::command(&[libs], "128m");
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA"])
        .arg("--feature")
        .arg(format!("transaction.version={}", settings.transaction_version))
        .arg("-c")
        .arg(config)
        .output()
        .map_err(|e| format!("Java cannot be run ('java': {e}), and TIDEGATE_TEST_KAFKA is not set"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("Kafka's storage could not be formatted: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
