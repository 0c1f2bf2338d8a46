//! `tidegate job ...`: what it prints and how it ends.

use std::path::Path;

use tidegate_testing::rdkafka::consumer::{BaseConsumer, Consumer};
use tidegate_testing::rdkafka::message::{BorrowedMessage, Message};
use tidegate_testing::rdkafka::{Offset, TopicPartitionList};
use tidegate_testing::wait_for;

use crate::common::tidegate;
use crate::rig::{LIMIT, Process, broker, expect_lines, kafka_table, local, often, send};

/// A job that counts for ever and keeps state by key.
fn counting(folder: &Path) -> String {
    often(folder)
        + "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200');
           CREATE TABLE o (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
           INSERT INTO o SELECT id % 10, COUNT(*) FROM n GROUP BY id % 10;"
}

#[test]
fn a_savepoint_is_taken_while_the_job_runs_on_and_one_stops_it() {
    let cluster = Process::standalone(&[]);
    let job = cluster.submit(&counting(cluster.folder.path()), &[]);
    cluster.wait_for_state(&job, "RUNNING");
    let folder = cluster.path("savepoints");
    let folder = folder.to_str().expect("text");

    let taken = cluster.job(&["savepoint", &job[..8], folder]);
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    let lines: Vec<&str> = taken.stdout.lines().collect();
    assert_eq!(lines[..2], [format!("Triggering savepoint for job {job}.").as_str(), "Waiting for response..."]);
    let path = lines[2].strip_prefix("Savepoint completed. Path: ").expect("a path");
    assert!(path.starts_with(&format!("file:{folder}/savepoint-{}-", &job[..6])), "{path}");
    assert_eq!(lines[3], "You can resume your program from this savepoint with the run command.");
    assert!(local(path).join("_metadata").exists());
    assert_eq!(cluster.state(&job), "RUNNING");

    let stopped = cluster.job(&["stop", &job, "--savepoint-dir", folder]);
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    let lines: Vec<&str> = stopped.stdout.lines().collect();
    assert_eq!(lines[0], format!("Suspending job \"{job}\" with a CANONICAL savepoint."));
    assert_eq!(lines[1], format!("Triggering stop-with-savepoint for job {job}."));
    let path = lines[3].strip_prefix("Savepoint completed. Path: ").expect("a path");
    assert!(local(path).join("_metadata").exists());
    assert_eq!(cluster.state(&job), "FINISHED", "the answer comes after the end");

    let shown = cluster.job(&["checkpoints", &job]).stdout;
    assert!(shown.contains(path) && shown.contains("SYNC_SAVEPOINT"), "{shown}");
    assert!(shown.contains("START DELAY") && shown.contains("GroupAggregate"), "{shown}");
    let described = cluster.job(&["describe", &job]).stdout;
    assert!(described.contains("last savepoint: ") && described.contains(path), "{described}");
}

#[test]
fn the_folder_is_that_of_the_job_or_of_the_process_or_asked_for() {
    let of_process = tempfile::tempdir().expect("a folder");
    let setting = format!("execution.checkpointing.savepoint-dir={}", of_process.path().display());
    let cluster = Process::standalone(&["-D", &setting]);
    let script = counting(cluster.folder.path());
    let job = cluster.submit(&script, &[]);
    cluster.wait_for_state(&job, "RUNNING");
    let path = cluster.savepoint(&["stop", &job]);
    assert!(local(&path).starts_with(of_process.path()), "{path}");
    let of_job = cluster.path("of-job");
    let job = cluster.submit(&format!("SET 'state.savepoints.dir' = '{}';{script}", of_job.display()), &[]);
    cluster.wait_for_state(&job, "RUNNING");
    let path = cluster.savepoint(&["stop", &job]);
    assert!(local(&path).starts_with(&of_job), "{path}");

    let other = Process::standalone(&[]);
    let job = other.submit(&script, &[]);
    other.wait_for_state(&job, "RUNNING");
    let refused = other.job(&["stop", &job]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("[execution.checkpointing.savepoint-dir] is not set"), "{}", refused.stderr);
    assert_eq!(other.state(&job), "RUNNING");
}

/// Big-endian numbers of a topic of one partition, as the format `raw` writes them.
fn numbers(topic: &str) -> Vec<i64> {
    let consumer: BaseConsumer = broker().client().set("group.id", "numbers").create().expect("a consumer");
    let (_, end) = consumer.fetch_watermarks(topic, 0, LIMIT).expect("the broker answers");
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(topic, 0, Offset::Beginning).expect("a place");
    consumer.assign(&from).expect("assigned");
    let next = |_| consumer.poll(LIMIT).expect("a record").expect("no error");
    let number = |record: BorrowedMessage<'_>| record.payload().and_then(|value| value.try_into().ok());
    (0..end).map(next).map(|record| i64::from_be_bytes(number(record).expect("8 bytes"))).collect()
}

#[test]
fn a_job_without_checkpoints_takes_savepoints_and_goes_on_from_them() {
    let cluster = Process::standalone(&[]);
    let (topic, out) = (broker().new_topic("bare", 1), broker().new_topic("sums", 1));
    let columns = "f1 BIGINT, ts AS TO_TIMESTAMP_LTZ(f1, 0), WATERMARK FOR ts AS ts";
    let script = kafka_table("b", columns, &topic)
        + &format!(
            "CREATE TABLE o (s BIGINT) WITH ('connector' = 'kafka', 'topic' = '{out}', 'format' = 'raw',
               'properties.bootstrap.servers' = '{}');
             CREATE TABLE sums (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
             EXECUTE STATEMENT SET BEGIN
               INSERT INTO o SELECT SUM(f1)
                 FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '100' SECOND)) GROUP BY window_start, window_end;
               INSERT INTO sums SELECT f1 % 7, SUM(f1) FROM b GROUP BY f1 % 7;
             END;",
            broker().bootstrap()
        );
    let folder = cluster.path("savepoints");
    let folder = folder.to_str().expect("text");
    let window = |w: i64| (w * 100..w * 100 + 100).sum::<i64>();
    // What the job has written, once it is so much.
    let written = |count: usize| {
        let seen = wait_for(LIMIT, || Some(numbers(&out)).filter(|seen| seen.len() >= count));
        seen.unwrap_or_else(|| panic!("{:?} and no more; {}", numbers(&out), cluster.process.errors()))
    };
    send(&topic, 0..150);
    let job = cluster.submit(&script, &[]);
    assert_eq!(written(1), [window(0)]);
    // One after the other: none holds more or less than the state as it is.
    let first = cluster.savepoint(&["savepoint", &job, folder]);
    send(&topic, 150..250);
    assert_eq!(written(2), [window(0), window(1)]);
    let second = cluster.savepoint(&["savepoint", &job, folder]);
    let last = cluster.savepoint(&["stop", &job, "-p", folder]);
    cluster.wait_for_state(&job, "FINISHED");
    send(&topic, 250..350);
    let mut all = vec![window(0), window(1)];
    for (from, more) in [(&last, &[2][..]), (&second, &[2]), (&first, &[1, 2])] {
        let job = cluster.submit(&script, &["-s", from]);
        all.extend(more.iter().map(|w| window(*w)));
        assert_eq!(written(all.len()), all, "from {from}");
        cluster.savepoint(&["stop", &job, "-p", folder]);
    }
    let shown = cluster.job(&["checkpoints", &job]).stdout;
    assert!(shown.contains("SAVEPOINT") && shown.contains(&last), "{shown}");
}

