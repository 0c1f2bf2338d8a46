//! Keys, their old names, and those without effect.

/// A key and the older names it is read under, newest first.
pub(super) struct Key(pub(super) &'static str, pub(super) &'static [&'static str]);

pub(super) const INTERVAL: Key = Key("execution.checkpointing.interval", &[]);
pub(super) const MODE: Key = Key("execution.checkpointing.mode", &[]);
pub(super) const TIMEOUT: Key = Key("execution.checkpointing.timeout", &[]);
pub(super) const MIN_PAUSE: Key = Key("execution.checkpointing.min-pause", &[]);
pub(super) const MAX_CONCURRENT: Key = Key("execution.checkpointing.max-concurrent-checkpoints", &[]);
pub(super) const TOLERABLE: Key = Key("execution.checkpointing.tolerable-failed-checkpoints", &[]);
pub(super) const RETENTION: Key = Key("execution.checkpointing.externalized-checkpoint-retention", &[]);
pub(super) const UNALIGNED: Key =
    Key("execution.checkpointing.unaligned.enabled", &["execution.checkpointing.unaligned"]);
pub(super) const ALIGNED_TIMEOUT: Key =
    Key("execution.checkpointing.aligned-checkpoint-timeout", &["execution.checkpointing.alignment-timeout"]);
pub(super) const STORAGE: Key = Key("execution.checkpointing.storage", &["state.checkpoint-storage"]);
pub(super) const DIR: Key = Key("execution.checkpointing.dir", &["state.checkpoints.dir"]);
pub(super) const SAVEPOINT_DIR: Key =
    Key("execution.checkpointing.savepoint-dir", &["state.savepoints.dir", "savepoints.state.backend.fs.dir"]);
pub(super) const NUM_RETAINED: Key = Key("execution.checkpointing.num-retained", &["state.checkpoints.num-retained"]);
pub(super) const CREATE_SUBDIR: Key =
    Key("execution.checkpointing.create-subdir", &["state.checkpoints.create-subdir"]);
pub(super) const HISTORY: Key = Key("web.checkpoints.history", &[]);
pub(super) const INCREMENTAL: Key = Key("execution.checkpointing.incremental", &["state.backend.incremental"]);
pub(super) const BACKEND: Key = Key("state.backend.type", &["state.backend"]);
pub(super) const MANAGED: Key = Key("taskmanager.memory.managed.size", &[]);
pub(super) const RESTORE_PATH: Key = Key("execution.state-recovery.path", &["execution.savepoint.path"]);
pub(super) const CLAIM_MODE: Key = Key("execution.state-recovery.claim-mode", &["execution.savepoint-restore-mode"]);
pub(super) const IGNORE_UNCLAIMED: Key =
    Key("execution.state-recovery.ignore-unclaimed-state", &["execution.savepoint.ignore-unclaimed-state"]);

pub(super) const S3_ENDPOINT: Key = Key("s3.endpoint", &["fs.s3a.endpoint"]);
pub(super) const S3_REGION: Key = Key("s3.region", &["s3.endpoint.region", "fs.s3a.endpoint.region"]);
pub(super) const S3_ACCESS_KEY: Key = Key("s3.access-key", &["s3.access.key", "fs.s3a.access.key"]);
pub(super) const S3_SECRET_KEY: Key = Key("s3.secret-key", &["s3.secret.key", "fs.s3a.secret.key"]);
pub(super) const S3_SESSION_TOKEN: Key = Key("s3.session-token", &["s3.session.token", "fs.s3a.session.token"]);
pub(super) const S3_PATH_STYLE: Key =
    Key("s3.path-style-access", &["s3.path.style.access", "fs.s3a.path.style.access"]);

/// Keys that are read under several names.
pub(super) const RENAMED: &[&Key] = &[
    &UNALIGNED,
    &ALIGNED_TIMEOUT,
    &STORAGE,
    &DIR,
    &SAVEPOINT_DIR,
    &NUM_RETAINED,
    &CREATE_SUBDIR,
    &INCREMENTAL,
    &BACKEND,
    &RESTORE_PATH,
    &CLAIM_MODE,
    &IGNORE_UNCLAIMED,
    &S3_ENDPOINT,
    &S3_REGION,
    &S3_ACCESS_KEY,
    &S3_SECRET_KEY,
    &S3_SESSION_TOKEN,
    &S3_PATH_STYLE,
];

/// Keys that must keep the value they have, and what another would mean.
pub(super) const FIXED: &[(Key, &str, &str)] = &[
    (
        Key(
            "execution.checkpointing.checkpoints-after-tasks-finish",
            &["execution.checkpointing.checkpoints-after-tasks-finish.enabled"],
        ),
        "true",
        "without checkpoints after the first task has finished, the last rows of a bounded source would never be committed",
    ),
    (
        Key("execution.checkpointing.during-recovery.enabled", &[]),
        "false",
        "checkpoints begin when all tasks have their state back",
    ),
    (
        Key("execution.checkpointing.unaligned.interruptible-timers.enabled", &[]),
        "false",
        "timers that fire at one watermark are not interrupted",
    ),
    (Key("pipeline.sources.pause-until-first-checkpoint", &[]), "false", "sources read from the start"),
    (
        Key("state.changelog.enabled", &["state.backend.changelog.enabled"]),
        "false",
        "there is no changelog backend: both backends write what changed at each checkpoint",
    ),
];

/// Keys that are refused whenever they are set.
pub(super) const REFUSED: &[(&str, &str)] = &[
    (
        "execution.checkpointing.interval-during-backlog",
        "sources do not report a backlog; set 'execution.checkpointing.interval' alone",
    ),
    (
        "execution.state-recovery.without-channel-state.checkpoint-id",
        "dropping what an unaligned barrier overtook would lose rows",
    ),
];

/// Keys that tune how Flink does what is done differently here.
pub(super) const WITHOUT_EFFECT: &[&str] = &[
    "execution.checkpointing.cleaner.parallel-mode",
    "execution.checkpointing.data-inline-threshold",
    "state.storage.fs.memory-threshold",
    "execution.checkpointing.write-buffer-size",
    "state.storage.fs.write-buffer-size",
    "execution.checkpointing.snapshot-compression",
    "execution.checkpointing.unaligned.forced",
    "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
    "execution.checkpointing.unaligned.recover-output-on-downstream.enabled",
    "execution.checkpointing.local-backup.enabled",
    "execution.checkpointing.local-backup.dirs",
    "execution.state-recovery.from-local",
    "execution.state-recovery.approximate-local-recovery",
    "state.backend.local-recovery",
];

/// Prefixes of such keys.
pub(super) const WITHOUT_EFFECT_UNDER: &[(&str, &str)] = &[
    ("execution.checkpointing.file-merging.", "execution.checkpointing.file-merging.*"),
    ("state.backend.rocksdb.", "state.backend.rocksdb.*"),
    ("state.changelog.", "state.changelog.*"),
    ("state.backend.changelog.", "state.backend.changelog.*"),
];
