//! What a process knows of its jobs when it is started again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::standalone::{Standalone, tidegate};

fn endless(settings: &str) -> String {
    format!(
        "{settings}
         CREATE TABLE n (id BIGINT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts)
           WITH ('connector' = 'datagen', 'rows-per-second' = '200');
         CREATE TABLE o (ws TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
         INSERT INTO o SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts), INTERVAL '1' SECOND))
           GROUP BY window_start, window_end;"
    )
}

const CHECKPOINTED: &str = "SET 'execution.checkpointing.interval' = '100 ms';";
const BOUNDED: &str = "CREATE TABLE o (id INT) WITH ('connector' = 'blackhole'); INSERT INTO o VALUES (1);";

/// The manifests of a job's checkpoints, oldest first.
fn manifests(folder: &Path, job: &str) -> Vec<PathBuf> {
    let checkpoints = fs::read_dir(folder.join("state/checkpoints").join(job)).into_iter().flatten().flatten();
    let number = |folder: &PathBuf| folder.file_name()?.to_str()?.strip_prefix("chk-")?.parse::<u64>().ok();
    let mut folders: Vec<(u64, PathBuf)> =
        checkpoints.map(|entry| entry.path()).filter_map(|folder| Some((number(&folder)?, folder))).collect();
    folders.sort();
    folders.into_iter().map(|(_, folder)| folder.join("_metadata")).filter(|manifest| manifest.exists()).collect()
}

#[test]
fn jobs_come_back_as_what_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let standalone = Standalone::start(dir);
    let going = standalone.submit(&endless(CHECKPOINTED));
    let broken = standalone.submit(&endless(CHECKPOINTED));
    let cancelled = standalone.submit(&endless(CHECKPOINTED));
    let fresh = standalone.submit(&endless(""));
    let finished = standalone.submit(BOUNDED);
    let failed = standalone.submit(
        "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = '/no/such/rows.json', 'format' = 'json');
         CREATE TABLE o (id INT) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT id FROM t;",
    );
    for job in [&going, &broken] {
        standalone.wait("a checkpoint", || (!manifests(dir, job).is_empty()).then_some(()));
    }
    standalone.wait_for_state(&cancelled, "RUNNING");
    standalone.job(&["cancel", &cancelled]);
    standalone.wait_for_state(&cancelled, "CANCELED");
    standalone.wait_for_state(&finished, "FINISHED");
    standalone.wait_for_state(&failed, "FAILED");
    standalone.wait_for_state(&fresh, "RUNNING");
    let warning = format!("job {fresh} takes no checkpoints that outlive this process: after a restart it starts over");
    assert!(standalone.said().contains(&warning), "{}", standalone.said());
    assert!(!standalone.said().contains(&format!("job {going} takes no")), "{}", standalone.said());
    assert!(manifests(dir, &cancelled).is_empty(), "checkpoints of a job that is over go");
    drop(standalone);
    let newest = manifests(dir, &broken).pop().expect("a manifest");
    let bytes = fs::read(&newest).expect("bytes");
    fs::write(&newest, &bytes[..bytes.len() / 2]).expect("written");
    fs::write(dir.join("state/jobs/00000000000000000000000000000001.json"), "{ no").expect("written");

    for restart in 1..=2 {
        let standalone = Standalone::start(dir);
        standalone.wait_for_state(&going, "RUNNING");
        standalone.wait_for_state(&fresh, "RUNNING");
        standalone.wait_for_state(&broken, "FAILED");
        let jobs = standalone.jobs();
        assert_eq!(jobs[&cancelled], "CANCELED");
        assert_eq!(jobs[&finished], "FINISHED");
        assert_eq!(jobs[&failed], "FAILED");
        assert_eq!(jobs["00000000000000000000000000000001"], "FAILED");
        assert_eq!(jobs.len(), 7);
        assert!(standalone.job(&["describe", &failed]).contains("/no/such/rows.json"), "the reason is remembered");
        let reason = standalone.job(&["describe", &broken]);
        assert!(reason.contains("_metadata"), "{reason}");
        let said = standalone.said();
        assert!(said.contains(&format!("job {going} goes on")), "{said}");
        assert!(said.contains(&format!("job {fresh} starts over")), "{said}");
        assert!(said.contains("jobs/00000000000000000000000000000001.json' cannot be read"), "{said}");
        let restarts = standalone.get(&format!("/jobs/{going}/tidegate/audit"))["restarts"].clone();
        assert_eq!(restarts[0]["restart"], restart, "{restarts}");
        assert!(restarts[0]["checkpoint"].as_u64().is_some_and(|id| id > 0), "{restarts}");
        // Nothing was overwritten: the next process finds the same.
        assert_eq!(fs::read(&newest).expect("bytes"), &bytes[..bytes.len() / 2]);
    }
    // Repaired, it goes on.
    fs::write(&newest, &bytes).expect("written");
    let standalone = Standalone::start(dir);
    standalone.wait_for_state(&broken, "RUNNING");
}

