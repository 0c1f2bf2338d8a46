//! Checkpoints and savepoints on S3: an independent server's, reached over a way that can be cut.

#![cfg(feature = "s3")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate_checkpoint::manifest::FilePlace;
use tidegate_checkpoint::options::{S3Keys, S3Options};
use tidegate_checkpoint::storage::{CheckpointStorage, Stores};
use tidegate_checkpoint::{CheckpointId, JobId};
use tidegate_testing::process::free_port;
use tidegate_testing::s3::Bucket;
use tidegate_testing::wait_for;

use crate::common::{Finished, run_sql};
use crate::rig::{LIMIT, PROMPT, Process, broker, expect_lines, kafka_table, row, send, tree};

/// What may not be waited for longer, whatever is wrong with the storage.
const BOUND: Duration = Duration::from_secs(50);
/// An outage is noticed when the requests that it cut are given up.
const OUTAGE: Duration = Duration::from_secs(150);

/// A job that keeps rows and sums, its checkpoints on S3.
struct Case {
    bucket: Bucket,
    topic: String,
    out: TempDir,
}

impl Case {
    fn new(stem: &str) -> Option<Case> {
        let bucket = Bucket::new(stem)?;
        Some(Case { bucket, topic: broker().new_topic(stem, 1), out: tempfile::tempdir().expect("a folder") })
    }

    fn settings(&self) -> String {
        let (dir, more) = (self.bucket.url("checkpoints"), self.bucket.settings());
        let mut all = vec![
            ("execution.checkpointing.interval", "100 ms".to_owned()),
            ("execution.checkpointing.dir", dir),
            ("execution.checkpointing.num-retained", "2".to_owned()),
            ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION".to_owned()),
        ];
        all.extend(more);
        all.iter().map(|(key, value)| format!("SET '{key}' = '{value}';\n")).collect()
    }

    fn script(&self) -> String {
        self.settings() + &self.tables()
    }

