//! Several checkpoints are kept while a file of an exactly-once table stays open: each of them can be gone on
//! from, as often as one likes, with the same rows.
#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

use std::path::Path;

use tidegate_testing::chaos::Job;
use tidegate_testing::chaos::site::{Site, complete};
use tidegate_testing::kafka::Kafka;
use tidegate_testing::process::binary;

const TOPIC: &str = "two";
const RETAINED: usize = 5;

fn script(kafka: &Kafka, site: &Site) -> String {
    let (checkpoints, temporary, files) = (site.checkpoints(), site.temporary(), site.files());
    format!(
        "SET 'execution.checkpointing.interval' = '50 ms';
         SET 'execution.checkpointing.dir' = '{}';
         SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';
         SET 'execution.checkpointing.num-retained' = '{RETAINED}';
         SET 'io.tmp.dirs' = '{}';
         CREATE TABLE two (v INT) WITH ('connector' = 'kafka', 'topic' = '{TOPIC}', 'format' = 'json',
           'properties.bootstrap.servers' = '{}', 'scan.startup.mode' = 'earliest-offset');
         CREATE TABLE files (v INT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json',
           'sink.rolling-policy.rollover-interval' = '1 h', 'sink.rolling-policy.inactivity-interval' = '1 h');
         INSERT INTO files SELECT v FROM two;",
        checkpoints.display(),
        temporary.display(),
        kafka.bootstrap(),
        files.display()
    )
}

/// All rows in the table's folder, those in files that are still written too.
fn rows(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        rows.extend(text.lines().map(str::to_owned));
    }
    rows.sort();
    rows
}

#[test]
fn every_retained_checkpoint_is_gone_on_from_as_often_as_one_likes() {
    let binary = binary(env!("CARGO_BIN_EXE_tidegate"));
    let kafka = Kafka::start_program(&binary).expect("a broker");
    kafka.create_topic(TOPIC, 1);
    let site = Site::new().expect("a folder");
    let script = script(&kafka, &site);
    let mut job = Job::new(&binary, site, &script).expect("a script");
    job.start(&[], None).expect("it starts");
    job.wait_checkpoints(1).unwrap_or_else(|e| panic!("{e}"));
    kafka.send(TOPIC, 0, &[Some(r#"{"v":1}"#), Some(r#"{"v":2}"#)]);
    let both = [r#"{"v":1}"#, r#"{"v":2}"#];
    let written = job.wait("both rows", |site| (rows(&site.files()) == both).then(|| site.latest())).unwrap();
    let since = written.map_or(0, |found| found.id);
    // The first of these has both rows; one more than are kept.
    let more = since + 2 + RETAINED as u64;
    job.wait("six more checkpoints", |site| site.latest().filter(|found| found.id >= more)).unwrap();
    job.kill().unwrap_or_else(|e| panic!("{e}"));
    let own = job.site.jobs().pop().expect("the folder of the first life");
    let mut retained = complete(&own);
    retained.sort_by_key(|found| found.id);
    // The death may have come between a manifest and the deletion of the oldest.
    assert!((RETAINED..=RETAINED + 1).contains(&retained.len()), "{retained:?}");
    let newest = retained.last().expect("several").clone();
    let oldest = retained[retained.len() - RETAINED].clone();
    for checkpoint in [vec![newest; RETAINED], vec![oldest]].concat() {
        job.start_from(Some(&checkpoint.folder), &[], None).expect("it starts");
        let ids =
            |site: &Site| site.jobs().into_iter().filter(|job| *job != own).flat_map(|job| complete(&job)).count();
        job.wait("checkpoints of the new life", |site| (ids(site) >= 2).then_some(()))
            .unwrap_or_else(|e| panic!("{e}"));
        job.kill().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rows(&job.site.files()), both, "from {checkpoint:?}");
        let still = complete(&own);
        assert_eq!(still.len(), retained.len(), "a new life takes nothing from the old one");
        for other in job.site.jobs().into_iter().filter(|job| *job != own) {
            std::fs::remove_dir_all(other).expect("it can be removed");
        }
    }
}
