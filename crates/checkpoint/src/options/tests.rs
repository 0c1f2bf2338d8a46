use tidegate_api::config::Configuration;

use super::*;

fn config(pairs: &[(&str, &str)]) -> Configuration {
    let mut config = Configuration::default();
    for (key, value) in pairs {
        config.set(*key, *value);
    }
    config
}

fn read(pairs: &[(&str, &str)]) -> CheckpointOptions {
    CheckpointOptions::from_config(&config(pairs)).expect("good options")
}

#[test]
fn defaults_are_flinks() {
    let options = read(&[]);
    assert_eq!(
        options,
        CheckpointOptions {
            interval_ms: None,
            mode: Mode::ExactlyOnce,
            timeout_ms: 600_000,
            min_pause_ms: 0,
            max_concurrent: 1,
            tolerable_failures: 0,
            unaligned: false,
            aligned_timeout_ms: 0,
            storage: StorageKind::JobManager,
            dir: None,
            create_subdir: true,
            savepoint_dir: None,
            num_retained: 1,
            retention: Retention::NoExternalized,
            backend: Backend::HashMap,
            managed_bytes: 512 << 20,
            incremental: false,
            restore: None,
            s3: S3Options::default(),
            history: 10,
            without_effect: Vec::new(),
        }
    );
    assert!(!options.is_enabled());
}

#[test]
fn old_names_are_read_and_new_ones_win() {
    let options = read(&[
        ("state.checkpoints.dir", "file:///old"),
        ("state.savepoints.dir", "file:///sp"),
        ("state.checkpoints.num-retained", "3"),
        ("state.backend", "rocksdb"),
        ("state.backend.incremental", "true"),
        ("execution.checkpointing.unaligned", "true"),
        ("execution.checkpointing.alignment-timeout", "2 s"),
        ("execution.savepoint.path", "file:///sp/savepoint-1"),
        ("execution.savepoint-restore-mode", "claim"),
        ("execution.savepoint.ignore-unclaimed-state", "true"),
    ]);
    assert_eq!((options.dir.as_deref(), options.savepoint_dir.as_deref()), (Some("file:///old"), Some("file:///sp")));
    assert_eq!((options.num_retained, options.backend, options.incremental), (3, Backend::Disk, true));
    assert_eq!((options.storage, options.alignment()), (StorageKind::FileSystem, Alignment::Timeout(2_000)));
    let path = "file:///sp/savepoint-1".to_owned();
    assert_eq!(options.restore, Some(RestoreOptions { path, claim: ClaimMode::Claim, allow_non_restored: true }));
    let both = [("state.checkpoints.dir", "old"), ("execution.checkpointing.dir", "new")];
    assert_eq!(read(&both).dir.as_deref(), Some("new"));
}

#[test]
fn settings_of_the_coordinator_follow() {
    let settings = read(&[
        ("execution.checkpointing.interval", "10 s"),
        ("execution.checkpointing.min-pause", "5 s"),
        ("execution.checkpointing.max-concurrent-checkpoints", "3"),
        ("execution.checkpointing.mode", "at-least-once"),
    ])
    .settings();
    assert_eq!((settings.interval_ms, settings.max_concurrent), (Some(10_000), 1));
    assert_eq!(settings.alignment, Alignment::AtLeastOnce);
    let unaligned = read(&[("execution.checkpointing.unaligned.enabled", "true")]);
    assert_eq!(unaligned.alignment(), Alignment::Unaligned);
    assert_eq!(read(&[("execution.checkpointing.interval", "0")]).interval_ms, None);
}

#[test]
fn wrong_values_name_key_and_reason() {
    for (pairs, words) in [
        (&[("execution.checkpointing.interval", "5 ms")][..], "larger than or equal to 10 ms"),
        (&[("execution.checkpointing.interval", "soon")], "'soon' for key 'execution.checkpointing.interval'"),
        (&[("execution.checkpointing.timeout", "1 ms")], "at least 10 ms"),
        (&[("execution.checkpointing.mode", "TWICE")], "EXACTLY_ONCE, AT_LEAST_ONCE"),
        (&[("execution.checkpointing.max-concurrent-checkpoints", "0")], "between 1"),
        (&[("state.checkpoints.num-retained", "0")], "'state.checkpoints.num-retained' is 0"),
        (&[("execution.checkpointing.storage", "filesystem")], "execution.checkpointing.dir"),
        (
            &[("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")],
            "no checkpoint directory",
        ),
        (&[("state.backend.type", "forst")], "'hashmap' or 'rocksdb'"),
        (&[("state.backend.type", "tape")], "HASHMAP, ROCKSDB, DISK"),
        (&[("execution.state-recovery.claim-mode", "LEGACY")], "Use 'NO_CLAIM' or 'CLAIM'"),
        (&[("execution.checkpointing.checkpoints-after-tasks-finish", "false")], "never be committed"),
        (&[("execution.checkpointing.interval-during-backlog", "1 min")], "backlog"),
        (&[("state.changelog.enabled", "true")], "no changelog"),
        (
            &[("execution.checkpointing.unaligned", "true"), ("execution.checkpointing.mode", "AT_LEAST_ONCE")],
            "EXACTLY_ONCE",
        ),
        (
            &[
                ("execution.checkpointing.unaligned", "true"),
                ("execution.checkpointing.max-concurrent-checkpoints", "2"),
            ],
            "can't be > 1",
        ),
    ] {
        let error = CheckpointOptions::from_config(&config(pairs)).expect_err("refused");
        assert!(error.message.contains(words), "{} lacks {words}", error.message);
    }
}

