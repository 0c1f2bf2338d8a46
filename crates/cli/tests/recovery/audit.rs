//! The account of a sink, with a kill between the checkpoint and its commit.

use std::path::Path;

use serde_json::Value;
use tidegate_testing::kafka::Kafka;

use crate::standalone::{Standalone, broker, committed};

fn script(source: &Kafka, input: &str, target: &Kafka, topic: &str, files: &Path) -> String {
    format!(
        "SET 'execution.checkpointing.interval' = '150 ms';
         CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{input}',
           'properties.bootstrap.servers' = '{from}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
         CREATE TABLE o (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
           'properties.bootstrap.servers' = '{bootstrap}', 'sink.delivery-guarantee' = 'exactly-once',
           'sink.transactional-id-prefix' = 'audited');
         CREATE TABLE f (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json',
           'sink.rolling-policy.rollover-interval' = '100 ms', 'sink.rolling-policy.check-interval' = '50 ms');
         EXECUTE STATEMENT SET BEGIN
           INSERT INTO o SELECT id FROM numbers;
           INSERT INTO f SELECT id FROM numbers;
         END;",
        files.display(),
        from = source.bootstrap(),
        bootstrap = target.bootstrap()
    )
}

fn outputs(answer: &Value, kind: &str) -> Vec<Value> {
    let all = answer["outputs"].as_array().expect("a list");
    all.iter().filter(|output| output["kind"] == kind).cloned().collect()
}

#[test]
fn the_account_names_what_a_restart_replayed() {
    // Rows come from one broker and go to another, which can die alone.
    let (source, mut target) = (broker(), broker());
    let folder = tempfile::tempdir().expect("a folder");
    let (input, topic) = (source.new_topic("in", 1), target.new_topic("out", 1));
    let send = |from: i64, count: i64| {
        let texts: Vec<String> = (from..from + count).map(|id| format!("{{\"id\":{id}}}")).collect();
        source.send(&input, 0, &texts.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
    };
    send(0, 10);
    let standalone = Standalone::start(folder.path());
    let job = standalone.submit(&script(&source, &input, &target, &topic, &folder.path().join("files")));
    let path = format!("/jobs/{job}/tidegate/audit");
    let first = standalone.wait("a commit", || {
        let all = outputs(&standalone.get(&path), "kafka-transaction");
        let committed = all.iter().filter(|o| o["status"] == "COMMITTED");
        (committed.filter_map(|o| o["rows"].as_u64()).sum::<u64>() == 10).then_some(all)
    });
    assert_eq!(first[0]["transactional-id"], "audited-0");
    assert_eq!(first[0]["group"], "eos.audited-0");
    assert!(first[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{first:?}");
    let files = standalone.wait("published files", || {
        let files = outputs(&standalone.get(&path), "file");
        let published = files.iter().filter(|file| file["status"] == "COMMITTED");
        (published.filter_map(|file| file["rows"].as_u64()).sum::<u64>() == 10).then_some(files)
    });
    for file in &files {
        let path = file["path"].as_str().expect("a path");
        assert!(Path::new(path).is_file(), "{path}");
    }

    target.interrupt();
    send(10, 5);
    let pending = standalone.wait("a pending sequence of a complete checkpoint", || {
        let answer = standalone.get(&path);
        let complete: Vec<u64> =
            answer["checkpoints"].as_array()?.iter().filter_map(|checkpoint| checkpoint["id"].as_u64()).collect();
        outputs(&answer, "kafka-transaction")
            .into_iter()
            .find(|o| o["status"] == "PENDING" && o["checkpoint"].as_u64().is_some_and(|id| complete.contains(&id)))
    });
    drop(standalone);
    target.resume().expect("it comes back");

    let standalone = Standalone::start(folder.path());
    let replayed = standalone.wait("the replay", || {
        let all = outputs(&standalone.get(&path), "kafka-transaction");
        all.into_iter().find(|o| o["sequence"] == pending["sequence"] && o["status"] != "PENDING")
    });
    assert_eq!(replayed["status"], "REPLAYED", "{replayed}");
    assert_eq!(replayed["restart"], 1, "{replayed}");
    assert_eq!((&replayed["rows"], &replayed["checkpoint"]), (&pending["rows"], &pending["checkpoint"]));
    let table = standalone.job(&["audit", &job]);
    for words in ["Restart 1 from checkpoint", "REPLAYED (restart 1)", "audited-0", &format!("{input}-0 @ 1")] {
        assert!(table.contains(words), "{words} is not in:\n{table}");
    }
    standalone.wait("every row", || (committed(&target, &topic, 1).len() >= 15).then_some(()));
    let mut ids: Vec<i64> = committed(&target, &topic, 1).iter().filter_map(|row| row["id"].as_i64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..15).collect::<Vec<_>>());
}
