//! A process that dies while it stops a job with a savepoint: the job comes back, and no row is lost or doubled.

use std::time::Duration;

use tidegate_testing::kafka::Kafka;
use tidegate_testing::rest::Rest;

use crate::standalone::{Random, Standalone, broker, committed, tidegate};

/// The job takes checkpoints only when it is told to, so that the how-manieth is known.
fn script(kafka: &Kafka, numbers: &str, rows: &str) -> String {
    let bootstrap = kafka.bootstrap();
    format!(
        "SET 'execution.checkpointing.interval' = '1 h';
         CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{numbers}',
           'properties.bootstrap.servers' = '{bootstrap}', 'properties.group.id' = '{numbers}',
           'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
         CREATE TABLE o (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{rows}',
           'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
           'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{rows}');
         INSERT INTO o SELECT id FROM numbers;"
    )
}

struct Case {
    kafka: Kafka,
    folder: tempfile::TempDir,
    numbers: String,
    rows: String,
    sent: i64,
}

impl Case {
    fn new() -> Case {
        let kafka = broker();
        let (numbers, rows) = (kafka.new_topic("numbers", 1), kafka.new_topic("rows", 1));
        Case { kafka, folder: tempfile::tempdir().expect("a folder"), numbers, rows, sent: 0 }
    }

    fn send(&mut self, more: i64) {
        let texts: Vec<String> = (self.sent..self.sent + more).map(|n| format!("{{\"id\":{n}}}")).collect();
        let messages: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        self.kafka.send(&self.numbers, 0, &messages);
        self.sent += more;
    }

    fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> =
            committed(&self.kafka, &self.rows, 1).iter().map(|row| row["id"].as_i64().expect("an id")).collect();
        ids.sort_unstable();
        ids
    }

    /// Takes checkpoints until everything that was sent has come out, and looks whether each row came once.
    fn expect_all(&self, standalone: &Standalone, job: &str) {
        standalone.wait("all rows", || {
            standalone.job(&["checkpoint", job]);
            (self.ids().len() as i64 >= self.sent).then_some(())
        });
        assert_eq!(self.ids(), (0..self.sent).collect::<Vec<_>>(), "{}", standalone.said());
    }

    /// Waits until the job has read everything that was sent.
    fn wait_until_read(&self, standalone: &Standalone, job: &str) {
        let rest = Rest::at(standalone.address.rsplit_once(':').expect("a port").1.parse().expect("a number"));
        let (name, last) = (format!(".topic.{}.partition.0.currentOffset", self.numbers), self.sent - 1);
        standalone.wait("the last row", || {
            let metrics = rest.metrics(job);
            let offset = metrics.iter().find_map(|(n, offset)| n.ends_with(&name).then(|| offset.parse::<i64>()));
            (offset == Some(Ok(last))).then_some(())
        });
    }

    /// Stops the job in the background, into a folder of this case.
    fn stop(&self, standalone: &Standalone, job: &str) -> std::thread::JoinHandle<std::process::Output> {
        let place = self.folder.path().join("savepoints").display().to_string();
        let (address, job) = (standalone.address.clone(), job.to_owned());
        std::thread::spawn(move || tidegate(&["job", "stop", &job, "-p", &place, "--endpoint", &address]))
    }
}

/// A job that has published something and is stopped by a process that dies at this step of the savepoint.
fn dies_at(point: &str) {
    if !cfg!(debug_assertions) {
        eprintln!("a release build has no fail points");
        return;
    }
    let mut case = Case::new();
    case.send(100);
    let standalone = Standalone::start(case.folder.path());
    let job = standalone.submit(&script(&case.kafka, &case.numbers, &case.rows));
    standalone.wait_for_state(&job, "RUNNING");
    case.expect_all(&standalone, &job);
    drop(standalone);
    // Nothing but the savepoint comes to that point any more.
    let mut standalone = Standalone::start_dying(case.folder.path(), point);
    standalone.wait_for_state(&job, "RUNNING");
    case.send(100);
    case.wait_until_read(&standalone, &job);
    let stopping = case.stop(&standalone, &job);
    standalone.wait_for_death();
    let told = stopping.join().expect("it ends");
    assert!(!told.status.success(), "{point}: whoever waits is told");

    let standalone = Standalone::start(case.folder.path());
    standalone.wait_for_state(&job, "RUNNING");
    case.send(100);
    case.expect_all(&standalone, &job);
}

#[test]
fn before_its_barrier() {
    dies_at("before-barrier");
}

#[test]
fn before_its_manifest() {
    dies_at("after-upload-before-manifest");
}

#[test]
fn after_its_manifest() {
    dies_at("after-manifest-before-commit");
}

#[test]
fn after_its_sinks_have_published() {
    dies_at("after-kafka-commit");
}

#[test]
fn at_any_moment() {
    let mut case = Case::new();
    let mut random = Random::seeded(11);
    case.send(100);
    let mut standalone = Standalone::start(case.folder.path());
    let job = standalone.submit(&script(&case.kafka, &case.numbers, &case.rows));
    standalone.wait_for_state(&job, "RUNNING");
    for _ in 0..4 {
        standalone.job(&["checkpoint", &job]);
        case.send(50);
        let stopping = case.stop(&standalone, &job);
        std::thread::sleep(Duration::from_millis(random.below(150)));
        standalone.kill();
        stopping.join().expect("it ends");
        standalone = Standalone::start(case.folder.path());
        if standalone.jobs()[&job] == "FINISHED" {
            // It was faster; the rest is for whoever goes on from the savepoint.
            let seen = case.ids();
            assert_eq!(seen, (0..seen.len() as i64).collect::<Vec<_>>());
            return;
        }
        standalone.wait_for_state(&job, "RUNNING");
    }
    case.send(50);
    case.expect_all(&standalone, &job);
}