#[test]
fn what_has_no_effect_is_named() {
    let options = read(&[
        ("execution.checkpointing.write-buffer-size", "4096"),
        ("state.backend.rocksdb.block.blocksize", "8 kb"),
        ("state.backend.rocksdb.writebuffer.size", "8 mb"),
        ("state.changelog.enabled", "false"),
        ("execution.checkpointing.checkpoints-after-tasks-finish", "true"),
    ]);
    assert_eq!(options.without_effect, ["execution.checkpointing.write-buffer-size", "state.backend.rocksdb.*"]);
}

#[test]
fn retention_follows_flinks_table() {
    use JobEnd::{Canceled, Failed, Finished, Suspended};
    let kept = |retention: Retention| [Finished, Canceled, Failed, Suspended].map(|end| retention.keeps(end));
    assert_eq!(kept(Retention::NoExternalized), [false; 4]);
    assert_eq!(kept(Retention::DeleteOnCancellation), [false, false, true, false]);
    assert_eq!(kept(Retention::RetainOnCancellation), [false, true, true, true]);
}

#[test]
fn a_default_folder_is_for_jobs_that_name_none_and_want_one() {
    let dir = |pairs: &[(&str, &str)]| {
        let mut config = config(pairs);
        default_dir(&mut config, "/default");
        CheckpointOptions::from_config(&config).expect("good options").dir
    };
    assert_eq!(dir(&[]).as_deref(), Some("/default"));
    assert_eq!(dir(&[("state.checkpoint-storage", "filesystem")]).as_deref(), Some("/default"));
    assert_eq!(dir(&[("state.checkpoints.dir", "/own")]).as_deref(), Some("/own"));
    assert_eq!(dir(&[("execution.checkpointing.storage", "JobManager")]), None);
}

#[test]
fn s3_is_reached_by_flinks_keys() {
    let all = read(&[
        ("s3.endpoint", "http://localhost:9000"),
        ("s3.access-key", "who"),
        ("s3.secret-key", "hunter2"),
        ("s3.path.style.access", "true"),
    ]);
    let keys = S3Keys { access: "who".into(), secret: "hunter2".into(), session: None };
    let endpoint = Some("http://localhost:9000".to_owned());
    assert_eq!(all.s3, S3Options { endpoint, region: None, keys: Some(keys), path_style: Some(true) });
    assert!(!format!("{all:?}").contains("hunter2"), "secrets are not printed");
    // As Hadoop's client reads it.
    assert_eq!(read(&[("s3.endpoint", "minio:9000")]).s3.endpoint.as_deref(), Some("https://minio:9000"));
    for one in [("s3.access.key", "who"), ("s3.secret-key", "hunter2")] {
        let said = CheckpointOptions::from_config(&config(&[one])).expect_err("half of the keys").to_string();
        assert!(said.contains("set both or none") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn defaults_are_added_and_what_a_job_sets_wins_under_whatever_name() {
    let defaults = config(&[
        ("execution.checkpointing.dir", "file:///process"),
        ("state.savepoints.dir", "file:///sp"),
        ("execution.checkpointing.interval", "10 s"),
        ("rest.port", "8081"),
    ]);
    let mut job = config(&[("state.checkpoints.dir", "file:///job"), ("execution.checkpointing.interval", "1 s")]);
    add_defaults(&mut job, &defaults);
    let options = CheckpointOptions::from_config(&job).expect("good options");
    assert_eq!((options.dir.as_deref(), options.interval_ms), (Some("file:///job"), Some(1000)));
    assert_eq!(options.savepoint_dir.as_deref(), Some("file:///sp"));
    assert_eq!(job.get("rest.port"), Some("8081"));
}