    fn tables(&self) -> String {
        kafka_table("b", "f1 BIGINT", &self.topic)
            + &format!(
                "CREATE TABLE o (f1 BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', {PROMPT});
                 CREATE TABLE sums (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
                 EXECUTE STATEMENT SET BEGIN
                   INSERT INTO o SELECT f1 FROM b;
                   INSERT INTO sums SELECT f1 % 7, SUM(f1) FROM b GROUP BY f1 % 7;
                 END;",
                self.out.path().display()
            )
    }

    fn out(&self) -> &Path {
        self.out.path()
    }

    /// Keys of manifests below a folder of the bucket.
    fn manifests(&self, folder: &str) -> Vec<String> {
        self.bucket.list().into_iter().filter(|key| key.starts_with(folder) && key.ends_with("/_metadata")).collect()
    }
}

fn rows(numbers: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    numbers.map(row)
}

#[test]
fn a_killed_job_goes_on_from_s3_and_keeps_few_objects() {
    let Some(case) = Case::new("killed") else { return };
    send(&case.topic, 0..100);
    let first = Process::run(&case.script(), &[]);
    let job = first.only_job();
    expect_lines(case.out(), rows(0..100));
    first.next_checkpoint(&job);
    // State that does not change is written once, and named by checkpoints long after the one it was written for.
    let written: BTreeSet<String> = shared(&case).into_iter().collect();
    let newest = first.next_checkpoint(&job);
    assert!(newest.starts_with(&case.bucket.url(&format!("checkpoints/{job}/chk-"))), "{newest}");
    first.next_checkpoint(&job);
    let now = shared(&case);
    assert!(!now.is_empty() && now.iter().all(|key| written.contains(key)), "{written:?} {now:?}");
    drop(first);

    send(&case.topic, 100..200);
    // What was complete when it died is there, and no more than a few that were subsumed meanwhile.
    let kept = case.manifests(&format!("checkpoints/{job}/"));
    assert!((1..=4).contains(&kept.len()), "{kept:?}");
    let newest = kept.iter().max_by_key(|key| number(key)).expect("one");
    let from = case.bucket.url(newest.strip_suffix("/_metadata").expect("a manifest"));
    let second = Process::run(&case.script(), &["-s", &from]);
    let job = second.only_job();
    expect_lines(case.out(), rows(0..200));
    second.next_checkpoint(&job);
    assert_eq!(second.job(&["cancel", &job]).code, Some(0));
    assert!(case.manifests(&format!("checkpoints/{job}/")).len() >= 2, "they are retained");
    assert!(second.process.errors().lines().all(|line| !line.contains(case.bucket.keys().1)));
}

#[test]
fn a_process_keeps_checkpoints_of_its_jobs_on_s3_and_no_secrets() {
    let Some(case) = Case::new("process") else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut arguments = vec!["--state-dir".to_owned(), state.path().display().to_string()];
    let dir = ("execution.checkpointing.dir", case.bucket.url("all"));
    for (key, value) in case.bucket.settings().into_iter().chain([dir]) {
        arguments.extend(["-D".to_owned(), format!("{key}={value}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    send(&case.topic, 0..100);
    let killed = Process::standalone(&arguments);
    let job = killed.submit(&format!("SET 'execution.checkpointing.interval' = '100 ms';{}", case.tables()), &[]);
    killed.wait_for_state(&job, "RUNNING");
    expect_lines(case.out(), rows(0..100));
    assert!(!case.manifests(&format!("all/{job}/")).is_empty(), "{:?}", case.bucket.list());
    let settings = killed.get("/jobmanager/config").to_string();
    drop(killed);
    send(&case.topic, 100..200);
    let alive = Process::standalone(&arguments);
    alive.wait_for_state(&job, "RUNNING");
    expect_lines(case.out(), rows(0..200));

    let secret = case.bucket.keys().1;
    assert!(settings.contains("s3.secret-key") && !settings.contains(secret), "{settings}");
    assert!(!alive.process.errors().contains(secret), "{}", alive.process.errors());
    // The process has them; what it keeps of a job need not.
    for (name, bytes) in tree(state.path()) {
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{name}");
    }
}

/// Files that checkpoints share.
fn shared(case: &Case) -> Vec<String> {
    case.bucket.list().into_iter().filter(|key| key.contains("/shared/")).collect()
}

/// 7 of `.../chk-7/_metadata`.
fn number(key: &str) -> u64 {
    let folder = key.rsplit('/').nth(1).and_then(|folder| folder.strip_prefix("chk-"));
    folder.and_then(|id| id.parse().ok()).unwrap_or(0)
}

#[test]
fn savepoints_lie_on_s3_and_belong_to_whom_they_should() {
    let Some(case) = Case::new("savepoints") else { return };
    send(&case.topic, 0..100);
    let cluster = Process::standalone(&[]);
    let job = cluster.submit(&case.script(), &[]);
    cluster.wait_for_state(&job, "RUNNING");
    expect_lines(case.out(), rows(0..100));
    let place = case.bucket.url("mine");
    let kept = cluster.savepoint(&["savepoint", &job, &place]);
    assert!(kept.starts_with(&format!("{place}/savepoint-{}-", &job[..6])), "{kept}");
    let last = cluster.savepoint(&["stop", &job, "-p", &place]);
    assert_eq!(case.manifests("mine/").len(), 2);
    assert_eq!(case.manifests(&format!("checkpoints/{job}/")), Vec::<String>::new(), "stopped, its checkpoints go");

    // Nobody's to change, and then the job's.
    send(&case.topic, 100..200);
    let before = case.bucket.list().into_iter().filter(|key| key.starts_with("mine/")).collect::<Vec<_>>();
    let plan = run_sql(&case.script(), &["--dry-run", "-s", &last], LIMIT);
    assert!(plan.code == Some(0) && plan.stdout.contains("group_aggregate(sums): kept"), "{}", plan.stderr);
    let job = cluster.submit(&case.script(), &["-s", &last]);
    cluster.wait_for_state(&job, "RUNNING");
    expect_lines(case.out(), rows(0..200));
    cluster.next_checkpoint(&job);
    let third = cluster.savepoint(&["stop", &job, "-p", &case.bucket.url("other")]);
    assert_eq!(case.bucket.list().into_iter().filter(|key| key.starts_with("mine/")).collect::<Vec<_>>(), before);
    let job = cluster.submit(&case.script(), &["-s", &third, "--claim-mode", "CLAIM"]);
    cluster.wait_for_state(&job, "RUNNING");
    let gone = wait_for(LIMIT, || case.manifests("other/").is_empty().then_some(()));
    assert!(gone.is_some(), "{:?}", case.bucket.list());
    send(&case.topic, 200..300);
    expect_lines(case.out(), rows(0..300));
}

#[tokio::test]
async fn what_nobody_names_is_swept_and_cannot_come_late() {
    let Some(bucket) = Bucket::new("swept") else { return };
    let (access, secret) = bucket.keys();
    let keys = S3Keys { access: access.to_owned(), secret: secret.to_owned(), session: None };
    let s3 = S3Options { endpoint: Some(bucket.endpoint()), region: None, keys: Some(keys), path_style: Some(true) };
    let place = Stores::new().open(&bucket.url("c"), &s3).expect("a place");
    let job = JobId::parse("94e3a1b2c3d4e5f60718293a4b5c6d7e").expect("an id");
    let storage = CheckpointStorage::new(&place, &job, true);
    storage.prove(1).await.expect("it honours conditional writes");
    assert_eq!(bucket.list(), Vec::<String>::new());

    // A process died before it had written a manifest.
    for (at, name) in [(FilePlace::Exclusive, "own"), (FilePlace::Shared, "for-others")] {
        storage.put_file(CheckpointId(9), at, name, b"state".to_vec().into()).await.expect("put");
    }
    assert_eq!(storage.sweep(0).await.expect("swept").young, 2, "too young to be judged");
    assert_eq!(storage.sweep(i64::MAX).await.expect("swept").deleted, 2);
    // The void stays, so that a manifest which is still under way cannot arrive.
    assert_eq!(bucket.list(), [format!("c/{job}/chk-9/_metadata")]);
    assert_eq!(storage.list().await.expect("listed"), [(CheckpointId(9), false)]);
}

/// Runs a job that never gets so far as to run.
#[track_caller]
fn refused(script: &str, arguments: &[&str], words: &[&str]) {
    let began = Instant::now();
    let Finished { code, stdout, stderr } = run_sql(script, arguments, LIMIT);
    assert!(code.is_some_and(|code| code != 0), "{code:?} {stdout}");
    for word in words {
        assert!(stderr.contains(word), "no '{word}' in: {stderr}");
    }
    assert!(!stderr.contains('<'), "no XML: {stderr}");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
}

#[test]
fn a_storage_that_cannot_be_used_is_told_at_once() {
    let Some(case) = Case::new("refused") else { return };
    let script = case.script();
    let (access, secret) = case.bucket.keys();
    let wrong = script.replace(secret, "ThisIsNotTheSecretOfThatKey");
    let keys = "Check 's3.access-key' and 's3.secret-key'";
    refused(&wrong, &[], &["the storage of checkpoints cannot be used", "SignatureDoesNotMatch", keys]);
    refused(&script.replace(access, "NOBODY"), &[], &["InvalidAccessKeyId", keys]);
    let bucket = script.replace(&case.bucket.name, "no-such-bucket");
    refused(&bucket, &[], &["s3://no-such-bucket/checkpoints", "NoSuchBucket", "Make the bucket"]);
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let unreachable = script.replace(&case.bucket.endpoint(), &nowhere);
    refused(&unreachable, &[], &["Connection refused", "Check 's3.endpoint'"]);
    let half = script.replace("SET 's3.secret-key'", "SET 's3.other'");
    refused(&half, &[], &["'s3.access-key' is set and 's3.secret-key' is not"]);

    // A snapshot that is to be restored is looked for as well.
    let nothing = case.bucket.url("savepoints/none");
    refused(&script, &["-s", &nothing], &["Cannot find meta data file '_metadata'", &nothing, "check the path"]);
    refused(&script, &["-s", "s3://no-such-bucket/sp", "--dry-run"], &["s3://no-such-bucket/sp", "NoSuchBucket"]);
    assert_eq!(case.bucket.list(), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn an_outage_fails_checkpoints_that_are_tolerated() {
    let Some(case) = Case::new("tolerant") else { return };
    let tolerant = "SET 'execution.checkpointing.tolerable-failed-checkpoints' = '1000';".to_owned();
    outage(&case, &(tolerant + &case.script()), 0);
}

#[test]
fn a_job_that_tolerates_no_failure_starts_again_when_s3_is_back() {
    let Some(case) = Case::new("intolerant") else { return };
    let prompt = "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.delay' = '1 s';
                  SET 'restart-strategy.fixed-delay.attempts' = '1000';";
    outage(&case, &(prompt.to_owned() + &case.script()), 1);
}

/// S3 is away until a checkpoint has failed, and so often the job: no row is lost or doubled.
#[track_caller]
fn outage(case: &Case, script: &str, restarts: i64) {
    send(&case.topic, 0..100);
    let cluster = Process::standalone(&[]);
    let job = cluster.submit(script, &[]);
    cluster.wait_for_state(&job, "RUNNING");
    expect_lines(case.out(), rows(0..100));
    case.bucket.gate.close();
    send(&case.topic, 100..200);
    let path = format!("/jobs/{job}/checkpoints");
    let failed = || cluster.get(&path)["counts"]["failed"].as_i64().unwrap_or(0);
    let noticed = wait_for(OUTAGE, || (failed() > 0).then_some(()));
    assert!(noticed.is_some(), "{}", cluster.process.errors());
    if restarts == 0 {
        assert_eq!(cluster.state(&job), "RUNNING");
    }
    case.bucket.gate.open();
    let shown = wait_for(OUTAGE, || (crate::rig::lines(case.out()).len() >= 200).then_some(()));
    assert!(shown.is_some(), "{}", cluster.process.errors());
    cluster.wait_for_state(&job, "RUNNING");
    send(&case.topic, 200..300);
    expect_lines(case.out(), rows(0..300));
    cluster.next_checkpoint(&job);
    // What failed left nothing behind that is not swept or deleted: one folder for each checkpoint that is kept.
    let said = cluster.process.errors();
    assert!(said.contains("failed") && !said.contains(case.bucket.keys().1), "{said}");
}