#[test]
fn a_checkpoint_is_taken_when_it_is_asked_for() {
    let cluster = Process::standalone(&[]);
    let rarely = counting(cluster.folder.path()).replace("'50 ms'", "'1 h'");
    let job = cluster.submit(&rarely, &[]);
    cluster.wait_for_state(&job, "RUNNING");
    for number in 1..3 {
        let taken = cluster.job(&["checkpoint", &job[..8]]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        let lines: Vec<&str> = taken.stdout.lines().collect();
        assert_eq!(lines[..2], [format!("Triggering checkpoint for job {job}.").as_str(), "Waiting for response..."]);
        let path = lines[2].strip_prefix(&format!("Checkpoint(CONFIGURED) {number} for job {job} completed. Path: "));
        assert!(local(path.expect("a path")).join("_metadata").exists(), "{}", lines[2]);
    }
    assert_eq!(cluster.job(&["cancel", &job]).code, Some(0));
    cluster.wait_for_state(&job, "CANCELED");
    let ended = cluster.job(&["checkpoint", &job]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("not running any more (CANCELED)"), "{}", ended.stderr);
}

#[test]
fn jobs_have_the_settings_of_the_process_unless_they_set_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = format!("state.checkpoints.dir={}", folder.path().display());
    let cluster = Process::standalone(&["-D", "execution.checkpointing.interval=50 ms", "-D", &dir]);
    let bare = "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
                CREATE TABLE o (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT id FROM n;";
    let job = cluster.submit(bare, &[]);
    cluster.wait_for_state(&job, "RUNNING");
    let place = cluster.next_checkpoint(&job);
    assert!(local(&place).starts_with(folder.path()), "{place}");

    let own = "SET 'execution.checkpointing.interval' = '1 h'; SET 'execution.checkpointing.dir' = 'memory:///own';";
    let job = cluster.submit(&format!("{own}{bare}"), &[]);
    cluster.wait_for_state(&job, "RUNNING");
    assert_eq!(cluster.get(&format!("/jobs/{job}/checkpoints/config"))["interval"], 3_600_000);
    let taken = cluster.job(&["checkpoint", &job]).stdout;
    assert!(taken.contains("Path: memory:/own/"), "{taken}");
}

#[test]
fn what_cannot_be_done_is_told_and_ends_with_its_code() {
    let cluster = Process::standalone(&[]);
    let bare = "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
                CREATE TABLE o (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT id FROM n;";
    let job = cluster.submit(bare, &[]);
    cluster.wait_for_state(&job, "RUNNING");
    for command in ["stop", "savepoint", "checkpoints"] {
        let unknown = cluster.job(&[command, "zzz"]);
        assert_eq!(unknown.code, Some(1));
        assert!(unknown.stderr.contains("There is no job zzz"), "{}", unknown.stderr);
    }
    assert_eq!(cluster.job(&["cancel", &job]).code, Some(0));
    cluster.wait_for_state(&job, "CANCELED");
    let ended = cluster.job(&["stop", &job, "-p", "/tmp"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("not running any more (CANCELED)"), "{}", ended.stderr);
    for arguments in [&["job", "stop"][..], &["job", "explode", &job], &["job", "stop", &job, "--drainage"]] {
        assert_eq!(tidegate(arguments, LIMIT).code, Some(2), "{arguments:?}");
    }
    let help = tidegate(&["job", "stop", "--help"], LIMIT).stdout;
    assert!(help.contains("--dry-run"), "{help}");
}

#[test]
fn drained_all_windows_fire_and_suspended_they_wait() {
    let cluster = Process::standalone(&[]);
    let script = |out: &Path| {
        often(cluster.folder.path())
            + &format!(
                "CREATE TABLE n (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 0), WATERMARK FOR ts AS ts) WITH (
                   'connector' = 'datagen', 'rows-per-second' = '100', 'fields.id.kind' = 'sequence',
                   'fields.id.start' = '0', 'fields.id.end' = '1000000');
                 CREATE TABLE o (k BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
                 INSERT INTO o SELECT COUNT(*) * 0 + 1 FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts), INTERVAL '365' DAY))
                   GROUP BY window_start, window_end;",
                out.display()
            )
    };
    let folder = cluster.path("savepoints");
    let folder = folder.to_str().expect("text");
    for (drain, wanted) in [(false, vec![]), (true, vec!["{\"k\":1}".to_owned()])] {
        let out = cluster.path(if drain { "drained" } else { "suspended" });
        let job = cluster.submit(&script(&out), &[]);
        cluster.wait_for_state(&job, "RUNNING");
        cluster.next_checkpoint(&job);
        let mut arguments = vec!["stop", &job, "--savepoint-dir", folder];
        if drain {
            arguments.push("--drain");
        }
        let stopped = cluster.job(&arguments);
        let begins = if drain { "Draining job" } else { "Suspending job" };
        assert!(stopped.code == Some(0) && stopped.stdout.starts_with(begins), "{}", stopped.stderr);
        expect_lines(&out, wanted);
    }
}
