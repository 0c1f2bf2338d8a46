//! Event time over a kill: watermarks are state, every split counts before its first row, partitions that appear are
//! read from their beginning.

use serde_json::Value;
use tidegate_testing::kafka::Kafka;

use crate::standalone::{Standalone, broker, committed};

struct Rig {
    kafka: Kafka,
    folder: tempfile::TempDir,
    input: String,
    output: String,
}

impl Rig {
    fn new(partitions: i32) -> Rig {
        let kafka = broker();
        let (input, output) = (kafka.new_topic("in", partitions), kafka.new_topic("out", 1));
        Rig { kafka, folder: tempfile::tempdir().expect("a folder"), input, output }
    }

    fn start(&self) -> Standalone {
        Standalone::start(self.folder.path())
    }

    /// Counts rows in windows of `seconds`, without a delay of the watermark.
    fn script(&self, seconds: u32, options: &str) -> String {
        let (bootstrap, input, output) = (self.kafka.bootstrap(), &self.input, &self.output);
        format!(
            "SET 'execution.checkpointing.interval' = '100 ms';
             CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
               'connector' = 'kafka', 'topic' = '{input}', 'properties.bootstrap.servers' = '{bootstrap}',
               'format' = 'json', {options});
             CREATE TABLE o (ws TIMESTAMP(3), n BIGINT) WITH (
               'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}',
               'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
               'sink.transactional-id-prefix' = '{output}');
             INSERT INTO o SELECT window_start, COUNT(*)
               FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND)) GROUP BY window_start, window_end;"
        )
    }

    /// One row at a time of the day.
    fn send(&self, partition: i32, time: &str) {
        let text = format!("{{\"k\":\"a\",\"ts\":\"2026-01-01 {time}\"}}");
        self.kafka.send(&self.input, partition, &[Some(&text)]);
    }

    /// Start (time of day) and count of each window that was written.
    fn windows(&self) -> Vec<(String, i64)> {
        let window = |row: &Value| {
            let start = row["ws"].as_str().expect("text");
            (start["2026-01-01 ".len()..].to_owned(), row["n"].as_i64().expect("a number"))
        };
        committed(&self.kafka, &self.output, 1).iter().map(window).collect()
    }

    fn wait_for_windows(&self, standalone: &Standalone, expected: &[(&str, i64)]) {
        let expected: Vec<(String, i64)> = expected.iter().map(|(start, n)| ((*start).to_owned(), *n)).collect();
        standalone.wait(&format!("windows {expected:?}"), || (self.windows().len() >= expected.len()).then_some(()));
        assert_eq!(self.windows(), expected);
    }

    /// Waits until a checkpoint has these records of each partition.
    fn wait_for_checkpoint(&self, standalone: &Standalone, job: &str, records: &[i64]) {
        let splits = records.iter().enumerate().map(|(partition, n)| (format!("{}-{partition}", self.input), *n));
        standalone.wait_for_positions(job, &splits.collect::<Vec<_>>());
    }
}

const EARLIEST: &str = "'scan.startup.mode' = 'earliest-offset'";

#[test]
fn a_restored_job_drops_what_it_would_have_dropped() {
    let rig = Rig::new(1);
    let standalone = rig.start();
    let job = standalone.submit(&rig.script(10, EARLIEST));
    rig.send(0, "00:00:03");
    rig.send(0, "00:00:25");
    rig.wait_for_windows(&standalone, &[("00:00:00", 1)]);
    rig.wait_for_checkpoint(&standalone, &job, &[2]);
    drop(standalone);
    let standalone = rig.start();
    rig.send(0, "00:00:04");
    rig.send(0, "00:00:40");
    rig.wait_for_windows(&standalone, &[("00:00:00", 1), ("00:00:20", 1)]);
    let described = standalone.job(&["describe", &job]);
    assert!(described.contains("numLateRecordsDropped 1"), "{described}");
}

#[test]
fn a_restored_split_holds_the_watermark_before_its_first_row() {
    let rig = Rig::new(2);
    let standalone = rig.start();
    let job = standalone.submit(&rig.script(60, EARLIEST));
    // Partition 0 has had nothing, partition 1 is half an hour ahead.
    rig.send(1, "10:29:59");
    rig.wait_for_checkpoint(&standalone, &job, &[0, 1]);
    drop(standalone);
    let standalone = rig.start();
    rig.send(1, "10:30:00");
    // It has been read, and a checkpoint says so, before the other speaks.
    rig.wait_for_checkpoint(&standalone, &job, &[0, 2]);
    drop(standalone);
    let standalone = rig.start();
    rig.send(1, "10:30:01");
    rig.wait_for_checkpoint(&standalone, &job, &[0, 3]);
    rig.send(0, "10:00:00");
    rig.send(0, "10:32:00");
    rig.send(1, "10:32:00");
    rig.wait_for_windows(&standalone, &[("10:00:00", 1), ("10:29:00", 1), ("10:30:00", 2)]);
    let described = standalone.job(&["describe", &job]);
    assert!(!described.contains("numLateRecordsDropped"), "{described}");
}

#[test]
fn a_partition_that_appears_is_read_from_its_beginning_and_counts() {
    let rig = Rig::new(2);
    let standalone = rig.start();
    let options = "'scan.startup.mode' = 'latest-offset', 'scan.topic-partition-discovery.interval' = '200 ms'";
    let job = standalone.submit(&rig.script(10, options));
    rig.wait_for_checkpoint(&standalone, &job, &[0, 0]);
    rig.send(0, "00:00:01");
    rig.send(1, "00:00:02");
    rig.wait_for_checkpoint(&standalone, &job, &[1, 1]);
    rig.kafka.add_partitions(&rig.input, 3);
    rig.send(2, "00:00:03");
    // Whatever the start-up mode says: it was not there when the job started.
    rig.wait_for_checkpoint(&standalone, &job, &[1, 1, 1]);
    rig.send(0, "00:00:12");
    rig.send(1, "00:00:12");
    rig.wait_for_checkpoint(&standalone, &job, &[2, 2, 1]);
    assert_eq!(rig.windows(), [], "the new partition holds the window open");
    drop(standalone);
    let standalone = rig.start();
    rig.send(2, "00:00:12");
    rig.wait_for_windows(&standalone, &[("00:00:00", 3)]);
    // It is no new partition after the restart.
    rig.wait_for_checkpoint(&standalone, &job, &[2, 2, 2]);
    for partition in 0..3 {
        rig.send(partition, "00:00:30");
    }
    rig.wait_for_windows(&standalone, &[("00:00:00", 3), ("00:00:10", 3)]);
    let described = standalone.job(&["describe", &job]);
    assert!(!described.contains("numLateRecordsDropped"), "{described}");
}
