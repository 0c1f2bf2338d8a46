//! The folder of jobs: what is written is found again, and what is broken spoils nothing else.

use tidegate_runtime::view::{FailureView, JobStatus};

use super::*;

fn id(digit: char) -> JobId {
    JobId::parse(&digit.to_string().repeat(32)).expect("an id")
}

fn record(id: &JobId, submitted_ms: i64) -> JobRecord {
    let mut graph = tidegate_api::graph::JobGraph { name: format!("job-{submitted_ms}"), ..Default::default() };
    graph.config.set("k", "v");
    JobRecord::new(id, &graph, Some("INSERT INTO o SELECT 1;".into()), submitted_ms).expect("a record")
}

fn ended(id: &JobId, status: JobStatus, at: i64) -> EndedJob {
    let failure = (status == JobStatus::Failed).then(|| FailureView {
        message: "the disk is full".into(),
        task: Some("Source: t[1] (1/1)".into()),
        timestamp_ms: at,
    });
    let timestamps = [(JobStatus::Initializing, 1), (status, at)].into_iter().collect();
    EndedJob { id: id.clone(), name: "job".into(), status, timestamps, failure }
}

fn found(stored: &[Stored]) -> Vec<(String, Option<JobStatus>)> {
    let record = |stored: &Stored| match stored {
        Stored::Record(record) => (record.id.clone(), record.ended().map(|ended| ended.status)),
        Stored::Broken { id, .. } => (format!("broken {id}"), None),
    };
    stored.iter().map(record).collect()
}

#[test]
fn jobs_are_found_again_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("a/b");
    let (store, none) = JobStore::open(&dir, 10).expect("it opens");
    assert!(none.is_empty());
    let (first, second, third) = (id('1'), id('2'), id('3'));
    store.put(record(&second, 20)).expect("written");
    store.put(record(&first, 10)).expect("written");
    store.put(record(&third, 30)).expect("written");
    store.ended(&ended(&second, JobStatus::Failed, 50)).expect("written");
    let savepoint = StopSavepoint { checkpoint: 7, location: "file:/sp".into() };
    store.stopping(&third, &savepoint).expect("written");
    store.restarted(&third, 4).expect("written");
    store.ended(&ended(&id('9'), JobStatus::Finished, 1)).expect("a job that was never kept is no error");
    drop(store);
    let (_, stored) = JobStore::open(&dir, 10).expect("it opens again");
    let expected =
        [(first.to_string(), None), (second.to_string(), Some(JobStatus::Failed)), (third.to_string(), None)];
    assert_eq!(found(&stored), expected);
    let [Stored::Record(one), Stored::Record(two), Stored::Record(three)] = stored.as_slice() else {
        panic!("three records");
    };
    assert_eq!(one.graph().expect("a graph").config.get("k"), Some("v"));
    assert_eq!(one.script.as_deref(), Some("INSERT INTO o SELECT 1;"));
    let failed = two.ended().expect("it has ended");
    assert_eq!(failed.failure.expect("a reason").message, "the disk is full");
    assert_eq!(failed.timestamps[&JobStatus::Failed], 50);
    assert_eq!((three.savepoint(), three.restarts), (Some(savepoint), 4));
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = JobStore::open(folder.path(), 10).expect("it opens");
    let text = JobStore::open(folder.path(), 10).expect_err("in use").to_string();
    assert!(text.contains("is in use") && text.contains(&std::process::id().to_string()), "{text}");
    drop(store);
    JobStore::open(folder.path(), 10).expect("it is free");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let text = JobStore::open(&file, 10).expect_err("no folder").to_string();
    assert!(text.contains("cannot be used"), "{text}");
}

#[test]
fn broken_records_are_told_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = JobStore::open(folder.path(), 10).expect("it opens");
    store.put(record(&id('1'), 1)).expect("written");
    let good = fs::read(store.path(id('1').as_str())).expect("a file");
    let text = String::from_utf8(good.clone()).expect("text");
    let broken = [
        ('2', good[..good.len() / 2].to_vec(), "EOF"),
        ('3', b"".to_vec(), "EOF"),
        ('4', text.replacen("\"version\": 1", "\"version\": 7", 1).into_bytes(), "version 7"),
        ('5', good.clone(), "record of job 1111"),
    ];
    for (digit, bytes, _) in &broken {
        fs::write(store.path(id(*digit).as_str()), bytes).expect("written");
    }
    fs::write(folder.path().join("jobs/readme.txt"), "mine").expect("written");
    let half = folder.path().join("jobs/.half.json.new");
    fs::write(&half, "{").expect("written");
    drop(store);
    let (store, stored) = JobStore::open(folder.path(), 10).expect("it opens all the same");
    assert_eq!(stored.len(), 1 + broken.len());
    for (digit, bytes, words) in broken {
        let reason = stored.iter().find_map(|stored| match stored {
            Stored::Broken { id: found, reason } if *found == id(digit) => Some(reason),
            _ => None,
        });
        let reason = reason.expect("it is told");
        assert!(reason.contains(words) && reason.contains("jobs/"), "{reason}");
        assert_eq!(fs::read(store.path(id(digit).as_str())).expect("it is there"), bytes);
    }
    assert!(!half.exists() && folder.path().join("jobs/readme.txt").exists());
}

#[test]
fn a_plan_of_another_release_is_one_jobs_trouble() {
    let mut one = record(&id('1'), 1);
    one.graph["nodes"] = serde_json::json!([{ "spec": "telepathy" }]);
    let reason = one.graph().expect_err("unknown");
    assert!(reason.contains("planned by tidegate") && reason.contains("Submit its script again"), "{reason}");
}

#[test]
fn only_so_many_ended_jobs_are_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = JobStore::open(folder.path(), 2).expect("it opens");
    store.put(record(&id('0'), 0)).expect("written");
    for (digit, at) in [('1', 40), ('2', 30), ('3', 50)] {
        store.put(record(&id(digit), at)).expect("written");
        store.ended(&ended(&id(digit), JobStatus::Canceled, at)).expect("written");
    }
    let left = |digit| store.path(id(digit).as_str()).exists();
    assert_eq!(['0', '1', '2', '3'].map(left), [true, true, false, true], "the one that ended first goes");
}