#[test]
fn the_record_of_a_job_says_what_was_submitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let standalone = Standalone::start(folder.path());
    let job = standalone.submit(&endless(CHECKPOINTED));
    let record = fs::read(folder.path().join(format!("state/jobs/{job}.json"))).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let script = record["script"].as_str().expect("a script");
    assert!(script.contains("'rows-per-second' = '200'") && script.contains("INSERT INTO o SELECT"), "{script}");
    assert_eq!(record["id"], job.as_str());
    assert!(record["name"].as_str().is_some_and(|name| name.starts_with("insert-into_")), "{}", record["name"]);
    assert!(record["submitted_ms"].as_i64().is_some_and(|ms| ms > 0));
    assert_eq!(record["graph"]["config"]["values"]["execution.checkpointing.interval"], "100 ms");
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let standalone = Standalone::start(folder.path());
    let state = folder.path().join("state");
    let second = tidegate(&["standalone", "--port", "0", "--state-dir", state.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("is in use by another") && said.contains(&standalone.pid().to_string()), "{said}");
    // Its death is enough.
    drop(standalone);
    Standalone::start(folder.path());
}

#[test]
fn an_orderly_end_suspends_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let standalone = Standalone::start(folder.path());
    let job = standalone.submit(&endless(CHECKPOINTED));
    standalone.wait("a checkpoint", || (!manifests(folder.path(), &job).is_empty()).then_some(()));
    standalone.terminate();
    assert!(!manifests(folder.path(), &job).is_empty(), "its checkpoints stay");
    let standalone = Standalone::start(folder.path());
    standalone.wait_for_state(&job, "RUNNING");
    let restarts = standalone.get(&format!("/jobs/{job}/tidegate/audit"))["restarts"].clone();
    assert!(restarts[0]["checkpoint"].as_u64().is_some_and(|id| id > 0), "{restarts}");
}

#[test]
fn a_transaction_timeout_that_the_brokers_refuse_refuses_the_job() {
    let (kafka, folder) = (crate::standalone::broker(), tempfile::tempdir().expect("a folder"));
    let topic = kafka.new_topic("out", 1);
    let script = format!(
        "{CHECKPOINTED}
         CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
         CREATE TABLE o (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
           'properties.bootstrap.servers' = '{}', 'sink.delivery-guarantee' = 'exactly-once',
           'sink.transactional-id-prefix' = 'p', 'properties.transaction.timeout.ms' = '3600000');
         INSERT INTO o SELECT id FROM n;",
        kafka.bootstrap()
    );
    let standalone = Standalone::start(folder.path());
    let file = folder.path().join("script.sql");
    fs::write(&file, script).expect("written");
    let refused = tidegate(&["run", file.to_str().expect("UTF-8"), "--endpoint", &standalone.address]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("'3600000'") && said.contains("900000"), "{said}");
    assert!(standalone.jobs().is_empty(), "no job was made of it");
    assert_eq!(fs::read_dir(folder.path().join("state/jobs")).expect("a folder").count(), 0);
}
