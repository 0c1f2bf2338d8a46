//! Snapshots that cannot be used: what is wrong, where, and what to do; and nothing is changed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testing::wait_for;

use crate::common::{binary, run_sql};
use crate::rig::{LIMIT, Process, broker, kafka_table, local, often, send, tree};

/// A savepoint, and the script it is of.
struct Good {
    cluster: Process,
    script: String,
    savepoint: PathBuf,
}

impl Good {
    fn new() -> Good {
        let (cluster, topic) = (Process::standalone(&[]), broker().new_topic("broken", 1));
        let script = often(cluster.folder.path())
            + &kafka_table("b", "f1 BIGINT", &topic)
            + "CREATE TABLE sums (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
               INSERT INTO sums SELECT f1, SUM(f1) FROM b GROUP BY f1;";
        send(&topic, 0..1000);
        let job = cluster.submit(&script, &[]);
        cluster.wait_for_state(&job, "RUNNING");
        // A checkpoint may come before the first row.
        let has_state = || tree(&cluster.path("checkpoints")).keys().any(|name| name.contains("/shared/"));
        assert!(wait_for(LIMIT, || has_state().then_some(())).is_some(), "{}", cluster.process.errors());
        let folder = cluster.path("savepoints");
        let savepoint = local(&cluster.savepoint(&["stop", &job, "-p", folder.to_str().expect("text")]));
        Good { cluster, script, savepoint }
    }

    /// A copy of the savepoint, to be broken.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.cluster.path(name);
        std::fs::create_dir_all(&copy).expect("a folder");
        for (file, bytes) in tree(&self.savepoint) {
            std::fs::write(copy.join(file), bytes).expect("a file");
        }
        copy
    }

    /// A start and a dry run are refused alike, and say these words.
    #[track_caller]
    fn refused(&self, path: &str, words: &[&str]) {
        for arguments in [&["-s", path][..], &["-s", path, "--dry-run"]] {
            let ran = run_sql(&self.script, arguments, LIMIT);
            assert!(matches!(ran.code, Some(1 | 2)), "{arguments:?}: {:?} {}{}", ran.code, ran.stdout, ran.stderr);
            for word in words {
                assert!(ran.stderr.contains(word), "{arguments:?}: no '{word}' in: {}", ran.stderr);
            }
        }
    }

    /// The same for a broken copy, in which nothing changes.
    #[track_caller]
    fn refused_untouched(&self, folder: &Path, words: &[&str]) {
        let before = tree(folder);
        let mut all = vec![folder.to_str().expect("text")];
        all.extend(words);
        self.refused(all[0], &all);
        assert_eq!(tree(folder), before);
    }
}

/// The largest file of state.
fn state_file(folder: &Path) -> PathBuf {
    let files = tree(folder).into_iter().filter(|(name, _)| name != "_metadata");
    let (name, _) = files.max_by_key(|(_, bytes)| bytes.len()).expect("state has files");
    folder.join(name)
}

#[test]
fn a_manifest_that_cannot_be_read_is_told() {
    let good = Good::new();
    let bytes = std::fs::read(good.savepoint.join("_metadata")).expect("a manifest");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let flink = [&[0x49, 0x60, 0x67, 0x2d][..], &[0; 60]].concat();
    let mut newer = bytes.clone();
    newer[8] = 99;
    for (name, content, words) in [
        ("cut", bytes[..bytes.len() / 2].to_vec(), &["truncated", "Use another checkpoint"][..]),
        ("flipped", flipped, &["corrupt", "Use another checkpoint"]),
        ("empty", Vec::new(), &["not a checkpoint of Tidegate", "empty"]),
        ("flink", flink, &["snapshot of Apache Flink", "start the job without it"]),
        ("newer", newer, &["version 99", "newer engine"]),
        ("text", b"hello, this is no checkpoint".to_vec(), &["not a checkpoint of Tidegate", "Name the folder"]),
    ] {
        let folder = good.copy(name);
        std::fs::write(folder.join("_metadata"), content).expect("a manifest");
        good.refused_untouched(&folder, &[&["_metadata"], words].concat());
    }
}

