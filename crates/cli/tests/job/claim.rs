//! Whose a snapshot is after a restore.

use tidegate_testing::wait_for;

use crate::common::run_sql;
use crate::rig::{LIMIT, Process, broker, kafka_table, local, send, tree};

struct Case {
    cluster: Process,
    topic: String,
}

impl Case {
    fn new(stem: &str) -> Case {
        Case { cluster: Process::standalone(&[]), topic: broker().new_topic(stem, 1) }
    }

    fn script(&self, retained: usize) -> String {
        format!(
            "SET 'execution.checkpointing.interval' = '50 ms';
             SET 'execution.checkpointing.dir' = '{}';
             SET 'execution.checkpointing.num-retained' = '{retained}';
             SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';\n",
            self.cluster.path("checkpoints").display()
        ) + &kafka_table("b", "f1 BIGINT", &self.topic)
            + "CREATE TABLE sums (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
               INSERT INTO sums SELECT f1 % 7, SUM(f1) FROM b GROUP BY f1 % 7;"
    }

    /// A savepoint of a job that has read something.
    fn savepoint(&self) -> String {
        send(&self.topic, 0..100);
        let job = self.cluster.submit(&self.script(1), &[]);
        self.cluster.wait_for_state(&job, "RUNNING");
        self.cluster.next_checkpoint(&job);
        let folder = self.cluster.path("savepoints");
        self.cluster.savepoint(&["stop", &job, "-p", folder.to_str().expect("text")])
    }

    /// Whether the script would go on from there.
    #[track_caller]
    fn goes_on_from(&self, path: &str) {
        let plan = run_sql(&self.script(1), &["--dry-run", "-s", path], LIMIT);
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        assert!(plan.stdout.contains("group_aggregate(sums): kept"), "{}", plan.stdout);
    }
}

#[test]
fn a_claimed_savepoint_goes_when_it_is_subsumed() {
    let case = Case::new("claimed");
    let path = case.savepoint();
    assert!(!tree(&local(&path)).is_empty());
    let job = case.cluster.submit(&case.script(1), &["-s", &path, "--claim-mode", "CLAIM"]);
    case.cluster.wait_for_state(&job, "RUNNING");
    let gone = wait_for(LIMIT, || (!local(&path).join("_metadata").exists()).then_some(()));
    assert!(gone.is_some(), "{:?}", tree(&local(&path)).keys());
    send(&case.topic, 100..200);
    case.cluster.next_checkpoint(&job);
    assert_eq!(case.cluster.job(&["cancel", &job]).code, Some(0));
    case.cluster.wait_for_state(&job, "CANCELED");
    let history = case.cluster.get(&format!("/jobs/{job}/checkpoints"));
    let records = history["history"].as_array().expect("a list").iter();
    let kept = records.filter(|record| record["status"] == "COMPLETED" && record["discarded"] == false);
    assert_eq!(kept.count(), 1, "the last is kept, and the ones before are not: {history}");
    case.goes_on_from(history["latest"]["completed"]["external_path"].as_str().expect("a path"));
}

#[test]
fn a_savepoint_that_is_not_claimed_is_nobodys_to_change() {
    let case = Case::new("unclaimed");
    let path = case.savepoint();
    let before = tree(&local(&path));
    // NO_CLAIM is the default.
    let job = case.cluster.submit(&case.script(1000), &["-s", &path]);
    case.cluster.wait_for_state(&job, "RUNNING");
    case.cluster.next_checkpoint(&job);
    let history = case.cluster.get(&format!("/jobs/{job}/checkpoints"));
    assert_eq!(history["latest"]["restored"]["is_savepoint"], true);
    assert_eq!(history["latest"]["restored"]["external_path"], path.as_str());
    assert_eq!(case.cluster.job(&["cancel", &job]).code, Some(0));
    case.cluster.wait_for_state(&job, "CANCELED");
    assert_eq!(tree(&local(&path)), before);

    // The first checkpoint stands by itself.
    let folder = case.cluster.path("checkpoints").join(&job);
    let ids = std::fs::read_dir(&folder).expect("checkpoints").flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_string_lossy().strip_prefix("chk-")?.parse::<u64>().ok());
    let first = ids.min().expect("a checkpoint");
    std::fs::remove_dir_all(local(&path)).expect("the savepoint goes");
    case.goes_on_from(&folder.join(format!("chk-{first}")).to_string_lossy());
}

#[test]
fn a_claimed_savepoint_survives_a_job_that_never_ran() {
    let case = Case::new("refused");
    let path = case.savepoint();
    let before = tree(&local(&path));
    let changed = case.script(1).replace("SUM(f1)", "MAX(f1)");
    let refused = run_sql(&changed, &["-s", &path, "--claim-mode", "CLAIM"], LIMIT);
    assert!(refused.code.is_some_and(|code| code != 0), "{}", refused.stdout);
    let dry = run_sql(&case.script(1), &["-s", &path, "--claim-mode", "claim", "--dry-run"], LIMIT);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert_eq!(tree(&local(&path)), before);
}
