//! P57: a savepoint that fails ends no job, and checkpoints that do not complete are told of.

use tidegate_testing::wait_for;

use crate::rig::{LIMIT, PROMPT, Process, broker, expect_lines, kafka_table, local, often, row, send};

struct Case {
    cluster: Process,
    topic: String,
    job: String,
}

impl Case {
    /// A job that copies numbers from a topic to files.
    fn new(stem: &str) -> Case {
        let (cluster, topic) = (Process::standalone(&[]), broker().new_topic(stem, 1));
        let mut case = Case { cluster, topic, job: String::new() };
        case.job = case.submit("", &[]);
        send(&case.topic, 0..10);
        expect_lines(&case.cluster.path("out"), (0..10).map(row));
        case
    }

    fn submit(&self, more: &str, arguments: &[&str]) -> String {
        let script = often(self.cluster.folder.path())
            + more
            + &kafka_table("b", "f1 BIGINT", &self.topic)
            + &format!(
                "CREATE TABLE a (f1 BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', {PROMPT});
                 INSERT INTO a SELECT f1 FROM b;",
                self.cluster.path("out").display()
            );
        let job = self.cluster.submit(&script, arguments);
        self.cluster.wait_for_state(&job, "RUNNING");
        job
    }
}

#[test]
fn a_job_whose_savepoint_fails_runs_on() {
    for drain in [false, true] {
        let case = Case::new(if drain { "drained" } else { "suspended" });
        let in_the_way = case.cluster.path("file");
        std::fs::write(&in_the_way, "not a folder").expect("a file");
        let in_the_way = in_the_way.to_str().expect("text");
        let mut arguments = vec!["stop", &case.job, "-p", in_the_way];
        if drain {
            arguments.push("--drain");
        }
        let failed = case.cluster.job(&arguments);
        assert_eq!(failed.code, Some(1), "{}", failed.stdout);
        assert!(!failed.stdout.contains("completed"), "{}", failed.stdout);
        assert!(
            failed.stderr.contains("Savepoint failed") && failed.stderr.contains("/file/savepoint-"),
            "{}",
            failed.stderr
        );

        case.cluster.wait_for_state(&case.job, "RUNNING");
        send(&case.topic, 10..20);
        expect_lines(&case.cluster.path("out"), (0..20).map(row));
        assert_eq!(std::fs::read_to_string(in_the_way).expect("it is there"), "not a folder");
        let folder = case.cluster.path("savepoints");
        let path = case.cluster.savepoint(&["stop", &case.job, "-p", folder.to_str().expect("text")]);
        assert!(local(&path).join("_metadata").exists());
        assert_eq!(case.cluster.state(&case.job), "FINISHED");
        expect_lines(&case.cluster.path("out"), (0..20).map(row));
    }
}

#[test]
fn after_a_restore_somebody_says_that_no_checkpoint_completes() {
    let case = Case::new("silent");
    let folder = case.cluster.path("savepoints");
    let path = case.cluster.savepoint(&["stop", &case.job, "-p", folder.to_str().expect("text")]);
    let checkpoints = case.cluster.path("gone");
    let settings = format!(
        "SET 'execution.checkpointing.dir' = '{}';
         SET 'execution.checkpointing.interval' = '1 s';
         SET 'execution.checkpointing.tolerable-failed-checkpoints' = '1000000';",
        checkpoints.display()
    );
    let job = case.submit(&settings, &["-s", &path]);
    case.cluster.next_checkpoint(&job);
    let told = || case.cluster.process.errors().matches("No checkpoint has completed for three intervals").count();
    let before = told();
    // A file in the place of the folder: nothing can be stored there any more.
    let replaced = wait_for(LIMIT, || {
        let _ = std::fs::remove_dir_all(&checkpoints);
        std::fs::write(&checkpoints, "").ok()
    });
    assert!(replaced.is_some());
    let said = wait_for(LIMIT, || (told() > before).then_some(()));
    assert!(said.is_some(), "{}", case.cluster.process.errors());
    assert_eq!(case.cluster.state(&job), "RUNNING");
    let failed = &case.cluster.get(&format!("/jobs/{job}/checkpoints"))["latest"]["failed"];
    assert!(failed["failure_message"].as_str().is_some_and(|m| m.contains("gone")), "{failed}");
}