#[test]
fn a_place_that_is_no_snapshot_is_told() {
    let good = Good::new();
    let without = good.copy("without");
    std::fs::remove_file(without.join("_metadata")).expect("it was there");
    good.refused_untouched(&without, &["Cannot find meta data file '_metadata'", "not complete"]);
    let nowhere = good.cluster.path("nowhere");
    good.refused(nowhere.to_str().expect("text"), &["Cannot find meta data file '_metadata'", "check the path"]);
    let above = good.savepoint.parent().expect("a folder").to_owned();
    good.refused_untouched(&above, &["Cannot find meta data file '_metadata'", "name one of them", "savepoint-"]);
    let file = good.cluster.path("file.txt");
    std::fs::write(&file, "text").expect("a file");
    good.refused(file.to_str().expect("text"), &["file.txt", "is a file"]);
    good.refused("ftp://host/a", &["scheme 'ftp' is not supported"]);
}

#[test]
fn state_that_is_missing_or_damaged_is_told() {
    let good = Good::new();
    let missing = good.copy("missing");
    let gone = state_file(&missing);
    std::fs::remove_file(&gone).expect("it was there");
    let name = gone.file_name().expect("a name").to_str().expect("text");
    good.refused_untouched(&missing, &["incomplete", name, "Use another checkpoint"]);

    let cut = good.copy("cut-state");
    let file = state_file(&cut);
    let bytes = std::fs::read(&file).expect("bytes");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("a file");
    good.refused_untouched(&cut, &["incomplete", name]);

    let damaged = good.copy("damaged-state");
    let file = state_file(&damaged);
    let mut bytes = std::fs::read(&file).expect("bytes");
    bytes[100] ^= 1;
    std::fs::write(&file, &bytes).expect("a file");
    let before = tree(&damaged);
    let (file, damaged_at) = (file.to_str().expect("text"), damaged.to_str().expect("text"));
    let (file, snapshot) = (format!("'file:{file}'"), format!("a file of the snapshot 'file:{damaged_at}'"));
    let what = format!("State cannot be read from {file}, {snapshot}");
    good.refused(damaged_at, &["GroupAggregate", &what, "is corrupt", "restore from another checkpoint"]);
    assert_eq!(tree(&damaged), before);

    // What is whole is whole still.
    let plan = run_sql(&good.script, &["--dry-run", "-s", good.savepoint.to_str().expect("text")], LIMIT);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
}

/// Runs the binary as somebody whom the file system can refuse something: root it refuses nothing.
fn as_nobody(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    command.args(arguments);
    if Path::new("/proc/self").metadata().is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("the binary starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_folder_without_permission_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path(), 0o755);
    let (locked, script) = (folder.path().join("locked"), folder.path().join("script.sql"));
    std::fs::create_dir(&locked).expect("a folder");
    std::fs::write(locked.join("_metadata"), "x").expect("a file");
    open(&locked, 0o000);
    let checkpoints = format!("SET 'execution.checkpointing.dir' = '{}';", locked.display());
    let bounded = "CREATE TABLE o (k INT, n BIGINT) WITH ('connector' = 'blackhole');
                   INSERT INTO o SELECT k, COUNT(*) FROM (VALUES (1)) AS t (k) GROUP BY k;";
    let text = format!("SET 'execution.checkpointing.interval' = '10 s'; {checkpoints} {bounded}");
    std::fs::write(&script, text).expect("a script");
    let (script, place) = (script.to_str().expect("text"), locked.to_str().expect("text"));
    let writing = as_nobody(&["run", script]);
    let reading = as_nobody(&["run", script, "-s", place, "--dry-run"]);
    open(&locked, 0o755);
    for (code, said) in [writing, reading] {
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(place) && said.contains("ermission denied"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(locked.join("_metadata")).expect("it is there"), "x");
}
