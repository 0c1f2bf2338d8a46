//! What a killed process leaves in the folder for temporary files.

use std::path::{Path, PathBuf};

use crate::standalone::{Standalone, broker};

const SCRIPT: &str = "SET 'execution.checkpointing.interval' = '100 ms';
    CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
    CREATE TABLE o (id BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO o SELECT id FROM n;";

/// Working folders of jobs below `dir` whose names have this process id.
fn of(dir: &Path, pid: u32) -> Vec<PathBuf> {
    let prefix = format!("tidegate-{pid}-");
    let entries = std::fs::read_dir(dir).expect("a folder").flatten();
    entries
        .map(|e| e.path())
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
        .collect()
}

#[test]
fn folders_of_killed_processes_are_swept_and_no_others() {
    // All of these processes have the same folder for temporary files.
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let killed = Standalone::start(dir);
    let job = killed.submit(SCRIPT);
    killed.wait_for_state(&job, "RUNNING");
    let pid = killed.pid();
    assert_eq!(of(dir, pid).len(), 1);
    drop(killed);
    assert_eq!(of(dir, pid).len(), 1, "nobody could tidy up");

    let alive = Standalone::start(dir);
    alive.wait_for_state(&job, "RUNNING");
    alive.wait("the sweeping", || of(dir, pid).is_empty().then_some(()));
    let own = of(dir, alive.pid());
    assert_eq!(own.len(), 1, "{own:?}");
    // Another process sweeps the same folder, and leaves alone what is in use: its own job has to have a folder,
    // which is made after the sweeping.
    let script = dir.join("job.sql");
    let bounded = SCRIPT.replace("'rows-per-second' = '100'", "'number-of-rows' = '1000'");
    std::fs::write(&script, bounded).expect("written");
    let ran = std::process::Command::new(tidegate_testing::process::binary(env!("CARGO_BIN_EXE_tidegate")))
        .args(["run", script.to_str().expect("UTF-8")])
        .env("TMPDIR", dir)
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(of(dir, alive.pid()), own);
}

#[test]
fn what_a_sink_without_checkpoints_had_staged_is_swept_too() {
    let (kafka, folder) = (broker(), tempfile::tempdir().expect("a folder"));
    let (dir, topic) = (folder.path(), kafka.new_topic("rows", 1));
    let script = format!(
        "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
         CREATE TABLE o (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
           'properties.bootstrap.servers' = '{}', 'sink.delivery-guarantee' = 'exactly-once',
           'sink.transactional-id-prefix' = '{topic}');
         INSERT INTO o SELECT id FROM n;",
        kafka.bootstrap()
    );
    let killed = Standalone::start(dir);
    let job = killed.submit(&script);
    let pid = killed.pid();
    killed.wait("staged rows", || holds_segment(of(dir, pid).first()?).then_some(()));
    drop(killed);

    let alive = Standalone::start(dir);
    alive.wait_for_state(&job, "RUNNING");
    let others = || {
        let names =
            std::fs::read_dir(dir).expect("a folder").flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|n| n.starts_with("tidegate-") && !n.starts_with(&format!("tidegate-{}-", alive.pid()))).count()
    };
    alive.wait("the sweeping", || (others() == 0).then_some(()));
}

/// Whether rows are staged somewhere below a folder.
fn holds_segment(folder: &PathBuf) -> bool {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("segment-") || holds_segment(&entry.path()))
}
